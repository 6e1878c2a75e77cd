/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Switches under traffic: switches SERVER_NAMESPACE A4 B4 A6 B6 COUNT
 *
 * Two allowlists, one of A and one of B, are switched to and fro while four processes send to both
 * all the time. Each payload carries the time before its send call. A payload is a leak if that
 * time lies after the return of the switch to a phase that forbids its destination, and it arrives
 * (by the kernel's time stamp; for TCP, when it is read) before the next switch, which allows the
 * destination again, begins.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "base/clock.h"

#include "support.h"

#define PORT		7300
#define SENDERS		4
#define TARGETS		4
#define ARRIVALS_MAX	(8UL << 20)
#define CONNECTIONS_MAX 4096
/* Every so many switches the second step runs too; else a newer switch supersedes it. */
#define CLOSE_EVERY	100
#define GAP_US		1000

static const char *const role = "sender";

struct message {
	uint64_t sent_ns;
	uint32_t sender;
	uint32_t target; /* even: A, odd: B */
};

struct shared {
	atomic_int stop;
	atomic_ulong sent[SENDERS], denied[SENDERS];
};

struct arrival {
	uint64_t sent_ns, arrived_ns;
	uint32_t target, sender;
};

struct change {
	uint64_t began_ns, returned_ns;
	enum pg_phase phase;
};

struct receiver {
	int epoll, datagrams[TARGETS], listeners[TARGETS];
	struct {
		uint8_t bytes[sizeof(struct message)];
		size_t size;
	} rests[CONNECTIONS_MAX]; /* by descriptor: the beginning of a message */
	struct arrival *arrivals;
	size_t count, per_target[TARGETS];
	uint32_t overflows; /* datagrams that the sockets had no room for */
};

static bool allowed_in(enum pg_phase phase, uint32_t target)
{
	return (target % 2 == 0) == (phase == PG_PHASE_SETUP);
}

/* ---- the senders, in the Environment */

struct sender {
	struct shared *shared;
	uint32_t number;
	struct sockaddr_storage to[TARGETS];
	socklen_t size[TARGETS];
	int fds[TARGETS];
};

static void sent(struct sender *sender, ssize_t result)
{
	if (result > 0)
		atomic_fetch_add(&sender->shared->sent[sender->number], 1);
	else if (errno == EPERM)
		atomic_fetch_add(&sender->shared->denied[sender->number], 1);
}

static void send_unconnected(struct sender *sender, uint32_t target)
{
	struct message message = {wall_ns(), sender->number, target};

	if (sender->fds[target] < 0)
		sender->fds[target] = socket(sender->to[target].ss_family, SOCK_DGRAM, 0);
	sent(sender, sendto(sender->fds[target], &message, sizeof(message), 0,
			    (struct sockaddr *)&sender->to[target], sender->size[target]));
}

/* A connection is kept until it fails; streams do not block. */
static void send_connected(struct sender *sender, uint32_t target, int type)
{
	struct message message = {0, sender->number, target};
	ssize_t result;

	if (sender->fds[target] < 0) {
		int fd = socket(sender->to[target].ss_family, type, 0);

		if (connect(fd, (struct sockaddr *)&sender->to[target], sender->size[target]) < 0 &&
		    errno != EINPROGRESS) {
			sent(sender, -1);
			close(fd);
			return;
		}
		sender->fds[target] = fd;
	}
	message.sent_ns = wall_ns();
	result = send(sender->fds[target], &message, sizeof(message), MSG_NOSIGNAL);
	sent(sender, result);
	if (result != sizeof(message) && errno != EAGAIN && errno != EPERM) {
		close(sender->fds[target]);
		sender->fds[target] = -1;
	}
}

static void send_many(struct sender *sender, uint32_t first)
{
	struct message messages[2];
	struct iovec parts[2];
	struct mmsghdr headers[2] = {0};

	for (uint32_t i = 0; i < 2; i++) {
		messages[i] = (struct message){wall_ns(), sender->number, first + i};
		parts[i] = (struct iovec){&messages[i], sizeof(messages[i])};
		headers[i].msg_hdr = (struct msghdr){.msg_name = &sender->to[first + i],
						     .msg_namelen = sender->size[first + i],
						     .msg_iov = &parts[i],
						     .msg_iovlen = 1};
	}
	if (sender->fds[first] < 0)
		sender->fds[first] = socket(sender->to[first].ss_family, SOCK_DGRAM, 0);
	sent(sender, sendmmsg(sender->fds[first], headers, 2, 0));
}

static int run_sender(int argc, char **argv)
{
	struct sender sender = {.number = (uint32_t)strtoul(argv[3], NULL, 10)};
	const struct timespec pause = {.tv_nsec = 20000};

	sender.shared = shared_open(argv[2], sizeof(*sender.shared));
	for (int i = 0; i < TARGETS; i++) {
		sender.size[i] = endpoint(argv[4 + i], PORT, &sender.to[i]);
		sender.fds[i] = -1;
	}
	while (!atomic_load(&sender.shared->stop)) {
		for (uint32_t target = 0; target < TARGETS; target++) {
			if (sender.number == 0)
				send_unconnected(&sender, target);
			else if (sender.number == 1)
				send_connected(&sender, target, SOCK_DGRAM);
			else if (sender.number == 2)
				send_connected(&sender, target, SOCK_STREAM | SOCK_NONBLOCK);
			else if (target % 2 == 0)
				send_many(&sender, target);
		}
		nanosleep(&pause, NULL);
	}
	return EXIT_SUCCESS;
}

/* ---- the receiver, at the servers' side */

static void arrived(struct receiver *receiver, const struct message *message, uint64_t when)
{
	if (message->target >= TARGETS || receiver->count == ARRIVALS_MAX)
		fail("%zu payloads, the last for target %u", receiver->count, message->target);
	receiver->arrivals[receiver->count++] =
		(struct arrival){message->sent_ns, when, message->target, message->sender};
	receiver->per_target[message->target]++;
}

static void read_datagrams(struct receiver *receiver, int fd)
{
	for (;;) {
		struct message message;
		struct iovec part = {&message, sizeof(message)};
		char control[256];
		struct msghdr header = {.msg_iov = &part,
					.msg_iovlen = 1,
					.msg_control = control,
					.msg_controllen = sizeof(control)};
		uint64_t when = wall_ns();

		if (recvmsg(fd, &header, MSG_DONTWAIT) != sizeof(message))
			return;
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&header); c; c = CMSG_NXTHDR(&header, c)) {
			struct timespec stamp;

			if (c->cmsg_type == SO_RXQ_OVFL) {
				memcpy(&receiver->overflows, CMSG_DATA(c), sizeof(uint32_t));
			} else if (c->cmsg_type == SCM_TIMESTAMPNS) {
				memcpy(&stamp, CMSG_DATA(c), sizeof(stamp));
				when = (uint64_t)stamp.tv_sec * PG_NSEC_PER_SEC +
				       (uint64_t)stamp.tv_nsec;
			}
		}
		arrived(receiver, &message, when);
	}
}

