/* A thread sends to its own rank, for which another one probes: with a single rank nothing ever comes from the network. */
#include "check.h"
#include <pthread.h>

enum { MESSAGES = 5 };

static void *sender(void *unused)
{
    for (int i = 0; i < MESSAGES; i++)
        MPI_Send(&i, 1, MPI_INT, rank, i, WORLD);
    return unused;
}

int main(int argc, char **argv)
{
    int given;
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    CHECK_EQ(given, MPI_THREAD_MULTIPLE);
    pthread_create(&thread, NULL, sender, NULL);
    for (int i = 0; i < MESSAGES; i++) {
        int value = -1;
        MPI_Status status;
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, WORLD, &status);
        CHECK_EQ(status.MPI_TAG, i);
        MPI_Recv(&value, 1, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, WORLD, MPI_STATUS_IGNORE);
        CHECK_EQ(value, i);
    }
    pthread_join(thread, NULL);
    return finish("threads_self");
}
