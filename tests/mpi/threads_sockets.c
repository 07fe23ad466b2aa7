/* Threads of one rank that wait for each other at sockets, pipes and event counters: a server that answers, and the
 * main thread, which asks between MPI calls. Nobody's clock is behind that of the one that has written, and nobody
 * waits longer than that takes. In the end the server of rank 0 serves all ranks, while its main thread is in MPI.
 *
 * Arguments: funneled, or multiple: then the server calls MPI too; how many seconds an answer may take, with what is
 * computed for it. */
#include "check.h"
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 4, MOST = 64, TAG = 7 };
enum way { READ, POLL, SELECT, EPOLL, WAYS };

static int multiple;
static double patience = 1e-3;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Waits until there is something to read: not in `read` itself, but for one way. */
static void wait_for(int file, enum way way)
{
    struct pollfd polled = {.fd = file, .events = POLLIN};
    struct epoll_event event = {.events = EPOLLIN};
    fd_set set;
    int epoll;
    switch (way) {
    case POLL:
        CHECK_EQ(poll(&polled, 1, -1), 1);
        break;
    case SELECT:
        FD_ZERO(&set);
        FD_SET(file, &set);
        CHECK_EQ(select(file + 1, &set, NULL, NULL, NULL), 1);
        break;
    case EPOLL:
        epoll = epoll_create1(0);
        CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, file, &event), 0);
        CHECK_EQ(epoll_wait(epoll, &event, 1, -1), 1);
        close(epoll);
        break;
    default:
        break;
    }
}

/* What goes to and fro: what is asked and when, what is answered and when. */
struct note {
    uint64_t number;
    double time;
};

struct ends {
    int listener, in, out;
    enum way way;
};

/* Answers until the other end is closed. */
static void *serve(void *argument)
{
    struct ends *ends = argument;
    if (ends->listener >= 0) {
        wait_for(ends->listener, ends->way);
        ends->in = ends->out = accept(ends->listener, NULL, NULL);
        CHECK(ends->in >= 0);
    }
    for (struct note note;;) {
        wait_for(ends->in, ends->way);
        ssize_t length = read(ends->in, &note, sizeof note);
        if (length == 0)
            break;
        CHECK_EQ(length, sizeof note);
        CHECK(now() >= note.time);
        CHECK(now() < note.time + patience);
        note.number = mix(note.number, 1, 2);
        note.time = now();
        CHECK_EQ(write(ends->out, &note, sizeof note), sizeof note);
    }
    close(ends->in);
    if (ends->out != ends->in)
        close(ends->out);
    return NULL;
}

static void ask(int in, int out, uint64_t number)
{
    struct note note = {number, now()}, answer;
    CHECK_EQ(write(out, &note, sizeof note), sizeof note);
    CHECK_EQ(read(in, &answer, sizeof answer), sizeof answer);
    CHECK(answer.number == mix(number, 1, 2));
    CHECK(answer.time >= note.time);
    CHECK(now() >= answer.time);
    CHECK(now() < note.time + patience);
}

static int listening(struct sockaddr_in *name)
{
    socklen_t length = sizeof *name;
    int file = socket(AF_INET, SOCK_STREAM, 0);
    *name = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(bind(file, (struct sockaddr *)name, length) == 0 && listen(file, MOST) == 0);
    CHECK_EQ(getsockname(file, (struct sockaddr *)name, &length), 0);
    return file;
}

static int connected(const struct sockaddr_in *name)
{
    int file = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(connect(file, (const struct sockaddr *)name, sizeof *name), 0);
    return file;
}

/* The main thread talks to a server of its own rank, by `what`. */
static void talk(const char *what, enum way way)
{
    struct ends theirs = {.listener = -1, .way = way};
    struct sockaddr_in name;
    int in, out, files[2];
    pthread_t server;
    if (strcmp(what, "inet") == 0) {
        theirs.listener = listening(&name);
        pthread_create(&server, NULL, serve, &theirs);
        in = out = connected(&name);
    } else if (strcmp(what, "pair") == 0) {
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, files), 0);
        in = out = files[0];
        theirs.in = theirs.out = files[1];
        pthread_create(&server, NULL, serve, &theirs);
    } else {
        CHECK_EQ(pipe(files), 0);
        in = files[0];
        theirs.out = files[1];
        CHECK_EQ(pipe(files), 0);
        theirs.in = files[0];
        out = files[1];
        pthread_create(&server, NULL, serve, &theirs);
    }
    for (int turn = 0; turn < TURNS; turn++) {
        ask(in, out, (uint64_t)turn);
        /* In MPI, while the server waits. */
        MPI_Barrier(WORLD);
        if (rank == turn % ranks)
            usleep(200);
    }
    close(out);
    pthread_join(server, NULL);
    if (in != out)
        close(in);
    if (theirs.listener >= 0)
        close(theirs.listener);
}

/* An event counter each way. */
static int counters[2];

