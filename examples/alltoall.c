/* Time of MPI_Alltoall over message sizes: every rank gives every rank a block.
 *
 *     alltoall [LONGEST [ITERATIONS]]        longest block in bytes (default 64 KiB), calls per size (default 10)
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
    int longest = argc > 1 ? atoi(argv[1]) : 1 << 16, iterations = argc > 2 ? atoi(argv[2]) : 10;
    unsigned char *out = malloc((size_t)longest * ranks), *in = malloc((size_t)longest * ranks);
    if (rank == 0)
        printf("%10s %14s %22s\n", "bytes", "us", "MB/s into each rank");
    for (int bytes = 1; bytes <= longest; bytes *= 2) {
        for (int r = 0; r < ranks; r++)
            memset(out + (size_t)r * bytes, (rank * 31 + r) & 255, (size_t)bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        for (int i = 0; i < iterations; i++)
            MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
        double each = (MPI_Wtime() - start) / iterations;
        for (int r = 0; r < ranks; r++)
            if (in[(size_t)r * bytes] != ((r * 31 + rank) & 255) || in[(size_t)(r + 1) * bytes - 1] != ((r * 31 + rank) & 255)) {
                fprintf(stderr, "alltoall: rank %d got a wrong block from rank %d\n", rank, r);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        if (rank == 0)
            printf("%10d %14.3f %22.1f\n", bytes, each * 1e6, each > 0 ? (ranks - 1.0) * bytes / each / 1e6 : 0.0);
    }
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
