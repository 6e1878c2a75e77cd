/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "listen.h"
#include "server_internal.h"

/* Request line and headers of a connection, and what is read of a body at once. */
#define CONNECTION_MEMORY (64UL * 1024)

#define SWEEP_USEC (PG_NSEC_PER_SEC / PG_NSEC_PER_USEC)

/* Events that come together are told together. */
#define NOTIFY_USEC 20000

/* The end of the agent waits so long for clients that read the replies that are ready. */
#define ANSWER_NS    PG_NSEC_PER_SEC
/* As many as a full backlog takes. */
#define LAST_BATCHES 10

static void run(struct pg_server *server)
{
	pg_turns_next(server);
	MHD_run(server->daemon);
}

static int on_listen(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct pg_server *server = userdata;

	pg_clients_accept(server);
	run(server);
	return 0;
}

static int on_daemon(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct pg_server *server = userdata;

	run(server);
	return 0;
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct pg_server *server = userdata;

	run(server);
	return 0;
}

/* Before the loop sleeps: what the daemon has to do without being told by a descriptor. */
static int before_sleep(sd_event_source *source, void *userdata)
{
	struct pg_server *server = userdata;
	MHD_UNSIGNED_LONG_LONG ms;

	if (MHD_get_timeout(server->daemon, &ms) != MHD_YES)
		return sd_event_source_set_enabled(server->timeout_source, SD_EVENT_OFF);
	sd_event_source_set_time_relative(server->timeout_source, ms * 1000);
	return sd_event_source_set_enabled(server->timeout_source, SD_EVENT_ONESHOT);
}

