/* Messages of 64 MiB: longer than any fragment or window of a library. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    size_t bytes = (size_t)64 << 20;
    if (rank < 2 && ranks > 1) {
        char *data = allocate(bytes);
        int peer = 1 - rank;
        MPI_Status status;
        if (rank == 0) {
            fill(data, bytes, 1);
            MPI_Send(data, (int)bytes, MPI_BYTE, peer, 0, WORLD);
            MPI_Recv(data, (int)(bytes / 8), MPI_DOUBLE, peer, 1, WORLD, &status);
            CHECK_STATUS(&status, peer, 1, MPI_DOUBLE, (int)(bytes / 8));
            CHECK_FILL(data, bytes, 2);
        } else {
            MPI_Recv(data, (int)bytes, MPI_BYTE, peer, 0, WORLD, &status);
            CHECK_STATUS(&status, peer, 0, MPI_BYTE, (int)bytes);
            CHECK_FILL(data, bytes, 1);
            fill(data, bytes, 2);
            MPI_Send(data, (int)(bytes / 8), MPI_DOUBLE, peer, 1, WORLD);
        }
        free(data);
    }
    return finish("p2p_large");
}
