/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Switches while names are resolved: dns_switches SERVER_NAMESPACE NAMESERVER COUNT
 *
 * The phases allow *.a.test and *.b.test in turn; the nameserver gives every name below them an
 * address of its own. Four clients resolve new names of both all the time, and send to each new
 * address at once and to older ones. A payload is a leak if its send call began after the return of
 * the switch to a phase that forbids its name, and it arrived before the next switch began. An
 * answer is a leak if it went out in such a time, also to a question from before the switch.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"

#include "support.h"

#define PORT	 7300
#define CLIENTS	 4
#define SIDES	 2 /* a, b */
/* Names of one client and side: 4 * 16384 addresses of a /16. */
#define NAMES	 16384
#define REMEMBER 32
#define GAP_MS	 3
#define WAIT_MS	 200

static const char *const role = "client";

struct message {
	uint64_t sent_ns;
	uint32_t side, age; /* age 0: to the address of an answer that has just come */
};

#define ANSWERS 65536

/* That a name has an address: when it went out. */
struct answer {
	uint64_t sent_ns;
	uint32_t side;
};

struct tally {
	atomic_ulong resolved[SIDES], refused[SIDES], sent[SIDES], denied[SIDES], silent;
};

struct shared {
	atomic_int stop;
	struct tally tallies[CLIENTS];
	atomic_uint answer_counts[CLIENTS];
	struct answer answers[CLIENTS][ANSWERS];
};

struct change {
	uint64_t began_ns, returned_ns;
};

/* recvmsg() with the kernel's time stamp, the time of sending on loopback; counts what the socket
 * had no room for. */
static ssize_t receive(int fd, void *data, size_t room, uint64_t *ret_when, uint32_t *overflows)
{
	struct iovec part = {data, room};
	char control[256];
	struct msghdr header = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = control,
				.msg_controllen = sizeof(control)};
	ssize_t size = recvmsg(fd, &header, MSG_DONTWAIT);

	if (size < 0)
		return size;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&header); c; c = CMSG_NXTHDR(&header, c)) {
		struct timespec stamp;

		if (c->cmsg_type == SO_RXQ_OVFL) {
			memcpy(overflows, CMSG_DATA(c), sizeof(uint32_t));
		} else if (c->cmsg_type == SCM_TIMESTAMPNS) {
			memcpy(&stamp, CMSG_DATA(c), sizeof(stamp));
			*ret_when =
				(uint64_t)stamp.tv_sec * PG_NSEC_PER_SEC + (uint64_t)stamp.tv_nsec;
		}
	}
	return size;
}

/* ---- the clients, in the Environment */

struct client {
	struct tally *tally;
	struct answer *answers;
	atomic_uint *answer_count;
	int dns, out;
	uint16_t id;
	uint32_t known[SIDES][REMEMBER]; /* network order; 0: none */
	unsigned int count[SIDES];
};

static size_t build_query(uint8_t *at, uint16_t id, unsigned int name, unsigned int side)
{
	static const uint8_t head[10] = {1, 0, 0, 1}, tail[] = "\4test\0\0\1\0\1";
	uint8_t *begin = at;
	int size;

	*at++ = (uint8_t)(id >> 8);
	*at++ = (uint8_t)id;
	memcpy(at, head, sizeof(head));
	at += sizeof(head);
	size = snprintf((char *)at + 1, 16, "n%u", name);
	*at = (uint8_t)size;
	at += 1 + size;
	*at++ = 1;
	*at++ = side ? 'b' : 'a';
	memcpy(at, tail, sizeof(tail) - 1);
	return (size_t)(at + sizeof(tail) - 1 - begin);
}

/* The address of the name; 0 if there is none, and counts why. */
static uint32_t resolve(struct client *client, unsigned int name, unsigned int side)
{
	uint8_t packet[512];
	size_t size = build_query(packet, ++client->id, name, side);
	struct pollfd ready = {.fd = client->dns, .events = POLLIN};
	uint32_t address, overflows;
	unsigned int count;
	uint64_t when = 0;
	ssize_t got;

	if (send(client->dns, packet, size, 0) < 0)
		fail("asking: %s", strerror(errno));
	do {
		if (poll(&ready, 1, WAIT_MS) <= 0) {
			atomic_fetch_add(&client->tally->silent, 1);
			return 0;
		}
		got = receive(client->dns, packet, sizeof(packet), &when, &overflows);
	} while (got < 12 || packet[0] != client->id >> 8 || packet[1] != (client->id & 0xff));
	if ((packet[3] & 15) || packet[7] != 1) {
		atomic_fetch_add(&client->tally->refused[side], 1);
		return 0;
	}
	atomic_fetch_add(&client->tally->resolved[side], 1);
	count = atomic_load(client->answer_count);
	if (count == ANSWERS)
		fail("more answers than there is room for");
	client->answers[count] = (struct answer){when, side};
	atomic_store(client->answer_count, count + 1);
	/* One record, and nothing after it: without EDNS the address is at the end. */
	memcpy(&address, packet + got - 4, 4);
	return address;
}

