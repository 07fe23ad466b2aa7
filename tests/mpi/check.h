/* Shared by the test programs: every program verifies itself.
 *
 * A failed check names the rank, the file and line and both values on stderr and aborts the job. At the end rank 0
 * prints one line with the number of ranks and the number of checks that all ranks made together. That number must not
 * depend on timing or on the MPI library, so that the line can be compared between runs. */
#ifndef NARROWS_TESTS_CHECK_H
#define NARROWS_TESTS_CHECK_H

#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
/* With CHECKS_OF_THREADS each thread counts its own. */
#ifdef CHECKS_OF_THREADS
static _Thread_local long long checks_made;
#else
static long long checks_made;
#endif

#define WORLD MPI_COMM_WORLD

static void fail_at(const char *file, int line, const char *what, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "FAIL: rank %d of %d: %s:%d: %s: %s\n", rank, ranks, file, line, what, text);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* Checks a condition. */
#define CHECK(condition)                                                      \
    do {                                                                      \
        checks_made++;                                                        \
        if (!(condition))                                                     \
            fail_at(__FILE__, __LINE__, #condition, "does not hold");         \
    } while (0)

/* Checks that two integers are equal and prints both if they are not. */
#define CHECK_EQ(actual, expected)                                                                                  \
    do {                                                                                                            \
        long long actual_ = (long long)(actual), expected_ = (long long)(expected);                                 \
        checks_made++;                                                                                              \
        if (actual_ != expected_)                                                                                   \
            fail_at(__FILE__, __LINE__, #actual " == " #expected, "got %lld, expected %lld", actual_, expected_);   \
    } while (0)

static inline void begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

/* Sums up the checks and prints the line of the program on rank 0. */
static void report(const char *name)
{
    long long total = 0;
    MPI_Reduce(&checks_made, &total, 1, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s: ranks=%d checks=%lld ok\n", name, ranks, total);
        fflush(stdout);
    }
}

/* The same, and finalizes. */
static inline int finish(const char *name)
{
    report(name);
    MPI_Finalize();
    return 0;
}

/* A number that depends on all bits of its three inputs (splitmix64 finalizer). */
static inline uint64_t mix(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t z = a * 0x9e3779b97f4a7c15u + b * 0xbf58476d1ce4e5b9u + c * 0x94d049bb133111ebu + 0x2545f4914f6cdd1du;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Fills a buffer with bytes that depend on the seed and on every position. */
static inline void fill(void *buffer, size_t bytes, uint64_t seed)
{
    unsigned char *byte = buffer;
    uint64_t word = mix(seed, 1, 2);
    for (size_t i = 0; i < bytes; i++) {
        if (i % 8 == 0)
            word = word * 6364136223846793005u + 1442695040888963407u;
        byte[i] = (unsigned char)(word >> (8 * (i % 8)));
    }
}

/* Checks what fill() wrote; one check whatever the size. */
static inline void check_fill_at(const char *file, int line, const void *buffer, size_t bytes, uint64_t seed)
{
    const unsigned char *byte = buffer;
    uint64_t word = mix(seed, 1, 2);
    checks_made++;
    for (size_t i = 0; i < bytes; i++) {
        if (i % 8 == 0)
            word = word * 6364136223846793005u + 1442695040888963407u;
        if (byte[i] != (unsigned char)(word >> (8 * (i % 8))))
            fail_at(file, line, "payload", "byte %zu of %zu is %d, expected %d (seed %llu)", i, bytes, byte[i],
                    (unsigned char)(word >> (8 * (i % 8))), (unsigned long long)seed);
    }
}
#define CHECK_FILL(buffer, bytes, seed) check_fill_at(__FILE__, __LINE__, buffer, bytes, seed)

/* Checks source, tag and count of a status. */
static inline void check_status_at(const char *file, int line, const MPI_Status *status, int source, int tag, MPI_Datatype type,
                                   int count)
{
    int got = -1;
    MPI_Get_count(status, type, &got);
    checks_made++;
    if (status->MPI_SOURCE != source || status->MPI_TAG != tag || got != count)
        fail_at(file, line, "status", "got source %d tag %d count %d, expected source %d tag %d count %d", status->MPI_SOURCE,
                status->MPI_TAG, got, source, tag, count);
}
#define CHECK_STATUS(status, source, tag, type, count) check_status_at(__FILE__, __LINE__, status, source, tag, type, count)

static inline void *allocate(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory)
        fail_at(__FILE__, __LINE__, "malloc", "no memory for %zu bytes", bytes);
    return memory;
}

/* Message lengths at and around the limits of NICs and MPI libraries: inline and PIO commands, inject, eager, rendezvous. */
static const int sizes_small[] = {0, 1, 7, 8, 9, 63, 64, 65, 407, 408, 409, 4095, 4096, 4097, 8191, 8192, 8193, 65535, 65536, 65537};
#define SIZES_SMALL ((int)(sizeof sizes_small / sizeof sizes_small[0]))

#endif
