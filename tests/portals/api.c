/*
 * The Portals API as a program sees it, live: every rank works with the next one. Prints "ok" on rank 0. Items are
 * those of docs/conformance.md.
 */
#include "must.h"
#include "../../examples/portals/barrier.h"
#include <complex.h>
#include <string.h>

#define GIVES(code, call)                                                                                            \
	do {                                                                                                         \
		int code_ = (call);                                                                                  \
		if (code_ != (code)) {                                                                               \
			fprintf(stderr, "%s:%d: %s is %s\n", __FILE__, __LINE__, #call, PtlToStr(code_, PTL_STR_ERROR)); \
			exit(1);                                                                                     \
		}                                                                                                    \
	} while (0)

enum { MEMORY = 1 << 16, BITS = 5 };

static struct world w;
static ptl_process_t next;
static ptl_pt_index_t pt;
static ptl_handle_eq_t eq, pt_eq;
static ptl_handle_ct_t ct;
static ptl_handle_md_t md;
static unsigned char *mine, *window;

static ptl_event_t wait_event(ptl_event_kind_t type, ptl_ni_fail_t fail)
{
	ptl_event_t event;
	char text[PTL_EV_STR_SIZE];
	CHECK(PtlEQWait(eq, &event));
	if (event.type != type || event.ni_fail_type != fail) {
		PtlEvToStr(0, &event, text);
		fprintf(stderr, "rank %u: %s instead of %s, %s\n", w.rank, text, PtlToStr(type, PTL_STR_EVENT), PtlToStr((int)fail, PTL_STR_FAIL_TYPE));
		exit(1);
	}
	return event;
}

static void item_37_38_interfaces(void)
{
	ptl_handle_ni_t again, other, of;
	ptl_ni_limits_t limits;
	ptl_process_t id, phys;
	ptl_sr_value_t value;
	CHECK(PtlInit());
	CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, &limits, &again));
	MUST(PtlHandleIsEqual(again, w.ni));
	CHECK(PtlNIFini(again));
	PtlFini();
	memset(&limits, 0x7f, sizeof limits);
	limits.max_eqs = 3;
	CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, &limits, &limits, &other));
	MUST(limits.max_eqs == 3 && limits.max_msg_size == w.limits.max_msg_size && limits.max_pt_index >= 63);
	CHECK(PtlGetPhysId(other, &phys));
	CHECK(PtlGetId(other, &id));
	MUST(id.phys.nid == phys.phys.nid && id.phys.pid == phys.phys.pid);
	CHECK(PtlGetId(w.ni, &id));
	MUST(id.rank == w.rank);
	GIVES(PTL_IGNORED, PtlSetMap(w.ni, 1, &phys));
	CHECK(PtlNIHandle(eq, &of));
	MUST(PtlHandleIsEqual(of, w.ni));
	ptl_handle_eq_t eqs[3], more;
	ptl_pt_index_t index, taken;
	for (int i = 0; i < 3; i++)
		CHECK(PtlEQAlloc(other, 8, &eqs[i]));
	GIVES(PTL_NO_SPACE, PtlEQAlloc(other, 8, &more));
	CHECK(PtlPTAlloc(other, 0, PTL_EQ_NONE, 9, &index));
	GIVES(PTL_PT_IN_USE, PtlPTAlloc(other, 0, PTL_EQ_NONE, 9, &taken));
	GIVES(PTL_PT_EQ_NEEDED, PtlPTAlloc(other, PTL_PT_FLOWCTRL, PTL_EQ_NONE, 10, &taken));
	ptl_le_t le = { .options = PTL_LE_OP_PUT, .uid = PTL_UID_ANY };
	ptl_handle_le_t leh;
	CHECK(PtlLEAppend(other, index, &le, PTL_PRIORITY_LIST, NULL, &leh));
	GIVES(PTL_PT_IN_USE, PtlPTFree(other, index));
	CHECK(PtlLEUnlink(leh));
	GIVES(PTL_ARG_INVALID, PtlLEUnlink(leh));
	CHECK(PtlPTFree(other, index));
	CHECK(PtlNIFini(other));
	GIVES(PTL_ARG_INVALID, PtlEQGet(eqs[0], &(ptl_event_t){ 0 }));
	CHECK(PtlNIStatus(w.ni, PTL_SR_OPERATION_VIOLATIONS, &value));
	MUST(value == 0);
}

