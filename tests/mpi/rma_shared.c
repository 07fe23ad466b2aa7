/* Windows of shared memory of the ranks of one node: MPI_Win_allocate_shared, load and store by all of them. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm node;
    MPI_Win win;
    int *mine, me, size, unit;
    MPI_Comm_split_type(WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &me);
    MPI_Comm_size(node, &size);
    MPI_Win_allocate_shared(100 * sizeof(int), sizeof(int), MPI_INFO_NULL, node, &mine, &win);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 100; i++)
        mine[i] = rank * 1000 + i;
    MPI_Win_sync(win);
    MPI_Barrier(node);
    MPI_Win_sync(win);
    int neighbour = (me + 1) % size, *theirs, world_rank = -1, wrong = 0;
    MPI_Aint bytes;
    MPI_Win_shared_query(win, neighbour, &bytes, &unit, &theirs);
    CHECK_EQ(bytes, 100 * sizeof(int));
    CHECK_EQ(unit, sizeof(int));
    MPI_Group world_group, node_group;
    MPI_Comm_group(WORLD, &world_group);
    MPI_Comm_group(node, &node_group);
    MPI_Group_translate_ranks(node_group, 1, &neighbour, world_group, &world_rank);
    for (int i = 0; i < 100; i++)
        wrong += theirs[i] != world_rank * 1000 + i;
    CHECK_EQ(wrong, 0);
    MPI_Barrier(node);
    MPI_Win_unlock_all(win);
    MPI_Group_free(&world_group);
    MPI_Group_free(&node_group);
    MPI_Win_free(&win);
    MPI_Comm_free(&node);
    return finish("rma_shared");
}
