/* Steps of equal work, of which every seventh of a rank takes half as much again, as a busy host makes it: each rank in turn. After each
 * step all ranks wait for the slowest. Arguments: number of steps. The first rank prints how long a step took in
 * simulated time, in units of undisturbed work. Some steps do four times the work, which is no noise. */
#include "check.h"
#include "computing.h"

enum { UNIT = 1000000 }; /* ns of CPU time */
enum { LONG = 16 };      /* every so many steps there is more to do */

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK(argc == 2);
    long steps = atol(argv[1]);
    int one = 1, sum;
    double start = MPI_Wtime();
    for (long step = 0; step < steps; step++) {
        compute_for((long)((step % LONG == LONG - 1 ? 4 : step % 7 == rank ? 1.5 : 1) * UNIT));
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(sum == ranks);
    }
    double took = MPI_Wtime() - start, expected = (steps + 3 * (steps / LONG)) * UNIT * 1e-9;
    if (rank == 0)
        printf("alike %.3f\n", took / expected);
    return finish("compute_alike");
}
