/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose request is next. The agent works on one request at a time, and a user may send as many as
 * 128 connections carry, one behind the other: without an order, another user would wait for all of
 * them. So in each turn a user's requests are worked on until they have taken the time that a turn
 * gives; the others of that user wait, in the order in which they came, for the turns that follow.
 */
#include "server_internal.h"

#include "base/clock.h"

/* A switch takes less, so that who waits for others waits for one operation of each. */
#define TURN_NS (2 * PG_NSEC_PER_MSEC)

static struct pg_turn *turn_of(struct pg_server *server, uid_t uid)
{
	for (size_t i = 0; i < server->turn_count; i++)
		if (server->turns[i].uid == uid)
			return &server->turns[i];
	return NULL;
}

static bool is_over(struct pg_server *server, uid_t uid)
{
	const struct pg_turn *turn = turn_of(server, uid);

	return turn && turn->used_ns >= TURN_NS;
}

static bool others_wait(const struct pg_server *server, uid_t uid)
{
	const struct pg_exchange *exchange;

	TAILQ_FOREACH (exchange, &server->queue, queue)
		if (exchange->client->caller.uid == uid)
			return true;
	return false;
}

bool pg_turn_take(struct pg_server *server, struct pg_exchange *exchange)
{
	const uid_t uid = exchange->client->caller.uid;

	if (exchange->has_turn || server->agent->stopping)
		return true;
	if (!is_over(server, uid) && !others_wait(server, uid))
		return true;
	pg_client_enter(exchange->client, PG_CLIENT_WAITING);
	TAILQ_INSERT_TAIL(&server->queue, exchange, queue);
	MHD_suspend_connection(exchange->connection);
	sd_event_source_set_enabled(server->turn_source, SD_EVENT_ONESHOT);
	return false;
}

void pg_turn_used(struct pg_server *server, uid_t uid, uint64_t ns)
{
	struct pg_turn *turn = turn_of(server, uid);

	/* No more users than connections. */
	if (!turn && server->turn_count < PG_ARRAY_SIZE(server->turns)) {
		turn = &server->turns[server->turn_count++];
		*turn = (struct pg_turn){.uid = uid};
	}
	if (turn)
		turn->used_ns += ns;
}

static void resume(struct pg_server *server, struct pg_exchange *exchange)
{
	TAILQ_REMOVE(&server->queue, exchange, queue);
	exchange->has_turn = true;
	pg_client_enter(exchange->client, PG_CLIENT_BUSY);
	MHD_resume_connection(exchange->connection);
}

void pg_turns_next(struct pg_server *server)
{
	struct pg_exchange *exchange = TAILQ_FIRST(&server->queue), *next;

	server->turn_count = 0;
	for (; exchange; exchange = next) {
		const uid_t uid = exchange->client->caller.uid;

		next = TAILQ_NEXT(exchange, queue);
		if (turn_of(server, uid))
			continue;
		pg_turn_used(server, uid, 0);
		resume(server, exchange);
	}
	if (!TAILQ_EMPTY(&server->queue))
		sd_event_source_set_enabled(server->turn_source, SD_EVENT_ONESHOT);
}

void pg_turns_sweep(struct pg_server *server)
{
	struct pg_exchange *exchange = TAILQ_FIRST(&server->queue), *next;

	for (; exchange; exchange = next) {
		next = TAILQ_NEXT(exchange, queue);
		if (pg_client_is_gone(exchange->client))
			resume(server, exchange);
	}
}

void pg_turns_end(struct pg_server *server)
{
	while (!TAILQ_EMPTY(&server->queue))
		resume(server, TAILQ_FIRST(&server->queue));
}
