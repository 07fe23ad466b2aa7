/* Threads make communicators by MPI_Comm_create_group, and copies of MPI_COMM_SELF one at a time: who copies waits for
 * the numbers that the others have under way, and no message ever tells it. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 10 };

static MPI_Comm comms[THREADS];
static pthread_mutex_t copying = PTHREAD_MUTEX_INITIALIZER;

static void *creator(void *argument)
{
    long right = 0;
    int number = (int)(long)argument;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Group group;
        MPI_Comm comm, copy;
        int size, alone;
        MPI_Comm_group(comms[number], &group);
        MPI_Comm_create_group(comms[number], group, number, &comm);
        MPI_Barrier(comm);
        MPI_Comm_size(comm, &size);
        MPI_Comm_free(&comm);
        MPI_Group_free(&group);
        pthread_mutex_lock(&copying);
        MPI_Comm_dup(MPI_COMM_SELF, &copy);
        pthread_mutex_unlock(&copying);
        MPI_Comm_size(copy, &alone);
        MPI_Comm_free(&copy);
        right += (size == ranks) + (alone == 1);
    }
    return (void *)right;
}

int main(int argc, char **argv)
{
    int given;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    CHECK_EQ(given, MPI_THREAD_MULTIPLE);
    for (long i = 0; i < THREADS; i++)
        MPI_Comm_dup(WORLD, &comms[i]);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, creator, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        void *right;
        pthread_join(threads[i], &right);
        CHECK_EQ((long)right, 2 * ROUNDS);
        MPI_Comm_free(&comms[i]);
    }
    return finish("threads_groups");
}
