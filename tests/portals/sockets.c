/*
 * Ranks that tell each other where they are over sockets and pipes after PtlInit, and talk over the network while
 * others still wait there.
 *
 * ./sockets HOW: one rank waits at a descriptor (`read`, `recv`, `poll`, `select`, `epoll`, `try`, `accept`, `fifo`,
 * `unix`), while the other one waits in PtlEQWait for a message of a third before it writes there. Prints when the
 * first one went on, in us. `long`: as much as does not fit into the kernel. `timeout`: nobody writes for a while.
 * `never`: nobody does.
 */
#include "mail.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define LONG (4 << 20)

static struct sockaddr_storage address;
static socklen_t length;
static char fifo[200];

static void name_it(const char *how)
{
	const char *folder = getenv("SOCKETS_FOLDER");
	snprintf(fifo, sizeof fifo, "%s/fifo", folder ? folder : "/tmp");
	if (!strcmp(how, "unix")) {
		struct sockaddr_un *name = (struct sockaddr_un *)&address;
		name->sun_family = AF_UNIX;
		snprintf(name->sun_path, sizeof name->sun_path, "%s/socket", folder ? folder : "/tmp");
		length = sizeof *name;
	} else {
		struct sockaddr_in *name = (struct sockaddr_in *)&address;
		name->sin_family = AF_INET;
		name->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		const char *port = getenv("SOCKETS_PORT");
		name->sin_port = htons(port ? atoi(port) : 0);
		length = sizeof *name;
	}
}

/* Waits for a first byte in one of the ways that there are. */
static void await(const char *how, int file)
{
	char byte = 0;
	if (!strcmp(how, "poll")) {
		struct pollfd one = { .fd = file, .events = POLLIN };
		MUST(poll(&one, 1, -1) == 1 && one.revents == POLLIN);
	} else if (!strcmp(how, "select")) {
		fd_set set;
		FD_ZERO(&set);
		FD_SET(file, &set);
		MUST(select(file + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(file, &set));
	} else if (!strcmp(how, "epoll")) {
		int all = epoll_create1(0);
		struct epoll_event event = { .events = EPOLLIN };
		MUST(epoll_ctl(all, EPOLL_CTL_ADD, file, &event) == 0);
		MUST(epoll_wait(all, &event, 1, -1) == 1);
		close(all);
	} else if (!strcmp(how, "try")) {
		while (recv(file, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0)
			MUST(errno == EAGAIN);
	}
	MUST(read(file, &byte, 1) == 1 && byte == 'x');
}

/* Rank 0 waits for rank 1, which waits for rank 2, which computes for `us` first. */
static void first(const char *how)
{
	int server = -1, file = -1;
	if (strcmp(how, "fifo")) {
		server = socket(address.ss_family, SOCK_STREAM, 0);
		int yes = 1;
		setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
		MUST(bind(server, (struct sockaddr *)&address, length) == 0 && listen(server, 1) == 0);
	} else {
		MUST(mkfifo(fifo, 0600) == 0);
		file = open(fifo, O_RDWR);
	}
	tell(1);
	if (server >= 0)
		file = accept(server, NULL, NULL);
	MUST(file >= 0);
	if (!strcmp(how, "accept")) {
		printf("%.3f\n", now_us());
		fflush(stdout);
	}
	if (!strcmp(how, "long")) {
		static char all[LONG];
		MUST(recv(file, all, LONG, MSG_WAITALL) == LONG && all[LONG - 1] == 'x');
	} else if (!strcmp(how, "timeout")) {
		struct pollfd one = { .fd = file, .events = POLLIN };
		double begin = now_us();
		MUST(poll(&one, 1, 3) == 0);
		double taken = now_us() - begin;
		printf("%.1f us\n", taken);
		fflush(stdout);
		tell(1);
		await("poll", file);
	} else {
		await(how, file);
	}
	if (strcmp(how, "accept") && strcmp(how, "timeout")) {
		printf("%.3f\n", now_us());
		fflush(stdout);
	}
	tell(1);
	hear();
}

static void second(const char *how)
{
	hear();
	int file;
	double at = 0;
	if (!strcmp(how, "fifo")) {
		file = open(fifo, O_WRONLY);
	} else {
		if (!strcmp(how, "accept"))
			hear();
		file = socket(address.ss_family, SOCK_STREAM, 0);
		at = now_us();
		MUST(connect(file, (struct sockaddr *)&address, length) == 0);
	}
	MUST(file >= 0);
	if (!strcmp(how, "never"))
		hear();
	if (strcmp(how, "accept"))
		hear();
	if (strcmp(how, "accept"))
		at = now_us();
	if (!strcmp(how, "long")) {
		static char all[LONG];
		memset(all, 'x', LONG);
		MUST(write(file, all, LONG) == LONG);
	} else {
		MUST(write(file, "x", 1) == 1);
	}
	hear();
	fprintf(stderr, "written at %.3f\n", at);
	tell(0);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "read";
	opens();
	usleep(1000);
	name_it(how);
	if (w.rank == 0) {
		first(how);
	} else if (w.rank == 1) {
		second(how);
	} else if (strcmp(how, "never") && strcmp(how, "timeout")) {
		usleep(500);
		tell(1);
	}
	world_close(&w);
	return 0;
}
