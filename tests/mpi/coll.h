/* One description of all collectives, used by the blocking and by the non-blocking test: each collective is a macro call
 * COLLECTIVE(name, arguments...) that the including file turns into MPI_name(...) or MPI_Iname(..., &request) + wait.
 * The data are such that every element of every result tells where it came from. */
#ifndef NARROWS_TESTS_COLL_H
#define NARROWS_TESTS_COLL_H
#include "check.h"

/* Element i of the part that rank `from` gives to rank `to`. */
static inline int element(int from, int to, int i)
{
    return from * 1000003 + to * 1009 + i;
}

/* The number of elements that rank r contributes in the variants with unequal counts: 0 to 6 times the unit. */
static inline int share(int r, int unit)
{
    return r * 5 % 7 * unit;
}

static void test_barrier_and_bcast(MPI_Comm comm, int me, int size, int n)
{
    int *data = allocate((size_t)n * sizeof *data);
    COLLECTIVE(barrier, comm);
    for (int root = 0; root < size; root += size > 6 ? 5 : 1) {
        for (int i = 0; i < n; i++)
            data[i] = me == root ? element(root, 0, i) : -1;
        COLLECTIVE(bcast, data, n, MPI_INT, root, comm);
        int wrong = 0;
        for (int i = 0; i < n; i++)
            wrong += data[i] != element(root, 0, i);
        CHECK_EQ(wrong, 0);
    }
    free(data);
}

static void test_gather_scatter(MPI_Comm comm, int me, int size, int n)
{
    int total = size * 6 * n + 1;
    int *out = allocate((size_t)total * sizeof *out), *in = allocate((size_t)total * sizeof *in);
    int *counts = allocate((size_t)size * sizeof *counts), *places = allocate((size_t)size * sizeof *places);
    for (int root = 0; root < size; root += size > 6 ? 7 : 1) {
        for (int i = 0; i < n; i++)
            out[i] = element(me, root, i);
        COLLECTIVE(gather, out, n, MPI_INT, in, n, MPI_INT, root, comm);
        int wrong = 0;
        if (me == root)
            for (int r = 0; r < size; r++)
                for (int i = 0; i < n; i++)
                    wrong += in[r * n + i] != element(r, root, i);
        CHECK_EQ(wrong, 0);
        /* The root's part is in its place already. */
        if (me == root)
            for (int i = 0; i < size * n; i++)
                in[i] = i / n == root ? element(me, root, i % n) : -1;
        COLLECTIVE(gather, me == root ? MPI_IN_PLACE : (void *)out, n, MPI_INT, in, n, MPI_INT, root, comm);
        if (me == root)
            for (int r = 0; r < size; r++)
                for (int i = 0; i < n; i++)
                    wrong += in[r * n + i] != element(r, root, i);
        CHECK_EQ(wrong, 0);

        /* Unequal parts, in reverse order with gaps of one element. */
        int place = 0;
        for (int r = size - 1; r >= 0; r--) {
            counts[r] = share(r, n / 8 + 1) > 6 * n - 1 ? 0 : share(r, n / 8 + 1);
            places[r] = place;
            place += counts[r] + 1;
        }
        CHECK(place <= total + size * 6);
        int *wide = allocate((size_t)place * sizeof *wide);
        for (int i = 0; i < place; i++)
            wide[i] = -7;
        for (int i = 0; i < counts[me]; i++)
            out[i] = element(me, root, i);
        COLLECTIVE(gatherv, out, counts[me], MPI_INT, wide, counts, places, MPI_INT, root, comm);
        if (me == root)
            for (int r = 0; r < size; r++)
                for (int i = 0; i <= counts[r]; i++)
                    wrong += wide[places[r] + i] != (i < counts[r] ? element(r, root, i) : -7);
        CHECK_EQ(wrong, 0);

        for (int i = 0; i < size * n; i++)
            out[i] = element(me, i / n, i % n);
        COLLECTIVE(scatter, out, n, MPI_INT, in, n, MPI_INT, root, comm);
        for (int i = 0; i < n; i++)
            wrong += in[i] != element(root, me, i);
        CHECK_EQ(wrong, 0);
        COLLECTIVE(scatter, out, n, MPI_INT, me == root ? MPI_IN_PLACE : (void *)in, n, MPI_INT, root, comm);
        CHECK_EQ(wrong, 0);

        for (int i = 0; i < place; i++)
            wide[i] = -7;
        for (int r = 0; r < size; r++)
            for (int i = 0; i < counts[r]; i++)
                wide[places[r] + i] = element(me, r, i);
        COLLECTIVE(scatterv, wide, counts, places, MPI_INT, in, counts[me], MPI_INT, root, comm);
        for (int i = 0; i < counts[me]; i++)
            wrong += in[i] != element(root, me, i);
        CHECK_EQ(wrong, 0);
        free(wide);
    }
    free(out);
    free(in);
    free(counts);
    free(places);
}

