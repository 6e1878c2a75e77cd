/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client inside an Environment: an interpreter for socket calls. Each line of standard input
 * (or each argument) is one command; each command prints one JSON line with what the call returned,
 * the name of the errno and the time that it took. The vectors are sequences of such lines, in
 * vectors.py. Linked statically, so that it also runs inside a container.
 *
 *	socket S tcp4|tcp6|udp4|udp6|udplite4|udplite6|ping4|ping6|icmp4|icmp6
 *	connect S ADDR PORT | bind S ADDR PORT | listen S | accept S NEW | close S | shutdown S
 *	send S TOKEN | recv S | recvfrom S (remembers the peer) | reply S TOKEN (to that peer)
 *	sendto S ADDR PORT TOKEN | fastopen S ADDR PORT TOKEN | sendmmsg S ADDR PORT TOKEN...
 *	option S fastopen|cork|device VALUE | query S NAME | echo S ADDR TOKEN [TYPE]
 *	flood TOKEN ADDR PORT... | leave TOKEN ADDR PORT... (to the last one seldom) | print TEXT
 *
 * ADDR "unspec" is a sockaddr of family AF_UNSPEC; "unspec:ADDR4" too, but with an IPv4 address in
 * it. A TOKEN may hold no blanks.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define SOCKETS		  64
#define ARGUMENTS	  32
/* Bounds every blocking call, so that a packet dropped in silence shows as EAGAIN or EINPROGRESS.
 */
#define TIMEOUT_S	  3

static struct {
	int fd;
	struct sockaddr_storage peer;
	socklen_t peer_size;
} sockets[SOCKETS];

struct result {
	long ret;
	int error;
	uint64_t ns;
	char data[512];
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

static void die(const char *what, const char *detail)
{
	fprintf(stderr, "probe: %s: %s\n", what, detail);
	exit(2);
}

static int slot_of(const char *text)
{
	long slot = strtol(text, NULL, 10);

	if (slot < 0 || slot >= SOCKETS)
		die("no such socket", text);
	return (int)slot;
}

static int fd_of(const char *text)
{
	return sockets[slot_of(text)].fd;
}

static socklen_t address(const char *addr, const char *port, struct sockaddr_storage *ret)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
	in_port_t number = htons((uint16_t)strtoul(port, NULL, 10));

	memset(ret, 0, sizeof(*ret));
	if (strncmp(addr, "unspec", 6) == 0) {
		v4->sin_family = AF_UNSPEC;
		v4->sin_port = number;
		if (addr[6] == ':' && inet_pton(AF_INET, addr + 7, &v4->sin_addr) != 1)
			die("not an address", addr);
		return sizeof(*v4);
	}
	if (inet_pton(AF_INET, addr, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = number;
		return sizeof(*v4);
	}
	if (inet_pton(AF_INET6, addr, &v6->sin6_addr) != 1)
		die("not an address", addr);
	v6->sin6_family = AF_INET6;
	v6->sin6_port = number;
	return sizeof(*v6);
}

static void measure(struct result *result, uint64_t started, long ret)
{
	result->error = ret < 0 ? errno : 0;
	result->ns = now_ns() - started;
	result->ret = ret;
}

static const struct {
	const char *name;
	int family, type, protocol;
} kinds[] = {
	{"tcp4", AF_INET, SOCK_STREAM, 0},
	{"tcp6", AF_INET6, SOCK_STREAM, 0},
	{"udp4", AF_INET, SOCK_DGRAM, 0},
	{"udp6", AF_INET6, SOCK_DGRAM, 0},
	{"udplite4", AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE},
	{"udplite6", AF_INET6, SOCK_DGRAM, IPPROTO_UDPLITE},
	{"ping4", AF_INET, SOCK_DGRAM, IPPROTO_ICMP},
	{"ping6", AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6},
	{"icmp4", AF_INET, SOCK_RAW, IPPROTO_ICMP},
	{"icmp6", AF_INET6, SOCK_RAW, IPPROTO_ICMPV6},
};

static void set_timeouts(int fd)
{
	struct timeval limit = {.tv_sec = TIMEOUT_S};
	int one = 1;

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
}

static void run_socket(char **args, int count, struct result *result)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		uint64_t started = now_ns();
		int fd;

