/* Sessions: sessions MODE, with an MPI that has them.
 *
 * inside: several in a program that MPI_Init has begun; alone: two at a time without MPI_Init; failed: the same, and
 * before them one that asks for what there is not; again: a second one when the first is over; spawn, accept, connect:
 * calls that bring in other processes. */
#include "check.h"

#if MPI_VERSION >= 4 || OMPI_MAJOR_VERSION >= 5
/* A sum over all ranks on a communicator that is made from the session. */
static void use(MPI_Session session, const char *name)
{
    MPI_Group group;
    MPI_Comm comm;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    checks_made++;
    if (sum != ranks * (ranks - 1) / 2) {
        fprintf(stderr, "FAIL: rank %d: the sum is %d\n", rank, sum);
        exit(1);
    }
    MPI_Group_free(&group);
    MPI_Comm_free(&comm);
}

static void sessions(void)
{
    MPI_Session first, second;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &first);
    use(first, "first");
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &second);
    use(second, "second");
    MPI_Session_finalize(&first);
    use(second, "third");
    MPI_Session_finalize(&second);
}

/* Which error there is, and whether there is one, is the library's own affair. */
static void failed(void)
{
    MPI_Info info;
    MPI_Session session;
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "THIS_IS_NONE");
    if (MPI_Session_init(info, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS)
        MPI_Session_finalize(&session);
    MPI_Info_free(&info);
}
#else
static void sessions(void)
{
    exit(77);
}

static void failed(void)
{
}
#endif

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "inside";
    if (strcmp(mode, "alone") == 0 || strcmp(mode, "failed") == 0 || strcmp(mode, "again") == 0) {
        if (strcmp(mode, "failed") == 0)
            failed();
        sessions();
        if (strcmp(mode, "again") == 0)
            sessions();
        if (rank == 0)
            printf("sessions: ranks=%d checks=%lld ok\n", ranks, checks_made);
        return 0;
    }
    begin(&argc, &argv);
    if (strcmp(mode, "inside") == 0) {
        for (int i = 0; i < 3; i++) {
            sessions();
            MPI_Barrier(WORLD);
        }
        return finish("sessions");
    }
    MPI_Comm other;
    char port[MPI_MAX_PORT_NAME] = "none";
    if (strcmp(mode, "spawn") == 0)
        MPI_Comm_spawn("/bin/true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, WORLD, &other, MPI_ERRCODES_IGNORE);
    else if (strcmp(mode, "accept") == 0)
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, WORLD, &other);
    else
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, WORLD, &other);
    return 0;
}
