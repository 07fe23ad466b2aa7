/* Process topologies: Cartesian grids and graphs, shifts, sub-grids, and the neighbourhood collectives, blocking and not. */
#include "check.h"

static MPI_Comm grid;
static int dims[3] = {0, 0, 0}, me[3];

static int at(int dx, int dy, int dz)
{
    int place[3] = {me[0] + dx, me[1] + dy, me[2] + dz}, r;
    MPI_Cart_rank(grid, place, &r);
    return r;
}

static void cartesian(void)
{
    int periods[3] = {1, 1, 1}, size, dimensions, r;
    MPI_Dims_create(ranks, 3, dims);
    CHECK_EQ(dims[0] * dims[1] * dims[2], ranks);
    CHECK(dims[0] >= dims[1] && dims[1] >= dims[2]);
    MPI_Cart_create(WORLD, 3, dims, periods, 0, &grid);
    MPI_Comm_size(grid, &size);
    CHECK_EQ(size, ranks);
    MPI_Cartdim_get(grid, &dimensions);
    CHECK_EQ(dimensions, 3);
    MPI_Cart_coords(grid, rank, 3, me);
    MPI_Cart_rank(grid, me, &r);
    CHECK_EQ(r, rank);
    CHECK_EQ(r, (me[0] * dims[1] + me[1]) * dims[2] + me[2]);
    int kind;
    MPI_Topo_test(grid, &kind);
    CHECK_EQ(kind, MPI_CART);
    int source, target;
    for (int d = 0; d < 3; d++) {
        MPI_Cart_shift(grid, d, 1, &source, &target);
        CHECK_EQ(source, at(-(d == 0), -(d == 1), -(d == 2)));
        CHECK_EQ(target, at(d == 0, d == 1, d == 2));
        int got = -1;
        MPI_Sendrecv(&rank, 1, MPI_INT, target, d, &got, 1, MPI_INT, source, d, grid, MPI_STATUS_IGNORE);
        CHECK_EQ(got, source);
    }
    /* Columns of the grid. */
    MPI_Comm line;
    int keep[3] = {1, 0, 0}, sum;
    MPI_Cart_sub(grid, keep, &line);
    MPI_Comm_size(line, &size);
    CHECK_EQ(size, dims[0]);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, line);
    int expected = 0;
    for (int x = 0; x < dims[0]; x++)
        expected += (x * dims[1] + me[1]) * dims[2] + me[2];
    CHECK_EQ(sum, expected);
    MPI_Comm_free(&line);
    /* Not periodic: the ends have MPI_PROC_NULL. */
    MPI_Comm open;
    int one[1] = {ranks}, no[1] = {0};
    MPI_Cart_create(WORLD, 1, one, no, 0, &open);
    MPI_Cart_shift(open, 0, 1, &source, &target);
    CHECK_EQ(source, rank ? rank - 1 : MPI_PROC_NULL);
    CHECK_EQ(target, rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL);
    int in[2] = {-1, -1};
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, in, 1, MPI_INT, open);
    CHECK_EQ(in[0], rank ? rank - 1 : -1);
    CHECK_EQ(in[1], rank + 1 < ranks ? rank + 1 : -1);
    MPI_Comm_free(&open);
}

/* Six neighbours: -x, +x, -y, +y, -z, +z. In a dimension of length 1 or 2 both are the same process. */
static void cartesian_neighbours(int blocking)
{
    enum { N = 300 };
    static int out[6 * N], in[6 * N];
    int counts[6], places[6], wrong = 0;
    MPI_Datatype types[6];
    MPI_Aint displacements[6];
    MPI_Request request;
    int from[6] = {at(-1, 0, 0), at(1, 0, 0), at(0, -1, 0), at(0, 1, 0), at(0, 0, -1), at(0, 0, 1)};
#define DO(call, ...)                                     \
    do {                                                  \
        memset(in, 0xff, sizeof in);                      \
        if (blocking)                                     \
            MPI_Neighbor_##call(__VA_ARGS__, grid);       \
        else {                                            \
            MPI_Ineighbor_##call(__VA_ARGS__, grid, &request); \
            MPI_Wait(&request, MPI_STATUS_IGNORE);        \
        }                                                 \
    } while (0)
    for (int i = 0; i < N; i++)
        out[i] = rank * 1000 + i;
    DO(allgather, out, N, MPI_INT, in, N, MPI_INT);
    for (int k = 0; k < 6; k++)
        for (int i = 0; i < N; i++)
            wrong += in[k * N + i] != from[k] * 1000 + i;
    CHECK_EQ(wrong, 0);
    for (int k = 0; k < 6; k++) {
        counts[k] = 1 + from[k] % 50;
        places[k] = k * N + 3;
    }
    DO(allgatherv, out, 1 + rank % 50, MPI_INT, in, counts, places, MPI_INT);
    for (int k = 0; k < 6; k++)
        for (int i = 0; i < N; i++)
            wrong += in[k * N + i] != (i >= 3 && i < 3 + counts[k] ? from[k] * 1000 + i - 3 : -1);
    CHECK_EQ(wrong, 0);

    /* What I send to direction k arrives there from the opposite direction k ^ 1. With the two neighbours of a dimension
     * being one process, the libraries disagree which of the two messages comes first: such dimensions send equal
     * parts. */
    for (int k = 0; k < 6; k++)
        for (int i = 0; i < N; i++)
            out[k * N + i] = rank * 10000 + (dims[k / 2] > 2 ? k : k / 2) * 1000 + i;
    DO(alltoall, out, N, MPI_INT, in, N, MPI_INT);
    for (int k = 0; k < 6; k++)
        for (int i = 0; i < N; i++)
            wrong += in[k * N + i] != from[k] * 10000 + (dims[k / 2] > 2 ? k ^ 1 : k / 2) * 1000 + i;
    CHECK_EQ(wrong, 0);
    for (int k = 0; k < 6; k++) {
        counts[k] = 40 + k / 2;
        places[k] = k * N;
        types[k] = MPI_INT;
        displacements[k] = (MPI_Aint)(k * N * sizeof(int));
    }
    DO(alltoallv, out, counts, places, MPI_INT, in, counts, places, MPI_INT);
    for (int k = 0; k < 6; k++)
        for (int i = 0; i < N; i++)
            wrong += in[k * N + i] != (i < counts[k] ? from[k] * 10000 + (dims[k / 2] > 2 ? k ^ 1 : k / 2) * 1000 + i : -1);
    CHECK_EQ(wrong, 0);
    DO(alltoallw, out, counts, displacements, types, in, counts, displacements, types);
    for (int k = 0; k < 6; k++)
        for (int i = 0; i < N; i++)
            wrong += in[k * N + i] != (i < counts[k] ? from[k] * 10000 + (dims[k / 2] > 2 ? k ^ 1 : k / 2) * 1000 + i : -1);
    CHECK_EQ(wrong, 0);
}

