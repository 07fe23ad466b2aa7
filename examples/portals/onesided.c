/*
 * One-sided operations of the NIC itself, from the first rank to the last, over lengths: PtlPut, PtlGet, PtlAtomic and
 * PtlFetchAtomic (sums of numbers of 8 bytes, or of 1 below that), each until it is acknowledged or answered. Longer
 * ones than the NIC takes in one go are cut. What an MPI library makes of them: examples/onesided.c.
 *
 *   narrows run -n 2 --machine bxi-v2 --compute none -- ./onesided [LONGEST [ITERATIONS]]
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
	size_t longest = argc > 1 ? strtoul(argv[1], NULL, 10) : 4096;
	unsigned long iterations = argc > 2 ? strtoul(argv[2], NULL, 10) : 50;
	struct world w = world_open(PTL_NI_MATCHING);
	struct barrier b;
	ptl_pt_index_t pt;
	ptl_handle_me_t early, entry;
	char *window = calloc(1, longest), *data = calloc(1, longest), *old = calloc(1, longest);
	CHECK(PtlPTAlloc(w.ni, 0, PTL_EQ_NONE, 4, &pt));
	ptl_me_t me = { .uid = PTL_UID_ANY,
			.options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_COMM_DISABLE,
			.match_id.rank = PTL_RANK_ANY,
			.ignore_bits = ~(ptl_match_bits_t)0 };
	CHECK(PtlMEAppend(w.ni, pt, &me, PTL_OVERFLOW_LIST, NULL, &early));
	me.start = window;
	me.length = longest;
	me.options |= PTL_ME_OP_GET;
	me.match_bits = 1;
	me.ignore_bits = 0;
	CHECK(PtlMEAppend(w.ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entry));
	ptl_handle_ct_t done;
	ptl_handle_md_t md, fetched;
	CHECK(PtlCTAlloc(w.ni, &done));
	ptl_md_t memory = { .start = data,
			    .length = longest,
			    .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY | PTL_MD_EVENT_SEND_DISABLE,
			    .eq_handle = PTL_EQ_NONE,
			    .ct_handle = done };
	CHECK(PtlMDBind(w.ni, &memory, &md));
	memory.start = old;
	CHECK(PtlMDBind(w.ni, &memory, &fetched));
	barrier_open(&b, &w, pt);
	barrier_wait(&b, &w);
	ptl_process_t last = { .rank = w.ranks - 1 };
	ptl_size_t begun = 0;
	if (w.rank == 0)
		printf("%10s %12s %12s %12s %12s\n", "bytes", "put us", "get us", "atomic us", "fetch us");
	for (size_t bytes = 1; w.rank == 0 && bytes <= longest; bytes *= 2) {
		double taken[4];
		ptl_datatype_t type = bytes < 8 ? PTL_INT8_T : PTL_INT64_T;
		for (int what = 0; what < 4; what++) {
			size_t limits[] = { w.limits.max_msg_size, w.limits.max_msg_size, w.limits.max_atomic_size,
					    w.limits.max_fetch_atomic_size };
			double begin = now();
			for (unsigned long i = 0; i < iterations; i++) {
				ptl_ct_event_t count;
				for (size_t at = 0; at < bytes; at += limits[what], begun++) {
					size_t part = bytes - at < limits[what] ? bytes - at : limits[what];
					switch (what) {
					case 0: CHECK(PtlPut(md, at, part, PTL_CT_ACK_REQ, last, pt, 1, at, NULL, 0)); break;
					case 1: CHECK(PtlGet(fetched, at, part, last, pt, 1, at, NULL)); break;
					case 2:
						CHECK(PtlAtomic(md, at, part, PTL_CT_ACK_REQ, last, pt, 1, at, NULL, 0, PTL_SUM, type));
						break;
					default:
						CHECK(PtlFetchAtomic(fetched, at, md, at, part, last, pt, 1, at, NULL, 0, PTL_SUM, type));
					}
				}
				CHECK(PtlCTWait(done, begun, &count));
			}
			taken[what] = (now() - begin) / (double)iterations;
		}
		printf("%10zu %12.3f %12.3f %12.3f %12.3f\n", bytes, taken[0], taken[1], taken[2], taken[3]);
	}
	barrier_wait(&b, &w);
	barrier_close(&b);
	world_close(&w);
	return 0;
}
