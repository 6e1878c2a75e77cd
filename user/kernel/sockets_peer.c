/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is at the other end, if it is in the same network namespace: a connected socket with the
 * reversed addresses, or the socket that listens there (an unconnected UDP server, or the listener
 * that a connecting TCP socket waits for).
 */
#include "kernel/sockets_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

/* An open hash over the peers; 0 is an empty cell, else the index of the peer plus 1. */
struct peer_table {
	const struct pg_diag_peer *peers;
	uint32_t *cells;
	size_t mask;
	uint64_t seed; /* the workload chooses its ports, so the hash must not be predictable */
};

static void table_clear(struct peer_table *table)
{
	free(table->cells);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
	return hash ^ (hash >> 32);
}

static uint64_t mix_addr(uint64_t hash, const struct pg_addr *addr)
{
	uint64_t half[2];

	memcpy(half, addr, sizeof(half));
	return mix(mix(hash, half[0]), half[1]);
}

static size_t hash_peer(const struct peer_table *table, const struct pg_diag_peer *peer)
{
	uint64_t hash = table->seed;

	hash = mix_addr(hash, &peer->local);
	hash = mix_addr(hash, &peer->remote);
	return mix(hash, (uint64_t)peer->local_port << 32 | (uint64_t)peer->remote_port << 16 |
				 (uint64_t)peer->protocol << 8 | peer->v6only);
}

static bool peer_equal(const struct pg_diag_peer *a, const struct pg_diag_peer *b)
{
	return a->local_port == b->local_port && a->remote_port == b->remote_port &&
	       a->protocol == b->protocol && a->v6only == b->v6only &&
	       pg_addr_compare(&a->local, &b->local) == 0 &&
	       pg_addr_compare(&a->remote, &b->remote) == 0;
}

/* The cell of an equal peer, or the empty one where it would stand. */
static uint32_t *table_cell(const struct peer_table *table, const struct pg_diag_peer *key)
{
	size_t at = hash_peer(table, key) & table->mask;

	while (table->cells[at] && !peer_equal(&table->peers[table->cells[at] - 1], key))
		at = (at + 1) & table->mask;
	return &table->cells[at];
}

static int table_build(struct peer_table *table, const struct pg_diag_list *list,
		       struct pg_error *err)
{
	size_t size = 16;

	while (size < 2 * list->peer_count)
		size *= 2;
	table->peers = list->peers;
	table->mask = size - 1;
	table->cells = calloc(size, sizeof(*table->cells));
	if (!table->cells)
		return pg_fail_errno(err, -ENOMEM, "index of %zu sockets", list->peer_count);
	if (getrandom(&table->seed, sizeof(table->seed), 0) != (ssize_t)sizeof(table->seed))
		return pg_fail_errno(err, -errno, "seed for the index of sockets");
	/* Of equals (SO_REUSEPORT) the first stands for all: they share one owner's uid. */
	for (size_t i = 0; i < list->peer_count; i++) {
		uint32_t *cell = table_cell(table, &list->peers[i]);

		if (!*cell)
			*cell = (uint32_t)i + 1;
	}
	return 0;
}

static const struct pg_diag_peer *table_find(const struct peer_table *table,
					     const struct pg_diag_peer *key)
{
	uint32_t cell = *table_cell(table, key);

	return cell ? &table->peers[cell - 1] : NULL;
}

/*
 * Whether the remote address is surely one of this namespace. Others of its addresses are not
 * recognised here, only when a socket is bound to exactly that address.
 */
static bool remote_is_local(const struct pg_socket *socket)
{
	return pg_addr_is_loopback(&socket->remote.addr) ||
	       pg_addr_compare(&socket->remote.addr, &socket->local.addr) == 0;
}

/* The bound, unconnected socket that receives what is sent to the remote end. */
static const struct pg_diag_peer *find_bound(const struct peer_table *table,
					     const struct pg_socket *socket)
{
	struct pg_diag_peer key = {
		.local = socket->remote.addr,
		.local_port = socket->remote.port,
		.protocol = socket->protocol,
	};
	const struct pg_diag_peer *peer = table_find(table, &key);

	if (peer || !remote_is_local(socket))
		return peer;
	if (pg_addr_is_v4(&socket->remote.addr)) {
		key.local = pg_addr_from_v4(0);
		peer = table_find(table, &key);
		if (peer)
			return peer;
	}
	key.local = (struct pg_addr){0};
	peer = table_find(table, &key);
	if (peer || pg_addr_is_v4(&socket->remote.addr))
		return peer;
	key.v6only = true;
	return table_find(table, &key);
}

static const struct pg_diag_peer *find_peer(const struct peer_table *table,
					    const struct pg_socket *socket)
{
	const struct pg_diag_peer key = {
		.local = socket->remote.addr,
		.remote = socket->local.addr,
		.local_port = socket->remote.port,
		.remote_port = socket->local.port,
		.protocol = socket->protocol,
	};
	const struct pg_diag_peer *peer = table_find(table, &key);

	if (peer)
		return peer;
	if (socket->protocol == IPPROTO_TCP && socket->state != TCP_SYN_SENT)
		return NULL;
	return find_bound(table, socket);
}

int pg_diag_find_peers(struct pg_diag_list *list, struct pg_error *err)
{
	PG_CLEANUP(table_clear) struct peer_table table = {0};
	int r = table_build(&table, list, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < list->own_count; i++) {
		struct pg_socket *socket = &list->own[i].socket;
		const struct pg_diag_peer *peer = find_peer(&table, socket);

		socket->peer_found = peer != NULL;
		socket->peer_cgroup_id = peer ? peer->cgroup_id : 0;
	}
	return 0;
}
