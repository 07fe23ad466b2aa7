/* Many unexpected messages: 10,000 wait at rank 0 before the first receive, which then takes them in another order. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int each = ranks > 1 ? 10000 / (ranks - 1) : 0;
    if (rank == 0) {
        for (int r = 1; r < ranks; r++) /* all have sent everything */
            MPI_Recv(NULL, 0, MPI_INT, r, 1, WORLD, MPI_STATUS_IGNORE);
        for (int r = ranks - 1; r > 0; r--)
            for (int i = 0; i < each; i++) {
                int value[4] = {0};
                MPI_Status status;
                MPI_Recv(value, 4, MPI_INT, r, 0, WORLD, &status);
                CHECK_STATUS(&status, r, 0, MPI_INT, 1 + i % 4);
                CHECK_EQ(value[0], r * 100000 + i);
                CHECK_EQ(value[i % 4], i % 4 ? r + i % 4 : r * 100000 + i);
            }
    } else {
        MPI_Request *requests = allocate((size_t)each * sizeof *requests);
        int *values = allocate((size_t)each * 4 * sizeof *values);
        for (int i = 0; i < each; i++) {
            int *value = values + 4 * i;
            for (int k = 0; k < 4; k++)
                value[k] = k ? rank + k : rank * 100000 + i;
            MPI_Isend(value, 1 + i % 4, MPI_INT, 0, 0, WORLD, &requests[i]);
        }
        MPI_Send(NULL, 0, MPI_INT, 0, 1, WORLD);
        MPI_Waitall(each, requests, MPI_STATUSES_IGNORE);
        free(requests);
        free(values);
    }
    MPI_Barrier(WORLD);

    /* Unexpected messages of rendezvous length, to everybody. */
    enum { LONG = 100000 };
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    MPI_Request sends[8];
    char *out = allocate(8 * LONG), *in = allocate(LONG);
    for (int i = 0; i < 8; i++) {
        fill(out + i * LONG, LONG, mix((uint64_t)rank, (uint64_t)i, 6));
        MPI_Isend(out + i * LONG, LONG, MPI_BYTE, next, i, WORLD, &sends[i]);
    }
    for (int i = 7; i >= 0; i--) {
        MPI_Recv(in, LONG, MPI_BYTE, previous, i, WORLD, MPI_STATUS_IGNORE);
        CHECK_FILL(in, LONG, mix((uint64_t)previous, (uint64_t)i, 6));
    }
    MPI_Waitall(8, sends, MPI_STATUSES_IGNORE);
    free(out);
    free(in);
    return finish("p2p_unexpected");
}
