/*
 * A global address space in the way of ExaNeSt's GVAS (FORTH-ICS technical report 488, 4.3): remote load, store,
 * fetch-and-add and compare-and-swap on addresses of 80 bits. A thin layer over Portals: link with libportals
 * (`narrows config --cflags --libs`), run with `narrows run` on any machine.
 *
 *     protection domain 16 | node 22 | process of the node 3 | virtual address 39
 *
 * A virtual address is an offset in the segment that the process there has opened. Who opened it says which domain it
 * is in; an access with another domain is refused there, counted (gsas_refused) and writes nothing. Calls return when
 * the operation is over, with 0 or one of `enum gsas_error`. One thread at a time.
 */
#ifndef NARROWS_GSAS_H
#define NARROWS_GSAS_H

#include <portals4.h>
#include <stddef.h>
#include <stdint.h>

#define GSAS_DOMAIN_BITS 16
#define GSAS_NODE_BITS 22
#define GSAS_RANK_BITS 3
#define GSAS_VA_BITS 39

enum gsas_error {
	GSAS_OK = 0,
	/* The address has a part with more bits than there are. */
	GSAS_RANGE = -1,
	/* Nobody is there. */
	GSAS_NOBODY = -2,
	/* Another protection domain, or none that was opened. */
	GSAS_DENIED = -3,
	/* Beyond the end of the segment. */
	GSAS_END = -4,
	/* Portals has refused a call: no memory, no network interface. */
	GSAS_PORTALS = -5,
};

static inline const char *gsas_text(int error)
{
	switch (error) {
	case GSAS_OK: return "ok";
	case GSAS_RANGE: return "address out of range: domains have 16 bits, nodes 22, processes of a node 3, virtual addresses 39";
	case GSAS_NOBODY: return "no such process on this machine";
	case GSAS_DENIED: return "refused: no segment of this protection domain is open there";
	case GSAS_END: return "beyond the end of the segment";
	default: return "Portals has refused a call";
	}
}

struct gsas_address {
	uint16_t domain;
	/* Node, process, virtual address; the node in the upper bits. */
	uint64_t place;
};

struct gsas {
	ptl_handle_ni_t ni;
	ptl_handle_eq_t eq;
	ptl_handle_md_t md;
	ptl_handle_me_t segment;
	ptl_pt_index_t table;
	ptl_process_t own;
	uint16_t domain;
};

/* The portal table entry of all segments: our own choice. */
enum { GSAS_TABLE = 39 };

/* An address; node and process count from 0. */
static inline int gsas_at(struct gsas_address *address, uint32_t domain, uint32_t node, uint32_t rank, uint64_t va)
{
	if (domain >> GSAS_DOMAIN_BITS || node >> GSAS_NODE_BITS || rank >> GSAS_RANK_BITS || va >> GSAS_VA_BITS)
		return GSAS_RANGE;
	address->domain = (uint16_t)domain;
	address->place = (uint64_t)node << (GSAS_RANK_BITS + GSAS_VA_BITS) | (uint64_t)rank << GSAS_VA_BITS | va;
	return GSAS_OK;
}

/* Opens a segment for those of a protection domain. PtlInit is called here. */
static inline int gsas_open(struct gsas *g, uint16_t domain, void *memory, size_t bytes)
{
	ptl_ni_limits_t limits;
	g->domain = domain;
	if ((uint64_t)bytes >> GSAS_VA_BITS)
		return GSAS_RANGE;
	if (PtlInit() != PTL_OK)
		return GSAS_PORTALS;
	if (PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, &limits, &g->ni) != PTL_OK)
		return GSAS_PORTALS;
	ptl_md_t all = { .start = NULL, .length = PTL_SIZE_MAX, .options = PTL_MD_EVENT_SEND_DISABLE, .ct_handle = PTL_CT_NONE };
	ptl_me_t segment = {
		.start = memory,
		.length = bytes,
		.ct_handle = PTL_CT_NONE,
		.uid = PTL_UID_ANY,
		.options = PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_COMM_DISABLE | PTL_ME_EVENT_LINK_DISABLE,
		.match_id = { .phys = { .nid = PTL_NID_ANY, .pid = PTL_PID_ANY } },
		.match_bits = domain,
	};
	if (PtlEQAlloc(g->ni, 16, &g->eq) != PTL_OK)
		return GSAS_PORTALS;
	all.eq_handle = g->eq;
	if (PtlMDBind(g->ni, &all, &g->md) != PTL_OK || PtlPTAlloc(g->ni, 0, PTL_EQ_NONE, GSAS_TABLE, &g->table) != PTL_OK)
		return GSAS_PORTALS;
	if (PtlMEAppend(g->ni, g->table, &segment, PTL_PRIORITY_LIST, NULL, &g->segment) != PTL_OK)
		return GSAS_PORTALS;
	return PtlGetPhysId(g->ni, &g->own) == PTL_OK ? GSAS_OK : GSAS_PORTALS;
}

