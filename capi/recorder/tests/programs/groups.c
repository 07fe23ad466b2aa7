/* Collectives between two groups, of 2 and 3 ranks; communicators that are used in different orders; one-sided communication. */
#include <mpi.h>

int main(int argc, char **argv)
{
    int rank;
    double a[64] = {0}, b[64] = {0};
    MPI_Comm half, between, first, second;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    /* Two with the same members. Rank 0 uses the second one first. */
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    if (rank == 0) {
        MPI_Request both[2];
        MPI_Isend(a, 1, MPI_DOUBLE, 1, 7, second, &both[0]);
        MPI_Isend(a, 2, MPI_DOUBLE, 1, 7, first, &both[1]);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(b, 2, MPI_DOUBLE, 0, 7, first, MPI_STATUS_IGNORE);
        MPI_Recv(b, 1, MPI_DOUBLE, 0, 7, second, MPI_STATUS_IGNORE);
    }

    int low = rank < 2, mine = low ? rank : rank - 2, own = low ? 2 : 3, others = low ? 3 : 2;
    MPI_Comm_split(MPI_COMM_WORLD, low, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? 2 : 0, 3, &between);

    /* The second rank of the first group is the root. */
    int root = low ? (mine == 1 ? MPI_ROOT : MPI_PROC_NULL) : 1;
    int counts[3] = {1, 2, 3}, places[3] = {0, 8, 16}, displacements[3] = {0, 64, 128};
    MPI_Datatype types[3] = {MPI_DOUBLE, MPI_DOUBLE, MPI_DOUBLE};
    MPI_Bcast(a, 3, MPI_DOUBLE, root, between);
    MPI_Reduce(a, b, 4, MPI_DOUBLE, MPI_SUM, root, between);
    MPI_Gather(a, 2, MPI_DOUBLE, b, 2, MPI_DOUBLE, root, between);
    MPI_Gatherv(a, mine + 1, MPI_DOUBLE, b, counts, places, MPI_DOUBLE, root, between);
    MPI_Scatter(a, 5, MPI_DOUBLE, b, 5, MPI_DOUBLE, root, between);
    MPI_Scatterv(a, counts, places, MPI_DOUBLE, b, mine + 1, MPI_DOUBLE, root, between);

    MPI_Barrier(between);
    MPI_Allreduce(a, b, 6, MPI_DOUBLE, MPI_SUM, between);
    MPI_Allgather(a, low ? 3 : 4, MPI_DOUBLE, b, low ? 4 : 3, MPI_DOUBLE, between);
    MPI_Allgatherv(a, mine + 1, MPI_DOUBLE, b, counts, places, MPI_DOUBLE, between);
    MPI_Alltoall(a, 2, MPI_DOUBLE, b, 2, MPI_DOUBLE, between);
    for (int i = 0; i < others; i++)
        counts[i] = i + mine;
    MPI_Alltoallv(a, counts, places, MPI_DOUBLE, b, counts, places, MPI_DOUBLE, between);
    MPI_Alltoallw(a, counts, displacements, types, b, counts, displacements, types, between);
    MPI_Reduce_scatter_block(a, b, 6 / own, MPI_DOUBLE, MPI_SUM, between);
    for (int i = 0; i < own; i++)
        counts[i] = 6 / own + (i == 0) - (i == 1);
    MPI_Reduce_scatter(a, b, counts, MPI_DOUBLE, MPI_SUM, between);

    MPI_Request two[2];
    MPI_Ibcast(a, 7, MPI_DOUBLE, root, between, &two[0]);
    MPI_Iallreduce(a + 8, b, 8, MPI_DOUBLE, MPI_SUM, between, &two[1]);
    MPI_Waitall(2, two, MPI_STATUSES_IGNORE);

    /* On a window of this rank alone: every MPI can do that. */
    MPI_Win window;
    double *memory;
    MPI_Win_allocate(64 * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_SELF, &memory, &window);
    MPI_Win_fence(0, window);
    MPI_Put(a, 10, MPI_DOUBLE, 0, 0, 10, MPI_DOUBLE, window);
    MPI_Get(b, 3, MPI_DOUBLE, 0, 20, 3, MPI_DOUBLE, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);

    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
    MPI_Comm_free(&first);
    MPI_Comm_free(&second);
    MPI_Finalize();
    return 0;
}
