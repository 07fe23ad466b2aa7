/* Start and end of a program with MPI, and as much in between as shows that all ranks reach each other. */
#include <mpi.h>

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
