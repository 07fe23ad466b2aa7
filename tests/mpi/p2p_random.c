/* Random traffic from one seed: in every round each rank sends to random ranks with random lengths, tags, modes and ways to
 * receive. Every rank can compute what everybody does, so every message is checked. */
#include "check.h"

enum { ROUNDS = 12, EACH = 10, LONGEST = 40000 };

struct message { int to, tag, length, synchronous; uint64_t seed; };

static struct message plan(int round, int from, int i)
{
    uint64_t a = mix((uint64_t)round, (uint64_t)from, (uint64_t)i), b = mix(a, 1, 1), c = mix(a, 2, 2);
    static const int scale[] = {16, 100, 1000, 9000, LONGEST};
    struct message m;
    m.to = (int)(a % (uint64_t)ranks);
    m.tag = i; /* per sender and round: exact matching stays unique */
    m.length = (int)(b % (uint64_t)scale[c % 5]);
    m.synchronous = (c >> 8) % 4 == 0;
    m.seed = mix(a, b, c);
    return m;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    char *out = allocate((size_t)EACH * LONGEST);
    char *scratch = allocate(LONGEST);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request sends[EACH];
        int expected = 0;
        for (int from = 0; from < ranks; from++)
            for (int i = 0; i < EACH; i++)
                expected += plan(round, from, i).to == rank;
        int posted = 0, early = expected / 2; /* half of the receives are posted before, half take what is there */
        MPI_Request *receives = allocate((size_t)early * sizeof *receives);
        struct message *wanted = allocate((size_t)early * sizeof *wanted);
        char **buffers = allocate((size_t)early * sizeof *buffers);
        int tag_base = round * 100;
        for (int from = 0; from < ranks && posted < early; from++)
            for (int i = 0; i < EACH && posted < early; i++) {
                struct message m = plan(round, from, i);
                if (m.to != rank)
                    continue;
                wanted[posted] = m;
                buffers[posted] = allocate((size_t)m.length);
                MPI_Irecv(buffers[posted], m.length, MPI_BYTE, from, tag_base + m.tag, WORLD, &receives[posted]);
                posted++;
            }
        MPI_Barrier(WORLD); /* wildcards below see no message that a posted receive could still claim */
        for (int i = 0; i < EACH; i++) {
            struct message m = plan(round, rank, i);
            fill(out + (size_t)i * LONGEST, (size_t)m.length, m.seed);
            (m.synchronous ? MPI_Issend : MPI_Isend)(out + (size_t)i * LONGEST, m.length, MPI_BYTE, m.to, tag_base + m.tag, WORLD,
                                                     &sends[i]);
        }
        for (int k = early; k < expected; k++) {
            MPI_Status status;
            int count;
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &count);
            struct message m = plan(round, status.MPI_SOURCE, status.MPI_TAG - tag_base);
            CHECK_EQ(m.to, rank);
            CHECK_EQ(m.length, count);
            MPI_Recv(scratch, count, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, WORLD, MPI_STATUS_IGNORE);
            CHECK_FILL(scratch, (size_t)count, m.seed);
        }
        MPI_Waitall(early, receives, MPI_STATUSES_IGNORE);
        for (int k = 0; k < early; k++) {
            CHECK_FILL(buffers[k], (size_t)wanted[k].length, wanted[k].seed);
            free(buffers[k]);
        }
        MPI_Waitall(EACH, sends, MPI_STATUSES_IGNORE);
        MPI_Barrier(WORLD);
        free(receives);
        free(wanted);
        free(buffers);
    }
    free(scratch);
    free(out);
    return finish("p2p_random");
}
