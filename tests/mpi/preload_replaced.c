/* A start script that preloads a library of its own and nothing else: the program that it becomes runs on the simulated
 * machine all the same. This program is its own script. */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    if (!getenv("PRELOAD_REPLACED")) {
        setenv("PRELOAD_REPLACED", "1", 1);
        setenv("LD_PRELOAD", "libm.so.6", 1);
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
