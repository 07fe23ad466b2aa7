/* The target of passive one-sided operations sleeps. With "strict" they must be over long before it wakes: nobody but its NIC works
 * for it. (A host may be so busy that this does not hold under a plain launcher.) */
#include "check.h"
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int strict = argc > 1 && !strcmp(argv[1], "strict");
    begin(&argc, &argv);
    long long *memory, value = 0;
    MPI_Win win;
    MPI_Win_allocate(16 * sizeof *memory, sizeof *memory, MPI_INFO_NULL, WORLD, &memory, &win);
    for (int i = 0; i < 16; i++)
        memory[i] = 0;
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
        }
        double taken = MPI_Wtime() - start;
        if (strict)
            CHECK(taken < 0.01);
    } else {
        usleep(50000);
    }
    MPI_Barrier(WORLD);
    MPI_Win_unlock_all(win);
    CHECK_EQ(memory[3], rank ? 1000 + rank : 0);
    MPI_Win_free(&win);
    /* The same number of checks in both ways. */
    checks_made += !strict && rank == 0;
    return finish("rma_passive");
}
