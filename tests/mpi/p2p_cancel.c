/* MPI_Cancel of receives: one that nothing matched is cancelled, one that a message matched completes. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    char data[100], spare[100];
    MPI_Status status;
    MPI_Request request;
    int cancelled;

    for (int turn = 0; turn < 10; turn++) {
        /* Nothing matches. */
        memset(spare, 0x5a, sizeof spare);
        MPI_Irecv(spare, 100, MPI_BYTE, turn % 2 ? MPI_ANY_SOURCE : previous, 99, WORLD, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        CHECK(cancelled);
        CHECK(request == MPI_REQUEST_NULL);

        MPI_Barrier(WORLD); /* nobody sends before everybody has cancelled */

        /* The cancelled receive takes no later message. */
        fill(data, 100, mix((uint64_t)rank, (uint64_t)turn, 0));
        MPI_Isend(data, 100, MPI_BYTE, next, 99, WORLD, &request);
        char in[100];
        MPI_Recv(in, 100, MPI_BYTE, previous, 99, WORLD, &status);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK_FILL(in, 100, mix((uint64_t)previous, (uint64_t)turn, 0));
        for (int i = 0; i < 100; i++)
            if (spare[i] != 0x5a)
                fail_at(__FILE__, __LINE__, "cancelled receive", "its buffer was written at %d", i);

        /* Matched already: cancelling has no effect. */
        MPI_Irecv(in, 100, MPI_BYTE, previous, 98, WORLD, &request);
        MPI_Send(data, 100, MPI_BYTE, next, 98, WORLD);
        MPI_Send(NULL, 0, MPI_BYTE, next, 97, WORLD);
        MPI_Recv(NULL, 0, MPI_BYTE, previous, 97, WORLD, MPI_STATUS_IGNORE);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        CHECK(!cancelled);
        CHECK_STATUS(&status, previous, 98, MPI_BYTE, 100);
    }

    /* Cancel one of several; the others keep their places. */
    char in[4][8];
    MPI_Request several[4];
    for (int i = 0; i < 4; i++)
        MPI_Irecv(in[i], 8, MPI_BYTE, previous, 5, WORLD, &several[i]);
    MPI_Cancel(&several[1]);
    MPI_Wait(&several[1], &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(cancelled);
    MPI_Barrier(WORLD);
    for (int i = 0; i < 3; i++) {
        fill(data, 8, mix((uint64_t)rank, 5, (uint64_t)i));
        MPI_Send(data, 8, MPI_BYTE, next, 5, WORLD);
    }
    MPI_Waitall(4, several, MPI_STATUSES_IGNORE);
    CHECK_FILL(in[0], 8, mix((uint64_t)previous, 5, 0));
    CHECK_FILL(in[2], 8, mix((uint64_t)previous, 5, 1));
    CHECK_FILL(in[3], 8, mix((uint64_t)previous, 5, 2));
    return finish("p2p_cancel");
}
