/*
 * What the NIC's and PCIe's model makes of puts and gets between two nodes: one way (half of a ping-pong), time per
 * streamed put, put with its acknowledgement, get. The table in docs/validation.md; tests/run_portals.py compares it
 * with sums of stages.
 *
 *   narrows run -n 2 --machine bxi-v2 --compute none -- ./nic_timing [volatile]
 */
#define _DEFAULT_SOURCE
#include "../../examples/portals/world.h"
#include "must.h"
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TABLE = 4, TURNS = 20, LARGEST = 4 << 20 };
static const size_t sizes[] = { 0, 1, 8, 9, 64, 65, 408, 409, 512, 513, 1024, 4096, 4097, 8192, 16384, 65536, 1 << 20, LARGEST };
static unsigned char out[LARGEST], in[LARGEST];

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static ptl_handle_eq_t eq, arrivals;

static void expect(ptl_handle_eq_t queue, ptl_event_kind_t kind)
{
	ptl_event_t event;
	CHECK(PtlEQWait(queue, &event));
	MUST(event.type == kind && event.ni_fail_type == PTL_NI_OK);
}

int main(int argc, char **argv)
{
	unsigned int is_volatile = argc > 1 && strcmp(argv[1], "volatile") == 0 ? PTL_MD_VOLATILE : 0;
	struct world w = world_open(PTL_NI_MATCHING);
	ptl_pt_index_t pt;
	ptl_handle_me_t entry;
	ptl_handle_md_t md;
	CHECK(PtlEQAlloc(w.ni, 4096, &eq));
	CHECK(PtlEQAlloc(w.ni, 4096, &arrivals));
	CHECK(PtlPTAlloc(w.ni, 0, arrivals, TABLE, &pt));
	ptl_me_t me = { .start = in,
			.length = sizeof in,
			.uid = PTL_UID_ANY,
			.options = PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE,
			.match_id.rank = PTL_RANK_ANY };
	CHECK(PtlMEAppend(w.ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entry));
	ptl_md_t descriptor = { .start = out, .length = sizeof out, .options = PTL_MD_EVENT_SEND_DISABLE | is_volatile, .eq_handle = eq };
	CHECK(PtlMDBind(w.ni, &descriptor, &md));
	ptl_process_t other = { .rank = 1 - w.rank };
	usleep(100); /* The other one's entry is there. */
	if (w.rank == 0)
		printf("%9s %12s %12s %12s %12s\n", "bytes", "one way", "per put", "put and ACK", "get");
	for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++) {
		size_t bytes = sizes[at];
		double one_way = 0, streamed = 0, acknowledged = 0, got = 0, begin = 0;
		for (int turn = 0; turn <= TURNS; turn++) {
			if (w.rank == 0) {
				/* The first round trip is one more than is measured. */
				if (turn == 1)
					begin = now();
				CHECK(PtlPut(md, 0, bytes, PTL_NO_ACK_REQ, other, pt, 0, 0, NULL, 0));
				expect(arrivals, PTL_EVENT_PUT);
			} else {
				expect(arrivals, PTL_EVENT_PUT);
				CHECK(PtlPut(md, 0, bytes, PTL_NO_ACK_REQ, other, pt, 0, 0, NULL, 0));
			}
		}
		one_way = (now() - begin) / TURNS / 2;
		if (w.rank == 0) {
			for (int turn = 0; turn < TURNS; turn++) {
				begin = now();
				CHECK(PtlPut(md, 0, bytes, PTL_ACK_REQ, other, pt, 0, 0, NULL, 0));
				expect(eq, PTL_EVENT_ACK);
				acknowledged = now() - begin;
				begin = now();
				CHECK(PtlGet(md, 0, bytes, other, pt, 0, 0, NULL));
				expect(eq, PTL_EVENT_REPLY);
				got = now() - begin;
			}
			/* From the second to the last, as they arrive. */
			for (int turn = 0; turn < 10 * TURNS; turn++)
				CHECK(PtlPut(md, 0, bytes, PTL_NO_ACK_REQ, other, pt, 0, 0, NULL, 0));
			ptl_event_t last;
			CHECK(PtlEQWait(arrivals, &last));
			MUST(last.type == PTL_EVENT_PUT && last.mlength == sizeof streamed);
			memcpy(&streamed, in, sizeof streamed);
			printf("%9zu %12.4f %12.4f %12.4f %12.4f\n", bytes, one_way, streamed, acknowledged, got);
		} else {
			for (int turn = 0; turn < TURNS; turn++) {
				expect(arrivals, PTL_EVENT_PUT);
				expect(arrivals, PTL_EVENT_GET);
			}
			for (int turn = 0; turn < 10 * TURNS; turn++) {
				expect(arrivals, PTL_EVENT_PUT);
				if (turn == 0)
					begin = now();
			}
			streamed = (now() - begin) / (10 * TURNS - 1);
			memcpy(out, &streamed, sizeof streamed);
			CHECK(PtlPut(md, 0, sizeof streamed, PTL_NO_ACK_REQ, other, pt, 0, 0, NULL, 0));
		}
	}
	world_close(&w);
	return 0;
}
