/*
 * Ranks pass a put around a ring and meet in between.
 */
#include "../../examples/portals/world.h"
#include <string.h>

static void ring(void (*meet)(void))
{
	struct world w = world_open(PTL_NI_NO_MATCHING);
	ptl_handle_ct_t ct;
	ptl_pt_index_t pt;
	ptl_handle_le_t entry;
	ptl_handle_md_t md;
	ptl_ct_event_t count;
	unsigned char in[64] = { 0 }, out[64] = { 1 };
	CHECK(PtlCTAlloc(w.ni, &ct));
	CHECK(PtlPTAlloc(w.ni, 0, PTL_EQ_NONE, 7, &pt));
	ptl_le_t le = { .start = in, .length = sizeof in, .ct_handle = ct, .uid = PTL_UID_ANY, .options = PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM | PTL_LE_EVENT_LINK_DISABLE };
	CHECK(PtlLEAppend(w.ni, pt, &le, PTL_PRIORITY_LIST, NULL, &entry));
	ptl_md_t m = { .start = out, .length = sizeof out };
	CHECK(PtlMDBind(w.ni, &m, &md));
	meet();
	for (ptl_size_t turn = 1; turn <= 20; turn++) {
		ptl_process_t to = { .rank = (w.rank + 1) % w.ranks };
		if (w.rank == 0)
			CHECK(PtlPut(md, 0, sizeof out, PTL_NO_ACK_REQ, to, pt, 0, 0, NULL, 0));
		CHECK(PtlCTWait(ct, turn, &count));
		if (w.rank != 0)
			CHECK(PtlPut(md, 0, sizeof out, PTL_NO_ACK_REQ, to, pt, 0, 0, NULL, 0));
		meet();
	}
	if (w.rank == 0)
		printf("20 turns of %u ranks with barriers of the launcher\n", w.ranks);
	world_close(&w);
}
