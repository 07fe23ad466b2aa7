/* Times of collectives, one after the other, each begun by all ranks at the same time.
 *
 *   collective_times POINTS REPEATS
 *
 * A line of POINTS: operation, elements, bytes of an element (1, 4 or 8), root. Elements are those of the vector, or of
 * one rank's block of a gather, scatter, allgather, alltoall and reduce_scatter_block. Rank 0 prints a line for each:
 * the time from the common start to the last rank's end. Before each point all ranks sleep until the same time.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks, repeats = atoi(argv[2]), points = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    FILE *file = fopen(argv[1], "r");
    char operation[64];
    long elements, most = 0;
    int size, root;
    while (file && fscanf(file, "%63s %ld %d %d", operation, &elements, &size, &root) == 4) {
        int blocks = strstr("gather scatter allgather alltoall reduce_scatter_block", operation) != NULL;
        long bytes = elements * size * (blocks ? ranks : 1);
        most = bytes > most ? bytes : most;
        points++;
    }
    rewind(file);
    char *send = calloc(most + 8, 1), *receive = calloc(most + 8, 1);
    double *times = calloc(points, sizeof(double)), *all = calloc((size_t)points * ranks, sizeof(double));
    int *counts = calloc(ranks, sizeof(int));
    /* What a look at the clock takes, which is not of the collectives. */
    double look = now(), base = (long)look + 1;
    look = now() - look;
    MPI_Bcast(&base, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (int point = 0; point < points; point++) {
        if (fscanf(file, "%63s %ld %d %d", operation, &elements, &size, &root) != 4) return 1;
        MPI_Datatype type = size == 8 ? MPI_DOUBLE : size == 4 ? MPI_INT : MPI_CHAR;
        for (int of = 0; of < ranks; of++) counts[of] = (int)(elements / ranks + (of < elements % ranks));
        /* A time that comes after all ranks have ended the point before. */
        double start = base + point, wait = start - now();
        struct timespec pause = {(time_t)wait, (long)((wait - (time_t)wait) * 1e9)};
        nanosleep(&pause, NULL);
        for (int repeat = 0; repeat < repeats; repeat++) {
            int n = (int)elements;
            MPI_Comm world = MPI_COMM_WORLD;
            if (!strcmp(operation, "barrier")) MPI_Barrier(world);
            else if (!strcmp(operation, "bcast")) MPI_Bcast(send, n, type, root, world);
            else if (!strcmp(operation, "reduce")) MPI_Reduce(send, receive, n, type, MPI_SUM, root, world);
            else if (!strcmp(operation, "allreduce")) MPI_Allreduce(send, receive, n, type, MPI_SUM, world);
            else if (!strcmp(operation, "scan")) MPI_Scan(send, receive, n, type, MPI_SUM, world);
            else if (!strcmp(operation, "exscan")) MPI_Exscan(send, receive, n, type, MPI_SUM, world);
            else if (!strcmp(operation, "gather")) MPI_Gather(send, n, type, receive, n, type, root, world);
            else if (!strcmp(operation, "scatter")) MPI_Scatter(send, n, type, receive, n, type, root, world);
            else if (!strcmp(operation, "allgather")) MPI_Allgather(send, n, type, receive, n, type, world);
            else if (!strcmp(operation, "alltoall")) MPI_Alltoall(send, n, type, receive, n, type, world);
            else if (!strcmp(operation, "reduce_scatter")) MPI_Reduce_scatter(send, receive, counts, type, MPI_SUM, world);
            else if (!strcmp(operation, "reduce_scatter_block")) MPI_Reduce_scatter_block(send, receive, n, type, MPI_SUM, world);
            else return 1;
        }
        times[point] = now() - start - look;
    }
    MPI_Gather(times, points, MPI_DOUBLE, all, points, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (int point = 0; point < points && rank == 0; point++) {
        double last = 0;
        for (int of = 0; of < ranks; of++) last = all[(size_t)of * points + point] > last ? all[(size_t)of * points + point] : last;
        printf("%.9f\n", last);
    }
    MPI_Finalize();
    return 0;
}
