/* Communicators whose creation takes an MPI library many steps of its own between two messages: on one rank, with hints, from
 * groups that overlap, several at a time. A simulator that takes such a rank for one that waits finds a deadlock. */
#include "check.h"

static void use(MPI_Comm comm)
{
    int size, one = 1, sum = 0;
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK_EQ(sum, size);
}

static void with_hints(MPI_Comm from)
{
    MPI_Comm copy;
    MPI_Info hints;
    MPI_Info_create(&hints);
    MPI_Info_set(hints, "color", "green");
    MPI_Comm_dup_with_info(from, hints, &copy);
    MPI_Info_free(&hints);
    use(copy);
    MPI_Comm_free(&copy);
}

/* The same numbers on all ranks. */
static unsigned number(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 16;
}

static void from_groups(int rounds)
{
    MPI_Group world;
    unsigned state = 7;
    int *members = malloc((size_t)ranks * sizeof *members);
    MPI_Comm_group(WORLD, &world);
    for (int round = 0; round < rounds; round++) {
        int count = 0, mine = 0;
        for (int other = 0; other < ranks; other++)
            if (number(&state) % 2) {
                members[count++] = other;
                mine |= other == rank;
            }
        if (!mine)
            continue;
        MPI_Group some;
        MPI_Comm comm;
        MPI_Group_incl(world, count, members, &some);
        MPI_Comm_create_group(WORLD, some, round, &comm);
        use(comm);
        MPI_Comm_free(&comm);
        MPI_Group_free(&some);
    }
    MPI_Group_free(&world);
    free(members);
}

static void at_once(MPI_Comm from)
{
    enum { COUNT = 5 };
    MPI_Comm copies[COUNT];
    MPI_Request requests[COUNT];
    for (int i = 0; i < COUNT; i++)
        MPI_Comm_idup(from, &copies[i], &requests[i]);
    MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < COUNT; i++) {
        use(copies[i]);
        MPI_Comm_free(&copies[i]);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    with_hints(MPI_COMM_SELF);
    with_hints(WORLD);
    from_groups(20);
    at_once(MPI_COMM_SELF);
    at_once(WORLD);
    return finish("comm_steps");
}