static void *count(void *unused)
{
    for (uint64_t turn = 0, value; turn < TURNS; turn++) {
        CHECK_EQ(read(counters[0], &value, sizeof value), sizeof value);
        CHECK_EQ(value, turn + 1);
        CHECK_EQ(eventfd_write(counters[1], 2 * value), 0);
    }
    return unused;
}

static void counting(void)
{
    pthread_t server;
    counters[0] = eventfd(0, 0);
    counters[1] = eventfd(0, 0);
    pthread_create(&server, NULL, count, NULL);
    for (uint64_t turn = 0; turn < TURNS; turn++) {
        uint64_t value = turn + 1;
        eventfd_t answer;
        usleep(100);
        CHECK_EQ(write(counters[0], &value, sizeof value), sizeof value);
        CHECK_EQ(eventfd_read(counters[1], &answer), 0);
        CHECK_EQ(answer, 2 * value);
        MPI_Barrier(WORLD);
    }
    pthread_join(server, NULL);
    close(counters[0]);
    close(counters[1]);
}

/* Waits of 1 ms each until something comes after 10.5: time limits are simulated also while the main thread sleeps, or is in MPI. */
static void *limited(void *argument)
{
    struct pollfd polled = {.fd = *(int *)argument, .events = POLLIN};
    int waits = 0;
    double since = now();
    while (poll(&polled, 1, 1) == 0)
        waits++;
    CHECK(waits >= 9 && waits <= 11);
    CHECK(now() > since + 10e-3 && now() < since + 12e-3);
    return NULL;
}

static void limits(void)
{
    int files[2];
    char byte = 'x';
    pthread_t waiter;
    CHECK_EQ(pipe(files), 0);
    MPI_Barrier(WORLD);
    pthread_create(&waiter, NULL, limited, &files[0]);
    if (rank == 0)
        usleep(10500);
    MPI_Barrier(WORLD);
    CHECK_EQ(write(files[1], &byte, 1), 1);
    pthread_join(waiter, NULL);
    close(files[0]);
    close(files[1]);
}

/* Rank 0's server: answers all that connect, by poll, until all have gone. */
static void *serve_all(void *argument)
{
    struct pollfd files[MOST + 1] = {{.fd = *(int *)argument, .events = POLLIN}};
    int from[MOST + 1] = {0}, count = 1, gone = 0;
    while (gone < ranks) {
        CHECK(poll(files, (nfds_t)count, -1) > 0);
        if (files[0].revents) {
            files[count] = (struct pollfd){.fd = accept(files[0].fd, NULL, NULL), .events = POLLIN};
            CHECK(files[count].fd >= 0);
            count++;
        }
        for (int at = 1; at < count; at++) {
            struct note note;
            if (!files[at].revents)
                continue;
            ssize_t length = read(files[at].fd, &note, sizeof note);
            files[at].revents = 0;
            if (length == 0) {
                close(files[at].fd);
                files[at].fd = -1;
                gone++;
                continue;
            }
            CHECK_EQ(length, sizeof note);
            from[at] = (int)(note.number / 1000);
            if (multiple) {
                int number = (int)note.number;
                MPI_Send(&number, 1, MPI_INT, from[at], TAG, WORLD);
            }
            note = (struct note){mix(note.number, 1, 2), now()};
            CHECK_EQ(write(files[at].fd, &note, sizeof note), sizeof note);
        }
    }
    return NULL;
}

/* All ranks ask rank 0, one after another: the others wait in MPI meanwhile, rank 0 too. */
static void serves_all(void)
{
    struct sockaddr_in name;
    pthread_t server;
    int listener = -1;
    if (rank == 0) {
        listener = listening(&name);
        pthread_create(&server, NULL, serve_all, &listener);
    }
    MPI_Bcast(&name, sizeof name, MPI_BYTE, 0, WORLD);
    int file = connected(&name);
    for (int turn = 0; turn < TURNS; turn++) {
        for (int who = ranks - 1; who >= 0; who--) {
            uint64_t number = (uint64_t)(1000 * rank + turn);
            int answer = 0;
            if (rank == who) {
                ask(file, file, number);
                if (multiple) {
                    MPI_Recv(&answer, 1, MPI_INT, 0, TAG, WORLD, MPI_STATUS_IGNORE);
                    CHECK_EQ(answer, number);
                }
            }
            MPI_Bcast(&answer, 1, MPI_INT, who, WORLD);
        }
    }
    close(file);
    if (rank == 0) {
        pthread_join(server, NULL);
        close(listener);
    }
}

int main(int argc, char **argv)
{
    int given;
    multiple = argc > 1 && strcmp(argv[1], "multiple") == 0;
    patience = argc > 2 ? atof(argv[2]) : patience;
    MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &given);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    CHECK(given >= (multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED) && ranks <= MOST);
    for (enum way way = READ; way < WAYS; way++) {
        talk("inet", way);
        talk("pair", way);
        talk("pipe", way);
    }
    counting();
    limits();
    serves_all();
    /* How often the server's poll finds something is no number for all MPIs. */
    checks_made = 1;
    return finish("threads_sockets");
}
