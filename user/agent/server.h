/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 on a Unix socket, driven by the agent's loop. Who connects is known before anything is
 * read, and judged again at each request.
 */
#pragma once

#include "agent.h"
#include "limits.h"

int pg_server_start(struct pg_agent *agent, struct pg_server **ret_server,
		    struct pg_error *err) PG_MUST_CHECK;
/* Ends all connections; removes the socket if this process made it. */
void pg_server_stop(struct pg_server *server);

/* Wakes the requests that wait for an event. */
void pg_server_notify(struct pg_server *server);
/* Wakes the requests whose work is over. */
void pg_server_works_over(struct pg_server *server);