		if (strcmp(args[2], kinds[i].name) != 0)
			continue;
		fd = socket(kinds[i].family, kinds[i].type | SOCK_CLOEXEC, kinds[i].protocol);
		measure(result, started, fd);
		if (fd >= 0)
			set_timeouts(fd);
		sockets[slot_of(args[1])].fd = fd;
		return;
	}
	die("no such kind of socket", args[2]);
}

static void run_connect(char **args, int count, struct result *result)
{
	struct sockaddr_storage to;
	socklen_t size = address(args[2], args[3], &to);
	uint64_t started = now_ns();

	measure(result, started, connect(fd_of(args[1]), (struct sockaddr *)&to, size));
}

static void run_bind(char **args, int count, struct result *result)
{
	struct sockaddr_storage to;
	socklen_t size = address(args[2], args[3], &to);
	uint64_t started = now_ns();

	measure(result, started, bind(fd_of(args[1]), (struct sockaddr *)&to, size));
}

static void run_listen(char **args, int count, struct result *result)
{
	measure(result, now_ns(), listen(fd_of(args[1]), 64));
}

static void run_accept(char **args, int count, struct result *result)
{
	uint64_t started = now_ns();
	int fd = accept4(fd_of(args[1]), NULL, NULL, SOCK_CLOEXEC);

	measure(result, started, fd);
	if (fd >= 0)
		set_timeouts(fd);
	sockets[slot_of(args[2])].fd = fd;
}

static void run_close(char **args, int count, struct result *result)
{
	measure(result, now_ns(), close(fd_of(args[1])));
}

static void run_shutdown(char **args, int count, struct result *result)
{
	measure(result, now_ns(), shutdown(fd_of(args[1]), SHUT_WR));
}

static void run_send(char **args, int count, struct result *result)
{
	uint64_t started = now_ns();

	measure(result, started, send(fd_of(args[1]), args[2], strlen(args[2]), MSG_NOSIGNAL));
}

static void received(struct result *result, uint64_t started, ssize_t size)
{
	measure(result, started, size);
	for (ssize_t i = 0; i < size; i++) {
		char *at = result->data + i;

		if (*at < ' ' || *at > '~' || *at == '"' || *at == '\\')
			*at = '.';
	}
}

static void run_recv(char **args, int count, struct result *result)
{
	uint64_t started = now_ns();

	received(result, started, recv(fd_of(args[1]), result->data, sizeof(result->data) - 1, 0));
}

static void run_recvfrom(char **args, int count, struct result *result)
{
	int slot = slot_of(args[1]);
	uint64_t started = now_ns();

	sockets[slot].peer_size = sizeof(sockets[slot].peer);
	received(result, started,
		 recvfrom(sockets[slot].fd, result->data, sizeof(result->data) - 1, 0,
			  (struct sockaddr *)&sockets[slot].peer, &sockets[slot].peer_size));
}

static void run_reply(char **args, int count, struct result *result)
{
	int slot = slot_of(args[1]);
	uint64_t started = now_ns();

	measure(result, started,
		sendto(sockets[slot].fd, args[2], strlen(args[2]), 0,
		       (struct sockaddr *)&sockets[slot].peer, sockets[slot].peer_size));
}

static void send_to(char **args, int flags, struct result *result)
{
	struct sockaddr_storage to;
	socklen_t size = address(args[2], args[3], &to);
	uint64_t started = now_ns();

	measure(result, started,
		sendto(fd_of(args[1]), args[4], strlen(args[4]), flags | MSG_NOSIGNAL,
		       (struct sockaddr *)&to, size));
}

static void run_sendto(char **args, int count, struct result *result)
{
	send_to(args, 0, result);
}

static void run_fastopen(char **args, int count, struct result *result)
{
	send_to(args, MSG_FASTOPEN, result);
}

