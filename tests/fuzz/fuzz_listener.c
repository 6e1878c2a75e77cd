/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The framing of DNS over TCP on arbitrary octets in pieces of arbitrary size, with replies at once
 * or late and in another order. The first octet is the size of a piece, the second how many queries
 * are held back. What is handed over must be what a plain walk over the stream finds, and as many
 * octets of replies must come back; in the end the connection must be gone.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/wait.h"
#include "dns/listener_internal.h"

/* Fewer than may wait, or nothing more would be read. */
#define HELD_MAX 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct world {
	const uint8_t *stream, *end; /* what has not been handed over yet */
	unsigned int hold;
	uint64_t expected, returned; /* octets of replies */
	struct {
		struct pg_peer peer;
		const uint8_t *message;
		size_t size;
	} held[HELD_MAX];
	unsigned int held_count;
	struct pg_listener *listener;
};

/* The next message of the stream, as far as it is handed over. Returns its size; 0: there is none
 * or an empty one. */
static size_t next_message(struct world *world, const uint8_t **ret_message)
{
	size_t left = (size_t)(world->end - world->stream), size, whole;

	if (left < 2)
		return 0;
	whole = (size_t)world->stream[0] << 8 | world->stream[1];
	size = whole < PG_LISTENER_MESSAGE_MAX ? whole : PG_LISTENER_MESSAGE_MAX;
	if (left < 2 + size)
		return 0;
	*ret_message = world->stream + 2;
	world->stream += left < 2 + whole ? left : 2 + whole;
	return size;
}

static void answer_held(struct world *world)
{
	while (world->held_count > 0) {
		world->held_count--;
		pg_listener_send(world->listener, &world->held[world->held_count].peer,
				 world->held[world->held_count].message,
				 world->held[world->held_count].size);
	}
}

static void query(void *userdata, struct pg_listener *listener, const struct pg_peer *peer,
		  bool tcp, const uint8_t *message, size_t size)
{
	struct world *world = userdata;
	const uint8_t *expected = NULL;

	if (!tcp || next_message(world, &expected) != size || size == 0 ||
	    memcmp(expected, message, size) != 0)
		abort();
	world->expected += 2 + size;
	if (world->hold == 0) {
		pg_listener_send(listener, peer, message, size);
		return;
	}
	world->held[world->held_count].peer = *peer;
	world->held[world->held_count].message = expected;
	world->held[world->held_count++].size = size;
	if (world->held_count == world->hold)
		answer_held(world);
}

/* Lets the listener do what there is to do, and reads the replies. */
static void run(struct world *world, int client)
{
	uint8_t replies[16384];
	ssize_t got;

	while (pg_wait_readable(pg_listener_fd(world->listener), -1, 0) > 0) {
		if (pg_listener_process(world->listener, NULL) < 0)
			abort();
		while ((got = recv(client, replies, sizeof(replies), MSG_DONTWAIT)) > 0)
			world->returned += (uint64_t)got;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world world;
	const struct pg_listener_options options = {.query = query, .userdata = &world};
	const struct pg_peer peer = {.addr.any.sa_family = AF_UNIX};
	size_t piece, left;
	int ends[2];

	if (size < 2)
		return 0;
	if (!world.listener && pg_listener_new(&options, &world.listener, NULL) < 0)
		abort();
	piece = 1 + (size_t)data[0] * 4;
	world.hold = data[1] % (HELD_MAX + 1);
	world.stream = data + 2;
	world.end = data + size;
	world.expected = world.returned = 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		abort();
	pg_listener_adopt(world.listener, ends[0], &peer);
	for (const uint8_t *at = data + 2; at < world.end; at += piece) {
		left = (size_t)(world.end - at);
		if (send(ends[1], at, left < piece ? left : piece, MSG_NOSIGNAL) < 0)
			break;
		run(&world, ends[1]);
	}
	shutdown(ends[1], SHUT_WR);
	run(&world, ends[1]);
	answer_held(&world);
	run(&world, ends[1]);
	for (unsigned int i = 0; i < PG_LISTENER_CONNECTIONS_MAX; i++) {
		if (world.listener->connections[i])
			abort();
	}
	close(ends[1]);
	/* All has been handed over, and answered unless an empty message ended the connection. */
	left = (size_t)(world.end - world.stream);
	if (left >= 2 && world.stream[0] == 0 && world.stream[1] == 0)
		return 0;
	if (next_message(&world, &data) > 0 || world.returned != world.expected)
		abort();
	return 0;
}
