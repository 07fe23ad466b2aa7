/* A synchronous send must not complete before the receive is posted; a standard send of a few bytes may. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int peer = rank ^ 1;
    if (peer < ranks) {
        for (int turn = 0; turn < 10; turn++) {
            int length = turn % 2 ? 20000 : 4;
            char *data = allocate(20000);
            if (rank % 2 == 0) {
                MPI_Request request;
                int done = 0;
                fill(data, (size_t)length, (uint64_t)turn);
                MPI_Issend(data, length, MPI_BYTE, peer, 1, WORLD, &request);
                for (int i = 0; i < 20; i++) {
                    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
                    if (done)
                        fail_at(__FILE__, __LINE__, "MPI_Issend", "complete before the receive was posted");
                }
                CHECK(!done);
                MPI_Send(NULL, 0, MPI_BYTE, peer, 2, WORLD); /* now the peer may receive */
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            } else {
                MPI_Recv(NULL, 0, MPI_BYTE, peer, 2, WORLD, MPI_STATUS_IGNORE);
                MPI_Recv(data, length, MPI_BYTE, peer, 1, WORLD, MPI_STATUS_IGNORE);
                CHECK_FILL(data, (size_t)length, (uint64_t)turn);
            }
            free(data);
        }
    }
    return finish("p2p_synchronous");
}
