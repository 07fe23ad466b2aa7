/*
 * What the examples of this folder need beside Portals: who there is. Without a launcher `narrows run` says it in the
 * environment; with one, a program would exchange this over PMI.
 */
#ifndef WORLD_H
#define WORLD_H

#include <portals4.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                                  \
	do {                                                                                                         \
		int code_ = (call);                                                                                  \
		if (code_ != PTL_OK) {                                                                               \
			fprintf(stderr, "%s:%d: %s is %s\n", __FILE__, __LINE__, #call, PtlToStr(code_, PTL_STR_ERROR)); \
			exit(1);                                                                                     \
		}                                                                                                    \
	} while (0)

struct world {
	unsigned int rank, ranks;
	ptl_handle_ni_t ni;
	ptl_ni_limits_t limits;
};

static unsigned int number(const char *name, const char *other, const char *third)
{
	const char *text = getenv(name);
	if (!text)
		text = getenv(other);
	if (!text)
		text = getenv(third);
	if (!text) {
		fprintf(stderr, "start this program with `narrows run -n N -- PROGRAM`\n");
		exit(2);
	}
	return (unsigned int)strtoul(text, NULL, 10);
}

/* Opens a logical network interface of all ranks. `matching`: PTL_NI_MATCHING or PTL_NI_NO_MATCHING. */
static struct world world_open(unsigned int matching)
{
	struct world w;
	CHECK(PtlInit());
	w.rank = number("PMI_RANK", "NARROWS_RANK", "OMPI_COMM_WORLD_RANK");
	w.ranks = number("NARROWS_RANKS", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE");
	CHECK(PtlNIInit(PTL_IFACE_DEFAULT, matching | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, &w.limits, &w.ni));
	ptl_process_t *map = calloc(w.ranks, sizeof *map);
	const char *text = getenv("NARROWS_MAP");
	for (unsigned int rank = 0; rank < w.ranks; rank++) {
		char *end;
		map[rank].phys.nid = (ptl_nid_t)strtoul(text, &end, 10);
		map[rank].phys.pid = (ptl_pid_t)strtoul(end + 1, &end, 10);
		text = end + 1;
	}
	CHECK(PtlSetMap(w.ni, w.ranks, map));
	free(map);
	return w;
}

static void world_close(struct world *w)
{
	CHECK(PtlNIFini(w->ni));
	PtlFini();
}

#endif