static void test_allgather(MPI_Comm comm, int me, int size, int n)
{
    int *out = allocate((size_t)(7 * n + 7) * sizeof *out), *in = allocate((size_t)size * (7 * n + 8) * sizeof *in);
    int *counts = allocate((size_t)size * sizeof *counts), *places = allocate((size_t)size * sizeof *places);
    int wrong = 0, place = 0;
    for (int i = 0; i < n; i++)
        out[i] = element(me, 0, i);
    COLLECTIVE(allgather, out, n, MPI_INT, in, n, MPI_INT, comm);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++)
            wrong += in[r * n + i] != element(r, 0, i);
    CHECK_EQ(wrong, 0);
    for (int i = 0; i < size * n; i++)
        in[i] = i / n == me ? element(me, 1, i % n) : -1;
    COLLECTIVE(allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, n, MPI_INT, comm);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++)
            wrong += in[r * n + i] != element(r, 1, i);
    CHECK_EQ(wrong, 0);

    for (int r = size - 1; r >= 0; r--) {
        counts[r] = share(r, n / 8 + 1);
        places[r] = place;
        place += counts[r] + 1;
    }
    for (int i = 0; i < counts[me]; i++)
        out[i] = element(me, 2, i);
    for (int i = 0; i < place; i++)
        in[i] = -7;
    COLLECTIVE(allgatherv, out, counts[me], MPI_INT, in, counts, places, MPI_INT, comm);
    for (int r = 0; r < size; r++)
        for (int i = 0; i <= counts[r]; i++)
            wrong += in[places[r] + i] != (i < counts[r] ? element(r, 2, i) : -7);
    CHECK_EQ(wrong, 0);
    for (int i = 0; i < place; i++)
        in[i] = i >= places[me] && i < places[me] + counts[me] ? element(me, 3, i - places[me]) : -7;
    COLLECTIVE(allgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, counts, places, MPI_INT, comm);
    for (int r = 0; r < size; r++)
        for (int i = 0; i <= counts[r]; i++)
            wrong += in[places[r] + i] != (i < counts[r] ? element(r, 3, i) : -7);
    CHECK_EQ(wrong, 0);
    free(out);
    free(in);
    free(counts);
    free(places);
}

