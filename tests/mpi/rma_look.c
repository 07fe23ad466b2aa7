/* Ranks that look at their own windows by one-sided operations until another rank has changed them: each call finds what it asks for in
 * the memory of its own process. */
#include "check.h"

enum { ROUNDS = 5 };

static MPI_Win win;

static long long by_flush(void)
{
    long long zero = 0, found = -1;
    MPI_Fetch_and_op(&zero, &found, MPI_LONG_LONG, rank, 0, MPI_NO_OP, win);
    MPI_Win_flush(rank, win);
    return found;
}

static long long by_lock(void)
{
    long long found = -1;
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    MPI_Get_accumulate(NULL, 0, MPI_LONG_LONG, &found, 1, MPI_LONG_LONG, rank, 0, 1, MPI_LONG_LONG, MPI_NO_OP, win);
    MPI_Win_unlock(rank, win);
    return found;
}

/* MPI_Wait finds the request complete and looks at nothing. */
static long long by_request(void)
{
    long long found = -1;
    MPI_Request request;
    MPI_Rget(&found, 1, MPI_LONG_LONG, rank, 0, 1, MPI_LONG_LONG, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return found;
}

static long long *memory;

static long long by_eye(void)
{
    MPI_Barrier(MPI_COMM_SELF);
    return *(volatile long long *)memory;
}

/* A number goes round: who finds it gives it to the next rank. Put: what the target's MPI library need not help with. */
static void round_by(long long (*look)(void), int locks, int puts)
{
    int next = (rank + 1) % ranks;
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, WORLD, &memory, &win);
    *memory = 0;
    if (!locks)
        MPI_Win_lock_all(0, win);
    MPI_Barrier(WORLD);
    for (long long round = 1; round <= ROUNDS; round++) {
        if (rank > 0) {
            while (look() != round)
                ;
            /* Before it is handed on: the next one may come back before the flush does. */
            CHECK_EQ(look(), round);
        }
        if (locks)
            MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
        if (puts)
            MPI_Put(&round, 1, MPI_LONG_LONG, next, 0, 1, MPI_LONG_LONG, win);
        else
            MPI_Accumulate(&round, 1, MPI_LONG_LONG, next, 0, 1, MPI_LONG_LONG, MPI_REPLACE, win);
        if (locks)
            MPI_Win_unlock(next, win);
        else
            MPI_Win_flush(next, win);
        if (rank == 0) {
            while (look() != round)
                ;
            CHECK_EQ(look(), round);
        }
    }
    MPI_Barrier(WORLD);
    if (!locks)
        MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    round_by(by_flush, 0, 0);
    round_by(by_lock, 1, 0);
    round_by(by_request, 0, 1);
    round_by(by_eye, 0, 1);
    return finish("rma_look");
}