static void run_sendmmsg(char **args, int count, struct result *result)
{
	struct sockaddr_storage to[ARGUMENTS / 3];
	struct mmsghdr messages[ARGUMENTS / 3];
	struct iovec parts[ARGUMENTS / 3];
	unsigned int n = 0;
	uint64_t started;

	memset(messages, 0, sizeof(messages));
	for (int i = 2; i + 2 < count; i += 3, n++) {
		parts[n] = (struct iovec){args[i + 2], strlen(args[i + 2])};
		messages[n].msg_hdr.msg_namelen = address(args[i], args[i + 1], &to[n]);
		messages[n].msg_hdr.msg_name = &to[n];
		messages[n].msg_hdr.msg_iov = &parts[n];
		messages[n].msg_hdr.msg_iovlen = 1;
	}
	started = now_ns();
	measure(result, started, sendmmsg(fd_of(args[1]), messages, n, 0));
}

/* An echo request, or another type of ICMP; the token is the payload. */
static void run_echo(char **args, int count, struct result *result)
{
	struct sockaddr_storage to;
	socklen_t size = address(args[2], "0", &to);
	uint8_t packet[256] = {0};
	uint64_t started;
	uint32_t sum = 0;
	size_t length = 8 + strlen(args[3]);

	packet[0] = to.ss_family == AF_INET6 ? ICMP6_ECHO_REQUEST : ICMP_ECHO;
	if (count > 4)
		packet[0] = (uint8_t)strtoul(args[4], NULL, 10);
	memcpy(packet + 8, args[3], length - 8);
	for (size_t i = 0; i < length; i += 2)
		sum += (uint32_t)packet[i] << 8 | packet[i + 1];
	sum = (sum >> 16) + (sum & 0xffff);
	sum = ~(sum + (sum >> 16));
	packet[2] = (uint8_t)(sum >> 8);
	packet[3] = (uint8_t)sum;
	started = now_ns();
	measure(result, started,
		sendto(fd_of(args[1]), packet, length, 0, (struct sockaddr *)&to, size));
}

static void run_option(char **args, int count, struct result *result)
{
	int fd = fd_of(args[1]), value = (int)strtol(args[3], NULL, 10);

	if (strcmp(args[2], "fastopen") == 0)
		measure(result, now_ns(),
			setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &value, sizeof(value)));
	else if (strcmp(args[2], "cork") == 0)
		measure(result, now_ns(),
			setsockopt(fd, IPPROTO_UDP, UDP_CORK, &value, sizeof(value)));
	else if (strcmp(args[2], "device") == 0)
		measure(result, now_ns(),
			setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, args[3],
				   (socklen_t)strlen(args[3])));
	else
		die("no such option", args[2]);
}

/* Asks NAME's A record of the nameserver ADDR by UDP, as a stub resolver would. */
static void run_query(char **args, int count, struct result *result)
{
	static const uint8_t header[12] = {0x50, 0x47, 1, 0, 0, 1};
	uint8_t packet[512];
	size_t size = sizeof(header);
	char *rest = NULL;

	memcpy(packet, header, sizeof(header));
	for (char *label = strtok_r(args[2], ".", &rest); label;
	     label = strtok_r(NULL, ".", &rest)) {
		packet[size++] = (uint8_t)strlen(label);
		memcpy(packet + size, label, strlen(label));
		size += strlen(label);
	}
	memcpy(packet + size, "\0\0\1\0\1", 5);
	measure(result, now_ns(), send(fd_of(args[1]), packet, size + 5, MSG_NOSIGNAL));
}

/* One UDP and one TCP attempt (payload in the SYN) at each destination. */
static void flood_once(const char *token, char **targets, int count)
{
	for (int i = 0; i + 1 < count; i += 2) {
		struct sockaddr_storage to;
		socklen_t size = address(targets[i], targets[i + 1], &to);
		int udp = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		int tcp = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

		sendto(udp, token, strlen(token), 0, (struct sockaddr *)&to, size);
		sendto(tcp, token, strlen(token), MSG_FASTOPEN | MSG_NOSIGNAL,
		       (struct sockaddr *)&to, size);
		close(udp);
		close(tcp);
	}
}

