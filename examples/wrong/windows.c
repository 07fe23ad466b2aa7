// One mistake with windows each, by name.
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int is(int argc, char **argv, const char *name) { return argc > 1 && !strcmp(argv[1], name); }

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, *memory, one = 1;
    MPI_Win window;
    MPI_Group all;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate(8 * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    if (is(argc, argv, "puts")) {
        // All ranks write the same bytes.
        MPI_Win_fence(0, window);
        MPI_Put(&one, 1, MPI_INT, 0, 3, 1, MPI_INT, window);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    } else if (is(argc, argv, "get")) {
        // One rank writes what another one reads.
        MPI_Win_fence(0, window);
        if (rank == 0)
            MPI_Put(&one, 1, MPI_INT, size - 1, 2, 1, MPI_INT, window);
        else
            MPI_Get(&one, 1, MPI_INT, size - 1, 2, 1, MPI_INT, window);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    } else if (is(argc, argv, "operations")) {
        MPI_Win_fence(0, window);
        MPI_Accumulate(&one, 1, MPI_INT, 0, 1, 1, MPI_INT, rank ? MPI_SUM : MPI_MAX, window);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    } else if (is(argc, argv, "posted")) {
        // The same, from MPI_Win_post to MPI_Win_wait.
        MPI_Group origins, target;
        int zero = 0;
        MPI_Group_excl(all, 1, &zero, &origins);
        MPI_Group_incl(all, 1, &zero, &target);
        if (rank == 0) {
            MPI_Win_post(origins, 0, window);
            MPI_Win_wait(window);
        } else {
            MPI_Win_start(target, 0, window);
            MPI_Put(&one, 1, MPI_INT, 0, rank / 2, 1, MPI_INT, window);
            MPI_Win_complete(window);
        }
        MPI_Group_free(&origins);
        MPI_Group_free(&target);
    } else if (is(argc, argv, "stored")) {
        // A message is received into what another rank writes.
        MPI_Win_fence(0, window);
        if (rank == 0)
            MPI_Put(&one, 1, MPI_INT, 1, 0, 1, MPI_INT, window);
        MPI_Sendrecv(&one, 1, MPI_INT, rank ^ 1, 0, memory, 1, MPI_INT, rank ^ 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    } else if (is(argc, argv, "unlocked")) {
        MPI_Win_unlock(0, window);
    } else if (is(argc, argv, "flushed")) {
        MPI_Win_flush(0, window);
    } else if (is(argc, argv, "mixed")) {
        // A lock before the fence that completes the put.
        MPI_Win_fence(0, window);
        MPI_Put(&one, 1, MPI_INT, rank, 0, 1, MPI_INT, window);
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
        MPI_Win_unlock(rank, window);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    } else if (is(argc, argv, "fine")) {
        // Other bytes, other epochs, the same operation: nothing is wrong.
        MPI_Win_fence(0, window);
        MPI_Put(&one, 1, MPI_INT, 0, rank, 1, MPI_INT, window);
        MPI_Win_fence(0, window);
        MPI_Accumulate(&one, 1, MPI_INT, 0, 5, 1, MPI_INT, MPI_SUM, window);
        MPI_Win_fence(0, window);
        MPI_Get(&one, 1, MPI_INT, 0, 5, 1, MPI_INT, window);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Put(&one, 1, MPI_INT, 0, 6, 1, MPI_INT, window);
        MPI_Win_flush(0, window);
        MPI_Put(&one, 1, MPI_INT, 0, 6, 1, MPI_INT, window);
        MPI_Win_unlock(0, window);
    }
    MPI_Group_free(&all);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
