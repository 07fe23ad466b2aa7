/*
 * A program that its launcher serves over PMI-1: ranks pass a put around a ring and meet at barriers of the launcher in the
 * middle of it. Everybody but one waits at the launcher while the put still travels, so this ends only if the simulation goes on.
 * Not started by a launcher with PMI-1, it says so and ends well.
 */
#include "../../examples/portals/world.h"
#include <string.h>
#include <unistd.h>

static int socket_of_launcher;

static void request(const char *command, const char *answer)
{
	char text[1024];
	size_t length = 0;
	if (write(socket_of_launcher, command, strlen(command)) < 0)
		exit(3);
	while (length + 1 < sizeof text) {
		ssize_t got = read(socket_of_launcher, text + length, 1);
		if (got <= 0)
			exit(4);
		if (text[length++] == '\n')
			break;
	}
	text[length] = 0;
	if (!strstr(text, answer)) {
		fprintf(stderr, "%s answered by %s", command, text);
		exit(5);
	}
}

int main(void)
{
	const char *number_of_socket = getenv("PMI_FD");
	if (!number_of_socket) {
		printf("no PMI-1\n");
		return 0;
	}
	socket_of_launcher = atoi(number_of_socket);
	request("cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init");
	struct world w = world_open(PTL_NI_NO_MATCHING);
	ptl_handle_ct_t ct;
	ptl_pt_index_t pt;
	ptl_handle_le_t entry;
	ptl_handle_md_t md;
	ptl_ct_event_t count;
	unsigned char in[64] = { 0 }, out[64] = { 1 };
	CHECK(PtlCTAlloc(w.ni, &ct));
	CHECK(PtlPTAlloc(w.ni, 0, PTL_EQ_NONE, 7, &pt));
	ptl_le_t le = { .start = in, .length = sizeof in, .ct_handle = ct, .uid = PTL_UID_ANY, .options = PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM | PTL_LE_EVENT_LINK_DISABLE };
	CHECK(PtlLEAppend(w.ni, pt, &le, PTL_PRIORITY_LIST, NULL, &entry));
	ptl_md_t m = { .start = out, .length = sizeof out };
	CHECK(PtlMDBind(w.ni, &m, &md));
	request("cmd=barrier_in\n", "cmd=barrier_out");
	for (ptl_size_t turn = 1; turn <= 20; turn++) {
		ptl_process_t to = { .rank = (w.rank + 1) % w.ranks };
		if (w.rank == 0)
			CHECK(PtlPut(md, 0, sizeof out, PTL_NO_ACK_REQ, to, pt, 0, 0, NULL, 0));
		CHECK(PtlCTWait(ct, turn, &count));
		if (w.rank != 0)
			CHECK(PtlPut(md, 0, sizeof out, PTL_NO_ACK_REQ, to, pt, 0, 0, NULL, 0));
		request("cmd=barrier_in\n", "cmd=barrier_out");
	}
	if (w.rank == 0)
		printf("20 turns of %u ranks with barriers of the launcher\n", w.ranks);
	world_close(&w);
	request("cmd=finalize\n", "cmd=finalize_ack");
	return 0;
}
