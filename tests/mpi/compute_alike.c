/* Steps of equal work, of which every seventh of a rank takes half as much again, as a busy host makes it: each rank in turn. After each
 * step all ranks wait for the slowest. Arguments: number of steps. The first rank prints how long a step took in
 * simulated time, in units of undisturbed work. Some steps do four times the work, which is no noise. A second argument
 * is a number of threads that sleep until MPI is over, as the workers of a BLAS library do that nobody has work for. */
#include "check.h"
#include "computing.h"
#include <pthread.h>

enum { UNIT = 1000000 }; /* ns of CPU time */
enum { LONG = 16 };      /* every so many steps there is more to do */
enum { SLEEPERS = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static int ends;

static void *sleeps(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    while (!ends)
        pthread_cond_wait(&work, &lock);
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK(argc == 2 || argc == 3);
    long steps = atol(argv[1]), sleepers = argc == 3 ? atol(argv[2]) : 0;
    CHECK(sleepers <= SLEEPERS);
    pthread_t threads[SLEEPERS];
    for (long sleeper = 0; sleeper < sleepers; sleeper++)
        CHECK(pthread_create(&threads[sleeper], NULL, sleeps, NULL) == 0);
    int one = 1, sum;
    double start = MPI_Wtime();
    for (long step = 0; step < steps; step++) {
        compute_for((long)((step % LONG == LONG - 1 ? 4 : step % 7 == rank ? 1.5 : 1) * UNIT));
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(sum == ranks);
    }
    double took = MPI_Wtime() - start, expected = (steps + 3 * (steps / LONG)) * UNIT * 1e-9;
    if (rank == 0)
        printf("alike %.3f\n", took / expected);
    int code = finish("compute_alike");
    pthread_mutex_lock(&lock);
    ends = 1;
    pthread_cond_broadcast(&work);
    pthread_mutex_unlock(&lock);
    for (long sleeper = 0; sleeper < sleepers; sleeper++)
        pthread_join(threads[sleeper], NULL);
    return code;
}
