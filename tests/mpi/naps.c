/* Sleeps of no time, and calls that wait for nothing, in loops: simulated time goes on. Arguments: the
 * level of threads, and "exact" where computing takes no time. */
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

/* The timer slack of Linux: no sleep is shorter. */
static const double SLACK = 50e-6;
enum { MANY = 20 };

static const struct timespec NO_TIME = {0, 0};
static _Atomic int arrived;

static void by_usleep(void)
{
    usleep(0);
}

static void by_usleep_1(void)
{
    usleep(1);
}

static void by_sleep(void)
{
    sleep(0);
}

static void by_nanosleep(void)
{
    nanosleep(&NO_TIME, NULL);
}

static void by_clock_nanosleep(void)
{
    clock_nanosleep(CLOCK_MONOTONIC, 0, &NO_TIME, NULL);
}

static void by_select(void)
{
    struct timeval none = {0, 0};
    select(0, NULL, NULL, NULL, &none);
}

static void by_poll(void)
{
    poll(NULL, 0, 0);
}

static void by_yield(void)
{
    sched_yield();
}

static void *receive(void *argument)
{
    int number;
    MPI_Recv(&number, 1, MPI_INT, 1 - rank, 7, WORLD, MPI_STATUS_IGNORE);
    arrived = 1;
    return argument;
}

static void (*nap)(void);

static void *loop(void *argument)
{
    while (!arrived)
        nap();
    return argument;
}

/* One thread waits for a message inside MPI, the other one outside of it. */
static void await(void (*by)(void), void *(*first)(void *), void *(*second)(void *), int exact)
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
        CHECK(!exact || (took >= delay && took < delay + 3 * SLACK));
    } else {
        usleep((unsigned)(delay * 1e6));
        MPI_Send(&rank, 1, MPI_INT, 0, 7, WORLD);
    }
}

int main(int argc, char **argv)
{
    void (*const naps[])(void) = {by_usleep, by_usleep_1, by_sleep, by_nanosleep, by_clock_nanosleep, by_select, by_poll, by_yield};
    enum { NAPS = sizeof naps / sizeof *naps, SLEEPS = NAPS - 3 };
    int given, multiple = argc > 1 && strcmp(argv[1], "multiple") == 0;
    MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &given);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    CHECK(given >= (multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED));
    int exact = argc == 3 && strcmp(argv[2], "exact") == 0;
    for (size_t at = 0; at < NAPS; at++) {
        double start = MPI_Wtime();
        for (int i = 0; i < MANY; i++)
            naps[at]();
        double took = MPI_Wtime() - start;
        CHECK(at >= SLEEPS || took > (MANY - 0.01) * SLACK);
        CHECK(!exact || at >= SLEEPS || took < (MANY + 0.1) * SLACK);
        await(naps[at], receive, loop, exact);
        if (multiple)
            await(naps[at], loop, receive, exact);
    }
    return finish("naps");
}
