/* Neighbours, matched receives, and with MPI 4 persistent collectives, MPI_Isendrecv and partitioned messages, on 4 ranks. */
#include <mpi.h>

int main(int argc, char **argv)
{
    int rank, n;
    double a[64] = {0}, b[64];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    int next = (rank + 1) % n, before = (rank + n - 1) % n;

    /* A row without ends at its ends. */
    MPI_Comm row, square, graph;
    int length = n, open = 0;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &length, &open, 0, &row);
    MPI_Neighbor_alltoall(a, 3, MPI_DOUBLE, b, 3, MPI_DOUBLE, row);

    /* Two by two: both neighbours in a dimension are the same rank. */
    int sides[2] = {2, 2}, round[2] = {1, 1};
    int out[4] = {2, 1, 4, 3}, in[4] = {1, 2, 3, 4}, places[4] = {0, 8, 16, 24};
    MPI_Cart_create(MPI_COMM_WORLD, 2, sides, round, 0, &square);
    MPI_Neighbor_alltoallv(a, out, places, MPI_DOUBLE, b, in, places, MPI_DOUBLE, square);

    MPI_Request one, two[2];
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    MPI_Ineighbor_allgather(a, 5, MPI_INT, b, 5, MPI_INT, graph, &one);
    MPI_Wait(&one, MPI_STATUS_IGNORE);

    MPI_Message message;
    MPI_Isend(a, 6, MPI_INT, next, 8, MPI_COMM_WORLD, &two[0]);
    MPI_Mprobe(MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Imrecv(b, 6, MPI_INT, &message, &two[1]);
    MPI_Waitall(2, two, MPI_STATUSES_IGNORE);

#if MPI_VERSION >= 4
    MPI_Isendrecv(a, 7, MPI_INT, next, 4, b, 7, MPI_INT, before, 4, MPI_COMM_WORLD, &one);
    MPI_Wait(&one, MPI_STATUS_IGNORE);
    MPI_Allreduce_init(a, b, 9, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &two[0]);
    MPI_Neighbor_alltoall_init(a, 2, MPI_DOUBLE, b, 2, MPI_DOUBLE, graph, MPI_INFO_NULL, &two[1]);
    for (int i = 0; i < 2; i++) {
        MPI_Startall(2, two);
        MPI_Waitall(2, two, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&two[0]);
    MPI_Request_free(&two[1]);

    /* In four parts, received in two; a message with the same tag is another one. */
    int some[2] = {2, 0};
    MPI_Psend_init(a, 4, 3, MPI_DOUBLE, next, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &two[0]);
    MPI_Precv_init(b, 2, 6, MPI_DOUBLE, before, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &two[1]);
    for (int i = 0; i < 2; i++) {
        MPI_Startall(2, two);
        MPI_Pready_list(2, some, two[0]);
        MPI_Send(a + 32, 1, MPI_INT, next, 6, MPI_COMM_WORLD);
        MPI_Recv(b + 32, 1, MPI_INT, before, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Pready_range(1, 1, two[0]);
        MPI_Pready(3, two[0]);
        MPI_Waitall(2, two, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&two[0]);
    MPI_Request_free(&two[1]);
#endif
    MPI_Comm_free(&row);
    MPI_Comm_free(&square);
    MPI_Comm_free(&graph);
    MPI_Finalize();
    return 0;
}
