/* Threads that sleep, that wait with a time limit, and that wait in MPI, all of one rank: each goes on at its own time,
 * in the order of these times. The argument: by how many ms it may be late. */
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never, finished;
static struct timespec begun;
static double tolerance;
static int slept;

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - begun.tv_sec) * 1e3 + (double)(now.tv_nsec - begun.tv_nsec) / 1e6;
}

static void check_time(double wanted, const char *what)
{
    double is = now_ms();
    checks_made++;
    if (is < wanted - 0.001 || is > wanted + tolerance)
        fail_at(__FILE__, __LINE__, what, "at %.3f ms instead of %.0f", is, wanted);
}

/* When so many ms have passed since the beginning. */
static struct timespec after(int ms)
{
    struct timespec time = begun;
    time.tv_nsec += ms * 1000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static void *sleeper(void *argument)
{
    (void)argument;
    struct timespec until = after(200);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    check_time(200, "the sleeper wakes");
    pthread_mutex_lock(&mutex);
    slept = 1;
    pthread_cond_signal(&finished);
    pthread_mutex_unlock(&mutex);
    MPI_Send(&slept, 1, MPI_INT, rank, 1, WORLD);
    return NULL;
}

/* It waits in MPI for what the sleeper sends, so it looks at the network meanwhile. */
static void *receiver(void *argument)
{
    (void)argument;
    int got = 0;
    MPI_Recv(&got, 1, MPI_INT, rank, 1, WORLD, MPI_STATUS_IGNORE);
    CHECK_EQ(got, 1);
    check_time(200, "the message comes");
    return NULL;
}

/* Keeps the lock of a wait whose time is over meanwhile. */
static void *keeper(void *argument)
{
    (void)argument;
    struct timespec until = after(10);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    pthread_mutex_lock(&mutex);
    until = after(200);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void wait_for_the_lock(void)
{
    pthread_t thread;
    MPI_Barrier(WORLD);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    pthread_mutex_lock(&mutex);
    pthread_create(&thread, NULL, keeper, NULL);
    struct timespec until = after(20);
    while (pthread_cond_timedwait(&never, &mutex, &until) == 0) {}
    check_time(200, "the lock of a wait is free");
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
}

static sem_t things;

/* Puts a thing every 30 ms. */
static void *maker(void *argument)
{
    (void)argument;
    for (int thing = 1; thing <= 5; thing++) {
        struct timespec until = after(30 * thing);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        sem_post(&things);
    }
    return NULL;
}

/* Who waits for them, for much longer than it takes, has each when it was put, although the maker sleeps again. */
static void take_things(void)
{
    pthread_t thread;
    MPI_Barrier(WORLD);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    sem_init(&things, 0, 0);
    pthread_create(&thread, NULL, maker, NULL);
    for (int thing = 1; thing <= 5; thing++) {
        struct timespec late = after(30 * thing + 800);
        CHECK_EQ(sem_clockwait(&things, CLOCK_MONOTONIC, &late), 0);
        check_time(30 * thing, "a thing comes");
    }
    pthread_join(thread, NULL);
    sem_destroy(&things);
}

static void round_of(int receives)
{
    pthread_t threads[2];
    MPI_Request request;
    int got = 0;
    slept = 0;
    MPI_Barrier(WORLD);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    pthread_create(&threads[0], NULL, sleeper, NULL);
    if (receives)
        pthread_create(&threads[1], NULL, receiver, NULL);
    else
        MPI_Irecv(&got, 1, MPI_INT, rank, 1, WORLD, &request);
    pthread_mutex_lock(&mutex);
    for (int step = 1; step <= 5; step++) {
        struct timespec until = after(20 * step);
        while (pthread_cond_timedwait(&never, &mutex, &until) == 0) {}
        check_time(20 * step, "a wait ends");
        CHECK_EQ(slept, 0);
    }
    struct timespec late = after(900);
    int code = 0;
    while (!slept && code == 0)
        code = pthread_cond_timedwait(&finished, &mutex, &late);
    CHECK_EQ(code, 0);
    check_time(200, "the sleeper is waited for");
    pthread_mutex_unlock(&mutex);
    for (int thread = 0; thread < 1 + receives; thread++)
        pthread_join(threads[thread], NULL);
    if (!receives)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int given;
    pthread_condattr_t monotonic;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    CHECK_EQ(given, MPI_THREAD_MULTIPLE);
    tolerance = atof(argv[1]);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&never, &monotonic);
    pthread_cond_init(&finished, &monotonic);
    round_of(0);
    round_of(1);
    wait_for_the_lock();
    take_things();
    return finish("threads_timeouts");
}
