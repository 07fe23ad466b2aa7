/* MPI_Probe, Iprobe, Mprobe, Improbe, Mrecv, Imrecv; with exact and wildcard source and tag. */
#include "check.h"

static const int lengths[] = {0, 5, 64, 500, 5000, 50000};
#define LENGTHS ((int)(sizeof lengths / sizeof lengths[0]))

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    char *out = allocate(50000), *in = allocate(50000);
    MPI_Status status, received;
    MPI_Message message;
    MPI_Request request, second;
    int flag;

    /* Nothing was sent yet: nothing may be found. */
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, WORLD, &flag, &status);
    CHECK(!flag);
    MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, WORLD, &flag, &message, &status);
    CHECK(!flag);
    MPI_Barrier(WORLD);

    for (int kind = 0; kind < 6; kind++)
        for (int l = 0; l < LENGTHS; l++) {
            int length = lengths[l], tag = kind * LENGTHS + l;
            int source = l % 2 ? MPI_ANY_SOURCE : previous, wanted = l % 3 ? MPI_ANY_TAG : tag;
            memset(in, 0, (size_t)length);
            fill(out, (size_t)length, mix((uint64_t)rank, (uint64_t)tag, 1));
            MPI_Isend(out, length, MPI_BYTE, next, tag, WORLD, &request);
            switch (kind) {
            case 0: /* probe, then receive */
                MPI_Probe(source, wanted, WORLD, &status);
                CHECK_STATUS(&status, previous, tag, MPI_BYTE, length);
                MPI_Recv(in, length, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, WORLD, &received);
                break;
            case 1: /* probing twice finds the same message */
                flag = 0;
                while (!flag)
                    MPI_Iprobe(source, wanted, WORLD, &flag, &status);
                CHECK_STATUS(&status, previous, tag, MPI_BYTE, length);
                MPI_Iprobe(source, wanted, WORLD, &flag, &status);
                CHECK(flag);
                CHECK_STATUS(&status, previous, tag, MPI_BYTE, length);
                MPI_Recv(in, length, MPI_BYTE, previous, tag, WORLD, &received);
                break;
            case 2: /* matched probe: the message belongs to its handle */
                MPI_Mprobe(source, wanted, WORLD, &message, &status);
                CHECK(message != MPI_MESSAGE_NULL);
                CHECK_STATUS(&status, previous, tag, MPI_BYTE, length);
                MPI_Iprobe(previous, tag, WORLD, &flag, MPI_STATUS_IGNORE);
                CHECK(!flag);
                MPI_Mrecv(in, length, MPI_BYTE, &message, &received);
                CHECK(message == MPI_MESSAGE_NULL);
                break;
            case 3: /* non-blocking matched probe and receive */
                flag = 0;
                while (!flag)
                    MPI_Improbe(source, wanted, WORLD, &flag, &message, &status);
                CHECK_STATUS(&status, previous, tag, MPI_BYTE, length);
                MPI_Imrecv(in, length, MPI_BYTE, &message, &second);
                MPI_Wait(&second, &received);
                break;
            case 4: /* a posted receive takes the message: nothing is left to probe */
                MPI_Recv(in, length, MPI_BYTE, source, wanted, WORLD, &received);
                MPI_Iprobe(MPI_ANY_SOURCE, tag, WORLD, &flag, MPI_STATUS_IGNORE);
                CHECK(!flag);
                break;
            case 5: /* a probe for another tag does not find it */
                MPI_Probe(previous, tag, WORLD, &status);
                MPI_Iprobe(previous, tag + 1000, WORLD, &flag, MPI_STATUS_IGNORE);
                CHECK(!flag);
                MPI_Improbe(previous, tag + 1000, WORLD, &flag, &message, MPI_STATUS_IGNORE);
                CHECK(!flag);
                MPI_Recv(in, 50000, MPI_BYTE, MPI_ANY_SOURCE, tag, WORLD, &received);
                break;
            }
            CHECK_STATUS(&received, previous, tag, MPI_BYTE, length);
            CHECK_FILL(in, (size_t)length, mix((uint64_t)previous, (uint64_t)tag, 1));
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Barrier(WORLD); /* keeps wildcards of one round apart from messages of the next */
        }

    /* Two messages of one envelope: the matched probe takes the first, a receive then gets the second. */
    MPI_Request both[2];
    for (int i = 0; i < 2; i++) {
        fill(out + 100 * i, 100, mix((uint64_t)rank, 77, (uint64_t)i));
        MPI_Isend(out + 100 * i, 100, MPI_BYTE, next, 77, WORLD, &both[i]);
    }
    MPI_Mprobe(previous, 77, WORLD, &message, &status);
    MPI_Recv(in + 100, 100, MPI_BYTE, previous, 77, WORLD, MPI_STATUS_IGNORE);
    MPI_Mrecv(in, 100, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    CHECK_FILL(in, 100, mix((uint64_t)previous, 77, 0));
    CHECK_FILL(in + 100, 100, mix((uint64_t)previous, 77, 1));

    /* MPI_PROC_NULL. */
    MPI_Mprobe(MPI_PROC_NULL, 1, WORLD, &message, &status);
    CHECK(message == MPI_MESSAGE_NO_PROC);
    CHECK_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
    MPI_Mrecv(in, 1, MPI_BYTE, &message, &status);
    CHECK_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_BYTE, 0);
    MPI_Iprobe(MPI_PROC_NULL, 1, WORLD, &flag, &status);
    CHECK(flag);

    free(out);
    free(in);
    return finish("p2p_probe");
}
