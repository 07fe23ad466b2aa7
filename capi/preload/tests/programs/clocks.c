/* Virtual time, before and after MPI_Init, in threads and children. */
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { fprintf(stderr, "line %d: %s\n", __LINE__, #x); exit(1); } } while (0)
#define EPOCH 1767225600 /* 2026-01-01 00:00:00 UTC */

static double real_now(void) {
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}
static double at(clockid_t clock) {
    struct timespec t;
    CHECK(clock_gettime(clock, &t) == 0);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}
static void *reader(void *seen) {
    *(double *)seen = at(CLOCK_MONOTONIC);
    usleep(2000); /* in simulated time, as all threads of the program do */
    return NULL;
}

/* A handler of the program still lives in virtual time. */
static double last;
static void at_end(void) {
    double now = MPI_Wtime();
    if (now <= last || now > last + 1e-3)
        _exit(9);
}

int main(int argc, char **argv) {
    CHECK(time(NULL) == EPOCH);
    double a = at(CLOCK_MONOTONIC), b = at(CLOCK_MONOTONIC);
    CHECK(b > a && b - a < 1e-3);
    usleep(1000);
    CHECK(at(CLOCK_MONOTONIC) - b >= 0.001 && at(CLOCK_MONOTONIC) - b < 0.0015);
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double start = real_now();

    /* all clocks show the same time, and reading costs 20 ns */
    double w = MPI_Wtime(), m = at(CLOCK_MONOTONIC), r = at(CLOCK_REALTIME) - EPOCH, p = at(CLOCK_PROCESS_CPUTIME_ID);
    CHECK(m - 1000 - w > 0 && m - 1000 - w < 1e-6);
    CHECK(p - w > 0 && p - w < 1e-6 && r - w < 1e-3);
    CHECK(w < 10);
    double w1 = MPI_Wtime(), w2 = MPI_Wtime();
    CHECK(w2 - w1 > 19e-9 && w2 - w1 < 21e-9);
    CHECK(MPI_Wtick() > 0 && MPI_Wtick() <= 1e-9);

    /* sleeping moves the clock, not the world */
    double before = MPI_Wtime();
    struct timespec hour = {3600, 0}, until;
    CHECK(nanosleep(&hour, NULL) == 0);
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, NULL) == 0);
    CHECK(sleep(3600) == 0 && usleep(900000) == 0);
    struct timeval tenth = {0, 100000};
    CHECK(select(0, NULL, NULL, NULL, &tenth) == 0);
    CHECK(poll(NULL, 0, 1000) == 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 8;
    CHECK(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) == 0);
    double slept = MPI_Wtime() - before;
    CHECK(slept > 10810 && slept < 10810.0001);
    struct timespec bad = {0, 2000000000};
    CHECK(nanosleep(&bad, NULL) == -1 && errno == EINVAL);
    CHECK(time(NULL) >= EPOCH + 10810 && time(NULL) < EPOCH + 10812);
    struct timeval tv;
    gettimeofday(&tv, NULL);
    CHECK(tv.tv_sec == time(NULL));
    CHECK(clock() / CLOCKS_PER_SEC >= 10810);
    struct tms tms;
    CHECK(times(&tms) >= 1181000 && tms.tms_utime >= 1081000);
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_utime.tv_sec >= 10810 && usage.ru_maxrss > 0);
    struct timespec utc;
    CHECK(timespec_get(&utc, TIME_UTC) == TIME_UTC && utc.tv_sec == time(NULL));
    CHECK(real_now() - start < 5);
    /* a loop on the clock ends */
    before = MPI_Wtime();
    while (MPI_Wtime() < before + 1e-3)
        sched_yield();

    /* deadlines */
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    before = MPI_Wtime();
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    start = real_now();
    pthread_mutex_lock(&mutex);
    CHECK(pthread_cond_timedwait(&cond, &mutex, &until) == ETIMEDOUT);
    CHECK(real_now() - start >= 0.019 && real_now() - start < 5);
    CHECK(MPI_Wtime() - before >= 0.02 && MPI_Wtime() - before < 0.0201);
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    CHECK(sem_timedwait(&semaphore, &until) == -1 && errno == ETIMEDOUT); /* passed already */
    sem_post(&semaphore);
    until.tv_sec += 100;
    CHECK(sem_timedwait(&semaphore, &until) == 0);

    /* threads of the program */
    pthread_t thread;
    double seen = 0;
    before = at(CLOCK_MONOTONIC);
    CHECK(pthread_create(&thread, NULL, reader, &seen) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(seen > before && seen < before + 1e-3);
    double after = at(CLOCK_MONOTONIC);
    CHECK(after > seen + 2e-3 && after < seen + 3e-3);

    /* children: at real speed from the same time */
    before = at(CLOCK_REALTIME);
    pid_t child = fork();
    if (child == 0) {
        double here = at(CLOCK_REALTIME);
        usleep(5000);
        double later = at(CLOCK_REALTIME);
        _exit(here >= before && here < before + 5 && later - here >= 0.005 && later - here < 5 ? 0 : 3);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(at(CLOCK_REALTIME) < before + 1e-3);
    char command[100], host[64];
    snprintf(command, sizeof command, "test \"$(uname -n)\" = simulated%d", rank / 2);
    CHECK(gethostname(host, sizeof host) == 0 && system(command) == 0);
    CHECK(system("exit 7") == 7 << 8);
    MPI_Finalize();
    /* After the end of the network time goes on, but nobody simulates it. */
    last = MPI_Wtime();
    CHECK(last > before - EPOCH && last < before - EPOCH + 1);
    start = real_now();
    CHECK(usleep(3000) == 0 && MPI_Wtime() - last >= 0.003 && real_now() - start >= 0.003);
    last = MPI_Wtime();
    atexit(at_end);
    if (rank == 0)
        printf("clocks\n");
    return 0;
}
