/*
 * Protection domains of ExaNeSt's network interface (nic.exanet.domains): ranks 0 and 1 are in one, rank 2 is in
 * another one. Rank 0 writes to rank 1; its accesses to rank 2 are refused, short ones and long ones: each has an event
 * that says so, and the memory of rank 2 stays as it was. One rank per node.
 */
#include "must.h"
#include <portals4.h>
#include <stdint.h>
#include <string.h>

enum { LONG = 40000, TABLE = 5, BITS = 77 };

static unsigned char memory[LONG], data[LONG];
static ptl_handle_ni_t ni;
static ptl_handle_eq_t own, theirs;
static ptl_handle_md_t md;

static unsigned int number(const char *name)
{
	return (unsigned int)strtoul(getenv(name), NULL, 10);
}

static ptl_process_t of(unsigned int rank)
{
	/* Narrows counts nodes and processes of a node from one. */
	return (ptl_process_t){ .phys = { .nid = rank + 1, .pid = 1 } };
}

static ptl_event_t next(void)
{
	ptl_event_t event;
	MUST(PtlEQWait(own, &event) == PTL_OK);
	return event;
}

static ptl_event_t put(unsigned int to, size_t bytes)
{
	MUST(PtlPut(md, (ptl_size_t)(uintptr_t)data, bytes, PTL_ACK_REQ, of(to), TABLE, BITS, 0, NULL, 0) == PTL_OK);
	ptl_event_t sent = next();
	MUST(sent.type == PTL_EVENT_SEND);
	ptl_event_t acknowledged = next();
	MUST(acknowledged.type == PTL_EVENT_ACK);
	return acknowledged;
}

static void refused(void)
{
	int64_t fetched = 0;
	size_t sizes[] = { 0, 8, 33, LONG };
	for (unsigned int i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		ptl_event_t event = put(2, sizes[i]);
		MUST(event.ni_fail_type == PTL_NI_PERM_VIOLATION && event.mlength == 0);
	}
	MUST(PtlGet(md, (ptl_size_t)(uintptr_t)data, LONG, of(2), TABLE, BITS, 0, NULL) == PTL_OK);
	ptl_event_t event = next();
	MUST(event.type == PTL_EVENT_REPLY && event.ni_fail_type == PTL_NI_PERM_VIOLATION);
	MUST(PtlFetchAtomic(md, (ptl_size_t)(uintptr_t)&fetched, md, (ptl_size_t)(uintptr_t)data, 8, of(2), TABLE, BITS, 0, NULL, 0, PTL_SUM,
			    PTL_INT64_T) == PTL_OK);
	do
		event = next();
	while (event.type == PTL_EVENT_SEND);
	MUST(event.type == PTL_EVENT_REPLY && event.ni_fail_type == PTL_NI_PERM_VIOLATION && fetched == 0);
	for (unsigned int i = 0; i < LONG; i++)
		MUST(data[i] == 1);
	/* Nobody waits for what has no acknowledgement: it is refused all the same. */
	MUST(PtlPut(md, (ptl_size_t)(uintptr_t)data, 8, PTL_NO_ACK_REQ, of(2), TABLE, BITS, 0, NULL, 0) == PTL_OK);
	MUST(next().type == PTL_EVENT_SEND);
}

int main(void)
{
	unsigned int rank = getenv("PMI_RANK") ? number("PMI_RANK") : number("NARROWS_RANK"), which;
	ptl_ni_limits_t limits;
	ptl_event_t event;
	ptl_pt_index_t table;
	ptl_handle_me_t entry;
	memset(memory, rank == 2 ? 2 : 0, LONG);
	memset(data, 1, LONG);
	MUST(PtlInit() == PTL_OK);
	MUST(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, &limits, &ni) == PTL_OK);
	MUST(PtlEQAlloc(ni, 64, &own) == PTL_OK && PtlEQAlloc(ni, 64, &theirs) == PTL_OK);
	ptl_md_t all = { .start = NULL, .length = PTL_SIZE_MAX, .eq_handle = own, .ct_handle = PTL_CT_NONE };
	ptl_me_t open = {
		.start = memory,
		.length = LONG,
		.ct_handle = PTL_CT_NONE,
		.uid = PTL_UID_ANY,
		.options = PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE,
		.match_id = { .phys = { .nid = PTL_NID_ANY, .pid = PTL_PID_ANY } },
		.match_bits = BITS,
	};
	MUST(PtlMDBind(ni, &all, &md) == PTL_OK && PtlPTAlloc(ni, 0, theirs, TABLE, &table) == PTL_OK);
	MUST(PtlMEAppend(ni, table, &open, PTL_PRIORITY_LIST, NULL, &entry) == PTL_OK);
	if (rank == 0) {
		refused();
		/* Rank 1 may not be there yet. */
		while ((event = put(1, LONG)).ni_fail_type != PTL_NI_OK)
			MUST(event.ni_fail_type == PTL_NI_DROPPED);
		MUST(event.mlength == LONG);
	} else if (rank == 1) {
		MUST(PtlEQWait(theirs, &event) == PTL_OK && event.type == PTL_EVENT_PUT && event.mlength == LONG);
		MUST(!memcmp(memory, data, LONG));
	} else {
		/* 10 ms, and nothing has come: the rest of the run takes less. */
		MUST(PtlEQPoll(&theirs, 1, 10, &event, &which) == PTL_EQ_EMPTY);
		for (unsigned int i = 0; i < LONG; i++)
			MUST(memory[i] == 2);
	}
	PtlMEUnlink(entry);
	PtlPTFree(ni, table);
	PtlMDRelease(md);
	PtlEQFree(own);
	PtlEQFree(theirs);
	PtlNIFini(ni);
	PtlFini();
	if (rank == 0)
		printf("ok\n");
	return 0;
}
