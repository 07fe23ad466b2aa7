/* Random programs of messages, probes and wildcards: p2p_programs PROGRAMS SEED [strict].
 *
 * Each rank knows the whole plan of a program, which follows from the seed: who sends what to whom, itself included, on
 * three communicators at a time, and how each message is received: by MPI_Recv, MPI_Irecv, or after MPI_Probe, Iprobe,
 * Mprobe or Improbe. On one communicator all receives of one program have the same wildcards, and there are as many as
 * messages, so every plan ends. Checked are: the data; that a receive gets the message that was probed; that messages
 * of one rank do not overtake each other; that nothing is left. Some programs make a graph, whose edges travel like
 * that inside the MPI library, or have a collective under way.
 *
 * `strict`: also a receive with the wildcards of the probe gets the message that was probed. MPI does not promise that,
 * and Open MPI's shared memory does not keep it; MPICH uses it in MPI_Dist_graph_create. */
#include "check.h"

/* On one communicator there are synchronous sends and no matched probes: Open MPI 4.1 never acknowledges the one to the other over libfabric. */
enum { COMMS = 3, SYNCHRONOUS = 0, MOST = 24, TAGS = 3, LONGEST = 40000 };
enum how { RECV, IRECV, PROBE, PROBE_AGAIN, IPROBE, IPROBE_AGAIN, MPROBE, IMPROBE, HOWS };

static MPI_Comm comms[COMMS];
static int strict;
static const int lengths[] = {8, 8, 8, 64, 200, 2000, 9000, LONGEST};
#define LENGTHS (int)(sizeof lengths / sizeof lengths[0])

/* One random stream per purpose: all ranks draw the same numbers. */
struct stream {
    uint64_t seed, drawn;
};

static int draw(struct stream *stream, int below)
{
    return (int)(mix(stream->seed, stream->drawn++, 0) % (uint64_t)below);
}

struct message {
    int from, to, comm, tag, length, number; /* the number counts the messages of one rank to another on a communicator */
};

/* A receive, with what came. */
struct taken {
    char *buffer;
    MPI_Request request;
    MPI_Status status;
    int comm, source, tag;
};

static uint64_t content(uint64_t seed, int from, int to, int comm, int number)
{
    return mix(seed, (uint64_t)(from * ranks + to), (uint64_t)(number * COMMS + comm));
}

static void same_message(const MPI_Status *probed, const MPI_Status *received)
{
    int length;
    MPI_Get_count(probed, MPI_BYTE, &length);
    CHECK_STATUS(received, probed->MPI_SOURCE, probed->MPI_TAG, MPI_BYTE, length);
}

/* Receives one message; what is not complete has a request. */
static void take(struct taken *taken, enum how how)
{
    MPI_Comm comm = comms[taken->comm];
    MPI_Status probed;
    MPI_Message message;
    int flag = 0;
    taken->request = MPI_REQUEST_NULL;
    switch (how) {
    case IRECV:
        MPI_Irecv(taken->buffer, LONGEST, MPI_BYTE, taken->source, taken->tag, comm, &taken->request);
        return;
    case MPROBE:
        MPI_Mprobe(taken->source, taken->tag, comm, &message, &probed);
        MPI_Imrecv(taken->buffer, LONGEST, MPI_BYTE, &message, &taken->request);
        return;
    case IMPROBE:
        while (!flag)
            MPI_Improbe(taken->source, taken->tag, comm, &flag, &message, &probed);
        MPI_Mrecv(taken->buffer, LONGEST, MPI_BYTE, &message, &taken->status);
        same_message(&probed, &taken->status);
        return;
    case PROBE:
    case PROBE_AGAIN:
        MPI_Probe(taken->source, taken->tag, comm, &probed);
        break;
    case IPROBE:
    case IPROBE_AGAIN:
        while (!flag)
            MPI_Iprobe(taken->source, taken->tag, comm, &flag, &probed);
        break;
    default:
        MPI_Recv(taken->buffer, LONGEST, MPI_BYTE, taken->source, taken->tag, comm, &taken->status);
        return;
    }
    int again = how == PROBE_AGAIN || how == IPROBE_AGAIN;
    int source = again ? taken->source : probed.MPI_SOURCE, tag = again ? taken->tag : probed.MPI_TAG;
    MPI_Recv(taken->buffer, LONGEST, MPI_BYTE, source, tag, comm, &taken->status);
    same_message(again && !strict ? &taken->status : &probed, &taken->status);
}

