/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries and replies on connections (RFC 7766): each behind its length in two octets, several
 * under way at once, answered in any order. A client that sends more than is wanted is not read,
 * and one that reads less than it asked for is closed.
 */
#include "dns/listener_internal.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"

/* Output room grows by so much, so that one of many small replies is not an allocation each. */
#define OUTPUT_STEP 4096UL

static struct pg_listener_connection *find(struct pg_listener *listener, uint64_t number)
{
	struct pg_listener_connection *connection =
		listener->connections[number % PG_LISTENER_CONNECTIONS_MAX];

	return connection && connection->number == number && !connection->broken ? connection
										 : NULL;
}

static void watch_accept(struct pg_listener *listener, bool on)
{
	static const enum pg_listener_source sources[] = {PG_LISTENER_TCP4, PG_LISTENER_TCP6};

	for (unsigned int i = 0; i < PG_ARRAY_SIZE(sources); i++) {
		struct epoll_event event = {.events = on ? EPOLLIN : 0, .data.u64 = sources[i]};

		if (listener->sockets[sources[i]] >= 0)
			epoll_ctl(listener->epoll_fd, EPOLL_CTL_MOD, listener->sockets[sources[i]],
				  &event);
	}
}

static void pause_accept(struct pg_listener *listener)
{
	if (listener->accept_at == 0)
		watch_accept(listener, false);
	listener->accept_at = pg_monotonic_ns() + PG_LISTENER_ACCEPT_MS * PG_NSEC_PER_MSEC;
	pg_listener_schedule(listener, listener->accept_at);
}

static void resume_accept(struct pg_listener *listener)
{
	if (listener->accept_at > 0)
		watch_accept(listener, true);
	listener->accept_at = 0;
}

static void drop(struct pg_listener *listener, struct pg_listener_connection *connection)
{
	/* Nobody waits in the kernel for a client that does not read. */
	const struct linger at_once = {.l_onoff = 1};

	if (connection->output)
		setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(connection->fd);
	listener->connections[connection->number % PG_LISTENER_CONNECTIONS_MAX] = NULL;
	free(connection->output);
	free(connection);
	resume_accept(listener);
}

void pg_listener_drop_all(struct pg_listener *listener)
{
	for (unsigned int i = 0; i < PG_LISTENER_CONNECTIONS_MAX; i++) {
		if (listener->connections[i])
			drop(listener, listener->connections[i]);
	}
}

/* Whether a must go before b: one that waits for nothing, else the one that came first. */
static bool goes_before(const struct pg_listener_connection *a,
			const struct pg_listener_connection *b)
{
	if ((a->waiting == 0) != (b->waiting == 0))
		return a->waiting == 0;
	return a->waiting == 0 ? a->touched < b->touched : a->number < b->number;
}

static unsigned int make_room(struct pg_listener *listener)
{
	struct pg_listener_connection **connections = listener->connections;
	unsigned int chosen = 0;

	for (unsigned int i = 0; i < PG_LISTENER_CONNECTIONS_MAX; i++) {
		if (!connections[i])
			return i;
		if (goes_before(connections[i], connections[chosen]))
			chosen = i;
	}
	drop(listener, connections[chosen]);
	return chosen;
}

