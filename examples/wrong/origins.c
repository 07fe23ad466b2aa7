// One mistake with buffers of the caller each, by name.
#include <mpi.h>
#include <string.h>

static int is(int argc, char **argv, const char *name) { return argc > 1 && !strcmp(argv[1], name); }

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, *memory, a[4] = {0}, b = 0;
    MPI_Win window;
    MPI_Request request;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Win_allocate(8 * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_lock_all(0, window);
    if (is(argc, argv, "gets")) {
        MPI_Get(a, 1, MPI_INT, next, 0, 1, MPI_INT, window);
        MPI_Get(a, 1, MPI_INT, next, 1, 1, MPI_INT, window);
    } else if (is(argc, argv, "put")) {
        // What it writes is not there yet.
        MPI_Get(a, 1, MPI_INT, next, 0, 1, MPI_INT, window);
        MPI_Put(a, 1, MPI_INT, next, 1, 1, MPI_INT, window);
    } else if (is(argc, argv, "fetch")) {
        MPI_Put(a, 1, MPI_INT, next, 2, 1, MPI_INT, window);
        MPI_Fetch_and_op(&b, a, MPI_INT, next, 1, MPI_SUM, window);
    } else if (is(argc, argv, "message")) {
        MPI_Get(a, 1, MPI_INT, next, 0, 1, MPI_INT, window);
        MPI_Sendrecv(a, 1, MPI_INT, next, 0, &b, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (is(argc, argv, "request")) {
        MPI_Irecv(a, 1, MPI_INT, before, 0, MPI_COMM_WORLD, &request);
        MPI_Put(a, 1, MPI_INT, next, 0, 1, MPI_INT, window);
        MPI_Send(&b, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (is(argc, argv, "one_call")) {
        MPI_Sendrecv(a, 2, MPI_INT, next, 0, a + 1, 2, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (is(argc, argv, "fine")) {
        // Each buffer is given back before it is used again, or only read.
        MPI_Get(a, 1, MPI_INT, next, 0, 1, MPI_INT, window);
        MPI_Win_flush_local(next, window);
        MPI_Put(a, 1, MPI_INT, next, 1, 1, MPI_INT, window);
        MPI_Put(a, 1, MPI_INT, next, 2, 1, MPI_INT, window);
        MPI_Win_flush_all(window);
        MPI_Rget(a, 1, MPI_INT, next, 3, 1, MPI_INT, window, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        // It has been read, so it may be written.
        MPI_Rput(a, 1, MPI_INT, next, 3, 1, MPI_INT, window, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Get(a, 1, MPI_INT, next, 4, 1, MPI_INT, window);
        // MPI_NO_OP reads, and its origin buffer is not looked at.
        MPI_Get_accumulate(a, 1, MPI_INT, &b, 1, MPI_INT, next, 4, 1, MPI_INT, MPI_NO_OP, window);
        MPI_Win_flush_local_all(window);
        MPI_Sendrecv(a, 2, MPI_INT, next, 0, a + 2, 2, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv(a + 2, 2, MPI_INT, next, 0, a, 2, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Finalize();
}