static void test_alltoall(MPI_Comm comm, int me, int size, int n)
{
    size_t room = (size_t)size * (7 * (size_t)n + 8);
    int *out = allocate(room * sizeof *out), *in = allocate(room * sizeof *in);
    int *lists = allocate((size_t)size * 4 * sizeof *lists);
    int *send_counts = lists, *send_places = lists + size, *counts = lists + 2 * size, *places = lists + 3 * size;
    MPI_Datatype *types = allocate((size_t)size * sizeof *types);
    int wrong = 0, send_place = 0, place = 0;
    for (int i = 0; i < size * n; i++)
        out[i] = element(me, i / n, i % n);
    COLLECTIVE(alltoall, out, n, MPI_INT, in, n, MPI_INT, comm);
    for (int i = 0; i < size * n; i++)
        wrong += in[i] != element(i / n, me, i % n);
    CHECK_EQ(wrong, 0);
    memcpy(in, out, (size_t)size * n * sizeof *in);
    COLLECTIVE(alltoall, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, n, MPI_INT, comm);
    for (int i = 0; i < size * n; i++)
        wrong += in[i] != element(i / n, me, i % n);
    CHECK_EQ(wrong, 0);

    /* Rank a gives share(a + b) to rank b. */
    for (int r = 0; r < size; r++) {
        types[r] = MPI_INT;
        send_counts[r] = counts[r] = share(me + r, n / 8 + 1);
        send_places[r] = send_place;
        send_place += send_counts[r];
    }
    for (int r = size - 1; r >= 0; r--) {
        places[r] = place;
        place += counts[r] + 1;
    }
    for (int r = 0; r < size; r++)
        for (int i = 0; i < send_counts[r]; i++)
            out[send_places[r] + i] = element(me, r, i);
    for (int i = 0; i < place; i++)
        in[i] = -7;
    COLLECTIVE(alltoallv, out, send_counts, send_places, MPI_INT, in, counts, places, MPI_INT, comm);
    for (int r = 0; r < size; r++)
        for (int i = 0; i <= counts[r]; i++)
            wrong += in[places[r] + i] != (i < counts[r] ? element(r, me, i) : -7);
    CHECK_EQ(wrong, 0);

    for (int r = 0; r < size; r++) { /* the w variant counts in bytes */
        send_places[r] *= (int)sizeof(int);
        places[r] *= (int)sizeof(int);
    }
    for (int i = 0; i < place; i++)
        in[i] = -7;
    COLLECTIVE(alltoallw, out, send_counts, send_places, types, in, counts, places, types, comm);
    for (int r = 0; r < size; r++)
        for (int i = 0; i <= counts[r]; i++)
            wrong += in[places[r] / (int)sizeof(int) + i] != (i < counts[r] ? element(r, me, i) : -7);
    CHECK_EQ(wrong, 0);
    free(out);
    free(in);
    free(lists);
    free(types);
}

/* Composition of x -> a x + b modulo a prime: associative, not commutative. */
static void compose(void *left, void *right, int *count, MPI_Datatype *type)
{
    long long *f = left, *g = right;
    (void)type;
    for (int i = 0; i < *count; i++, f += 2, g += 2) {
        long long a = f[0] * g[0] % 1000003, b = (f[1] * g[0] + g[1]) % 1000003;
        g[0] = a;
        g[1] = b;
    }
}

static void expect_composition(long long *result, int from, int to, int i)
{
    result[0] = 1;
    result[1] = 0;
    for (int r = from; r < to; r++) {
        long long a = 2 + r % 5, b = r * 3 + i;
        result[1] = (result[1] * a + b) % 1000003;
        result[0] = result[0] * a % 1000003;
    }
}

