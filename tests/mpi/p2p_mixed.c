/* Random messages and collectives from one seed (an argument gives another one), all under way at a time: point-to-point of
 * all kinds, blocking or not, over several communicators, with derived types on either side, received by exact or any
 * source, early or late; collectives of all kinds between them; and all of it completed in any way. Every rank knows
 * what everybody does, so every byte is checked, and so are the gaps of types.
 *
 * A second argument: how many threads of each rank do so at the same time, each with communicators of its own. */
#define CHECKS_OF_THREADS
#include "check.h"
#include <pthread.h>
#include <unistd.h>

enum { ROUNDS = 6, ITEMS = 40, COMMS = 4, MOST_THREADS = 8, LONGEST = 200000, MOST_PIECES = 24, MOST_RANKS = 64, BUFFERED = 4 << 20 };

enum kind {
    MESSAGE, EXCHANGE, BARRIER, BCAST, REDUCE, ALLREDUCE, SCAN, EXSCAN, GATHERV, SCATTERV, ALLGATHERV, ALLTOALLV, REDUCE_SCATTER,
    KINDS
};
enum send { SEND_NOW, SEND_PLAIN, SEND_SYNCHRONOUS, SEND_BUFFERED, SEND_PERSISTENT, SEND_SYNCHRONOUS_NOW, SENDS };
enum receive { RECEIVE_EXACT, RECEIVE_ANY, RECEIVE_PERSISTENT, RECEIVE_NOW, RECEIVES };

/* What all ranks know of an item. */
struct item {
    enum kind kind;
    int comm, from, to, root, tag, length, late, blocking;
    enum send send;
    enum receive receive;
    uint64_t seed;
};

/* Where the bytes of a message lie in memory. */
struct layout {
    MPI_Datatype type;
    int pieces, extent;
    int lengths[MOST_PIECES], places[MOST_PIECES];
};

/* What this rank has begun: memory that the library may use until the end of the round, and what has to be in it then. */
struct part {
    const struct item *item;
    struct layout layout;
    char *sent, *received;
    int receives;
    int *counts, *displacements; /* of v-collectives: mine, then those of the other side */
    MPI_Request request;
};

/* Of each thread. */
static _Thread_local uint64_t seed;
static _Thread_local long long draws, common;
static _Thread_local uint64_t stream; /* 0: what all ranks draw alike */
static _Thread_local MPI_Comm *comms;

static MPI_Comm all_comms[MOST_THREADS][COMMS];
static int comm_rank[COMMS], comm_size[COMMS], world_of[COMMS][MOST_RANKS];
static uint64_t first_seed;
static long long checks_of[MOST_THREADS];

static uint64_t draw(uint64_t below)
{
    return mix(seed, stream, (uint64_t)++draws) % below;
}

static int draw_length(int longest)
{
    static const int scale[] = {9, 100, 1000, 9000, 40000, LONGEST};
    int length = draw(4) ? (int)draw((uint64_t)scale[draw(6)]) : sizes_small[draw(SIZES_SMALL)];
    return length < longest ? length : longest;
}

static struct item plan_item(int round, int at)
{
    struct item item = {.kind = draw(3) ? MESSAGE : (enum kind)draw(KINDS), .comm = (int)draw(COMMS)};
    item.seed = mix(seed, (uint64_t)round, (uint64_t)at);
    item.length = draw_length(item.kind == MESSAGE ? LONGEST : 20000);
    item.blocking = draw(4) == 0;
    item.send = (enum send)draw(SENDS);
    item.receive = (enum receive)draw(RECEIVES);
    /* Ranks in MPI_COMM_WORLD: those of a part of it may be in different ones, and meet nobody then. */
    item.from = (int)draw((uint64_t)ranks);
    item.to = (int)draw((uint64_t)ranks);
    item.root = (int)draw(1000);
    item.tag = (int)draw(3);
    /* Messages of one sender, receiver, communicator and tag are received in one way, in the order in which they are sent. */
    item.late = mix(mix(seed, (uint64_t)round, (uint64_t)item.tag), (uint64_t)(item.from * MOST_RANKS + item.to), (uint64_t)item.comm) % 4 == 0;
    if (item.receive == RECEIVE_ANY && !item.late)
        item.tag = 100 + at;
    if (item.send == SEND_BUFFERED)
        item.length %= 10000;
    /* Nobody can wait for itself, or for who comes later. */
    if (item.from == item.to || item.late) {
        item.send = item.send == SEND_PLAIN ? SEND_NOW : item.send == SEND_SYNCHRONOUS ? SEND_SYNCHRONOUS_NOW : item.send;
        item.receive = item.receive == RECEIVE_NOW ? RECEIVE_EXACT : item.receive;
    }
    /* Open MPI 4.1 never acknowledges a synchronous one that MPI_Mprobe has found. */
    if (item.late && item.send == SEND_SYNCHRONOUS_NOW)
        item.send = SEND_NOW;
    return item;
}

