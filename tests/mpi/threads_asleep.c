/* 63 threads that wait for work, as those of a mathematical library do on 64 cores, cost no MPI call anything; and each
 * of them may be woken and call MPI. Their wait has begun before MPI_Init. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 63, LOOKS = 50000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static int asked, served, waiting;

static void *server(void *argument)
{
    int me = (int)(intptr_t)argument, flag = 0;
    pthread_mutex_lock(&mutex);
    waiting++;
    pthread_cond_signal(&done);
    while (asked <= me)
        pthread_cond_wait(&work, &mutex);
    pthread_mutex_unlock(&mutex);
    MPI_Send(&me, 1, MPI_INT, rank, me, WORLD);
    MPI_Iprobe(MPI_ANY_SOURCE, THREADS, WORLD, &flag, MPI_STATUS_IGNORE);
    pthread_mutex_lock(&mutex);
    served += !flag;
    pthread_cond_signal(&done);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int given, flag, from[THREADS];
    MPI_Request requests[THREADS];
    for (intptr_t t = 0; t < THREADS; t++)
        pthread_create(&threads[t], NULL, server, (void *)t);
    pthread_mutex_lock(&mutex);
    while (waiting < THREADS)
        pthread_cond_wait(&done, &mutex);
    pthread_mutex_unlock(&mutex);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    CHECK_EQ(given, MPI_THREAD_MULTIPLE);
    for (int t = 0; t < THREADS; t++)
        MPI_Irecv(&from[t], 1, MPI_INT, rank, t, WORLD, &requests[t]);
    for (int look = 0; look < LOOKS; look++)
        MPI_Iprobe(MPI_ANY_SOURCE, THREADS, WORLD, &flag, MPI_STATUS_IGNORE);
    for (int t = 0; t < THREADS; t++) {
        pthread_mutex_lock(&mutex);
        asked = t + 1;
        pthread_cond_broadcast(&work);
        while (served < asked)
            pthread_cond_wait(&done, &mutex);
        pthread_mutex_unlock(&mutex);
        pthread_join(threads[t], NULL);
    }
    MPI_Waitall(THREADS, requests, MPI_STATUSES_IGNORE);
    for (int t = 0; t < THREADS; t++)
        CHECK_EQ(from[t], t);
    return finish("threads_asleep");
}
