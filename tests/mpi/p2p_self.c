/* Messages of a rank to itself, in MPI_COMM_WORLD and MPI_COMM_SELF. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm comms[2] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    char *out = allocate(65537), *in = allocate(65537);
    for (int c = 0; c < 2; c++) {
        int me = c ? 0 : rank;
        for (int i = 0; i < SIZES_SMALL; i++) {
            int length = sizes_small[i], flag;
            MPI_Request requests[2];
            MPI_Status status;
            fill(out, (size_t)length, mix((uint64_t)rank, (uint64_t)i, 4));
            memset(in, 0, (size_t)length);
            MPI_Irecv(in, length, MPI_BYTE, me, i, comms[c], &requests[0]);
            MPI_Isend(out, length, MPI_BYTE, me, i, comms[c], &requests[1]);
            MPI_Wait(&requests[0], &status);
            MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
            CHECK_STATUS(&status, me, i, MPI_BYTE, length);
            CHECK_FILL(in, (size_t)length, mix((uint64_t)rank, (uint64_t)i, 4));

            memset(in, 0, (size_t)length);
            MPI_Isend(out, length, MPI_BYTE, me, i, comms[c], &requests[1]);
            MPI_Probe(MPI_ANY_SOURCE, i, comms[c], &status);
            CHECK_STATUS(&status, me, i, MPI_BYTE, length);
            MPI_Recv(in, length, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[c], &status);
            CHECK_STATUS(&status, me, i, MPI_BYTE, length);
            MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
            CHECK_FILL(in, (size_t)length, mix((uint64_t)rank, (uint64_t)i, 4));

            memset(in, 0, (size_t)length);
            MPI_Sendrecv(out, length, MPI_BYTE, me, 1, in, length, MPI_BYTE, me, 1, comms[c], &status);
            CHECK_FILL(in, (size_t)length, mix((uint64_t)rank, (uint64_t)i, 4));
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comms[c], &flag, MPI_STATUS_IGNORE);
            CHECK(!flag);
        }

        /* The last of many messages is found behind the others. */
        enum { MANY = 100 };
        static int values[MANY];
        MPI_Request many[MANY];
        MPI_Status status;
        for (int i = 0; i < MANY; i++) {
            values[i] = i;
            MPI_Isend(&values[i], 1, MPI_INT, me, i, comms[c], &many[i]);
        }
        MPI_Probe(MPI_ANY_SOURCE, MANY - 1, comms[c], &status);
        CHECK_STATUS(&status, me, MANY - 1, MPI_INT, 1);
        for (int i = 0; i < MANY; i++) {
            int value = -1;
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, i, comms[c], MPI_STATUS_IGNORE);
            CHECK_EQ(value, i);
        }
        MPI_Waitall(MANY, many, MPI_STATUSES_IGNORE);
    }
    free(out);
    free(in);
    return finish("p2p_self");
}
