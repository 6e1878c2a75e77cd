/* SPDX-License-Identifier: Apache-2.0 */
/* Before a switch and after it: closing connections that the phase to come, or the one in force,
 * does not allow. */
#include "host_internal.h"

#include <errno.h>
#include <netinet/in.h>

#include "base/clock.h"
#include "base/log.h"
#include "members.h"

/* A workload that opens connections as fast as they are closed is denied new ones by now, so few
 * passes find anything; the bound is for a kernel that would not keep its word. */
#define PASSES_MAX 16

/* So long a switch waits for it. */
#define AHEAD_NS (200 * PG_NSEC_PER_MSEC)

struct closing {
	const struct pg_environment *environment;
	const struct pg_members *members;
	struct pg_connections *connections; /* NULL: nobody wants to know */
};

static bool is_inbound_flow(const struct pg_environment *environment,
			    const struct pg_socket *socket)
{
	const struct pg_flow_key key = {
		.env_id = environment->header.env_id,
		.netns = socket->mark.netns,
		.local = socket->local.addr,
		.remote = socket->remote.addr,
		.local_port = socket->local.port,
		.remote_port = socket->remote.port,
		.protocol = socket->protocol,
	};

	return socket->protocol == IPPROTO_UDP &&
	       pg_flow_find(environment->host->kernel, &key) == PG_FLOW_INBOUND;
}

static bool is_accepted(const struct pg_environment *environment, const struct pg_socket *socket)
{
	if (socket->mark.kind == PG_MARK_ACCEPTED)
		return socket->mark.remote_port == socket->remote.port &&
		       !pg_addr_compare(&socket->mark.remote, &socket->remote.addr);
	return socket->protocol == IPPROTO_TCP &&
	       pg_accepted_has(environment->host->kernel, environment->state_index, socket->cookie,
			       &socket->remote);
}

/* What is asked of the listener alone, also within the Environment; the listener has another port.
 */
static bool passes_by_listener(const struct pg_environment *environment,
			       const struct pg_endpoint *remote)
{
	return pg_content_slot(environment)->flags & PG_PHASE_DNS_REDIRECT &&
	       remote->port == htons(PG_PORT_DNS);
}

/* Whether the peer's end is the Environment's, too. */
static bool is_within(const struct closing *closing, const struct pg_socket *socket)
{
	const size_t peer = pg_members_of(closing->members, socket->peer_cgroup_id);

	if (closing->environment->settings.apart)
		return peer != SIZE_MAX &&
		       peer == pg_members_of(closing->members, socket->cgroup_id);
	return peer != SIZE_MAX;
}

/* Whether what it sends goes to lo. Who is at the other end there may not be seen: one that the
 * listener has not made yet, or that has come while sockets were listed. */
static bool is_to_itself(const struct pg_socket *socket)
{
	return pg_addr_is_loopback(&socket->remote.addr) ||
	       !pg_addr_compare(&socket->remote.addr, &socket->local.addr);
}

/* The verdict that the socket's packets would get, in user space (docs/verdicts.md). */
static bool is_forbidden(const struct closing *closing, const struct pg_socket *socket)
{
	const struct pg_environment *environment = closing->environment;

	/* Not even replies, or what is within. */
	if (environment->state.phase == PG_PHASE_NONE ||
	    pg_host_forbids(environment->host, &socket->remote.addr))
		return true;
	if (pg_content_allows(environment, &socket->remote))
		return false;
	if (is_accepted(environment, socket))
		return false;
	if (is_inbound_flow(environment, socket))
		return false;
	if (passes_by_listener(environment, &socket->remote))
		return true;
	if (pg_member_addresses_have(environment, &socket->remote.addr))
		return false;
	if (socket->peer_found)
		return !is_within(closing, socket);
	return !is_to_itself(socket);
}

static bool judge(void *userdata, const struct pg_socket *socket)
{
	const struct closing *closing = userdata;
	const bool forbidden = is_forbidden(closing, socket);

	if (closing->connections)
		pg_connections_note(closing->connections, socket, forbidden);
	return forbidden;
}

