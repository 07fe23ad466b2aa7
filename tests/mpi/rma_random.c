/* Random one-sided operations from one seed (an argument gives another one). In the window of each rank every rank has a slice
 * that nobody else writes, and knows what is in it: all that it reads there is checked, and all slices at the end.
 * Targets compute, sleep or call MPI meanwhile, with operations of their own. */
#include "check.h"
#include <unistd.h>

enum { SLICE = 160000, BATCHES = 24, MOST = 4, LONGEST = 100000 };
enum way { LOCK_ALL, LOCK, FENCE, SOME, WAYS };
enum kind { PUT, GET, PUT_STRIDED, GET_STRIDED, RPUT, RGET, SUM, FETCH_SUM, ONE_SUM, SWAP, KINDS };

struct operation {
    enum kind kind;
    int target, offset, length; /* of the slice, in bytes */
    int stride, block;          /* of strided ones */
    char *data, *result;
};

static uint64_t seed;
static long long draws;
static char **shadow; /* by target: what is in my slice there */
static char *memory;
static MPI_Win win;
static MPI_Group world;
static uint64_t batches;

static uint64_t draw(uint64_t below)
{
    return mix(seed, (uint64_t)rank, (uint64_t)++draws) % below;
}

static int draw_length(void)
{
    static const int scale[] = {9, 100, 1000, 9000, 20000, LONGEST};
    return draw(4) ? 1 + (int)draw((uint64_t)scale[draw(6)]) : sizes_small[1 + draw(SIZES_SMALL - 1)];
}

static struct operation plan(void)
{
    struct operation op = {.kind = draw(KINDS), .target = (int)draw((uint64_t)ranks)};
    int length = draw_length();
    op.stride = op.block = 1;
    switch (op.kind) {
    case PUT_STRIDED:
    case GET_STRIDED:
        op.block = 1 + (int)draw(3000);
        op.stride = op.block + (int)draw(500);
        length = (1 + length / op.block) * op.stride;
        if (length > LONGEST)
            length = LONGEST;
        length -= length % op.stride;
        break;
    case SUM:
    case FETCH_SUM:
        length = 8 * (1 + length / 8);
        break;
    case ONE_SUM:
    case SWAP:
        length = 8;
        break;
    default:
        break;
    }
    op.length = length;
    op.offset = 8 * (int)draw((uint64_t)(SLICE - length) / 8);
    /* From anywhere, to anywhere. */
    op.data = allocate((size_t)length + 16);
    op.result = allocate((size_t)length + 16);
    fill(op.data, (size_t)length, mix(seed, (uint64_t)rank, (uint64_t)draws));
    memset(op.result, 0x5a, (size_t)length);
    return op;
}

static int overlaps(const struct operation *a, const struct operation *b)
{
    return a->target == b->target && a->offset < b->offset + b->length && b->offset < a->offset + a->length;
}

