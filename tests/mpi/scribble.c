/* Rank 1 writes over the memory that it shares with the simulator, as a wild pointer would.
 *
 *   scribble everywhere      over all of it, in order of addresses
 *   scribble PATTERN         over what can be written: ff, 00, or a number from which random words come
 *   scribble words SEED      one random word after the other in what can be written, while messages move
 *   scribble cut             makes the file shorter, which is refused
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct area {
    uint64_t *words;
    size_t count;
};

static uint64_t state = 1;

static uint64_t draw(void) /* xorshift64 */
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* The mappings of the channel; only what can be written, or all. */
static int areas(struct area *found, int most, int all)
{
    char line[512], rights[5], name[256];
    unsigned long from, to;
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && count < most && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %4s %*s %*s %*s %255s", &from, &to, rights, name) == 4 && !strcmp(name, "/memfd:narrows")
            && (all || rights[1] == 'w'))
            found[count++] = (struct area){(uint64_t *)from, (to - from) / 8};
    fclose(maps);
    return count;
}

static void exchange(int rank, int size, int times)
{
    char out[3000] = {0}, in[3000];
    for (int i = 0; i < times; i++)
        MPI_Sendrecv(out, sizeof out, MPI_CHAR, (rank + 1) % size, 0, in, sizeof in, MPI_CHAR, (rank + size - 1) % size, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    struct area found[64];
    const char *how = argc > 1 ? argv[1] : "everywhere";
    int rank, size, count;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    exchange(rank, size, 3);
    count = areas(found, 64, !strcmp(how, "everywhere"));
    if (rank == 1 && count == 0)
        MPI_Abort(MPI_COMM_WORLD, 77);
    if (rank == 1 && !strcmp(how, "cut")) {
        int file = open(getenv("NARROWS_CHANNEL"), O_RDWR);
        if (file < 0 || ftruncate(file, 0) == 0)
            MPI_Abort(MPI_COMM_WORLD, 78);
        close(file);
    } else if (rank == 1 && !strcmp(how, "words")) {
        state += strtoull(argc > 2 ? argv[2] : "1", NULL, 0) * 2654435761u;
        for (int round = 0; round < 200; round++) {
            for (int i = 0; i < 20; i++) {
                struct area *area = &found[draw() % count];
                /* Most of it is empty: what counts is at the start of its pages. */
                size_t at = draw() % 2 ? draw() % 512 : draw() % area->count;
                area->words[at % area->count] = draw() % 2 ? draw() : draw() % 64;
            }
            exchange(rank, size, 1);
        }
    } else if (rank == 1) {
        state += strtoull(how, NULL, 0) * 2654435761u;
        for (int i = 0; i < count; i++)
            for (size_t word = 0; word < found[i].count; word++)
                found[i].words[word] = !strcmp(how, "ff") ? UINT64_MAX : !strcmp(how, "00") ? 0 : draw();
    }
    exchange(rank, size, rank == 1 && !strcmp(how, "words") ? 100 : 300);
    MPI_Finalize();
    if (rank == 0)
        puts("done");
    return 0;
}
