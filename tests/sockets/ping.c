// ping udp|tcp server HOST|client HOST N BYTES
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/socket.h>
#include <errno.h>

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e6 + t.tv_nsec / 1e3; }
static void die(const char *what) { perror(what); exit(1); }
static void all(int s, char *b, int n) { while (n > 0) { int k = recv(s, b, n, 0); if (k <= 0) die("recv"); b += k; n -= k; } }

int main(int argc, char **argv) {
    int tcp = !strcmp(argv[1], "tcp"), server = !strcmp(argv[2], "server"), n = atoi(argv[4]), bytes = atoi(argv[5]);
    static char buffer[1 << 20];
    int s = socket(AF_INET, tcp ? SOCK_STREAM : SOCK_DGRAM, 0), one = 1;
    if (s < 0) die("socket");
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(5000)}, from;
    socklen_t length = sizeof from;
    if (server) {
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(s, (void *)&to, sizeof to)) die("bind");
        if (tcp) {
            if (listen(s, 5)) die("listen");
            s = accept(s, (void *)&from, &length);
            if (s < 0) die("accept");
            printf("server: %s connected\n", inet_ntoa(from.sin_addr));
        }
    } else {
        struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = tcp ? SOCK_STREAM : SOCK_DGRAM}, *found;
        int code = getaddrinfo(argv[3], "5000", &hints, &found);
        if (code) { fprintf(stderr, "%s: %s\n", argv[3], gai_strerror(code)); return 1; }
        to = *(struct sockaddr_in *)found->ai_addr;
        usleep(1000);
        if (connect(s, (void *)&to, sizeof to)) die("connect");
    }
    if (tcp) setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    double begin = now();
    for (int i = 0; i < n; i++) {
        if (server) {
            if (tcp) { all(s, buffer, bytes); if (send(s, buffer, bytes, 0) != bytes) die("send"); }
            else { int k = recvfrom(s, buffer, sizeof buffer, 0, (void *)&from, &length); if (k < 0) die("recvfrom"); if (sendto(s, buffer, k, 0, (void *)&from, length) != k) die("sendto"); }
        } else {
            memset(buffer, i, bytes);
            if (send(s, buffer, bytes, 0) != bytes) die("send");
            memset(buffer, 99, bytes);
            all(s, buffer, bytes);
            for (int k = 0; k < bytes; k++) if (buffer[k] != (char)i) { printf("wrong byte %d\n", k); return 1; }
        }
    }
    if (!server) printf("client: %.3f us\n", (now() - begin) / n);
    return 0;
}