/* Bytes that lie in some order of places, with gaps. */
static struct layout draw_layout(int length, int may_have_gaps)
{
    struct layout l = {.type = MPI_BYTE, .pieces = 1, .extent = length, .lengths = {length}};
    if (!may_have_gaps || length < 2 || draw(3))
        return l;
    int left = length, place = (int)draw(5);
    l.pieces = 0;
    while (left > 0) {
        int piece = l.pieces == MOST_PIECES - 1 ? left : 1 + (int)draw((uint64_t)left);
        l.lengths[l.pieces] = piece;
        l.places[l.pieces++] = place;
        place += piece + (int)draw(40);
        left -= piece;
    }
    l.extent = place + 8;
    MPI_Aint places[MOST_PIECES];
    for (int i = 0; i < l.pieces; i++)
        places[i] = l.places[i];
    MPI_Type_create_hindexed(l.pieces, l.lengths, places, MPI_BYTE, &l.type);
    MPI_Type_commit(&l.type);
    return l;
}

static int count_of(const struct layout *l, int length)
{
    return l->type == MPI_BYTE ? length : 1;
}

static void free_layout(struct layout *l)
{
    if (l->type != MPI_BYTE)
        MPI_Type_free(&l->type);
}

/* Memory with the message in its places, or with none. */
static char *memory_of(const struct layout *l, int length, uint64_t what, int filled)
{
    char *memory = allocate((size_t)l->extent + 1), *bytes = allocate((size_t)length);
    memset(memory, 0x5a, (size_t)l->extent + 1);
    if (filled) {
        fill(bytes, (size_t)length, what);
        for (int i = 0, at = 0; i < l->pieces; at += l->lengths[i++])
            memcpy(memory + l->places[i], bytes + at, (size_t)l->lengths[i]);
    }
    free(bytes);
    return memory;
}

static void check_memory(const struct layout *l, const char *memory, int length, const struct item *item)
{
    char *expected = memory_of(l, length, item->seed, 1);
    checks_made++;
    for (int i = 0; i <= l->extent; i++)
        if (memory[i] != expected[i])
            fail_at(__FILE__, __LINE__, "a message", "byte %d of %d (%d in %d pieces) is %d, expected %d: %d to %d, tag %d, comm %d, send %d, receive %d, late %d, seed %llu",
                    i, l->extent, length, l->pieces, memory[i], expected[i], item->from, item->to, item->tag, item->comm, item->send,
                    item->receive, item->late, (unsigned long long)seed);
    free(expected);
}

/* Whom a rank of the world is in a communicator, or -1. */
static int rank_in(int comm, int world)
{
    for (int i = 0; i < comm_size[comm]; i++)
        if (world_of[comm][i] == world)
            return i;
    return -1;
}

static void begin_send(struct part *p)
{
    const struct item *m = p->item;
    MPI_Comm comm = comms[m->comm];
    int to = rank_in(m->comm, m->to);
    /* Open MPI 4.1 sends other bytes when a persistent send has a type that does not begin at 0. */
    p->layout = draw_layout(m->length, m->send != SEND_PERSISTENT);
    p->sent = memory_of(&p->layout, m->length, m->seed, 1);
    int count = count_of(&p->layout, m->length);
    MPI_Datatype type = p->layout.type;
    switch (m->send) {
    case SEND_NOW: MPI_Isend(p->sent, count, type, to, m->tag, comm, &p->request); break;
    case SEND_PLAIN: MPI_Send(p->sent, count, type, to, m->tag, comm); break;
    case SEND_SYNCHRONOUS: MPI_Ssend(p->sent, count, type, to, m->tag, comm); break;
    case SEND_SYNCHRONOUS_NOW: MPI_Issend(p->sent, count, type, to, m->tag, comm, &p->request); break;
    case SEND_BUFFERED: MPI_Ibsend(p->sent, count, type, to, m->tag, comm, &p->request); break;
    case SEND_PERSISTENT:
        MPI_Send_init(p->sent, count, type, to, m->tag, comm, &p->request);
        MPI_Start(&p->request);
        break;
    default: break;
    }
}

