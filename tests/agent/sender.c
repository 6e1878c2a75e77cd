/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends for ever, each time one UDP datagram, one TCP SYN with payload or one UDP packet of a raw
 * socket to one of the addresses: sender WAY TOKEN PAUSE-US ADDR4 PORT...
 *
 * The payload is the token and the time (CLOCK_REALTIME ns) at which its sending began. WAYs are
 * those in which a process tries to outlive its phase: see the table at the end. With SENDER_LOG in
 * its environment, each attempt is a record in that file. With SENDER_ROUTER, the Ethernet address
 * of a router on eth0, and SENDER_SOURCE, frames of a packet socket are sent as well, with "frame:"
 * before the token.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/if_ether.h>
#include <linux/if_packet.h>

#define TARGETS_MAX 8
#define CHAINS	    3

static struct {
	const char *token;
	struct timespec pause;
	struct sockaddr_in targets[TARGETS_MAX];
	unsigned int target_count;
	int log_fd;		   /* -1: none */
	struct sockaddr_ll router; /* .sll_halen 0: none */
	struct in_addr source;
} plan = {.log_fd = -1};

/* In the order of the machine; storm.py reads them. */
struct record {
	uint64_t began, ended; /* CLOCK_REALTIME ns; the payload has .began */
	uint32_t target;       /* by number */
	int32_t number;	       /* errno; 0: it was sent */
};

static void die(const char *what)
{
	fprintf(stderr, "sender: %s: %s\n", what, strerror(errno));
	_exit(2);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* 0, or the errno. */
static int send_raw(const char *payload, size_t length, const struct sockaddr_in *to)
{
	const struct udphdr head = {.source = htons(7),
				    .dest = to->sin_port,
				    .len = htons((uint16_t)(sizeof(head) + length))};
	int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_UDP);
	char packet[sizeof(head) + 256];
	int number = 0;

	memcpy(packet, &head, sizeof(head));
	memcpy(packet + sizeof(head), payload, length);
	if (sendto(fd, packet, sizeof(head) + length, 0, (const struct sockaddr *)to, sizeof(*to)) <
	    0)
		number = errno;
	close(fd);
	return number;
}

/* The one's complement sum of RFC 1071. */
static uint16_t checksum(const void *data, size_t size)
{
	const uint8_t *octets = data;
	uint32_t sum = 0;

	for (size_t i = 0; i + 1 < size; i += 2)
		sum += (uint32_t)octets[i] << 8 | octets[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

/* Past every hook of a cgroup. */
static void send_frame(const char *payload, size_t length, const struct sockaddr_in *to)
{
	struct {
		struct iphdr ip;
		struct udphdr udp;
		char payload[256];
	} packet = {
		.ip = {.version = 4,
		       .ihl = 5,
		       .ttl = 64,
		       .protocol = IPPROTO_UDP,
		       .saddr = plan.source.s_addr,
		       .daddr = to->sin_addr.s_addr},
		.udp = {.source = htons(7), .dest = to->sin_port},
	};
	const size_t size = sizeof(packet.ip) + sizeof(packet.udp) + length;
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_IP));

	packet.ip.tot_len = htons((uint16_t)size);
	packet.ip.check = checksum(&packet.ip, sizeof(packet.ip));
	packet.udp.len = htons((uint16_t)(sizeof(packet.udp) + length));
	memcpy(packet.payload, payload, length);
	sendto(fd, &packet, size, 0, (const struct sockaddr *)&plan.router, sizeof(plan.router));
	close(fd);
}

static int send_plain(int type, const char *payload, size_t length, const struct sockaddr_in *to)
{
	int fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), number = 0;

	if (sendto(fd, payload, length, MSG_NOSIGNAL | (type == SOCK_STREAM ? MSG_FASTOPEN : 0),
		   (const struct sockaddr *)to, sizeof(*to)) < 0 &&
	    errno != EINPROGRESS)
		number = errno;
	close(fd);
	return number;
}

