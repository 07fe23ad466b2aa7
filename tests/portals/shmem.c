/*
 * What an OpenSHMEM library asks of Portals: a non-matching logical interface, a symmetric heap behind one list entry,
 * puts_sent whose completion is only counted, fetching operations counted by their replies, waiting for a word of the
 * own heap by the count of what arrived. Every rank is a PE. Prints "ok" on PE 0.
 */
#include "../../examples/portals/world.h"
#include <complex.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define MUST(condition)                                                                                              \
	do {                                                                                                         \
		if (!(condition)) {                                                                                  \
			fprintf(stderr, "PE %u: %s:%d: not %s\n", w.rank, __FILE__, __LINE__, #condition);           \
			exit(1);                                                                                     \
		}                                                                                                    \
	} while (0)

enum { HEAP = 3 };

/* The symmetric heap: every PE has it, offsets in it name the same thing everywhere. */
static struct {
	int64_t ticket, lock, guarded, swapped, signal, all, barrier[32];
	double sum;
	long double complex wide;
	unsigned char data[200000];
} heap;

static struct world w;
static ptl_handle_ct_t put_ct, get_ct, heap_ct;
static ptl_handle_md_t put_md, get_md;
static ptl_size_t puts_sent, gets_sent;

#define AT(member) ((ptl_size_t)((char *)&(member) - (char *)&heap))

static ptl_process_t pe(unsigned int rank)
{
	ptl_process_t id = { .rank = rank };
	return id;
}

static void open_heap(void)
{
	ptl_pt_index_t got;
	ptl_handle_le_t entry;
	CHECK(PtlCTAlloc(w.ni, &put_ct));
	CHECK(PtlCTAlloc(w.ni, &get_ct));
	CHECK(PtlCTAlloc(w.ni, &heap_ct));
	CHECK(PtlPTAlloc(w.ni, 0, PTL_EQ_NONE, HEAP, &got));
	ptl_le_t le = { .start = &heap, .length = sizeof heap, .ct_handle = heap_ct, .uid = PTL_UID_ANY,
			.options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_COMM_DISABLE | PTL_LE_EVENT_LINK_DISABLE | PTL_LE_EVENT_CT_COMM };
	CHECK(PtlLEAppend(w.ni, got, &le, PTL_PRIORITY_LIST, NULL, &entry));
	/* All of memory: the offset is the address. */
	ptl_md_t md = { .start = NULL, .length = PTL_SIZE_MAX, .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_SUCCESS_DISABLE,
			.eq_handle = PTL_EQ_NONE, .ct_handle = put_ct };
	CHECK(PtlMDBind(w.ni, &md, &put_md));
	md.options = PTL_MD_EVENT_CT_REPLY | PTL_MD_EVENT_SUCCESS_DISABLE;
	md.ct_handle = get_ct;
	CHECK(PtlMDBind(w.ni, &md, &get_md));
}

static void put(ptl_size_t to, const void *from, size_t length, unsigned int rank)
{
	CHECK(PtlPut(put_md, (ptl_size_t)from, length, PTL_OC_ACK_REQ, pe(rank), HEAP, 0, to, NULL, 0));
	puts_sent++;
}

/* All that this PE has sent is where it should be. */
static void quiet(void)
{
	ptl_ct_event_t count;
	CHECK(PtlCTWait(put_ct, puts_sent, &count));
	MUST(count.success == puts_sent && count.failure == 0);
}

static void replied(void)
{
	ptl_ct_event_t count;
	CHECK(PtlCTWait(get_ct, ++gets_sent, &count));
	MUST(count.success == gets_sent && count.failure == 0);
}

static void get(void *to, ptl_size_t from, size_t length, unsigned int rank)
{
	CHECK(PtlGet(get_md, (ptl_size_t)to, length, pe(rank), HEAP, 0, from, NULL));
	replied();
}

static int64_t fetch_add(ptl_size_t at, int64_t value, unsigned int rank)
{
	int64_t old;
	CHECK(PtlFetchAtomic(get_md, (ptl_size_t)&old, put_md, (ptl_size_t)&value, sizeof value, pe(rank), HEAP, 0, at, NULL, 0, PTL_SUM, PTL_INT64_T));
	replied();
	return old;
}

static int64_t swap(ptl_size_t at, int64_t value, const int64_t *expected, ptl_op_t op, unsigned int rank)
{
	int64_t old;
	CHECK(PtlSwap(get_md, (ptl_size_t)&old, put_md, (ptl_size_t)&value, sizeof value, pe(rank), HEAP, 0, at, NULL, 0, expected, op, PTL_INT64_T));
	replied();
	return old;
}

static void add(ptl_size_t at, const void *value, size_t size, ptl_datatype_t type, unsigned int rank)
{
	CHECK(PtlAtomic(put_md, (ptl_size_t)value, size, PTL_OC_ACK_REQ, pe(rank), HEAP, 0, at, NULL, 0, PTL_SUM, type));
	puts_sent++;
}

/* shmem_wait_until(*word >= value): sleeps until something has come, then looks again. */
static void wait_until(const volatile int64_t *word, int64_t value)
{
	ptl_ct_event_t count;
	CHECK(PtlCTGet(heap_ct, &count));
	while (*word < value)
		CHECK(PtlCTWait(heap_ct, count.success + count.failure + 1, &count));
}

static void barrier_all(void)
{
	static int64_t turn;
	const int64_t one = 1;
	turn++;
	quiet();
	for (unsigned int round = 0, step = 1; step < w.ranks; round++, step *= 2) {
		add(AT(heap.barrier[round]), &one, sizeof one, PTL_INT64_T, (w.rank + step) % w.ranks);
		wait_until(&heap.barrier[round], turn);
	}
	quiet();
}

int main(void)
{
	w = world_open(PTL_NI_NO_MATCHING);
	open_heap();
	unsigned int next = (w.rank + 1) % w.ranks, previous = (w.rank + w.ranks - 1) % w.ranks;
	static unsigned char buffer[sizeof heap.data];
	/* Portals drops what finds no entry: all heaps must be open first. An increment that was dropped is tried again. */
	const int64_t one = 1;
	for (unsigned int rank = 0; rank < w.ranks; rank++) {
		ptl_ct_event_t count, none = { 0, 0 };
		do {
			CHECK(PtlCTSet(put_ct, none));
			CHECK(PtlAtomic(put_md, (ptl_size_t)&one, 8, PTL_OC_ACK_REQ, pe(rank), HEAP, 0, AT(heap.all), NULL, 0, PTL_SUM, PTL_INT64_T));
			CHECK(PtlCTWait(put_ct, 1, &count));
		} while (count.failure);
		CHECK(PtlCTSet(put_ct, none));
	}
	wait_until(&heap.all, w.ranks);

	/* put, quiet, get; lengths from a command to many packets */
	static const size_t lengths[] = { 1, 8, 409, 5000, sizeof heap.data };
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		memset(buffer, (int)(w.rank + i), lengths[i]);
		put(AT(heap.data), buffer, lengths[i], next);
		barrier_all();
		MUST(heap.data[0] == (unsigned char)(previous + i) && heap.data[lengths[i] - 1] == (unsigned char)(previous + i));
		memset(buffer, 255, lengths[i]);
		get(buffer, AT(heap.data), lengths[i], next);
		MUST(buffer[0] == (unsigned char)(w.rank + i) && buffer[lengths[i] - 1] == (unsigned char)(w.rank + i));
		barrier_all();
	}

	/* tickets of PE 0; a lock of compare and swap on the last PE around a read and a write */
	int64_t last = -1, zero = 0, mine = w.rank + 1, value;
	for (int turn = 0; turn < 5; turn++) {
		int64_t ticket = fetch_add(AT(heap.ticket), 1, 0);
		MUST(ticket > last && ticket < 5 * (int64_t)w.ranks);
		last = ticket;
		while (swap(AT(heap.lock), mine, &zero, PTL_CSWAP, w.ranks - 1) != 0)
			;
		get(&value, AT(heap.guarded), sizeof value, w.ranks - 1);
		value++;
		put(AT(heap.guarded), &value, sizeof value, w.ranks - 1);
		quiet();
		MUST(swap(AT(heap.lock), 0, NULL, PTL_SWAP, w.ranks - 1) == mine);
	}
	barrier_all();
	MUST(w.rank != 0 || heap.ticket == 5 * (int64_t)w.ranks);
	MUST(w.rank != w.ranks - 1 || heap.guarded == 5 * (int64_t)w.ranks);
	int64_t mask = 0xff00;
	heap.swapped = 0x1234;
	barrier_all();
	MUST(swap(AT(heap.swapped), 0xabcd, &mask, PTL_MSWAP, next) == 0x1234);
	barrier_all();
	MUST(heap.swapped == 0xab34);

	/* sums without an answer, up to the widest type */
	double part = 0.5 * (w.rank + 1);
	long double complex wide = 1.0L + w.rank * 2.0L * I;
	add(AT(heap.sum), &part, sizeof part, PTL_DOUBLE, 0);
	add(AT(heap.wide), &wide, sizeof wide, PTL_LONG_DOUBLE_COMPLEX, 0);
	barrier_all();
	if (w.rank == 0) {
		unsigned int n = w.ranks;
		MUST(heap.sum == 0.25 * n * (n + 1) && creall(heap.wide) == n && cimagl(heap.wide) == n * (n - 1));
	}

	/* data, then a signal: the target sleeps until it comes */
	memset(buffer, 77, 3000);
	put(AT(heap.data), buffer, 3000, next);
	quiet();
	value = 42;
	put(AT(heap.signal), &value, sizeof value, next);
	wait_until(&heap.signal, 42);
	MUST(heap.data[0] == 77 && heap.data[2999] == 77);
	barrier_all();
	if (w.rank == 0)
		printf("ok\n");
	world_close(&w);
	return 0;
}
