/* Regions of OpenMP, and between them MPI calls beside its threads, which sleep or spin. */
#include "check.h"
#include <omp.h>

enum { REGIONS = 20, TURNS = 20, ITERATIONS = 1000 };

int main(int argc, char **argv)
{
    int given;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    CHECK_EQ(given, MPI_THREAD_MULTIPLE);
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    for (int region = 0; region < REGIONS; region++) {
        int sum = 0;
#pragma omp parallel for reduction(+ : sum)
        for (int i = 0; i < ITERATIONS; i++)
            sum += i;
        CHECK_EQ(sum, ITERATIONS * (ITERATIONS - 1) / 2);
        for (int turn = 0; turn < TURNS; turn++) {
            int from = -1;
            MPI_Sendrecv(&rank, 1, MPI_INT, right, turn, &from, 1, MPI_INT, left, turn, WORLD, MPI_STATUS_IGNORE);
            CHECK_EQ(from, left);
        }
    }
    return finish("omp_between");
}
