/* What launchers call the number of a rank among those of its node, and how many these are, against the ranks that share
 * memory. A launcher sets some of them; those that it has not set say nothing. */
#include "check.h"

static int variable(const char *name, int expected)
{
    const char *value = getenv(name);
    if (value)
        CHECK_EQ(atoi(value), expected);
    return value != NULL;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm node;
    int me, size;
    MPI_Comm_split_type(WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &me);
    MPI_Comm_size(node, &size);
    int set = variable("OMPI_COMM_WORLD_LOCAL_RANK", me) + variable("OMPI_COMM_WORLD_NODE_RANK", me) + variable("MPI_LOCALRANKID", me)
            + variable("PMI_LOCAL_RANK", me) + variable("SLURM_LOCALID", me);
    int sizes = variable("OMPI_COMM_WORLD_LOCAL_SIZE", size) + variable("MPI_LOCALNRANKS", size) + variable("PMI_LOCAL_SIZE", size);
    CHECK(set > 0 && sizes > 0);
    checks_made = 1;
    MPI_Comm_free(&node);
    return finish("local_rank");
}
