/* A linear solver in the shape of miniEM's, as the slides "DPU as data-movement accelerator" describe it: conjugate
 * gradients whose preconditioner smooths, forms the residual, has one V-cycle for each of two smaller problems, and
 * smooths again. Alone the two V-cycles follow each other. With DPUs the smaller one, that of A22, is theirs while the
 * hosts have that of A_H.
 *
 *     miniem [SIZE]                       on all ranks (default 40)
 *     miniem with-dpu HOSTS [SIZE]        the first HOSTS ranks are hosts, the others DPUs: a half, a third ... as many
 *
 * A_H has 4,065 rows and 346,665 non-zeros, A22 17,261 and 248,581, at each SIZE. The fine matrix has 163,617 rows and
 * 13,662,045 non-zeros at a SIZE of 120, and others with its third power. All are banded, symmetric and made up.
 *
 * Prints the iterations, the true residual and the time of the solver. Iterations and residual do not depend on who
 * computes what.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AGGREGATE = 27 };

/* A symmetric matrix by rows. Row i has all columns i - band + 1 .. i + band - 1, and those `band` away while there are
 * non-zeros left. Each rank has a block of rows. */
typedef struct {
    int rows, band, last; /* rows with a column `band` above them */
    int first, own;       /* of this rank */
    double shift;
    double *x; /* values of all rows; only this rank's and those that its rows reach are kept up to date */
    MPI_Comm team;
} Matrix;

static int block(int rows, int ranks, int rank)
{
    return (int)((long)rows * rank / ranks);
}

/* With the band that gives so many non-zeros. */
static Matrix matrix(int rows, long values, double shift, MPI_Comm team)
{
    int rank, ranks;
    MPI_Comm_rank(team, &rank);
    MPI_Comm_size(team, &ranks);
    long pairs = (values - rows) / 2;
    Matrix m = {.rows = rows, .shift = shift, .team = team};
    for (m.band = 1; pairs > rows - m.band; m.band++)
        pairs -= rows - m.band;
    m.last = (int)pairs;
    m.first = block(rows, ranks, rank);
    m.own = block(rows, ranks, rank + 1) - m.first;
    m.x = calloc(rows, sizeof *m.x);
    return m;
}

static double diagonal(const Matrix *m, int i)
{
    int below = i < m->band ? i : m->band - 1 + (i - m->band < m->last);
    int above = m->rows - 1 - i < m->band ? m->rows - 1 - i : m->band - 1 + (i < m->last);
    return m->shift + below + above;
}

/* Values of other ranks' rows, of m->x. */
static void halo(Matrix *m)
{
    int rank, ranks, count = 0;
    MPI_Comm_rank(m->team, &rank);
    MPI_Comm_size(m->team, &ranks);
    MPI_Request *open = malloc(2 * ranks * sizeof *open);
    for (int other = 0; other < ranks; other++) {
        int begin = block(m->rows, ranks, other), end = block(m->rows, ranks, other + 1);
        if (other == rank || begin == end || m->own == 0 || begin > m->first + m->own - 1 + m->band || end - 1 < m->first - m->band)
            continue;
        /* What I reach of its rows, and what it reaches of mine. */
        int from = fmax(begin, m->first - m->band), to = fmin(end, m->first + m->own + m->band);
        MPI_Irecv(m->x + from, to - from, MPI_DOUBLE, other, 0, m->team, open + count++);
        from = fmax(m->first, begin - m->band), to = fmin(m->first + m->own, end + m->band);
        MPI_Isend(m->x + from, to - from, MPI_DOUBLE, other, 0, m->team, open + count++);
    }
    MPI_Waitall(count, open, MPI_STATUSES_IGNORE);
    free(open);
}

/* y = A x of this rank's rows: the diagonal, and -1 beside it. */
static void times(Matrix *m, const double *x, double *y)
{
    memcpy(m->x + m->first, x, m->own * sizeof *x);
    halo(m);
    for (int i = 0; i < m->own; i++) {
        int row = m->first + i, low = row - m->band, high = row + m->band;
        low = low < 0 ? 0 : low + (low >= m->last);
        high = high >= m->rows ? m->rows - 1 : high - (row >= m->last);
        double sum = (diagonal(m, row) + 1) * x[i];
        for (int j = low; j <= high; j++)
            sum -= m->x[j];
        y[i] = sum;
    }
}

/* Two sweeps of Jacobi, damped; x starts at nothing when `fresh`. */
static void smooth(Matrix *m, const double *b, double *x, double *scratch, int fresh)
{
    for (int sweep = 0; sweep < 2; sweep++) {
        if (fresh && sweep == 0)
            memset(scratch, 0, m->own * sizeof *scratch);
        else
            times(m, x, scratch);
        for (int i = 0; i < m->own; i++)
            x[i] = (fresh && sweep == 0 ? 0 : x[i]) + 0.6 * (b[i] - scratch[i]) / diagonal(m, m->first + i);
    }
}

