/* One window for each rank over the same memory: the others work on rank 0's, each through a window of its own, while rank 0 is in a barrier. */
#include "check.h"

enum { EPOCHS = 8, PUTS = 4 };

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    long *memory = allocate(sizeof(long) * (size_t)ranks), *value = allocate(sizeof(long) * PUTS);
    MPI_Win *wins = allocate(sizeof(MPI_Win) * (size_t)ranks);
    memset(memory, 0, sizeof(long) * (size_t)ranks);
    for (int i = 0; i < ranks; i++)
        MPI_Win_create(memory, (MPI_Aint)sizeof(long) * ranks, sizeof(long), MPI_INFO_NULL, WORLD, &wins[i]);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        MPI_Barrier(WORLD);
        if (rank > 0) {
            MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, wins[rank]);
            for (int i = 0; i < PUTS; i++) {
                value[i] = 1000 * epoch + i + rank;
                MPI_Put(&value[i], 1, MPI_LONG, 0, rank, 1, MPI_LONG, wins[rank]);
                MPI_Win_flush(0, wins[rank]);
            }
            MPI_Win_unlock(0, wins[rank]);
        }
        MPI_Barrier(WORLD);
        if (rank == 0) {
            MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, wins[0]);
            for (int i = 1; i < ranks; i++)
                CHECK_EQ(memory[i], 1000 * epoch + PUTS - 1 + i);
            MPI_Win_unlock(0, wins[0]);
        }
    }
    for (int i = 0; i < ranks; i++)
        MPI_Win_free(&wins[i]);
    free(wins);
    free(value);
    free(memory);
    return finish("rma_windows");
}
