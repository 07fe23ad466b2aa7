/* A run-time system of tasks, as StarPU's: idle workers look for a task by a loop around a lock, one thread polls MPI for
 * all, the main thread waits for the end. Each message brings a task, and the task's end sends the next message. The
 * workers' loops must not keep the polling threads of other ranks from the host's cores: a run that took a second
 * natively never ended. */
#include "check.h"
#include <pthread.h>

enum { WORKERS = 2, TURNS = 40 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over = PTHREAD_COND_INITIALIZER;
static int task = -1, finished = -1, ended, out_of_turn;

static void *worker(void *unused)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        int mine = task, end = ended;
        task = -1;
        pthread_mutex_unlock(&lock);
        if (end)
            return unused;
        if (mine < 0)
            continue;
        pthread_mutex_lock(&lock);
        finished = mine;
        pthread_mutex_unlock(&lock);
    }
}

/* Turn t is a message from rank t % 2 of the pair to the other one. */
static void *talk(void *unused)
{
    int partner = rank ^ 1, first = rank & 1;
    for (int turn = first ? 0 : -1; turn < TURNS; turn += 2) {
        MPI_Request request;
        int in = -1, done = 0;
        if (turn >= 0) {
            MPI_Irecv(&in, 1, MPI_INT, partner, 0, WORLD, &request);
            while (!done) {
                MPI_Test(&request, &done, MPI_STATUS_IGNORE);
                pthread_mutex_lock(&lock);
                pthread_mutex_unlock(&lock);
            }
            out_of_turn += in != turn;
            pthread_mutex_lock(&lock);
            task = in;
            pthread_mutex_unlock(&lock);
            for (int waits = 1; waits;) {
                int flag;
                MPI_Iprobe(partner, 1, WORLD, &flag, MPI_STATUS_IGNORE);
                pthread_mutex_lock(&lock);
                waits = finished != in;
                pthread_mutex_unlock(&lock);
            }
        }
        if (turn + 1 < TURNS) {
            int next = turn + 1;
            MPI_Send(&next, 1, MPI_INT, partner, 0, WORLD);
        }
    }
    pthread_mutex_lock(&lock);
    ended = 1;
    pthread_cond_signal(&over);
    pthread_mutex_unlock(&lock);
    return unused;
}

int main(int argc, char **argv)
{
    int provided = -1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    pthread_t workers[WORKERS], talks;
    for (int w = 0; w < WORKERS; w++)
        pthread_create(&workers[w], NULL, worker, NULL);
    pthread_create(&talks, NULL, talk, NULL);
    pthread_mutex_lock(&lock);
    while (!ended)
        pthread_cond_wait(&over, &lock);
    pthread_mutex_unlock(&lock);
    for (int w = 0; w < WORKERS; w++)
        pthread_join(workers[w], NULL);
    pthread_join(talks, NULL);
    CHECK(provided >= MPI_THREAD_SERIALIZED);
    CHECK_EQ(out_of_turn, 0);
    return finish("threads_workers");
}
