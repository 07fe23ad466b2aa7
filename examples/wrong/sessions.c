// A program without MPI_COMM_WORLD: communicators of a session, some of them used wrongly, by name.
#include <mpi.h>
#include <string.h>

static int is(int argc, char **argv, const char *name) { return argc > 1 && !strcmp(argv[1], name); }

static MPI_Comm everybody(MPI_Session session, const char *tag) {
    MPI_Group group;
    MPI_Comm comm;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Group_free(&group);
    return comm;
}

int main(int argc, char **argv) {
    MPI_Session first, second;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &first);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &second);
    MPI_Comm comm = everybody(first, "narrows.first"), other = everybody(second, "narrows.second");
    int rank, size, one = 1, sum = 0, data[2] = {0};
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, is(argc, argv, "operations") && rank == 1 ? MPI_MAX : MPI_SUM, comm);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Request request;
    MPI_Irecv(data, is(argc, argv, "short") ? 1 : 2, MPI_INT, left, 3, other, &request);
    MPI_Send((int[]){rank, rank}, 2, MPI_INT, right, 3, other);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&first);
    // The second one goes on: nothing is over yet.
    MPI_Barrier(other);
    if (!is(argc, argv, "leak"))
        MPI_Comm_free(&other);
    MPI_Session_finalize(&second);
    return 0;
}
