/* Simulated time of programs with threads. Each part says how long it should take in units of 4 ms of CPU time, and how long it took in
 * simulated time by the rank's clock: threads compute side by side on the cores of the simulated node, whatever the
 * host has.
 *
 * Arguments: the parts to do. The first rank prints one line for each: "PART EXPECTED MEASURED LEAPS", all in units.
 * LEAPS: by how much the CPU clocks of all threads have leapt. A virtual machine counts as CPU time what its host has
 * given to others meanwhile, so far as the host does not say so (4 ms every few seconds, 30 ms now and then).
 * LLVM's runtime for OpenMP has the functions of GNU's too, and may stand in its place. */
#include "check.h"
#include "computing.h"
#include <omp.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>
#include <unistd.h>

enum { UNIT = 4000000 }; /* ns of CPU time */
enum { STEPS = 10 };

static const double unit = UNIT * 1e-9; /* s */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static int turn;
static volatile int stop;

static _Atomic long leaps; /* ns */

/* So much CPU time, however fast the host is at this moment. A turn takes 1 us; much more is what the simulator needs to
 * follow the thread for a while, 1 to 2 ms, or a leap of the CPU clock: neither is computing. */
static void work(double units)
{
    enum { MOST = 20000, LEAP = 3000000 }; /* ns; to follow a thread takes less */
    volatile double x = 1;
    for (long left = (long)(units * UNIT), before = cpu_time(); left > 0;) {
        for (int i = 0; i < 300; i++)
            x = x * 1.0000001 + 1e-9;
        long now = cpu_time();
        long turn_took = now - before;
        if (turn_took > LEAP)
            leaps += turn_took;
        left -= turn_took < MOST ? turn_took : MOST;
        before = now;
    }
}

static void *compute(void *units)
{
    work((double)(intptr_t)units);
    return NULL;
}

/* A thread is made for something, and waited for. */
static double join(void)
{
    pthread_t threads[4];
    for (intptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, compute, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 4;
}

/* More threads than the two cores of the node: they share them. */
static double share(void)
{
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, compute, (void *)1);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    return 4;
}

/* The same where the host is so busy that each has ended before the next one is made: the kernel itself lets the maker
 * sleep, and its clock stands still. */
static double share_late(void)
{
    pthread_t threads[8];
    const struct timespec three_units = {0, 3 * UNIT};
    for (int i = 0; i < 8; i++) {
        pthread_create(&threads[i], NULL, compute, (void *)1);
        syscall(SYS_nanosleep, &three_units, NULL);
    }
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    return 4;
}

static void *look_around(void *unused)
{
    (void)unused;
    for (int i = 0; i < STEPS; i++) {
        pthread_mutex_lock(&lock);
        while (turn != 1)
            pthread_cond_wait(&changed, &lock);
        MPI_Wtime();
        turn = 0;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

/* A helper looks at the clock once a step, and computes nothing. */
static double helper(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, look_around, NULL);
    for (int i = 0; i < STEPS; i++) {
        work(0.5);
        pthread_mutex_lock(&lock);
        turn = 1;
        pthread_cond_broadcast(&changed);
        while (turn != 0)
            pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
    }
    pthread_join(thread, NULL);
    return STEPS * 0.5;
}

static void *alternate(void *self)
{
    for (int i = 0; i < STEPS; i++) {
        work(i % 2 == (int)(intptr_t)self ? 1 : 0.25);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/* Two threads are the slower one in turns. */
static double barriers(void)
{
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, alternate, (void *)1);
    alternate((void *)0);
    pthread_join(thread, NULL);
    return STEPS;
}

static void *in_turn(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    work(1);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Threads compute under one lock. */
static double mutex(void)
{
    pthread_t threads[4];
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, in_turn, NULL);
    work(1);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 5;
}

static sem_t full, taken;

static void *consume(void *unused)
{
    (void)unused;
    for (int i = 0; i < STEPS; i++) {
        sem_wait(&full);
        work(0.5);
        sem_post(&taken);
    }
    return NULL;
}

/* One computes, then the other one. */
static double semaphore(void)
{
    pthread_t thread;
    sem_init(&full, 0, 0);
    sem_init(&taken, 0, 0);
    pthread_create(&thread, NULL, consume, NULL);
    for (int i = 0; i < STEPS; i++) {
        work(0.5);
        sem_post(&full);
        sem_wait(&taken);
    }
    pthread_join(thread, NULL);
    return STEPS;
}

static void *progress(void *unused)
{
    (void)unused;
    int flag = 0;
    while (!stop) {
        pthread_mutex_lock(&lock);
        MPI_Iprobe(MPI_ANY_SOURCE, 99, WORLD, &flag, MPI_STATUS_IGNORE);
        pthread_mutex_unlock(&lock);
        sched_yield();
    }
    return NULL;
}

/* A thread polls all the time while the main one computes and sends messages. */
static double progress_thread(void)
{
    pthread_t thread;
    stop = 0;
    pthread_create(&thread, NULL, progress, NULL);
    for (int i = 0; i < STEPS; i++) {
        work(0.5);
        pthread_mutex_lock(&lock);
        MPI_Sendrecv(NULL, 0, MPI_INT, rank ^ 1, 1, NULL, 0, MPI_INT, rank ^ 1, 1, WORLD, MPI_STATUS_IGNORE);
        pthread_mutex_unlock(&lock);
    }
    stop = 1;
    pthread_join(thread, NULL);
    return STEPS * 0.5;
}

static void *doze(void *unused)
{
    (void)unused;
    while (!stop)
        usleep(500);
    return NULL;
}

/* A thread sleeps all the time. */
static double sleeper(void)
{
    pthread_t thread;
    stop = 0;
    pthread_create(&thread, NULL, doze, NULL);
    work(STEPS * 0.5);
    MPI_Barrier(WORLD);
    stop = 1;
    pthread_join(thread, NULL);
    return STEPS * 0.5;
}

static void *wait_in_vain(void *unused)
{
    (void)unused;
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += (long)(2 * unit * 1e9);
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(&own);
    while (pthread_cond_timedwait(&never, &own, &end) == 0)
        ;
    pthread_mutex_unlock(&own);
    return NULL;
}

/* A thread waits with a time limit while the main one computes for less, or for more. */
static double time_limit(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, wait_in_vain, NULL);
    work(1);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, wait_in_vain, NULL);
    work(4);
    pthread_join(thread, NULL);
    return 2 + 4;
}

