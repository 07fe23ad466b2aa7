/* Arguments in registers and on the stack, results, callbacks, wildcards. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(x) do { if (!(x)) { fprintf(stderr, "line %d: %s\n", __LINE__, #x); MPI_Abort(MPI_COMM_WORLD, 1); } } while (0)

static int callbacks;
static void add(void *in, void *inout, int *n, MPI_Datatype *type) {
    int rank;
    (void)type;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank); /* a call inside a call: no mark */
    MPI_Wtime();
    for (int i = 0; i < *n; i++)
        ((int *)inout)[i] += ((int *)in)[i];
    callbacks++;
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;

    /* 12 arguments */
    int out = rank, in = -1;
    MPI_Status status;
    CHECK(MPI_Sendrecv(&out, 1, MPI_INT, right, 11, &in, 1, MPI_INT, left, 11, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
    CHECK(in == left && status.MPI_SOURCE == left && status.MPI_TAG == 11);
    CHECK(MPI_Sendrecv(&out, 1, MPI_INT, MPI_PROC_NULL, 5, &in, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &status) == MPI_SUCCESS);

    /* 9 arguments, an odd number on the stack */
    int *counts = malloc(size * sizeof *counts), *offsets = malloc(size * sizeof *offsets), *from = malloc(size * sizeof *from),
        *to = malloc(size * sizeof *to);
    MPI_Datatype *types = malloc(size * sizeof *types);
    for (int i = 0; i < size; i++) {
        counts[i] = 1;
        offsets[i] = i * (int)sizeof(int);
        types[i] = MPI_INT;
        from[i] = 100 * rank + i;
        to[i] = -1;
    }
    CHECK(MPI_Alltoallw(from, counts, offsets, types, to, counts, offsets, types, MPI_COMM_WORLD) == MPI_SUCCESS);
    for (int i = 0; i < size; i++)
        CHECK(to[i] == 100 * i + rank);

    /* 10 arguments of which some are on the stack and NULL, and a call that returns handles */
    MPI_Comm graph;
    CHECK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph) == MPI_SUCCESS);
    in = -1;
    CHECK(MPI_Neighbor_alltoall(&out, 1, MPI_INT, &in, 1, MPI_INT, graph) == MPI_SUCCESS);
    CHECK(in == left);
    MPI_Comm_free(&graph);

    MPI_Op op;
    MPI_Op_create(add, 1, &op);
    int sum = 0;
    CHECK(MPI_Allreduce(&out, &sum, 1, MPI_INT, op, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(sum == size * (size - 1) / 2);
    MPI_Op_free(&op);

    if (rank == 0) {
        for (int i = 1; i < size; i++)
            MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 1; i < size; i++)
            MPI_Recv(&in, 1, MPI_INT, i, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(&out, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
        PMPI_Send(&out, 1, MPI_INT, 0, 8, MPI_COMM_WORLD);
    }
    MPI_Pcontrol(1, 2, 3, 4, 5, 6, 7, 8);
    CHECK(MPI_Aint_add(40, 2) == 42); /* returns in rax, no mark */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0)
        printf("calls: %d ranks\n", size);
    return 0;
}