static void send_to(struct client *client, uint32_t address, unsigned int side, uint32_t age)
{
	const struct sockaddr_in to = {.sin_family = AF_INET,
				       .sin_port = htons(PORT),
				       .sin_addr.s_addr = address};
	struct message message = {wall_ns(), side, age};

	if (sendto(client->out, &message, sizeof(message), 0, (const struct sockaddr *)&to,
		   sizeof(to)) > 0)
		atomic_fetch_add(&client->tally->sent[side], 1);
	else if (errno == EPERM)
		atomic_fetch_add(&client->tally->denied[side], 1);
}

static void resolve_and_send(struct client *client, unsigned int name, unsigned int side)
{
	uint32_t address = resolve(client, name, side);

	if (address) {
		send_to(client, address, side, 0);
		client->known[side][client->count[side]++ % REMEMBER] = address;
	}
	for (unsigned int other = 0; other < SIDES; other++) {
		uint32_t old = client->known[other][(unsigned long)random() % REMEMBER];

		if (old)
			send_to(client, old, other, 1);
	}
}

static int run_client(char **argv)
{
	struct shared *shared = shared_open(argv[2], sizeof(*shared));
	unsigned int number = (unsigned int)strtoul(argv[3], NULL, 10);
	struct client client = {.tally = &shared->tallies[number],
				.answers = shared->answers[number],
				.answer_count = &shared->answer_counts[number]};
	struct sockaddr_storage to;
	int one = 1;
	socklen_t size = endpoint("203.0.113.53", 53, &to);

	client.dns = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	client.out = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	setsockopt(client.dns, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one));
	if (connect(client.dns, (struct sockaddr *)&to, size) < 0)
		fail("connecting to the nameserver: %s", strerror(errno));
	for (unsigned int i = 0; !atomic_load(&shared->stop); i++) {
		unsigned int name = number * NAMES + i / SIDES % NAMES;

		resolve_and_send(&client, name, i % SIDES);
	}
	return EXIT_SUCCESS;
}

/* ---- the judge */

struct judgement {
	size_t count, leaks, crossed, during, allowed[SIDES], fresh[SIDES];
	size_t answers, late;
	uint32_t overflows;
};

/* The phase in force from the change on: setup (side a) before the first and after each other. */
static unsigned int side_in_force(long change)
{
	return change >= 0 && change % 2 == 0;
}

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

static void judge(struct judgement *judgement, const struct change *changes, size_t count,
		  const struct message *message, uint64_t arrived_ns)
{
	long last = change_before(changes, count, message->sent_ns);

	judgement->count++;
	if (last >= 0 && message->sent_ns < changes[last].returned_ns) {
		judgement->during++;
	} else if (message->side == side_in_force(last)) {
		judgement->allowed[message->side]++;
		judgement->fresh[message->side] += message->age == 0;
	} else if ((size_t)last + 1 < count && arrived_ns >= changes[last + 1].began_ns) {
		judgement->crossed++;
	} else if (judgement->leaks++ < 5) {
		fprintf(stderr,
			"leak: side %c, age %u, %.1f us after the switch's return, arrived"
			" %.1f us after the send call began\n",
			'a' + (int)message->side, message->age,
			(double)(message->sent_ns - (last < 0 ? 0 : changes[last].returned_ns)) /
				1000,
			(double)(arrived_ns - message->sent_ns) / 1000);
	}
}

/* Reads what has arrived by now. It waits in the socket's buffer meanwhile. */
static void judge_all(struct judgement *judgement, int fd, const struct change *changes,
		      size_t count)
{
	struct message message;
	uint64_t when = 0;

	while (receive(fd, &message, sizeof(message), &when, &judgement->overflows) ==
	       sizeof(message)) {
		if (message.side >= SIDES)
			fail("not a payload of ours");
		judge(judgement, changes, count, &message, when);
	}
}

static void judge_answers(struct judgement *judgement, const struct shared *shared,
			  const struct change *changes, size_t count)
{
	for (int i = 0; i < CLIENTS; i++) {
		for (unsigned int n = 0; n < shared->answer_counts[i]; n++) {
			const struct answer *answer = &shared->answers[i][n];
			long last = change_before(changes, count, answer->sent_ns);

			judgement->answers++;
			if ((last < 0 || answer->sent_ns > changes[last].returned_ns) &&
			    answer->side != side_in_force(last))
				judgement->late++;
		}
	}
}

/* ---- the test */

static void pump(struct confinement *confinement, unsigned int milliseconds)
{
	const uint64_t until = wall_ns() + milliseconds * (PG_NSEC_PER_SEC / 1000);
	struct pollfd ready = {.fd = pg_host_fd(confinement->host), .events = POLLIN};

	do {
		poll(&ready, 1, 1);
		confine_process(confinement);
	} while (wall_ns() < until);
}

