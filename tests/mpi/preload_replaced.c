/* A start script that preloads a library of its own and nothing else: the program that it becomes, or starts (argument:
 * spawn), runs on the simulated machine all the same. This program is its own script. */
#include "check.h"
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
    if (!getenv("PRELOAD_REPLACED")) {
        setenv("PRELOAD_REPLACED", "1", 1);
        setenv("LD_PRELOAD", "libm.so.6", 1);
        if (argc > 1 && !strcmp(argv[1], "spawn")) {
            char program[4096] = "";
            pid_t child;
            int status;
            /* As a shell gives the environment of a command. */
            if (readlink("/proc/self/exe", program, sizeof program - 1) < 0 || posix_spawn(&child, program, NULL, NULL, argv, environ))
                return 1;
            return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        }
        execvp("/proc/self/exe", argv);
        return 1;
    }
    CHECK(!strncmp(getenv("LD_PRELOAD"), "libm.so.6:", 10));
    begin(&argc, &argv);
    char name[MPI_MAX_PROCESSOR_NAME];
    int length, sum = 0;
    MPI_Get_processor_name(name, &length);
    CHECK(!strncmp(name, "node", 4));
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, WORLD);
    CHECK_EQ(sum, ranks * (ranks - 1) / 2);
    return finish("preload_replaced");
}
