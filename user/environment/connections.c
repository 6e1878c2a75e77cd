/* SPDX-License-Identifier: Apache-2.0 */
/* What members had open when they were attached. Passes find what stays again and again. */
#include "host_internal.h"

#include <string.h>

static bool is_same(const struct pg_connection *connection, const struct pg_socket *socket)
{
	return connection->protocol == socket->protocol &&
	       connection->local.port == socket->local.port &&
	       connection->remote.port == socket->remote.port &&
	       !pg_addr_compare(&connection->local.addr, &socket->local.addr) &&
	       !pg_addr_compare(&connection->remote.addr, &socket->remote.addr);
}

void pg_connections_begin(struct pg_connections *connections)
{
	size_t closed = 0;

	/* Closed ones are first. */
	while (closed < connections->listed && connections->items[closed].closed)
		closed++;
	connections->listed = closed;
	connections->kept = 0;
}

/* Where the next closed one is put: before what stays, in place of the last if all are taken. */
static struct pg_connection *make_room(struct pg_connections *connections)
{
	size_t at = 0;

	while (at < connections->listed && connections->items[at].closed)
		at++;
	if (at == PG_CONNECTIONS_MAX)
		return NULL;
	if (connections->listed < PG_CONNECTIONS_MAX)
		connections->listed++;
	memmove(&connections->items[at + 1], &connections->items[at],
		(connections->listed - at - 1) * sizeof(connections->items[at]));
	return &connections->items[at];
}

static struct pg_connection *place_for(struct pg_connections *connections, bool closed)
{
	if (closed)
		return make_room(connections);
	return connections->listed < PG_CONNECTIONS_MAX ? &connections->items[connections->listed++]
							: NULL;
}

void pg_connections_note(struct pg_connections *connections, const struct pg_socket *socket,
			 bool closed)
{
	struct pg_connection *connection;

	connections->kept += !closed;
	for (size_t i = 0; closed && i < connections->listed; i++)
		if (is_same(&connections->items[i], socket))
			return;
	connection = place_for(connections, closed);
	if (!connection)
		return;
	*connection = (struct pg_connection){
		.protocol = socket->protocol,
		.local = socket->local,
		.remote = socket->remote,
		.closed = closed,
	};
}

const struct pg_connections *pg_environment_connections(const struct pg_environment *environment)
{
	return environment->connections;
}
