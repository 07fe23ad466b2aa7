/*
 * A small SHMEM over Portals: a symmetric heap, puts, gets and atomic additions on it that do not block, quiet,
 * barrier, and the two collectives that the map needs. Built like the programs of examples/portals.
 */
#ifndef SYMMETRIC_H
#define SYMMETRIC_H

#include "../portals/barrier.h"
#include <stdint.h>
#include <string.h>

struct symmetric {
	struct world world;
	struct barrier barrier;
	char *heap;
	size_t bytes, used;
	ptl_pt_index_t pt;
	/* Over all memory, and what has been done with it: gets and acknowledged puts. */
	ptl_handle_md_t memory;
	ptl_handle_ct_t done;
	ptl_size_t begun;
};

enum { SYMMETRIC_BITS = 1 };

static inline struct symmetric symmetric_open(size_t bytes)
{
	struct symmetric s = { .world = world_open(PTL_NI_MATCHING), .bytes = bytes };
	ptl_handle_me_t entry;
	s.heap = calloc(1, bytes);
	CHECK(PtlPTAlloc(s.world.ni, 0, PTL_EQ_NONE, 5, &s.pt));
	ptl_me_t me = { .uid = PTL_UID_ANY,
			.options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_COMM_DISABLE,
			.match_id.rank = PTL_RANK_ANY,
			.ignore_bits = ~(ptl_match_bits_t)0 };
	CHECK(PtlMEAppend(s.world.ni, s.pt, &me, PTL_OVERFLOW_LIST, NULL, &entry));
	me.start = s.heap;
	me.length = bytes;
	me.options |= PTL_ME_OP_GET;
	me.match_bits = SYMMETRIC_BITS;
	me.ignore_bits = 0;
	CHECK(PtlMEAppend(s.world.ni, s.pt, &me, PTL_PRIORITY_LIST, NULL, &entry));
	CHECK(PtlCTAlloc(s.world.ni, &s.done));
	ptl_md_t md = { .start = NULL,
			.length = PTL_SIZE_MAX,
			.options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY | PTL_MD_EVENT_SEND_DISABLE,
			.eq_handle = PTL_EQ_NONE,
			.ct_handle = s.done };
	CHECK(PtlMDBind(s.world.ni, &md, &s.memory));
	barrier_open(&s.barrier, &s.world, s.pt);
	barrier_wait(&s.barrier, &s.world);
	return s;
}

/* The same place on all ranks, which call this in the same order. */
static inline void *symmetric_allocate(struct symmetric *s, size_t bytes)
{
	void *here = s->heap + s->used;
	s->used += (bytes + 63) / 64 * 64;
	return s->used <= s->bytes ? here : NULL;
}

static inline ptl_size_t symmetric_place(struct symmetric *s, const void *here)
{
	return (ptl_size_t)((const char *)here - s->heap);
}

/* All that this rank has begun is over. */
static inline void symmetric_quiet(struct symmetric *s)
{
	ptl_ct_event_t count;
	CHECK(PtlCTWait(s->done, s->begun, &count));
}

static inline void symmetric_barrier(struct symmetric *s)
{
	symmetric_quiet(s);
	barrier_wait(&s->barrier, &s->world);
}

/* Reads what rank `from` has at the symmetric address `there`. */
static inline void symmetric_get(struct symmetric *s, void *here, const void *there, size_t bytes, unsigned int from)
{
	s->begun++;
	CHECK(PtlGet(s->memory, (ptl_size_t)here, bytes, (ptl_process_t){ .rank = from }, s->pt, SYMMETRIC_BITS,
		     symmetric_place(s, there), NULL));
}

/* Adds numbers to those of rank `to` at the symmetric address `there`, as many at a time as the NIC takes. */
static inline void symmetric_add(struct symmetric *s, int64_t *there, const int64_t *here, size_t count, unsigned int to)
{
	size_t most = s->world.limits.max_atomic_size / sizeof *here;
	for (size_t at = 0; at < count; at += most, s->begun++)
		CHECK(PtlAtomic(s->memory, (ptl_size_t)(here + at), (count - at < most ? count - at : most) * sizeof *here,
				PTL_CT_ACK_REQ, (ptl_process_t){ .rank = to }, s->pt, SYMMETRIC_BITS,
				symmetric_place(s, there + at), NULL, 0, PTL_SUM, PTL_INT64_T));
}

/* The part of `count` things that rank `of` has. */
static inline int symmetric_part(struct symmetric *s, int count, unsigned int of)
{
	return (int)((long)count * of / s->world.ranks);
}

/* Collective: the sums over all ranks of `count` numbers, of which each rank makes its part and reads the others'.
 * `work` is symmetric, and as long. */
static inline void symmetric_sum(struct symmetric *s, int64_t *numbers, int64_t *work, int count)
{
	unsigned int own = s->world.rank, ranks = s->world.ranks;
	int first = symmetric_part(s, count, own), mine = symmetric_part(s, count, own + 1) - first;
	int64_t *others = malloc(sizeof *others * (size_t)(mine + 1) * ranks);
	symmetric_barrier(s);
	for (unsigned int k = 1; k < ranks; k++)
		symmetric_get(s, others + (size_t)mine * k, numbers + first, sizeof *numbers * (size_t)mine, (own + k) % ranks);
	symmetric_quiet(s);
	memcpy(work + first, numbers + first, sizeof *numbers * (size_t)mine);
	for (unsigned int k = 1; k < ranks; k++)
		for (int i = 0; i < mine; i++)
			work[first + i] += others[(size_t)mine * k + (size_t)i];
	symmetric_barrier(s);
	for (unsigned int k = 1; k < ranks; k++) {
		unsigned int from = (own + k) % ranks;
		int begin = symmetric_part(s, count, from), end = symmetric_part(s, count, from + 1);
		symmetric_get(s, work + begin, work + begin, sizeof *work * (size_t)(end - begin), from);
	}
	symmetric_barrier(s);
	memcpy(numbers, work, sizeof *numbers * (size_t)count);
	free(others);
}

static inline void symmetric_close(struct symmetric *s)
{
	symmetric_barrier(s);
	barrier_close(&s->barrier);
	world_close(&s->world);
}

#endif
