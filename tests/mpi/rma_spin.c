/* Ranks that wait for their windows to change without calling MPI: a number that goes round by MPI_Put, long payloads, and stores into
 * memory that the ranks of one node share. */
#include "check.h"

enum { ROUNDS = 5, LONG = 20000 };

static MPI_Win win;

/* Waits for the last word, and counts the words that are wrong. The next number may come as soon as this one was handed on. */
static long long wait_for(volatile long long *memory, int words, int round)
{
    long long wrong = 0;
    while (memory[words - 1] != round)
        ;
    for (int i = 0; i < words; i++)
        wrong += memory[i] != round;
    return wrong;
}

/* Each rank puts the number into the window of the next one, which looks at nothing else. */
static void round_by_put(int words)
{
    long long *out, wrong = 0;
    volatile long long *memory;
    MPI_Win_allocate(words * (MPI_Aint)sizeof(long long), sizeof(long long), MPI_INFO_NULL, WORLD, &memory, &win);
    out = malloc((size_t)words * sizeof *out);
    for (int i = 0; i < words; i++)
        memory[i] = 0;
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    MPI_Barrier(WORLD);
    for (int round = 1; round <= ROUNDS; round++) {
        if (rank > 0)
            wrong += wait_for(memory, words, round);
        for (int i = 0; i < words; i++)
            out[i] = round;
        MPI_Put(out, words, MPI_LONG_LONG, (rank + 1) % ranks, 0, words, MPI_LONG_LONG, win);
        MPI_Win_flush((rank + 1) % ranks, win);
        if (rank == 0)
            wrong += wait_for(memory, words, round);
    }
    CHECK_EQ(wrong, 0);
    MPI_Barrier(WORLD);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    free(out);
}

/* As above among the ranks of one node, by stores; the others do the same on theirs. */
static void round_by_store(void)
{
    MPI_Comm node;
    int me, size, unit;
    MPI_Aint bytes;
    long long *mine;
    MPI_Comm_split_type(WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &me);
    MPI_Comm_size(node, &size);
    MPI_Win_allocate_shared(sizeof *mine, sizeof *mine, MPI_INFO_NULL, node, &mine, &win);
    *mine = 0;
    MPI_Win_lock_all(0, win);
    MPI_Barrier(node);
    void *memory;
    MPI_Win_shared_query(win, 0, &bytes, &unit, &memory);
    volatile long long *number = memory;
    for (int round = 0; round < ROUNDS; round++) {
        while (*number != (long long)round * size + me)
            ;
        *number += 1;
    }
    MPI_Barrier(node);
    CHECK_EQ(*number, (long long)ROUNDS * size);
    MPI_Barrier(node);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Comm_free(&node);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    round_by_put(1);
    round_by_put(LONG);
    round_by_store();
    return finish("rma_spin");
}
