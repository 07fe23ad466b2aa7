// Sizes of a collective that do not fit, by name.
#include <mpi.h>
#include <string.h>

static int is(int argc, char **argv, const char *name) { return argc > 1 && !strcmp(argv[1], name); }

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, out[64] = {0}, in[64] = {0}, counts[16], places[16];
    MPI_Datatype types[16];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 16; i++) {
        counts[i] = 1;
        places[i] = 4 * i;
        types[i] = MPI_INT;
    }
    if (is(argc, argv, "types")) {
        // Rank 1 sends less than the others expect.
        int sent[16];
        for (int i = 0; i < 16; i++)
            sent[i] = rank == 1 && i != 1 ? 0 : 1;
        MPI_Alltoallw(out, sent, places, types, in, counts, places, types, MPI_COMM_WORLD);
    } else if (is(argc, argv, "neighbors")) {
        MPI_Comm ring;
        int periodic = 1;
        MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring);
        MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
        MPI_Neighbor_allgather(out, rank == 1 ? 0 : 1, MPI_INT, in, 1, MPI_INT, ring);
        MPI_Comm_free(&ring);
    } else if (is(argc, argv, "groups")) {
        MPI_Comm half, both;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 7, &both);
        MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN);
        // One group gives less than the other one expects.
        MPI_Allgather(out, rank % 2 ? 1 : 2, MPI_INT, in, 2, MPI_INT, both);
        MPI_Comm_free(&both);
        MPI_Comm_free(&half);
    } else if (is(argc, argv, "scatter")) {
        MPI_Comm half, both;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 7, &both);
        MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN);
        // One group gives more than the other one takes.
        MPI_Reduce_scatter_block(out, in, rank % 2 ? 1 : 2, MPI_INT, MPI_SUM, both);
        MPI_Comm_free(&both);
        MPI_Comm_free(&half);
    } else if (is(argc, argv, "fine")) {
        MPI_Comm ring, half, both;
        int periodic = 1, me, root;
        MPI_Alltoallw(out, counts, places, types, in, counts, places, types, MPI_COMM_WORLD);
        MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring);
        MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, ring);
        MPI_Neighbor_alltoallv(out, counts, places, MPI_INT, in, counts, places, MPI_INT, ring);
        MPI_Comm_free(&ring);
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 7, &both);
        MPI_Comm_rank(half, &me);
        root = rank % 2 ? 0 : me == 0 ? MPI_ROOT : MPI_PROC_NULL;
        MPI_Bcast(out, 1, MPI_INT, root, both);
        MPI_Reduce(out, in, 1, MPI_INT, MPI_SUM, root, both);
        MPI_Allreduce(out, in, 1, MPI_INT, MPI_SUM, both);
        MPI_Allgather(out, 1, MPI_INT, in, 1, MPI_INT, both);
        MPI_Reduce_scatter(out, in, counts, MPI_INT, MPI_SUM, both);
        MPI_Reduce_scatter_block(out, in, 1, MPI_INT, MPI_SUM, both);
        MPI_Comm_free(&both);
        MPI_Comm_free(&half);
    }
    MPI_Finalize();
    return 0;
}
