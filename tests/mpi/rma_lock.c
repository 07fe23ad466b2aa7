/* Passive target: lock/unlock (shared, exclusive), lock_all, flush and flush_local, request-based operations. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    enum { N = 500 };
    int *memory, out[N], in[N], wrong = 0;
    MPI_Win win;
    MPI_Win_allocate((MPI_Aint)((N + ranks) * sizeof(int)), sizeof(int), MPI_INFO_NULL, WORLD, &memory, &win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    for (int i = 0; i < N + ranks; i++)
        memory[i] = 0;
    MPI_Win_unlock(rank, win);
    MPI_Barrier(WORLD);

    /* Everybody puts its rank at its own place of every rank. */
    for (int i = 0; i < ranks; i++) {
        int target = (rank + i) % ranks;
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
        MPI_Put(&rank, 1, MPI_INT, target, N + rank, 1, MPI_INT, win);
        MPI_Win_unlock(target, win);
    }
    MPI_Barrier(WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    for (int r = 0; r < ranks; r++)
        wrong += memory[N + r] != r;
    MPI_Win_unlock(rank, win);
    CHECK_EQ(wrong, 0);
    MPI_Barrier(WORLD);

    /* An exclusive lock protects read, add one, write. */
    for (int turn = 0; turn < 3; turn++) {
        int value;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
        MPI_Win_flush(0, win);
        value++;
        MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    int value = -1;
    MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
    MPI_Win_unlock(0, win);
    CHECK_EQ(value, 3 * ranks);
    MPI_Barrier(WORLD);

    /* lock_all with flushes; requests. */
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    for (int i = 0; i < N; i++)
        out[i] = rank * 1000 + i;
    MPI_Win_lock_all(0, win);
    MPI_Put(out, N, MPI_INT, next, 0, N, MPI_INT, win);
    MPI_Win_flush_local(next, win);
    MPI_Win_flush(next, win);
    MPI_Get(in, N, MPI_INT, next, 0, N, MPI_INT, win);
    MPI_Win_flush_all(win);
    for (int i = 0; i < N; i++)
        wrong += in[i] != out[i];
    CHECK_EQ(wrong, 0);
    MPI_Barrier(WORLD);
    MPI_Win_sync(win);
    for (int i = 0; i < N; i++)
        wrong += memory[i] != previous * 1000 + i;
    CHECK_EQ(wrong, 0);
    MPI_Barrier(WORLD);
    MPI_Request requests[2];
    MPI_Rput(out, N / 2, MPI_INT, next, N / 2, N / 2, MPI_INT, win, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Win_flush(next, win);
    MPI_Rget(in, N / 2, MPI_INT, next, N / 2, N / 2, MPI_INT, win, &requests[1]);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    for (int i = 0; i < N / 2; i++)
        wrong += in[i] != out[i];
    CHECK_EQ(wrong, 0);
    MPI_Raccumulate(out, 10, MPI_INT, next, 0, 10, MPI_INT, MPI_REPLACE, win, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Win_unlock_all(win);

    MPI_Group group;
    int size;
    MPI_Win_get_group(win, &group);
    MPI_Group_size(group, &size);
    CHECK_EQ(size, ranks);
    MPI_Group_free(&group);
    void *base;
    int flag;
    MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag);
    CHECK(flag && base == (void *)memory);
    MPI_Win_free(&win);
    return finish("rma_lock");
}
