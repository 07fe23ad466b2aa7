// The buffer of a send is used again, and the send never waited for.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, value, got = 0;
    MPI_Request first, second;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        value = 1;
        MPI_Isend(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &first);
        value = 2;
        MPI_Isend(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &second);
        value = 3;
        MPI_Wait(&second, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("got %d\n", got);
    }
    MPI_Finalize();
    return 0;
}
