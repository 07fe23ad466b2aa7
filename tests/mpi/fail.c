/* Programs that go wrong. Arguments: how, and the rank that does it (default: the last).
 *
 * exit CODE      leaves with that code after finalizing
 * exit_early     _exit(3) without MPI_Finalize while the others wait in a receive
 * return_early   _exit(0) without MPI_Finalize while the others wait
 * before_init    exit(4) before MPI_Init, all ranks
 * before_HOW     one rank before MPI_Init: exit (code 3), leave (code 0), segv or kill
 * after_HOW      the same after MPI_Finalize
 * abort          MPI_Abort(MPI_COMM_WORLD, 5) while the others wait in a barrier
 * abort_all      MPI_Abort(MPI_COMM_WORLD, 255), all ranks
 * bad_rank       a fatal MPI error: a message to rank 99
 * segv           writes to address 0 while the others wait
 * kill           kill(getpid(), SIGKILL) while the others wait
 * close          closes all descriptors, also those of its MPI library, while the others wait
 * close_from     the same by closefrom(3)
 * c_abort        abort() while the others wait
 * fpe            divides by zero
 * truncate       a fatal MPI error: a message longer than its receive
 * both_receive   deadlock: two ranks wait for each other
 * wrong_tag      deadlock: a receive for a tag that nobody sends
 * missing        deadlock: one rank does not take part in a collective
 * both_send      deadlock: two long synchronous sends
 * probe          deadlock: MPI_Probe for a message that nobody sends, after one for a message of another tag
 * mprobe         the same with MPI_Mprobe
 * probe_any      the same with MPI_ANY_SOURCE
 * wait           deadlock: MPI_Waitall on receives that nobody serves
 * busy           one rank computes for ever without calling MPI, the others wait
 * test_forever   one rank calls MPI_Test for ever
 * poll           one rank waits at a socket for an hour, the others in a receive
 * sleep          every rank waits for ever in pause(): to be killed from outside
 * compute        all ranks exchange messages for ever: to be killed from outside
 */
#include "check.h"
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

static volatile int zero;

static void wait_for_ever(void)
{
    int got;
    MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 999, WORLD, MPI_STATUS_IGNORE);
}

static void end_by(const char *how)
{
    if (!strcmp(how, "exit"))
        exit(3);
    if (!strcmp(how, "leave"))
        exit(0);
    if (!strcmp(how, "segv"))
        raise(SIGSEGV);
    if (!strcmp(how, "kill"))
        raise(SIGKILL);
}