/* Each kind to each target in turn. */
static void send_once(unsigned int number)
{
	struct record record = {.target = number % plan.target_count};
	const struct sockaddr_in *to = &plan.targets[record.target];
	char payload[256];
	size_t length;

	record.began = now_ns();
	length = (size_t)snprintf(payload, sizeof(payload), "%s %llu", plan.token,
				  (unsigned long long)record.began);
	switch (number / plan.target_count % 3) {
	case 0:
		record.number = send_plain(SOCK_DGRAM, payload, length, to);
		break;
	case 1:
		record.number = send_plain(SOCK_STREAM, payload, length, to);
		break;
	default:
		record.number = send_raw(payload, length, to);
	}
	record.ended = now_ns();
	if (plan.router.sll_halen) {
		length = (size_t)snprintf(payload, sizeof(payload), "frame:%s %llu", plan.token,
					  (unsigned long long)now_ns());
		send_frame(payload, length, to);
	}
	if (plan.log_fd >= 0 && write(plan.log_fd, &record, sizeof(record)) != sizeof(record))
		die("writing the log");
}

static void *send_for_ever(void *unused)
{
	for (unsigned int number = 0;; number++) {
		send_once(number);
		nanosleep(&plan.pause, NULL);
	}
	return NULL;
}

static void run_plain(void)
{
	send_for_ever(NULL);
}

/* Another session, another parent, every signal ignored, and two of them. */
static void run_daemon(void)
{
	setsid();
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_IGN);
	if (fork())
		_exit(0);
	fork();
	send_for_ever(NULL);
}

/* The thread that the process began with has ended: what is left looks like a zombie. */
static void run_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, send_for_ever, NULL))
		die("pthread_create");
	pthread_exit(NULL);
}

/* Every process lives for one round; none is there when its pid has been read. */
static void run_chains(void)
{
	unsigned int number = 0;

	signal(SIGCHLD, SIG_IGN);
	for (int i = 1; i < CHAINS; i++)
		if (!fork())
			break;
	for (;; number++) {
		send_once(number);
		if (fork() > 0)
			_exit(0);
	}
}

/* More and more of them, up to a bound. */
static void run_tree(void)
{
	for (int i = 0; i < 4; i++)
		if (fork() < 0)
			break;
	send_for_ever(NULL);
}

static const struct {
	const char *name;
	void (*run)(void);
} ways[] = {
	{"plain", run_plain},	{"daemon", run_daemon}, {"thread", run_thread},
	{"chains", run_chains}, {"tree", run_tree},
};

static void read_environment(void)
{
	const char *log = getenv("SENDER_LOG"), *router = getenv("SENDER_ROUTER");
	unsigned char *to = plan.router.sll_addr;

	if (log)
		plan.log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (log && plan.log_fd < 0)
		die(log);
	if (!router)
		return;
	plan.router.sll_family = AF_PACKET;
	plan.router.sll_protocol = htons(ETH_P_IP);
	plan.router.sll_ifindex = (int)if_nametoindex("eth0");
	plan.router.sll_halen = ETH_ALEN;
	if (sscanf(router, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &to[0], &to[1], &to[2], &to[3], &to[4],
		   &to[5]) != ETH_ALEN ||
	    inet_pton(AF_INET, getenv("SENDER_SOURCE"), &plan.source) != 1)
		die(router);
}

int main(int argc, char **argv)
{
	if (argc < 6) {
		fprintf(stderr, "usage: sender WAY TOKEN PAUSE-US ADDR4 PORT...\n");
		return 2;
	}
	plan.token = argv[2];
	read_environment();
	plan.pause.tv_nsec = strtol(argv[3], NULL, 10) * 1000;
	for (int i = 4; i + 1 < argc && plan.target_count < TARGETS_MAX; i += 2) {
		struct sockaddr_in *to = &plan.targets[plan.target_count++];

		to->sin_family = AF_INET;
		to->sin_port = htons((uint16_t)strtoul(argv[i + 1], NULL, 10));
		if (inet_pton(AF_INET, argv[i], &to->sin_addr) != 1)
			die(argv[i]);
	}
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(argv[1], ways[i].name))
			ways[i].run();
	die(argv[1]);
}