static void item_26_to_28_and_2_3(void)
{
	ptl_event_t event;
	ptl_sr_value_t value;
	memcpy(mine, "narrows", 8);
	CHECK(PtlPut(md, 0, 8, PTL_ACK_REQ, next, pt, BITS, 16, mine, 1));
	wait_event(PTL_EVENT_SEND, PTL_NI_OK);
	event = wait_event(PTL_EVENT_ACK, PTL_NI_OK);
	MUST(event.mlength == 8 && event.remote_offset == 16 && event.user_ptr == mine && event.ptl_list == PTL_PRIORITY_LIST);
	CHECK(PtlGet(md, 64, 8, next, pt, BITS, 16, mine));
	wait_event(PTL_EVENT_REPLY, PTL_NI_OK);
	MUST(memcmp(mine + 64, "narrows", 8) == 0);
	CHECK(PtlPutNB(md, 0, 8, PTL_ACK_REQ, next, pt, 99, 0, NULL, 1));
	wait_event(PTL_EVENT_SEND, PTL_NI_OK);
	wait_event(PTL_EVENT_ACK, PTL_NI_DROPPED);
	GIVES(PTL_ARG_INVALID, PtlPut(md, MEMORY - 4, 8, PTL_NO_ACK_REQ, next, pt, BITS, 0, NULL, 0));
	CHECK(PtlGet(md, 0, 8, next, pt, BITS + 1, 0, NULL));
	wait_event(PTL_EVENT_REPLY, PTL_NI_OP_VIOLATION);
	CHECK(PtlNIStatus(w.ni, PTL_SR_DROP_COUNT, &value));
	MUST(value <= 1);
}

static void swap_and_see(void *operand, ptl_op_t op, ptl_datatype_t type, size_t size)
{
	CHECK(PtlSwap(md, 512, md, 0, size, next, pt, BITS, 1024, NULL, 0, operand, op, type));
	wait_event(PTL_EVENT_SEND, PTL_NI_OK);
	wait_event(PTL_EVENT_REPLY, PTL_NI_OK);
}

static void item_29_39_atomics(void)
{
	static const size_t sizes[] = { 1, 1, 2, 2, 4, 4, 4, 8, 8, 8, 8, 16, 16, 32 };
	long double two = 2, answer;
	double _Complex z = 1 + 2 * I;
	for (int type = PTL_INT8_T; type <= PTL_LONG_DOUBLE_COMPLEX; type++) {
		memset(mine, 0, 64);
		CHECK(PtlSwap(md, 512, md, 0, sizes[type], next, pt, BITS, 1024, NULL, 0, NULL, PTL_SWAP, (ptl_datatype_t)type));
		wait_event(PTL_EVENT_SEND, PTL_NI_OK);
		wait_event(PTL_EVENT_REPLY, PTL_NI_OK);
		CHECK(PtlFetchAtomic(md, 512, md, 0, sizes[type], next, pt, BITS, 1024, NULL, 0, PTL_SUM, (ptl_datatype_t)type));
		wait_event(PTL_EVENT_SEND, PTL_NI_OK);
		wait_event(PTL_EVENT_REPLY, PTL_NI_OK);
		MUST(memcmp(mine + 512, mine, sizes[type]) == 0);
	}
	memcpy(mine, &two, 16);
	for (int i = 0; i < 3; i++) {
		CHECK(PtlAtomic(md, 0, 16, PTL_ACK_REQ, next, pt, BITS, 1024, NULL, 0, i ? PTL_PROD : PTL_SUM, PTL_LONG_DOUBLE));
		wait_event(PTL_EVENT_SEND, PTL_NI_OK);
		wait_event(PTL_EVENT_ACK, PTL_NI_OK);
	}
	CHECK(PtlGet(md, 512, 16, next, pt, BITS, 1024, NULL));
	wait_event(PTL_EVENT_REPLY, PTL_NI_OK);
	memcpy(&answer, mine + 512, 16);
	MUST(answer == 8);
	memcpy(mine, &z, 16);
	CHECK(PtlPut(md, 0, 16, PTL_ACK_REQ, next, pt, BITS, 1024, NULL, 0));
	wait_event(PTL_EVENT_SEND, PTL_NI_OK);
	wait_event(PTL_EVENT_ACK, PTL_NI_OK);
	CHECK(PtlFetchAtomic(md, 512, md, 0, 16, next, pt, BITS, 1024, NULL, 0, PTL_PROD, PTL_DOUBLE_COMPLEX));
	wait_event(PTL_EVENT_SEND, PTL_NI_OK);
	wait_event(PTL_EVENT_REPLY, PTL_NI_OK);
	CHECK(PtlGet(md, 512, 16, next, pt, BITS, 1024, NULL));
	wait_event(PTL_EVENT_REPLY, PTL_NI_OK);
	memcpy(&z, mine + 512, 16);
	MUST(creal(z) == -3 && cimag(z) == 4);
	uint32_t value = 7, operand = 1;
	memcpy(mine, &value, 4);
	swap_and_see(NULL, PTL_SWAP, PTL_UINT32_T, 4);
	value = 9;
	memcpy(mine, &value, 4);
	swap_and_see(&operand, PTL_CSWAP, PTL_UINT32_T, 4);
	operand = 7;
	swap_and_see(&operand, PTL_CSWAP, PTL_UINT32_T, 4);
	operand = 0xff;
	swap_and_see(&operand, PTL_MSWAP, PTL_UINT32_T, 4);
	memcpy(&value, mine + 512, 4);
	MUST(value == 9);
	GIVES(PTL_ARG_INVALID, PtlAtomic(md, 0, 16, PTL_NO_ACK_REQ, next, pt, BITS, 0, NULL, 0, PTL_MIN, PTL_DOUBLE_COMPLEX));
	GIVES(PTL_ARG_INVALID, PtlAtomic(md, 0, 6, PTL_NO_ACK_REQ, next, pt, BITS, 0, NULL, 0, PTL_SUM, PTL_UINT32_T));
	GIVES(PTL_ARG_INVALID, PtlAtomic(md, 0, w.limits.max_atomic_size + 8, PTL_NO_ACK_REQ, next, pt, BITS, 0, NULL, 0, PTL_SUM, PTL_UINT64_T));
	CHECK(PtlAtomicSync());
	CHECK(PtlNIAtomicSync(w.ni));
}

