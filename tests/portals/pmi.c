/*
 * A program that its launcher serves over PMI-1 or, with the argument 2, over PMI-2: ranks pass a put around a ring and
 * meet at barriers of the launcher in the middle of it. Everybody but one waits at the launcher while the put still
 * travels, so this ends only if the simulation goes on. Not started by a launcher with PMI, it says so and ends well.
 * With a second argument rank 0 has the launcher end the job with that code, while the others sleep.
 */
#include "ring.h"
#include <unistd.h>

static int socket_of_launcher, version = 1;

static void read_all(char *text, size_t length)
{
	while (length > 0) {
		ssize_t got = read(socket_of_launcher, text, length);
		if (got <= 0)
			exit(4);
		text += got;
		length -= (size_t)got;
	}
}

/* Sends a command, and ends the program unless the answer has `answer` in it. Commands of PMI-1 end with a newline, those of PMI-2 begin
 * with their length in six places; so do answers. */
static void request(const char *command, const char *answer)
{
	char text[1024] = { 0 };
	size_t length = 0;
	int sent = version == 1 ? snprintf(text, sizeof text, "%s\n", command) : snprintf(text, sizeof text, "%6zu%s", strlen(command), command);
	if (write(socket_of_launcher, text, (size_t)sent) != sent)
		exit(3);
	memset(text, 0, sizeof text);
	if (version == 2) {
		read_all(text, 6);
		length = strtoul(text, NULL, 10);
		if (length >= sizeof text)
			exit(4);
		memset(text, 0, sizeof text);
		read_all(text, length);
	} else {
		do
			read_all(text + length, 1);
		while (text[length++] != '\n' && length + 1 < sizeof text);
	}
	if (!strstr(text, answer)) {
		fprintf(stderr, "%s answered by %s\n", command, text);
		exit(5);
	}
}

static void meet(void)
{
	if (version == 1)
		request("cmd=barrier_in", "cmd=barrier_out");
	else
		request("cmd=kvs-fence;", "cmd=kvs-fence-response;rc=0");
}

int main(int argc, char **argv)
{
	const char *number_of_socket = getenv("PMI_FD");
	if (!number_of_socket) {
		printf("no PMI\n");
		return 0;
	}
	socket_of_launcher = atoi(number_of_socket);
	if (argc > 1 && !strcmp(argv[1], "2")) {
		/* The version is agreed upon in the words of PMI-1. */
		char hello[128];
		request("cmd=init pmi_version=2 pmi_subversion=0", "cmd=response_to_init");
		version = 2;
		snprintf(hello, sizeof hello, "cmd=fullinit;pmirank=%s;threaded=FALSE;", getenv("PMI_RANK"));
		request(hello, "cmd=fullinit-response");
	} else {
		request("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init");
	}
	ring(meet);
	if (argc > 2) {
		char abort[64];
		int length = snprintf(abort, sizeof abort, "cmd=abort exitcode=%s\n", argv[2]);
		if (!strcmp(getenv("PMI_RANK"), "0") && write(socket_of_launcher, abort, (size_t)length) != length)
			return 3;
		for (;;)
			pause();
	}
	if (version == 1)
		request("cmd=finalize", "cmd=finalize_ack");
	else
		request("cmd=finalize;", "cmd=finalize-response");
	return 0;
}