static void graphs(void)
{
    /* A directed ring with a chord: I send to rank+1 and rank+3, I receive from rank-1 and rank-3. */
    MPI_Comm graph;
    int sources[2] = {(rank + ranks - 1) % ranks, (rank + 3 * ranks - 3) % ranks};
    int targets[2] = {(rank + 1) % ranks, (rank + 3) % ranks};
    MPI_Dist_graph_create_adjacent(WORLD, 2, sources, MPI_UNWEIGHTED, 2, targets, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    int in_degree, out_degree, weighted, got[2] = {-1, -1};
    MPI_Dist_graph_neighbors_count(graph, &in_degree, &out_degree, &weighted);
    CHECK_EQ(in_degree, 2);
    CHECK_EQ(out_degree, 2);
    CHECK_EQ(weighted, 0);
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, graph);
    CHECK_EQ(got[0], sources[0]);
    CHECK_EQ(got[1], sources[1]);
    if (ranks > 2) { /* two edges between one pair: their order is the library's */
        int out[2] = {rank * 10 + 1, rank * 10 + 3};
        MPI_Neighbor_alltoall(out, 1, MPI_INT, got, 1, MPI_INT, graph);
        CHECK_EQ(got[0], sources[0] * 10 + 1);
        CHECK_EQ(got[1], sources[1] * 10 + 3);
    }
    MPI_Comm_free(&graph);

    /* The same ring, each edge declared by its target's right neighbour. The library may give other ranks. */
    int source = (rank + ranks - 1) % ranks, degree = 1, target = rank, weight = 7;
    MPI_Dist_graph_create(WORLD, 1, &source, &degree, &target, &weight, MPI_INFO_NULL, 1, &graph);
    int in_source, in_weight, out_target, out_weight, here;
    MPI_Comm_rank(graph, &here);
    MPI_Dist_graph_neighbors(graph, 1, &in_source, &in_weight, 1, &out_target, &out_weight);
    CHECK_EQ(in_source, (here + ranks - 1) % ranks);
    CHECK_EQ(out_target, (here + 1) % ranks);
    CHECK_EQ(in_weight, 7);
    MPI_Comm_free(&graph);

    /* The old interface: a star. */
    int *index = allocate((size_t)ranks * sizeof *index), *edges = allocate((size_t)2 * ranks * sizeof *edges);
    for (int r = 0; r < ranks; r++)
        index[r] = ranks - 1 + r;
    for (int r = 1; r < ranks; r++) {
        edges[r - 1] = r;
        edges[ranks - 1 + r - 1] = 0;
    }
    MPI_Graph_create(WORLD, ranks, index, edges, 0, &graph);
    int neighbours;
    MPI_Graph_neighbors_count(graph, rank, &neighbours);
    CHECK_EQ(neighbours, rank ? 1 : ranks - 1);
    int *all = allocate((size_t)ranks * sizeof *all);
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, graph);
    for (int k = 0; k < neighbours; k++)
        CHECK_EQ(all[k], rank ? 0 : k + 1);
    MPI_Comm_free(&graph);
    free(index);
    free(edges);
    free(all);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    cartesian();
    cartesian_neighbours(1);
    cartesian_neighbours(0);
    graphs();
    MPI_Comm_free(&grid);
    return finish("neighbor");
}
