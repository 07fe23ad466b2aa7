#define _GNU_SOURCE
/* Threads whose order is decided by the host, in one of five ways. What comes of it is right, and its digest may not
 * repeat; the run has to say so. Ranks (0, 1), (2, 3) and so on talk to each other.
 *
 *   queue    a lock around the number of the next piece of work
 *   memory   waits until another thread has written into memory
 *   clock    the same, looking at the clock meanwhile
 *   long     computes for so long that nobody waits for it, while all others wait in MPI
 *   progress one thread polls, another one talks, below MPI_THREAD_MULTIPLE and around a lock
 *
 * Or in none of them:
 *
 *   apart    each thread has its own work
 *   futex    waits until another thread has written into memory, which the kernel knows */
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 3, PIECES = 24, LARGEST = 20000 };
static const char *way;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int turn, over;
static int next_piece, done[PIECES];

static int is(const char *name) { return strcmp(way, name) == 0; }

static void talk(int tag)
{
    int partner = rank ^ 1, out = rank + tag, in = -1;
    MPI_Sendrecv(&out, 1, MPI_INT, partner, tag, &in, 1, MPI_INT, partner, tag, WORLD, MPI_STATUS_IGNORE);
    if (in != partner + tag)
        fail_at(__FILE__, __LINE__, "talk", "got %d", in);
}

/* The next piece of work, by a lock that is never held for long. */
static void *take_pieces(void *unused)
{
    static char data[THREADS][LARGEST];
    for (;;) {
        pthread_mutex_lock(&lock);
        int piece = next_piece++;
        pthread_mutex_unlock(&lock);
        if (piece >= PIECES)
            return unused;
        done[piece]++;
        MPI_Send(data[piece % THREADS], 100 + piece * 400, MPI_CHAR, rank ^ 1, piece, WORLD);
    }
}

static void *wait_for_turn(void *argument)
{
    int own = (int)(intptr_t)argument;
    for (int seen; (seen = turn) < own;)
        if (is("futex"))
            syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        else if (is("clock"))
            MPI_Wtime();
    MPI_Send(&own, 1, MPI_INT, rank ^ 1, 100 + own, WORLD);
    return NULL;
}

static void *poll(void *unused)
{
    while (!over) {
        int there;
        pthread_mutex_lock(&lock);
        MPI_Iprobe(MPI_ANY_SOURCE, 99, WORLD, &there, MPI_STATUS_IGNORE);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static void *compute(void *argument)
{
    int own = (int)(intptr_t)argument;
    volatile double sum = 0;
    for (long i = 0; i < 200000000; i++)
        sum += (double)i;
    MPI_Send(&own, 1, MPI_INT, rank ^ 1, 100 + own, WORLD);
    return NULL;
}

static void *work_apart(void *argument)
{
    int own = (int)(intptr_t)argument;
    for (int i = 0; i < 5 * own; i++)
        talk(own);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided = -1;
    way = argc > 1 ? argv[1] : "";
    void *(*work)(void *) = is("queue") ? take_pieces : is("progress") ? poll : is("apart") ? work_apart : is("long") ? compute : wait_for_turn;
    int wanted = is("progress") ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE;
    MPI_Init_thread(&argc, &argv, wanted, &provided);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    CHECK(provided >= wanted);
    pthread_t threads[THREADS + 1];
    int last = is("progress") ? 1 : THREADS;
    for (intptr_t t = 1; t <= last; t++)
        pthread_create(&threads[t], NULL, work, (void *)t);
    if (is("queue")) {
        static char data[LARGEST];
        for (int i = 0; i < PIECES; i++)
            MPI_Recv(data, LARGEST, MPI_CHAR, rank ^ 1, MPI_ANY_TAG, WORLD, MPI_STATUS_IGNORE);
    } else if (is("progress")) {
        for (int i = 0; i < 20; i++) {
            int partner = rank ^ 1, out = rank + i, in = -1, complete = 0;
            MPI_Request both[2];
            pthread_mutex_lock(&lock);
            MPI_Irecv(&in, 1, MPI_INT, partner, 1, WORLD, &both[0]);
            MPI_Isend(&out, 1, MPI_INT, partner, 1, WORLD, &both[1]);
            pthread_mutex_unlock(&lock);
            while (!complete) {
                pthread_mutex_lock(&lock);
                MPI_Testall(2, both, &complete, MPI_STATUSES_IGNORE);
                pthread_mutex_unlock(&lock);
            }
            CHECK_EQ(in, partner + i);
        }
        over = 1;
    } else if (!is("apart")) {
        for (int t = 1; t <= THREADS; t++) {
            for (int i = 0; i < 5 * t && !is("long"); i++)
                talk(t);
            turn = t;
            if (is("futex"))
                syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, THREADS, NULL, NULL, 0);
        }
        for (int t = 1; t <= THREADS; t++) {
            int in = -1;
            MPI_Recv(&in, 1, MPI_INT, rank ^ 1, 100 + t, WORLD, MPI_STATUS_IGNORE);
            CHECK_EQ(in, t);
        }
    }
    for (int t = 1; t <= last; t++)
        pthread_join(threads[t], NULL);
    if (is("queue"))
        for (int i = 0; i < PIECES; i++)
            CHECK_EQ(done[i], 1);
    return finish("threads_chance");
}
