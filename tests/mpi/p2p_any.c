/* MPI_ANY_SOURCE and MPI_ANY_TAG, and the order of messages: messages of one sender and one communicator do not overtake
 * each other, whatever their lengths. */
#include "check.h"

#define ROUNDS 24

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    /* Lengths jump between protocols so that a later, shorter message could overtake. */
    static const int lengths[] = {4, 70000, 8, 400, 9000, 64, 20000, 4096};
    int *data = allocate(70000);

    /* 1. Everybody sends to rank 0; rank 0 receives from anybody with any tag. */
    if (rank == 0) {
        int *seen = calloc((size_t)ranks, sizeof *seen);
        for (int i = 0; i < (ranks - 1) * ROUNDS; i++) {
            MPI_Status status;
            MPI_Recv(data, 70000, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, WORLD, &status);
            int source = status.MPI_SOURCE;
            int order = seen[source]++;
            CHECK_STATUS(&status, source, order % 5, MPI_BYTE, lengths[order % 8]);
            CHECK_EQ(data[0], source * 1000 + order);
        }
        for (int r = 1; r < ranks; r++)
            CHECK_EQ(seen[r], ROUNDS);
        free(seen);
    } else {
        for (int i = 0; i < ROUNDS; i++) {
            data[0] = rank * 1000 + i;
            MPI_Send(data, lengths[i % 8], MPI_BYTE, 0, i % 5, WORLD);
        }
    }
    MPI_Barrier(WORLD);

    /* 2. Posted receives match in the order of posting: wildcard and exact ones mixed. */
    enum { N = 16 };
    int peer = rank ^ 1;
    int in[N], out[N];
    MPI_Request receives[N], sends[N];
    MPI_Status statuses[N];
    if (peer < ranks)
        for (int i = 0; i < N; i++)
            MPI_Irecv(&in[i], 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : peer, i % 3 ? MPI_ANY_TAG : 9, WORLD, &receives[i]);
    MPI_Barrier(WORLD); /* all receives are posted */
    if (peer < ranks) {
        for (int i = 0; i < N; i++) {
            out[i] = rank * 100 + i;
            MPI_Isend(&out[i], 1, MPI_INT, peer, 9, WORLD, &sends[i]);
        }
        MPI_Waitall(N, receives, statuses);
        MPI_Waitall(N, sends, MPI_STATUSES_IGNORE);
        for (int i = 0; i < N; i++) {
            CHECK_STATUS(&statuses[i], peer, 9, MPI_INT, 1);
            CHECK_EQ(in[i], peer * 100 + i);
        }
    }
    MPI_Barrier(WORLD);

    /* 3. A receive for one tag passes by earlier messages with other tags; those keep their order. */
    if (peer < ranks) {
        for (int i = 0; i < N; i++) {
            out[i] = i;
            MPI_Isend(&out[i], 1, MPI_INT, peer, i % 4, WORLD, &sends[i]);
        }
        for (int tag = 3; tag >= 0; tag--)
            for (int i = tag; i < N; i += 4) {
                int value = -1;
                MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, tag, WORLD, MPI_STATUS_IGNORE);
                CHECK_EQ(value, i);
            }
        MPI_Waitall(N, sends, MPI_STATUSES_IGNORE);
    }
    free(data);
    return finish("p2p_any");
}