static pid_t start_client(struct confinement *confinement, int number)
{
	static char self[4096], path[64], digits[16], name[16];
	ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *argv[] = {self, name, path, digits, NULL};

	if (size < 0)
		fail("/proc/self/exe: %s", strerror(errno));
	self[size] = '\0';
	snprintf(path, sizeof(path), "%s", shared_path());
	snprintf(digits, sizeof(digits), "%d", number);
	snprintf(name, sizeof(name), "%s", role);
	return confine_spawn(confinement, role, argv);
}

static void report(const struct judgement *judgement, struct shared *shared, size_t count)
{
	unsigned long resolved[SIDES] = {0}, refused[SIDES] = {0}, denied[SIDES] = {0}, silent = 0;

	for (int i = 0; i < CLIENTS; i++) {
		struct tally *tally = &shared->tallies[i];

		for (int side = 0; side < SIDES; side++) {
			resolved[side] += tally->resolved[side];
			refused[side] += tally->refused[side];
			denied[side] += tally->denied[side];
		}
		silent += tally->silent;
	}
	printf("%zu switches, %zu payloads: a %zu (%zu to an address just learned), b %zu (%zu); "
	       "sent"
	       " during a switch %zu, across the next one %zu; leaks %zu; not received for lack of"
	       " room %u\n",
	       count, judgement->count, judgement->allowed[0], judgement->fresh[0],
	       judgement->allowed[1], judgement->fresh[1], judgement->during, judgement->crossed,
	       judgement->leaks, judgement->overflows);
	printf("resolved a %lu, b %lu; denied names a %lu, b %lu; denied sends a %lu, b %lu; "
	       "questions"
	       " without an answer in time %lu\n",
	       resolved[0], resolved[1], refused[0], refused[1], denied[0], denied[1], silent);
	printf("%zu answers with an address, %zu of them when the phase forbade the name\n",
	       judgement->answers, judgement->late);
	if (judgement->late)
		fail("an answer went out that the phase in force forbids");
	if (judgement->leaks || judgement->overflows)
		fail("a payload arrived where the phase forbids it, or the proof has gaps");
	for (int side = 0; side < SIDES; side++) {
		if (judgement->fresh[side] < count / 4 || refused[side] < count / 4 ||
		    denied[side] < count / 4)
			fail("too little happened on side %c to prove anything", 'a' + side);
	}
}

int main(int argc, char **argv)
{
	static const char document[] = "{\"network_policy\":{\"network_mode\":\"allowlist\","
				       "\"allowed_hosts\":[\"*.a.test\"]},"
				       "\"run_network_policy\":{\"network_mode\":\"allowlist\","
				       "\"allowed_hosts\":[\"*.b.test\"]}}";
	struct pg_dns_settings settings = PG_DNS_SETTINGS_DEFAULT;
	struct judgement judgement = {0};
	struct confinement confinement;
	struct change *changes;
	struct shared *shared;
	pid_t pids[CLIENTS];
	int one = 1, fd;
	size_t count;

	if (argc == 4 && !strcmp(argv[1], role))
		return run_client(argv);
	if (argc != 4)
		fail("usage: dns_switches SERVER_NAMESPACE NAMESERVER COUNT");
	count = strtoul(argv[3], NULL, 10);
	changes = calloc(count, sizeof(*changes));
	shared = shared_create(sizeof(*shared));
	fd = socket_in(argv[1], SOCK_DGRAM, "0.0.0.0", PORT);
	setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &one, sizeof(one));
	settings.wildcard_per_minute = CLIENTS * NAMES;
	confine_with_names(&confinement, document, argv[2], &settings);
	for (int i = 0; i < CLIENTS; i++)
		pids[i] = start_client(&confinement, i);
	for (int i = 0; i < CLIENTS; i++) {
		while (atomic_load(&shared->tallies[i].resolved[0]) == 0)
			pump(&confinement, 1);
	}
	for (size_t i = 0; i < count; i++) {
		pump(&confinement, (unsigned int)random() % GAP_MS);
		changes[i].began_ns = wall_ns();
		confine_switch(&confinement, i % 2 ? PG_PHASE_SETUP : PG_PHASE_RUN);
		changes[i].returned_ns = wall_ns();
	}
	atomic_store(&shared->stop, 1);
	pump(&confinement, 2 * WAIT_MS);
	for (int i = 0; i < CLIENTS; i++)
		waitpid(pids[i], NULL, 0);
	judge_all(&judgement, fd, changes, count);
	judge_answers(&judgement, shared, changes, count);
	report(&judgement, shared, count);
	confine_end(&confinement);
	free(changes);
	return EXIT_SUCCESS;
}
