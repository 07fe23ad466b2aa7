/* A small molecular dynamics program in the shape of MiniMD: Lennard-Jones atoms with neighbour lists that are made again
 * every few steps, on hosts, on DPUs, or on both.
 *
 *     minimd [CELLS [STEPS [EVERY]]]              on all ranks (default 5 cells to a side, 40 steps, lists every 10)
 *     minimd with-dpu [CELLS [STEPS [EVERY]]]     the first half of the ranks are hosts, the others their DPUs
 *
 * With DPUs, in a step in which lists are made again, a host makes the list of its atoms while its DPU computes their
 * forces with the old one: the skin is wide enough. The host sends the new list then, while it goes on.
 *
 * Prints the temperature, which does not depend on who computes what, and the time of the steps.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 160 }; /* neighbours of an atom */
static const double CUT = 2.5, SKIN = 0.5, DT = 0.005, DENSITY = 0.8442;
static int atoms, first, own; /* all; of this rank: from where, so many */
static double box, *x, *v, *f;
static int *list; /* of each own atom: how many, and which */

static double nearest(double d)
{
    return d - box * round(d / box);
}

static double distance2(const double *a, const double *b)
{
    double sum = 0;
    for (int k = 0; k < 3; k++)
        sum += nearest(a[k] - b[k]) * nearest(a[k] - b[k]);
    return sum;
}

static void neighbours(void)
{
    for (int i = 0; i < own; i++) {
        int *mine = list + i * MOST, count = 0;
        for (int j = 0; j < atoms; j++)
            if (j != first + i && distance2(x + 3 * (first + i), x + 3 * j) < (CUT + SKIN) * (CUT + SKIN)) {
                if (++count == MOST)
                    MPI_Abort(MPI_COMM_WORLD, 3);
                mine[count] = j;
            }
        mine[0] = count;
    }
}

static void forces(void)
{
    for (int i = 0; i < own; i++) {
        const int *mine = list + i * MOST;
        double *to = f + 3 * i;
        to[0] = to[1] = to[2] = 0;
        for (int n = 1; n <= mine[0]; n++) {
            const double *a = x + 3 * (first + i), *b = x + 3 * mine[n];
            double r2 = distance2(a, b);
            if (r2 >= CUT * CUT)
                continue;
            double s6 = 1 / (r2 * r2 * r2), strength = 48 * s6 * (s6 - 0.5) / r2;
            for (int k = 0; k < 3; k++)
                to[k] += strength * nearest(a[k] - b[k]);
        }
    }
}

/* A face-centred cubic lattice, and velocities without a drift. */
static void start(int cells)
{
    static const double base[4][3] = {{0, 0, 0}, {0, .5, .5}, {.5, 0, .5}, {.5, .5, 0}};
    unsigned seed = 12345;
    double mean[3] = {0, 0, 0}, edge = cbrt(4 / DENSITY);
    box = cells * edge;
    for (int i = 0; i < atoms; i++) {
        int cell = i / 4, at[3] = {cell % cells, cell / cells % cells, cell / cells / cells};
        for (int k = 0; k < 3; k++) {
            x[3 * i + k] = (at[k] + base[i % 4][k]) * edge;
            seed = seed * 1103515245u + 12345u;
            mean[k] += v[3 * i + k] = 4 * ((seed >> 16) / 65536.0 - 0.5);
        }
    }
    for (int i = 0; i < 3 * atoms; i++)
        v[i] -= mean[i % 3] / atoms;
}

