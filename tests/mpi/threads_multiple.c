/* MPI_THREAD_MULTIPLE: four threads of each rank talk to their partners at the same time, with tags and communicators of their own, and the
 * main thread waits for them. Rank pairs are (0, 1), (2, 3) and so on.
 *
 * Arguments: turns (default 50), and what the threads do: `pingpong` (default), `wait` (MPI_Waitall, MPI_Test,
 * MPI_Probe), `sleep` (each sleeps between messages, a time of its own). */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

enum { THREADS = 4 };
static MPI_Comm own[THREADS];
static int wrong[THREADS], turns = 50;
static const char *how = "pingpong";

static void exchange(int t, int partner, int turn, unsigned char *out, unsigned char *in, int length)
{
    MPI_Comm comm = turn % 2 ? own[t] : WORLD;
    MPI_Status status;
    int count;
    if (!strcmp(how, "wait") && turn % 3 == 0) {
        MPI_Request requests[2];
        MPI_Irecv(in, length, MPI_BYTE, partner, t, comm, &requests[0]);
        MPI_Isend(out, length, MPI_BYTE, partner, t, comm, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else if (!strcmp(how, "wait") && turn % 3 == 1) {
        MPI_Request request;
        MPI_Isend(out, length, MPI_BYTE, partner, t, comm, &request);
        MPI_Probe(partner, t, comm, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        wrong[t] += count != length;
        MPI_Recv(in, length, MPI_BYTE, partner, t, comm, &status);
        int done = 0;
        while (!done)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    } else if (rank % 2 == 0) {
        MPI_Send(out, length, MPI_BYTE, partner, t, comm);
        MPI_Recv(in, length, MPI_BYTE, partner, t, comm, &status);
    } else {
        MPI_Recv(in, length, MPI_BYTE, partner, t, comm, &status);
        MPI_Send(out, length, MPI_BYTE, partner, t, comm);
    }
}

static void *work(void *argument)
{
    int t = (int)(intptr_t)argument, partner = rank ^ 1;
    static const int lengths[] = {0, 8, 500, 9000, 40000};
    unsigned char *out = malloc(40000), *in = malloc(40000), *expected = malloc(40000);
    for (int turn = 0; turn < turns; turn++) {
        int length = lengths[(turn + t) % 5];
        fill((char *)out, (size_t)length, mix((uint64_t)rank, (uint64_t)t, (uint64_t)turn));
        fill((char *)expected, (size_t)length, mix((uint64_t)partner, (uint64_t)t, (uint64_t)turn));
        memset(in, 0, 40000);
        if (!strcmp(how, "sleep"))
            usleep((unsigned)(5 * (t + 1)));
        exchange(t, partner, turn, out, in, length);
        wrong[t] += memcmp(in, expected, (size_t)length) != 0;
    }
    free(out);
    free(in);
    free(expected);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided = -1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    if (argc > 1)
        turns = atoi(argv[1]);
    if (argc > 2)
        how = argv[2];
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    for (int t = 0; t < THREADS; t++)
        MPI_Comm_dup(WORLD, &own[t]);
    pthread_t threads[THREADS];
    for (intptr_t t = 0; t < THREADS; t++)
        pthread_create(&threads[t], NULL, work, (void *)t);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    for (int t = 0; t < THREADS; t++) {
        CHECK_EQ(wrong[t], 0);
        MPI_Comm_free(&own[t]);
    }
    return finish("threads_multiple");
}
