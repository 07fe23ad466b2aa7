/*
 * A dissemination barrier that the NICs run by themselves: the put of each round waits for the arrival of the round
 * before (PtlTriggeredPut); the host only waits for the last counter. Up to 2^16 ranks.
 */
#ifndef BARRIER_H
#define BARRIER_H

#include "world.h"

#define BARRIER_ROUNDS 16
#define BARRIER_BITS 0xba00u

struct barrier {
	ptl_handle_ct_t arrived[BARRIER_ROUNDS], begin;
	ptl_handle_me_t entry[BARRIER_ROUNDS];
	ptl_handle_md_t md;
	ptl_pt_index_t pt;
	unsigned int rounds;
	ptl_size_t times;
};

/* All ranks, before any of them waits; those that are early are caught by an overflow entry of the caller, or wait in time. */
static void barrier_open(struct barrier *b, struct world *w, ptl_pt_index_t pt)
{
	b->rounds = 0;
	b->times = 0;
	b->pt = pt;
	for (unsigned int reach = 1; reach < w->ranks; reach *= 2)
		b->rounds++;
	CHECK(PtlCTAlloc(w->ni, &b->begin));
	ptl_md_t md = { .start = NULL, .length = 0 };
	CHECK(PtlMDBind(w->ni, &md, &b->md));
	for (unsigned int round = 0; round < b->rounds; round++) {
		CHECK(PtlCTAlloc(w->ni, &b->arrived[round]));
		ptl_me_t me = { .ct_handle = b->arrived[round],
				.uid = PTL_UID_ANY,
				.options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_CT_OVERFLOW |
					   PTL_ME_EVENT_COMM_DISABLE | PTL_ME_EVENT_OVER_DISABLE | PTL_ME_EVENT_LINK_DISABLE,
				.match_id.rank = PTL_RANK_ANY,
				.match_bits = BARRIER_BITS + round };
		CHECK(PtlMEAppend(w->ni, pt, &me, PTL_PRIORITY_LIST, NULL, &b->entry[round]));
	}
}

static void barrier_wait(struct barrier *b, struct world *w)
{
	ptl_ct_event_t value;
	b->times++;
	for (unsigned int round = 0; round < b->rounds; round++) {
		ptl_process_t to = { .rank = (w->rank + (1u << round)) % w->ranks };
		ptl_handle_ct_t after = round ? b->arrived[round - 1] : b->begin;
		CHECK(PtlTriggeredPut(b->md, 0, 0, PTL_NO_ACK_REQ, to, b->pt, BARRIER_BITS + round, 0, NULL, 0, after, b->times));
	}
	/* A round may begin when all before it have been reached: arrivals of later rounds do not count for earlier ones. */
	CHECK(PtlCTInc(b->begin, (ptl_ct_event_t){ 1, 0 }));
	for (unsigned int round = 0; round < b->rounds; round++)
		CHECK(PtlCTWait(b->arrived[round], b->times, &value));
}

static void barrier_close(struct barrier *b)
{
	for (unsigned int round = 0; round < b->rounds; round++) {
		while (PtlMEUnlink(b->entry[round]) == PTL_IN_USE)
			;
		CHECK(PtlCTFree(b->arrived[round]));
	}
	CHECK(PtlMDRelease(b->md));
	CHECK(PtlCTFree(b->begin));
}

#endif
