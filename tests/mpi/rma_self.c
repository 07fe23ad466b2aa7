/* One-sided operations of a rank on its own memory, while the last rank sleeps and has nothing to do with it: rma_self [strict].
 *
 * `strict`: they do not wait for that rank. */
#include "check.h"
#include <unistd.h>

enum { EPOCHS = 200, OPERATIONS = 50 };

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int strict = argc > 1 && !strcmp(argv[1], "strict");
    int *memory, one = 1, zero = 0, before, wanted = 0;
    MPI_Win win;
    MPI_Win_allocate(OPERATIONS * sizeof(int), sizeof(int), MPI_INFO_NULL, WORLD, &memory, &win);
    memset(memory, 0, OPERATIONS * sizeof(int));
    MPI_Barrier(WORLD);
    double start = MPI_Wtime();
    if (rank == ranks - 1)
        usleep(100000);
    for (int i = 0; i < EPOCHS; i++) {
        MPI_Win_lock(i % 2 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, rank, 0, win);
        if (i % 3 == 0) {
            MPI_Accumulate(&one, 1, MPI_INT, rank, 0, 1, MPI_INT, MPI_SUM, win);
            wanted++;
        }
        MPI_Win_unlock(rank, win);
    }
    CHECK_EQ(memory[0], wanted);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    for (int i = 0; i < EPOCHS; i++) {
        MPI_Fetch_and_op(&one, &before, MPI_INT, rank, 1, MPI_SUM, win);
        MPI_Win_flush(rank, win);
        CHECK_EQ(before, i);
        MPI_Compare_and_swap(&one, &zero, &before, MPI_INT, rank, 2, win);
        MPI_Win_flush_local(rank, win);
        CHECK_EQ(before, i > 0);
    }
    /* Many at once. */
    for (int i = 3; i < OPERATIONS; i++)
        MPI_Accumulate(&rank, 1, MPI_INT, rank, i, 1, MPI_INT, MPI_REPLACE, win);
    MPI_Win_unlock(rank, win);
    for (int i = 3; i < OPERATIONS; i++)
        CHECK_EQ(memory[i], rank);
    CHECK(!strict || rank == ranks - 1 || MPI_Wtime() - start < 0.1);
    MPI_Win_free(&win);
    return finish("rma_self");
}
