/*
 * A program whose ranks tell each other something now and then: short messages, which are counted.
 */
#include "../../examples/portals/world.h"
#include "must.h"
#include <time.h>

static struct world w;
static ptl_handle_ct_t arrived;
static ptl_handle_md_t data;
static ptl_pt_index_t pt;
static unsigned char in[64], out[64];
static ptl_size_t expected;

static double now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

static void opens(void)
{
	ptl_handle_le_t entry;
	w = world_open(PTL_NI_NO_MATCHING);
	CHECK(PtlCTAlloc(w.ni, &arrived));
	CHECK(PtlPTAlloc(w.ni, 0, PTL_EQ_NONE, 7, &pt));
	ptl_le_t le = { .start = in, .length = sizeof in, .ct_handle = arrived, .uid = PTL_UID_ANY, .options = PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM };
	CHECK(PtlLEAppend(w.ni, pt, &le, PTL_PRIORITY_LIST, NULL, &entry));
	ptl_md_t m = { .start = out, .length = sizeof out };
	CHECK(PtlMDBind(w.ni, &m, &data));
}

static void tell(ptl_rank_t rank)
{
	ptl_process_t to = { .rank = rank };
	CHECK(PtlPut(data, 0, sizeof out, PTL_NO_ACK_REQ, to, pt, 0, 0, NULL, 0));
}

static void hear(void)
{
	ptl_ct_event_t count;
	CHECK(PtlCTWait(arrived, ++expected, &count));
}
