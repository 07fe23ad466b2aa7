/* One-sided latency from the first rank to the last, over lengths: MPI_Put and MPI_Get, each with the flush that ends it.
 *
 *     onesided [LONGEST [ITERATIONS]]        longest transfer in bytes (default 4 KiB), transfers per size (default 50)
 *
 * The target waits in a barrier meanwhile.
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
    int longest = argc > 1 ? atoi(argv[1]) : 4096, iterations = argc > 2 ? atoi(argv[2]) : 50, last = ranks - 1;
    if (ranks < 2 || longest < 1 || iterations < 1) {
        if (rank == 0)
            fprintf(stderr, "onesided: needs two ranks or more, a length and a number of iterations\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    char *data = calloc(1, (size_t)longest), *memory;
    MPI_Win window;
    MPI_Win_allocate(longest, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    if (rank == 0)
        printf("%10s %12s %12s\n", "bytes", "put us", "get us");
    for (int bytes = 1; bytes <= longest; bytes *= 2) {
        double taken[2];
        for (int get = 0; get < 2; get++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double start = MPI_Wtime();
            for (int i = 0; rank == 0 && i < iterations; i++) {
                if (get)
                    MPI_Get(data, bytes, MPI_BYTE, last, 0, bytes, MPI_BYTE, window);
                else
                    MPI_Put(data, bytes, MPI_BYTE, last, 0, bytes, MPI_BYTE, window);
                MPI_Win_flush(last, window);
            }
            taken[get] = (MPI_Wtime() - start) / iterations;
        }
        if (rank == 0)
            printf("%10d %12.3f %12.3f\n", bytes, taken[0] * 1e6, taken[1] * 1e6);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    free(data);
    MPI_Finalize();
    return 0;
}
