/* Sleeps of no time, and calls that return at once, in loops: simulated time goes on, and no further than for the
 * thread of the rank that waits in MPI. Arguments: the level of threads, and on Narrows "exact" where
 * computing takes no time, "about" where it does. */
#define _GNU_SOURCE
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

/* The timer slack of Linux: so long a sleep of less than a microsecond takes. */
static const double SLACK = 50e-6;
enum { MANY = 20 };

static const struct timespec NO_TIME = {0, 0}, NANOSECOND = {0, 1};
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static _Atomic int arrived;

static void by_usleep(void) { usleep(0); }
static void by_usleep_1(void) { usleep(1); }
static void by_sleep(void) { sleep(0); }
static void by_nanosleep(void) { nanosleep(&NO_TIME, NULL); }
static void by_clock_nanosleep(void) { clock_nanosleep(CLOCK_MONOTONIC, 0, &NO_TIME, NULL); }
static void by_ppoll_1(void) { ppoll(NULL, 0, &NANOSECOND, NULL); }
static void by_pselect_1(void) { pselect(0, NULL, NULL, NULL, &NANOSECOND, NULL); }
static void by_ppoll(void) { ppoll(NULL, 0, &NO_TIME, NULL); }
static void by_pselect(void) { pselect(0, NULL, NULL, NULL, &NO_TIME, NULL); }
static void by_poll(void) { poll(NULL, 0, 0); }
static void by_yield(void) { sched_yield(); }
static void by_wtime(void) { MPI_Wtime(); }
static void by_trywait(void) { sem_trywait(&semaphore); }
static void by_timedwait(void) { sem_timedwait(&semaphore, &NO_TIME); }

static void by_select(void)
{
    struct timeval none = {0, 0};
    select(0, NULL, NULL, NULL, &none);
}

static void by_lock(void)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
}

static void by_condition(void)
{
    pthread_mutex_lock(&mutex);
    pthread_cond_timedwait(&condition, &mutex, &NO_TIME);
    pthread_mutex_unlock(&mutex);
}

static void (*const NAPS[])(void) = {
    by_usleep, by_sleep, by_nanosleep, by_clock_nanosleep, by_ppoll_1, by_pselect_1, by_usleep_1, by_ppoll, by_pselect,
    by_poll, by_yield, by_wtime, by_trywait, by_timedwait, by_select, by_lock, by_condition,
};
/* The first of them. */
enum { SLEEPS = 6 };

static void *receive(void *argument)
{
    int number;
    MPI_Recv(&number, 1, MPI_INT, 1 - rank, 7, WORLD, MPI_STATUS_IGNORE);
    arrived = 1;
    return argument;
}

static void (*nap)(void);
static int simulated, exact;

static void *loop(void *argument)
{
    while (!arrived)
        nap();
    return argument;
}

/* One thread waits for a message inside MPI, the other one outside of it. */
static void await(void (*by)(void), void *(*first)(void *), void *(*second)(void *))
{
    const double delay = 0.002;
    pthread_t thread;
    nap = by;
    arrived = 0;
    MPI_Barrier(WORLD);
    double start = MPI_Wtime();
    if (rank == 0) {
        CHECK_EQ(pthread_create(&thread, NULL, second, NULL), 0);
        first(NULL);
        pthread_join(thread, NULL);
        double took = MPI_Wtime() - start;
        CHECK(!simulated || took < 3 * delay);
        CHECK(!exact || (took >= delay && took < delay + 3 * SLACK));
    } else {
        usleep((unsigned)(delay * 1e6));
        MPI_Send(&rank, 1, MPI_INT, 0, 7, WORLD);
    }
}

int main(int argc, char **argv)
{
    exact = argc == 3 && strcmp(argv[2], "exact") == 0;
    simulated = argc == 3;
    int given, multiple = argc > 1 && strcmp(argv[1], "multiple") == 0;
    MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &given);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    CHECK(given >= (multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED));
    CHECK_EQ(sem_init(&semaphore, 0, 0), 0);
    for (size_t at = 0; at < sizeof NAPS / sizeof *NAPS; at++) {
        double start = MPI_Wtime();
        for (int i = 0; i < MANY; i++)
            NAPS[at]();
        double took = MPI_Wtime() - start;
        /* Plainly a timer may end sooner, with another one. */
        CHECK(!exact || at >= SLEEPS || (took > (MANY - 0.01) * SLACK && took < (MANY + 0.1) * SLACK));
        await(NAPS[at], receive, loop);
        if (multiple)
            await(NAPS[at], loop, receive);
    }
    return finish("naps");
}
