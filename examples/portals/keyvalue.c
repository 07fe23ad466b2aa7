/*
 * A key-value store over puts: rank 0 serves, the others ask. A request (16 B and, to set, a value of 16 to 240 B) is
 * put into a place of its client at the server, the answer (the same) into one at the client. Each client has WINDOW
 * requests under way; half of them set. Values are checked.
 *
 * The server prints how many transactions there were, and how many a second from the first request to the last answer.
 *
 *   narrows run -n 4 --machine exanest-qfdb --ppn 1 --compute none -- ./keyvalue [REQUESTS [WINDOW [LONGEST]]]
 */
#include "world.h"
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TABLE = 4, KEYS = 1024, HEAD = 16, SHORTEST = 16, LONGEST = 240, ROOM = HEAD + LONGEST };
enum { GET, SET, END };

struct head {
	uint32_t operation, key, length, slot;
};

struct value {
	uint32_t length;
	unsigned char bytes[LONGEST];
};

static struct value store[KEYS];

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Numerical Recipes' generator: the same requests in each run. */
static uint32_t draw(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static unsigned char byte_of(uint32_t key)
{
	return (unsigned char)(key * 31 + 7);
}

static void fill(uint32_t longest)
{
	uint32_t state = 0;
	for (uint32_t key = 0; key < KEYS; key++) {
		store[key].length = SHORTEST + draw(&state) % (longest - SHORTEST + 1);
		memset(store[key].bytes, byte_of(key), store[key].length);
	}
}

static int serve(struct world *w, ptl_handle_eq_t eq, ptl_handle_md_t md, unsigned char *in, unsigned char *out, unsigned long window)
{
	unsigned long left = w->ranks - 1, done = 0;
	double begin = 0, end = 0;
	while (left > 0) {
		ptl_event_t event;
		CHECK(PtlEQWait(eq, &event));
		if (event.type != PTL_EVENT_PUT || event.ni_fail_type != PTL_NI_OK)
			return 3;
		struct head head;
		memcpy(&head, in + event.remote_offset, HEAD);
		if (head.operation == END) {
			left--;
			continue;
		}
		if (begin == 0)
			begin = now();
		if (head.key >= KEYS || head.length > LONGEST)
			return 4;
		struct value *value = &store[head.key];
		unsigned char *answer = out + event.remote_offset;
		size_t length = HEAD;
		if (head.operation == SET) {
			value->length = head.length;
			memcpy(value->bytes, in + event.remote_offset + HEAD, head.length);
		} else {
			head.length = value->length;
			memcpy(answer + HEAD, value->bytes, value->length);
			length += value->length;
		}
		memcpy(answer, &head, HEAD);
		size_t slot = event.remote_offset / ROOM % window;
		ptl_process_t client = { .rank = event.initiator.rank };
		CHECK(PtlPut(md, (ptl_size_t)(answer - out), length, PTL_NO_ACK_REQ, client, TABLE, 0, slot * ROOM, NULL, 0));
		done++;
		end = now();
	}
	printf("%lu transactions, %.3f M/s\n", done, (double)done / (end - begin));
	return 0;
}

static void ask(struct world *w, ptl_handle_md_t md, unsigned char *out, unsigned long slot, unsigned long window, uint32_t operation,
		uint32_t *state, uint32_t longest)
{
	struct head head = { .operation = operation, .key = draw(state) % KEYS, .slot = (uint32_t)slot };
	size_t length = HEAD;
	if (operation == SET) {
		head.length = SHORTEST + draw(state) % (longest - SHORTEST + 1);
		memset(out + slot * ROOM + HEAD, byte_of(head.key), head.length);
		length += head.length;
	}
	memcpy(out + slot * ROOM, &head, HEAD);
	ptl_process_t server = { .rank = 0 };
	CHECK(PtlPut(md, slot * ROOM, length, PTL_NO_ACK_REQ, server, TABLE, 0, ((w->rank - 1) * window + slot) * ROOM, NULL, 0));
}

static int use(struct world *w, ptl_handle_eq_t eq, ptl_handle_md_t md, unsigned char *in, unsigned char *out, unsigned long requests,
	       unsigned long window, uint32_t longest)
{
	uint32_t state = w->rank;
	unsigned long sent = 0;
	for (; sent < window && sent < requests; sent++)
		ask(w, md, out, sent, window, draw(&state) % 2 ? SET : GET, &state, longest);
	for (unsigned long answers = 0; answers < requests; answers++) {
		ptl_event_t event;
		CHECK(PtlEQWait(eq, &event));
		if (event.type != PTL_EVENT_PUT || event.ni_fail_type != PTL_NI_OK)
			return 3;
		size_t slot = event.remote_offset / ROOM;
		struct head head;
		memcpy(&head, in + slot * ROOM, HEAD);
		if (head.slot != slot || (head.operation == GET && event.mlength != HEAD + head.length))
			return 4;
		for (uint32_t at = 0; head.operation == GET && at < head.length; at++)
			if (in[slot * ROOM + HEAD + at] != byte_of(head.key)) {
				fprintf(stderr, "key %u: wrong value\n", head.key);
				return 5;
			}
		if (sent < requests) {
			sent++;
			ask(w, md, out, slot, window, draw(&state) % 2 ? SET : GET, &state, longest);
		}
	}
	ask(w, md, out, 0, window, END, &state, longest);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long requests = argc > 1 ? strtoul(argv[1], NULL, 10) : 200;
	unsigned long window = argc > 2 ? strtoul(argv[2], NULL, 10) : 4;
	unsigned long longest = argc > 3 ? strtoul(argv[3], NULL, 10) : LONGEST;
	struct world w = world_open(PTL_NI_NO_MATCHING);
	if (w.ranks < 2 || requests < 1 || window < 1 || longest < SHORTEST || longest > LONGEST) {
		fprintf(stderr, "expected two ranks or more, a request or more, and a longest value of %d to %d B\n", SHORTEST, LONGEST);
		return 2;
	}
	size_t places = window * (w.rank == 0 ? w.ranks : 1);
	unsigned char *in = calloc(places, ROOM), *out = calloc(places, ROOM);
	ptl_handle_eq_t eq, sends;
	ptl_handle_me_t entry;
	ptl_handle_md_t md;
	ptl_pt_index_t pt;
	CHECK(PtlEQAlloc(w.ni, 4096, &eq));
	CHECK(PtlEQAlloc(w.ni, 4096, &sends));
	CHECK(PtlPTAlloc(w.ni, 0, eq, TABLE, &pt));
	ptl_le_t le = { .start = in,
			.length = places * ROOM,
			.ct_handle = PTL_CT_NONE,
			.uid = PTL_UID_ANY,
			.options = PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE };
	CHECK(PtlLEAppend(w.ni, pt, &le, PTL_PRIORITY_LIST, NULL, &entry));
	ptl_md_t descriptor = { .start = out, .length = places * ROOM, .options = PTL_MD_EVENT_SEND_DISABLE, .eq_handle = sends };
	CHECK(PtlMDBind(w.ni, &descriptor, &md));
	fill((uint32_t)longest);
	usleep(1000); /* Everybody's entry is there. */
	int code = w.rank == 0 ? serve(&w, eq, md, in, out, window)
			       : use(&w, eq, md, in, out, requests, window, (uint32_t)longest);
	usleep(1000); /* What is under way arrives. */
	world_close(&w);
	return code;
}
