/* MPI-4 persistent collectives, started several times with new data (Open MPI from 5.0, MPICH from 4.0). */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
#if MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
    enum { N = 200 };
    int *out = allocate((size_t)ranks * N * sizeof *out), *in = allocate((size_t)ranks * N * sizeof *in), sums[N], shared[N];
    int mine[N];
    MPI_Request requests[4];
    MPI_Allreduce_init(mine, sums, N, MPI_INT, MPI_SUM, WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Bcast_init(shared, N, MPI_INT, ranks / 2, WORLD, MPI_INFO_NULL, &requests[1]);
    MPI_Alltoall_init(out, N, MPI_INT, in, N, MPI_INT, WORLD, MPI_INFO_NULL, &requests[2]);
    MPI_Barrier_init(WORLD, MPI_INFO_NULL, &requests[3]);
    for (int turn = 0; turn < 6; turn++) {
        for (int i = 0; i < N; i++) {
            mine[i] = rank * turn + i;
            shared[i] = rank == ranks / 2 ? turn * 7 + i : -1;
        }
        for (int i = 0; i < ranks * N; i++)
            out[i] = rank * 10000 + i + turn;
        if (turn % 2) {
            MPI_Startall(4, requests);
            MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        } else {
            for (int k = 0; k < 4; k++) {
                MPI_Start(&requests[k]);
                MPI_Wait(&requests[k], MPI_STATUS_IGNORE);
            }
        }
        int wrong = 0;
        for (int i = 0; i < N; i++)
            wrong += sums[i] != turn * ranks * (ranks - 1) / 2 + ranks * i || shared[i] != turn * 7 + i;
        for (int r = 0; r < ranks; r++)
            for (int i = 0; i < N; i++)
                wrong += in[r * N + i] != r * 10000 + rank * N + i + turn;
        CHECK_EQ(wrong, 0);
    }
    for (int k = 0; k < 4; k++)
        MPI_Request_free(&requests[k]);
    free(out);
    free(in);
#else
    checks_made += 6;
#endif
    return finish("coll_persistent");
}