static void begin_receive(struct part *p)
{
    const struct item *m = p->item;
    MPI_Comm comm = comms[m->comm];
    int from = rank_in(m->comm, m->from);
    MPI_Status status;
    p->layout = draw_layout(m->length, 1);
    p->received = memory_of(&p->layout, m->length, 0, 0);
    p->receives = 1;
    int count = count_of(&p->layout, m->length);
    MPI_Datatype type = p->layout.type;
    switch (m->receive) {
    case RECEIVE_EXACT: MPI_Irecv(p->received, count, type, from, m->tag, comm, &p->request); break;
    case RECEIVE_ANY: MPI_Irecv(p->received, count, type, MPI_ANY_SOURCE, m->tag, comm, &p->request); break;
    case RECEIVE_PERSISTENT:
        MPI_Recv_init(p->received, count, type, from, m->tag, comm, &p->request);
        MPI_Start(&p->request);
        break;
    case RECEIVE_NOW:
        MPI_Recv(p->received, count, type, from, m->tag, comm, &status);
        CHECK_STATUS(&status, from, m->tag, type, m->length ? count : 0);
        break;
    default: break;
    }
}

static void exchange(struct part *p, int other)
{
    const struct item *m = p->item;
    int to = rank_in(m->comm, other), tag = 1000;
    p->layout = draw_layout(m->length, 1);
    p->sent = memory_of(&p->layout, m->length, m->seed, 1);
    p->received = memory_of(&p->layout, m->length, 0, 0);
    p->receives = 1;
    int count = count_of(&p->layout, m->length);
    MPI_Sendrecv(p->sent, count, p->layout.type, to, tag, p->received, count, p->layout.type, to, tag, comms[m->comm], MPI_STATUS_IGNORE);
}

/* Bytes from one rank to another in a v-collective. */
static int share(const struct item *m, int from, int to)
{
    return (int)(mix(m->seed, (uint64_t)from + 1, (uint64_t)to + 1) % (uint64_t)(m->length + 1));
}

static uint64_t share_seed(const struct item *m, int from, int to)
{
    return mix(m->seed, (uint64_t)from + 100, (uint64_t)to + 200);
}

/* Counts and places of what goes between this rank and the others; their sum. */
static int lay_out(const struct item *m, int *counts, int *places, int receiving, int mine)
{
    int size = comm_size[m->comm], total = 0, gap = (int)(m->seed % 5);
    for (int i = 0; i < size; i++) {
        int from = receiving ? i : mine, to = receiving ? mine : i;
        counts[i] = share(m, from, to);
        places[i] = total;
        total += counts[i] + gap;
    }
    return total;
}

