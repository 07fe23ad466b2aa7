/* A child that a rank has made by fork(2) is no rank: a message that it sends ends it, and the rank goes on. What needs
 * no network it may call. */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int value = rank, status = 0;
    pid_t child = fork();
    if (child == 0) {
        int yes = 0, same = -1;
        MPI_Initialized(&yes);
        MPI_Comm_rank(WORLD, &same);
        if (!yes || same != rank)
            _exit(2);
        MPI_Send(&value, 1, MPI_INT, (rank + 1) % ranks, 5, WORLD);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, 5, &value, 1, MPI_INT, (rank + ranks - 1) % ranks, 5, WORLD, MPI_STATUS_IGNORE);
    CHECK_EQ(value, (rank + ranks - 1) % ranks);
    return finish("forked");
}
