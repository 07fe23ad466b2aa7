// MPI_Allreduce by the NICs' accelerators (exanet-accelerator): the results are those of the MPI library, which does
// the same on a copy of MPI_COMM_WORLD; what the accelerator does not take is the library's. Beside that others send
// long messages that need the library of a rank that waits.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, faults;
static MPI_Comm copy;

static void compare(const char *what, int count, const void *ours, const void *theirs, size_t bytes) {
    if (memcmp(ours, theirs, bytes) != 0) {
        faults++;
        printf("rank %d: %s of %d: not what the library has\n", rank, what, count);
    }
}

#define TRY(type, mpi, name)                                                                                          \
    do {                                                                                                              \
        MPI_Op ops[] = {MPI_SUM, MPI_MIN, MPI_MAX, MPI_PROD};                                                         \
        const char *names[] = {name " sum", name " min", name " max", name " product"};                               \
        int counts[] = {1, 65, 500, 1024, 5000};                                                                      \
        for (int o = 0; o < 4; o++)                                                                                   \
            for (int c = 0; c < 5; c++) {                                                                             \
                int n = counts[c];                                                                                    \
                type *in = malloc(n * sizeof *in), *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);            \
                for (int i = 0; i < n; i++)                                                                           \
                    in[i] = (type)(o == 3 ? 1 + (rank + i) % 2 : ((rank * 31 + i * 7) % 101 - 50) / (type)4);         \
                MPI_Allreduce(in, a, n, mpi, ops[o], MPI_COMM_WORLD);                                                 \
                MPI_Allreduce(in, b, n, mpi, ops[o], copy);                                                           \
                compare(names[o], n, a, b, n * sizeof *a);                                                            \
                memcpy(a, in, n * sizeof *a);                                                                         \
                MPI_Allreduce(MPI_IN_PLACE, a, n, mpi, ops[o], MPI_COMM_WORLD);                                       \
                compare(names[o], n, a, b, n * sizeof *a);                                                            \
                free(in), free(a), free(b);                                                                           \
            }                                                                                                         \
    } while (0)

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    TRY(int, MPI_INT, "int");
    TRY(float, MPI_FLOAT, "float");
    TRY(double, MPI_DOUBLE, "double");

    // A long message to a rank that is in the allreduce when it comes.
    enum { LONG = 1 << 20 };
    char *out = malloc(LONG), *in = malloc(LONG);
    memset(out, rank, LONG);
    MPI_Request request;
    MPI_Irecv(in, LONG, MPI_CHAR, (rank + size - 1) % size, 7, MPI_COMM_WORLD, &request);
    if (rank % 2 == 0)
        MPI_Send(out, LONG, MPI_CHAR, (rank + 1) % size, 7, MPI_COMM_WORLD);
    int one = 1, all = 0;
    MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank % 2 != 0)
        MPI_Send(out, LONG, MPI_CHAR, (rank + 1) % size, 7, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (all != size || in[LONG - 1] != (char)((rank + size - 1) % size))
        faults++;

    // How long 256 B take: 64 ints.
    int vector[64] = {0}, sum[64];
    MPI_Allreduce(vector, sum, 64, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int i = 0; i < 10; i++)
        MPI_Allreduce(vector, sum, 64, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    double end = MPI_Wtime();
    int wrong = faults;
    MPI_Reduce(&wrong, &faults, 1, MPI_INT, MPI_SUM, 0, copy);
    if (rank == 0) {
        printf("offload: ranks=%d faults=%d\n", size, faults);
        fprintf(stderr, "256 B: %.3f us\n", (end - begin) / 10 * 1e6);
    }
    MPI_Finalize();
    return rank == 0 && faults != 0;
}
