// Calls from threads that the level of thread support forbids, by name.
#include <mpi.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static int rank, other, number[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int is(int argc, char **argv, const char *name) { return argc > 1 && !strcmp(argv[1], name); }

static void *sends(void *argument) {
    (void)argument;
    pthread_mutex_lock(&lock);
    MPI_Send(&number[0], 1, MPI_INT, other, 0, MPI_COMM_WORLD);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *receives(void *argument) {
    MPI_Comm twin = *(MPI_Comm *)argument;
    MPI_Recv(&number[1], 1, MPI_INT, other, 1, twin, MPI_STATUS_IGNORE);
    return NULL;
}

int main(int argc, char **argv) {
    int together = is(argc, argv, "together"), provided, level = MPI_THREAD_MULTIPLE;
    if (is(argc, argv, "funneled"))
        level = MPI_THREAD_FUNNELED;
    if (is(argc, argv, "serialized") || together)
        level = MPI_THREAD_SERIALIZED;
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = rank ^ 1;
    if (together) {
        // One thread waits in a call, and another one calls.
        MPI_Comm world = MPI_COMM_WORLD;
        pthread_create(&thread, NULL, receives, &world);
        usleep(1000);
        MPI_Send(&number[0], 1, MPI_INT, other, 1, MPI_COMM_WORLD);
        pthread_join(thread, NULL);
    } else if (level != MPI_THREAD_MULTIPLE) {
        pthread_create(&thread, NULL, sends, NULL);
        pthread_join(thread, NULL);
        MPI_Recv(&number[1], 1, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        // A thread for each communicator: what each of them does can be compared.
        MPI_Comm twin;
        double real = 1;
        MPI_Comm_dup(MPI_COMM_WORLD, &twin);
        pthread_create(&thread, NULL, receives, &twin);
        MPI_Send(&number[0], 1, MPI_INT, other, 1, twin);
        MPI_Request request;
        MPI_Irecv(number, 2, MPI_INT, other, 2, MPI_COMM_WORLD, &request);
        MPI_Send(&real, 1, MPI_DOUBLE, other, 2, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        pthread_join(thread, NULL);
        MPI_Comm_free(&twin);
    }
    MPI_Finalize();
    return 0;
}