static double *numbers(long count)
{
    return calloc(count + 1, sizeof(double));
}

/* A V-cycle of two levels; the lower one is solved by the first rank of the team. */
typedef struct {
    Matrix a;
    int rows;
    double *factor; /* of Cholesky, where it is solved */
    double *coarse, *sum, *b, *x, *scratch;
} Cycle;

static Cycle cycle_of(int rows, long values, MPI_Comm team)
{
    Cycle c = {.a = matrix(rows, values, 1, team), .rows = (rows + AGGREGATE - 1) / AGGREGATE};
    int n = c.rows, rank;
    MPI_Comm_rank(team, &rank);
    c.coarse = calloc(n, sizeof *c.coarse), c.sum = calloc(n, sizeof *c.sum);
    c.b = calloc(c.a.own + 1, sizeof *c.b), c.x = calloc(c.a.own + 1, sizeof *c.x), c.scratch = calloc(c.a.own + 1, sizeof *c.scratch);
    if (rank != 0)
        return c;
    c.factor = calloc((size_t)n * n, sizeof *c.factor);
    for (int i = 0; i < rows; i++) /* P^T A P, with aggregates of rows that follow each other */
        for (int j = i - c.a.band; j <= i + c.a.band; j++)
            if (j >= 0 && j < rows && (abs(i - j) < c.a.band || fmin(i, j) < c.a.last))
                c.factor[(size_t)(i / AGGREGATE) * n + j / AGGREGATE] += i == j ? diagonal(&c.a, i) : -1;
    for (int j = 0; j < n; j++)
        for (int i = j; i < n; i++) {
            double *at = c.factor + (size_t)i * n, sum = at[j];
            for (int k = 0; k < j; k++)
                sum -= at[k] * c.factor[(size_t)j * n + k];
            at[j] = i == j ? sqrt(sum) : sum / c.factor[(size_t)j * n + j];
        }
    return c;
}

static void solve(Cycle *c)
{
    int n = c->rows;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++)
            c->sum[i] -= c->factor[(size_t)i * n + k] * c->sum[k];
        c->sum[i] /= c->factor[(size_t)i * n + i];
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++)
            c->sum[i] -= c->factor[(size_t)k * n + i] * c->sum[k];
        c->sum[i] /= c->factor[(size_t)i * n + i];
    }
}

static void cycle(Cycle *c)
{
    Matrix *a = &c->a;
    smooth(a, c->b, c->x, c->scratch, 1);
    times(a, c->x, c->scratch);
    memset(c->coarse, 0, c->rows * sizeof *c->coarse);
    for (int i = 0; i < a->own; i++)
        c->coarse[(a->first + i) / AGGREGATE] += c->b[i] - c->scratch[i];
    MPI_Reduce(c->coarse, c->sum, c->rows, MPI_DOUBLE, MPI_SUM, 0, a->team);
    if (c->factor)
        solve(c);
    MPI_Bcast(c->sum, c->rows, MPI_DOUBLE, 0, a->team);
    for (int i = 0; i < a->own; i++)
        c->x[i] += c->sum[(a->first + i) / AGGREGATE];
    smooth(a, c->b, c->x, c->scratch, 0);
}

/* Sums of the fine rows of a rank into its rows of a smaller problem, `rows` of them, and back. */
static void restrict_to(const Matrix *fine, const double *from, double *to, int rows)
{
    memset(to, 0, rows * sizeof *to);
    for (int i = 0; i < fine->own; i++)
        to[(long)i * rows / fine->own] += from[i];
}

static void prolong(const Matrix *fine, const double *from, double *to, int rows)
{
    for (int i = 0; i < fine->own; i++)
        to[i] += 0.5 * from[(long)i * rows / fine->own];
}

static double dot(const Matrix *m, const double *a, const double *b)
{
    double mine = 0, all;
    for (int i = 0; i < m->own; i++)
        mine += a[i] * b[i];
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, m->team);
    return all;
}

enum { H_ROWS = 4065, H_VALUES = 346665, N_ROWS = 17261, N_VALUES = 248581 };

