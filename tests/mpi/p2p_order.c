/* Messages of one rank to another one with one tag match in the order in which they were sent (MPI 4.1, section 3.5),
 * whatever their sizes: short ones behind long ones, and long ones behind short ones. */
#include "check.h"

enum { MESSAGES = 12, LONGEST = 150000 };

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    static const int lengths[MESSAGES] = {60000, 8, 8000, 1, 150000, 0, 30000, 16, 500, 4000, 2, 20000};
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    char *out = allocate(MESSAGES * (size_t)LONGEST), *in = allocate(MESSAGES * (size_t)LONGEST);
    for (int turn = 0; turn < 2 * MESSAGES; turn++) {
        MPI_Request requests[2 * MESSAGES];
        MPI_Status states[2 * MESSAGES];
        int late = turn % 2, first = turn / 2;
        for (int m = 0; m < MESSAGES; m++) {
            fill(out + m * (size_t)LONGEST, (size_t)lengths[(first + m) % MESSAGES], mix((uint64_t)rank, (uint64_t)m, 5));
            if (!late)
                MPI_Irecv(in + m * (size_t)LONGEST, LONGEST, MPI_BYTE, previous, 3, WORLD, &requests[m]);
        }
        MPI_Barrier(WORLD);
        for (int m = 0; m < MESSAGES; m++)
            MPI_Isend(out + m * (size_t)LONGEST, lengths[(first + m) % MESSAGES], MPI_BYTE, next, 3, WORLD, &requests[MESSAGES + m]);
        if (late) { /* some have come before their receives */
            MPI_Probe(previous, 3, WORLD, &states[0]);
            CHECK_STATUS(&states[0], previous, 3, MPI_BYTE, lengths[first]);
            for (int m = 0; m < MESSAGES; m++)
                MPI_Irecv(in + m * (size_t)LONGEST, LONGEST, MPI_BYTE, m % 2 ? previous : MPI_ANY_SOURCE, 3, WORLD, &requests[m]);
        }
        MPI_Waitall(2 * MESSAGES, requests, states);
        for (int m = 0; m < MESSAGES; m++) {
            int length = lengths[(first + m) % MESSAGES];
            CHECK_STATUS(&states[m], previous, 3, MPI_BYTE, length);
            CHECK_FILL(in + m * (size_t)LONGEST, (size_t)length, mix((uint64_t)previous, (uint64_t)m, 5));
        }
        MPI_Barrier(WORLD);
    }
    free(out);
    free(in);
    return finish("p2p_order");
}
