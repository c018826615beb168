/* The plainest client there is: epoll, read, and the time after the read. It parses nothing.
   reader ADDRESS PORT STREAMS TOKENS NAME FILE
   writes one line a stream to FILE, its name and the arrival of each frame (CLOCK_MONOTONIC, ns), and to
   stdout: frames, its processor time in ns, its largest resident set in KiB. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static long long used(void) {
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000LL + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000LL;
}

/* ru_maxrss remembers the process that started this one. */
static long most(void) {
	char line[256];
	long kib = 0;
	FILE *f = fopen("/proc/self/status", "r");
	while (f && fgets(line, sizeof line, f))
		sscanf(line, "VmHWM: %ld", &kib);
	if (f)
		fclose(f);
	return kib;
}

static void die(const char *what) {
	perror(what);
	exit(1);
}

int main(int argc, char **argv) {
	if (argc != 7) {
		fprintf(stderr, "reader ADDRESS PORT STREAMS TOKENS NAME FILE\n");
		return 2;
	}
	int streams = atoi(argv[3]), tokens = atoi(argv[4]), room = tokens + 16;
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
	inet_pton(AF_INET, argv[1], &to.sin_addr);
	long long *at = calloc((size_t)streams * room, sizeof *at);
	int *count = calloc(streams, sizeof *count), frames = 0, open = streams;
	long long before = used();
	int ep = epoll_create1(0);
	for (int i = 0; i < streams; i++) {
		char body[512], head[1024];
		int n = snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"%s-%d\\nx\"}],\"max_tokens\":%d,\"stream\":true,\"stream_options\":{\"include_usage\":true}}", argv[5], i, tokens);
		int m = snprintf(head, sizeof head, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", n, body);
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) || write(fd, head, m) != m)
			die("connect");
		struct epoll_event e = {.events = EPOLLIN, .data.u64 = (unsigned long long)i << 32 | (unsigned)fd};
		if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e))
			die("epoll_ctl");
	}
	static char buf[1 << 16];
	struct epoll_event ready[64];
	while (open > 0) {
		int n = epoll_wait(ep, ready, 64, -1);
		for (int k = 0; k < n; k++) {
			int i = ready[k].data.u64 >> 32, fd = (int)(unsigned)ready[k].data.u64;
			ssize_t got = read(fd, buf, sizeof buf - 1);
			long long t = now();
			if (got <= 0)
				die("read");
			buf[got] = 0;
			for (char *p = buf; (p = strstr(p, "data: {")); p++, frames++)
				if (count[i] < room)
					at[(size_t)i * room + count[i]++] = t;
			if (got >= 5 && !memcmp(buf + got - 5, "0\r\n\r\n", 5)) {
				close(fd);
				open--;
			}
		}
	}
	long long spent = used() - before;
	FILE *f = fopen(argv[6], "w");
	if (!f)
		die(argv[6]);
	for (int i = 0; i < streams; i++) {
		fprintf(f, "%s-%d", argv[5], i);
		for (int j = 0; j < count[i]; j++)
			fprintf(f, " %lld", at[(size_t)i * room + j]);
		fputc('\n', f);
	}
	fclose(f);
	printf("%d %lld %ld\n", frames, spent, most());
	return 0;
}
