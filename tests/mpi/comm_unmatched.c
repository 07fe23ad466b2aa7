// A communicator is freed with messages that nobody has received. MPICH says so, and they do not reach the next
// communicator, which has the same number there. Other MPI libraries promise nothing of the kind.
#include "check.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int round = 0; round < 10; round++) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        // Everybody's last message is for this communicator, those of earlier rounds were for the one before.
        for (int peer = 0; peer < ranks; peer++) {
            if (peer == rank) continue;
            int value = 1000 * round + rank, found = -1;
            MPI_Sendrecv(&value, 1, MPI_INT, peer, 1, &found, 1, MPI_INT, peer, 1, comm, MPI_STATUS_IGNORE);
            CHECK_EQ(found, 1000 * round + peer);
            for (int more = 0; more < round % 3; more++) MPI_Send(&value, 1, MPI_INT, peer, 1 + more % 2, comm);
        }
        // With two ranks all have come behind it.
        MPI_Barrier(comm);
        int code = MPI_Comm_free(&comm);
        CHECK_EQ(code != MPI_SUCCESS, round % 3 != 0);
    }
    return finish("comm_unmatched");
}
