/* What a program can ask about its surroundings: versions, names, initialized, errors, and a clock that never goes back. */
#include "check.h"
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int handler_calls, handler_code;
static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    handler_calls++;
    handler_code = *code;
}

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    int flag, major, minor, length;
    MPI_Initialized(&flag);
    if (flag)
        return 1;
    begin(&argc, &argv);
    MPI_Initialized(&flag);
    CHECK(flag);
    MPI_Finalized(&flag);
    CHECK(!flag);
    MPI_Get_version(&major, &minor);
    CHECK(major == MPI_VERSION && minor == MPI_SUBVERSION);
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Get_library_version(library, &length);
    CHECK(length > 0 && strlen(library) > 0);

    /* Clocks: monotone, and all of them advance together across 20 ms of sleep. */
    CHECK(MPI_Wtick() > 0 && MPI_Wtick() < 0.1);
    double last = MPI_Wtime();
    for (int i = 0; i < 1000; i++) {
        double t = MPI_Wtime();
        if (t < last)
            fail_at(__FILE__, __LINE__, "MPI_Wtime", "went back from %.9f to %.9f", last, t);
        last = t;
    }
    checks_made++;
    struct timeval v0, v1;
    double w0 = MPI_Wtime(), m0 = now(CLOCK_MONOTONIC), r0 = now(CLOCK_REALTIME);
    gettimeofday(&v0, NULL);
    struct timespec pause = {0, 20000000};
    nanosleep(&pause, NULL);
    usleep(1000);
    gettimeofday(&v1, NULL);
    double w1 = MPI_Wtime(), m1 = now(CLOCK_MONOTONIC), r1 = now(CLOCK_REALTIME);
    double v = (double)(v1.tv_sec - v0.tv_sec) + 1e-6 * (double)(v1.tv_usec - v0.tv_usec);
    CHECK(w1 - w0 >= 0.0209);
    CHECK(m1 - m0 >= 0.0209);
    CHECK(r1 - r0 >= 0.0209);
    CHECK(v >= 0.0209);
    CHECK(w1 - w0 >= v - 2e-6 && w1 - w0 < v + 1);

    /* Time passes across messages, in one direction: a receive ends after its send began. */
    MPI_Barrier(WORLD);
    double begin_time = MPI_Wtime();
    for (int i = 0; i < 10; i++)
        MPI_Barrier(WORLD);
    CHECK(MPI_Wtime() > begin_time);

    /* Errors. */
    MPI_Errhandler own, old;
    MPI_Comm_create_errhandler(handler, &own);
    MPI_Comm_get_errhandler(WORLD, &old);
    MPI_Comm_set_errhandler(WORLD, own);
    int class;
    MPI_Send(NULL, 0, MPI_INT, ranks + 5, 0, WORLD);
    CHECK_EQ(handler_calls, 1);
    MPI_Error_class(handler_code, &class);
    CHECK_EQ(class, MPI_ERR_RANK);
    MPI_Comm_set_errhandler(WORLD, MPI_ERRORS_RETURN);
    int code = MPI_Send(NULL, -1, MPI_INT, 0, 0, WORLD);
    MPI_Error_class(code, &class);
    CHECK_EQ(class, MPI_ERR_COUNT);
    code = MPI_Send(NULL, 0, MPI_INT, 0, -5, WORLD);
    MPI_Error_class(code, &class);
    CHECK_EQ(class, MPI_ERR_TAG);
    code = MPI_Bcast(NULL, 0, MPI_INT, ranks, WORLD);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_ROOT || class == MPI_ERR_RANK);
    char text[MPI_MAX_ERROR_STRING];
    MPI_Error_string(code, text, &length);
    CHECK(length > 0);
    MPI_Comm_set_errhandler(WORLD, old);
    MPI_Errhandler_free(&own);
    MPI_Errhandler_free(&old);

    /* Memory of MPI_Alloc_mem carries messages. */
    int *memory;
    MPI_Alloc_mem(4000, MPI_INFO_NULL, &memory);
    for (int i = 0; i < 1000; i++)
        memory[i] = rank + i;
    MPI_Sendrecv_replace(memory, 1000, MPI_INT, (rank + 1) % ranks, 1, (rank + ranks - 1) % ranks, 1, WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 1000; i += 99)
        CHECK_EQ(memory[i], (rank + ranks - 1) % ranks + i);
    MPI_Free_mem(memory);

    /* A child process after MPI_Init leaves MPI alone and does no harm. */
    CHECK_EQ(system("true"), 0);
    FILE *child = popen("echo 42", "r");
    int answer = 0;
    CHECK_EQ(fscanf(child, "%d", &answer), 1);
    CHECK_EQ(answer, 42);
    CHECK_EQ(pclose(child), 0);
    MPI_Barrier(WORLD);
    return finish("environment");
}
