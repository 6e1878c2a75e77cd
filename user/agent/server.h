/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 on a Unix socket, driven by the agent's loop. Who connects is known before anything is
 * read, and judged again at each request.
 */
#pragma once

#include "agent.h"

/* Connections at once; each may hold a request in memory. */
#define PG_CLIENTS_MAX	    256
/* Of them for one user other than root. */
#define PG_CLIENTS_USER_MAX 128
/* Beside them, connections that are told why they are refused; what is beyond is closed. */
#define PG_REFUSALS_MAX	    32
/* Octets of requests that are being received, of all connections together. */
#define PG_RECEIVING_MAX    (512UL * 1024 * 1024)
/* A request has to arrive within this time, and its reply to be read. */
#define PG_CLIENT_SECONDS   10
/* The longest that ?follow=1 waits for an event. */
#define PG_FOLLOW_SECONDS   25

int pg_server_start(struct pg_agent *agent, struct pg_server **ret_server,
		    struct pg_error *err) PG_MUST_CHECK;
/* Ends all connections; removes the socket if this process made it. */
void pg_server_stop(struct pg_server *server);

/* Wakes the requests that wait for an event. */
void pg_server_notify(struct pg_server *server);
/* Wakes the requests whose work is over. */
void pg_server_works_over(struct pg_server *server);
