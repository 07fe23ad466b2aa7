// A collective that some rank never calls, by name.
#include <mpi.h>
#include <string.h>

int main(int argc, char **argv) {
    int rank, number = 0, all[64];
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *name = argc > 1 ? argv[1] : "bcast";
    if (!strcmp(name, "bcast") && rank == 0) {
        // The root does not wait for anybody.
        MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
    } else if (!strcmp(name, "reduce") && rank != 0) {
        MPI_Reduce(&number, all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    } else if (!strcmp(name, "igather") && rank != 0) {
        MPI_Igather(&number, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (!strcmp(name, "barrier") && rank == 0) {
        // And here it waits for all.
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
}
