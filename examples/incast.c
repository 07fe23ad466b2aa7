/* n-to-1: all other ranks send to rank 0 at once; what arrives there, and how fast.
 *
 *     incast [BYTES]        bytes per sender (default 4 MiB)
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int bytes = argc > 1 ? atoi(argv[1]) : 4 << 20;
    char *data = calloc((size_t)bytes, (size_t)(rank ? 1 : ranks));
    MPI_Request *requests = calloc((size_t)ranks, sizeof *requests);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    if (rank == 0) {
        for (int sender = 1; sender < ranks; sender++)
            MPI_Irecv(data + (size_t)sender * (size_t)bytes, bytes, MPI_CHAR, sender, 1, MPI_COMM_WORLD, &requests[sender - 1]);
        MPI_Waitall(ranks - 1, requests, MPI_STATUSES_IGNORE);
        double seconds = MPI_Wtime() - start, total = (double)bytes * (ranks - 1);
        printf("%d senders: %.3f us, %.1f MB/s in all, %.1f MB/s each\n", ranks - 1, seconds * 1e6, total / seconds / 1e6,
               total / (ranks - 1) / seconds / 1e6);
    } else {
        MPI_Send(data, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    }
    free(requests);
    free(data);
    MPI_Finalize();
    return 0;
}
