/*
 * Ping-pong in four styles: full events or counting events, with matching (ME) or without (LE).
 *
 *   narrows run -n 2 --machine bxi-v2 --compute none -- ./pingpong eq-me [BYTES [TIMES]]
 */
#include "world.h"
#include <string.h>
#include <time.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
	const char *style = argc > 1 ? argv[1] : "eq-me";
	size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 8;
	unsigned long times = argc > 3 ? strtoul(argv[3], NULL, 10) : 1000;
	int events = strncmp(style, "eq", 2) == 0, matching = strstr(style, "-me") != NULL;
	struct world w = world_open(matching ? PTL_NI_MATCHING : PTL_NI_NO_MATCHING);
	if (w.ranks != 2) {
		fprintf(stderr, "two ranks are needed\n");
		return 2;
	}
	unsigned char *out = calloc(bytes + 1, 1), *in = calloc(bytes + 1, 1);
	ptl_handle_eq_t eq = PTL_EQ_NONE;
	ptl_handle_ct_t ct = PTL_CT_NONE;
	ptl_pt_index_t pt;
	ptl_handle_me_t entry;
	ptl_event_t event;
	ptl_ct_event_t count;
	CHECK(PtlEQAlloc(w.ni, 64, &eq));
	CHECK(PtlCTAlloc(w.ni, &ct));
	/* The peer may be late: what finds no entry yet is sent again when the acknowledgement says so. */
	CHECK(PtlPTAlloc(w.ni, 0, eq, 4, &pt));
	ptl_me_t me = { .start = in,
			.length = bytes,
			.ct_handle = ct,
			.uid = PTL_UID_ANY,
			.options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE |
				   (events ? 0 : PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_COMM_DISABLE),
			.match_id.rank = PTL_RANK_ANY,
			.match_bits = 7 };
	if (matching)
		CHECK(PtlMEAppend(w.ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entry));
	else
		CHECK(PtlLEAppend(w.ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entry));
	ptl_md_t md = { .start = out, .length = bytes, .options = PTL_MD_EVENT_SEND_DISABLE, .eq_handle = eq };
	ptl_handle_md_t mdh;
	CHECK(PtlMDBind(w.ni, &md, &mdh));
	ptl_process_t peer = { .rank = 1 - w.rank };
	/* Rank 1 is ready when its first message arrives at rank 0. */
	double begin = 0;
	for (unsigned long turn = 0; turn <= times; turn++) {
		if (w.rank == 1 || turn > 0) {
			memset(out, (int)(turn % 251), bytes);
			ptl_ack_req_t ack = turn == 0 ? PTL_ACK_REQ : PTL_NO_ACK_REQ;
			do {
				CHECK(PtlPut(mdh, 0, bytes, ack, peer, pt, 7, 0, NULL, turn));
				if (ack == PTL_ACK_REQ)
					CHECK(PtlEQWait(eq, &event));
			} while (ack == PTL_ACK_REQ && event.ni_fail_type != PTL_NI_OK);
		}
		if (w.rank == 1 && turn == times)
			break;
		if (events) {
			CHECK(PtlEQWait(eq, &event));
			if (event.type != PTL_EVENT_PUT || event.mlength != bytes)
				return 3;
		} else {
			CHECK(PtlCTWait(ct, turn + 1, &count));
		}
		unsigned long expected = w.rank == 1 ? turn + 1 : turn;
		if (bytes && (in[0] != expected % 251 || in[bytes - 1] != expected % 251)) {
			fprintf(stderr, "turn %lu: wrong data\n", turn);
			return 4;
		}
		if (turn == 0)
			begin = now();
	}
	if (w.rank == 0)
		printf("%s %zu bytes: %.4f us one way\n", style, bytes, (now() - begin) / (double)times / 2);
	world_close(&w);
	return 0;
}
