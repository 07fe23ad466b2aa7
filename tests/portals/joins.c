/*
 * A rank that opens Portals only after another one, which has, has written to it: what sits on sockets does so.
 *
 * ./joins HOW: rank 1 waits before PtlInit, in one of these ways: `accept` (and reads a line), `poll`, `select`,
 * `epoll`, `recv`, `fifo`, `connect` (until rank 0 listens), `file` (until there is one of that name, for which it
 * looks every 100 us). Rank 0 writes after its PtlInit, and waits for the answer
 * that rank 1 has opened Portals too. Then a message goes from 0 to 1 and on to the last rank, which has opened Portals
 * at once and waits for it. Rank 1 prints the times at which it had the line and the message, in us.
 */
#include "mail.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sockaddr_in address = { .sin_family = AF_INET };
static char fifos[2][200];

static int listens(void)
{
	int server = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
	setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	MUST(bind(server, (struct sockaddr *)&address, sizeof address) == 0 && listen(server, 1) == 0);
	return server;
}

/* One that has failed to connect is of no further use. */
static int connects(void)
{
	for (;;) {
		int file = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(file, (struct sockaddr *)&address, sizeof address) == 0)
			return file;
		close(file);
		usleep(100);
	}
}

static void makes(const char *name)
{
	int file = open(name, O_WRONLY | O_CREAT, 0600);
	MUST(file >= 0 && close(file) == 0);
}

static void finds(const char *name)
{
	while (access(name, F_OK) != 0)
		usleep(100);
}

static void await(const char *how, int file)
{
	if (!strcmp(how, "poll")) {
		struct pollfd one = { .fd = file, .events = POLLIN };
		MUST(poll(&one, 1, -1) == 1);
	} else if (!strcmp(how, "select")) {
		fd_set set;
		FD_ZERO(&set);
		FD_SET(file, &set);
		MUST(select(file + 1, &set, NULL, NULL, NULL) == 1);
	} else if (!strcmp(how, "epoll")) {
		int all = epoll_create1(0);
		struct epoll_event event = { .events = EPOLLIN };
		MUST(epoll_ctl(all, EPOLL_CTL_ADD, file, &event) == 0);
		MUST(epoll_wait(all, &event, 1, -1) == 1);
		close(all);
	}
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "accept", *port = getenv("SOCKETS_PORT"), *folder = getenv("SOCKETS_FOLDER");
	unsigned int rank = number("PMI_RANK", "NARROWS_RANK", "OMPI_COMM_WORLD_RANK");
	int fifo = !strcmp(how, "fifo"), reads = -1, writes = -1;
	char line[5];
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address.sin_port = htons(port ? atoi(port) : 0);
	for (int i = 0; i < 2; i++)
		snprintf(fifos[i], sizeof fifos[i], "%s/fifo%d", folder ? folder : "/tmp", i);
	if (rank == 0) {
		opens();
		if (!strcmp(how, "file")) {
			usleep(1050);
			makes(fifos[0]);
			finds(fifos[1]);
			tell(1);
			world_close(&w);
			return 0;
		}
		if (!strcmp(how, "connect")) {
			/* Not when the other one tries. */
			usleep(1050);
			reads = writes = accept(listens(), NULL, NULL);
		} else if (!fifo) {
			reads = writes = connects();
		} else {
			reads = open(fifos[1], O_RDWR);
			writes = open(fifos[0], O_RDWR);
		}
		MUST(reads >= 0 && writes >= 0 && write(writes, "open\n", 5) == 5);
		MUST(read(reads, line, 5) == 5 && !memcmp(line, "too.\n", 5));
		tell(1);
	} else if (rank == 1) {
		if (!strcmp(how, "file")) {
			finds(fifos[0]);
		} else if (!strcmp(how, "connect")) {
			reads = writes = connects();
		} else if (fifo) {
			reads = open(fifos[0], O_RDWR);
			writes = open(fifos[1], O_RDWR);
		} else {
			int server = listens();
			await(how, server);
			reads = writes = accept(server, NULL, NULL);
		}
		if (strcmp(how, "file")) {
			MUST(reads >= 0 && writes >= 0);
			await(how, reads);
			MUST((!strcmp(how, "recv") ? recv(reads, line, 5, MSG_WAITALL) : read(reads, line, 5)) == 5 && !memcmp(line, "open\n", 5));
		}
		double had = now_us();
		opens();
		if (!strcmp(how, "file"))
			makes(fifos[1]);
		else
			MUST(write(writes, "too.\n", 5) == 5);
		hear();
		printf("%.3f %.3f\n", had, now_us());
		fflush(stdout);
		if (w.ranks > 2)
			tell(w.ranks - 1);
	} else {
		opens();
		if (rank == w.ranks - 1)
			hear();
	}
	world_close(&w);
	return 0;
}
