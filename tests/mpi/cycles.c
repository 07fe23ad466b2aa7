/* What some loops take, by MPI_Wtime: a line each, in ps a step. Under --compute cycles a sum gives it (tests/cycles.py). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* Keeps a value in a register, whatever a compiler knows of it. */
#define KEEP(x) __asm__ volatile("" : "+r"(x))
#define EIGHT(x) x x x x x x x x

static double began;

static void begin(void) {
    began = MPI_Wtime();
}

static void end(const char *name, long steps) {
    double took = MPI_Wtime() - began;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        printf("%s %.0f\n", name, took * 1e12 / (double)steps);
    }
}

/* A list of one place in each line, in an order that no prefetcher of lines would guess; followed `steps` times. */
static void chase(const char *name, long bytes, long line, long steps) {
    long lines = bytes / line;
    char *memory = aligned_alloc(4096, (size_t)bytes);
    for (long at = 0; at < lines; at++) {
        *(void **)(memory + at * line) = memory + (at + 17) % lines * line;
    }
    void *place = memory;
    for (int turn = 0; turn < 2; turn++) {
        begin();
        for (long step = 0; step < steps; step += 8) {
            EIGHT(place = *(void **)place; KEEP(place);)
        }
    }
    end(name, steps);
    free(memory);
}

/* Reads all of it twice: the first time what was written before goes to memory. */
static void stream(const char *name, long bytes) {
    long items = bytes / 8;
    long *memory = aligned_alloc(4096, (size_t)bytes);
    long sum = 0;
    for (long at = 0; at < items; at++) {
        memory[at] = 1;
    }
    for (int turn = 0; turn < 2; turn++) {
        begin();
        for (long at = 0; at < items; at += 8) {
            long *next = memory + at;
            EIGHT(sum += *next++;)
        }
    }
    end(name, items);
    if (sum != 2 * items) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    free(memory);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    long steps = argc > 1 ? atol(argv[1]) : 100000;
    unsigned long a = 1, b = 2;
    begin();
    for (long step = 0; step < steps; step += 8) {
        EIGHT(a += 3; KEEP(a);)
    }
    end("adds", steps);
    begin();
    for (long step = 0; step < steps; step += 8) {
        EIGHT(b = a / b; KEEP(b); b |= 1;)
    }
    end("divides", steps);
    double x = 1.5, y = argc > 9 ? 2 : 1.0000001;
    begin();
    for (long step = 0; step < steps; step += 8) {
        EIGHT(x *= y;)
    }
    end("multiplies", steps);
    chase("first", 8 << 10, 64, steps);
    chase("second", 256 << 10, 64, steps);
    chase("last", 4 << 20, 64, 2 * steps);
    chase("memory", 64 << 20, 4096, steps);
    stream("stream", 16 << 20);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return x > 0 && a > 0 && b > 0 ? 0 : 1;
}
