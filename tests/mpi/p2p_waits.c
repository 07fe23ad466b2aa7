/* Every way to complete requests: Wait/Test, all, any, some; MPI_Request_get_status; MPI_Request_free; inactive requests. */
#include "check.h"

enum { N = 12 };
static int in[N], out[N];
static MPI_Request receives[N], sends[N];

static void start(int round)
{
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    for (int i = 0; i < N; i++) {
        in[i] = -1;
        MPI_Irecv(&in[i], 1, MPI_INT, previous, i, WORLD, &receives[i]);
    }
    for (int i = 0; i < N; i++) {
        int k = (i * 5) % N; /* 5 and 12 share no factor: every k once */
        out[k] = round * 1000 + rank * 20 + k;
        MPI_Isend(&out[k], 1, MPI_INT, next, k, WORLD, &sends[k]);
    }
}

static void verify(int round)
{
    int previous = (rank + ranks - 1) % ranks;
    for (int i = 0; i < N; i++) {
        CHECK_EQ(in[i], round * 1000 + previous * 20 + i);
        CHECK(receives[i] == MPI_REQUEST_NULL);
        CHECK(sends[i] == MPI_REQUEST_NULL);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int previous = (rank + ranks - 1) % ranks, next = (rank + 1) % ranks;
    MPI_Status status, statuses[N];
    int flag, index, count, indices[N];

    for (int round = 0; round < 8; round++) {
        start(round);
        int done = 0;
        switch (round) {
        case 0:
            MPI_Waitall(N, receives, statuses);
            for (int i = 0; i < N; i++)
                CHECK_STATUS(&statuses[i], previous, i, MPI_INT, 1);
            break;
        case 1:
            for (; done < N; done++) {
                MPI_Waitany(N, receives, &index, &status);
                CHECK_STATUS(&status, previous, index, MPI_INT, 1);
            }
            MPI_Waitany(N, receives, &index, &status);
            CHECK_EQ(index, MPI_UNDEFINED);
            break;
        case 2:
            while (done < N) {
                MPI_Waitsome(N, receives, &count, indices, statuses);
                if (count < 1)
                    fail_at(__FILE__, __LINE__, "MPI_Waitsome", "count %d", count);
                for (int i = 0; i < count; i++)
                    CHECK_STATUS(&statuses[i], previous, indices[i], MPI_INT, 1);
                done += count;
            }
            MPI_Waitsome(N, receives, &count, indices, statuses);
            CHECK_EQ(count, MPI_UNDEFINED);
            break;
        case 3:
            for (flag = 0; !flag;)
                MPI_Testall(N, receives, &flag, statuses);
            for (int i = 0; i < N; i++)
                CHECK_STATUS(&statuses[i], previous, i, MPI_INT, 1);
            break;
        case 4:
            while (done < N) {
                MPI_Testany(N, receives, &index, &flag, &status);
                if (flag) {
                    CHECK_STATUS(&status, previous, index, MPI_INT, 1);
                    done++;
                }
            }
            MPI_Testany(N, receives, &index, &flag, &status);
            CHECK(flag && index == MPI_UNDEFINED);
            break;
        case 5:
            while (done < N) {
                MPI_Testsome(N, receives, &count, indices, statuses);
                for (int i = 0; i < count; i++)
                    CHECK_STATUS(&statuses[i], previous, indices[i], MPI_INT, 1);
                done += count;
            }
            break;
        case 6:
            for (int i = N - 1; i >= 0; i--) {
                for (flag = 0; !flag;)
                    MPI_Test(&receives[i], &flag, &status);
                CHECK_STATUS(&status, previous, i, MPI_INT, 1);
            }
            break;
        case 7:
            for (int i = 0; i < N; i++) {
                for (flag = 0; !flag;)
                    MPI_Request_get_status(receives[i], &flag, &status);
                CHECK_STATUS(&status, previous, i, MPI_INT, 1);
                CHECK(receives[i] != MPI_REQUEST_NULL);
                MPI_Wait(&receives[i], MPI_STATUS_IGNORE);
            }
            break;
        }
        MPI_Waitall(N, sends, MPI_STATUSES_IGNORE);
        verify(round);
    }

    /* A freed send still arrives; a wait on MPI_REQUEST_NULL gives an empty status. */
    int value = rank, got;
    MPI_Request request;
    MPI_Isend(&value, 1, MPI_INT, next, 40, WORLD, &request);
    MPI_Request_free(&request);
    MPI_Recv(&got, 1, MPI_INT, previous, 40, WORLD, MPI_STATUS_IGNORE);
    CHECK_EQ(got, previous);
    MPI_Wait(&request, &status);
    CHECK_STATUS(&status, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_INT, 0);
    MPI_Barrier(WORLD); /* value stays alive until the freed send has been received */

    /* Persistent requests that were never started are inactive. */
    MPI_Send_init(&value, 1, MPI_INT, next, 41, WORLD, &request);
    MPI_Wait(&request, &status);
    CHECK_STATUS(&status, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_INT, 0);
    MPI_Request_free(&request);
    return finish("p2p_waits");
}