static void read_stream(struct receiver *receiver, int fd)
{
	uint8_t block[sizeof(struct message) * 1024];
	size_t *rest = &receiver->rests[fd].size, size;
	uint64_t when;
	ssize_t got;

	memcpy(block, receiver->rests[fd].bytes, *rest);
	got = recv(fd, block + *rest, sizeof(block) - *rest, MSG_DONTWAIT);
	if (got <= 0) {
		if (got == 0 || errno != EAGAIN)
			close(fd);
		return;
	}
	when = wall_ns();
	size = *rest + (size_t)got;
	for (size_t at = 0; at + sizeof(struct message) <= size; at += sizeof(struct message)) {
		struct message message;

		memcpy(&message, block + at, sizeof(message));
		arrived(receiver, &message, when);
	}
	*rest = size % sizeof(struct message);
	memcpy(receiver->rests[fd].bytes, block + size - *rest, *rest);
}

static void watch(struct receiver *receiver, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	if (fd < 0 || fd >= CONNECTIONS_MAX)
		fail("too many connections");
	receiver->rests[fd].size = 0;
	epoll_ctl(receiver->epoll, EPOLL_CTL_ADD, fd, &event);
}

static void *receive(void *argument)
{
	struct receiver *receiver = argument;

	for (;;) {
		struct epoll_event event;
		bool done = false;

		if (epoll_wait(receiver->epoll, &event, 1, -1) != 1)
			continue;
		for (int i = 0; i < TARGETS && !done; i++) {
			if (event.data.fd == receiver->datagrams[i]) {
				read_datagrams(receiver, event.data.fd);
				done = true;
			} else if (event.data.fd == receiver->listeners[i]) {
				int fd = accept4(event.data.fd, NULL, NULL, SOCK_CLOEXEC);

				if (fd >= 0)
					watch(receiver, fd);
				done = true;
			}
		}
		if (!done)
			read_stream(receiver, event.data.fd);
	}
	return NULL;
}

