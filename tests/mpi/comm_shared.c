/* The ranks of one node: MPI_COMM_TYPE_SHARED against the processor names.
 *
 * With an argument P, the node of a rank must be what a linear placement of P ranks per node gives. */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int per_node = argc > 1 ? atoi(argv[1]) : 0, me, size, length;
    MPI_Comm node;
    MPI_Comm_split_type(WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &me);
    MPI_Comm_size(node, &size);

    enum { L = MPI_MAX_PROCESSOR_NAME };
    char mine[L], host[256] = "", *names = allocate((size_t)ranks * L);
    memset(mine, 0, sizeof mine);
    MPI_Get_processor_name(mine, &length);
    CHECK_EQ(length, (int)strlen(mine));
    gethostname(host, sizeof host - 1);
    CHECK(!strncmp(host, mine, strlen(host)) || !strncmp(host, mine, strlen(mine)));
    MPI_Allgather(mine, L, MPI_CHAR, names, L, MPI_CHAR, WORLD);
    int same = 0, before = 0;
    for (int r = 0; r < ranks; r++) {
        int equal = !strcmp(names + (size_t)r * L, mine);
        same += equal;
        before += equal && r < rank;
    }
    CHECK_EQ(size, same);
    CHECK_EQ(me, before);
    if (per_node) {
        int first = rank / per_node * per_node;
        CHECK_EQ(size, ranks - first < per_node ? ranks - first : per_node);
        CHECK_EQ(me, rank - first);
    } else {
        checks_made += 2;
    }
    /* It works as a communicator. */
    int sum = 0, expected = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, node);
    for (int r = 0; r < ranks; r++)
        if (!strcmp(names + (size_t)r * L, mine))
            expected += r;
    CHECK_EQ(sum, expected);
#if defined(MPI_COMM_TYPE_HW_GUIDED) || (defined(OPEN_MPI) && OMPI_MAJOR_VERSION >= 5)
    /* The same by the name of what they share. */
    MPI_Info info;
    MPI_Comm memory;
    int same_ranks;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory");
    MPI_Comm_split_type(WORLD, MPI_COMM_TYPE_HW_GUIDED, rank, info, &memory);
    MPI_Comm_compare(node, memory, &same_ranks);
    if (same_ranks != MPI_CONGRUENT)
        fail_at(__FILE__, __LINE__, "MPI_COMM_TYPE_HW_GUIDED", "other ranks than MPI_COMM_TYPE_SHARED");
    MPI_Comm_free(&memory);
    MPI_Info_free(&info);
#endif
    MPI_Comm_free(&node);
    free(names);
    return finish("comm_shared");
}