static void item_19_to_25_counting(void)
{
	ptl_handle_ct_t own, other;
	ptl_ct_event_t value;
	unsigned int which;
	CHECK(PtlCTAlloc(w.ni, &own));
	CHECK(PtlCTAlloc(w.ni, &other));
	CHECK(PtlCTInc(own, (ptl_ct_event_t){ 3, 0 }));
	CHECK(PtlCTGet(own, &value));
	MUST(value.success == 3 && value.failure == 0);
	CHECK(PtlCTSet(own, (ptl_ct_event_t){ 0, 0 }));
	GIVES(PTL_CT_NONE_REACHED, PtlCTPoll(&own, &(ptl_size_t){ 1 }, 1, 0, &value, &which));
	for (ptl_size_t i = 1; i <= 4; i++)
		CHECK(PtlTriggeredCTInc(own, (ptl_ct_event_t){ 1, 0 }, own, i));
	CHECK(PtlTriggeredCTSet(other, (ptl_ct_event_t){ 1, 0 }, own, 5));
	CHECK(PtlTriggeredCTSet(other, (ptl_ct_event_t){ 7, 0 }, own, 5));
	CHECK(PtlCTInc(own, (ptl_ct_event_t){ 0, 1 }));
	CHECK(PtlCTWait(other, 7, &value));
	MUST(value.success == 7);
	CHECK(PtlCTWait(own, 5, &value));
	MUST(value.success == 4 && value.failure == 1);
	CHECK(PtlTriggeredCTInc(other, (ptl_ct_event_t){ 1, 0 }, own, 9));
	CHECK(PtlCTCancelTriggered(own));
	CHECK(PtlCTInc(own, (ptl_ct_event_t){ 9, 0 }));
	CHECK(PtlCTGet(own, &value));
	CHECK(PtlCTGet(other, &value));
	MUST(value.success == 7);
	memcpy(mine, "early", 6);
	CHECK(PtlCTSet(own, (ptl_ct_event_t){ 0, 0 }));
	CHECK(PtlTriggeredPut(md, 0, 6, PTL_ACK_REQ, next, pt, BITS, 256, NULL, 0, own, 1));
	memcpy(mine, "fired", 6);
	CHECK(PtlCTInc(own, (ptl_ct_event_t){ 1, 0 }));
	wait_event(PTL_EVENT_SEND, PTL_NI_OK);
	wait_event(PTL_EVENT_ACK, PTL_NI_OK);
	CHECK(PtlTriggeredGet(md, 512, 6, next, pt, BITS, 256, NULL, own, 1));
	wait_event(PTL_EVENT_REPLY, PTL_NI_OK);
	MUST(memcmp(mine + 512, "fired", 6) == 0);
	CHECK(PtlCTFree(own));
	CHECK(PtlCTFree(other));
}

