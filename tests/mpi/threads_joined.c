/* MPI_THREAD_MULTIPLE: a thread is joined while another one waits in MPI. Who joins it calls MPI at the time at which
 * it has ended, however long the host takes to end it. Rank pairs are (0, 1), (2, 3) and so on.
 *
 * Argument: rounds (default 50). */
#include "check.h"
#include <pthread.h>

enum { LAST, EXTRA, ROUND };
static int partner, wrong;
static pthread_key_t key;

/* Waits for a message that comes at the very end. */
static void *waits(void *argument)
{
    int value = -1;
    MPI_Recv(&value, 1, MPI_INT, partner, LAST, WORLD, MPI_STATUS_IGNORE);
    wrong += value != partner;
    return argument;
}

/* Ends at once, or after a message. */
static void *ends(void *argument)
{
    int round = *(int *)argument;
    if (round % 2)
        MPI_Send(&round, 1, MPI_INT, partner, EXTRA, WORLD);
    if (round % 3)
        pthread_setspecific(key, argument);
    return NULL;
}

/* A thread is not at its end yet when it has said so: some 2 ms of real time. */
static void takes_its_time(void *argument)
{
    (void)argument;
    for (volatile int i = 0; i < 1000000; i++)
        continue;
}

int main(int argc, char **argv)
{
    int given, rounds = argc > 1 ? atoi(argv[1]) : 50;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    CHECK_EQ(given, MPI_THREAD_MULTIPLE);
    CHECK_EQ(ranks % 2, 0);
    partner = rank ^ 1;
    pthread_t waiting, ending;
    CHECK_EQ(pthread_create(&waiting, NULL, waits, NULL), 0);
    for (int round = 0; round < rounds; round++) {
        int value = round;
        CHECK_EQ(pthread_create(&ending, NULL, ends, &value), 0);
        /* From here on keys come behind those of whoever watches threads. */
        if (round == 0)
            CHECK_EQ(pthread_key_create(&key, takes_its_time), 0);
        CHECK_EQ(pthread_join(ending, NULL), 0);
        MPI_Send(&round, 1, MPI_INT, partner, ROUND, WORLD);
        MPI_Recv(&value, 1, MPI_INT, partner, ROUND, WORLD, MPI_STATUS_IGNORE);
        CHECK_EQ(value, round);
        if (round % 2) {
            MPI_Recv(&value, 1, MPI_INT, partner, EXTRA, WORLD, MPI_STATUS_IGNORE);
            CHECK_EQ(value, round);
        }
    }
    MPI_Send(&rank, 1, MPI_INT, partner, LAST, WORLD);
    CHECK_EQ(pthread_join(waiting, NULL), 0);
    CHECK_EQ(wrong, 0);
    return finish("threads_joined");
}
