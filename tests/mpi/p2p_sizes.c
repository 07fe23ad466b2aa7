/* Ping-pong between neighbours with lengths at and around every threshold, from 0 to 4 MiB, three ways: the receive posted
 * before the message, the message there before the receive, and both sides sending at once. */
#include "check.h"

static void exchange(int peer, int length, char *out, char *in)
{
    MPI_Status status;
    MPI_Request request;
    int low = rank < peer;
    uint64_t mine = mix((uint64_t)rank, (uint64_t)length, 3), theirs = mix((uint64_t)peer, (uint64_t)length, 3);
    fill(out, (size_t)length, mine);

    /* 1. Ping-pong, blocking. */
    memset(in, 0xee, (size_t)length + 1);
    if (low) {
        MPI_Send(out, length, MPI_BYTE, peer, 1, WORLD);
        MPI_Recv(in, length, MPI_BYTE, peer, 2, WORLD, &status);
    } else {
        MPI_Recv(in, length, MPI_BYTE, peer, 1, WORLD, &status);
        MPI_Send(out, length, MPI_BYTE, peer, 2, WORLD);
    }
    CHECK_STATUS(&status, peer, low ? 2 : 1, MPI_BYTE, length);
    CHECK_FILL(in, (size_t)length, theirs);
    CHECK_EQ((unsigned char)in[length], 0xee);

    /* 2. Both at once. */
    memset(in, 0xee, (size_t)length + 1);
    MPI_Irecv(in, length, MPI_BYTE, peer, 3, WORLD, &request);
    MPI_Send(out, length, MPI_BYTE, peer, 3, WORLD);
    MPI_Wait(&request, &status);
    CHECK_STATUS(&status, peer, 3, MPI_BYTE, length);
    CHECK_FILL(in, (size_t)length, theirs);
    CHECK_EQ((unsigned char)in[length], 0xee);

    /* 3. Unexpected: a later message is received first. The receive is longer than the message. */
    memset(in, 0xee, (size_t)length + 1);
    if (low) {
        MPI_Isend(out, length, MPI_BYTE, peer, 4, WORLD, &request);
        MPI_Send(NULL, 0, MPI_BYTE, peer, 5, WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(NULL, 0, MPI_BYTE, peer, 5, WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(in, length + 1, MPI_BYTE, peer, 4, WORLD, &status);
        CHECK_STATUS(&status, peer, 4, MPI_BYTE, length);
        CHECK_FILL(in, (size_t)length, theirs);
        CHECK_EQ((unsigned char)in[length], 0xee);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int peer = rank ^ 1;
    int longest = 4 << 20;
    char *out = allocate((size_t)longest + 1), *in = allocate((size_t)longest + 1);
    if (peer < ranks) {
        for (int i = 0; i < SIZES_SMALL; i++)
            exchange(peer, sizes_small[i], out, in);
        /* Few ranks are enough for the long ones. */
        if (rank < 8) {
            exchange(peer, 1 << 20, out, in);
            exchange(peer, longest - 1, out, in);
            exchange(peer, longest, out, in);
        }
    }
    free(out);
    free(in);
    return finish("p2p_sizes");
}
