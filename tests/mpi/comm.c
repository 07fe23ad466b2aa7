/* Communicators and groups: dup, idup, split, create, create_group, compare, names, attributes, info; intercommunicators. */
#include "check.h"

static int ring_sum(MPI_Comm comm)
{
    int me, size, value, sum = 0;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &size);
    value = rank;
    for (int i = 0; i < size; i++) {
        sum += value;
        MPI_Sendrecv_replace(&value, 1, MPI_INT, (me + 1) % size, 1, (me + size - 1) % size, 1, comm, MPI_STATUS_IGNORE);
    }
    return sum;
}

static int copies, deletions;
static int copy_attribute(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)key, (void)extra;
    copies++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}
static int delete_attribute(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    deletions++;
    return MPI_SUCCESS;
}

static void duplicates(void)
{
    MPI_Comm copy, later;
    MPI_Request request;
    int result;
    MPI_Comm_dup(WORLD, &copy);
    MPI_Comm_compare(WORLD, copy, &result);
    CHECK_EQ(result, MPI_CONGRUENT);
    MPI_Comm_compare(WORLD, WORLD, &result);
    CHECK_EQ(result, MPI_IDENT);
    MPI_Comm_idup(copy, &later, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_EQ(ring_sum(later), ranks * (ranks - 1) / 2);

    /* Equal envelopes in different communicators do not mix. */
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks, a = 1, b = 2, c = 3, got[3] = {0};
    MPI_Request requests[3];
    MPI_Isend(&a, 1, MPI_INT, next, 5, WORLD, &requests[0]);
    MPI_Isend(&b, 1, MPI_INT, next, 5, copy, &requests[1]);
    MPI_Isend(&c, 1, MPI_INT, next, 5, later, &requests[2]);
    MPI_Recv(&got[2], 1, MPI_INT, previous, 5, later, MPI_STATUS_IGNORE);
    MPI_Recv(&got[1], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, copy, MPI_STATUS_IGNORE);
    MPI_Recv(&got[0], 1, MPI_INT, previous, MPI_ANY_TAG, WORLD, MPI_STATUS_IGNORE);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    CHECK(got[0] == 1 && got[1] == 2 && got[2] == 3);

    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Comm_get_name(WORLD, name, &length);
    CHECK(!strcmp(name, "MPI_COMM_WORLD"));
    MPI_Comm_set_name(copy, "a copy");
    MPI_Comm_get_name(copy, name, &length);
    CHECK(!strcmp(name, "a copy"));
    MPI_Comm_free(&later);
    MPI_Comm_free(&copy);
    CHECK(copy == MPI_COMM_NULL);
}

static void many(void)
{
    /* Many live communicators, then many made and freed. */
    enum { LIVE = 40 };
    MPI_Comm live[LIVE];
    for (int i = 0; i < LIVE; i++)
        MPI_Comm_dup(WORLD, &live[i]);
    for (int i = LIVE - 1; i >= 0; i -= 3) {
        int sum;
        MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, live[i]);
        CHECK_EQ(sum, i * ranks);
    }
    for (int i = 0; i < LIVE; i++)
        MPI_Comm_free(&live[i]);
    for (int i = 0; i < LIVE; i++) {
        MPI_Comm comm;
        MPI_Comm_split(WORLD, (rank + i) % 2, 0, &comm);
        MPI_Comm_free(&comm);
    }
}

static void splits(void)
{
    MPI_Comm part;
    int me, size;
    MPI_Comm_split(WORLD, rank % 3, -rank, &part); /* reversed order */
    MPI_Comm_rank(part, &me);
    MPI_Comm_size(part, &size);
    CHECK_EQ(size, (ranks - rank % 3 + 2) / 3);
    CHECK_EQ(me, size - 1 - rank / 3);
    int sum = 0;
    for (int r = rank % 3; r < ranks; r += 3)
        sum += r;
    CHECK_EQ(ring_sum(part), sum);
    MPI_Comm_free(&part);
    MPI_Comm_split(WORLD, rank % 2 ? MPI_UNDEFINED : 4, 0, &part);
    CHECK_EQ(part == MPI_COMM_NULL, rank % 2);
    if (part != MPI_COMM_NULL)
        MPI_Comm_free(&part);
}

