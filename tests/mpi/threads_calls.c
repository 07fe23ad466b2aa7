/* MPI_THREAD_MULTIPLE: what threads may do beside messages, all at the same time: probes in a loop, collectives, new
 * communicators, one-sided operations, and messages of a rank to itself. Each thread has its communicator and window.
 * */
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, TURNS = 10 };
static MPI_Comm own[THREADS];
static MPI_Win window[THREADS];
static int *memory[THREADS], wrong[THREADS];

static void *work(void *argument)
{
    int t = (int)(intptr_t)argument, next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    for (int turn = 0; turn < TURNS; turn++) {
        int out = rank * 100 + turn, in = -1, found = 0;
        MPI_Request request;
        MPI_Status status;
        MPI_Isend(&out, 1, MPI_INT, next, t, own[t], &request);
        while (!found)
            MPI_Iprobe(previous, t, own[t], &found, &status);
        MPI_Recv(&in, 1, MPI_INT, previous, t, own[t], &status);
        MPI_Wait(&request, &status);
        wrong[t] += in != previous * 100 + turn;
        MPI_Bcast(&out, 1, MPI_INT, turn % ranks, own[t]);
        wrong[t] += out != turn % ranks * 100 + turn;
        MPI_Comm copy;
        MPI_Comm_dup(own[t], &copy);
        MPI_Barrier(copy);
        MPI_Comm_free(&copy);
        out = rank + turn;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, window[t]);
        MPI_Put(&out, 1, MPI_INT, next, 0, 1, MPI_INT, window[t]);
        MPI_Win_unlock(next, window[t]);
        MPI_Barrier(own[t]);
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window[t]);
        wrong[t] += memory[t][0] != previous + turn;
        MPI_Win_unlock(rank, window[t]);
        MPI_Barrier(own[t]);
        in = -1;
        MPI_Sendrecv(&turn, 1, MPI_INT, rank, 7, &in, 1, MPI_INT, rank, 7, own[t], &status);
        wrong[t] += in != turn;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided = -1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    for (int t = 0; t < THREADS; t++) {
        MPI_Comm_dup(WORLD, &own[t]);
        MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, own[t], &memory[t], &window[t]);
    }
    pthread_t threads[THREADS];
    for (intptr_t t = 0; t < THREADS; t++)
        pthread_create(&threads[t], NULL, work, (void *)t);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    for (int t = 0; t < THREADS; t++) {
        CHECK_EQ(wrong[t], 0);
        MPI_Win_free(&window[t]);
        MPI_Comm_free(&own[t]);
    }
    return finish("threads_calls");
}
