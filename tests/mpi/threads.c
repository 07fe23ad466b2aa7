/* MPI_Init_thread: the level that comes back is honoured. Argument: the level asked for (0 single ... 3 multiple).
 *
 * With MPI_THREAD_MULTIPLE granted, four threads of every rank communicate at once, each on its own communicator and
 * all on one communicator with different tags. With less the main thread does the same work alone; the checks are the
 * same. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, TURNS = 30 };
static MPI_Comm own[THREADS];
static int wrong[THREADS];

static void *work(void *argument)
{
    int t = (int)(intptr_t)argument, next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    static const int lengths[] = {0, 64, 500, 9000, 40000};
    char *out = malloc(40000), *in = malloc(40000);
    for (int turn = 0; turn < TURNS; turn++) {
        int length = lengths[(turn + t) % 5];
        MPI_Status status;
        fill(out, (size_t)length, mix((uint64_t)rank, (uint64_t)t, (uint64_t)turn));
        MPI_Comm comm = turn % 2 ? own[t] : WORLD;
        MPI_Sendrecv(out, length, MPI_BYTE, next, t, in, length, MPI_BYTE, previous, t, comm, &status);
        char expected[40000];
        fill(expected, (size_t)length, mix((uint64_t)previous, (uint64_t)t, (uint64_t)turn));
        wrong[t] += memcmp(in, expected, (size_t)length) != 0 || status.MPI_SOURCE != previous || status.MPI_TAG != t;
        int sum = 0, mine = rank + t;
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, own[t]);
        wrong[t] += sum != ranks * (ranks - 1) / 2 + ranks * t;
    }
    free(out);
    free(in);
    return NULL;
}

int main(int argc, char **argv)
{
    static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
    int wanted = levels[argc > 1 ? atoi(argv[1]) & 3 : 3], provided = -1, answer, main_thread;
    MPI_Init_thread(&argc, &argv, wanted, &provided);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    CHECK(provided >= MPI_THREAD_SINGLE && provided <= MPI_THREAD_MULTIPLE);
    MPI_Query_thread(&answer);
    CHECK_EQ(answer, provided);
    MPI_Is_thread_main(&main_thread);
    CHECK(main_thread);
    for (int t = 0; t < THREADS; t++)
        MPI_Comm_dup(WORLD, &own[t]);
    if (wanted == MPI_THREAD_MULTIPLE && provided == MPI_THREAD_MULTIPLE) {
        pthread_t threads[THREADS];
        for (intptr_t t = 0; t < THREADS; t++)
            pthread_create(&threads[t], NULL, work, (void *)t);
        for (int t = 0; t < THREADS; t++)
            pthread_join(threads[t], NULL);
    } else {
        for (intptr_t t = 0; t < THREADS; t++)
            work((void *)t);
    }
    for (int t = 0; t < THREADS; t++) {
        CHECK_EQ(wrong[t], 0);
        MPI_Comm_free(&own[t]);
    }
    return finish("threads");
}