/* deadline: for the next namespace; until: see struct pg_members. */
static int run_pass(const struct pg_environment *environment, struct pg_connections *connections,
		    uint64_t deadline, uint64_t until, size_t *ret_closed, struct pg_error *err)
{
	pg_automembers struct pg_members members = {};
	struct closing closing = {environment, &members, connections};
	int error = pg_places_collect(environment, until, &members);

	if (error)
		return pg_fail_errno(err, error, "listing the processes of %s",
				     environment->record.name);
	if (connections)
		pg_connections_begin(connections);
	return pg_members_close_sockets(&members, pg_kernel_mark_map_fd(environment->host->kernel),
					judge, &closing, deadline, ret_closed, err);
}

/* What is left open sends nothing in this phase: the hooks judge each packet. */
static void give_up(const struct pg_environment *environment, const struct pg_error *why)
{
	char text[PG_ERROR_TEXT + 128];

	snprintf(text, sizeof(text),
		 "connections of %s stay open, and what they send is denied: %s",
		 environment->record.name, why->text);
	pg_host_warn(environment->host, "connections_open", text);
}

static int close_all(struct pg_environment *environment, struct pg_connections *connections,
		     struct pg_closing *ret_closing, struct pg_error *err)
{
	const uint64_t start = pg_monotonic_ns();
	struct pg_closing closing = {};
	bool last = false;

	while (closing.passes < PASSES_MAX) {
		size_t closed = 0;
		struct pg_error late = {};
		int error = run_pass(environment, connections, start + PG_MEMBERS_CLOSE_NS, 0,
				     &closed, &late);

		if (error == -ETIMEDOUT) {
			closing.closed += closed;
			give_up(environment, &late);
			break;
		}
		if (error && err)
			*err = late;
		if (error)
			return pg_error_prefix(err, "closing what %s forbids",
					       environment->record.name);
		closing.passes++;
		closing.closed += closed;
		if (closed)
			continue;
		if (last)
			break;
		/* A connect may have passed its hook before the switch. */
		pg_kernel_synchronize(environment->host->kernel);
		last = true;
	}
	closing.took_ns = pg_monotonic_ns() - start;
	*ret_closing = closing;
	return 0;
}

static bool forbids_nothing(const struct pg_environment *environment)
{
	const struct pg_phase_slot *slot = pg_content_slot(environment);

	return slot->mode == PG_MODE_PUBLIC && !(slot->flags & PG_PHASE_DNS_REDIRECT) &&
	       !environment->host->ceiling.tables;
}

size_t pg_closing_ahead(const struct pg_environment *then)
{
	const uint64_t until = pg_monotonic_ns() + AHEAD_NS;
	struct pg_error err = {};
	size_t closed = 0;

	if (forbids_nothing(then))
		return 0;
	if (run_pass(then, NULL, until, until, &closed, &err))
		pg_log_debug("%s: not all other ends are told what is closed: %s",
			     then->record.name, err.text);
	return closed;
}

size_t pg_environment_close_ahead(const struct pg_environment *environment, enum pg_phase phase)
{
	struct pg_environment then = *environment;

	/* While everything is denied nobody can be told. */
	if (environment->state.phase == PG_PHASE_NONE || environment->state.phase == (int)phase)
		return 0;
	then.state.phase = (int)phase;
	return pg_closing_ahead(&then);
}

int pg_environment_close_forbidden(struct pg_environment *environment,
				   struct pg_closing *ret_closing, struct pg_error *err)
{
	if (forbids_nothing(environment)) {
		*ret_closing = (struct pg_closing){};
		return 0;
	}
	return close_all(environment, NULL, ret_closing, err);
}

int pg_connections_settle(struct pg_environment *environment, struct pg_error *err)
{
	struct pg_connections *connections = calloc(1, sizeof(*connections));
	struct pg_closing closing = {};
	int error;

	if (!connections)
		return pg_fail(err, -ENOMEM, "not enough memory for connections");
	free(environment->connections);
	environment->connections = connections;
	error = close_all(environment, connections, &closing, err);
	connections->closed = closing.closed;
	return error;
}