static void start_receiver(struct receiver *receiver, const char *namespace, char **targets)
{
	pthread_t thread;
	int one = 1;

	receiver->epoll = epoll_create1(EPOLL_CLOEXEC);
	receiver->arrivals = malloc(ARRIVALS_MAX * sizeof(*receiver->arrivals));
	if (!receiver->arrivals)
		fail("no memory");
	for (int i = 0; i < TARGETS; i++) {
		int fd = socket_in(namespace, SOCK_DGRAM, targets[i], PORT);

		setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one));
		setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &one, sizeof(one));
		receiver->datagrams[i] = fd;
		receiver->listeners[i] = socket_in(namespace, SOCK_STREAM, targets[i], PORT);
		watch(receiver, fd);
		watch(receiver, receiver->listeners[i]);
	}
	if (pthread_create(&thread, NULL, receive, receiver) != 0)
		fail("no thread");
}

/* ---- the judgement */

/* The last change that began before the time, or -1. */
static long change_before(const struct change *changes, size_t count, uint64_t when)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (changes[middle].began_ns <= when)
			low = middle + 1;
		else
			high = middle;
	}
	return (long)low - 1;
}

static void judge(const struct receiver *receiver, const struct change *changes, size_t count)
{
	size_t leaks = 0, crossed = 0, during = 0;

	for (size_t i = 0; i < receiver->count; i++) {
		const struct arrival *arrival = &receiver->arrivals[i];
		long last = change_before(changes, count, arrival->sent_ns);
		enum pg_phase phase = last < 0 ? PG_PHASE_SETUP : changes[last].phase;

		if (last >= 0 && arrival->sent_ns < changes[last].returned_ns)
			during++;
		else if (allowed_in(phase, arrival->target))
			continue;
		else if ((size_t)last + 1 < count &&
			 arrival->arrived_ns >= changes[last + 1].began_ns)
			crossed++;
		else if (leaks++ < 5)
			fprintf(stderr,
				"leak: sender %u to target %u, %.1f us after the switch's return, "
				"arrived %.1f us after the send call began\n",
				arrival->sender, arrival->target,
				(double)(arrival->sent_ns -
					 (last < 0 ? 0 : changes[last].returned_ns)) /
					1000,
				(double)(arrival->arrived_ns - arrival->sent_ns) / 1000);
	}
	printf("%zu payloads: A %zu and %zu, B %zu and %zu (v4, v6); sent during a switch %zu, "
	       "across the next one %zu; leaks %zu; not received for lack of room %u\n",
	       receiver->count, receiver->per_target[0], receiver->per_target[2],
	       receiver->per_target[1], receiver->per_target[3], during, crossed, leaks,
	       receiver->overflows);
	if (leaks > 0 || receiver->overflows > 0)
		fail("a payload arrived where the phase forbids it, or the proof has gaps");
	for (int i = 0; i < TARGETS; i++) {
		if (receiver->per_target[i] < count / 10)
			fail("target %d saw too little traffic to prove anything", i);
	}
}

