/* Predefined reduction operations on predefined types, and large reductions and broadcasts at protocol limits. */
#include "check.h"

#define SUM_PROD_MIN_MAX(ctype, mpitype)                                                                \
    do {                                                                                                \
        ctype in = (ctype)(rank % 3 + 1), out = 0, product = 1, sum = 0;                                \
        for (int r = 0; r < (ranks < 8 ? ranks : 8); r++)                                               \
            product = (ctype)(product * (ctype)(r % 3 + 1));                                            \
        for (int r = 0; r < ranks; r++)                                                                 \
            sum = (ctype)(sum + (ctype)(r % 3 + 1));                                                    \
        MPI_Allreduce(&in, &out, 1, mpitype, MPI_SUM, WORLD);                                           \
        CHECK(out == sum);                                                                              \
        ctype factor = rank < 8 ? in : (ctype)1;                                                        \
        MPI_Allreduce(&factor, &out, 1, mpitype, MPI_PROD, WORLD);                                      \
        CHECK(out == product);                                                                          \
        MPI_Allreduce(&in, &out, 1, mpitype, MPI_MIN, WORLD);                                           \
        CHECK(out == 1);                                                                                \
        MPI_Allreduce(&in, &out, 1, mpitype, MPI_MAX, WORLD);                                           \
        CHECK(out == (ctype)(ranks < 3 ? ranks : 3));                                                   \
    } while (0)

#define LOGICAL_AND_BITS(ctype, mpitype)                                                                \
    do {                                                                                                \
        ctype in = (ctype)(1 << rank % 7), out = 0, all = 0, parity = 0;                                \
        for (int r = 0; r < ranks; r++) {                                                               \
            all = (ctype)(all | (ctype)(1 << r % 7));                                                   \
            parity = (ctype)(parity ^ (ctype)(1 << r % 7));                                             \
        }                                                                                               \
        MPI_Allreduce(&in, &out, 1, mpitype, MPI_BOR, WORLD);                                           \
        CHECK(out == all);                                                                              \
        MPI_Allreduce(&in, &out, 1, mpitype, MPI_BXOR, WORLD);                                          \
        CHECK(out == parity);                                                                           \
        MPI_Allreduce(&in, &out, 1, mpitype, MPI_BAND, WORLD);                                          \
        CHECK(out == (ctype)(ranks == 1));                                                              \
    } while (0)

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    SUM_PROD_MIN_MAX(signed char, MPI_SIGNED_CHAR);
    SUM_PROD_MIN_MAX(short, MPI_SHORT);
    SUM_PROD_MIN_MAX(int, MPI_INT);
    SUM_PROD_MIN_MAX(long, MPI_LONG);
    SUM_PROD_MIN_MAX(long long, MPI_LONG_LONG);
    SUM_PROD_MIN_MAX(unsigned char, MPI_UNSIGNED_CHAR);
    SUM_PROD_MIN_MAX(unsigned short, MPI_UNSIGNED_SHORT);
    SUM_PROD_MIN_MAX(unsigned, MPI_UNSIGNED);
    SUM_PROD_MIN_MAX(unsigned long, MPI_UNSIGNED_LONG);
    SUM_PROD_MIN_MAX(float, MPI_FLOAT);
    SUM_PROD_MIN_MAX(double, MPI_DOUBLE);
    SUM_PROD_MIN_MAX(long double, MPI_LONG_DOUBLE);
    SUM_PROD_MIN_MAX(int8_t, MPI_INT8_T);
    SUM_PROD_MIN_MAX(uint16_t, MPI_UINT16_T);
    SUM_PROD_MIN_MAX(int32_t, MPI_INT32_T);
    SUM_PROD_MIN_MAX(uint64_t, MPI_UINT64_T);
    SUM_PROD_MIN_MAX(MPI_Aint, MPI_AINT);
    SUM_PROD_MIN_MAX(MPI_Count, MPI_COUNT);
    LOGICAL_AND_BITS(unsigned char, MPI_BYTE);
    LOGICAL_AND_BITS(int, MPI_INT);
    LOGICAL_AND_BITS(uint64_t, MPI_UINT64_T);

    int yes = 1, one_no = rank != ranks - 1, out;
    MPI_Allreduce(&yes, &out, 1, MPI_INT, MPI_LAND, WORLD);
    CHECK(out);
    MPI_Allreduce(&one_no, &out, 1, MPI_INT, MPI_LAND, WORLD);
    CHECK(!out);
    MPI_Allreduce(&one_no, &out, 1, MPI_INT, MPI_LOR, WORLD);
    CHECK_EQ(out != 0, ranks > 1);
    MPI_Allreduce(&one_no, &out, 1, MPI_INT, MPI_LXOR, WORLD);
    CHECK_EQ(out != 0, (ranks - 1) % 2);

    struct { double value; int where; } place, best;
    place.value = (rank * 7) % ranks + 0.5;
    place.where = rank;
    MPI_Allreduce(&place, &best, 1, MPI_DOUBLE_INT, MPI_MINLOC, WORLD);
    CHECK(best.value == 0.5 && best.where == 0);
    MPI_Allreduce(&place, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, WORLD);
    double highest = 0;
    int holder = 0;
    for (int r = 0; r < ranks; r++)
        if ((r * 7) % ranks + 0.5 > highest) {
            highest = (r * 7) % ranks + 0.5;
            holder = r;
        }
    CHECK(best.value == highest);
    CHECK_EQ(best.where, holder);
    struct { int value, where; } tie = {5, rank}, first;
    MPI_Allreduce(&tie, &first, 1, MPI_2INT, MPI_MAXLOC, WORLD);
    CHECK_EQ(first.where, 0); /* the lowest rank wins a tie */

    /* Lengths at protocol limits; the ranks' data differ. */
    int limits[] = {0, 1, 2, 16, 17, 102, 1024, 1025, 2048, 16384, 16385, 262144};
    int longest = ranks > 16 ? 9 : 12;
    int *send = allocate(262144 * sizeof *send), *receive = allocate(262144 * sizeof *receive);
    for (int l = 0; l < longest; l++) {
        int n = limits[l], wrong = 0;
        for (int i = 0; i < n; i++)
            send[i] = rank + i;
        MPI_Allreduce(send, receive, n, MPI_INT, MPI_SUM, WORLD);
        for (int i = 0; i < n; i++)
            wrong += receive[i] != ranks * (ranks - 1) / 2 + ranks * i;
        CHECK_EQ(wrong, 0);
        MPI_Bcast(send, n, MPI_INT, ranks - 1, WORLD);
        for (int i = 0; i < n; i++)
            wrong += send[i] != ranks - 1 + i;
        CHECK_EQ(wrong, 0);
    }
    free(send);
    free(receive);

    /* Local reduction. */
    int a[4] = {1, 2, 3, 4}, b[4] = {10, 20, 30, 40};
    MPI_Reduce_local(a, b, 4, MPI_INT, MPI_SUM);
    CHECK(b[0] == 11 && b[3] == 44);
    int commutes;
    MPI_Op_commutative(MPI_SUM, &commutes);
    CHECK(commutes);
    return finish("coll_ops");
}
