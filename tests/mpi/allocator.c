/* A program with an allocator of its own, which takes a mutex: several threads allocate, wait for each other and look
 * at the clock, beside MPI. Whatever takes part in that may be called with the mutex taken, and must not allocate by
 * this allocator. With the argument "looks" the allocator looks at the clock with its mutex taken, as jemalloc does,
 * and the first thread makes communicators meanwhile, for which MPI allocates in the middle of calls. */
#include "check.h"
#include <pthread.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 300, BLOCKS = 32 };

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void __libc_free(void *);

static pthread_mutex_t heap = PTHREAD_MUTEX_INITIALIZER;
static _Atomic long taken;
static _Atomic int looks;

static void take(void)
{
    pthread_mutex_lock(&heap);
    taken++;
    if (looks) {
        struct timespec time;
        clock_gettime(CLOCK_MONOTONIC, &time);
    }
}

void *malloc(size_t size)
{
    take();
    void *block = __libc_malloc(size);
    pthread_mutex_unlock(&heap);
    return block;
}

void *calloc(size_t count, size_t size)
{
    take();
    void *block = __libc_calloc(count, size);
    pthread_mutex_unlock(&heap);
    return block;
}

void *realloc(void *old, size_t size)
{
    take();
    void *block = __libc_realloc(old, size);
    pthread_mutex_unlock(&heap);
    return block;
}

void free(void *block)
{
    take();
    __libc_free(block);
    pthread_mutex_unlock(&heap);
}

static pthread_barrier_t barrier;

static void *work(void *argument)
{
    char *blocks[BLOCKS] = {NULL};
    struct timespec time;
    size_t number = (size_t)argument;
    for (size_t round = 0; round < ROUNDS; round++) {
        char **block = &blocks[mix(round, number, 3) % BLOCKS];
        free(*block);
        *block = malloc(1 + mix(round, number, 4) % 5000);
        **block = 1;
        clock_gettime(CLOCK_MONOTONIC, &time);
        if (round % 50 == 0)
            pthread_barrier_wait(&barrier);
    }
    for (int at = 0; at < BLOCKS; at++)
        free(blocks[at]);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int given, with_looks = argc > 1 && strcmp(argv[1], "looks") == 0;
    MPI_Init_thread(&argc, &argv, with_looks ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &given);
    looks = with_looks;
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (size_t at = 0; at < THREADS; at++)
        CHECK_EQ(pthread_create(&threads[at], NULL, work, (void *)at), 0);
    MPI_Barrier(WORLD);
    for (int round = 0; looks && round < 20; round++) {
        MPI_Comm other;
        MPI_Comm_dup(WORLD, &other);
        MPI_Comm_free(&other);
    }
    for (int at = 0; at < THREADS; at++)
        pthread_join(threads[at], NULL);
    CHECK(taken > THREADS * ROUNDS);
    return finish("allocator");
}
