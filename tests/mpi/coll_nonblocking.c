/* Every non-blocking collective, checked element by element, and several of them in flight at once. */
#define COLLECTIVE(name, ...)                                                       \
    do {                                                                            \
        MPI_Request request_;                                                       \
        NONBLOCKING_##name(__VA_ARGS__, &request_);                                 \
        complete(&request_);                                                        \
    } while (0)
#define NONBLOCKING_barrier MPI_Ibarrier
#define NONBLOCKING_bcast MPI_Ibcast
#define NONBLOCKING_gather MPI_Igather
#define NONBLOCKING_gatherv MPI_Igatherv
#define NONBLOCKING_scatter MPI_Iscatter
#define NONBLOCKING_scatterv MPI_Iscatterv
#define NONBLOCKING_allgather MPI_Iallgather
#define NONBLOCKING_allgatherv MPI_Iallgatherv
#define NONBLOCKING_alltoall MPI_Ialltoall
#define NONBLOCKING_alltoallv MPI_Ialltoallv
#define NONBLOCKING_alltoallw MPI_Ialltoallw
#define NONBLOCKING_reduce MPI_Ireduce
#define NONBLOCKING_allreduce MPI_Iallreduce
#define NONBLOCKING_scan MPI_Iscan
#define NONBLOCKING_exscan MPI_Iexscan
#define NONBLOCKING_reduce_scatter MPI_Ireduce_scatter
#define NONBLOCKING_reduce_scatter_block MPI_Ireduce_scatter_block
#include <mpi.h>

/* Waits for one, tests until done for the next, and so on. */
static void complete(MPI_Request *request)
{
    static int turn;
    int done = 0;
    if (turn++ % 4)
        MPI_Wait(request, MPI_STATUS_IGNORE);
    else
        while (!done)
            MPI_Test(request, &done, MPI_STATUS_IGNORE);
}
#include "coll.h"

static void several_at_once(void)
{
    enum { N = 9 };
    MPI_Request requests[N];
    static int sums[N][300], values[N][300];
    for (int k = 0; k < N; k++)
        for (int i = 0; i < 300; i++)
            values[k][i] = rank + k * 1000 + i;
    for (int k = 0; k < N; k++)
        switch (k % 3) {
        case 0: MPI_Iallreduce(values[k], sums[k], 300, MPI_INT, MPI_SUM, WORLD, &requests[k]); break;
        case 1: MPI_Ibcast(values[k], 300, MPI_INT, k % ranks, WORLD, &requests[k]); break;
        case 2: MPI_Ibarrier(WORLD, &requests[k]); break;
        }
    /* Point-to-point traffic of the same communicator passes by them. */
    int got = -1;
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, &got, 1, MPI_INT, (rank + ranks - 1) % ranks, 0, WORLD, MPI_STATUS_IGNORE);
    CHECK_EQ(got, (rank + ranks - 1) % ranks);
    for (int k = N - 1; k > 3; k--)
        MPI_Wait(&requests[k], MPI_STATUS_IGNORE);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    for (int k = 0; k < N; k++)
        for (int i = 0; i < 300; i++) {
            if (k % 3 == 0)
                CHECK_EQ(sums[k][i], ranks * (ranks - 1) / 2 + ranks * (k * 1000 + i));
            if (k % 3 == 1)
                CHECK_EQ(values[k][i], k % ranks + k * 1000 + i);
        }

    /* Nobody leaves an Ibarrier before the last rank has entered it. */
    MPI_Request request;
    int done = 0;
    if (rank == ranks - 1 && ranks > 1) {
        MPI_Recv(&got, 1, MPI_INT, 0, 9, WORLD, MPI_STATUS_IGNORE);
        MPI_Ibarrier(WORLD, &request);
    } else {
        MPI_Ibarrier(WORLD, &request);
        if (ranks > 1)
            for (int i = 0; i < 20; i++) {
                MPI_Test(&request, &done, MPI_STATUS_IGNORE);
                if (done && rank == 0)
                    fail_at(__FILE__, __LINE__, "MPI_Ibarrier", "complete before rank %d entered it", ranks - 1);
            }
        if (rank == 0 && ranks > 1)
            MPI_Send(&rank, 1, MPI_INT, ranks - 1, 9, WORLD);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    test_collectives(ranks > 16 ? 200 : 3000);
    several_at_once();
    return finish("coll_nonblocking");
}