/* The edges that each rank names begin anywhere: the library tells their ends. */
static void graph(struct stream *stream)
{
    enum { EDGES = 3 };
    int nodes[EDGES], degrees[EDGES], ends[EDGES], in = 0, out = 0, weighted;
    int *from = allocate(sizeof(int) * (size_t)ranks * EDGES), *to = allocate(sizeof(int) * (size_t)ranks * EDGES);
    for (int i = 0; i < ranks; i++)
        for (int e = 0; e < EDGES; e++) {
            from[i * EDGES + e] = (i + e) % ranks;
            to[i * EDGES + e] = draw(stream, ranks);
        }
    for (int e = 0; e < EDGES; e++) {
        nodes[e] = from[rank * EDGES + e];
        degrees[e] = 1;
        ends[e] = to[rank * EDGES + e];
    }
    MPI_Comm made;
    MPI_Dist_graph_create(WORLD, EDGES, nodes, degrees, ends, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made);
    MPI_Dist_graph_neighbors_count(made, &in, &out, &weighted);
    int *sources = allocate(sizeof(int) * (size_t)in), *targets = allocate(sizeof(int) * (size_t)out);
    MPI_Dist_graph_neighbors(made, in, sources, MPI_UNWEIGHTED, out, targets, MPI_UNWEIGHTED);
    for (int i = 0; i < ranks * EDGES; i++) {
        in -= to[i] == rank;
        out -= from[i] == rank;
    }
    CHECK_EQ(in, 0);
    CHECK_EQ(out, 0);
    for (int other = 0; other < ranks; other++) {
        int incoming = 0, outgoing = 0, all_in = 0, all_out = 0;
        for (int i = 0; i < ranks * EDGES; i++) {
            all_in += to[i] == rank;
            all_out += from[i] == rank;
            incoming += from[i] == other && to[i] == rank;
            outgoing += from[i] == rank && to[i] == other;
        }
        for (int i = 0; i < all_in; i++)
            incoming -= sources[i] == other;
        for (int i = 0; i < all_out; i++)
            outgoing -= targets[i] == other;
        CHECK_EQ(incoming, 0);
        CHECK_EQ(outgoing, 0);
    }
    free(sources);
    free(targets);
    free(from);
    free(to);
    MPI_Comm_free(&made);
}

