/* Windows of memory that the ranks of one node share: MPI_Win_allocate_shared. Loads and stores, waiting for a store, and one-sided
 * operations of the library on the same memory. With "world" the window is asked of ranks on several nodes, which
 * cannot be. */
#include "check.h"

static MPI_Comm node;
static int me, size;

static int world_rank_of(int node_rank)
{
    MPI_Group world_group, node_group;
    int found = -1;
    MPI_Comm_group(WORLD, &world_group);
    MPI_Comm_group(node, &node_group);
    MPI_Group_translate_ranks(node_group, 1, &node_rank, world_group, &found);
    MPI_Group_free(&world_group);
    MPI_Group_free(&node_group);
    return found;
}

/* What a rank stores, its neighbour loads. */
static void loads_and_stores(void)
{
    MPI_Win win;
    int *mine, *theirs, unit, *flavor, there, wrong = 0, neighbour = (me + 1) % size, expected = world_rank_of(neighbour);
    MPI_Aint bytes;
    MPI_Win_allocate_shared(100 * sizeof(int), sizeof(int), MPI_INFO_NULL, node, &mine, &win);
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &there);
    CHECK(there && *flavor == MPI_WIN_FLAVOR_SHARED);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 100; i++)
        mine[i] = rank * 1000 + i;
    MPI_Win_sync(win);
    MPI_Barrier(node);
    MPI_Win_sync(win);
    MPI_Win_shared_query(win, neighbour, &bytes, &unit, &theirs);
    CHECK_EQ(bytes, 100 * sizeof(int));
    CHECK_EQ(unit, sizeof(int));
    for (int i = 0; i < 100; i++)
        wrong += theirs[i] != expected * 1000 + i;
    CHECK_EQ(wrong, 0);
    MPI_Barrier(node);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

/* Segments of different sizes, some empty, follow one another; so many windows at a time. */
static void segments(void)
{
    MPI_Win wins[3];
    int *mine[3], *first, unit, wrong = 0;
    MPI_Aint bytes, before = 0, all = 0;
    for (int r = 0; r < size; r++) {
        before += r < me ? r % 3 * 40 : 0;
        all += r % 3 * 40;
    }
    for (int w = 0; w < 3; w++)
        MPI_Win_allocate_shared(me % 3 * 40 * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL, node, &mine[w], &wins[w]);
    for (int w = 0; w < 3; w++) {
        MPI_Win_fence(0, wins[w]);
        for (int i = 0; i < me % 3 * 40; i++)
            mine[w][i] = w * 100000 + (int)before + i;
        MPI_Win_fence(0, wins[w]);
        MPI_Win_shared_query(wins[w], MPI_PROC_NULL, &bytes, &unit, &first);
        CHECK_EQ(bytes, size > 1 ? 40 * sizeof(int) : 0);
        for (int i = 0; i < all; i++)
            wrong += first[i] != w * 100000 + i;
        MPI_Win_fence(0, wins[w]);
    }
    CHECK_EQ(wrong, 0);
    /* Freed in another order than made. */
    for (int w = 0; w < 3; w++)
        MPI_Win_free(&wins[(w + 1) % 3]);
}

/* A token goes round: each rank waits for a store of the one before it, and looks with nothing but MPI_Win_sync. Then all count in one
 * place with the processor's own atomic addition. */
static void waiting_for_stores(void)
{
    enum { ROUNDS = 3, TURNS = 20 };
    MPI_Win win;
    MPI_Request request;
    volatile long long *mine, *token, *counter;
    int unit;
    MPI_Aint bytes;
    MPI_Win_allocate_shared(2 * sizeof(long long), sizeof(long long), MPI_INFO_NULL, node, &mine, &win);
    MPI_Win_lock_all(0, win);
    mine[0] = mine[1] = 0;
    MPI_Win_sync(win);
    MPI_Barrier(node);
    MPI_Win_shared_query(win, 0, &bytes, &unit, &token);
    counter = token + 1;
    for (int round = 0; round < ROUNDS; round++) {
        while (*token != (long long)round * size + me)
            MPI_Win_sync(win);
        *token += 1;
        MPI_Win_sync(win);
    }
    MPI_Barrier(node);
    MPI_Win_sync(win);
    CHECK_EQ(*token, (long long)ROUNDS * size);
    long long last = -1;
    int wrong = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        long long got = __atomic_fetch_add(counter, 1, __ATOMIC_SEQ_CST);
        wrong += got <= last;
        last = got;
        MPI_Win_sync(win);
        /* Who counted when is seen on the network. */
        MPI_Isend(&got, (int)(got % 8), MPI_BYTE, rank, 9, WORLD, &request);
        long long back;
        MPI_Recv(&back, 8, MPI_BYTE, rank, 9, WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(node);
    CHECK_EQ(wrong, 0);
    CHECK_EQ(*counter, (long long)TURNS * size);
    MPI_Barrier(node);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

/* The library's own operations on a shared window: with fences, locks, and post and start. */
static void one_sided(void)
{
    enum { N = 3000 };
    MPI_Win win;
    int *mine, out[N], in[N], wrong = 0, next = (me + 1) % size, previous = (me + size - 1) % size;
    int from = world_rank_of(previous), to = world_rank_of(next);
    MPI_Win_allocate_shared(2 * N * sizeof(int), sizeof(int), MPI_INFO_NULL, node, &mine, &win);
    for (int i = 0; i < N; i++) {
        out[i] = rank * 10000 + i;
        mine[i] = mine[N + i] = -1;
    }
    MPI_Win_fence(0, win);
    MPI_Put(out, N, MPI_INT, next, N, N, MPI_INT, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < N; i++)
        wrong += mine[N + i] != from * 10000 + i;
    CHECK_EQ(wrong, 0);
    for (int i = 0; i < N; i++)
        mine[i] = rank * 10000 - i;
    MPI_Win_fence(0, win);
    MPI_Get(in, N, MPI_INT, next, 0, N, MPI_INT, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < N; i++)
        wrong += in[i] != to * 10000 - i;
    CHECK_EQ(wrong, 0);
    mine[0] = 0;
    MPI_Barrier(node);
    const int one = 1;
    int before = -1;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 0, MPI_SUM, win);
    MPI_Win_unlock(0, win);
    CHECK(before >= 0 && before < size);
    MPI_Barrier(node);
    if (me == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        wrong += mine[0] != size;
        MPI_Win_unlock(0, win);
    }
    CHECK_EQ(wrong, 0);
    MPI_Barrier(node);
    MPI_Group group, left, right;
    MPI_Comm_group(node, &group);
    MPI_Group_incl(group, 1, &previous, &left);
    MPI_Group_incl(group, 1, &next, &right);
    MPI_Win_post(left, 0, win);
    MPI_Win_start(right, 0, win);
    MPI_Put(out, 10, MPI_INT, next, 5, 10, MPI_INT, win);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    for (int i = 0; i < 10; i++)
        wrong += mine[5 + i] != from * 10000 + i;
    CHECK_EQ(wrong, 0);
    MPI_Group_free(&left);
    MPI_Group_free(&right);
    MPI_Group_free(&group);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    if (argc > 1 && !strcmp(argv[1], "world")) {
        MPI_Win win;
        int *mine;
        MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, WORLD, &mine, &win);
        return finish("rma_shared");
    }
    MPI_Comm_split_type(WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &me);
    MPI_Comm_size(node, &size);
    loads_and_stores();
    segments();
    waiting_for_stores();
    one_sided();
    MPI_Comm_free(&node);
    return finish("rma_shared");
}
