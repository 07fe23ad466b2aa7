/* Steps of the same instructions. Prints the CPU time that the first rank has used for them, by the kernel, and the
 * simulated time that they took, in ms. Arguments: number of steps. */
#include "check.h"
#include "computing.h"

enum { LOOPS = 300000 }; /* half a millisecond or so */

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK(argc == 2);
    long steps = atol(argv[1]), cpu = 0;
    double simulated = 0;
    int one = 1, sum;
    for (long step = 0; step < steps; step++) {
        double start = MPI_Wtime();
        long used = cpu_time();
        volatile double x = 1;
        for (int i = 0; i < LOOPS; i++)
            x = x * 1.0000001 + 1e-9;
        cpu += cpu_time() - used;
        simulated += MPI_Wtime() - start;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(sum == ranks);
    }
    if (rank == 0)
        printf("instructions cpu %.3f simulated %.3f\n", cpu / 1e6, simulated * 1e3);
    return finish("instructions");
}