static void item_40_scatter_and_faults(void)
{
	ptl_iovec_t list[3] = { { mine, 5 }, { mine + 100, 0 }, { mine + 200, 30 } };
	ptl_md_t m = { .start = list, .length = 3, .options = PTL_IOVEC, .eq_handle = eq };
	ptl_handle_md_t gather, whole;
	for (int i = 0; i < 35; i++)
		*(i < 5 ? &mine[i] : &mine[200 + i - 5]) = (unsigned char)(i + 1);
	CHECK(PtlMDBind(w.ni, &m, &gather));
	GIVES(PTL_ARG_INVALID, PtlPut(gather, 0, 36, PTL_NO_ACK_REQ, next, pt, BITS, 0, NULL, 0));
	CHECK(PtlPut(gather, 2, 33, PTL_ACK_REQ, next, pt, BITS, 2048, NULL, 0));
	wait_event(PTL_EVENT_SEND, PTL_NI_OK);
	wait_event(PTL_EVENT_ACK, PTL_NI_OK);
	memset(mine, 0, 300);
	CHECK(PtlGet(gather, 1, 33, next, pt, BITS, 2048, NULL));
	wait_event(PTL_EVENT_REPLY, PTL_NI_OK);
	MUST(mine[0] == 0 && mine[1] == 3 && mine[4] == 6 && mine[200] == 7 && mine[228] == 35);
	m.start = NULL;
	m.length = PTL_SIZE_MAX;
	m.options = 0;
	CHECK(PtlMDBind(w.ni, &m, &whole));
	CHECK(PtlPut(whole, (ptl_size_t)8, 8, PTL_ACK_REQ, next, pt, BITS, 0, NULL, 0));
	wait_event(PTL_EVENT_SEND, PTL_NI_SEGV);
	wait_event(PTL_EVENT_ACK, PTL_NI_SEGV);
	CHECK(PtlPut(whole, (ptl_size_t)mine, 8, PTL_ACK_REQ, next, pt, BITS, 0, NULL, 0));
	wait_event(PTL_EVENT_SEND, PTL_NI_OK);
	wait_event(PTL_EVENT_ACK, PTL_NI_OK);
	CHECK(PtlPut(md, 0, 8, PTL_ACK_REQ, next, pt, BITS + 2, 8, NULL, 0));
	wait_event(PTL_EVENT_SEND, PTL_NI_OK);
	wait_event(PTL_EVENT_ACK, PTL_NI_SEGV);
	CHECK(PtlMDRelease(gather));
	CHECK(PtlMDRelease(whole));
}

static void item_42_queues(void)
{
	ptl_handle_eq_t small;
	ptl_pt_index_t index;
	ptl_handle_me_t entry;
	ptl_event_t event;
	ptl_process_t self = { .rank = w.rank };
	CHECK(PtlEQAlloc(w.ni, 4, &small));
	CHECK(PtlPTAlloc(w.ni, 0, small, PTL_PT_ANY, &index));
	ptl_me_t me = { .start = window, .length = 8, .uid = PTL_UID_ANY, .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE, .match_id.rank = PTL_RANK_ANY };
	CHECK(PtlMEAppend(w.ni, index, &me, PTL_PRIORITY_LIST, NULL, &entry));
	for (int i = 0; i < 10; i++) {
		CHECK(PtlPut(md, 0, 8, PTL_ACK_REQ, self, index, 0, 0, NULL, 0));
		wait_event(PTL_EVENT_SEND, PTL_NI_OK);
		wait_event(PTL_EVENT_ACK, PTL_NI_OK);
	}
	GIVES(PTL_EQ_DROPPED, PtlEQGet(small, &event));
	MUST(event.type == PTL_EVENT_PUT);
	for (int i = 0; i < 3; i++)
		CHECK(PtlEQWait(small, &event));
	GIVES(PTL_EQ_EMPTY, PtlEQGet(small, &event));
	CHECK(PtlPTDisable(w.ni, index));
	CHECK(PtlPut(md, 0, 8, PTL_ACK_REQ, self, index, 0, 0, NULL, 0));
	wait_event(PTL_EVENT_SEND, PTL_NI_OK);
	wait_event(PTL_EVENT_ACK, PTL_NI_PT_DISABLED);
	CHECK(PtlPTEnable(w.ni, index));
	CHECK(PtlMEUnlink(entry));
	CHECK(PtlPTFree(w.ni, index));
	CHECK(PtlEQFree(small));
}