static void __attribute__((noreturn)) flood(char **args, int count)
{
	const struct timespec pause = {.tv_nsec = 1000 * 1000};
	const int last = count > 4 ? 2 : 0;

	/* The last of several is the one that is allowed, to see that we are at it: were it sent to
	 * as often as the others, nobody could read as fast as its packets come. */
	for (unsigned int turn = 0;; turn++) {
		flood_once(args[1], args + 2, count - 2 - (turn % 16 ? last : 0));
		nanosleep(&pause, NULL);
	}
}

static void run_flood(char **args, int count, struct result *result)
{
	flood(args, count);
}

/*
 * Leaves a process behind that does all it can to survive: another session, another parent, every
 * signal ignored, and a second generation in case that the first is killed. Returns when it sends.
 */
static void run_leave(char **args, int count, struct result *result)
{
	int ready[2];
	char byte;

	if (pipe2(ready, O_CLOEXEC) < 0)
		die("pipe", strerror(errno));
	fflush(stdout);
	if (fork() == 0) {
		setsid();
		for (int number = 1; number < NSIG; number++)
			signal(number, SIG_IGN);
		if (fork() != 0)
			_exit(0);
		/* Hold nothing that would keep a reader of our output waiting. */
		dup2(open("/dev/null", O_RDWR | O_CLOEXEC), STDOUT_FILENO);
		dup2(STDOUT_FILENO, STDERR_FILENO);
		dup2(STDOUT_FILENO, STDIN_FILENO);
		flood_once(args[1], args + 2, count - 2);
		fork();
		if (write(ready[1], "r", 1) < 0)
			_exit(1);
		flood(args, count);
	}
	close(ready[1]);
	measure(result, now_ns(), read(ready[0], &byte, 1));
	close(ready[0]);
}

static void run_print(char **args, int count, struct result *result)
{
	snprintf(result->data, sizeof(result->data), "%s", args[1]);
}

static const struct {
	const char *name;
	int arguments; /* least number, with the name */
	void (*run)(char **args, int count, struct result *result);
} commands[] = {
	{"socket", 3, run_socket},     {"connect", 4, run_connect},   {"bind", 4, run_bind},
	{"listen", 2, run_listen},     {"accept", 3, run_accept},     {"close", 2, run_close},
	{"shutdown", 2, run_shutdown}, {"send", 3, run_send},	      {"recv", 2, run_recv},
	{"recvfrom", 2, run_recvfrom}, {"reply", 3, run_reply},	      {"sendto", 5, run_sendto},
	{"fastopen", 5, run_fastopen}, {"sendmmsg", 5, run_sendmmsg}, {"echo", 4, run_echo},
	{"option", 4, run_option},     {"query", 3, run_query},	      {"flood", 4, run_flood},
	{"leave", 4, run_leave},       {"print", 2, run_print},
};

static void interpret(char *line)
{
	struct result result = {0};
	char *args[ARGUMENTS], *rest = NULL;
	int count = 0;

	for (char *word = strtok_r(line, " \n", &rest); word && count < ARGUMENTS;
	     word = strtok_r(NULL, " \n", &rest))
		args[count++] = word;
	if (count == 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (strcmp(args[0], commands[i].name) != 0 || count < commands[i].arguments)
			continue;
		commands[i].run(args, count, &result);
		printf("{\"command\":\"%s\",\"ret\":%ld,\"errno\":\"%s\",\"us\":%.1f,"
		       "\"data\":\"%s\"}\n",
		       args[0], result.ret, result.error ? strerrorname_np(result.error) : "",
		       (double)result.ns / 1000, result.data);
		fflush(stdout);
		return;
	}
	die("no such command, or too few arguments", args[0]);
}

int main(int argc, char **argv)
{
	char *line = NULL;
	size_t room = 0;

	for (int i = 1; i < argc; i++)
		interpret(argv[i]);
	if (argc > 1)
		return 0;
	while (getline(&line, &room, stdin) > 0)
		interpret(line);
	free(line);
	return 0;
}