static int compare_ns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void do_switches(struct confinement *confinement, struct change *changes, size_t count)
{
	uint64_t *took = calloc(count, sizeof(*took));
	size_t closed = 0;

	if (!took)
		fail("no memory");
	for (size_t i = 0; i < count; i++) {
		struct timespec gap = {.tv_nsec = random() % GAP_US * 1000};

		nanosleep(&gap, NULL);
		changes[i].phase = i % 2 ? PG_PHASE_SETUP : PG_PHASE_RUN;
		changes[i].began_ns = wall_ns();
		confine_switch(confinement, changes[i].phase);
		changes[i].returned_ns = wall_ns();
		took[i] = changes[i].returned_ns - changes[i].began_ns;
		if (i % CLOSE_EVERY == 0)
			closed += confine_close_forbidden(confinement);
		confine_process(confinement);
	}
	qsort(took, count, sizeof(*took), compare_ns);
	printf("%zu switches under traffic: median %.1f us, 99 %% %.1f us, worst %.1f us; "
	       "%zu connections closed\n",
	       count, (double)took[count / 2] / 1000, (double)took[count * 99 / 100] / 1000,
	       (double)took[count - 1] / 1000, closed);
	free(took);
}

static pid_t start_sender(struct confinement *confinement, char **targets, int number)
{
	static char self[4096], path[64], name[16], digits[16], cgroup[32];
	ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *argv[] = {self,	    name,	path,	    digits, targets[0],
			targets[1], targets[2], targets[3], NULL};

	if (size < 0)
		fail("/proc/self/exe: %s", strerror(errno));
	self[size] = '\0';
	snprintf(path, sizeof(path), "%s", shared_path());
	snprintf(digits, sizeof(digits), "%d", number);
	snprintf(name, sizeof(name), "%s", role);
	snprintf(cgroup, sizeof(cgroup), "%s%d", role, number);
	return confine_spawn(confinement, cgroup, argv);
}

int main(int argc, char **argv)
{
	static struct receiver receiver;
	struct confinement confinement;
	struct change *changes;
	struct shared *shared;
	char document[512];
	pid_t pids[SENDERS];
	size_t count;

	if (argc == 8 && !strcmp(argv[1], role))
		return run_sender(argc, argv);
	if (argc != 7)
		fail("usage: switches SERVER_NAMESPACE A4 B4 A6 B6 COUNT");
	count = strtoul(argv[6], NULL, 10);
	changes = calloc(count, sizeof(*changes));
	shared = shared_create(sizeof(*shared));
	start_receiver(&receiver, argv[1], argv + 2);
	snprintf(document, sizeof(document),
		 "{\"network_policy\":{\"network_mode\":\"allowlist\",\"allowed_hosts\":[\"%s\",\"%"
		 "s\"]},"
		 "\"run_network_policy\":{\"network_mode\":\"allowlist\",\"allowed_hosts\":[\"%s\","
		 "\"%s\"]}}",
		 argv[2], argv[4], argv[3], argv[5]);
	confine(&confinement, document);
	for (int i = 0; i < SENDERS; i++)
		pids[i] = start_sender(&confinement, argv + 2, i);
	for (int i = 0; i < SENDERS; i++) {
		while (atomic_load(&shared->sent[i]) == 0)
			sched_yield();
	}
	do_switches(&confinement, changes, count);
	atomic_store(&shared->stop, 1);
	for (int i = 0; i < SENDERS; i++) {
		waitpid(pids[i], NULL, 0);
		printf("sender %d: %lu sent, %lu denied\n", i, atomic_load(&shared->sent[i]),
		       atomic_load(&shared->denied[i]));
	}
	judge(&receiver, changes, count);
	confine_end(&confinement);
	free(changes);
	return EXIT_SUCCESS;
}
