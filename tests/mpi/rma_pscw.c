/* One-sided communication with post, start, complete, wait and test: each rank exposes to its left, accesses its right. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    enum { N = 600 };
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks, *memory = allocate(N * sizeof *memory), out[N], in[N];
    MPI_Win win;
    MPI_Group world, left, right;
    MPI_Win_create(memory, N * sizeof(int), sizeof(int), MPI_INFO_NULL, WORLD, &win);
    MPI_Comm_group(WORLD, &world);
    MPI_Group_incl(world, 1, &previous, &left);
    MPI_Group_incl(world, 1, &next, &right);
    for (int turn = 0; turn < 6; turn++) {
        int wrong = 0, done = 0, n = turn % 2 ? N : 5;
        for (int i = 0; i < N; i++) {
            memory[i] = rank * 1000 + i;
            out[i] = rank * 1000 + turn * 10000000 + i;
            in[i] = -1;
        }
        MPI_Win_post(left, 0, win);
        MPI_Win_start(right, 0, win);
        if (turn < 4)
            MPI_Put(out, n, MPI_INT, next, 0, n, MPI_INT, win);
        else
            MPI_Get(in, n, MPI_INT, next, 0, n, MPI_INT, win);
        MPI_Win_complete(win);
        if (turn % 2)
            MPI_Win_wait(win);
        else
            while (!done)
                MPI_Win_test(win, &done);
        for (int i = 0; i < n; i++)
            if (turn < 4)
                wrong += memory[i] != previous * 1000 + turn * 10000000 + i;
            else
                wrong += in[i] != next * 1000 + i;
        CHECK_EQ(wrong, 0);
    }
    MPI_Group_free(&left);
    MPI_Group_free(&right);
    MPI_Group_free(&world);
    MPI_Win_free(&win);
    free(memory);
    return finish("rma_pscw");
}
