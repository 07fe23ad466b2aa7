/* The targets of passive one-sided operations compute or sleep. With "strict" they must be over long before they are done: nobody
 * but their NICs works for them. (A host may be so busy that this does not hold under a plain launcher.) */
#include "check.h"
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int strict = argc > 1 && !strcmp(argv[1], "strict");
    begin(&argc, &argv);
    /* As a whole it is read another way than one number is. */
    enum { LENGTH = 16384 };
    static long long whole[LENGTH];
    long long *memory, value = 0;
    MPI_Win win;
    MPI_Win_allocate(LENGTH * sizeof *memory, sizeof *memory, MPI_INFO_NULL, WORLD, &memory, &win);
    for (int i = 0; i < LENGTH; i++)
        memory[i] = -i;
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    MPI_Barrier(WORLD);
    if (rank == 0) {
        double start = MPI_Wtime();
        for (int i = 1; i < ranks; i++) {
            long long out = 1000 + i;
            MPI_Put(&out, 1, MPI_LONG_LONG, i, 3, 1, MPI_LONG_LONG, win);
            MPI_Win_flush(i, win);
            MPI_Get(&value, 1, MPI_LONG_LONG, i, 3, 1, MPI_LONG_LONG, win);
            MPI_Win_flush(i, win);
            CHECK_EQ(value, 1000 + i);
            out = 2000 + i;
            MPI_Put(&out, 1, MPI_LONG_LONG, i, 5, 1, MPI_LONG_LONG, win);
            MPI_Win_flush(i, win);
            MPI_Get(whole, LENGTH, MPI_LONG_LONG, i, 0, LENGTH, MPI_LONG_LONG, win);
            MPI_Win_flush(i, win);
            CHECK_EQ(whole[2], -2);
            CHECK_EQ(whole[3], 1000 + i);
            CHECK_EQ(whole[5], 2000 + i);
            CHECK_EQ(whole[LENGTH - 1], 1 - LENGTH);
        }
        double taken = MPI_Wtime() - start;
        if (strict)
            CHECK(taken < 0.01);
    } else if (rank % 2) {
        for (volatile long i = 0; i < 50000000; i++)
            ;
    } else {
        usleep(50000);
    }
    MPI_Barrier(WORLD);
    MPI_Win_unlock_all(win);
    CHECK_EQ(memory[3], rank ? 1000 + rank : -3);
    MPI_Win_free(&win);
    /* The same number of checks in both ways. */
    checks_made += !strict && rank == 0;
    return finish("rma_passive");
}
