/* Time of MPI_Allreduce over message sizes.
 *
 *     allreduce [LONGEST [ITERATIONS]]       longest vector in bytes (default 1 MiB), calls per size (default 20)
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
    int longest = argc > 1 ? atoi(argv[1]) : 1 << 20, iterations = argc > 2 ? atoi(argv[2]) : 20;
    signed char *in = malloc((size_t)longest + 1), *sum = malloc((size_t)longest + 1);
    for (int i = 0; i <= longest; i++)
        in[i] = (signed char)((rank + i) % 2);
    if (rank == 0)
        printf("%10s %14s\n", "bytes", "us");
    for (int bytes = 1; bytes <= longest; bytes *= 2) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        for (int i = 0; i < iterations; i++)
            MPI_Allreduce(in, sum, bytes, MPI_SIGNED_CHAR, MPI_SUM, MPI_COMM_WORLD);
        double each = (MPI_Wtime() - start) / iterations;
        for (int i = 0; i < bytes; i++) {
            int ones = (ranks + i % 2) / 2; /* ranks with rank + i odd */
            if (sum[i] != (signed char)ones) {
                fprintf(stderr, "allreduce: rank %d got %d at %d, expected %d\n", rank, sum[i], i, ones);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
        if (rank == 0)
            printf("%10d %14.3f\n", bytes, each * 1e6);
    }
    free(in);
    free(sum);
    MPI_Finalize();
    return 0;
}
