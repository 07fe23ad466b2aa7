/* Programs that poll by themselves. Argument: test | iprobe | testany | clock | wtime | yield | mutual | steps.
 *
 * test, iprobe, testany: the odd ranks poll for messages that their peers send after some messages of their own. clock,
 * wtime: a loop that ends when 2 ms have passed on that clock. yield: test, with sched_yield between. mutual: nobody
 * ever waits, every rank sends updates to others and polls for its own with MPI_Test, as RandomAccess does. steps: the
 * odd ranks compute in small steps and call MPI_Test after each. */
#include "check.h"
#include <sched.h>
#include <time.h>

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Every rank sends UPDATES messages to ranks that the seed tells, one at a time, and polls until all of its own are there. */
static void mutual(void)
{
    enum { UPDATES = 40 };
    int expected = 0, sent = 0, got = 0, in = 0, out = 0, flag;
    MPI_Request send = MPI_REQUEST_NULL, receive;
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < UPDATES; i++)
            expected += mix((uint64_t)r, (uint64_t)i, 5) % (uint64_t)ranks == (uint64_t)rank;
    if (expected)
        MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 3, WORLD, &receive);
    while (sent < UPDATES || got < expected) {
        MPI_Status status;
        if (got < expected)
            MPI_Test(&receive, &flag, &status);
        if (got < expected && flag) {
            got++;
            CHECK_EQ(in, status.MPI_SOURCE);
            if (got < expected)
                MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 3, WORLD, &receive);
        }
        if (sent < UPDATES) {
            MPI_Test(&send, &flag, MPI_STATUS_IGNORE);
            if (flag) {
                out = rank;
                MPI_Isend(&out, 1, MPI_INT, (int)(mix((uint64_t)rank, (uint64_t)sent, 5) % (uint64_t)ranks), 3, WORLD, &send);
                sent++;
            }
        }
    }
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Barrier(WORLD);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "test";
    begin(&argc, &argv);
    int peer = rank ^ 1, value = 0, done;
    for (int turn = 0; turn < 5; turn++) {
        if (!strcmp(mode, "clock")) {
            double start = seconds();
            while (seconds() < start + 0.002)
                ;
            CHECK(seconds() - start >= 0.002);
        } else if (!strcmp(mode, "wtime")) {
            double start = MPI_Wtime();
            while (MPI_Wtime() < start + 0.002)
                ;
            CHECK(MPI_Wtime() - start >= 0.002);
        } else if (!strcmp(mode, "mutual")) {
            mutual();
        } else if (peer < ranks) {
            if (rank % 2 == 0) {
                /* The even ranks exchange among themselves first: the odd ones poll meanwhile. */
                struct timespec pause = {0, 300000};
                nanosleep(&pause, NULL);
                value = rank * 10 + turn;
                MPI_Send(&value, 1, MPI_INT, peer, 1, WORLD);
                MPI_Recv(&value, 1, MPI_INT, peer, 2, WORLD, MPI_STATUS_IGNORE);
                CHECK_EQ(value, rank * 10 + turn + 1);
            } else {
                MPI_Request request[2];
                MPI_Status status;
                int index;
                done = 0;
                if (!strcmp(mode, "iprobe")) {
                    while (!done)
                        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, WORLD, &done, &status);
                    CHECK_STATUS(&status, peer, 1, MPI_INT, 1);
                    MPI_Recv(&value, 1, MPI_INT, peer, 1, WORLD, MPI_STATUS_IGNORE);
                } else if (!strcmp(mode, "testany")) {
                    int other;
                    MPI_Irecv(&other, 1, MPI_INT, peer, 77, WORLD, &request[0]);
                    MPI_Irecv(&value, 1, MPI_INT, peer, 1, WORLD, &request[1]);
                    while (!done)
                        MPI_Testany(2, request, &index, &done, &status);
                    CHECK_EQ(index, 1);
                    MPI_Cancel(&request[0]);
                    MPI_Wait(&request[0], MPI_STATUS_IGNORE);
                } else {
                    MPI_Irecv(&value, 1, MPI_INT, peer, 1, WORLD, &request[0]);
                    while (!done) {
                        MPI_Test(&request[0], &done, &status);
                        if (!strcmp(mode, "yield"))
                            sched_yield();
                        if (!strcmp(mode, "steps"))
                            for (volatile int i = 0; i < 2000; i++)
                                ;
                    }
                    CHECK_STATUS(&status, peer, 1, MPI_INT, 1);
                }
                CHECK_EQ(value, peer * 10 + turn);
                value++;
                MPI_Send(&value, 1, MPI_INT, peer, 2, WORLD);
            }
        }
    }
    return finish("spin");
}