/* What is freed while a descriptor, an entry or a triggered operation names it: operations go on, and nobody hears of them. */
static void freed_in_use(void)
{
	ptl_handle_eq_t gone, later;
	ptl_handle_ct_t counter, trigger;
	ptl_handle_md_t user;
	ptl_handle_me_t entry;
	ptl_pt_index_t index;
	ptl_event_t event;
	ptl_ct_event_t value;
	ptl_process_t self = { .rank = w.rank };
	CHECK(PtlEQAlloc(w.ni, 16, &gone));
	CHECK(PtlCTAlloc(w.ni, &counter));
	CHECK(PtlCTAlloc(w.ni, &trigger));
	ptl_md_t m = { .start = mine, .length = 64, .options = PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_ACK, .eq_handle = gone, .ct_handle = counter };
	CHECK(PtlMDBind(w.ni, &m, &user));
	CHECK(PtlPTAlloc(w.ni, 0, gone, PTL_PT_ANY, &index));
	ptl_me_t me = { .start = window, .length = 64, .ct_handle = counter, .uid = PTL_UID_ANY, .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM, .match_id.rank = PTL_RANK_ANY };
	CHECK(PtlMEAppend(w.ni, index, &me, PTL_PRIORITY_LIST, NULL, &entry));
	CHECK(PtlTriggeredPut(user, 0, 8, PTL_ACK_REQ, self, index, 0, 0, NULL, 0, trigger, 1));
	CHECK(PtlPut(user, 0, 8, PTL_ACK_REQ, self, index, 0, 0, NULL, 0));
	CHECK(PtlEQFree(gone));
	CHECK(PtlCTFree(counter));
	GIVES(PTL_ARG_INVALID, PtlEQFree(gone));
	GIVES(PTL_ARG_INVALID, PtlCTFree(counter));
	/* These take their places. */
	CHECK(PtlEQAlloc(w.ni, 16, &later));
	CHECK(PtlCTAlloc(w.ni, &counter));
	CHECK(PtlPut(user, 0, 8, PTL_ACK_REQ, self, index, 0, 0, NULL, 0));
	CHECK(PtlCTInc(trigger, (ptl_ct_event_t){ 1, 0 }));
	/* The way of all of them is over when this one's is: the pair is in order. */
	CHECK(PtlPut(md, 0, 8, PTL_ACK_REQ, self, index, 0, 0, NULL, 0));
	wait_event(PTL_EVENT_SEND, PTL_NI_OK);
	wait_event(PTL_EVENT_ACK, PTL_NI_OK);
	CHECK(PtlPTDisable(w.ni, index));
	GIVES(PTL_EQ_EMPTY, PtlEQGet(later, &event));
	CHECK(PtlCTGet(counter, &value));
	MUST(value.success == 0 && value.failure == 0);
	CHECK(PtlMEUnlink(entry));
	CHECK(PtlPTFree(w.ni, index));
	CHECK(PtlMDRelease(user));
	CHECK(PtlEQFree(later));
	CHECK(PtlCTFree(counter));
	CHECK(PtlCTFree(trigger));
}