static void groups(void)
{
    MPI_Group world, low, odd, both, either, difference, range;
    MPI_Comm_group(WORLD, &world);
    int size, me, result;
    MPI_Group_size(world, &size);
    MPI_Group_rank(world, &me);
    CHECK_EQ(size, ranks);
    CHECK_EQ(me, rank);
    int half = ranks / 2, *list = allocate((size_t)ranks * sizeof *list);
    for (int i = 0; i < half; i++)
        list[i] = i;
    MPI_Group_incl(world, half, list, &low);
    int odds[1][3] = {{1, ranks - 1, 2}};
    MPI_Group_range_incl(world, 1, odds, &odd);
    MPI_Group_size(odd, &size);
    CHECK_EQ(size, ranks / 2);
    MPI_Group_intersection(low, odd, &both);
    MPI_Group_size(both, &size);
    CHECK_EQ(size, half / 2);
    MPI_Group_union(low, odd, &either);
    MPI_Group_size(either, &size);
    CHECK_EQ(size, half + ranks / 2 - half / 2);
    MPI_Group_difference(world, low, &difference);
    MPI_Group_size(difference, &size);
    CHECK_EQ(size, ranks - half);
    MPI_Group_range_excl(world, 1, odds, &range);
    MPI_Group_size(range, &size);
    CHECK_EQ(size, ranks - ranks / 2);
    MPI_Group_compare(world, low, &result);
    CHECK_EQ(result, MPI_UNEQUAL);
    int in[2] = {0, half - 1}, out[2];
    MPI_Group_translate_ranks(low, 2, in, world, out);
    CHECK(out[0] == 0 && out[1] == half - 1);

    /* Collective over the parent, and over the group alone. */
    MPI_Comm comm;
    MPI_Comm_create(WORLD, odd, &comm);
    CHECK_EQ(comm != MPI_COMM_NULL, rank % 2);
    if (comm != MPI_COMM_NULL) {
        int sum = 0;
        for (int r = 1; r < ranks; r += 2)
            sum += r;
        CHECK_EQ(ring_sum(comm), sum);
        MPI_Comm_free(&comm);
    }
    if (rank < half) {
        MPI_Comm_create_group(WORLD, low, 17, &comm);
        CHECK_EQ(ring_sum(comm), half * (half - 1) / 2);
        MPI_Comm_free(&comm);
    }
    MPI_Group_free(&world);
    MPI_Group_free(&low);
    MPI_Group_free(&odd);
    MPI_Group_free(&both);
    MPI_Group_free(&either);
    MPI_Group_free(&difference);
    MPI_Group_free(&range);
    free(list);
}

static void attributes(void)
{
    int key, flag;
    void *value;
    MPI_Comm copy;
    MPI_Comm_create_keyval(copy_attribute, delete_attribute, &key, NULL);
    MPI_Comm_set_attr(WORLD, key, (void *)100);
    MPI_Comm_dup(WORLD, &copy);
    MPI_Comm_get_attr(copy, key, &value, &flag);
    CHECK(flag && value == (void *)101);
    CHECK_EQ(copies, 1);
    MPI_Comm_free(&copy);
    CHECK_EQ(deletions, 1);
    MPI_Comm_delete_attr(WORLD, key);
    CHECK_EQ(deletions, 2);
    MPI_Comm_get_attr(WORLD, key, &value, &flag);
    CHECK(!flag);
    MPI_Comm_free_keyval(&key);
    MPI_Comm_get_attr(WORLD, MPI_TAG_UB, &value, &flag);
    CHECK(flag && *(int *)value >= 32767);
    int highest = *(int *)value, got = 0;
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, highest, &got, 1, MPI_INT, (rank + ranks - 1) % ranks, highest, WORLD,
                 MPI_STATUS_IGNORE);
    CHECK_EQ(got, (rank + ranks - 1) % ranks);
    MPI_Comm_get_attr(WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag);
    checks_made++;

    MPI_Info info;
    char text[20];
    int keys;
    MPI_Info_create(&info);
    MPI_Info_set(info, "shape", "round");
    MPI_Info_get_nkeys(info, &keys);
    CHECK_EQ(keys, 1);
    MPI_Info_get(info, "shape", 19, text, &flag);
    CHECK(flag && !strcmp(text, "round"));
    MPI_Info_free(&info);
}

static void intercommunicators(void)
{
    if (ranks < 2)
        return;
    MPI_Comm half, inter, merged;
    int upper = rank >= ranks / 2, me, mine, theirs, result;
    MPI_Comm_split(WORLD, upper, 0, &half);
    MPI_Intercomm_create(half, 0, WORLD, upper ? 0 : ranks / 2, 3, &inter);
    MPI_Comm_test_inter(inter, &result);
    CHECK(result);
    MPI_Comm_rank(inter, &me);
    MPI_Comm_size(inter, &mine);
    MPI_Comm_remote_size(inter, &theirs);
    CHECK_EQ(mine + theirs, ranks);
    int first = upper ? 0 : ranks / 2; /* world rank of the remote leader */

    /* Point-to-point addresses the remote group. */
    int got = -1, pairs = mine < theirs ? mine : theirs;
    if (me < pairs) {
        MPI_Status status;
        MPI_Sendrecv(&rank, 1, MPI_INT, me, 0, &got, 1, MPI_INT, MPI_ANY_SOURCE, 0, inter, &status);
        CHECK_EQ(got, first + me);
        CHECK_EQ(status.MPI_SOURCE, me);
    }
    /* Collectives exchange between the groups. */
    int sum, remote_sum = 0;
    for (int r = 0; r < theirs; r++)
        remote_sum += first + r;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, inter);
    CHECK_EQ(sum, remote_sum);
    int *all = allocate((size_t)ranks * sizeof *all);
    MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, inter);
    for (int r = 0; r < theirs; r++)
        CHECK_EQ(all[r], first + r);
    int value = upper ? -1 : me == 0 ? 4711 : -2;
    MPI_Bcast(&value, 1, MPI_INT, upper ? 0 : me == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
    if (upper)
        CHECK_EQ(value, 4711);
    MPI_Barrier(inter);
    free(all);

    MPI_Intercomm_merge(inter, !upper, &merged); /* the upper half comes first */
    MPI_Comm_rank(merged, &me);
    CHECK_EQ(me, upper ? rank - ranks / 2 : rank + (ranks - ranks / 2));
    CHECK_EQ(ring_sum(merged), ranks * (ranks - 1) / 2);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    duplicates();
    many();
    splits();
    groups();
    attributes();
    intercommunicators();
    return finish("comm");
}
