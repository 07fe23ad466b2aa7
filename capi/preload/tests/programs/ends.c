/* Every way to end by oneself, from the outside in: the status that libportals.so hears of. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    pid_t child = fork();
    if (child == 0)
        exit(5);
    waitpid(child, NULL, 0);
    child = vfork();
    if (child == 0)
        _exit(6);
    waitpid(child, NULL, 0);
    const char *how = argv[1];
    if (!strcmp(how, "exit"))
        exit(3);
    if (!strcmp(how, "_exit"))
        _exit(3);
    if (!strcmp(how, "_Exit"))
        _Exit(3);
    if (!strcmp(how, "abort"))
        MPI_Abort(MPI_COMM_WORLD, 3);
    return 3;
}
