/* SPDX-License-Identifier: Apache-2.0 */
/* The load under which switches are timed, and the witness that none was late. */
#include "switching.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

#include "base/clock.h"

#include "children.h"

#define WITNESS_PORT (BENCH_PORT + 20)
#define ARRIVALS_MAX (4UL << 20)
/* How long what was sent may be on its way to the witness. */
#define SETTLE_MS    100

struct arrival {
	uint64_t sent_ns, arrived_ns;
};

/* What the child that sends shares. */
struct sender {
	atomic_ulong sent;
	bool witness;
};

struct flooding {
	struct sender *sender;
	pid_t pid;
	int witness; /* the socket it arrives at; -1: there is none */
	pthread_t receiver;
	atomic_bool ending;
	struct arrival *arrivals;
	size_t count;
	uint32_t lost;
};

/* The witness may be denied, everything else may not. */
static void sent(struct sender *sender, ssize_t result, bool witness)
{
	if (result > 0)
		atomic_fetch_add(&sender->sent, 1);
	else if (!witness || errno != EPERM)
		fail("a datagram under the switches: %s", strerror(errno));
}

/* Judged by the packet alone on the connected socket, by its address too on the other one. */
static void sender_body(void *userdata)
{
	const struct sockaddr_in to = {.sin_family = AF_INET,
				       .sin_port = htons(WITNESS_PORT),
				       .sin_addr.s_addr = inet_addr(SWITCHING_WITNESS)};
	const int target = connected(SOCK_DGRAM, BENCH_TARGET4, BENCH_PORT);
	const int other = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sender *sender = userdata;
	const int peer =
		sender->witness ? connected(SOCK_DGRAM, SWITCHING_WITNESS, WITNESS_PORT) : -1;

	for (;;) {
		uint64_t now = wall_ns();

		sent(sender, send(target, &now, sizeof(now), 0), false);
		if (!sender->witness)
			continue;
		now = wall_ns();
		sent(sender, send(peer, &now, sizeof(now), 0), true);
		now = wall_ns();
		sent(sender,
		     sendto(other, &now, sizeof(now), 0, (const struct sockaddr *)&to, sizeof(to)),
		     true);
	}
}

/* When the packet came to the server's end, by the kernel. */
static uint64_t stamp_of(struct flooding *flooding, struct msghdr *message)
{
	struct timespec stamp = {0};

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_type == SO_RXQ_OVFL)
			memcpy(&flooding->lost, CMSG_DATA(c), sizeof(flooding->lost));
		else if (c->cmsg_type == SCM_TIMESTAMPNS)
			memcpy(&stamp, CMSG_DATA(c), sizeof(stamp));
	}
	return (uint64_t)stamp.tv_sec * PG_NSEC_PER_SEC + (uint64_t)stamp.tv_nsec;
}

static void *receive(void *argument)
{
	struct flooding *flooding = argument;

	pin_first();
	for (;;) {
		uint64_t sent_ns;
		struct iovec part = {&sent_ns, sizeof(sent_ns)};
		char control[256];
		struct msghdr message = {.msg_iov = &part,
					 .msg_iovlen = 1,
					 .msg_control = control,
					 .msg_controllen = sizeof(control)};

		if (recvmsg(flooding->witness, &message, 0) != sizeof(sent_ns)) {
			if (atomic_load(&flooding->ending))
				return NULL;
			continue;
		}
		if (flooding->count == ARRIVALS_MAX)
			fail("too many packets arrived to judge them all");
		flooding->arrivals[flooding->count++] =
			(struct arrival){sent_ns, stamp_of(flooding, &message)};
	}
}

static void start_receiver(struct flooding *flooding, const char *namespace)
{
	const struct timeval patience = {.tv_usec = SETTLE_MS * 1000};
	const int one = 1;

	flooding->arrivals = malloc(ARRIVALS_MAX * sizeof(*flooding->arrivals));
	flooding->witness = socket_in(namespace, SOCK_DGRAM, "0.0.0.0", WITNESS_PORT);
	setsockopt(flooding->witness, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one));
	setsockopt(flooding->witness, SOL_SOCKET, SO_RXQ_OVFL, &one, sizeof(one));
	setsockopt(flooding->witness, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (!flooding->arrivals ||
	    pthread_create(&flooding->receiver, NULL, receive, flooding) != 0)
		fail("starting the receiver of the switches");
}

struct flooding *flooding_start(const struct bench_options *options, int cgroup, bool witness)
{
	struct flooding *flooding = calloc(1, sizeof(*flooding));

	if (!flooding)
		fail("not enough memory for a flood");
	flooding->sender = child_memory(sizeof(*flooding->sender));
	flooding->sender->witness = witness;
	flooding->witness = -1;
	if (witness)
		start_receiver(flooding, options->server);
	flooding->pid = child_start(cgroup, get_nprocs() - 1, sender_body, flooding->sender);
	while (!atomic_load(&flooding->sender->sent))
		if (waitpid(flooding->pid, NULL, WNOHANG))
			fail("the load ended by itself");
	return flooding;
}

uint64_t flooding_sent(const struct flooding *flooding)
{
	return atomic_load(&flooding->sender->sent);
}

/* The last change that began before the time, or -1. */
static long change_before(const struct change *changes, size_t count, uint64_t when)
{
	size_t low = 0, high = count;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (changes[middle].began_ns <= when)
			low = middle + 1;
		else
			high = middle;
	}
	return (long)low - 1;
}

/*
 * Sent after the return of a switch that forbids it, and there before the next one, which allows
 * it again, began.
 */
static bool is_wrong(const struct arrival *arrival, const struct change *changes, size_t count)
{
	const long last = change_before(changes, count, arrival->sent_ns);

	if (last < 0 || changes[last].allowed || arrival->sent_ns < changes[last].returned_ns)
		return false;
	return (size_t)last + 1 == count || arrival->arrived_ns < changes[last + 1].began_ns;
}

struct judgement flooding_end(struct flooding *flooding, const struct change *changes, size_t count)
{
	struct judgement judgement = {0};

	if (waitpid(flooding->pid, NULL, WNOHANG))
		fail("the load ended by itself");
	child_kill(flooding->pid);
	if (flooding->witness >= 0) {
		atomic_store(&flooding->ending, true);
		pthread_join(flooding->receiver, NULL);
		close(flooding->witness);
	}
	judgement.arrived = flooding->count;
	judgement.lost = flooding->lost;
	for (size_t i = 0; i < flooding->count; i++)
		judgement.wrong += is_wrong(&flooding->arrivals[i], changes, count);
	free(flooding->arrivals);
	child_memory_free(flooding->sender, sizeof(*flooding->sender));
	free(flooding);
	return judgement;
}