/* As the launcher says it, before MPI_Init. */
static int launched_rank(void)
{
    const char *names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    for (int i = 0; i < 2; i++)
        if (getenv(names[i]))
            return atoi(getenv(names[i]));
    return -1;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (!strncmp(how, "before_", 7) && argc > 2 && launched_rank() == atoi(argv[2]))
        end_by(how + 7);
    if (!strncmp(how, "after_", 6)) {
        MPI_Init(&argc, &argv);
        MPI_Finalize();
        if (launched_rank() == atoi(argv[2]))
            end_by(how + 6);
        return 0;
    }
    if (!strcmp(how, "before_init"))
        exit(4);
    begin(&argc, &argv);
    int culprit = argc > 2 && strcmp(how, "exit") ? atoi(argv[2]) : ranks - 1, value = 0;
    MPI_Barrier(WORLD);
    int speaker = strcmp(how, "exit") && culprit < ranks ? culprit : 0;
    if (rank == speaker && strcmp(how, "sleep")) { /* the moment from which the time to the end counts */
        fprintf(stderr, "fail: rank %d: %s\n", rank, how);
        fflush(stderr);
    }
    if (!strcmp(how, "abort_all"))
        MPI_Abort(WORLD, 255);
    if (!strcmp(how, "exit")) {
        MPI_Finalize();
        return rank == ranks - 1 ? atoi(argv[2]) : 0;
    } else if (!strcmp(how, "both_receive")) {
        if (rank < 2)
            MPI_Recv(&value, 1, MPI_INT, 1 - rank, 7, WORLD, MPI_STATUS_IGNORE);
    } else if (!strcmp(how, "wrong_tag")) {
        if (rank == 0)
            MPI_Send(&value, 1, MPI_INT, 1, 7, WORLD);
        if (rank == 1)
            MPI_Recv(&value, 1, MPI_INT, 0, 8, WORLD, MPI_STATUS_IGNORE);
    } else if (!strcmp(how, "missing")) {
        if (rank != culprit)
            MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, WORLD);
        else
            wait_for_ever();
    } else if (!strcmp(how, "both_send")) {
        if (rank < 2)
            MPI_Ssend(&value, 1, MPI_INT, 1 - rank, 7, WORLD);
    } else if (!strncmp(how, "probe", 5) || !strcmp(how, "mprobe")) {
        MPI_Message message;
        if (rank == 1)
            MPI_Send(&value, 1, MPI_INT, 0, 54, WORLD);
        if (rank == 0) {
            MPI_Probe(1, 54, WORLD, MPI_STATUS_IGNORE);
            if (strcmp(how, "mprobe"))
                MPI_Probe(strcmp(how, "probe") ? MPI_ANY_SOURCE : 1, 55, WORLD, MPI_STATUS_IGNORE);
            else
                MPI_Mprobe(1, 55, WORLD, &message, MPI_STATUS_IGNORE);
        }
    } else if (!strcmp(how, "wait")) {
        int in[2];
        MPI_Request requests[2];
        for (int i = 0; i < 2; i++)
            MPI_Irecv(&in[i], 1, MPI_INT, (rank + 1) % ranks, i, WORLD, &requests[i]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else if (!strcmp(how, "sleep")) {
        fprintf(stderr, "fail: rank %d: pause\n", rank);
        fflush(stderr);
        for (;;)
            pause();
    } else if (!strcmp(how, "compute")) {
        for (;;)
            MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_MAX, WORLD);
    } else if (!strcmp(how, "truncate")) {
        char room[100000];
        if (rank == 0)
            MPI_Send(room, 50000, MPI_BYTE, 1, 1, WORLD);
        else if (rank == 1)
            MPI_Recv(room, 10, MPI_BYTE, 0, 1, WORLD, MPI_STATUS_IGNORE);
        wait_for_ever();
    } else if (rank == culprit) {
        if (!strcmp(how, "exit_early"))
            _exit(3);
        if (!strcmp(how, "return_early"))
            _exit(0);
        if (!strcmp(how, "abort"))
            MPI_Abort(WORLD, 5);
        if (!strcmp(how, "bad_rank"))
            MPI_Send(&value, 1, MPI_INT, 99, 0, WORLD);
        if (!strcmp(how, "segv"))
            *(volatile int *)(intptr_t)zero = 1;
        if (!strcmp(how, "kill"))
            kill(getpid(), SIGKILL);
        if (!strcmp(how, "c_abort"))
            abort();
        if (!strcmp(how, "close")) {
            for (int file = 3; file < 1024; file++)
                close(file);
            MPI_Barrier(WORLD);
        }
        if (!strcmp(how, "close_from")) {
            closefrom(3);
            MPI_Barrier(WORLD);
        }
        if (!strcmp(how, "fpe"))
            zero = (rank + 7) / zero; /* gcc computes 1 / x without dividing */
        if (!strcmp(how, "busy"))
            for (;;)
                zero = 0;
        if (!strcmp(how, "poll")) {
            struct pollfd listener = {socket(AF_INET, SOCK_STREAM, 0), POLLIN, 0};
            listen(listener.fd, 1);
            poll(&listener, 1, 3600 * 1000);
        }
        if (!strcmp(how, "test_forever")) {
            MPI_Request request;
            int done = 0;
            MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 998, WORLD, &request);
            while (!done)
                MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        }
        fprintf(stderr, "fail: unknown way to fail: %s\n", how);
        return 99;
    } else {
        wait_for_ever();
    }
    MPI_Barrier(WORLD);
    MPI_Finalize();
    return 0;
}
