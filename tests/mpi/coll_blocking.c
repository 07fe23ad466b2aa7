/* Every blocking collective, checked element by element: equal and unequal parts, in place, all roots or a sample of them. */
#define COLLECTIVE(name, ...) BLOCKING_##name(__VA_ARGS__)
#define BLOCKING_barrier MPI_Barrier
#define BLOCKING_bcast MPI_Bcast
#define BLOCKING_gather MPI_Gather
#define BLOCKING_gatherv MPI_Gatherv
#define BLOCKING_scatter MPI_Scatter
#define BLOCKING_scatterv MPI_Scatterv
#define BLOCKING_allgather MPI_Allgather
#define BLOCKING_allgatherv MPI_Allgatherv
#define BLOCKING_alltoall MPI_Alltoall
#define BLOCKING_alltoallv MPI_Alltoallv
#define BLOCKING_alltoallw MPI_Alltoallw
#define BLOCKING_reduce MPI_Reduce
#define BLOCKING_allreduce MPI_Allreduce
#define BLOCKING_scan MPI_Scan
#define BLOCKING_exscan MPI_Exscan
#define BLOCKING_reduce_scatter MPI_Reduce_scatter
#define BLOCKING_reduce_scatter_block MPI_Reduce_scatter_block
#include "coll.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    test_collectives(ranks > 16 ? 200 : 3000);
    return finish("coll_blocking");
}
