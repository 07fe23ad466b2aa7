// Messages that nobody sends, by name: each ends in a deadlock.
#include <mpi.h>
#include <string.h>

int main(int argc, char **argv) {
    int rank, size, number = 0, other = 0;
    MPI_Request request[2];
    MPI_Comm twin;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    const char *name = argc > 1 ? argv[1] : "tag";
    if (!strcmp(name, "tag")) {
        if (rank == 0)
            MPI_Send(&number, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
        if (rank == 1)
            MPI_Recv(&number, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (!strcmp(name, "communicator")) {
        if (rank == 0)
            MPI_Send(&number, 1, MPI_INT, 1, 5, twin);
        if (rank == 1) {
            MPI_Irecv(&number, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &request[0]);
            MPI_Wait(&request[0], MPI_STATUS_IGNORE);
        }
    } else if (!strcmp(name, "rank")) {
        if (rank == 2)
            MPI_Send(&number, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
        if (rank == 1) {
            MPI_Irecv(&number, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &request[0]);
            MPI_Wait(&request[0], MPI_STATUS_IGNORE);
        }
    } else if (!strcmp(name, "nothing") && rank == 1) {
        MPI_Irecv(&number, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &request[0]);
        MPI_Irecv(&other, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, twin, &request[1]);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    }
    MPI_Comm_free(&twin);
    MPI_Finalize();
}
