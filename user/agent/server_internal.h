/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the server: clients.c knows connections, exchange.c requests, turns.c whose
 * is next, server.c the daemon. */
#pragma once

#include <microhttpd.h>
#include <sys/queue.h>

#include "caller.h"
#include "request.h"
#include "server.h"

enum pg_client_state {
	PG_CLIENT_RECEIVING, /* or idle: nothing of a request has been handled yet */
	PG_CLIENT_BUSY,	     /* the headers are there, the body is coming */
	PG_CLIENT_WAITING,   /* for an event, or for its user's turn */
	PG_CLIENT_SENDING,
};

struct pg_client {
	TAILQ_ENTRY(pg_client) link; /* the oldest first */
	int fd;			     /* libmicrohttpd's */
	struct pg_caller caller;
	enum pg_client_state state;
	uint64_t since; /* of the state, CLOCK_MONOTONIC ns */
	bool shut;
	size_t receiving, sending; /* octets in memory */
	/* Each of its requests is answered with this. */
	bool refused;
	enum pg_api_error refusal;
	char refusal_text[256];
};
TAILQ_HEAD(pg_client_list, pg_client);

/* One request. */
struct pg_exchange {
	LIST_ENTRY(pg_exchange) link;	/* of those that wait for an event */
	TAILQ_ENTRY(pg_exchange) queue; /* of those that wait for their turn */
	struct pg_client *client;
	struct MHD_Connection *connection;
	const struct pg_route *route;
	char name[PG_NAME_MAX + 1];
	char *body;
	size_t size, room;
	bool too_large, no_memory;
	bool waiting, has_turn;
	uint64_t resume, deadline;
	struct pg_work *work; /* NULL: none */
};
LIST_HEAD(pg_exchange_list, pg_exchange);
TAILQ_HEAD(pg_exchange_queue, pg_exchange);

/* What a user has taken of the turn. */
struct pg_turn {
	uid_t uid;
	uint64_t used_ns;
};

struct pg_server {
	struct pg_agent *agent;
	struct MHD_Daemon *daemon;
	int listen_fd;
	bool made; /* the socket in the file system */
	sd_event_source *listen_source, *daemon_source, *timeout_source, *sweep_source,
		*notify_source, *turn_source;
	struct pg_client_list clients;
	size_t client_count, refused_count;
	struct pg_client *accepting;
	struct pg_exchange_list waiting;
	struct pg_exchange_queue queue;
	struct pg_turn turns[PG_CLIENTS_MAX];
	size_t turn_count;
	uint64_t swept_at;
	bool notifying;
};

/* clients.c */
/* Takes what has connected; not more at a time than leaves others their turn. */
void pg_clients_accept(struct pg_server *server);
void pg_client_enter(struct pg_client *client, enum pg_client_state state);
/* Nothing more will come from it. */
bool pg_client_has_left(const struct pg_client *client);
/* And nothing that is sent will be read. */
bool pg_client_is_gone(const struct pg_client *client);
/* Ends connections whose time is up, and wakes requests that have waited long enough. */
void pg_clients_sweep(struct pg_server *server);
/* An MHD_NotifyConnectionCallback. */
void pg_client_notify(void *cls, struct MHD_Connection *connection, void **context,
		      enum MHD_ConnectionNotificationCode code);
/* Whether the peer may use the agent now. -EPERM: *ret_code and err say why not. */
int pg_client_authorise(const struct pg_agent *agent, const struct pg_caller *caller,
			enum pg_api_error *ret_code, struct pg_error *err) PG_MUST_CHECK;

/* exchange.c */
/* An MHD_AccessHandlerCallback, and an MHD_RequestCompletedCallback. */
enum MHD_Result pg_exchange_handle(void *cls, struct MHD_Connection *connection, const char *url,
				   const char *method, const char *version, const char *data,
				   size_t *size, void **context);
void pg_exchange_complete(void *cls, struct MHD_Connection *connection, void **context,
			  enum MHD_RequestTerminationCode code);
/* All, or those whose time is up or whose client has left. */
void pg_exchanges_wake(struct pg_server *server, bool all);

/* turns.c */
/* Whether the exchange is worked on now. false: it is suspended, and comes again. */
bool pg_turn_take(struct pg_server *server, struct pg_exchange *exchange);
void pg_turn_used(struct pg_server *server, uid_t uid, uint64_t ns);
/* Before the daemon looks at its connections: the next one of each user who waits. */
void pg_turns_next(struct pg_server *server);
/* Those who have gone meanwhile do not wait for their turn to be noticed. */
void pg_turns_sweep(struct pg_server *server);
/* All who wait; the agent is being stopped. */
void pg_turns_end(struct pg_server *server);