static void begin_collective(struct part *p)
{
    const struct item *m = p->item;
    MPI_Comm comm = comms[m->comm];
    int size = comm_size[m->comm], me = comm_rank[m->comm], root = m->root % size, words = m->length / 8, sending, receiving;
    p->counts = allocate(2 * (size_t)size * sizeof(int));
    p->displacements = allocate(2 * (size_t)size * sizeof(int));
    int *sends = p->counts, *receives = p->counts + size, *from = p->displacements, *to = p->displacements + size;
    /* What is the same for all: from me to rank -1, and from each to all in MPI_Gatherv and MPI_Allgatherv. */
    switch (m->kind) {
    case BARRIER: MPI_Ibarrier(comm, &p->request); return;
    case BCAST:
        p->layout = draw_layout(m->length, 1);
        p->received = memory_of(&p->layout, m->length, m->seed, me == root);
        MPI_Ibcast(p->received, count_of(&p->layout, m->length), p->layout.type, root, comm, &p->request);
        return;
    case REDUCE:
    case ALLREDUCE:
    case SCAN:
    case EXSCAN:
        p->sent = allocate((size_t)words * 8);
        p->received = allocate((size_t)words * 8);
        for (int i = 0; i < words; i++)
            ((int64_t *)(void *)p->sent)[i] = (int64_t)mix(m->seed, (uint64_t)me, (uint64_t)i) >> 8;
        if (m->kind == REDUCE)
            MPI_Ireduce(p->sent, p->received, words, MPI_INT64_T, MPI_MAX, root, comm, &p->request);
        else if (m->kind == ALLREDUCE)
            MPI_Iallreduce(p->sent, p->received, words, MPI_INT64_T, MPI_SUM, comm, &p->request);
        else if (m->kind == SCAN)
            MPI_Iscan(p->sent, p->received, words, MPI_INT64_T, MPI_SUM, comm, &p->request);
        else
            MPI_Iexscan(p->sent, p->received, words, MPI_INT64_T, MPI_SUM, comm, &p->request);
        return;
    case REDUCE_SCATTER: {
        int total = 0, mine;
        for (int i = 0; i < size; i++) {
            sends[i] = share(m, i, i) / 8;
            from[i] = total;
            total += sends[i];
        }
        mine = sends[me];
        p->sent = allocate((size_t)total * 8);
        p->received = allocate((size_t)mine * 8);
        for (int i = 0; i < total; i++)
            ((int64_t *)(void *)p->sent)[i] = (int64_t)mix(m->seed, (uint64_t)me, (uint64_t)i) >> 8;
        MPI_Ireduce_scatter(p->sent, p->received, sends, MPI_INT64_T, MPI_SUM, comm, &p->request);
        return;
    }
    default: break;
    }
    /* A gather is to its root, an allgather to rank 0, as far as lengths go; a scatter is from its root. */
    int target = m->kind == GATHERV ? root : 0;
    sending = m->kind == ALLTOALLV || (m->kind == SCATTERV && me == root) ? lay_out(m, sends, from, 0, me)
              : m->kind == SCATTERV                                      ? 0
                                                                         : share(m, me, target);
    receiving = m->kind == SCATTERV ? share(m, root, me) : lay_out(m, receives, to, 1, m->kind == ALLTOALLV ? me : target);
    p->sent = allocate((size_t)sending);
    p->received = allocate((size_t)receiving);
    memset(p->received, 0x5a, (size_t)receiving);
    if (m->kind == ALLTOALLV || (m->kind == SCATTERV && me == root))
        for (int i = 0; i < size; i++)
            fill(p->sent + from[i], (size_t)sends[i], share_seed(m, me, i));
    else if (m->kind != SCATTERV)
        fill(p->sent, (size_t)sending, share_seed(m, me, target));
    if (m->kind == GATHERV)
        MPI_Igatherv(p->sent, sending, MPI_BYTE, p->received, receives, to, MPI_BYTE, root, comm, &p->request);
    else if (m->kind == SCATTERV)
        MPI_Iscatterv(p->sent, sends, from, MPI_BYTE, p->received, receiving, MPI_BYTE, root, comm, &p->request);
    else if (m->kind == ALLGATHERV)
        MPI_Iallgatherv(p->sent, sending, MPI_BYTE, p->received, receives, to, MPI_BYTE, comm, &p->request);
    else
        MPI_Ialltoallv(p->sent, sends, from, MPI_BYTE, p->received, receives, to, MPI_BYTE, comm, &p->request);
}

static void check_words(const struct item *m, const char *received, int first, int words, int upto, int maximum)
{
    checks_made++;
    for (int i = 0; i < words; i++) {
        int64_t expected = 0;
        for (int k = 0; k < upto; k++) {
            int64_t one = (int64_t)mix(m->seed, (uint64_t)k, (uint64_t)(first + i)) >> 8;
            expected = k == 0 ? one : maximum ? (one > expected ? one : expected) : expected + one;
        }
        if (((const int64_t *)(const void *)received)[i] != expected)
            fail_at(__FILE__, __LINE__, "a reduction", "word %d of %d is wrong: kind %d, comm %d, seed %llu", i, words, m->kind, m->comm,
                    (unsigned long long)seed);
    }
}

