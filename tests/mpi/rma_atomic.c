/* Atomic one-sided operations: fetch_and_op, compare_and_swap, get_accumulate; a ticket counter and a spin lock. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    /* All fight for one word: of many ranks each does so less often. */
    const int TURNS = ranks > 16 ? 1 : 5;
    long long *memory;
    MPI_Win win;
    MPI_Win_allocate((MPI_Aint)((TURNS * ranks + 8) * sizeof *memory), sizeof *memory, MPI_INFO_NULL, WORLD, &memory, &win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    for (int i = 0; i < TURNS * ranks + 8; i++)
        memory[i] = 0;
    MPI_Win_unlock(rank, win);
    MPI_Barrier(WORLD);
    MPI_Win_lock_all(0, win);

    /* Tickets: each is given once. Slot 8 + t of rank 0 is marked by the holder of ticket t. */
    const long long one = 1, zero = 0;
    long long ticket, last = -1;
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Fetch_and_op(&one, &ticket, MPI_LONG_LONG, 0, 0, MPI_SUM, win);
        MPI_Win_flush(0, win);
        CHECK(ticket > last && ticket < (long long)TURNS * ranks);
        last = ticket;
        MPI_Accumulate(&one, 1, MPI_LONG_LONG, 0, 8 + (MPI_Aint)ticket, 1, MPI_LONG_LONG, MPI_SUM, win);
        MPI_Win_flush(0, win);
    }
    MPI_Barrier(WORLD);
    if (rank == 0) {
        MPI_Win_sync(win);
        int wrong = memory[0] != (long long)TURNS * ranks;
        for (int i = 0; i < TURNS * ranks; i++)
            wrong += memory[8 + i] != 1;
        CHECK_EQ(wrong, 0);
    }
    MPI_Barrier(WORLD);

    /* Reading atomically does not change anything. */
    MPI_Fetch_and_op(NULL, &ticket, MPI_LONG_LONG, 0, 0, MPI_NO_OP, win);
    MPI_Win_flush(0, win);
    CHECK_EQ(ticket, TURNS * ranks);
    MPI_Barrier(WORLD);

    /* A lock of compare and swap: inside it the counter at 2 grows by a read and a write. The last rank holds the memory. */
    int home = ranks - 1;
    const int holds = ranks > 16 ? 1 : 2;
    for (int turn = 0; turn < holds; turn++) {
        long long mine = rank + 1, found = -1, value;
        do {
            MPI_Compare_and_swap(&mine, &zero, &found, MPI_LONG_LONG, home, 1, win);
            MPI_Win_flush(home, win);
        } while (found != 0);
        MPI_Get(&value, 1, MPI_LONG_LONG, home, 2, 1, MPI_LONG_LONG, win);
        MPI_Win_flush(home, win);
        value++;
        MPI_Put(&value, 1, MPI_LONG_LONG, home, 2, 1, MPI_LONG_LONG, win);
        MPI_Win_flush(home, win);
        MPI_Compare_and_swap(&zero, &mine, &found, MPI_LONG_LONG, home, 1, win);
        MPI_Win_flush(home, win);
        CHECK_EQ(found, mine);
    }
    MPI_Barrier(WORLD);
    long long total = -1;
    MPI_Get(&total, 1, MPI_LONG_LONG, home, 2, 1, MPI_LONG_LONG, win);
    MPI_Win_flush(home, win);
    CHECK_EQ(total, holds * ranks);
    MPI_Barrier(WORLD);

    /* get_accumulate: the values before, seen by all adders, are all different multiples. */
    long long add[3] = {1, 10, 100}, before[3] = {-1, -1, -1};
    MPI_Get_accumulate(add, 3, MPI_LONG_LONG, before, 3, MPI_LONG_LONG, 0, 3, 3, MPI_LONG_LONG, MPI_SUM, win);
    MPI_Win_flush(0, win);
    CHECK(before[0] >= 0 && before[0] < ranks);
    CHECK(before[1] % 10 == 0 && before[2] % 100 == 0);
    long long seen = before[0], sum = 0;
    MPI_Allreduce(&seen, &sum, 1, MPI_LONG_LONG, MPI_SUM, WORLD);
    CHECK_EQ(sum, (long long)ranks * (ranks - 1) / 2);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    return finish("rma_atomic");
}
