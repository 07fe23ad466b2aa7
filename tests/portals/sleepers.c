/* Threads that sleep while others wait with a time limit: all in simulated time, so what a sleeper does when it wakes is in time for them.
 *
 * ./sleepers ROUNDS prints the simulated time that they took, in ms. */
#include "must.h"
#include <portals4.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static ptl_handle_ni_t ni;
static ptl_handle_ct_t count;
static ptl_handle_eq_t queue;

/* Counts up to 15, which never comes. */
static void *wait_in_vain(void *unused)
{
	(void)unused;
	ptl_ct_event_t value;
	unsigned which;
	ptl_size_t test = 15;
	MUST(PtlCTPoll(&count, &test, 1, 130, &value, &which) == PTL_CT_NONE_REACHED);
	return NULL;
}

/* To 10: in time. */
static void *wait_for_ten(void *unused)
{
	(void)unused;
	ptl_ct_event_t value;
	unsigned which;
	ptl_size_t test = 10;
	MUST(PtlCTPoll(&count, &test, 1, 130, &value, &which) == PTL_OK && value.success == 10);
	return NULL;
}

static void *sleep_and_count(void *unused)
{
	(void)unused;
	usleep(50000);
	for (int i = 0; i < 10; i++)
		MUST(PtlCTInc(count, (ptl_ct_event_t){ .success = 1 }) == PTL_OK);
	return NULL;
}

/* Ended by PtlAbort long before its time. */
static void *wait_for_the_end(void *unused)
{
	(void)unused;
	ptl_event_t event;
	unsigned which;
	MUST(PtlEQPoll(&queue, 1, 2000, &event, &which) == PTL_ABORTED);
	return NULL;
}

static double now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 10;
	MUST(PtlInit() == PTL_OK);
	MUST(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &ni) == PTL_OK);
	MUST(PtlCTAlloc(ni, &count) == PTL_OK);
	MUST(PtlEQAlloc(ni, 16, &queue) == PTL_OK);
	double start = now_ms();
	for (int round = 0; round < rounds; round++) {
		void *(*const parts[])(void *) = { wait_in_vain, wait_for_ten, sleep_and_count };
		pthread_t threads[3];
		for (int i = 0; i < 3; i++)
			MUST(pthread_create(&threads[i], NULL, parts[i], NULL) == 0);
		for (int i = 0; i < 3; i++)
			MUST(pthread_join(threads[i], NULL) == 0);
		MUST(PtlCTSet(count, (ptl_ct_event_t){ 0 }) == PTL_OK);
	}
	double taken = now_ms() - start;
	pthread_t threads[2];
	for (int i = 0; i < 2; i++)
		MUST(pthread_create(&threads[i], NULL, wait_for_the_end, NULL) == 0);
	sleep(1);
	PtlAbort();
	for (int i = 0; i < 2; i++)
		MUST(pthread_join(threads[i], NULL) == 0);
	printf("%.1f\n", taken);
	return 0;
}