void pg_listener_adopt(struct pg_listener *listener, int fd, const struct pg_peer *peer)
{
	struct pg_listener_connection *connection = malloc(sizeof(*connection));
	struct epoll_event event = {.events = EPOLLIN};
	unsigned int slot;

	if (!connection) {
		close(fd);
		return;
	}
	slot = make_room(listener);
	memset(connection, 0, offsetof(struct pg_listener_connection, input));
	connection->number = ++listener->opened * PG_LISTENER_CONNECTIONS_MAX + slot;
	connection->touched = pg_monotonic_ns();
	connection->peer = *peer;
	connection->peer.connection = connection->number;
	connection->fd = fd;
	connection->interest = event.events;
	listener->connections[slot] = connection;
	event.data.u64 = connection->number;
	if (epoll_ctl(listener->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		drop(listener, connection);
	else
		pg_listener_schedule(listener, connection->touched + listener->idle_ns);
}

/* A connection that a client has given up already is no reason to stop. */
static bool is_of_one_client(int number)
{
	return number == ECONNABORTED || number == EINTR || number == EPROTO;
}

void pg_listener_accept(struct pg_listener *listener, enum pg_listener_source source,
			uint32_t events)
{
	if (events & (EPOLLERR | EPOLLHUP)) {
		pg_listener_lose(listener, source);
		return;
	}
	for (unsigned int i = 0; i < PG_LISTENER_SHARE; i++) {
		struct pg_peer peer = {.addr_size = sizeof(peer.addr)};
		int fd = accept4(listener->sockets[source], &peer.addr.any, &peer.addr_size,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			pg_listener_adopt(listener, fd, &peer);
			continue;
		}
		if (errno == EINVAL)
			pg_listener_lose(listener, source);
		else if (errno != EAGAIN && !is_of_one_client(errno))
			pause_accept(listener);
		return;
	}
}

static size_t message_size(const struct pg_listener_connection *connection)
{
	const uint8_t *length = connection->input + connection->input_start;

	return (size_t)length[0] << 8 | length[1];
}

/* Whether what take_message() needs is in the buffer: a message, or its part that is handed over.
 */
static bool has_message(const struct pg_listener_connection *connection)
{
	size_t held = connection->input_end - connection->input_start, size;

	if (held < 2)
		return false;
	size = message_size(connection);
	if (size > PG_LISTENER_MESSAGE_MAX)
		size = PG_LISTENER_MESSAGE_MAX;
	return held >= 2 + size;
}

/* No more queries for now: too many wait, or their replies are not taken. */
static bool is_stalled(const struct pg_listener_connection *connection)
{
	return connection->waiting >= PG_LISTENER_PIPELINE_MAX ||
	       connection->output_end - connection->output_start > PG_LISTENER_OUTPUT_MAX / 2;
}

static bool can_take(const struct pg_listener_connection *connection)
{
	return !is_stalled(connection) && has_message(connection);
}

/* The client has all that it asked for, and asks nothing more. */
static bool is_finished(const struct pg_listener_connection *connection)
{
	return connection->ended && connection->waiting == 0 && !connection->output &&
	       !has_message(connection);
}

/*
 * What is to be done without anything coming in (a message that is in the buffer already, the end)
 * waits for the socket to be writable, which it is or will be: so it gets its turn like others.
 */
static void watch(struct pg_listener *listener, struct pg_listener_connection *connection)
{
	struct epoll_event event = {.data.u64 = connection->number};

	if (connection->output || can_take(connection) || is_finished(connection))
		event.events |= EPOLLOUT;
	if (!connection->ended && !is_stalled(connection) && !has_message(connection))
		event.events |= EPOLLIN;
	if (event.events == connection->interest)
		return;
	connection->interest = event.events;
	epoll_ctl(listener->epoll_fd, EPOLL_CTL_MOD, connection->fd, &event);
}

/* It may be in use further up the stack. The shutdown makes sure that an event comes. */
static void break_off(struct pg_listener_connection *connection)
{
	connection->broken = true;
	shutdown(connection->fd, SHUT_RDWR);
}

static void skip_input(struct pg_listener_connection *connection)
{
	size_t held = connection->input_end - connection->input_start;
	size_t skipped = connection->skip < held ? connection->skip : held;

	connection->input_start += skipped;
	connection->skip -= skipped;
}

static void take_message(struct pg_listener *listener, struct pg_listener_connection *connection)
{
	size_t size = message_size(connection), handed_over = size;
	const uint8_t *message = connection->input + connection->input_start + 2;

	if (size == 0) {
		break_off(connection);
		return;
	}
	if (handed_over > PG_LISTENER_MESSAGE_MAX)
		handed_over = PG_LISTENER_MESSAGE_MAX;
	connection->input_start += 2 + handed_over;
	connection->skip = size - handed_over;
	skip_input(connection);
	connection->waiting++;
	listener->options.query(listener->options.userdata, listener, &connection->peer, true,
				message, handed_over);
}

static void read_input(struct pg_listener_connection *connection)
{
	ssize_t got;

	connection->input_end -= connection->input_start;
	memmove(connection->input, connection->input + connection->input_start,
		connection->input_end);
	connection->input_start = 0;
	got = recv(connection->fd, connection->input + connection->input_end,
		   sizeof(connection->input) - connection->input_end, MSG_DONTWAIT);
	if (got > 0) {
		connection->input_end += (size_t)got;
		connection->touched = pg_monotonic_ns();
		skip_input(connection);
	} else if (got == 0) {
		connection->ended = true;
	} else if (errno != EAGAIN && errno != EINTR) {
		break_off(connection);
	}
}

static void flush_output(struct pg_listener_connection *connection)
{
	ssize_t sent = send(connection->fd, connection->output + connection->output_start,
			    connection->output_end - connection->output_start,
			    MSG_DONTWAIT | MSG_NOSIGNAL);

	if (sent < 0) {
		if (errno != EAGAIN && errno != EINTR)
			break_off(connection);
		return;
	}
	connection->touched = pg_monotonic_ns();
	connection->output_start += (size_t)sent;
	if (connection->output_start < connection->output_end)
		return;
	free(connection->output);
	connection->output = NULL;
	connection->output_start = connection->output_end = connection->output_room = 0;
}

unsigned int pg_listener_connection_event(struct pg_listener *listener, uint64_t number,
					  uint32_t events)
{
	struct pg_listener_connection *connection =
		listener->connections[number % PG_LISTENER_CONNECTIONS_MAX];
	unsigned int taken = 0;

	if (!connection || connection->number != number)
		return 0;
	listener->current = number;
	if (events & (EPOLLERR | EPOLLHUP))
		break_off(connection);
	if (!connection->broken && connection->output)
		flush_output(connection);
	if (!connection->broken && (events & EPOLLIN) && !has_message(connection))
		read_input(connection);
	while (!connection->broken && taken < PG_LISTENER_SHARE && can_take(connection)) {
		take_message(listener, connection);
		taken++;
	}
	listener->current = 0;
	if (connection->broken || is_finished(connection))
		drop(listener, connection);
	else
		watch(listener, connection);
	return taken;
}

/* Keeps what the socket did not take; false: too much, or no memory. */
static bool keep_output(struct pg_listener_connection *connection, const uint8_t *data, size_t size)
{
	size_t held = connection->output_end - connection->output_start;

	if (size > PG_LISTENER_OUTPUT_MAX - held)
		return false;
	if (connection->output_start > 0)
		memmove(connection->output, connection->output + connection->output_start, held);
	connection->output_start = 0;
	connection->output_end = held;
	if (held + size > connection->output_room) {
		size_t room = (held + size + OUTPUT_STEP - 1) / OUTPUT_STEP * OUTPUT_STEP;
		uint8_t *larger = realloc(connection->output, room);

		if (!larger)
			return false;
		connection->output = larger;
		connection->output_room = room;
	}
	memcpy(connection->output + held, data, size);
	connection->output_end += size;
	return true;
}

/* Returns how much of the length and the message was sent. */
static size_t send_framed(struct pg_listener_connection *connection, const uint8_t length[2],
			  const uint8_t *message, size_t size)
{
	struct iovec parts[] = {{(void *)length, 2}, {(void *)message, size}};
	const struct msghdr header = {.msg_iov = parts, .msg_iovlen = PG_ARRAY_SIZE(parts)};
	ssize_t sent = sendmsg(connection->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (sent > 0)
		connection->touched = pg_monotonic_ns();
	else if (sent < 0 && errno != EAGAIN && errno != EINTR)
		break_off(connection);
	return sent > 0 ? (size_t)sent : 0;
}

void pg_listener_connection_send(struct pg_listener *listener, uint64_t number,
				 const uint8_t *message, size_t size)
{
	struct pg_listener_connection *connection = find(listener, number);
	const uint8_t length[2] = {(uint8_t)(size >> 8), (uint8_t)size};
	size_t sent = 0;

	if (!connection || size > UINT16_MAX)
		return;
	if (connection->waiting > 0)
		connection->waiting--;
	if (size == 0) {
		break_off(connection);
		return;
	}
	if (!connection->output)
		sent = send_framed(connection, length, message, size);
	if (connection->broken)
		return;
	if (sent < 2 && !keep_output(connection, length + sent, 2 - sent)) {
		break_off(connection);
		return;
	}
	sent = sent < 2 ? 0 : sent - 2;
	if (sent < size && !keep_output(connection, message + sent, size - sent)) {
		break_off(connection);
		return;
	}
	if (number != listener->current)
		watch(listener, connection);
}

void pg_listener_time_out(struct pg_listener *listener, uint64_t now)
{
	if (listener->accept_at > 0 && listener->accept_at <= now)
		resume_accept(listener);
	for (unsigned int i = 0; i < PG_LISTENER_CONNECTIONS_MAX; i++) {
		struct pg_listener_connection *connection = listener->connections[i];

		if (!connection)
			continue;
		if (connection->touched + listener->idle_ns <= now)
			drop(listener, connection);
		else
			pg_listener_schedule(listener, connection->touched + listener->idle_ns);
	}
	if (listener->accept_at > 0)
		pg_listener_schedule(listener, listener->accept_at);
}
