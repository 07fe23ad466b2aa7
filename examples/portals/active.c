/*
 * A small active-message layer: a message says by number which function runs at its target. Bodies land one behind the
 * other in blocks that the NIC manages (PTL_ME_MANAGE_LOCAL); a block that is full is posted again when its last
 * message is done.
 *
 *   narrows run -n 4 --machine bxi-v2 --compute none -- ./active
 */
#include "world.h"
#include <string.h>

enum { BLOCK = 4096, BLOCKS = 3, LONGEST = 256 };

struct layer {
	struct world *w;
	ptl_handle_eq_t eq;
	ptl_pt_index_t pt;
	ptl_handle_md_t md;
	unsigned char memory[BLOCKS][BLOCK];
};

typedef void handler(struct layer *l, unsigned int from, const void *body, size_t bytes);

static void post(struct layer *l, size_t block)
{
	ptl_handle_me_t unused;
	ptl_me_t me = { .start = l->memory[block],
			.length = BLOCK,
			.uid = PTL_UID_ANY,
			.options = PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_MAY_ALIGN | PTL_ME_EVENT_LINK_DISABLE,
			.match_id.rank = PTL_RANK_ANY,
			.ignore_bits = ~(ptl_match_bits_t)0,
			.min_free = LONGEST };
	CHECK(PtlMEAppend(l->w->ni, l->pt, &me, PTL_PRIORITY_LIST, (void *)block, &unused));
}

static void layer_open(struct layer *l, struct world *w)
{
	l->w = w;
	CHECK(PtlEQAlloc(w->ni, 4096, &l->eq));
	CHECK(PtlPTAlloc(w->ni, 0, l->eq, PTL_PT_ANY, &l->pt));
	ptl_md_t md = { .start = NULL, .length = PTL_SIZE_MAX, .options = PTL_MD_VOLATILE | PTL_MD_EVENT_SEND_DISABLE, .eq_handle = l->eq };
	CHECK(PtlMDBind(w->ni, &md, &l->md));
	for (size_t block = 0; block < BLOCKS; block++)
		post(l, block);
}

static unsigned long waiting;

/* Sends; a refused message (no block is posted yet) is sent again by `serve`. */
static void call(struct layer *l, unsigned int to, unsigned int function, const void *body, size_t bytes)
{
	ptl_process_t target = { .rank = to };
	unsigned char *copy = malloc(bytes + 16);
	memcpy(copy, &to, 4);
	memcpy(copy + 4, &function, 4);
	memcpy(copy + 8, &bytes, 8);
	memcpy(copy + 16, body, bytes);
	waiting++;
	CHECK(PtlPut(l->md, (ptl_size_t)(copy + 16), bytes, PTL_ACK_REQ, target, l->pt, 0, 0, copy, function));
}

/* Handles one event. */
static void serve(struct layer *l, handler *const *handlers)
{
	ptl_event_t event;
	CHECK(PtlEQWait(l->eq, &event));
	if (event.type == PTL_EVENT_PUT) {
		handlers[event.hdr_data](l, event.initiator.rank, event.start, event.mlength);
	} else if (event.type == PTL_EVENT_AUTO_UNLINK) {
		post(l, (size_t)event.user_ptr);
	} else if (event.type == PTL_EVENT_ACK) {
		unsigned char *copy = event.user_ptr;
		waiting--;
		if (event.ni_fail_type != PTL_NI_OK) {
			unsigned int to, function;
			size_t bytes;
			memcpy(&to, copy, 4);
			memcpy(&function, copy + 4, 4);
			memcpy(&bytes, copy + 8, 8);
			call(l, to, function, copy + 16, bytes);
		}
		free(copy);
	}
}

enum { ADD, ANSWER, DONE };
static unsigned long sum, answers, finished;

static void add(struct layer *l, unsigned int from, const void *body, size_t bytes)
{
	unsigned long value;
	memcpy(&value, body, sizeof value);
	sum += value + bytes;
	call(l, from, ANSWER, &value, sizeof value);
}

static void answer(struct layer *l, unsigned int from, const void *body, size_t bytes)
{
	(void)l, (void)from, (void)body, (void)bytes;
	answers++;
}

static void done(struct layer *l, unsigned int from, const void *body, size_t bytes)
{
	(void)l, (void)from, (void)body, (void)bytes;
	finished++;
}

int main(void)
{
	static struct layer l;
	handler *const handlers[] = { add, answer, done };
	struct world w = world_open(PTL_NI_MATCHING);
	unsigned long calls = 0, expected = 0;
	unsigned char body[LONGEST];
	layer_open(&l, &w);
	memset(body, 0, sizeof body);
	for (unsigned long i = 0; i < 200; i++)
		for (unsigned int to = 0; to < w.ranks; to++) {
			size_t bytes = 8 + i % (LONGEST - 8);
			memcpy(body, &i, sizeof i);
			call(&l, to, ADD, body, bytes);
			calls++;
		}
	for (unsigned long i = 0; i < 200; i++)
		expected += (i + 8 + i % (LONGEST - 8)) * w.ranks;
	while (answers < calls)
		serve(&l, handlers);
	for (unsigned int to = 0; to < w.ranks; to++)
		call(&l, to, DONE, "", 0);
	while (finished < w.ranks || waiting)
		serve(&l, handlers);
	if (sum != expected) {
		fprintf(stderr, "rank %u: %lu instead of %lu\n", w.rank, sum, expected);
		return 1;
	}
	if (w.rank == 0)
		printf("%lu active messages of each of %u ranks, sum %lu\n", calls, w.ranks, sum);
	world_close(&w);
	return 0;
}
