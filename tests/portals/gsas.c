/*
 * A distributed counter and a lock in the global address space, and accesses that are refused. Every rank has a segment
 * of domain 7; counter, lock and what the lock protects are in that of rank 0. `gsas TIMES`; `gsas 0 refused` on a
 * machine whose interfaces have the ranks in protection domains of their own (nic.exanet.domains).
 */
#include "must.h"
#include <narrows/gsas.h>
#include <string.h>

enum { DOMAIN = 7, COUNTER = 0, LOCK = 8, PROTECTED = 16, READY = 24, DONE = 32, BYTES = 64 };

static int64_t segment[BYTES / 8];
static struct gsas g;

static unsigned int number(const char *name)
{
	return (unsigned int)strtoul(getenv(name), NULL, 10);
}

static struct gsas_address of(unsigned int rank, uint64_t va)
{
	struct gsas_address address;
	/* One rank per node. */
	MUST(gsas_at(&address, DOMAIN, rank, 0, va) == GSAS_OK);
	return address;
}

/* All ranks come here: a counter in rank 0, at which they look. */
static void meet(uint64_t va, int64_t ranks)
{
	int64_t seen;
	int code;
	/* Rank 0 may not be there yet. */
	while ((code = gsas_fetch_add(&g, of(0, va), 1, &seen)) == GSAS_DENIED)
		;
	MUST(code == GSAS_OK);
	do {
		MUST(gsas_load(&g, of(0, va), &seen, sizeof seen) == GSAS_OK);
	} while (seen < ranks);
}

/* The interface of the target refuses everything that rank 0 tries. */
static void refused(unsigned int rank)
{
	int64_t value = 5, before = -1;
	if (rank == 0) {
		MUST(gsas_store(&g, of(1, COUNTER), &value, sizeof value) == GSAS_DENIED);
		MUST(gsas_load(&g, of(1, COUNTER), &before, sizeof before) == GSAS_DENIED);
		MUST(gsas_fetch_add(&g, of(1, COUNTER), 1, &before) == GSAS_DENIED);
		MUST(gsas_compare_swap(&g, of(1, COUNTER), 0, 1, &before) == GSAS_DENIED);
		MUST(before == -1);
		printf("ok\n");
	} else {
		/* The own segment is open; 500 loads take longer than what rank 0 does. */
		for (int i = 0; i < 500; i++)
			MUST(gsas_load(&g, gsas_own(&g, COUNTER), &value, sizeof value) == GSAS_OK && value == 0);
		MUST(segment[COUNTER / 8] == 0);
	}
	gsas_close(&g);
}

int main(int argc, char **argv)
{
	unsigned int rank = getenv("PMI_RANK") ? number("PMI_RANK") : number("NARROWS_RANK"), ranks = number("NARROWS_RANKS");
	int times = argc > 1 ? atoi(argv[1]) : 10;
	int64_t before, value;
	MUST(gsas_open(&g, DOMAIN, segment, sizeof segment) == GSAS_OK);
	if (argc > 2) {
		refused(rank);
		return 0;
	}
	meet(READY, ranks);

	int64_t last = -1;
	for (int i = 0; i < times; i++) {
		MUST(gsas_fetch_add(&g, of(0, COUNTER), 1, &before) == GSAS_OK);
		MUST(before > last && before < (int64_t)ranks * times);
		last = before;
		do {
			MUST(gsas_compare_swap(&g, of(0, LOCK), 0, rank + 1, &before) == GSAS_OK);
		} while (before != 0);
		/* Not an atomic operation: the lock makes it one. */
		MUST(gsas_load(&g, of(0, PROTECTED), &value, sizeof value) == GSAS_OK);
		value += 1;
		MUST(gsas_store(&g, of(0, PROTECTED), &value, sizeof value) == GSAS_OK);
		MUST(gsas_compare_swap(&g, of(0, LOCK), rank + 1, 0, &before) == GSAS_OK && before == rank + 1);
	}
	meet(DONE, ranks);
	MUST(gsas_load(&g, of(0, COUNTER), &value, sizeof value) == GSAS_OK && value == (int64_t)ranks * times);
	MUST(gsas_load(&g, of(0, PROTECTED), &value, sizeof value) == GSAS_OK && value == (int64_t)ranks * times);

	/* What is refused, and leaves everything as it is. */
	struct gsas_address wrong = of((rank + 1) % ranks, COUNTER);
	int64_t old;
	MUST(gsas_load(&g, wrong, &old, sizeof old) == GSAS_OK);
	wrong.domain = DOMAIN + 1;
	value = -1;
	MUST(gsas_store(&g, wrong, &value, sizeof value) == GSAS_DENIED);
	MUST(gsas_fetch_add(&g, wrong, 1, &before) == GSAS_DENIED);
	wrong.domain = DOMAIN;
	MUST(gsas_load(&g, wrong, &value, sizeof value) == GSAS_OK && value == old);
	MUST(gsas_store(&g, of(0, BYTES - 4), &value, sizeof value) == GSAS_END);
	MUST(gsas_at(&wrong, DOMAIN, 1u << 22, 0, 0) == GSAS_RANGE && gsas_at(&wrong, 1u << 16, 0, 0, 0) == GSAS_RANGE);
	MUST(gsas_at(&wrong, 0, 0, 8, 0) == GSAS_RANGE && gsas_at(&wrong, 0, 0, 0, (uint64_t)1 << 39) == GSAS_RANGE);
	MUST(strstr(gsas_text(GSAS_RANGE), "22"));
	/* A node that the machine does not have. */
	MUST(gsas_at(&wrong, DOMAIN, (1u << 22) - 1, 0, 0) == GSAS_OK);
	MUST(gsas_load(&g, wrong, &value, sizeof value) == GSAS_NOBODY);
	meet(DONE + 8, ranks);
	MUST(gsas_refused(&g) >= 2);
	if (rank == 0)
		printf("ok\n");
	gsas_close(&g);
	return 0;
}
