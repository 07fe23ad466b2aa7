/*
 * The same over PMIx: fences of all ranks, named by nobody and by the wildcard in turns.
 */
#include "ring.h"
#include <pmix.h>

static pmix_proc_t self;

static void meet(void)
{
	static int turn;
	pmix_proc_t all = self;
	all.rank = PMIX_RANK_WILDCARD;
	pmix_status_t status = turn++ % 2 ? PMIx_Fence(NULL, 0, NULL, 0) : PMIx_Fence(&all, 1, NULL, 0);
	if (status != PMIX_SUCCESS) {
		fprintf(stderr, "PMIx_Fence: %d\n", status);
		exit(3);
	}
}

int main(void)
{
	if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS) {
		printf("no PMIx\n");
		return 0;
	}
	ring(meet);
	return PMIx_Finalize(NULL, 0) != PMIX_SUCCESS;
}
