/* SPDX-License-Identifier: Apache-2.0 */
/* The client that asks for names. Any answer but the expected one ends the benchmark. */
#include "names.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/clock.h"

#define ANSWER_SIZE 512

static struct names_result *shared;

static int asking(int type)
{
	/* A datagram that is lost is a failure, to be told of and not waited for. */
	const struct timeval patience = {.tv_sec = 2};
	const int fd = connected(type, NAMES_SERVER, NAMES_PORT);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

/* What is asked, and the address that has to be the answer. */
static uint32_t next_query(enum names_kind kind, uint16_t id, struct names_query *ret_query)
{
	const uint32_t number = kind == NAMES_SAME ? NAMES_CACHED : shared->next++;

	if (number >= NAMES_MAX)
		fail("no fresh names are left: fewer or shorter rounds are needed");
	names_query_make(ret_query, id, number,
			 kind == NAMES_REFUSED ? NAMES_DENIED : NAMES_ALLOWED);
	return kind == NAMES_REFUSED ? 0 : names_address(number);
}

static void ask_datagram(int fd, const struct names_query *query, uint8_t *answer, size_t *ret_size)
{
	ssize_t size;

	if (send(fd, query, sizeof(*query), 0) != sizeof(*query))
		fail("query: %s", strerror(errno));
	size = recv(fd, answer, ANSWER_SIZE, 0);
	if (size < 0)
		fail("answer: %s", strerror(errno));
	*ret_size = (size_t)size;
}

static void ask_stream(int fd, const struct names_query *query, uint8_t *answer, size_t *ret_size)
{
	uint8_t message[2 + NAMES_QUERY_SIZE] = {0, NAMES_QUERY_SIZE};

	memcpy(message + 2, query, sizeof(*query));
	if (send(fd, message, sizeof(message), 0) != sizeof(message))
		fail("query: %s", strerror(errno));
	if (recv(fd, message, 2, MSG_WAITALL) != 2)
		fail("length of an answer: %s", strerror(errno));
	*ret_size = (size_t)message[0] << 8 | message[1];
	if (*ret_size > ANSWER_SIZE ||
	    recv(fd, answer, *ret_size, MSG_WAITALL) != (ssize_t)*ret_size)
		fail("answer: %s", strerror(errno));
}

/* Returns the address. */
static uint32_t look_up(int fd, int type, enum names_kind kind, uint64_t *ret_took_ns)
{
	uint8_t answer[ANSWER_SIZE];
	struct names_query query;
	const uint16_t id = (uint16_t)shared->next;
	const uint32_t expected = next_query(kind, id, &query);
	const uint64_t started = pg_monotonic_ns();
	uint16_t answered;
	size_t size;

	if (type == SOCK_STREAM)
		ask_stream(fd, &query, answer, &size);
	else
		ask_datagram(fd, &query, answer, &size);
	*ret_took_ns = pg_monotonic_ns() - started;
	if (names_read(answer, size, &answered) != expected || answered != id)
		fail("the answer is another query's");
	return expected;
}

static void run_lookups(const struct names_work *work, uint64_t length_ns)
{
	pg_autoclose int fd = asking(work->type);
	uint64_t until_ns, took_ns;

	/* Connections, sockets and caches are there when the time begins. */
	for (size_t i = 0; i < 16; i++)
		look_up(fd, work->type, work->kind, &took_ns);
	until_ns = pg_monotonic_ns() + length_ns;
	do {
		look_up(fd, work->type, work->kind, &took_ns);
		shared->took_us[shared->samples++] = (double)took_ns / PG_NSEC_PER_USEC;
		shared->operations++;
	} while (pg_monotonic_ns() < until_ns && shared->samples < NAMES_SAMPLES);
}

/* The id of a query is its place in the window. */
struct window {
	struct names_query queries[NAMES_WINDOW];
	uint32_t expected[NAMES_WINDOW];
	struct mmsghdr headers[NAMES_WINDOW];
	struct iovec parts[NAMES_WINDOW];
	uint8_t answers[NAMES_WINDOW][ANSWER_SIZE];
	uint16_t free[NAMES_WINDOW];
	unsigned int free_count;
};

static void send_window(struct window *window, int fd, enum names_kind kind)
{
	const unsigned int count = window->free_count;
	unsigned int sent = 0;

	for (unsigned int i = 0; i < count; i++) {
		const uint16_t place = window->free[i];

		window->expected[place] = next_query(kind, place, &window->queries[place]);
		window->parts[i] = (struct iovec){&window->queries[place], NAMES_QUERY_SIZE};
	}
	while (sent < count) {
		const int done = sendmmsg(fd, window->headers + sent, count - sent, 0);

		if (done < 0)
			fail("queries: %s", strerror(errno));
		sent += (unsigned int)done;
	}
	window->free_count = 0;
}

static void receive_window(struct window *window, int fd)
{
	int count;

	for (size_t i = 0; i < NAMES_WINDOW; i++)
		window->parts[i] = (struct iovec){window->answers[i], ANSWER_SIZE};
	count = recvmmsg(fd, window->headers, NAMES_WINDOW, MSG_WAITFORONE, NULL);
	if (count <= 0)
		fail("answers: %s", strerror(errno));
	for (int i = 0; i < count; i++) {
		uint16_t place;
		const uint32_t address =
			names_read(window->answers[i], window->headers[i].msg_len, &place);

		if (place >= NAMES_WINDOW || address != window->expected[place])
			fail("the answer is another query's");
		window->free[window->free_count++] = place;
	}
	shared->operations += (uint64_t)count;
}

static void run_flood(const struct names_work *work, uint64_t length_ns)
{
	const uint64_t until_ns = pg_monotonic_ns() + length_ns;
	pg_autofree struct window *window = calloc(1, sizeof(*window));
	pg_autoclose int fd = asking(work->type);

	if (!window)
		fail("not enough memory for the queries");
	for (uint16_t i = 0; i < NAMES_WINDOW; i++) {
		window->headers[i].msg_hdr.msg_iov = &window->parts[i];
		window->headers[i].msg_hdr.msg_iovlen = 1;
		window->free[window->free_count++] = i;
	}
	while (pg_monotonic_ns() < until_ns) {
		send_window(window, fd, work->kind);
		receive_window(window, fd);
	}
	while (window->free_count < NAMES_WINDOW)
		receive_window(window, fd);
}

/* Connects to what was looked up the moment it is known. Whatever else is wrong, denied it is not.
 */
static bool is_denied(int type, uint32_t address)
{
	const struct linger reset = {.l_onoff = 1};
	const struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons(BENCH_PORT),
		.sin_addr.s_addr = address,
	};
	pg_autoclose int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0 &&
	    (type == SOCK_STREAM || send(fd, "", 1, 0) == 1)) {
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		return false;
	}
	if (errno != EPERM)
		fail("connecting to an address that was looked up: %s", strerror(errno));
	return true;
}