static double region(void)
{
#pragma omp parallel num_threads(4)
    work(1 + omp_get_thread_num());
    return 4;
}

/* Not shorter ones: to wake the others takes LLVM's runtime some 4 us, and more or less of it on a busy host. */
static double many_regions(void)
{
    for (int i = 0; i < 40; i++) {
#pragma omp parallel num_threads(4)
        work(0.1);
    }
    return 4;
}

static double omp_barriers(void)
{
#pragma omp parallel num_threads(2)
    for (int i = 0; i < STEPS; i++) {
        work(omp_get_thread_num() == i % 2 ? 1 : 0.25);
#pragma omp barrier
    }
    return STEPS;
}

static double omp_critical(void)
{
#pragma omp parallel num_threads(4)
    for (int i = 0; i < 2; i++) {
#pragma omp critical
        work(0.5);
    }
    return 4;
}

static double omp_reduction(void)
{
    double sum = 0;
#pragma omp parallel for num_threads(4) schedule(static) reduction(+ : sum)
    for (int i = 0; i < 16; i++) {
        work(0.5);
        sum += i;
    }
    CHECK(sum == 120);
    return 2;
}

/* Who executes a task may do so while it waits. */
static double omp_tasks(void)
{
#pragma omp parallel num_threads(4)
#pragma omp single nowait
    {
#pragma omp task
        work(4);
    }
    return 4;
}

/* What a runtime does before its first region is no part of that: LLVM's looks at the machine. */
static void begin_openmp(void)
{
    static volatile int members;
#pragma omp parallel num_threads(4)
    members = omp_get_num_threads();
}

static const struct {
    const char *name;
    double (*run)(void);
    int openmp;
} parts[] = {
    {"join", join, 0}, {"share", share, 0}, {"share_late", share_late, 0}, {"helper", helper, 0}, {"barriers", barriers, 0}, {"mutex", mutex, 0}, {"semaphore", semaphore, 0},
    {"progress", progress_thread, 0}, {"sleeper", sleeper, 0}, {"time_limit", time_limit, 0},
    {"region", region, 1}, {"regions", many_regions, 1}, {"omp_barriers", omp_barriers, 1}, {"critical", omp_critical, 1},
    {"reduction", omp_reduction, 1}, {"tasks", omp_tasks, 1},
};

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    CHECK(provided >= MPI_THREAD_SERIALIZED);
    for (int i = 1; i < argc; i++) {
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            if (strcmp(argv[i], parts[p].name) != 0)
                continue;
            if (parts[p].openmp)
                begin_openmp();
            MPI_Barrier(WORLD);
            leaps = 0;
            double between = MPI_Wtime();
            double expected = parts[p].run();
            double end = MPI_Wtime();
            double own = (double)leaps / UNIT, all;
            MPI_Reduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, 0, WORLD);
            if (rank == 0)
                printf("%s %.2f %.3f %.3f\n", parts[p].name, expected, (end - between) / unit, all);
        }
    }
    return finish("thread_time");
}
