/* MPI_Sendrecv, MPI_Sendrecv_replace, MPI_PROC_NULL. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Status status;
    static const int lengths[] = {0, 1, 408, 409, 8192, 65537, 300000};
    char *out = allocate(300000), *in = allocate(300000);
    for (int distance = 1; distance < ranks && distance < 6; distance++)
        for (unsigned l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
            int to = (rank + distance) % ranks, from = (rank + ranks - distance) % ranks, length = lengths[l];
            fill(out, (size_t)length, mix((uint64_t)rank, l, (uint64_t)distance));
            MPI_Sendrecv(out, length, MPI_BYTE, to, 3, in, length, MPI_BYTE, from, MPI_ANY_TAG, WORLD, &status);
            CHECK_STATUS(&status, from, 3, MPI_BYTE, length);
            CHECK_FILL(in, (size_t)length, mix((uint64_t)from, l, (uint64_t)distance));
            MPI_Sendrecv_replace(out, length, MPI_BYTE, to, 4, from, 4, WORLD, &status);
            CHECK_STATUS(&status, from, 4, MPI_BYTE, length);
            CHECK_FILL(out, (size_t)length, mix((uint64_t)from, l, (uint64_t)distance));
        }

    /* A line: the ends talk to MPI_PROC_NULL. */
    int left = rank ? rank - 1 : MPI_PROC_NULL, right = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    int value = rank, got = -1;
    MPI_Sendrecv(&value, 1, MPI_INT, right, 1, &got, 1, MPI_INT, left, 1, WORLD, &status);
    if (left == MPI_PROC_NULL) {
        CHECK_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_INT, 0);
        CHECK_EQ(got, -1);
    } else {
        CHECK_EQ(got, rank - 1);
    }
    MPI_Request request;
    MPI_Isend(&value, 1, MPI_INT, MPI_PROC_NULL, 1, WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, WORLD, &request);
    MPI_Wait(&request, &status);
    CHECK_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_INT, 0);
    CHECK_EQ(value, rank);
    free(out);
    free(in);
    return finish("p2p_sendrecv");
}