/* The hosts' part. With DPUs, so many hosts as `share` have one, which has the same rows of A22 as they. */
static void host(int size, MPI_Comm team, int hosts, int share)
{
    int rank, iterations = 0;
    MPI_Comm_rank(team, &rank);
    double growth = pow(size / 120.0, 3);
    int rows = (int)round(163617 * growth), dpu = share ? hosts + rank / share : 0;
    Matrix a = matrix(rows, (long)round(13662045 * growth), 1e-3, team);
    Cycle ah = cycle_of(H_ROWS, H_VALUES, team), a22 = {0};
    int own22 = block(N_ROWS, hosts, rank + 1) - block(N_ROWS, hosts, rank);
    if (share)
        a22.b = numbers(own22), a22.x = numbers(own22);
    else
        a22 = cycle_of(N_ROWS, N_VALUES, team);
    double *x = numbers(a.own), *b = numbers(a.own), *r = numbers(a.own), *z = numbers(a.own), *p = numbers(a.own);
    double *q = numbers(a.own), *scratch = numbers(a.own), *rest = numbers(a.own);
    for (int i = 0; i < a.own; i++)
        r[i] = b[i] = 1 + (a.first + i) % 7;
    double norm = sqrt(dot(&a, b, b)), rz = 0, left = norm;
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    while (left > 1e-8 * norm && iterations < 500) {
        MPI_Request open[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        smooth(&a, r, z, scratch, 1);
        times(&a, z, rest);
        for (int i = 0; i < a.own; i++)
            rest[i] = r[i] - rest[i];
        restrict_to(&a, rest, a22.b, own22);
        restrict_to(&a, rest, ah.b, ah.a.own);
        if (share) {
            MPI_Irecv(a22.x, own22, MPI_DOUBLE, dpu, 1, MPI_COMM_WORLD, open);
            MPI_Isend(a22.b, own22, MPI_DOUBLE, dpu, 1, MPI_COMM_WORLD, open + 1);
        } else {
            cycle(&a22);
        }
        cycle(&ah);
        MPI_Waitall(2, open, MPI_STATUSES_IGNORE);
        prolong(&a, ah.x, z, ah.a.own);
        prolong(&a, a22.x, z, own22);
        smooth(&a, r, z, scratch, 0);
        double next = dot(&a, r, z), factor = iterations == 0 ? 0 : next / rz;
        rz = next;
        for (int i = 0; i < a.own; i++)
            p[i] = z[i] + factor * p[i];
        times(&a, p, q);
        double step = rz / dot(&a, p, q);
        for (int i = 0; i < a.own; i++) {
            x[i] += step * p[i];
            r[i] -= step * q[i];
        }
        left = sqrt(dot(&a, r, r));
        iterations++;
    }
    double took = MPI_Wtime() - begin, longest;
    if (share) /* a message without rows: the end */
        MPI_Send(a22.b, 0, MPI_DOUBLE, dpu, 1, MPI_COMM_WORLD);
    times(&a, x, q);
    for (int i = 0; i < a.own; i++)
        q[i] = b[i] - q[i];
    double residual = sqrt(dot(&a, q, q)) / norm;
    MPI_Reduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, team);
    if (rank == 0)
        printf("size %d: %d rows, %d iterations, residual %s, %.3f ms\n", size, rows, iterations, residual < 1e-7 ? "below 1e-7" : "TOO LARGE", longest * 1e3);
}

/* The V-cycle of A22 for `share` hosts, for as long as they ask. */
static void dpu(MPI_Comm team, int hosts, int share)
{
    int rank;
    MPI_Comm_rank(team, &rank);
    Cycle a22 = cycle_of(N_ROWS, N_VALUES, team);
    MPI_Barrier(MPI_COMM_WORLD);
    for (;;) {
        for (int host = rank * share; host < (rank + 1) * share; host++) {
            int at = block(N_ROWS, hosts, host) - a22.a.first, count = block(N_ROWS, hosts, host + 1) - a22.a.first - at;
            MPI_Status status;
            MPI_Recv(a22.b + at, count, MPI_DOUBLE, host, 1, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_DOUBLE, &count);
            if (count == 0 && host == (rank + 1) * share - 1)
                return;
        }
        cycle(&a22);
        for (int host = rank * share; host < (rank + 1) * share; host++) {
            int at = block(N_ROWS, hosts, host) - a22.a.first, count = block(N_ROWS, hosts, host + 1) - a22.a.first - at;
            MPI_Send(a22.x + at, count, MPI_DOUBLE, host, 1, MPI_COMM_WORLD);
        }
    }
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int both = argc > 2 && strcmp(argv[1], "with-dpu") == 0, hosts = both ? atoi(argv[2]) : ranks, at = both ? 3 : 1;
    int size = argc > at ? atoi(argv[at]) : 40, dpus = ranks - hosts, share = dpus > 0 ? hosts / dpus : 0;
    if (size < 24 || size > 240 || hosts < 1 || hosts > ranks || ranks > 512 || (both && (dpus == 0 || share * dpus != hosts))) {
        if (rank == 0)
            fprintf(stderr, "miniem: needs a size of 24 to 240, at most 512 ranks, and with-dpu HOSTS: a multiple of the other ranks, the DPUs\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm team;
    MPI_Comm_split(MPI_COMM_WORLD, rank < hosts ? 0 : 1, rank, &team);
    if (rank < hosts)
        host(size, team, hosts, share);
    else
        dpu(team, hosts, share);
    MPI_Finalize();
    return 0;
}
