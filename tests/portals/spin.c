/*
 * Programs that wait for their memory to change without calling anybody. A number goes round all ranks, each of which
 * waits for it:
 *
 *   plain   by a loop around a load
 *   yield   the same with sched_yield
 *   slow    by a loop with usleep, which takes simulated time
 *   clock   by a loop that reads the clock
 *   lock    each rank adds to a word of rank 0 with an atomic operation, and rank 0 waits for the sum
 *   long    payloads of 300,000 bytes whose last byte is waited for
 *   never   rank 0 waits for what nobody sends
 */
#define _DEFAULT_SOURCE
#include "../../examples/portals/world.h"
#include "must.h"
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TABLE = 3, LONG = 300000 };

static struct {
	volatile int64_t number, sum;
	volatile unsigned char data[LONG];
} heap;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void wait_for(const char *style, int64_t number)
{
	if (!strcmp(style, "yield"))
		while (heap.number != number)
			sched_yield();
	else if (!strcmp(style, "slow"))
		while (heap.number != number)
			usleep(3);
	else if (!strcmp(style, "clock"))
		for (double begin = now(); heap.number != number;)
			MUST(now() - begin < 1e6);
	else if (!strcmp(style, "long"))
		while (heap.data[LONG - 1] != (unsigned char)number)
			;
	else
		while (heap.number != number)
			;
}

int main(int argc, char **argv)
{
	const char *style = argc > 1 ? argv[1] : "plain";
	int64_t turns = argc > 2 ? atol(argv[2]) : 20;
	struct world w = world_open(PTL_NI_NO_MATCHING);
	ptl_pt_index_t table;
	ptl_handle_le_t entry;
	ptl_handle_eq_t eq;
	ptl_handle_md_t md;
	ptl_event_t event;
	CHECK(PtlEQAlloc(w.ni, 64, &eq));
	CHECK(PtlPTAlloc(w.ni, 0, PTL_EQ_NONE, TABLE, &table));
	ptl_le_t le = { .start = &heap, .length = sizeof heap, .ct_handle = PTL_CT_NONE, .uid = PTL_UID_ANY,
			.options = PTL_LE_OP_PUT | PTL_LE_EVENT_COMM_DISABLE | PTL_LE_EVENT_LINK_DISABLE };
	CHECK(PtlLEAppend(w.ni, table, &le, PTL_PRIORITY_LIST, NULL, &entry));
	static unsigned char out[LONG];
	ptl_md_t source = { .start = out, .length = sizeof out, .options = PTL_MD_EVENT_SEND_DISABLE, .eq_handle = eq, .ct_handle = PTL_CT_NONE };
	CHECK(PtlMDBind(w.ni, &source, &md));
	ptl_process_t next = { .rank = (w.rank + 1) % w.ranks }, root = { .rank = 0 };
	int is_long = !strcmp(style, "long");
	ptl_size_t bytes = is_long ? LONG : 8, offset = (ptl_size_t)((char *)(is_long ? heap.data : (unsigned char *)&heap.number) - (char *)&heap);
	if (!strcmp(style, "never") && w.rank == 0)
		wait_for(style, 1);
	if (!strcmp(style, "lock")) {
		int64_t one = 1;
		memcpy(out, &one, 8);
		ptl_size_t at = (ptl_size_t)((char *)&heap.sum - (char *)&heap);
		for (int64_t turn = 0; turn < turns; turn++)
			do {
				CHECK(PtlAtomic(md, 0, 8, PTL_ACK_REQ, root, table, 0, at, NULL, 0, PTL_SUM, PTL_INT64_T));
				CHECK(PtlEQWait(eq, &event));
			} while (event.ni_fail_type != PTL_NI_OK);
		while (w.rank == 0 && heap.sum < turns * (int64_t)w.ranks)
			;
		MUST(w.rank != 0 || heap.sum == turns * (int64_t)w.ranks);
	} else {
		double begin = now();
		for (int64_t turn = 1; turn <= turns; turn++) {
			if (w.rank != 0)
				wait_for(style, turn);
			memset(out, (int)turn, sizeof out);
			if (!is_long)
				memcpy(out, &turn, 8);
			/* In the first round the next rank may not be ready yet. */
			ptl_ack_req_t ack = turn == 1 ? PTL_ACK_REQ : PTL_NO_ACK_REQ;
			do {
				CHECK(PtlPut(md, 0, bytes, ack, next, table, 0, offset, NULL, 0));
				if (ack == PTL_ACK_REQ)
					CHECK(PtlEQWait(eq, &event));
			} while (ack == PTL_ACK_REQ && event.ni_fail_type != PTL_NI_OK);
			if (w.rank == 0)
				wait_for(style, turn);
			if (turn == 2)
				begin = now();
		}
		if (w.rank == 0)
			printf("%s: %.4f us from rank to rank\n", style, (now() - begin) / (double)(turns - 2) / w.ranks);
	}
	if (w.rank == 0)
		printf("ok\n");
	world_close(&w);
	return 0;
}
