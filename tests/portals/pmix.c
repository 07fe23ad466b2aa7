/*
 * The same over PMIx: fences of all ranks, named by nobody and by the wildcard in turns. With an argument rank 0 ends
 * the job with that code.
 */
#include "ring.h"
#include <pmix.h>
#include <unistd.h>

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

int main(int argc, char **argv)
{
	if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS) {
		printf("no PMIx\n");
		return 0;
	}
	ring(meet);
	if (argc > 1) {
		if (self.rank == 0)
			PMIx_Abort(atoi(argv[1]), "enough", NULL, 0);
		for (;;)
			pause();
	}
	return PMIx_Finalize(NULL, 0) != PMIX_SUCCESS;
}
