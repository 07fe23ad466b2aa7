/* An MPI library that waits for a signal of a thread of its own misses none. A reduction's function stands for the
 * library here: it runs inside an MPI call, and so does the thread that it makes. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { ROUNDS = 100 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;
static atomic_int asked, answer, tries;
static int (*take)(pthread_mutex_t *), (*give)(pthread_mutex_t *);

/* It takes the mutex whenever nobody has it, be it for some nanoseconds: by the C library itself, which nobody sees. */
static void *helper(void *unused)
{
    for (int round = 1; round <= ROUNDS; round++) {
        while (asked != round)
            sched_yield();
        for (tries = 0; take(&mutex) != 0; tries++)
            ;
        answer = round;
        pthread_cond_broadcast(&answered);
        give(&mutex);
    }
    return unused;
}

static void ask(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)in, (void)inout, (void)count, (void)type;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, helper, NULL) == 0);
    for (int round = 1; round <= ROUNDS; round++) {
        pthread_mutex_lock(&mutex);
        tries = 0, asked = round;
        while (tries < 10)
            sched_yield();
        while (answer != round)
            pthread_cond_wait(&answered, &mutex);
        pthread_mutex_unlock(&mutex);
    }
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    int given;
    void *library = dlopen("libc.so.6", RTLD_NOW);
    take = (int (*)(pthread_mutex_t *))dlsym(library, "pthread_mutex_trylock");
    give = (int (*)(pthread_mutex_t *))dlsym(library, "pthread_mutex_unlock");
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    CHECK_EQ(given, MPI_THREAD_MULTIPLE);
    CHECK(take != NULL && give != NULL);
    MPI_Op op;
    MPI_Op_create(ask, 1, &op);
    int one = 1, two = 2;
    MPI_Reduce_local(&one, &two, 1, MPI_INT, op);
    MPI_Op_free(&op);
    return finish("threads_signals");
}
