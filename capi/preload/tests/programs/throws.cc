// Exceptions and longjmp out of an MPI call: the trampoline can be unwound, and the next call is marked again.
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <mpi.h>

static jmp_buf back;
static int mode;
static void failed(MPI_Comm *, int *code, ...) {
    int error_class;
    MPI_Error_class(*code, &error_class);
    if (mode == 0)
        throw error_class;
    longjmp(back, 1);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(failed, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    int caught = 0, x = 0;
    try {
        MPI_Ssend(&x, 1, MPI_INT, 1000000, 0, MPI_COMM_WORLD);
    } catch (int error_class) {
        caught = error_class == MPI_ERR_RANK;
    }
    mode = 1;
    if (setjmp(back) == 0)
        MPI_Ssend(&x, 1, MPI_INT, 1000000, 0, MPI_COMM_WORLD);
    else
        caught += 1;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    std::printf("throws: %d\n", caught);
    return caught == 2 ? 0 : 1;
}
