/* Every send mode (standard, buffered, synchronous, ready), blocking, non-blocking and persistent, around a ring. */
#include "check.h"

enum { STANDARD, BUFFERED, SYNCHRONOUS, READY, MODES };
enum { BLOCKING, NONBLOCKING, PERSISTENT, KINDS };

static const int lengths[] = {0, 1, 64, 409, 4096, 9000, 70000};
#define LENGTHS ((int)(sizeof lengths / sizeof lengths[0]))

static void send_one(int mode, int kind, const char *data, int length, int peer, int tag)
{
    MPI_Request request;
    if (kind == BLOCKING) {
        switch (mode) {
        case STANDARD: MPI_Send(data, length, MPI_BYTE, peer, tag, WORLD); break;
        case BUFFERED: MPI_Bsend(data, length, MPI_BYTE, peer, tag, WORLD); break;
        case SYNCHRONOUS: MPI_Ssend(data, length, MPI_BYTE, peer, tag, WORLD); break;
        case READY: MPI_Rsend(data, length, MPI_BYTE, peer, tag, WORLD); break;
        }
        return;
    }
    if (kind == NONBLOCKING) {
        switch (mode) {
        case STANDARD: MPI_Isend(data, length, MPI_BYTE, peer, tag, WORLD, &request); break;
        case BUFFERED: MPI_Ibsend(data, length, MPI_BYTE, peer, tag, WORLD, &request); break;
        case SYNCHRONOUS: MPI_Issend(data, length, MPI_BYTE, peer, tag, WORLD, &request); break;
        case READY: MPI_Irsend(data, length, MPI_BYTE, peer, tag, WORLD, &request); break;
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(request == MPI_REQUEST_NULL);
        return;
    }
    switch (mode) {
    case STANDARD: MPI_Send_init(data, length, MPI_BYTE, peer, tag, WORLD, &request); break;
    case BUFFERED: MPI_Bsend_init(data, length, MPI_BYTE, peer, tag, WORLD, &request); break;
    case SYNCHRONOUS: MPI_Ssend_init(data, length, MPI_BYTE, peer, tag, WORLD, &request); break;
    case READY: MPI_Rsend_init(data, length, MPI_BYTE, peer, tag, WORLD, &request); break;
    }
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(request != MPI_REQUEST_NULL);
    MPI_Request_free(&request);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    char *out = allocate(70000), *in = allocate(70000);
    int attached = 70000 + 4 * MPI_BSEND_OVERHEAD;
    void *space = allocate((size_t)attached);
    MPI_Buffer_attach(space, attached);

    for (int mode = 0; mode < MODES; mode++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int l = 0; l < LENGTHS; l++) {
                int length = lengths[l], tag = 100 + (mode * KINDS + kind) * LENGTHS + l;
                MPI_Request receive;
                MPI_Status status;
                fill(out, (size_t)length, mix((uint64_t)rank, (uint64_t)tag, 0));
                memset(in, 0, (size_t)length);
                if (kind == PERSISTENT) {
                    MPI_Recv_init(in, length, MPI_BYTE, previous, tag, WORLD, &receive);
                    MPI_Start(&receive);
                } else {
                    MPI_Irecv(in, length, MPI_BYTE, previous, tag, WORLD, &receive);
                }
                /* A ready send is only legal when the receive is posted: the receiver says so. */
                char token = 0, answer;
                if (mode == READY)
                    MPI_Sendrecv(&token, 1, MPI_CHAR, previous, 50, &answer, 1, MPI_CHAR, next, 50, WORLD, MPI_STATUS_IGNORE);
                send_one(mode, kind, out, length, next, tag);
                MPI_Wait(&receive, &status);
                CHECK_STATUS(&status, previous, tag, MPI_BYTE, length);
                CHECK_FILL(in, (size_t)length, mix((uint64_t)previous, (uint64_t)tag, 0));
                if (kind == PERSISTENT)
                    MPI_Request_free(&receive);
                /* The attached buffer must be empty again before the next buffered send. */
                if (mode == BUFFERED) {
                    void *detached;
                    int detached_bytes;
                    MPI_Buffer_detach(&detached, &detached_bytes);
                    CHECK_EQ(detached_bytes, attached);
                    CHECK(detached == space);
                    MPI_Buffer_attach(space, attached);
                }
            }

    /* A persistent pair, started again and again with new data. */
    MPI_Request pair[2];
    MPI_Recv_init(in, 1000, MPI_BYTE, previous, 7, WORLD, &pair[0]);
    MPI_Send_init(out, 1000, MPI_BYTE, next, 7, WORLD, &pair[1]);
    for (int turn = 0; turn < 20; turn++) {
        fill(out, 1000, mix((uint64_t)rank, 7, (uint64_t)turn));
        MPI_Startall(2, pair);
        MPI_Waitall(2, pair, MPI_STATUSES_IGNORE);
        CHECK_FILL(in, 1000, mix((uint64_t)previous, 7, (uint64_t)turn));
    }
    MPI_Request_free(&pair[0]);
    MPI_Request_free(&pair[1]);

    void *detached;
    int detached_bytes;
    MPI_Buffer_detach(&detached, &detached_bytes);
    free(space);
    free(out);
    free(in);
    return finish("p2p_modes");
}
