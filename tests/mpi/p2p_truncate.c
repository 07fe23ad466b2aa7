/* A message that is longer than its receive gives MPI_ERR_TRUNCATE to the receiver, and nothing else breaks.
 *
 * With the argument "strict" nothing may be written behind the receive's buffer. Open MPI's own shared-memory path does
 * that above its eager limit (4.1.4 and 5.0.11), so a plain run is not asked. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int strict = argc > 1 && !strcmp(argv[1], "strict");
    MPI_Comm_set_errhandler(WORLD, MPI_ERRORS_RETURN);
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    static const int lengths[] = {8, 100, 5000, 20000, 100000};
    char *out = allocate(100000), *in = allocate(100000);
    for (int late = 0; late < 2; late++)
        for (unsigned l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
            int length = lengths[l], room = length / 2, tag = (int)l, code, class;
            MPI_Request send, receive;
            MPI_Status status;
            memset(in, 0x33, 100000);
            fill(out, (size_t)length, mix((uint64_t)rank, l, 9));
            if (late) { /* the message waits for its receive */
                MPI_Isend(out, length, MPI_BYTE, next, tag, WORLD, &send);
                MPI_Probe(previous, tag, WORLD, &status);
                CHECK_STATUS(&status, previous, tag, MPI_BYTE, length);
                code = MPI_Recv(in, room, MPI_BYTE, previous, tag, WORLD, &status);
            } else {
                MPI_Irecv(in, room, MPI_BYTE, previous, tag, WORLD, &receive);
                MPI_Barrier(WORLD);
                MPI_Isend(out, length, MPI_BYTE, next, tag, WORLD, &send);
                code = MPI_Wait(&receive, &status);
            }
            CHECK(code != MPI_SUCCESS);
            MPI_Error_class(code, &class);
            CHECK_EQ(class, MPI_ERR_TRUNCATE);
            CHECK(!strict || in[room] == 0x33);
            MPI_Wait(&send, MPI_STATUS_IGNORE);
            MPI_Barrier(WORLD);
            /* The next message arrives whole. */
            MPI_Sendrecv(out, length, MPI_BYTE, next, tag, in, 100000, MPI_BYTE, previous, tag, WORLD, &status);
            CHECK_STATUS(&status, previous, tag, MPI_BYTE, length);
            CHECK_FILL(in, (size_t)length, mix((uint64_t)previous, l, 9));
        }
    free(out);
    free(in);
    return finish("p2p_truncate");
}
