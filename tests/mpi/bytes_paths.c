/* Moves a known number of bytes by one path and prints it. Argument: collective | window | created | accumulate, then the length.
 *
 * A library that takes a shortcut through shared memory for its collectives or windows would not show these bytes on
 * the network. Prints the least number of bytes that any algorithm must move between ranks. */
#include "check.h"

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "collective";
    int length = argc > 2 ? atoi(argv[2]) : 50000;
    begin(&argc, &argv);
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    char *out = allocate((size_t)length * ranks), *in = allocate((size_t)length * ranks);
    for (int r = 0; r < ranks; r++)
        fill(out + (size_t)r * length, (size_t)length, mix((uint64_t)rank, (uint64_t)r, 0));
    long long least = 0;
    if (!strcmp(path, "collective")) {
        MPI_Alltoall(out, length, MPI_BYTE, in, length, MPI_BYTE, WORLD);
        for (int r = 0; r < ranks; r++)
            CHECK_FILL(in + (size_t)r * length, (size_t)length, mix((uint64_t)r, (uint64_t)rank, 0));
        MPI_Bcast(out, length, MPI_BYTE, 0, WORLD);
        CHECK_FILL(out, (size_t)length, mix(0, 0, 0));
        least = (long long)length * ranks * (ranks - 1) + (long long)length * (ranks - 1);
    } else {
        char *memory = in;
        MPI_Win win;
        if (!strcmp(path, "created"))
            MPI_Win_create(in, length, 1, MPI_INFO_NULL, WORLD, &win);
        else
            MPI_Win_allocate(length, 1, MPI_INFO_NULL, WORLD, &memory, &win);
        memset(memory, 0, (size_t)length);
        MPI_Win_fence(0, win);
        if (!strcmp(path, "accumulate"))
            MPI_Accumulate(out, length, MPI_BYTE, next, 0, length, MPI_BYTE, MPI_BXOR, win);
        else
            MPI_Put(out, length, MPI_BYTE, next, 0, length, MPI_BYTE, win);
        MPI_Win_fence(0, win);
        CHECK_FILL(memory, (size_t)length, mix((uint64_t)previous, 0, 0));
        MPI_Get(out, length, MPI_BYTE, previous, 0, length, MPI_BYTE, win);
        MPI_Win_fence(0, win);
        int before = (previous + ranks - 1) % ranks;
        CHECK_FILL(out, (size_t)length, mix((uint64_t)before, 0, 0));
        MPI_Win_free(&win);
        least = ranks > 1 ? 2LL * length * ranks : 0;
    }
    if (rank == 0)
        printf("bytes_paths: %s payload=%lld\n", path, least);
    free(out);
    free(in);
    return finish("bytes_paths");
}
