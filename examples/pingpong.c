/* Ping-pong between the first and the last rank: half round trip and bandwidth over message sizes.
 *
 *     pingpong [LONGEST [ITERATIONS]]        longest message in bytes (default 1 MiB), round trips per size
 *     (default 50)
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int longest = argc > 1 ? atoi(argv[1]) : 1 << 20, iterations = argc > 2 ? atoi(argv[2]) : 50;
    int last = ranks - 1;
    if (ranks < 2 || longest < 0 || iterations < 1) {
        if (rank == 0)
            fprintf(stderr, "pingpong: needs two ranks or more, a length and a number of iterations\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    char *data = malloc((size_t)longest + 1);
    memset(data, 1, (size_t)longest + 1);
    if (rank == 0)
        printf("%10s %14s %12s\n", "bytes", "half trip us", "MB/s");
    for (int bytes = 0; bytes <= longest; bytes = bytes ? 2 * bytes : 1) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        for (int i = 0; i < iterations; i++) {
            if (rank == 0) {
                MPI_Send(data, bytes, MPI_BYTE, last, 0, MPI_COMM_WORLD);
                MPI_Recv(data, bytes, MPI_BYTE, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else if (rank == last) {
                MPI_Recv(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
            }
        }
        double half = (MPI_Wtime() - start) / iterations / 2;
        if (rank == 0)
            printf("%10d %14.3f %12.1f\n", bytes, half * 1e6, half > 0 ? bytes / half / 1e6 : 0.0);
    }
    free(data);
    MPI_Finalize();
    return 0;
}