static void check_part(struct part *p)
{
    const struct item *m = p->item;
    int size = comm_size[m->comm], me = comm_rank[m->comm], root = m->root % size, words = m->length / 8;
    const int *receives = p->counts + size, *to = p->displacements + size;
    switch (m->kind) {
    case MESSAGE:
    case EXCHANGE:
        if (p->receives)
            check_memory(&p->layout, p->received, m->length, m);
        break;
    case BARRIER: break;
    case BCAST: check_memory(&p->layout, p->received, m->length, m); break;
    case REDUCE:
        if (me == root)
            check_words(m, p->received, 0, words, size, 1);
        break;
    case ALLREDUCE: check_words(m, p->received, 0, words, size, 0); break;
    case SCAN: check_words(m, p->received, 0, words, me + 1, 0); break;
    case EXSCAN:
        if (me > 0)
            check_words(m, p->received, 0, words, me, 0);
        break;
    case REDUCE_SCATTER: check_words(m, p->received, p->displacements[me], p->counts[me], size, 0); break;
    case SCATTERV: CHECK_FILL(p->received, (size_t)share(m, root, me), share_seed(m, root, me)); break;
    default:
        for (int i = 0; i < size && (m->kind != GATHERV || me == root); i++) {
            int target = m->kind == ALLTOALLV ? me : m->kind == GATHERV ? root : 0;
            CHECK_FILL(p->received + to[i], (size_t)receives[i], share_seed(m, i, target));
        }
    }
}

static void free_part(struct part *p)
{
    /* Persistent ones. */
    if (p->request != MPI_REQUEST_NULL)
        MPI_Request_free(&p->request);
    if (p->item->kind == MESSAGE || p->item->kind == EXCHANGE || p->item->kind == BCAST)
        free_layout(&p->layout);
    free(p->sent);
    free(p->received);
    free(p->counts);
    free(p->displacements);
}

static void do_something_else(struct part *parts, int count)
{
    int flag;
    switch (draw(8)) {
    case 0:
        for (volatile long i = (long)draw(100000); i > 0; i--)
            ;
        break;
    case 1: usleep((useconds_t)draw(30)); break;
    case 2: MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comms[draw(COMMS)], &flag, MPI_STATUS_IGNORE); break;
    case 3:
        if (count)
            MPI_Test(&parts[draw((uint64_t)count)].request, &flag, MPI_STATUS_IGNORE);
        break;
    default: break;
    }
}

/* Takes what nobody has posted a receive for, as it comes. */
static void receive_late(const struct item *items, int comm)
{
    char seen[ITEMS];
    int left = 0;
    for (int i = 0; i < ITEMS; i++) {
        const struct item *m = &items[i];
        seen[i] = !(m->kind == MESSAGE && m->comm == comm && m->late && m->to == rank && rank_in(comm, m->from) >= 0);
        left += !seen[i];
    }
    for (; left > 0; left--) {
        MPI_Status status;
        MPI_Message message;
        int matched = draw(2) == 0, count, at = 0, flag = 0;
        if (!matched)
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comms[comm], &status);
        else if (draw(2))
            MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comms[comm], &message, &status);
        else
            while (!flag)
                MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comms[comm], &flag, &message, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        /* The first of those that it can be. */
        while (at < ITEMS && (seen[at] || rank_in(comm, items[at].from) != status.MPI_SOURCE || items[at].tag != status.MPI_TAG))
            at++;
        CHECK(at < ITEMS);
        seen[at] = 1;
        CHECK_EQ(count, items[at].length);
        /* Open MPI 5 does not unpack types with gaps in MPI_Mrecv. */
        struct layout l = draw_layout(count, !matched);
        char *memory = memory_of(&l, count, 0, 0);
        if (matched)
            MPI_Mrecv(memory, count, MPI_BYTE, &message, &status);
        else
            MPI_Recv(memory, count_of(&l, count), l.type, status.MPI_SOURCE, status.MPI_TAG, comms[comm], &status);
        check_memory(&l, memory, count, &items[at]);
        free(memory);
        free_layout(&l);
    }
}

static void complete(struct part *parts, int count)
{
    MPI_Request *requests = allocate((size_t)count * sizeof *requests);
    int *indices = allocate((size_t)count * sizeof *indices), some = 0, done = 0;
    for (int i = 0; i < count; i++)
        requests[i] = parts[i].request;
    switch (draw(5)) {
    case 0:
        while (some != MPI_UNDEFINED)
            MPI_Waitany(count, requests, &some, MPI_STATUS_IGNORE);
        break;
    case 1:
        while (some != MPI_UNDEFINED)
            MPI_Waitsome(count, requests, &some, indices, MPI_STATUSES_IGNORE);
        break;
    case 2:
        while (!done)
            MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
        break;
    case 3:
        while (some != MPI_UNDEFINED)
            MPI_Testsome(count, requests, &some, indices, MPI_STATUSES_IGNORE);
        break;
    default: MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < count; i++)
        parts[i].request = requests[i];
    free(requests);
    free(indices);
}

