/* Threads of a process that use Portals at the same time. Each has a partner on the next rank with which it exchanges puts, and waits for its
 * own count or its own event meanwhile; who waits must not keep the others from sending what he waits for. One more
 * waits with a time limit for what never comes, and the main thread puts to itself what the last one waits for.
 *
 * ./threads ROUNDS [partners]: with the second argument for two ranks, on a node each, otherwise every thread is its
 * own partner. */
#include "must.h"
#include <portals4.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 4 };

static ptl_handle_ni_t ni;
static ptl_process_t self, next;
static int rounds;
static ptl_handle_ct_t counts[THREADS + 1];
static ptl_handle_eq_t queues[THREADS + 1];
static ptl_handle_md_t md;
static char memory[64];

static void put(ptl_process_t to, int thread)
{
	MUST(PtlPut(md, 0, 8, PTL_NO_ACK_REQ, to, (ptl_pt_index_t)thread, 0, 0, NULL, 0) == PTL_OK);
}

/* Even threads count, odd ones take events. */
static void await_put(int thread, int round)
{
	ptl_ct_event_t count;
	ptl_event_t event;
	if (thread % 2 == 0)
		MUST(PtlCTWait(counts[thread], (ptl_size_t)round + 1, &count) == PTL_OK && count.failure == 0);
	else
		MUST(PtlEQWait(queues[thread], &event) == PTL_OK && event.type == PTL_EVENT_PUT);
}

static void *exchange(void *argument)
{
	int thread = *(int *)argument;
	for (int round = 0; round < rounds; round++) {
		put(next, thread);
		await_put(thread, round);
	}
	return NULL;
}

static void *in_vain(void *unused)
{
	(void)unused;
	ptl_handle_eq_t queue;
	ptl_event_t event;
	unsigned which;
	MUST(PtlEQAlloc(ni, 4, &queue) == PTL_OK);
	for (int i = 0; i < 5; i++)
		MUST(PtlEQPoll(&queue, 1, 1, &event, &which) == PTL_EQ_EMPTY);
	MUST(PtlEQFree(queue) == PTL_OK);
	return NULL;
}

static void *last(void *unused)
{
	(void)unused;
	await_put(THREADS, 0);
	return NULL;
}

int main(int argc, char **argv)
{
	rounds = argc > 1 ? atoi(argv[1]) : 100;
	MUST(PtlInit() == PTL_OK);
	MUST(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &ni) == PTL_OK);
	MUST(PtlGetPhysId(ni, &self) == PTL_OK);
	for (int thread = 0; thread <= THREADS; thread++) {
		ptl_pt_index_t index;
		ptl_handle_le_t entry;
		MUST(PtlCTAlloc(ni, &counts[thread]) == PTL_OK);
		MUST(PtlEQAlloc(ni, 64, &queues[thread]) == PTL_OK);
		MUST(PtlPTAlloc(ni, 0, queues[thread], (ptl_pt_index_t)thread, &index) == PTL_OK);
		ptl_le_t le = { .start = memory, .length = sizeof memory, .ct_handle = counts[thread], .uid = PTL_UID_ANY };
		le.options = PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE;
		le.options |= thread % 2 ? 0u : PTL_LE_EVENT_CT_COMM | PTL_LE_EVENT_COMM_DISABLE;
		MUST(PtlLEAppend(ni, index, &le, PTL_PRIORITY_LIST, NULL, &entry) == PTL_OK);
	}
	ptl_md_t all = { .start = memory, .length = sizeof memory, .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE };
	MUST(PtlMDBind(ni, &all, &md) == PTL_OK);
	/* Partners wait here until the other one is ready. Nodes count from 1. */
	next = self;
	if (argc > 2) {
		next.phys.nid = 3 - self.phys.nid;
		ptl_ct_event_t count;
		put(next, THREADS);
		MUST(PtlCTWait(counts[THREADS], 1, &count) == PTL_OK);
		MUST(PtlCTSet(counts[THREADS], (ptl_ct_event_t){ 0, 0 }) == PTL_OK);
	}
	pthread_t threads[THREADS + 2];
	int numbers[THREADS];
	for (int thread = 0; thread < THREADS; thread++) {
		numbers[thread] = thread;
		MUST(pthread_create(&threads[thread], NULL, exchange, &numbers[thread]) == 0);
	}
	MUST(pthread_create(&threads[THREADS], NULL, in_vain, NULL) == 0);
	MUST(pthread_create(&threads[THREADS + 1], NULL, last, NULL) == 0);
	for (int thread = 0; thread <= THREADS; thread++)
		MUST(pthread_join(threads[thread], NULL) == 0);
	/* It waits alone now, for something that real time brings. */
	usleep(100000);
	put(self, THREADS);
	MUST(pthread_join(threads[THREADS + 1], NULL) == 0);
	for (int thread = 0; thread < THREADS; thread += 2) {
		ptl_ct_event_t count;
		MUST(PtlCTGet(counts[thread], &count) == PTL_OK && count.success == (ptl_size_t)rounds);
	}
	printf("ok\n");
	MUST(PtlNIFini(ni) == PTL_OK);
	PtlFini();
	return 0;
}