static int on_sweep(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct pg_server *server = userdata;

	run(server);
	pg_clients_sweep(server);
	sd_event_source_set_time_relative(source, SWEEP_USEC);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

void pg_server_works_over(struct pg_server *server)
{
	pg_exchanges_wake(server, false);
	run(server);
}

static int on_notify(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct pg_server *server = userdata;

	server->notifying = false;
	pg_exchanges_wake(server, true);
	run(server);
	return 0;
}

static int on_turn(sd_event_source *source, void *userdata)
{
	struct pg_server *server = userdata;

	run(server);
	return 0;
}

void pg_server_notify(struct pg_server *server)
{
	if (server->notifying || LIST_EMPTY(&server->waiting))
		return;
	server->notifying = true;
	sd_event_source_set_time_relative(server->notify_source, NOTIFY_USEC);
	sd_event_source_set_enabled(server->notify_source, SD_EVENT_ONESHOT);
}

static int add_timer(struct pg_server *server, uint64_t usec, sd_event_time_handler_t handler,
		     sd_event_source **ret_source)
{
	return sd_event_add_time_relative(server->agent->loop, ret_source, CLOCK_MONOTONIC, usec,
					  1000, handler, server);
}

static int add_sources(struct pg_server *server, struct pg_error *err)
{
	sd_event *loop = server->agent->loop;
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	int r = info ? 0 : -EOPNOTSUPP;

	if (r >= 0)
		r = sd_event_add_io(loop, &server->listen_source, server->listen_fd, EPOLLIN,
				    on_listen, server);
	if (r >= 0)
		r = sd_event_add_io(loop, &server->daemon_source, info->epoll_fd, EPOLLIN,
				    on_daemon, server);
	if (r >= 0)
		r = add_timer(server, 0, on_timeout, &server->timeout_source);
	if (r >= 0)
		r = add_timer(server, SWEEP_USEC, on_sweep, &server->sweep_source);
	if (r >= 0)
		r = add_timer(server, 0, on_notify, &server->notify_source);
	if (r >= 0)
		r = sd_event_source_set_enabled(server->notify_source, SD_EVENT_OFF);
	if (r >= 0)
		r = sd_event_add_defer(loop, &server->turn_source, on_turn, server);
	if (r >= 0)
		r = sd_event_source_set_enabled(server->turn_source, SD_EVENT_OFF);
	/* Every other source gives a turn too; this one is there for when nothing else happens, and
	 * is always ready. */
	if (r >= 0)
		r = sd_event_source_set_priority(server->turn_source, SD_EVENT_PRIORITY_IDLE);
	if (r >= 0)
		r = sd_event_source_set_prepare(server->daemon_source, before_sleep);
	return r < 0 ? pg_fail_errno(err, r, "cannot serve in the loop") : 0;
}

static int start_daemon(struct pg_server *server, struct pg_error *err)
{
	/* Connections that are shut are there until the daemon has noticed. */
	server->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET |
						  MHD_ALLOW_SUSPEND_RESUME,
					  0, NULL, NULL, pg_exchange_handle, server,
					  MHD_OPTION_NOTIFY_CONNECTION, pg_client_notify, server,
					  MHD_OPTION_NOTIFY_COMPLETED, pg_exchange_complete, server,
					  MHD_OPTION_CONNECTION_LIMIT, 4U * PG_CLIENTS_MAX,
					  MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY,
					  MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
	return server->daemon ? 0 : pg_fail(err, -EIO, "the HTTP server does not start");
}

int pg_server_start(struct pg_agent *agent, struct pg_server **ret_server, struct pg_error *err)
{
	struct pg_server *server = calloc(1, sizeof(*server));
	int error;

	if (!server)
		return pg_fail(err, -ENOMEM, "no memory for the server");
	server->agent = agent;
	server->listen_fd = -1;
	server->swept_at = pg_monotonic_ns();
	TAILQ_INIT(&server->clients);
	LIST_INIT(&server->waiting);
	TAILQ_INIT(&server->queue);
	error = pg_listen(agent->config, PG_TAKE_FD(agent->passed.listen_fd), &server->listen_fd,
			  &server->made, err);
	if (!error)
		error = start_daemon(server, err);
	if (!error)
		error = add_sources(server, err);
	if (error) {
		pg_server_stop(server);
		return error;
	}
	*ret_server = server;
	return 0;
}

static bool has_to_answer(const struct pg_server *server)
{
	const struct pg_client *client;

	TAILQ_FOREACH (client, &server->clients, link)
		if (client->state != PG_CLIENT_RECEIVING && !client->shut)
			return true;
	return false;
}

/* What waits is answered with what there is, if its client reads it at once. */
static void answer_all(struct pg_server *server)
{
	const uint64_t until = pg_monotonic_ns() + ANSWER_NS;

	pg_exchanges_wake(server, true);
	pg_turns_end(server);
	/* Without waiting: mostly nobody is there. */
	MHD_run_wait(server->daemon, 0);
	while (has_to_answer(server) && pg_monotonic_ns() < until)
		MHD_run_wait(server->daemon, ANSWER_NS / PG_NSEC_PER_MSEC / 10);
}

/* A socket of ours ends with us: who is in line there is answered, too. In systemd's they wait for
 * the next agent. */
static void take_last(struct pg_server *server)
{
	if (!server->made)
		return;
	unlink(server->agent->config->socket);
	server->made = false;
	/* Some at a time; each has to be seen, and to be read. */
	for (int i = 0; i < LAST_BATCHES; i++) {
		pg_clients_accept(server);
		MHD_run_wait(server->daemon, 0);
	}
}

void pg_server_stop(struct pg_server *server)
{
	if (!server)
		return;
	if (server->daemon && server->listen_source)
		take_last(server);
	sd_event_source_disable_unref(server->listen_source);
	sd_event_source_disable_unref(server->daemon_source);
	sd_event_source_disable_unref(server->timeout_source);
	sd_event_source_disable_unref(server->sweep_source);
	sd_event_source_disable_unref(server->notify_source);
	sd_event_source_disable_unref(server->turn_source);
	if (server->daemon) {
		answer_all(server);
		MHD_stop_daemon(server->daemon);
	}
	if (server->made)
		unlink(server->agent->config->socket);
	pg_close_fd(&server->listen_fd);
	free(server);
}
