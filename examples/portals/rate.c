/*
 * Message rate: all ranks put 8 bytes into one counter of rank 0.
 *
 *   narrows run -n 16 --machine bxi-v2 --compute none -- ./rate [PUTS PER RANK]
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
	unsigned long puts = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
	struct world w = world_open(PTL_NI_MATCHING);
	struct barrier b;
	unsigned long value = 0, target = 0;
	ptl_handle_ct_t ct;
	ptl_pt_index_t pt;
	ptl_handle_me_t early, entry;
	ptl_ct_event_t count;
	CHECK(PtlCTAlloc(w.ni, &ct));
	CHECK(PtlPTAlloc(w.ni, 0, PTL_EQ_NONE, 4, &pt));
	ptl_me_t me = { .uid = PTL_UID_ANY,
			.options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_COMM_DISABLE,
			.match_id.rank = PTL_RANK_ANY,
			.ignore_bits = ~(ptl_match_bits_t)0 };
	CHECK(PtlMEAppend(w.ni, pt, &me, PTL_OVERFLOW_LIST, NULL, &early));
	me.start = &target;
	me.length = sizeof target;
	me.ct_handle = ct;
	me.options |= PTL_ME_EVENT_CT_COMM;
	me.match_bits = 1;
	me.ignore_bits = 0;
	CHECK(PtlMEAppend(w.ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entry));
	barrier_open(&b, &w, pt);
	barrier_wait(&b, &w);
	double begin = now();
	ptl_md_t md = { .start = &value, .length = sizeof value, .options = PTL_MD_EVENT_SEND_DISABLE };
	ptl_handle_md_t mdh;
	CHECK(PtlMDBind(w.ni, &md, &mdh));
	ptl_process_t to = { .rank = 0 };
	for (unsigned long i = 0; i < puts; i++)
		CHECK(PtlPut(mdh, 0, sizeof value, PTL_NO_ACK_REQ, to, pt, 1, 0, NULL, 0));
	if (w.rank == 0) {
		CHECK(PtlCTWait(ct, puts * w.ranks, &count));
		double took = now() - begin;
		printf("%lu puts in %.3f us: %.3f million per second\n", (unsigned long)count.success, took, (double)count.success / took);
	}
	barrier_wait(&b, &w);
	barrier_close(&b);
	world_close(&w);
	return 0;
}
