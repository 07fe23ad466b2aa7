/* Ranks that compute for long beside ranks that talk all the time. The others go on meanwhile, and nothing may come of
 * that: what a rank sent before it began to compute arrives at once, what arrives meanwhile is whole. Needs 4 ranks, of
 * which 0 and 1 compute. With `timed` the time of those messages is looked at, which is simulated then. With `short`
 * they compute so short, and so often, that they know beforehand when it is worth to let the others go on. */
#include "check.h"
#include "computing.h"

#define LATE_S 30e-6

enum { STEPS = 40, WORK_NS = 3000000, SHORT_STEPS = 400, SHORT_WORK_NS = 40000, LONG = 40000 };

static void paint(int *data, int seed)
{
    for (int i = 0; i < LONG; i++)
        data[i] = seed * 7919 + i;
}

static void look(const int *data, int seed)
{
    for (int i = 0; i < LONG; i++)
        CHECK_EQ(data[i], seed * 7919 + i);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    CHECK_EQ(ranks, 4);
    const int timed = argc > 1 && !strcmp(argv[1], "timed"), brief = argc > 1 && !strcmp(argv[1], "short");
    const int steps = brief ? SHORT_STEPS : STEPS;
    const long work_ns = brief ? SHORT_WORK_NS : WORK_NS;
    static int out[LONG], in[LONG];
    double begun;
    int late = 0;
    for (int step = 0; step < steps; step++) {
        /* Ranks 2 and 3 keep simulated time going, 0 has told 1 when it began to compute. */
        MPI_Barrier(WORLD);
        if (rank >= 2) {
            for (int i = 0; i < (brief ? 20 : 200); i++) {
                if (rank == 2)
                    MPI_Send(&i, 1, MPI_INT, 3, 1, WORLD);
                else
                    MPI_Recv(&(int){0}, 1, MPI_INT, 2, 1, WORLD, MPI_STATUS_IGNORE);
            }
        } else if (rank == 0) {
            MPI_Request sent;
            begun = MPI_Wtime();
            MPI_Isend(&begun, 1, MPI_DOUBLE, 1, 2, WORLD, &sent);
            compute_for(work_ns);
            MPI_Wait(&sent, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&begun, 1, MPI_DOUBLE, 0, 2, WORLD, MPI_STATUS_IGNORE);
            late += MPI_Wtime() - begun > LATE_S;
        }
        /* Long messages around, posted before computing, which takes another time on each rank. */
        MPI_Request both[2];
        paint(out, step * ranks + rank);
        MPI_Irecv(in, LONG, MPI_INT, (rank + 3) % 4, 3, WORLD, &both[0]);
        compute_for(rank * work_ns / 6);
        MPI_Isend(out, LONG, MPI_INT, (rank + 1) % 4, 3, WORLD, &both[1]);
        compute_for((3 - rank) * work_ns / 4);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        look(in, step * ranks + (rank + 3) % 4);
    }
    /* Some may be: hosts take their processors away for milliseconds, and count them as computing. */
    if (rank == 1 && timed && late > steps / 4)
        fail_at(__FILE__, __LINE__, "a message of 8 bytes", "was late %d times in %d", late, steps);
    return finish("compute_apart");
}