static void play(int round)
{
    struct item items[ITEMS];
    struct part parts[2 * ITEMS];
    int count = 0, sink;
    stream = 0;
    draws = common;
    for (int i = 0; i < ITEMS; i++)
        items[i] = plan_item(round, i);
    common = draws;
    stream = (uint64_t)rank + 1;
    /* Nobody sends this one. */
    MPI_Request nothing;
    MPI_Irecv(&sink, 1, MPI_INT, MPI_ANY_SOURCE, 5000, comms[0], &nothing);
    for (int i = 0; i < ITEMS; i++) {
        const struct item *m = &items[i];
        int sends = m->from == rank && rank_in(m->comm, m->to) >= 0, receives = m->to == rank && rank_in(m->comm, m->from) >= 0;
        struct part part = {.item = m, .request = MPI_REQUEST_NULL};
        if (m->kind == MESSAGE) {
            /* To itself: who receives first, so that a send need not wait. */
            if (receives && !m->late) {
                parts[count] = part;
                begin_receive(&parts[count++]);
            }
            if (sends) {
                parts[count] = part;
                begin_send(&parts[count++]);
            }
        } else if (m->kind == EXCHANGE) {
            if (sends || receives) {
                parts[count] = part;
                exchange(&parts[count++], sends ? m->to : m->from);
            }
        } else {
            parts[count] = part;
            begin_collective(&parts[count]);
            if (m->blocking)
                MPI_Wait(&parts[count].request, MPI_STATUS_IGNORE);
            count++;
        }
        do_something_else(parts, count);
    }
    for (int comm = 0; comm < COMMS; comm++)
        receive_late(items, comm);
    complete(parts, count);
    for (int i = 0; i < count; i++) {
        check_part(&parts[i]);
        free_part(&parts[i]);
    }
    MPI_Status status;
    int cancelled;
    MPI_Cancel(&nothing);
    MPI_Wait(&nothing, &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(cancelled);
}

static void *work(void *number)
{
    intptr_t thread = (intptr_t)number;
    seed = first_seed + 1000000 * (uint64_t)thread;
    comms = all_comms[thread];
    for (int round = 0; round < ROUNDS; round++) {
        play(round);
        /* Wildcards of one round see nothing of the next one. */
        MPI_Barrier(comms[0]);
        if (draw(2))
            usleep((useconds_t)draw(50));
    }
    checks_of[thread] = checks_made;
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 2 ? atoi(argv[2]) : 1, given;
    first_seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    if (threads > 1)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    CHECK(ranks <= MOST_RANKS && threads > 0 && threads <= MOST_THREADS);
    void *space = allocate(BUFFERED);
    int bytes;
    MPI_Buffer_attach(space, BUFFERED);
    for (int t = 0; t < threads; t++) {
        comms = all_comms[t];
        MPI_Comm_dup(WORLD, &comms[0]);
        MPI_Comm_dup(WORLD, &comms[1]);
        MPI_Comm_split(WORLD, rank % 2, -rank, &comms[2]);
        MPI_Comm_split(WORLD, 0, -rank, &comms[3]);
    }
    for (int i = 0; i < COMMS; i++) {
        MPI_Comm_rank(comms[i], &comm_rank[i]);
        MPI_Comm_size(comms[i], &comm_size[i]);
        MPI_Allgather(&rank, 1, MPI_INT, world_of[i], 1, MPI_INT, comms[i]);
    }
    pthread_t others[MOST_THREADS];
    for (intptr_t t = 1; t < threads; t++)
        CHECK(!pthread_create(&others[t], NULL, work, (void *)t));
    work(NULL);
    for (int t = 1; t < threads; t++) {
        CHECK(!pthread_join(others[t], NULL));
        checks_made += checks_of[t];
    }
    MPI_Buffer_detach(&space, &bytes);
    free(space);
    for (int t = 0; t < threads; t++)
        for (int i = 0; i < COMMS; i++)
            MPI_Comm_free(&all_comms[t][i]);
    return finish("p2p_mixed");
}
