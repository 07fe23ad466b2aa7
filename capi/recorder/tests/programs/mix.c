/* A bit of everything that is recorded, on 4 ranks. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, n, row_size, row_rank, index, flag = 0;
    double a[64] = {0}, b[64];
    MPI_Comm row;
    MPI_Request pair[2], kept[2], one;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    int next = (rank + 1) % n, before = (rank + n - 1) % n;

    /* Two communicators of two, in reverse order. */
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &row);
    MPI_Comm_size(row, &row_size);
    MPI_Comm_rank(row, &row_rank);

    /* From anybody, without a status. */
    if (rank == 0)
        for (int i = 1; i < n; i++)
            MPI_Recv(a, 64, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(a, rank, MPI_DOUBLE, 0, rank, MPI_COMM_WORLD);
    /* So that what comes next cannot be received there. */
    MPI_Barrier(MPI_COMM_WORLD);

    MPI_Irecv(b, 64, MPI_DOUBLE, MPI_ANY_SOURCE, 3, row, &pair[0]);
    MPI_Isend(a, 4, MPI_DOUBLE, (row_rank + 1) % row_size, 3, row, &pair[1]);
    MPI_Waitall(2, pair, MPI_STATUSES_IGNORE);
    MPI_Sendrecv(a, 2, MPI_INT, next, 5, b, 2, MPI_INT, before, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);

    MPI_Recv_init(b, 8, MPI_DOUBLE, before, 9, MPI_COMM_WORLD, &kept[0]);
    MPI_Send_init(a, 8, MPI_DOUBLE, next, 9, MPI_COMM_WORLD, &kept[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, kept);
        MPI_Waitany(2, kept, &index, MPI_STATUS_IGNORE);
        MPI_Waitany(2, kept, &index, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&kept[0]);
    MPI_Request_free(&kept[1]);

    MPI_Allreduce(MPI_IN_PLACE, a, 3, MPI_DOUBLE, MPI_SUM, row);
    MPI_Bcast(a, 5, MPI_INT, row_size - 1, row);
    int *counts = malloc(n * sizeof *counts), *places = malloc(n * sizeof *places);
    double *from = calloc(2 * n * n, sizeof *from), *to = from + n * n;
    for (int i = 0; i < n; i++)
        counts[i] = i + 1, places[i] = i * n;
    MPI_Gatherv(from, rank + 1, MPI_DOUBLE, to, counts, places, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    MPI_Alltoall(from, 2, MPI_DOUBLE, to, 2, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int i = 0; i < n; i++)
        counts[i] = 1, places[i] = i;
    MPI_Alltoallv(from, counts, places, MPI_DOUBLE, to, counts, places, MPI_DOUBLE, MPI_COMM_WORLD);

    /* Nobody sends these: they are cancelled, with others that are not, or one alone, or freed. */
    MPI_Request more[3];
    MPI_Irecv(b, 1, MPI_INT, before, 77, MPI_COMM_WORLD, &more[0]);
    MPI_Irecv(b, 1, MPI_INT, MPI_ANY_SOURCE, 78, MPI_COMM_WORLD, &more[1]);
    MPI_Cancel(&more[0]);
    MPI_Cancel(&more[1]);
    MPI_Irecv(b, 1, MPI_INT, before, 79, MPI_COMM_WORLD, &more[2]);
    MPI_Send(a, 1, MPI_INT, next, 79, MPI_COMM_WORLD);
    MPI_Waitall(3, more, MPI_STATUSES_IGNORE);
    MPI_Irecv(b, 1, MPI_INT, before, 80, MPI_COMM_WORLD, &more[0]);
    MPI_Cancel(&more[0]);
    MPI_Wait(&more[0], MPI_STATUS_IGNORE);
    MPI_Irecv(b, 1, MPI_INT, before, 81, MPI_COMM_WORLD, &more[0]);
    MPI_Cancel(&more[0]);
    MPI_Request_free(&more[0]);

    MPI_Ibcast(a, 7, MPI_DOUBLE, 1, MPI_COMM_WORLD, &one);
    while (!flag)
        MPI_Test(&one, &flag, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&row);
    MPI_Finalize();
    return 0;
}
