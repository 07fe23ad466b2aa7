/* One rank comes to MPI_Init long after the others, who are told for whom they wait. */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *number = getenv("PMI_RANK") ? getenv("PMI_RANK") : getenv("OMPI_COMM_WORLD_RANK");
    if (number && strcmp(number, "1") == 0)
        sleep(22);
    begin(&argc, &argv);
    CHECK(ranks > 1);
    return finish("late");
}
