// Accesses of two ranks under locks, by name: what orders them, if anything does.
#include <mpi.h>
#include <string.h>

static int rank, value = 1;
static MPI_Win window;

static void put(void) { MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, window); }

static void locked_put(int how) {
    MPI_Win_lock(how, 0, 0, window);
    put();
    MPI_Win_unlock(0, window);
}

int main(int argc, char **argv) {
    int *memory, old;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(2 * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    const char *name = argc > 1 ? argv[1] : "";
    int first = rank == 1, second = rank == 2;
    if (!strcmp(name, "shared")) {
        if (first || second)
            locked_put(MPI_LOCK_SHARED);
    } else if (!strcmp(name, "exclusive")) {
        if (first || second)
            locked_put(MPI_LOCK_EXCLUSIVE);
    } else if (!strcmp(name, "message")) {
        if (first) {
            locked_put(MPI_LOCK_SHARED);
            MPI_Send(&value, 1, MPI_INT, 2, 0, MPI_COMM_WORLD);
        } else if (second) {
            MPI_Recv(&old, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            locked_put(MPI_LOCK_SHARED);
        }
    } else if (!strcmp(name, "barrier") || !strcmp(name, "unflushed")) {
        MPI_Win_lock_all(0, window);
        if (first)
            put();
        if (name[0] == 'b')
            MPI_Win_flush_all(window);
        MPI_Barrier(MPI_COMM_WORLD);
        if (second)
            put();
        MPI_Win_unlock_all(window);
    } else if (!strcmp(name, "target")) {
        MPI_Win_lock_all(0, window);
        if (first)
            put();
        if (rank == 0)
            *(volatile int *)memory = 3;
        MPI_Win_unlock_all(window);
    }
    MPI_Win_free(&window);
    MPI_Finalize();
}