static void begin_operation(struct operation *op, enum way way)
{
    MPI_Aint place = (MPI_Aint)rank * SLICE + op->offset;
    MPI_Datatype type = MPI_BYTE;
    MPI_Request request;
    int length = op->length, target = op->target, blocks = length / op->stride;
    /* With active targets there is no request that could be waited for. */
    int active = way == FENCE || way == SOME;
    enum kind kind = active && op->kind == RPUT ? PUT : active && op->kind == RGET ? GET : op->kind;
    if (kind == PUT_STRIDED || kind == GET_STRIDED) {
        MPI_Type_vector(blocks, op->block, op->stride, MPI_BYTE, &type);
        MPI_Type_commit(&type);
    }
    switch (kind) {
    case PUT: MPI_Put(op->data, length, MPI_BYTE, target, place, length, MPI_BYTE, win); break;
    case GET: MPI_Get(op->result, length, MPI_BYTE, target, place, length, MPI_BYTE, win); break;
    case PUT_STRIDED: MPI_Put(op->data, blocks * op->block, MPI_BYTE, target, place, 1, type, win); break;
    case GET_STRIDED: MPI_Get(op->result, blocks * op->block, MPI_BYTE, target, place, 1, type, win); break;
    case RPUT:
        MPI_Rput(op->data, length, MPI_BYTE, target, place, length, MPI_BYTE, win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
    case RGET:
        MPI_Rget(op->result, length, MPI_BYTE, target, place, length, MPI_BYTE, win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
    case SUM: MPI_Accumulate(op->data, length / 8, MPI_LONG_LONG, target, place, length / 8, MPI_LONG_LONG, MPI_SUM, win); break;
    case FETCH_SUM:
        MPI_Get_accumulate(op->data, length / 8, MPI_LONG_LONG, op->result, length / 8, MPI_LONG_LONG, target, place, length / 8,
                           MPI_LONG_LONG, MPI_SUM, win);
        break;
    case ONE_SUM: MPI_Fetch_and_op(op->data, op->result, MPI_LONG_LONG, target, place, MPI_SUM, win); break;
    case SWAP:
        /* It holds every other time. */
        memcpy(op->data + 8, shadow[target] + op->offset, 8);
        op->data[8] ^= (char)(op->offset / 8 % 2);
        MPI_Compare_and_swap(op->data, op->data + 8, op->result, MPI_LONG_LONG, target, place, win);
        break;
    default: break;
    }
    if (type != MPI_BYTE)
        MPI_Type_free(&type);
}

/* It is over: what it has read is right, and what it has written is noted. */
static void end_operation(struct operation *op)
{
    char *mine = shadow[op->target] + op->offset;
    int reads = 0, wrong = -1, blocks = op->length / op->stride;
    switch (op->kind) {
    case GET:
    case RGET:
    case FETCH_SUM:
    case ONE_SUM:
    case SWAP:
        reads = 1;
        for (int i = 0; i < op->length && wrong < 0; i++)
            wrong = op->result[i] != mine[i] ? i : -1;
        break;
    case GET_STRIDED:
        reads = 1;
        for (int i = 0; i < blocks * op->block && wrong < 0; i++)
            wrong = op->result[i] != mine[i / op->block * op->stride + i % op->block] ? i : -1;
        break;
    default: break;
    }
    if (reads) {
        checks_made++;
        if (wrong >= 0)
            fail_at(__FILE__, __LINE__, "what was read", "byte %d of %d at %d of rank %d is wrong, kind %d, seed %llu", wrong, op->length,
                    op->offset, op->target, op->kind, (unsigned long long)seed);
    }
    switch (op->kind) {
    case PUT:
    case RPUT: memcpy(mine, op->data, (size_t)op->length); break;
    case PUT_STRIDED:
        for (int i = 0; i < blocks; i++)
            memcpy(mine + i * op->stride, op->data + i * op->block, (size_t)op->block);
        break;
    case SUM:
    case FETCH_SUM:
    case ONE_SUM:
        for (int i = 0; i < op->length; i += 8) {
            uint64_t old, more;
            memcpy(&old, mine + i, 8);
            memcpy(&more, op->data + i, 8);
            old += more;
            memcpy(mine + i, &old, 8);
        }
        break;
    case SWAP:
        if (!memcmp(op->data + 8, mine, 8))
            memcpy(mine, op->data, 8);
        break;
    default: break;
    }
    free(op->data);
    free(op->result);
}

static void do_something_else(void)
{
    int flag;
    switch (draw(5)) {
    case 0:
        for (volatile long i = (long)draw(300000); i > 0; i--)
            ;
        break;
    case 1: usleep((useconds_t)draw(100)); break;
    case 2: MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, WORLD, &flag, MPI_STATUS_IGNORE); break;
    default: break;
    }
}

/* Whether a rank has another one for a target, in general active target synchronisation. */
static int reaches(int from, int to)
{
    return (int)(mix(seed ^ 0x77, batches, (uint64_t)(from * 64 + to)) % 2);
}

static MPI_Group group_of(int targets)
{
    int members[64], count = 0;
    MPI_Group group;
    for (int i = 0; i < ranks; i++)
        if (targets ? reaches(rank, i) : reaches(i, rank))
            members[count++] = i;
    MPI_Group_incl(world, count, members, &group);
    return group;
}

static void batch(enum way way)
{
    struct operation some[MOST];
    MPI_Group sources = MPI_GROUP_NULL, targets = MPI_GROUP_NULL;
    int count = 0, wanted = 1 + (int)draw(MOST), target = (int)draw((uint64_t)ranks), ended = 0;
    batches++;
    if (way == SOME) {
        /* MPICH stands still when epochs of changing groups follow each other, natively too. */
        MPI_Barrier(WORLD);
        sources = group_of(0);
        targets = group_of(1);
        MPI_Win_post(sources, 0, win);
        MPI_Win_start(targets, 0, win);
    }
    if (way == LOCK)
        MPI_Win_lock(draw(2) ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, win);
    for (int i = 0; i < wanted; i++) {
        struct operation op = plan();
        int alone = way != SOME || reaches(rank, op.target);
        /* Open MPI 4.1 crashes in a compare-and-swap on a window of one rank. */
        if (op.kind == SWAP && ranks == 1)
            op.kind = ONE_SUM;
        op.target = way == LOCK ? target : op.target;
        for (int k = 0; k < count; k++)
            alone &= !overlaps(&op, &some[k]);
        if (!alone) {
            free(op.data);
            free(op.result);
            continue;
        }
        begin_operation(&op, way);
        some[count++] = op;
    }
    if (draw(3) == 0)
        do_something_else();
    if (way == LOCK)
        MPI_Win_unlock(target, win);
    else if (way == FENCE)
        MPI_Win_fence(0, win);
    else if (way == SOME) {
        MPI_Win_complete(win);
        if (draw(2))
            MPI_Win_wait(win);
        else
            while (!ended)
                MPI_Win_test(win, &ended);
        MPI_Group_free(&sources);
        MPI_Group_free(&targets);
    } else if (draw(2))
        MPI_Win_flush_all(win);
    else
        for (int i = 0; i < count; i++)
            MPI_Win_flush(some[i].target, win);
    for (int i = 0; i < count; i++)
        end_operation(&some[i]);
}

int main(int argc, char **argv)
{
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    begin(&argc, &argv);
    MPI_Comm_group(WORLD, &world);
    size_t bytes = (size_t)ranks * SLICE;
    shadow = allocate((size_t)ranks * sizeof *shadow);
    for (int i = 0; i < ranks; i++)
        shadow[i] = allocate(SLICE);
    char *theirs = allocate(SLICE);
    for (int created = 0; created < 2; created++) {
        if (created) {
            memory = allocate(bytes + 64);
            MPI_Win_create(memory + 8, (MPI_Aint)bytes, 1, MPI_INFO_NULL, WORLD, &win);
        } else {
            MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, WORLD, &memory, &win);
        }
        char *base = memory + 8 * created;
        memset(base, rank + 1, bytes);
        for (int i = 0; i < ranks; i++)
            memset(shadow[i], i + 1, SLICE);
        for (enum way way = 0; way < WAYS; way++) {
            MPI_Barrier(WORLD);
            if (way == LOCK_ALL)
                MPI_Win_lock_all(0, win);
            if (way == FENCE)
                MPI_Win_fence(0, win);
            for (int i = 0; i < BATCHES; i++) {
                batch(way);
                do_something_else();
            }
            if (way == LOCK_ALL)
                MPI_Win_unlock_all(win);
        }
        MPI_Barrier(WORLD);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
        for (int i = 0; i < ranks; i++) {
            int to = (rank + i) % ranks, from = (rank - i + ranks) % ranks;
            MPI_Sendrecv(shadow[to], SLICE, MPI_BYTE, to, 0, theirs, SLICE, MPI_BYTE, from, 0, WORLD, MPI_STATUS_IGNORE);
            CHECK(!memcmp(theirs, base + (size_t)from * SLICE, SLICE));
        }
        MPI_Win_unlock(rank, win);
        MPI_Win_free(&win);
    }
    MPI_Group_free(&world);
    return finish("rma_random");
}
