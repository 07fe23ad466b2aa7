// A blocking send of a rank to itself that ends only if MPI keeps a copy of it (argument "alone"), and two that do not
// need one; a lock between two fences ("lock").
#include <mpi.h>
#include <string.h>

static int is(int argc, char **argv, const char *name) { return argc > 1 && !strcmp(argv[1], name); }

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, value = 1, got, *memory;
    MPI_Request request;
    MPI_Win window;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    if (is(argc, argv, "alone")) {
        MPI_Send(&value, 1, MPI_INT, rank, 0, MPI_COMM_WORLD);
        MPI_Recv(&got, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (is(argc, argv, "posted")) {
        MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &request);
        MPI_Send(&value, 1, MPI_INT, rank, 0, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Sendrecv(&value, 1, MPI_INT, rank, 0, &got, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (is(argc, argv, "lock")) {
        MPI_Win_fence(0, window);
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
        MPI_Put(&value, 1, MPI_INT, rank, 0, 1, MPI_INT, window);
        MPI_Win_unlock(rank, window);
        MPI_Win_fence(0, window);
    } else if (is(argc, argv, "between")) {
        MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
        MPI_Put(&value, 1, MPI_INT, rank, 0, 1, MPI_INT, window);
        MPI_Win_unlock(rank, window);
        MPI_Win_fence(MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED, window);
    }
    MPI_Win_free(&window);
    MPI_Finalize();
}
