/* SPDX-License-Identifier: Apache-2.0 */
#include "server_internal.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

/* Connections taken in one turn of the loop. */
#define ACCEPT_BATCH 64

/* A turn of the loop that took longer than this was spent on an operation: clients had no chance
 * to be served, so it does not count as theirs. */
#define TURN_NS (2 * PG_NSEC_PER_SEC)

/* libmicrohttpd does not notice everybody who leaves in the middle of a request; until then what
 * was sent before may not have been read. */
#define LEFT_NS PG_NSEC_PER_SEC

void pg_client_enter(struct pg_client *client, enum pg_client_state state)
{
	client->state = state;
	client->since = pg_monotonic_ns();
}

static void client_free(struct pg_client *client)
{
	pg_caller_clear(&client->caller);
	free(client);
}

/* libmicrohttpd notices and closes. */
static void shut(struct pg_client *client)
{
	client->shut = true;
	shutdown(client->fd, SHUT_RDWR);
}

bool pg_client_has_left(const struct pg_client *client)
{
	struct pollfd ended = {.fd = client->fd, .events = POLLRDHUP};

	return poll(&ended, 1, 0) > 0;
}

bool pg_client_is_gone(const struct pg_client *client)
{
	struct pollfd ended = {.fd = client->fd};

	return poll(&ended, 1, 0) > 0;
}

/* Not in an Environment: one that could drive the agent would let itself out. Nor where
 * Environments are made: what outlives one is denied everything there. */
static int check_outside(const struct pg_agent *agent, const struct pg_caller *caller,
			 struct pg_error *err)
{
	pg_autofree char *cgroup = NULL;
	int error = pg_caller_cgroup(caller, &cgroup, err);

	if (error)
		return error;
	/* As a path is shown that is not below the root of this cgroup namespace. */
	if (strncmp(cgroup, "/..", 3) == 0)
		return pg_fail(err, -EPERM, "the cgroup of process %d is out of the agent's sight",
			       caller->pid);
	if (*cgroup == '/' && pg_path_is_within(cgroup + 1, agent->config->parent))
		return pg_fail(err, -EPERM, "process %d is below the agent's cgroup_parent",
			       caller->pid);
	return pg_host_refuse_inside(agent->host, cgroup, err);
}

/* It says nothing about the caller. */
static bool is_shortage(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM;
}

int pg_client_authorise(const struct pg_agent *agent, const struct pg_caller *caller,
			enum pg_api_error *ret_code, struct pg_error *err)
{
	const struct pg_config *config = agent->config;
	int error = pg_caller_check_place(caller, err);

	*ret_code = PG_API_PEER_REFUSED;
	if (!error)
		error = check_outside(agent, caller, err);
	if (is_shortage(error))
		*ret_code = PG_API_OUT_OF_MEMORY;
	if (error)
		return error;
	*ret_code = PG_API_NOT_PERMITTED;
	if (caller->uid == 0 || (config->has_group && pg_caller_in_group(caller, config->group)))
		return 0;
	return pg_fail(err, -EPERM, "user %u may not use the agent", caller->uid);
}

static size_t count_of(const struct pg_server *server, uid_t uid)
{
	const struct pg_client *client;
	size_t count = 0;

	TAILQ_FOREACH (client, &server->clients, link)
		count += !client->refused && !client->shut && client->caller.uid == uid;
	return count;
}

static void refuse(struct pg_client *client, enum pg_api_error code, const char *text)
{
	client->refused = true;
	client->refusal = code;
	/* As much of it as there is room for. */
	snprintf(client->refusal_text, sizeof(client->refusal_text), "%.*s",
		 (int)sizeof(client->refusal_text) - 1, text);
}

/* What it has sent has not been looked at yet: it may be a whole request. */
static bool has_asked(const struct pg_client *client)
{
	struct pollfd unread = {.fd = client->fd, .events = POLLIN | POLLRDHUP};

	return poll(&unread, 1, 0) > 0 && !(unread.revents & ~POLLIN);
}

/* The connection that has been idle for longest makes room, if there is one of that user (-1: of
 * anybody). */
