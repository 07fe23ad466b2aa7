#define _GNU_SOURCE /* pthread_tryjoin_np */
/* Threads that wait for another one by a loop around a lock, or by trying in vain, while that one looks at the clock and talks to the
 * partner of its rank: ranks (0, 1), (2, 3) and so on. The loops call nobody, so nothing but them says that these
 * threads wait. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

enum { THREADS = 3, TURNS = 2 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, taken = PTHREAD_MUTEX_INITIALIZER;
static int arrived, turns_over, is_over, wrong[THREADS], early[THREADS];
static double came[TURNS + 1][THREADS], ended;

/* Who finds something without waiting may find it so early (docs/limits.md). */
static const double EARLY = 50e-6;

/* Everybody has come: each look takes the lock. Nobody goes on before the last one has come. */
static void meet(int t, int at)
{
    came[at][t] = MPI_Wtime();
    pthread_mutex_lock(&lock);
    int turn = turns_over;
    if (++arrived == THREADS) {
        arrived = 0;
        turns_over++;
    }
    pthread_mutex_unlock(&lock);
    for (int waits = 1; waits;) {
        pthread_mutex_lock(&lock);
        waits = turns_over == turn;
        pthread_mutex_unlock(&lock);
    }
    double now = MPI_Wtime();
    for (int other = 0; other < THREADS; other++)
        early[t] += now < came[at][other] - EARLY;
}

static void exchange(int t, int turn)
{
    int partner = rank ^ 1, out = 100 * rank + 10 * t + turn, in = -1;
    MPI_Sendrecv(&out, 1, MPI_INT, partner, t, &in, 1, MPI_INT, partner, t, WORLD, MPI_STATUS_IGNORE);
    wrong[t] += in != 100 * partner + 10 * t + turn;
}

static void *work(void *argument)
{
    int t = (int)(intptr_t)argument;
    for (int turn = 0; turn < TURNS; turn++) {
        meet(t, turn);
        /* One of them has more to do than the others, who wait for it. */
        for (int more = 0; more < (t == turn % THREADS ? 4 : 1); more++)
            exchange(t, turn);
        usleep((unsigned)(100 * t));
    }
    meet(t, TURNS);
    return NULL;
}

static void *keep(void *unused)
{
    pthread_mutex_lock(&taken);
    exchange(0, 7);
    usleep(200);
    is_over = 1;
    ended = MPI_Wtime();
    pthread_mutex_unlock(&taken);
    return unused;
}

int main(int argc, char **argv)
{
    int provided = -1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    pthread_t threads[THREADS];
    for (intptr_t t = 1; t < THREADS; t++)
        pthread_create(&threads[t], NULL, work, (void *)t);
    work(NULL);
    for (int t = 1; t < THREADS; t++)
        while (pthread_tryjoin_np(threads[t], NULL) != 0)
            ;
    for (int t = 0; t < THREADS; t++) {
        CHECK_EQ(wrong[t], 0);
        CHECK_EQ(early[t], 0);
    }
    pthread_create(&threads[1], NULL, keep, NULL);
    for (int waits = 1; waits;)
        if (pthread_mutex_trylock(&taken) == 0) {
            waits = !is_over;
            pthread_mutex_unlock(&taken);
        }
    CHECK(MPI_Wtime() >= ended - EARLY);
    while (pthread_tryjoin_np(threads[1], NULL) != 0)
        ;
    CHECK_EQ(wrong[0], 0);
    return finish("threads_locks");
}
