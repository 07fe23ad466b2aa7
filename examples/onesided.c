/* One-sided latency from the first rank to the last, over lengths: MPI_Put, MPI_Get, MPI_Accumulate and
 * MPI_Get_accumulate (sums of whole numbers: of 8 bytes, or of 1 below that), each with the flush that ends it.
 *
 *     onesided [LONGEST [ITERATIONS]]        longest transfer in bytes (default 4 KiB), transfers per size (default 50)
 *
 * The target waits in a barrier meanwhile.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Zeros in whole pages: MPI libraries register those, and how many must not depend on where malloc puts them. */
static char *pages(size_t length)
{
    size_t whole = (length + 4095) / 4096 * 4096;
    char *memory = aligned_alloc(4096, whole);
    return memory ? memset(memory, 0, whole) : NULL;
}

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
    char *data = pages(longest), *old = pages(longest), *memory;
    MPI_Win window;
    MPI_Win_allocate(longest, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    if (rank == 0)
        printf("%10s %12s %12s %12s %12s\n", "bytes", "put us", "get us", "acc us", "get_acc us");
    for (int bytes = 1; bytes <= longest; bytes *= 2) {
        double taken[4];
        MPI_Datatype type = bytes < 8 ? MPI_INT8_T : MPI_INT64_T;
        int count = bytes < 8 ? bytes : bytes / 8;
        for (int what = 0; what < 4; what++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double start = MPI_Wtime();
            for (int i = 0; rank == 0 && i < iterations; i++) {
                switch (what) {
                case 0: MPI_Put(data, count, type, last, 0, count, type, window); break;
                case 1: MPI_Get(data, count, type, last, 0, count, type, window); break;
                case 2: MPI_Accumulate(data, count, type, last, 0, count, type, MPI_SUM, window); break;
                default: MPI_Get_accumulate(data, count, type, old, count, type, last, 0, count, type, MPI_SUM, window);
                }
                MPI_Win_flush(last, window);
            }
            taken[what] = (MPI_Wtime() - start) / iterations;
        }
        if (rank == 0)
            printf("%10d %12.3f %12.3f %12.3f %12.3f\n", bytes, taken[0] * 1e6, taken[1] * 1e6, taken[2] * 1e6, taken[3] * 1e6);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    free(data);
    free(old);
    MPI_Finalize();
    return 0;
}
