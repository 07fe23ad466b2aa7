/*
 * Threads that wait for words of their memory to change without calling anybody, while other threads of the same
 * process wait for counters, or sleep.
 *
 *   web    four threads of each rank hand a number to the same thread of the next rank, each put with a counter that
 *          is waited for
 *   sleep  one thread sleeps for a second and then writes what the other one waits for. Prints the simulated time, s
 */
#define _DEFAULT_SOURCE
#include "../../examples/portals/world.h"
#include "must.h"
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TABLE = 3, THREADS = 4, TURNS = 4 };

static struct {
	volatile int64_t number[THREADS];
} heap;
static struct world w;
static volatile int64_t written;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *hand_on(void *self)
{
	intptr_t me = (intptr_t)self;
	static int64_t out[THREADS];
	ptl_handle_ct_t ct;
	ptl_handle_md_t md;
	ptl_ct_event_t count;
	CHECK(PtlCTAlloc(w.ni, &ct));
	ptl_md_t source = { .start = &out[me], .length = sizeof out[me], .options = PTL_MD_EVENT_CT_ACK, .eq_handle = PTL_EQ_NONE, .ct_handle = ct };
	CHECK(PtlMDBind(w.ni, &source, &md));
	ptl_process_t next = { .rank = (w.rank + 1) % w.ranks };
	for (int64_t turn = 1, tests = 0; turn <= TURNS; turn++) {
		out[me] = turn;
		do {
			CHECK(PtlPut(md, 0, sizeof out[me], PTL_CT_ACK_REQ, next, TABLE, 0, (ptl_size_t)me * sizeof out[me], NULL, 0));
			CHECK(PtlCTWait(ct, (ptl_size_t)++tests, &count));
			/* In the first round the next rank may not be ready yet. */
		} while ((int64_t)(count.success + count.failure) < tests || (int64_t)count.success < turn);
		while (heap.number[me] < turn)
			;
	}
	CHECK(PtlMDRelease(md));
	CHECK(PtlCTFree(ct));
	return NULL;
}

static void *sleep_and_write(void *unused)
{
	(void)unused;
	sleep(1);
	written = 1;
	ptl_handle_ct_t ct;
	CHECK(PtlCTAlloc(w.ni, &ct));
	CHECK(PtlCTFree(ct));
	return NULL;
}

static void *wait_for_it(void *unused)
{
	(void)unused;
	while (!written)
		;
	return NULL;
}

int main(int argc, char **argv)
{
	ptl_pt_index_t table;
	ptl_handle_le_t entry;
	pthread_t threads[THREADS];
	w = world_open(PTL_NI_NO_MATCHING);
	CHECK(PtlPTAlloc(w.ni, 0, PTL_EQ_NONE, TABLE, &table));
	ptl_le_t le = { .start = &heap, .length = sizeof heap, .ct_handle = PTL_CT_NONE, .uid = PTL_UID_ANY,
			.options = PTL_LE_OP_PUT | PTL_LE_EVENT_COMM_DISABLE | PTL_LE_EVENT_LINK_DISABLE };
	CHECK(PtlLEAppend(w.ni, table, &le, PTL_PRIORITY_LIST, NULL, &entry));
	int web = argc > 1 && !strcmp(argv[1], "web");
	double begin = now();
	int number = web ? THREADS : 2;
	for (intptr_t i = 0; i < number; i++)
		MUST(pthread_create(&threads[i], NULL, web ? hand_on : i == 0 ? wait_for_it : sleep_and_write, (void *)i) == 0);
	for (int i = 0; i < number; i++)
		MUST(pthread_join(threads[i], NULL) == 0);
	if (web)
		printf("ok\n");
	else
		printf("%.3f\n", now() - begin);
	world_close(&w);
	return 0;
}
