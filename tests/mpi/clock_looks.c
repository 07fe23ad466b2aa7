/* What it costs to look at the clock. Arguments: "many N": N looks in a row, "wait S": a loop that waits for S seconds by looking.
 * The first rank prints the time that a look took, in ns, and how many there were. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK(argc == 3);
    long looks = 0;
    double start = MPI_Wtime(), now = start;
    if (strcmp(argv[1], "many") == 0) {
        for (; looks < atol(argv[2]); looks++)
            now = MPI_Wtime();
    } else {
        for (; now - start < atof(argv[2]); looks++)
            now = MPI_Wtime();
        CHECK(now - start < 1.001 * atof(argv[2]));
    }
    if (rank == 0)
        printf("looks %ld %.3f\n", looks, (now - start) / (double)looks * 1e9);
    return finish("clock_looks");
}
