/* What it costs to look at the clock. Arguments: "many N": N looks in a row, "wait S": a loop that waits for S seconds by looking.
 * The first rank prints the time that a look took, in ns, and how many there were. Of many it is the median of blocks:
 * what the host does meanwhile falls into some of them. */
#include "check.h"

enum { BLOCKS = 101 };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK(argc == 3);
    long looks = 0;
    double start = MPI_Wtime(), now = start, each;
    if (strcmp(argv[1], "many") == 0) {
        double blocks[BLOCKS];
        for (int block = 0; block < BLOCKS; block++) {
            double before = now;
            long first = looks, end = atol(argv[2]) * (block + 1) / BLOCKS;
            for (; looks < end; looks++)
                now = MPI_Wtime();
            blocks[block] = (now - before) / (double)(looks - first);
        }
        qsort(blocks, BLOCKS, sizeof *blocks, compare);
        each = blocks[BLOCKS / 2];
    } else {
        for (; now - start < atof(argv[2]); looks++)
            now = MPI_Wtime();
        CHECK(now - start < 1.001 * atof(argv[2]));
        each = (now - start) / (double)looks;
    }
    if (rank == 0)
        printf("looks %ld %.3f\n", looks, each * 1e9);
    return finish("clock_looks");
}