static void test_reductions(MPI_Comm comm, int me, int size, int n)
{
    int *out = allocate((size_t)size * n * sizeof *out), *in = allocate((size_t)size * n * sizeof *in);
    int *counts = allocate((size_t)size * sizeof *counts);
    long long sum = (long long)size * (size - 1) / 2, before = (long long)me * (me - 1) / 2;
    int wrong = 0;
    for (int i = 0; i < n; i++)
        out[i] = me * 3 + i % 1000;
    for (int root = 0; root < size; root += size > 6 ? 9 : 1) {
        COLLECTIVE(reduce, out, in, n, MPI_INT, MPI_SUM, root, comm);
        if (me == root)
            for (int i = 0; i < n; i++)
                wrong += in[i] != 3 * sum + (long long)size * (i % 1000);
        CHECK_EQ(wrong, 0);
        if (me == root)
            memcpy(in, out, (size_t)n * sizeof *in);
        COLLECTIVE(reduce, me == root ? MPI_IN_PLACE : (void *)out, in, n, MPI_INT, MPI_MAX, root, comm);
        if (me == root)
            for (int i = 0; i < n; i++)
                wrong += in[i] != (size - 1) * 3 + i % 1000;
        CHECK_EQ(wrong, 0);
    }
    COLLECTIVE(allreduce, out, in, n, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < n; i++)
        wrong += in[i] != 3 * sum + (long long)size * (i % 1000);
    CHECK_EQ(wrong, 0);
    memcpy(in, out, (size_t)n * sizeof *in);
    COLLECTIVE(allreduce, MPI_IN_PLACE, in, n, MPI_INT, MPI_MIN, comm);
    for (int i = 0; i < n; i++)
        wrong += in[i] != i % 1000;
    CHECK_EQ(wrong, 0);

    COLLECTIVE(scan, out, in, n, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < n; i++)
        wrong += in[i] != 3 * (before + me) + (me + 1LL) * (i % 1000);
    CHECK_EQ(wrong, 0);
    memcpy(in, out, (size_t)n * sizeof *in);
    COLLECTIVE(scan, MPI_IN_PLACE, in, n, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < n; i++)
        wrong += in[i] != 3 * (before + me) + (me + 1LL) * (i % 1000);
    CHECK_EQ(wrong, 0);
    COLLECTIVE(exscan, out, in, n, MPI_INT, MPI_SUM, comm);
    if (me > 0)
        for (int i = 0; i < n; i++)
            wrong += in[i] != 3 * before + (long long)me * (i % 1000);
    CHECK_EQ(wrong, 0);

    for (int i = 0; i < size * n; i++)
        out[i] = me + i % 1000;
    COLLECTIVE(reduce_scatter_block, out, in, n, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < n; i++)
        wrong += in[i] != sum + (long long)size * ((me * n + i) % 1000);
    CHECK_EQ(wrong, 0);
    int start = 0, all = 0;
    for (int r = 0; r < size; r++) {
        counts[r] = share(r, n / 8 + 1);
        if (all + counts[r] > size * n)
            counts[r] = 0;
        if (r < me)
            start += counts[r];
        all += counts[r];
    }
    COLLECTIVE(reduce_scatter, out, in, counts, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < counts[me]; i++)
        wrong += in[i] != sum + (long long)size * ((start + i) % 1000);
    CHECK_EQ(wrong, 0);

    /* A user's operation on a user's datatype, not commutative: the order of the ranks must hold. */
    MPI_Op op;
    MPI_Datatype pair;
    MPI_Op_create(compose, 0, &op);
    MPI_Type_contiguous(2, MPI_LONG_LONG, &pair);
    MPI_Type_commit(&pair);
    int m = n < 500 ? n : 500;
    long long *f = allocate((size_t)m * 16), *g = allocate((size_t)m * 16), expected[2];
    for (int i = 0; i < m; i++) {
        f[2 * i] = 2 + me % 5;
        f[2 * i + 1] = me * 3 + i;
    }
    COLLECTIVE(allreduce, f, g, m, pair, op, comm);
    for (int i = 0; i < m; i++) {
        expect_composition(expected, 0, size, i);
        wrong += g[2 * i] != expected[0] || g[2 * i + 1] != expected[1];
    }
    CHECK_EQ(wrong, 0);
    int root = size / 2;
    COLLECTIVE(reduce, f, g, m, pair, op, root, comm);
    if (me == root)
        for (int i = 0; i < m; i++) {
            expect_composition(expected, 0, size, i);
            wrong += g[2 * i] != expected[0] || g[2 * i + 1] != expected[1];
        }
    CHECK_EQ(wrong, 0);
    COLLECTIVE(scan, f, g, m, pair, op, comm);
    for (int i = 0; i < m; i++) {
        expect_composition(expected, 0, me + 1, i);
        wrong += g[2 * i] != expected[0] || g[2 * i + 1] != expected[1];
    }
    CHECK_EQ(wrong, 0);
    MPI_Op_free(&op);
    MPI_Type_free(&pair);
    free(f);
    free(g);
    free(out);
    free(in);
    free(counts);
}

static void test_all(MPI_Comm comm, int n)
{
    int me, size;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &size);
    test_barrier_and_bcast(comm, me, size, n);
    test_gather_scatter(comm, me, size, n);
    test_allgather(comm, me, size, n);
    test_alltoall(comm, me, size, n);
    test_reductions(comm, me, size, n);
}

/* All collectives on the world, on its two halves (of different sizes) and on each rank alone. */
static void test_collectives(int longest)
{
    MPI_Comm part;
    for (int n = 1; n <= longest; n = n * 12 + 3)
        test_all(MPI_COMM_WORLD, n);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 3 == 0, -rank, &part);
    test_all(part, 40);
    MPI_Comm_free(&part);
    test_all(MPI_COMM_SELF, 40);
}
#endif