/* An address of the own segment. */
static inline struct gsas_address gsas_own(const struct gsas *g, uint64_t va)
{
	struct gsas_address address = { 0, 0 };
	gsas_at(&address, g->domain, g->own.phys.nid - 1, g->own.phys.pid - 1, va);
	return address;
}

static inline ptl_process_t gsas_process_(struct gsas_address at)
{
	/* Narrows counts both from one. */
	ptl_process_t process;
	process.phys.nid = (ptl_nid_t)(at.place >> (GSAS_RANK_BITS + GSAS_VA_BITS)) + 1;
	process.phys.pid = (ptl_pid_t)(at.place >> GSAS_VA_BITS & ((1u << GSAS_RANK_BITS) - 1)) + 1;
	return process;
}

static inline uint64_t gsas_va_(struct gsas_address at)
{
	return at.place & (((uint64_t)1 << GSAS_VA_BITS) - 1);
}

/* Waits for the operation that was begun with `code`. */
static inline int gsas_wait_(struct gsas *g, int code, size_t bytes)
{
	ptl_event_t event;
	if (code != PTL_OK)
		return code == PTL_ARG_INVALID ? GSAS_NOBODY : GSAS_PORTALS;
	if (PtlEQWait(g->eq, &event) != PTL_OK)
		return GSAS_PORTALS;
	if (event.ni_fail_type == PTL_NI_UNDELIVERABLE)
		return GSAS_NOBODY;
	if (event.ni_fail_type != PTL_NI_OK)
		return GSAS_DENIED;
	return event.mlength < bytes ? GSAS_END : GSAS_OK;
}

static inline int gsas_store(struct gsas *g, struct gsas_address to, const void *from, size_t bytes)
{
	int code = PtlPut(g->md, (ptl_size_t)(uintptr_t)from, bytes, PTL_ACK_REQ, gsas_process_(to), GSAS_TABLE, to.domain, gsas_va_(to), NULL, 0);
	return gsas_wait_(g, code, bytes);
}

static inline int gsas_load(struct gsas *g, struct gsas_address from, void *to, size_t bytes)
{
	int code = PtlGet(g->md, (ptl_size_t)(uintptr_t)to, bytes, gsas_process_(from), GSAS_TABLE, from.domain, gsas_va_(from), NULL);
	return gsas_wait_(g, code, bytes);
}

/* Adds to the 64 bits there; `before` is what they were. */
static inline int gsas_fetch_add(struct gsas *g, struct gsas_address at, int64_t value, int64_t *before)
{
	int code = PtlFetchAtomic(g->md, (ptl_size_t)(uintptr_t)before, g->md, (ptl_size_t)(uintptr_t)&value, sizeof value, gsas_process_(at),
				  GSAS_TABLE, at.domain, gsas_va_(at), NULL, 0, PTL_SUM, PTL_INT64_T);
	return gsas_wait_(g, code, sizeof value);
}

/* The 64 bits there become `value` if they are `expected`; `before` is what they were. */
static inline int gsas_compare_swap(struct gsas *g, struct gsas_address at, int64_t expected, int64_t value, int64_t *before)
{
	int code = PtlSwap(g->md, (ptl_size_t)(uintptr_t)before, g->md, (ptl_size_t)(uintptr_t)&value, sizeof value, gsas_process_(at), GSAS_TABLE,
			   at.domain, gsas_va_(at), NULL, 0, &expected, PTL_CSWAP, PTL_INT64_T);
	return gsas_wait_(g, code, sizeof value);
}

/* Accesses to the own segment that were refused. */
static inline long gsas_refused(struct gsas *g)
{
	ptl_sr_value_t count = 0;
	return PtlNIStatus(g->ni, PTL_SR_DROP_COUNT, &count) == PTL_OK ? count : -1;
}

static inline void gsas_close(struct gsas *g)
{
	PtlMEUnlink(g->segment);
	PtlPTFree(g->ni, g->table);
	PtlMDRelease(g->md);
	PtlEQFree(g->eq);
	PtlNIFini(g->ni);
	PtlFini();
}

#endif
