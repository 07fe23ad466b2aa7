/* One-sided communication with fences: put, get, accumulate and their request-free variants; created and allocated windows. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    enum { N = 2000 };
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    for (int kind = 0; kind < 2; kind++) {
        int *memory, *got = allocate(N * sizeof *got), *out = allocate(N * sizeof *out);
        MPI_Win win;
        if (kind) {
            MPI_Win_allocate(N * sizeof(int), sizeof(int), MPI_INFO_NULL, WORLD, &memory, &win);
        } else {
            memory = allocate(N * sizeof *memory);
            MPI_Win_create(memory, N * sizeof(int), sizeof(int), MPI_INFO_NULL, WORLD, &win);
        }
        static const int lengths[] = {1, 2, 16, 101, 103, 1024, N};
        /* Of many ranks each length is tried in one of the windows, and fewer ranks are added to: all add to them, one after the other. */
        int many = ranks > 16, targets = many ? 2 : 16;
        for (unsigned l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
            int n = lengths[l], wrong = 0;
            if (many && l % 2 != (unsigned)kind)
                continue;
            for (int i = 0; i < N; i++) {
                memory[i] = -1;
                out[i] = rank * 10000 + i;
                got[i] = -2;
            }
            MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
            MPI_Put(out, n, MPI_INT, next, N - n, n, MPI_INT, win);
            MPI_Win_fence(0, win);
            for (int i = 0; i < N; i++)
                wrong += memory[i] != (i < N - n ? -1 : previous * 10000 + i - (N - n));
            CHECK_EQ(wrong, 0);
            MPI_Win_fence(0, win);
            MPI_Get(got, n, MPI_INT, next, N - n, n, MPI_INT, win); /* what I have put there */
            MPI_Win_fence(0, win);
            for (int i = 0; i < N; i++)
                wrong += got[i] != (i < n ? out[i] : -2);
            CHECK_EQ(wrong, 0);
            for (int i = 0; i < N; i++)
                memory[i] = i;
            MPI_Win_fence(0, win);
            for (int r = 0; r < ranks && r < targets; r++) /* all add to the first ranks */
                MPI_Accumulate(out, n, MPI_INT, r, 0, n, MPI_INT, MPI_SUM, win);
            MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
            for (int i = 0; i < N; i++) {
                int expected = rank < targets && i < n ? i + ranks * (ranks - 1) / 2 * 10000 + ranks * i : i;
                wrong += memory[i] != expected;
            }
            CHECK_EQ(wrong, 0);
        }
        /* Strided at both ends. */
        MPI_Datatype column;
        MPI_Type_vector(20, 1, 50, MPI_INT, &column);
        MPI_Type_commit(&column);
        for (int i = 0; i < N; i++)
            memory[i] = -1;
        MPI_Win_fence(0, win);
        MPI_Put(out + 3, 1, column, next, 7, 1, column, win);
        MPI_Win_fence(0, win);
        int wrong = 0;
        for (int i = 0; i < 1000; i++)
            wrong += memory[i] != (i % 50 == 7 ? previous * 10000 + i - 7 + 3 : -1);
        CHECK_EQ(wrong, 0);
        MPI_Type_free(&column);
        MPI_Win_free(&win);
        if (!kind)
            free(memory);
        free(got);
        free(out);
    }
    return finish("rma_fence");
}
