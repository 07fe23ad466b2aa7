/* Sends a known number of bytes with user messages and prints it, so that it can be compared with what the network saw.
 * Arguments: the length of a message, the number of messages from every rank to its right neighbour.
 *
 * Prints: "bytes: messages=M payload=B". The network must have carried at least B bytes (MPI's own traffic comes on
 * top). */
#include "check.h"

int main(int argc, char **argv)
{
    int length = argc > 1 ? atoi(argv[1]) : 100000, turns = argc > 2 ? atoi(argv[2]) : 20;
    begin(&argc, &argv);
    char *out = allocate((size_t)length), *in = allocate((size_t)length);
    fill(out, (size_t)length, (uint64_t)rank);
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    for (int i = 0; i < turns; i++) {
        MPI_Sendrecv(out, length, MPI_BYTE, next, 0, in, length, MPI_BYTE, previous, 0, WORLD, MPI_STATUS_IGNORE);
        CHECK_FILL(in, (size_t)length, (uint64_t)previous);
    }
    if (rank == 0)
        printf("bytes: messages=%lld payload=%lld\n", (long long)ranks * turns, (long long)ranks * turns * length);
    free(out);
    free(in);
    return finish("bytes");
}
