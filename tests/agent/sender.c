/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends for ever, each time one UDP datagram, one TCP SYN with payload or one UDP packet of a raw
 * socket to one of the addresses: sender WAY TOKEN PAUSE-US ADDR4 PORT...
 *
 * The payload is the token and the time (CLOCK_REALTIME ns) at which its sending began. WAYs are
 * those in which a process tries to outlive its phase: see the table at the end.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TARGETS_MAX 8
#define CHAINS	    3

static struct {
	const char *token;
	struct timespec pause;
	struct sockaddr_in targets[TARGETS_MAX];
	unsigned int target_count;
} plan;

static void die(const char *what)
{
	fprintf(stderr, "sender: %s: %s\n", what, strerror(errno));
	_exit(2);
}

static void send_raw(const char *payload, size_t length, const struct sockaddr_in *to)
{
	const struct udphdr head = {.source = htons(7),
				    .dest = to->sin_port,
				    .len = htons((uint16_t)(sizeof(head) + length))};
	int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_UDP);
	char packet[sizeof(head) + 256];

	memcpy(packet, &head, sizeof(head));
	memcpy(packet + sizeof(head), payload, length);
	sendto(fd, packet, sizeof(head) + length, 0, (const struct sockaddr *)to, sizeof(*to));
	close(fd);
}

static void send_plain(int type, const char *payload, size_t length, const struct sockaddr_in *to)
{
	int fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	sendto(fd, payload, length, MSG_NOSIGNAL | (type == SOCK_STREAM ? MSG_FASTOPEN : 0),
	       (const struct sockaddr *)to, sizeof(*to));
	close(fd);
}

/* Each kind to each target in turn. */
static void send_once(unsigned int number)
{
	const struct sockaddr_in *to = &plan.targets[number % plan.target_count];
	struct timespec now;
	char payload[256];
	size_t length;

	clock_gettime(CLOCK_REALTIME, &now);
	length = (size_t)snprintf(payload, sizeof(payload), "%s %lld%09ld", plan.token,
				  (long long)now.tv_sec, now.tv_nsec);
	switch (number / plan.target_count % 3) {
	case 0:
		send_plain(SOCK_DGRAM, payload, length, to);
		break;
	case 1:
		send_plain(SOCK_STREAM, payload, length, to);
		break;
	default:
		send_raw(payload, length, to);
	}
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

int main(int argc, char **argv)
{
	if (argc < 6) {
		fprintf(stderr, "usage: sender WAY TOKEN PAUSE-US ADDR4 PORT...\n");
		return 2;
	}
	plan.token = argv[2];
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