static bool make_room(struct pg_server *server, uid_t uid)
{
	struct pg_client *client;

	TAILQ_FOREACH (client, &server->clients, link) {
		if (client->state != PG_CLIENT_RECEIVING || client->shut || client->refused ||
		    (uid != (uid_t)-1 && client->caller.uid != uid) || has_asked(client))
			continue;
		shut(client);
		return true;
	}
	return false;
}

static void admit(struct pg_server *server, struct pg_client *client)
{
	enum pg_api_error code = PG_API_PEER_REFUSED;
	struct pg_error err = {};
	int error = pg_caller_of(client->fd, &client->caller, &err);
	const uid_t uid = client->caller.uid;

	if (is_shortage(error))
		code = PG_API_OUT_OF_MEMORY;
	if (!error)
		error = pg_client_authorise(server->agent, &client->caller, &code, &err);
	/* For the next one. */
	if (code == PG_API_OUT_OF_MEMORY)
		make_room(server, (uid_t)-1);
	if (error)
		refuse(client, code, err.text);
	else if (count_of(server, uid) >= server->agent->config->clients_per_user &&
		 !make_room(server, uid))
		refuse(client, PG_API_TOO_MANY_CLIENTS, "this user has too many connections");
	else if (server->client_count >= PG_CLIENTS_MAX && !make_room(server, (uid_t)-1))
		refuse(client, PG_API_TOO_MANY_CLIENTS, "the agent has too many connections");
}

static void take(struct pg_server *server, int fd)
{
	static const struct sockaddr_un nobody = {.sun_family = AF_UNIX};
	struct pg_client *client = calloc(1, sizeof(*client));

	if (!client) {
		close(fd);
		return;
	}
	client->fd = fd;
	pg_client_enter(client, PG_CLIENT_RECEIVING);
	admit(server, client);
	if (client->refused && server->refused_count >= PG_REFUSALS_MAX) {
		client_free(client);
		close(fd);
		return;
	}
	/* Closes the descriptor if it fails; notifies if it does not. */
	server->accepting = client;
	if (MHD_add_connection(server->daemon, fd, (const struct sockaddr *)&nobody,
			       sizeof(nobody.sun_family)) != MHD_YES)
		pg_log_warning("a connection could not be taken: %s", strerror(errno));
	if (server->accepting)
		client_free(PG_TAKE_PTR(server->accepting));
}

void pg_clients_accept(struct pg_server *server)
{
	for (unsigned int i = 0; i < ACCEPT_BATCH; i++) {
		int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			take(server, fd);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno != EAGAIN) {
			/* Without descriptors: until the next sweep. */
			pg_log_warning("cannot take a connection: %s", strerror(errno));
			make_room(server, (uid_t)-1);
			sd_event_source_set_enabled(server->listen_source, SD_EVENT_OFF);
		}
		return;
	}
}

void pg_client_notify(void *cls, struct MHD_Connection *connection, void **context,
		      enum MHD_ConnectionNotificationCode code)
{
	struct pg_server *server = cls;
	struct pg_client *client;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		client = *context = PG_TAKE_PTR(server->accepting);
		TAILQ_INSERT_TAIL(&server->clients, client, link);
		server->client_count += !client->refused;
		server->refused_count += client->refused;
		return;
	}
	client = *context;
	if (!client)
		return;
	TAILQ_REMOVE(&server->clients, client, link);
	server->client_count -= !client->refused;
	server->refused_count -= client->refused;
	client_free(client);
	*context = NULL;
}

void pg_clients_sweep(struct pg_server *server)
{
	const uint64_t now = pg_monotonic_ns();
	const uint64_t since = now - server->swept_at;
	const uint64_t lost = since > TURN_NS ? since - TURN_NS : 0;
	struct pg_client *client;

	server->swept_at = now;
	TAILQ_FOREACH (client, &server->clients, link) {
		client->since += lost;
		if (client->state == PG_CLIENT_WAITING || client->shut)
			continue;
		if (client->since + PG_CLIENT_SECONDS * PG_NSEC_PER_SEC < now ||
		    (client->state != PG_CLIENT_SENDING && client->since + LEFT_NS < now &&
		     pg_client_has_left(client)))
			shut(client);
	}
	pg_exchanges_wake(server, false);
	pg_turns_sweep(server);
	sd_event_source_set_enabled(server->listen_source, SD_EVENT_ON);
}
