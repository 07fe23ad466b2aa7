/* Non-blocking file access: what MPI_File_i* begin ends without any message, by the host's own means (POSIX' aio). Another access that takes a
 * while is before it in the queue of the only thread that does this: nothing in the network moves meanwhile, and nobody
 * is stuck. */
#define _GNU_SOURCE
#include "check.h"
#include <aio.h>
#include <errno.h>
#include <unistd.h>

enum { WAYS = 4, MOST = 200000 };

static unsigned char wrote[MOST], found[MOST];

/* Keeps the thread busy until a child writes into the pipe. The child does not wait for anything of the simulated machine. */
static void occupy(struct aiocb *control, char *byte)
{
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    *control = (struct aiocb){.aio_fildes = ends[0], .aio_buf = byte, .aio_nbytes = 1};
    CHECK_EQ(aio_read(control), 0);
    if (fork() == 0) {
        usleep(300000);
        _exit(write(ends[1], "x", 1) != 1);
    }
    close(ends[1]);
}

static void begin_access(MPI_File file, int way, int reading, unsigned char *buffer, int length, MPI_Request *request)
{
    MPI_Offset place = (MPI_Offset)rank * MOST;
    MPI_File_seek(file, place, MPI_SEEK_SET);
    switch (2 * way + reading) {
    case 0: MPI_File_iwrite_at(file, place, buffer, length, MPI_BYTE, request); break;
    case 1: MPI_File_iread_at(file, place, buffer, length, MPI_BYTE, request); break;
    case 2: MPI_File_iwrite(file, buffer, length, MPI_BYTE, request); break;
    case 3: MPI_File_iread(file, buffer, length, MPI_BYTE, request); break;
    case 4: MPI_File_iwrite_at_all(file, place, buffer, length, MPI_BYTE, request); break;
    case 5: MPI_File_iread_at_all(file, place, buffer, length, MPI_BYTE, request); break;
    case 6: MPI_File_iwrite_all(file, buffer, length, MPI_BYTE, request); break;
    default: MPI_File_iread_all(file, buffer, length, MPI_BYTE, request); break;
    }
}

/* Writes and reads a part of the file in each way there is; waiting, or asking until it is through. */
static void access_all(MPI_File file, int length, int ask)
{
    for (int way = 0; way < WAYS; way++) {
        fill(wrote, (size_t)length, mix((uint64_t)rank, (uint64_t)way, (uint64_t)length));
        for (int reading = 0; reading < 2; reading++) {
            MPI_Request request;
            MPI_Status status;
            int count, flag = 0;
            begin_access(file, way, reading, reading ? found : wrote, length, &request);
            while (ask && !flag)
                MPI_Test(&request, &flag, &status);
            if (!ask)
                MPI_Wait(&request, &status);
            MPI_Get_count(&status, MPI_BYTE, &count);
            CHECK_EQ(count, length);
        }
        CHECK_EQ(memcmp(wrote, found, (size_t)length), 0);
    }
}

int main(int argc, char **argv)
{
    MPI_File file;
    struct aiocb control;
    char byte = 0;
    const struct aiocb *list[] = {&control};
    begin(&argc, &argv);
    aio_init(&(struct aioinit){.aio_threads = 1, .aio_num = 16});
    CHECK_EQ(MPI_File_open(WORLD, "file_nonblocking.data", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_SUCCESS);
    occupy(&control, &byte);
    for (int ask = 0; ask < 2; ask++) {
        access_all(file, 10, ask);
        access_all(file, MOST, ask);
    }
    while (aio_error(&control) == EINPROGRESS)
        aio_suspend(list, 1, NULL);
    CHECK_EQ(aio_return(&control), 1);
    CHECK_EQ(byte, 'x');
    MPI_File_close(&file);
    return finish("file_nonblocking");
}
