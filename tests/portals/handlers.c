/*
 * Puts whose list entries name handlers on the NIC: rule 1 sums words up (sum.c), rule 2 doubles them (scale.c), rule 3
 * goes wrong after the first packet (wrong.c). An entry without a context, and one that names a rule that is not there,
 * get what was sent.
 */
#include "../../examples/portals/world.h"
#include "must.h"
#include <narrows/handlers.h>
#include <string.h>

enum { WORDS = 3000, CONTEXTS = 5 };

static int32_t sent[WORDS], got[CONTEXTS][WORDS];
static const unsigned int context[CONTEXTS] = { 0, 1, 2, 3, 9 };

static int32_t wanted(unsigned int which, int at, int32_t sum)
{
	if (which == 1)
		return at == 0 ? sum : 0;
	if (which == 2)
		return sent[at] < 0 ? 0 : 2 * sent[at];
	return sent[at];
}

int main(void)
{
	struct world w = world_open(PTL_NI_MATCHING);
	ptl_handle_ct_t ct;
	ptl_handle_md_t md;
	ptl_handle_me_t entry;
	ptl_pt_index_t pt;
	ptl_ct_event_t count;
	int32_t sum = 0;
	for (int at = 0; at < WORDS; at++) {
		sent[at] = at % 3 == 0 ? -at : at + (int)w.ranks;
		sum += sent[at];
	}
	CHECK(PtlCTAlloc(w.ni, &ct));
	CHECK(PtlPTAlloc(w.ni, 0, PTL_EQ_NONE, 7, &pt));
	for (unsigned int which = 0; which < CONTEXTS; which++) {
		memset(got[which], 0x55, sizeof got[which]);
		ptl_me_t me = { .start = got[which], .length = sizeof got[which], .ct_handle = ct, .uid = PTL_UID_ANY,
				.options = PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_CT_COMM | NARROWS_CONTEXT(context[which]),
				.match_id = { .rank = PTL_RANK_ANY }, .match_bits = which };
		CHECK(PtlMEAppend(w.ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entry));
	}
	ptl_md_t m = { .start = sent, .length = sizeof sent };
	CHECK(PtlMDBind(w.ni, &m, &md));
	for (unsigned int which = 0; which < CONTEXTS; which++) {
		ptl_process_t to = { .rank = (w.rank + 1) % w.ranks };
		CHECK(PtlPut(md, 0, sizeof sent, PTL_NO_ACK_REQ, to, pt, which, 0, NULL, 0));
	}
	CHECK(PtlCTWait(ct, CONTEXTS, &count));
	MUST(count.success == CONTEXTS);
	for (unsigned int which = 0; which < CONTEXTS; which++)
		for (int at = 0; at < WORDS; at++)
			MUST(got[which][at] == wanted(context[which], at, sum));
	if (w.rank == 0)
		printf("ok\n");
	world_close(&w);
	return 0;
}
