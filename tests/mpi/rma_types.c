/* One-sided operations over types and lengths: every arithmetic operation on every C type that it is defined for, long transfers,
 * request-based get_accumulate, displacement units, operations of no bytes. */
#include "check.h"

/* Elements of a type, as the sum, the product, the least and the greatest of small numbers that every rank knows. */
#define ARITHMETIC(type, mpi)                                                                                        \
    do {                                                                                                             \
        type *at = (type *)memory, out[N], old[N];                                                                   \
        static const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_REPLACE};                              \
        for (int o = 0; o < 5; o++) {                                                                                \
            int wrong = 0;                                                                                           \
            for (int i = 0; i < N; i++) {                                                                            \
                at[i] = (type)(i % 5 + 1);                                                                           \
                out[i] = (type)(rank % 3 + 2);                                                                       \
                old[i] = 0;                                                                                          \
            }                                                                                                        \
            MPI_Win_fence(0, win);                                                                                   \
            MPI_Get_accumulate(out, N, mpi, old, N, mpi, next, 0, N, mpi, ops[o], win);                              \
            MPI_Win_fence(0, win);                                                                                   \
            for (int i = 0; i < N; i++) {                                                                            \
                type a = (type)(i % 5 + 1), b = (type)(previous % 3 + 2);                                            \
                type is = o == 0 ? a + b : o == 1 ? a * b : o == 2 ? (a > b ? a : b) : o == 3 ? (a < b ? a : b) : b; \
                wrong += at[i] != is || old[i] != a;                                                                 \
            }                                                                                                        \
            CHECK_EQ(wrong, 0);                                                                                      \
            MPI_Win_fence(0, win);                                                                                   \
        }                                                                                                            \
    } while (0)

#define BITS(type, mpi)                                                                                              \
    do {                                                                                                             \
        type *at = (type *)memory, out;                                                                              \
        static const MPI_Op ops[] = {MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR};                      \
        for (int o = 0; o < 6; o++) {                                                                                \
            type a = (type)0x5a, b = (type)(previous % 2 ? 0x36 : 0);                                                \
            at[0] = a;                                                                                               \
            out = (type)(rank % 2 ? 0x36 : 0);                                                                       \
            MPI_Win_fence(0, win);                                                                                   \
            MPI_Accumulate(&out, 1, mpi, next, 0, 1, mpi, ops[o], win);                                              \
            MPI_Win_fence(0, win);                                                                                   \
            type is = (type)(o == 0 ? a & b : o == 1 ? a | b : o == 2 ? a ^ b : o == 3 ? a && b : o == 4 ? a || b : !a != !b); \
            CHECK_EQ(at[0], is);                                                                                     \
            MPI_Win_fence(0, win);                                                                                   \
        }                                                                                                            \
    } while (0)

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    enum { N = 37 };
    /* Of many ranks each has less to do: a fence is a barrier. */
    const int few = ranks <= 16, LONG = few ? 3 << 20 : 200 << 10;
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    char *memory;
    MPI_Win win;
    /* One byte is the unit: displacements below are bytes. */
    MPI_Win_allocate(LONG, 1, MPI_INFO_NULL, WORLD, &memory, &win);
    ARITHMETIC(unsigned short, MPI_UNSIGNED_SHORT);
    ARITHMETIC(int, MPI_INT);
    ARITHMETIC(double, MPI_DOUBLE);
    BITS(int64_t, MPI_INT64_T);
    if (few) {
        ARITHMETIC(signed char, MPI_SIGNED_CHAR);
        ARITHMETIC(unsigned, MPI_UNSIGNED);
        ARITHMETIC(long long, MPI_LONG_LONG);
        ARITHMETIC(uint64_t, MPI_UINT64_T);
        ARITHMETIC(float, MPI_FLOAT);
        ARITHMETIC(long double, MPI_LONG_DOUBLE);
        BITS(int8_t, MPI_INT8_T);
        BITS(uint32_t, MPI_UINT32_T);
    }

    /* Long ones at odd addresses. */
    char *out = allocate(LONG), *in = allocate(LONG);
    fill(out, LONG, (uint64_t)rank);
    memset(memory, 0, LONG);
    MPI_Win_fence(0, win);
    MPI_Put(out, LONG - 5, MPI_BYTE, next, 5, LONG - 5, MPI_BYTE, win);
    MPI_Put(NULL, 0, MPI_BYTE, next, 3, 0, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    CHECK_EQ(memory[4], 0);
    CHECK_FILL(memory + 5, LONG - 5, (uint64_t)previous);
    MPI_Get(in, LONG - 5, MPI_BYTE, next, 5, LONG - 5, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    CHECK_FILL(in, LONG - 5, (uint64_t)rank);
    free(out);
    free(in);

    /* Requests, to all ranks at once: each adds to a place of its own. */
    long long *counts = (long long *)memory, *mine = allocate((size_t)ranks * 2 * sizeof *mine);
    MPI_Request *requests = allocate((size_t)ranks * sizeof *requests);
    memset(memory, 0, (size_t)ranks * sizeof *counts);
    MPI_Barrier(WORLD);
    MPI_Win_lock_all(0, win);
    for (int r = 0; r < ranks; r++) {
        mine[r] = rank * 100 + r + 1;
        mine[ranks + r] = -1;
        MPI_Rget_accumulate(&mine[r], 1, MPI_LONG_LONG, &mine[ranks + r], 1, MPI_LONG_LONG, r, (MPI_Aint)(rank * sizeof *counts), 1,
                            MPI_LONG_LONG, MPI_SUM, win, &requests[r]);
    }
    MPI_Waitall(ranks, requests, MPI_STATUSES_IGNORE);
    MPI_Win_flush_all(win);
    int wrong = 0;
    for (int r = 0; r < ranks; r++)
        wrong += mine[ranks + r] != 0;
    CHECK_EQ(wrong, 0);
    MPI_Win_unlock_all(win);
    MPI_Barrier(WORLD);
    for (int r = 0; r < ranks; r++)
        wrong += counts[r] != r * 100 + rank + 1;
    CHECK_EQ(wrong, 0);
    free(mine);
    free(requests);
    MPI_Win_free(&win);
    return finish("rma_types");
}