static void host(MPI_Comm hosts, int dpu, int steps, int every)
{
    int rank, ranks;
    MPI_Comm_rank(hosts, &rank);
    MPI_Comm_size(hosts, &ranks);
    int *counts = malloc(2 * ranks * sizeof *counts), *places = counts + ranks;
    for (int i = 0; i < ranks; i++) {
        places[i] = 3 * (int)((long)atoms * i / ranks);
        counts[i] = 3 * (int)((long)atoms * (i + 1) / ranks) - places[i];
    }
    MPI_Request sent = MPI_REQUEST_NULL;
    neighbours();
    forces();
    if (dpu >= 0)
        MPI_Isend(list, own * MOST, MPI_INT, dpu, 0, MPI_COMM_WORLD, &sent);
    MPI_Barrier(hosts);
    double begin = MPI_Wtime();
    for (int step = 1; step <= steps; step++) {
        for (int i = 0; i < 3 * own; i++) {
            v[3 * first + i] += 0.5 * DT * f[i];
            x[3 * first + i] += DT * v[3 * first + i];
        }
        MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, x, counts, places, MPI_DOUBLE, hosts);
        if (step % every == 0 && dpu >= 0) {
            MPI_Wait(&sent, MPI_STATUS_IGNORE);
            MPI_Send(x, 3 * atoms, MPI_DOUBLE, dpu, 1, MPI_COMM_WORLD);
            neighbours();
            MPI_Recv(f, 3 * own, MPI_DOUBLE, dpu, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Isend(list, own * MOST, MPI_INT, dpu, 0, MPI_COMM_WORLD, &sent);
        } else {
            if (step % every == 0)
                neighbours();
            forces();
        }
        for (int i = 0; i < 3 * own; i++)
            v[3 * first + i] += 0.5 * DT * f[i];
    }
    double took = MPI_Wtime() - begin, mine = 0, energy, longest;
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    for (int i = 0; i < 3 * own; i++)
        mine += v[3 * first + i] * v[3 * first + i];
    MPI_Reduce(&mine, &energy, 1, MPI_DOUBLE, MPI_SUM, 0, hosts);
    MPI_Reduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, hosts);
    if (rank == 0)
        printf("%d atoms, temperature %.6f, %.3f ms\n", atoms, energy / (3 * atoms), longest * 1e3);
    free(counts);
}

static void dpu(int host, int steps, int every)
{
    MPI_Recv(list, own * MOST, MPI_INT, host, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int step = every; step <= steps; step += every) {
        MPI_Recv(x, 3 * atoms, MPI_DOUBLE, host, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        forces();
        MPI_Send(f, 3 * own, MPI_DOUBLE, host, 2, MPI_COMM_WORLD);
        MPI_Recv(list, own * MOST, MPI_INT, host, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int both = argc > 1 && strcmp(argv[1], "with-dpu") == 0, numbers[] = {5, 40, 10};
    for (int i = 0; i < 3 && i + 1 + both < argc; i++)
        numbers[i] = atoi(argv[i + 1 + both]);
    int cells = numbers[0], steps = numbers[1], every = numbers[2], workers = both ? ranks / 2 : ranks;
    if (cells < 4 || cells > 40 || steps < 1 || every < 1 || (both && ranks % 2 != 0)) {
        if (rank == 0)
            fprintf(stderr, "minimd: needs 4 to 40 cells, steps, and with-dpu as many DPUs as hosts\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int place = rank % workers;
    atoms = 4 * cells * cells * cells;
    first = (int)((long)atoms * place / workers);
    own = (int)((long)atoms * (place + 1) / workers) - first;
    x = calloc(3 * atoms, sizeof *x);
    v = calloc(3 * atoms, sizeof *v);
    f = calloc(3 * own + 1, sizeof *f);
    list = calloc((size_t)own * MOST + 1, sizeof *list);
    start(cells);
    MPI_Comm hosts;
    MPI_Comm_split(MPI_COMM_WORLD, rank < workers ? 0 : 1, rank, &hosts);
    if (rank < workers)
        host(hosts, both ? rank + workers : -1, steps, every);
    else
        dpu(place, steps, every);
    MPI_Comm_free(&hosts);
    free(x), free(v), free(f), free(list);
    MPI_Finalize();
    return 0;
}
