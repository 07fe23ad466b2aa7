/* PtlAbort ends what other threads wait for, at once: an event, a count, and a second waiter of the same process. The thread that calls
 * it does not wait itself; what it does before takes real time, while in simulated time nothing happens any more.
 *
 * With an argument nobody calls PtlAbort: that is a deadlock. */
#include "must.h"
#include <portals4.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static ptl_handle_eq_t eq;
static ptl_handle_ct_t ct;

static void *event(void *unused)
{
	(void)unused;
	ptl_event_t event;
	MUST(PtlEQWait(eq, &event) == PTL_ABORTED);
	return NULL;
}

static void *count(void *unused)
{
	(void)unused;
	ptl_ct_event_t value;
	unsigned which;
	MUST(PtlCTWait(ct, 1, &value) == PTL_ABORTED);
	MUST(PtlCTPoll(&ct, &(ptl_size_t){ 1 }, 1, PTL_TIME_FOREVER, &value, &which) == PTL_ABORTED);
	return NULL;
}

int main(int argc, char **argv)
{
	(void)argv;
	ptl_handle_ni_t ni;
	for (int round = 0; round < 2; round++) {
		MUST(PtlInit() == PTL_OK);
		MUST(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &ni) == PTL_OK);
		MUST(PtlEQAlloc(ni, 8, &eq) == PTL_OK);
		MUST(PtlCTAlloc(ni, &ct) == PTL_OK);
		void *(*const waiters[3])(void *) = { round ? count : event, count, event };
		pthread_t threads[3];
		for (int i = 0; i < 3; i++)
			MUST(pthread_create(&threads[i], NULL, waiters[i], NULL) == 0);
		usleep(200000);
		if (argc == 1)
			PtlAbort();
		for (int i = 0; i < 3; i++)
			MUST(pthread_join(threads[i], NULL) == 0);
		/* What does not wait goes on. */
		ptl_ct_event_t value;
		MUST(PtlCTInc(ct, (ptl_ct_event_t){ 3, 0 }) == PTL_OK);
		MUST(PtlCTGet(ct, &value) == PTL_OK && value.success == 3);
		MUST(PtlCTFree(ct) == PTL_OK);
		MUST(PtlEQFree(eq) == PTL_OK);
		MUST(PtlNIFini(ni) == PTL_OK);
		PtlFini();
	}
	printf("ok\n");
	return 0;
}
