/* A dynamic window: memory is attached after the window was made, addresses travel by message. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    enum { N = 300 };
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks, *memory = allocate(N * sizeof *memory), out[N], wrong = 0;
    MPI_Win win;
    MPI_Aint address, remote;
    MPI_Win_create_dynamic(MPI_INFO_NULL, WORLD, &win);
    MPI_Win_attach(win, memory, N * sizeof(int));
    MPI_Get_address(memory, &address);
    MPI_Sendrecv(&address, 1, MPI_AINT, previous, 0, &remote, 1, MPI_AINT, next, 0, WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < N; i++) {
        memory[i] = -1;
        out[i] = rank * 1000 + i;
    }
    MPI_Win_fence(0, win);
    MPI_Put(out, N, MPI_INT, next, remote, N, MPI_INT, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < N; i++)
        wrong += memory[i] != previous * 1000 + i;
    CHECK_EQ(wrong, 0);
    MPI_Win_detach(win, memory);
    MPI_Win_free(&win);
    free(memory);
    return finish("rma_dynamic");
}
