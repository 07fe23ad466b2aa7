/*
 * What a program sees of the keys of a machine file that no replay reads: the limits of the interface, and the time of
 * acknowledgements, counting events, triggered operations, atomics, polls and looks at the clock. tests/run_portals.py
 * runs it with each of them changed.
 */
#define _DEFAULT_SOURCE
#include "../../examples/portals/world.h"
#include "must.h"
#include <stdint.h>
#include <time.h>
#include <unistd.h>

enum { TABLE = 5, ROUNDS = 20 };

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

int main(void)
{
	struct world w = world_open(PTL_NI_NO_MATCHING);
	const ptl_ni_limits_t *l = &w.limits;
	if (w.rank == 0)
		printf("%d %d %d %d %d %d %zu %zu %zu %zu\n", l->max_mds, l->max_cts, l->max_eqs, l->max_iovecs, l->max_list_size,
		       l->max_triggered_ops, (size_t)l->max_atomic_size, (size_t)l->max_fetch_atomic_size, (size_t)l->max_waw_ordered_size,
		       (size_t)l->max_war_ordered_size);
	static int64_t here[64], there[64];
	ptl_handle_eq_t eq;
	ptl_handle_ct_t counted, arrived;
	ptl_handle_md_t md, atomic;
	ptl_handle_le_t le;
	ptl_pt_index_t pt;
	CHECK(PtlEQAlloc(w.ni, 64, &eq));
	CHECK(PtlCTAlloc(w.ni, &counted));
	CHECK(PtlCTAlloc(w.ni, &arrived));
	CHECK(PtlPTAlloc(w.ni, 0, PTL_EQ_NONE, TABLE, &pt));
	ptl_le_t entry = { .start = there, .length = sizeof there, .ct_handle = arrived, .uid = PTL_UID_ANY,
			   .options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_COMM_DISABLE | PTL_LE_EVENT_LINK_DISABLE | PTL_LE_EVENT_CT_COMM };
	CHECK(PtlLEAppend(w.ni, pt, &entry, PTL_PRIORITY_LIST, NULL, &le));
	ptl_md_t with_events = { .start = here, .length = sizeof here, .eq_handle = eq, .ct_handle = PTL_CT_NONE };
	ptl_md_t with_counts = { .start = here, .length = sizeof here, .options = PTL_MD_EVENT_CT_ACK, .eq_handle = PTL_EQ_NONE, .ct_handle = counted };
	CHECK(PtlMDBind(w.ni, &with_events, &md));
	CHECK(PtlMDBind(w.ni, &with_counts, &atomic));
	ptl_process_t other = { .rank = 1 - w.rank };
	ptl_ct_event_t count;
	ptl_event_t event;
	usleep(100); /* The other one's entry is there. */
	double begin = now();
	for (int round = 0; round < ROUNDS; round++) {
		/* A put of 16 bytes: its SEND and its ACK, found by looking again and again. */
		CHECK(PtlPut(md, 0, 16, PTL_ACK_REQ, other, pt, 0, 0, NULL, 0));
		for (int events = 0; events < 2;) {
			int found = PtlEQGet(eq, &event);
			MUST(found == PTL_OK || found == PTL_EQ_EMPTY);
			events += found == PTL_OK;
			now();
		}
		/* Two atomics at once and a put that their acknowledgements trigger, up to the event that its data are sent. */
		CHECK(PtlTriggeredPut(md, 0, 32, PTL_NO_ACK_REQ, other, pt, 0, 0, NULL, 0, counted, (ptl_size_t)(2 * round + 2)));
		for (int i = 0; i < 2; i++)
			CHECK(PtlAtomic(atomic, 0, 64, PTL_CT_ACK_REQ, other, pt, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
		CHECK(PtlEQWait(eq, &event));
		MUST(event.type == PTL_EVENT_SEND);
		CHECK(PtlCTWait(counted, (ptl_size_t)(2 * round + 2), &count));
		CHECK(PtlCTWait(arrived, (ptl_size_t)(4 * round + 4), &count));
	}
	double took = now() - begin;
	if (w.rank == 0)
		printf("%.3f us\n", took);
	world_close(&w);
	return 0;
}
