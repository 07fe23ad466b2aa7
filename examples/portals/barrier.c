/*
 * Barriers that the NICs run by themselves (barrier.h), and a check that they are barriers: nobody leaves one before
 * everybody has come.
 *
 *   narrows run -n 16 --machine bxi-v2 --compute none -- ./barrier [TIMES]
 */
#include "barrier.h"
#include <time.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
	unsigned long times = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
	struct world w = world_open(PTL_NI_MATCHING);
	struct barrier b;
	ptl_pt_index_t pt;
	ptl_handle_me_t early, entry;
	unsigned long arrivals = 0, one = 1;
	CHECK(PtlPTAlloc(w.ni, 0, PTL_EQ_NONE, 4, &pt));
	ptl_me_t me = { .uid = PTL_UID_ANY,
			.options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_COMM_DISABLE,
			.match_id.rank = PTL_RANK_ANY,
			.ignore_bits = ~(ptl_match_bits_t)0 };
	CHECK(PtlMEAppend(w.ni, pt, &me, PTL_OVERFLOW_LIST, NULL, &early));
	me.start = &arrivals;
	me.length = sizeof arrivals;
	me.options |= PTL_ME_OP_GET;
	me.match_bits = 1;
	me.ignore_bits = 0;
	CHECK(PtlMEAppend(w.ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entry));
	barrier_open(&b, &w, pt);
	barrier_wait(&b, &w);
	/* Each rank adds one at rank 0, waits at the barrier, and must then find all additions there. */
	ptl_handle_ct_t done;
	ptl_handle_md_t add, look;
	ptl_ct_event_t count;
	unsigned long seen = 0;
	CHECK(PtlCTAlloc(w.ni, &done));
	ptl_md_t md = { .start = &one, .length = sizeof one, .options = PTL_MD_EVENT_CT_ACK, .ct_handle = done };
	CHECK(PtlMDBind(w.ni, &md, &add));
	md.start = &seen;
	md.options = PTL_MD_EVENT_CT_REPLY;
	CHECK(PtlMDBind(w.ni, &md, &look));
	ptl_process_t zero = { .rank = 0 };
	double begin = now();
	for (unsigned long turn = 1; turn <= times; turn++) {
		CHECK(PtlAtomic(add, 0, sizeof one, PTL_CT_ACK_REQ, zero, pt, 1, 0, NULL, 0, PTL_SUM, PTL_UINT64_T));
		CHECK(PtlCTWait(done, 2 * turn - 1, &count));
		barrier_wait(&b, &w);
		CHECK(PtlGet(look, 0, sizeof seen, zero, pt, 1, 0, NULL));
		CHECK(PtlCTWait(done, 2 * turn, &count));
		if (count.failure || seen < turn * w.ranks) {
			fprintf(stderr, "rank %u has left barrier %lu when %lu of %lu had come\n", w.rank, turn, seen, turn * w.ranks);
			return 1;
		}
		barrier_wait(&b, &w);
	}
	if (w.rank == 0)
		printf("%lu barriers of %u ranks: %.3f us each turn\n", 2 * times, w.ranks, (now() - begin) / (double)times);
	barrier_close(&b);
	world_close(&w);
	return 0;
}