static void program(uint64_t seed)
{
    struct stream stream = {seed, 0};
    struct message plan[MOST];
    int messages = 1 + draw(&stream, MOST), any_source[COMMS], any_tag[COMMS];
    /* In every second program most messages go to few ranks. */
    int few = draw(&stream, 2) ? ranks : 1 + draw(&stream, ranks), own = draw(&stream, 3);
    for (int c = 0; c < COMMS; c++) {
        any_source[c] = draw(&stream, 3) > 0;
        any_tag[c] = draw(&stream, 2);
    }
    for (int m = 0; m < messages; m++) {
        struct message *message = &plan[m];
        int from = draw(&stream, ranks), to = draw(&stream, few);
        *message = (struct message){from, draw(&stream, 4) < own ? from : to, draw(&stream, COMMS), draw(&stream, TAGS),
                                    lengths[draw(&stream, LENGTHS)], 0};
        for (int earlier = 0; earlier < m; earlier++)
            message->number += plan[earlier].from == message->from && plan[earlier].to == message->to && plan[earlier].comm == message->comm;
    }
    int collective = draw(&stream, 4) == 0, sum = 0;
    MPI_Request barrier = MPI_REQUEST_NULL, sends[MOST];
    struct taken taken[MOST];
    enum how hows[MOST];
    char *out[MOST];
    int sent = 0, received = 0;

    struct stream mine = {mix(seed, (uint64_t)rank, 7), 0};
    if (collective)
        MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, WORLD, &barrier);
    /* What is sent, between the receives that may be posted early. */
    for (int m = 0; m < messages; m++) {
        struct message *message = &plan[m];
        if (message->to == rank) {
            struct taken *next = &taken[received];
            *next = (struct taken){.comm = message->comm,
                                   .source = any_source[message->comm] ? MPI_ANY_SOURCE : message->from,
                                   .tag = any_tag[message->comm] ? MPI_ANY_TAG : message->tag,
                                   .buffer = allocate(LONGEST)};
            hows[received] = (enum how)draw(&mine, message->comm == SYNCHRONOUS ? MPROBE : HOWS);
            if (hows[received] == IRECV && draw(&mine, 2)) {
                take(next, IRECV);
                hows[received] = HOWS; /* done */
            }
            received++;
        }
        if (message->from == rank) {
            out[sent] = allocate((size_t)message->length);
            fill(out[sent], (size_t)message->length, content(seed, rank, message->to, message->comm, message->number));
            memcpy(out[sent], &message->number, sizeof message->number);
            if (message->comm != SYNCHRONOUS || draw(&mine, 3))
                MPI_Isend(out[sent], message->length, MPI_BYTE, message->to, message->tag, comms[message->comm], &sends[sent]);
            else
                MPI_Issend(out[sent], message->length, MPI_BYTE, message->to, message->tag, comms[message->comm], &sends[sent]);
            sent++;
        }
    }
    int order[MOST], ordered = 0;
    for (int i = 0; i < received; i++)
        if (hows[i] == HOWS)
            order[ordered++] = i;
    for (int i = 0; i < received; i++)
        if (hows[i] != HOWS) {
            take(&taken[i], hows[i]);
            order[ordered++] = i;
        }
    for (int i = 0; i < received; i++)
        if (taken[i].request != MPI_REQUEST_NULL)
            MPI_Wait(&taken[i].request, &taken[i].status);
    MPI_Waitall(sent, sends, MPI_STATUSES_IGNORE);

    /* In the order in which the receives were posted. */
    unsigned char seen[MOST] = {0};
    for (int i = 0; i < received; i++) {
        struct taken *one = &taken[order[i]];
        int length, number, from = one->status.MPI_SOURCE, tag = one->status.MPI_TAG;
        memcpy(&number, one->buffer, sizeof number);
        MPI_Get_count(&one->status, MPI_BYTE, &length);
        int found = -1, overtaken = 0;
        for (int m = 0; m < messages; m++) {
            if (plan[m].from != from || plan[m].to != rank || plan[m].comm != one->comm)
                continue;
            if (plan[m].number == number)
                found = m;
            /* An earlier message that this receive would have matched as well. */
            overtaken += plan[m].number < number && !seen[m] && (one->tag == MPI_ANY_TAG || plan[m].tag == tag);
        }
        CHECK(found >= 0);
        CHECK_EQ(seen[found]++, 0);
        CHECK_EQ(overtaken, 0);
        CHECK_STATUS(&one->status, plan[found].from, plan[found].tag, MPI_BYTE, plan[found].length);
        CHECK(one->source == MPI_ANY_SOURCE || one->source == from);
        CHECK(one->tag == MPI_ANY_TAG || one->tag == tag);
        uint64_t wanted = content(seed, from, rank, one->comm, number);
        char *expected = allocate((size_t)length);
        fill(expected, (size_t)length, wanted);
        memcpy(expected, &number, sizeof number);
        CHECK(memcmp(expected, one->buffer, (size_t)length) == 0);
        free(expected);
        free(one->buffer);
    }
    for (int i = 0; i < sent; i++)
        free(out[i]);
    if (collective) {
        MPI_Wait(&barrier, MPI_STATUS_IGNORE);
        CHECK_EQ(sum, ranks * (ranks - 1) / 2);
    }
    if (draw(&stream, 4) == 0)
        graph(&stream);
    /* Only now may the next program's messages come. */
    MPI_Barrier(WORLD);
    int left = 0;
    for (int c = 0; c < COMMS; c++) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comms[c], &left, MPI_STATUS_IGNORE);
        CHECK(!left);
    }
    MPI_Barrier(WORLD);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int programs = argc > 1 ? atoi(argv[1]) : 200;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    strict = argc > 3 && !strcmp(argv[3], "strict");
    for (int c = 0; c < COMMS; c++)
        MPI_Comm_dup(WORLD, &comms[c]);
    for (int p = 0; p < programs; p++)
        program(mix(seed, (uint64_t)p, 3));
    for (int c = 0; c < COMMS; c++)
        MPI_Comm_free(&comms[c]);
    return finish("p2p_programs");
}
