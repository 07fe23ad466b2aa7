/* Ranks that wait for each other at a socket: rank 0 reads what rank 1 writes, which waits in MPI_Recv for the last rank first, which
 * computes, sleeps and talks to the others meanwhile. The port comes to rank 1 by MPI. Rank 0's clock is not behind
 * rank 1's write. */
#include "check.h"
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { TURNS = 5 };

/* Memory that is allocated inside write: a handler of signals may call that. */
extern void *__libc_malloc(size_t size);
static __thread int in_write, allocated;

void *malloc(size_t size)
{
    allocated += in_write;
    return __libc_malloc(size);
}

static ssize_t put(int file, const void *bytes, size_t length)
{
    in_write = 1;
    ssize_t written = write(file, bytes, length);
    in_write = 0;
    return written;
}

static int connected(void)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof name;
    int file = socket(AF_INET, SOCK_STREAM, 0);
    if (rank == 0) {
        CHECK(bind(file, (struct sockaddr *)&name, length) == 0 && listen(file, 1) == 0);
        CHECK(getsockname(file, (struct sockaddr *)&name, &length) == 0);
        int port = name.sin_port;
        MPI_Send(&port, 1, MPI_INT, 1, 0, WORLD);
        int peer = accept(file, NULL, NULL);
        CHECK(peer >= 0);
        close(file);
        return peer;
    }
    int port;
    MPI_Recv(&port, 1, MPI_INT, 0, 0, WORLD, MPI_STATUS_IGNORE);
    name.sin_port = (in_port_t)port;
    CHECK(connect(file, (struct sockaddr *)&name, length) == 0);
    return file;
}

/* More parts, and more bytes, than one call of the kernel takes: some are empty. */
static void many_parts(int file)
{
    enum { PARTS = 40, LENGTH = 50000, ALL = PARTS / 2 * LENGTH };
    unsigned char *bytes = malloc(ALL), *expected = malloc(ALL);
    fill((char *)expected, ALL, 5);
    if (rank == 1) {
        struct iovec parts[PARTS];
        for (int part = 0; part < PARTS; part++)
            parts[part] = (struct iovec){expected + part / 2 * LENGTH, part % 2 ? 0 : LENGTH};
        in_write = 1;
        ssize_t written = writev(file, parts, PARTS);
        in_write = 0;
        CHECK(written == ALL && allocated == 0);
    } else {
        CHECK(recv(file, bytes, ALL, MSG_WAITALL) == ALL && memcmp(bytes, expected, ALL) == 0);
    }
    free(bytes);
    free(expected);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int last = ranks - 1, file = rank < 2 ? connected() : -1, go = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        double sent = 0;
        if (rank == 0) {
            CHECK(recv(file, &sent, sizeof sent, MSG_WAITALL) == sizeof sent);
            CHECK(MPI_Wtime() >= sent);
            CHECK(MPI_Wtime() < sent + 10);
            CHECK(write(file, "x", 1) == 1);
        } else if (rank == 1) {
            if (last > 1)
                MPI_Recv(&go, 1, MPI_INT, last, 1, WORLD, MPI_STATUS_IGNORE);
            else
                usleep(300);
            sent = MPI_Wtime();
            CHECK(put(file, &sent, sizeof sent) == sizeof sent && allocated == 0);
            char answer;
            CHECK(read(file, &answer, 1) == 1 && answer == 'x');
        } else if (rank == last) {
            usleep(500);
            MPI_Send(&go, 1, MPI_INT, 1, 1, WORLD);
        }
        MPI_Barrier(WORLD);
    }
    if (rank < 2) {
        many_parts(file);
        close(file);
    }
    return finish("sockets");
}
