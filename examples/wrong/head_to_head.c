// Both ranks send first: it works as long as the MPI library keeps a copy of the message.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, mine[256] = {0}, theirs[256];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank < 2) {
        MPI_Send(mine, 256, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD);
        MPI_Recv(theirs, 256, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank == 0)
        printf("done\n");
    MPI_Finalize();
    return 0;
}