static void run_connects(const struct names_work *work, uint64_t length_ns)
{
	const uint64_t until_ns = pg_monotonic_ns() + length_ns;
	pg_autoclose int fd = asking(SOCK_DGRAM);
	uint64_t ignored;

	do {
		const uint32_t address = look_up(fd, SOCK_DGRAM, work->kind, &ignored);

		shared->denied += is_denied(work->type, address);
		shared->operations++;
	} while (pg_monotonic_ns() < until_ns);
}

const struct names_work names_lookups[NAMES_LOOKUPS] = {
	{"fresh name, asked directly", run_lookups, NAMES_FRESH, SOCK_DGRAM, false},
	{"fresh name", run_lookups, NAMES_FRESH, SOCK_DGRAM, true},
	{"cached name", run_lookups, NAMES_SAME, SOCK_DGRAM, true},
	{"denied name", run_lookups, NAMES_REFUSED, SOCK_DGRAM, true},
	{"fresh name, asked directly over TCP", run_lookups, NAMES_FRESH, SOCK_STREAM, false},
	{"fresh name over TCP", run_lookups, NAMES_FRESH, SOCK_STREAM, true},
	{"cached name over TCP", run_lookups, NAMES_SAME, SOCK_STREAM, true},
};

size_t names_direct(size_t lookup)
{
	for (size_t i = 0; i < NAMES_LOOKUPS; i++)
		if (!names_lookups[i].confined &&
		    names_lookups[i].type == names_lookups[lookup].type)
			return i;
	return lookup;
}

const struct names_work names_floods[NAMES_FLOODS] = {
	{"fresh names, asked directly", run_flood, NAMES_FRESH, SOCK_DGRAM, false},
	{"fresh names", run_flood, NAMES_FRESH, SOCK_DGRAM, true},
	{"a cached name", run_flood, NAMES_SAME, SOCK_DGRAM, true},
	{"denied names", run_flood, NAMES_REFUSED, SOCK_DGRAM, true},
};

const struct names_work names_connects[NAMES_CONNECTS] = {
	{"TCP", run_connects, NAMES_FRESH, SOCK_STREAM, true},
	{"UDP", run_connects, NAMES_FRESH, SOCK_DGRAM, true},
};

static const struct names_work *work_of(const char *group, const char *index)
{
	static const struct names_work *const groups[] = {
		[NAMES_GROUP_LOOKUPS] = names_lookups,
		[NAMES_GROUP_FLOODS] = names_floods,
		[NAMES_GROUP_CONNECTS] = names_connects,
	};

	return &groups[strtoul(group, NULL, 10)][strtoul(index, NULL, 10)];
}

int names_client_main(char **argv)
{
	const struct names_work *work = work_of(argv[3], argv[4]);
	uint64_t started;

	shared = shared_open(argv[2], sizeof(*shared));
	pin_last();
	started = pg_monotonic_ns();
	work->run(work, strtoull(argv[5], NULL, 10) * PG_NSEC_PER_MSEC);
	shared->took_ns = pg_monotonic_ns() - started;
	shared->done = true;
	return 0;
}