static void exhaustion(void)
{
	ptl_handle_me_t *entries = calloc((size_t)w.limits.max_entries + 1, sizeof *entries);
	ptl_pt_index_t index;
	int count = 0, code;
	ptl_me_t me = { .uid = PTL_UID_ANY, .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE, .match_id.rank = PTL_RANK_ANY };
	CHECK(PtlPTAlloc(w.ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &index));
	while ((code = PtlMEAppend(w.ni, index, &me, PTL_PRIORITY_LIST, NULL, &entries[count])) == PTL_OK)
		count++;
	MUST(code == PTL_NO_SPACE && count > w.limits.max_entries - 40 && count <= w.limits.max_entries);
	for (int i = 0; i < count; i++)
		CHECK(PtlMEUnlink(entries[i]));
	CHECK(PtlMEAppend(w.ni, index, &me, PTL_PRIORITY_LIST, NULL, &entries[0]));
	CHECK(PtlMEUnlink(entries[0]));
	CHECK(PtlPTFree(w.ni, index));
	free(entries);
	count = 0;
	while ((code = PtlTriggeredCTInc(ct, (ptl_ct_event_t){ 1, 0 }, ct, 1000000)) == PTL_OK)
		count++;
	MUST(code == PTL_NO_SPACE && count == w.limits.max_triggered_ops);
	/* Another network interface has a limit of its own. */
	ptl_handle_ni_t other;
	ptl_handle_ct_t other_ct;
	CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &other));
	CHECK(PtlCTAlloc(other, &other_ct));
	CHECK(PtlTriggeredCTInc(other_ct, (ptl_ct_event_t){ 1, 0 }, other_ct, 1000000));
	CHECK(PtlCTFree(other_ct));
	CHECK(PtlNIFini(other));
	CHECK(PtlCTCancelTriggered(ct));
	CHECK(PtlTriggeredCTInc(ct, (ptl_ct_event_t){ 1, 0 }, ct, 1000000));
	CHECK(PtlCTCancelTriggered(ct));
}

int main(void)
{
	ptl_handle_ni_t early;
	ptl_handle_me_t entries[4];
	struct barrier b;
	ptl_ni_limits_t desired;
	CHECK(PtlInit());
	/* Memory that is not there must be asked for before the interface is opened for the first time. */
	memset(&desired, 0x7f, sizeof desired);
	desired.features = PTL_TARGET_BIND_INACCESSIBLE | PTL_COHERENT_ATOMICS;
	CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, &desired, NULL, &early));
	w = world_open(PTL_NI_MATCHING);
	MUST(w.limits.features & PTL_TARGET_BIND_INACCESSIBLE);
	next.rank = (w.rank + 1) % w.ranks;
	mine = calloc(MEMORY, 1);
	window = calloc(MEMORY, 1);
	CHECK(PtlEQAlloc(w.ni, 256, &eq));
	CHECK(PtlEQAlloc(w.ni, 8192, &pt_eq));
	CHECK(PtlCTAlloc(w.ni, &ct));
	CHECK(PtlPTAlloc(w.ni, 0, pt_eq, 4, &pt));
	ptl_me_t me = { .uid = PTL_UID_ANY,
			.options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_COMM_DISABLE,
			.match_id.rank = PTL_RANK_ANY,
			.match_bits = BARRIER_BITS,
			.ignore_bits = 0xff };
	CHECK(PtlMEAppend(w.ni, pt, &me, PTL_OVERFLOW_LIST, NULL, &entries[0]));
	me.start = window;
	me.length = MEMORY;
	me.options |= PTL_ME_OP_GET | PTL_ME_IS_ACCESSIBLE;
	me.match_bits = BITS;
	me.ignore_bits = 0;
	CHECK(PtlMEAppend(w.ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entries[1]));
	me.options &= ~(unsigned)PTL_ME_OP_GET;
	me.match_bits = BITS + 1;
	CHECK(PtlMEAppend(w.ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entries[2]));
	me.start = NULL;
	me.length = PTL_SIZE_MAX;
	me.options &= ~(unsigned)PTL_ME_IS_ACCESSIBLE;
	me.match_bits = BITS + 2;
	CHECK(PtlMEAppend(w.ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entries[3]));
	ptl_md_t m = { .start = mine, .length = MEMORY, .eq_handle = eq };
	CHECK(PtlMDBind(w.ni, &m, &md));
	barrier_open(&b, &w, pt);
	barrier_wait(&b, &w);

	item_37_38_interfaces();
	item_26_to_28_and_2_3();
	item_29_39_atomics();
	item_19_to_25_counting();
	item_40_scatter_and_faults();
	item_42_queues();
	freed_in_use();
	barrier_wait(&b, &w);
	exhaustion();

	barrier_wait(&b, &w);
	barrier_close(&b);
	PtlAbort();
	GIVES(PTL_ABORTED, PtlEQWait(eq, &(ptl_event_t){ 0 }));
	GIVES(PTL_ABORTED, PtlCTWait(ct, 1u << 30, &(ptl_ct_event_t){ 0 }));
	world_close(&w);
	if (w.rank == 0)
		printf("ok\n");
	return 0;
}
