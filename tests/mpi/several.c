// One of several programs of a job: several APP RANKS ALL, its number, its ranks and those of all. Ranks are numbered
// one program after the other, MPI_APPNUM says which one it is, and messages go from each to each.
#include "check.h"

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    CHECK_EQ(argc, 4);
    int app = atoi(argv[1]), own = atoi(argv[2]), found, *appnum;
    CHECK_EQ(ranks, atoi(argv[3]));
    MPI_Comm_get_attr(WORLD, MPI_APPNUM, &appnum, &found);
    CHECK(found);
    CHECK_EQ(*appnum, app);

    MPI_Comm mine;
    MPI_Comm_split(WORLD, *appnum, rank, &mine);
    int my_ranks, first = rank;
    MPI_Comm_size(mine, &my_ranks);
    CHECK_EQ(my_ranks, own);
    MPI_Bcast(&first, 1, MPI_INT, 0, mine);
    CHECK(rank >= first && rank < first + own);

    int before = (rank + ranks - 1) % ranks, got = -1;
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, 3, &got, 1, MPI_INT, before, 3, WORLD, MPI_STATUS_IGNORE);
    CHECK_EQ(got, before);
    MPI_Comm_free(&mine);
    MPI_Finalize();
    return 0;
}
