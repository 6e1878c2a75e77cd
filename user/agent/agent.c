/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "exposures.h"
#include "exposures_watch.h"
#include "links.h"
#include "phases.h"
#include "privileges.h"
#include "server.h"
#include "verify.h"
#include "watch.h"

/* Connections, namespaces that are served, maps, members: what all Environments may need. */
#define DESCRIPTORS 524288
#define NICE	    (-10)

/* A nameserver nearby has answered by then, and nobody else waits for long for one that is not. */
#define NAMES_WAIT_MS 250

bool pg_agent_open_event(struct pg_agent *agent, struct pg_json_writer *json, const char *kind,
			 const char *name)
{
	return pg_events_open(json, kind, name) == 0;
}

void pg_agent_close_event(struct pg_agent *agent, struct pg_json_writer *json, uid_t owner,
			  const char *name)
{
	pg_events_close(&agent->events, json, owner, name);
	if (agent->server)
		pg_server_notify(agent->server);
}

static void write_warning(struct pg_json_writer *json, const char *code, const char *message,
			  const char *object)
{
	pg_json_write_open(json, NULL, '{');
	pg_json_write_string(json, "code", code);
	pg_json_write_string(json, "message", message);
	pg_json_write_string(json, "object", object);
	pg_json_write_close(json, '}');
}

void pg_agent_warn(struct pg_agent *agent, const char *code, const char *message)
{
	if (!agent->operating_on) {
		pg_log_warning("%s: %s", code, message);
		return;
	}
	pg_log_warning("%s: %s: %s", agent->operating_on, code, message);
	if (agent->warning_count++ < PG_AGENT_WARNINGS_MAX)
		write_warning(&agent->warnings, code, message, agent->operating_on);
}

int pg_agent_collect_warnings(struct pg_agent *agent, const char *name)
{
	int error = pg_json_writer_start(&agent->warnings);

	if (error)
		return error;
	agent->warning_count = 0;
	agent->operating_on = name;
	return 0;
}

void pg_agent_take_warnings(struct pg_agent *agent, char **ret_elements)
{
	char message[64];
	size_t size;

	*ret_elements = NULL;
	snprintf(message, sizeof(message), "%zu more warnings are in the agent's log",
		 agent->warning_count - PG_AGENT_WARNINGS_MAX);
	if (agent->warning_count > PG_AGENT_WARNINGS_MAX)
		write_warning(&agent->warnings, "more_warnings", message, agent->operating_on);
	agent->operating_on = NULL;
	if (pg_json_writer_end(&agent->warnings, ret_elements, &size) < 0)
		*ret_elements = NULL;
}

static void on_warning(void *userdata, const char *code, const char *message)
{
	pg_agent_warn(userdata, code, message);
}

static const char *const reasons[] = {
#define PG_X(symbol, value, verdict, name, text) [value] = name,
	PG_REASONS(PG_X)
#undef PG_X
};

static void on_denied(void *userdata, struct pg_environment *environment,
		      const struct pg_event *event)
{
	const struct pg_endpoint remote = {.addr = event->remote, .port = event->remote_port};
	const char *name = pg_environment_name(environment);
	struct pg_agent *agent = userdata;
	struct pg_json_writer json;
	char text[PG_ADDR_TEXT];

	pg_verifications_denied(agent, event);
	if (environment == agent->quiet || !pg_agent_open_event(agent, &json, "denied", name))
		return;
	pg_json_write_string(&json, "phase", pg_phase_name(pg_environment_phase(environment)));
	pg_json_write_number(&json, "generation", event->generation);
	pg_json_write_string(&json, "reason",
			     event->reason < PG_ARRAY_SIZE(reasons) ? reasons[event->reason]
								    : "unknown");
	pg_json_write_string(&json, "remote", pg_addr_format(&remote.addr, text));
	pg_json_write_number(&json, "port", ntohs(remote.port));
	pg_json_write_number(&json, "protocol", event->protocol);
	pg_agent_close_event(agent, &json, pg_environment_owner(environment), name);
}

static const char *const refusals[] = {
#define PG_X(symbol, name) [PG_REFUSAL_##symbol] = name,
	PG_REFUSALS(PG_X)
#undef PG_X
};

/* A name that has no answer is never connected to: this is all that is seen of it. */
static void on_refused(void *userdata, struct pg_environment *environment, const char *host,
		       enum pg_refusal refusal)
{
	const char *name = pg_environment_name(environment);
	struct pg_agent *agent = userdata;
	/* It goes to terminals. */
	pg_autofree char *printable = pg_text_printable(host, strlen(host), 255);
	struct pg_json_writer json;

	if (!pg_agent_open_event(agent, &json, "denied", name))
		return;
	pg_json_write_string(&json, "phase", pg_phase_name(pg_environment_phase(environment)));
	pg_json_write_number(&json, "generation", pg_environment_generation(environment));
	pg_json_write_string(&json, "reason", refusals[refusal]);
	pg_json_write_string(&json, "host", printable);
	pg_agent_close_event(agent, &json, pg_environment_owner(environment), name);
}

static void on_unguarded(void *userdata, struct pg_environment *environment,
			 const struct pg_link_view *link)
{
	pg_links_report(userdata, environment, link);
}

static void on_address_refused(void *userdata, struct pg_environment *environment,
			       const struct pg_addr *addr, const char *message)
{
	const char *name = pg_environment_name(environment);
	struct pg_agent *agent = userdata;
	struct pg_json_writer json;
	char text[PG_ADDR_TEXT];

	if (agent->operating_on) {
		pg_agent_warn(agent, "own_address_refused", message);
		return;
	}
	pg_log_warning("%s: own_address_refused: %s", name, message);
	if (!pg_agent_open_event(agent, &json, "own_address_refused", name))
		return;
	pg_json_write_string(&json, "address", pg_addr_format(addr, text));
	pg_json_write_string(&json, "message", message);
	pg_agent_close_event(agent, &json, pg_environment_owner(environment), name);
}

static void on_executed(void *userdata, struct pg_environment *environment,
			const struct pg_event_exec *executed)
{
	pg_exposures_executed(userdata, environment, executed);
}

static void on_crowded(void *userdata, struct pg_environment *environment, uint64_t refused)
{
	const char *name = pg_environment_name(environment);
	struct pg_agent *agent = userdata;
	struct pg_json_writer json;

	pg_log_warning("%s: %llu new UDP flows found no room: it has as many as there is room left",
		       name, (unsigned long long)refused);
	if (!pg_agent_open_event(agent, &json, "flows_refused", name))
		return;
	pg_json_write_number(&json, "count", refused);
	pg_agent_close_event(agent, &json, pg_environment_owner(environment), name);
}

static void on_ended(void *userdata, struct pg_environment *environment,
		     const struct pg_error *fault)
{
	pg_agent_ended(userdata, environment, fault);
}

static int on_host(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct pg_agent *agent = userdata;
	struct pg_error err = {};

	/* What is in force stays in force; names and own addresses may be late. */
	if (pg_host_process(agent->host, &err) < 0)
		pg_log_error("%s", err.text);
	return 0;
}

static int on_lease(sd_event_source *source, uint64_t usec, void *userdata)
{
	pg_leases_tend(userdata);
	return 0;
}

static void keep_socket(void *userdata, const char *name, int fd)
{
	pg_passed_keep(name, fd);
}

static int take_socket(void *userdata, const char *name)
{
	struct pg_agent *agent = userdata;

	return pg_passed_take(&agent->passed, name);
}

static void drop_socket(void *userdata, const char *name)
{
	pg_passed_drop(name);
}

static const struct pg_socket_store socket_store = {keep_socket, take_socket, drop_socket};

static int open_host(struct pg_agent *agent, struct pg_error *err)
{
	const struct pg_config *config = agent->config;
	const struct pg_host_options options = {
		.warning = on_warning,
		.denied = on_denied,
		.refused = on_refused,
		.unguarded = on_unguarded,
		.address_refused = on_address_refused,
		.crowded = on_crowded,
		.executed = on_executed,
		.ended = on_ended,
		.store = &socket_store,
		.userdata = agent,
		.interrupt_fd = -1,
		.names_wait_ms = NAMES_WAIT_MS,
		.pins = config->pins,
		.parent = config->parent,
		.never_allow = config->never_allow,
		.never_allow_count = config->never_allow_count,
		.host_ports = config->host_ports_given ? config->host_ports : NULL,
		.host_port_count = config->host_port_count,
		.links = true,
	};

	return pg_host_open(&options, &agent->host, err);
}

/* -ECANCELED: its note is not one of ours. It stays as it is, and nobody's. */
static int adopt(struct pg_agent *agent, const char *name, struct pg_error *err)
{
	struct pg_managed *managed = calloc(1, sizeof(*managed));
	int error;

	if (!managed)
		return pg_fail(err, -ENOMEM, "no memory for the Environment");
	error = pg_environment_adopt(agent->host, name, &managed->environment, err);
	if (!error) {
		error = pg_note_parse(pg_environment_note(managed->environment), &managed->note,
				      err);
		if (error)
			pg_environment_leave(managed->environment);
	}
	if (error) {
		free(managed);
		return error;
	}
	/* The operator may refuse others than before. */
	if (pg_environment_refuse_rights(managed->environment,
					 pg_exposures_refused_rights(agent->config,
								     managed->note.let),
					 err) < 0)
		pg_log_error("%s: %s", name, err->text);
	pg_environment_tidy_inside(managed->environment);
	pg_exposures_watch(managed, true);
	LIST_INSERT_HEAD(&agent->environments, managed, link);
	agent->environment_count++;
	return 0;
}

static int adopt_all(struct pg_agent *agent, struct pg_error *err)
{
	pg_autofree char **names = NULL;
	size_t count;
	int error = pg_host_kept(agent->host, &names, &count, err);

	if (error)
		return error;
	for (size_t i = 0; i < count; i++) {
		struct pg_error why = {};

		if (adopt(agent, names[i], &why) < 0)
			pg_log_error("%s: it stays confined as it is, but cannot be adopted: %s",
				     names[i], why.text);
	}
	pg_log_info("Environments adopted: %zu", agent->environment_count);
	return 0;
}

static int add_sources(struct pg_agent *agent, struct pg_error *err)
{
	int r = sd_event_add_io(agent->loop, &agent->host_source, pg_host_fd(agent->host), EPOLLIN,
				on_host, agent);

	if (r >= 0)
		r = sd_event_add_time(agent->loop, &agent->lease_source, CLOCK_BOOTTIME, 0, 1000,
				      on_lease, agent);
	if (r >= 0)
		r = sd_event_source_set_priority(agent->lease_source, SD_EVENT_PRIORITY_IMPORTANT);
	if (r >= 0)
		r = sd_event_add_signal(agent->loop, NULL, SIGTERM | SD_EVENT_SIGNAL_PROCMASK, NULL,
					NULL);
	if (r >= 0)
		r = sd_event_add_signal(agent->loop, NULL, SIGINT | SD_EVENT_SIGNAL_PROCMASK, NULL,
					NULL);
	if (r >= 0)
		r = sd_event_set_watchdog(agent->loop, true);
	return r < 0 ? pg_fail_errno(err, r, "cannot set up the loop") : 0;
}

static void raise_descriptors(void)
{
	struct rlimit limit = {.rlim_cur = DESCRIPTORS, .rlim_max = DESCRIPTORS};

	if (setrlimit(RLIMIT_NOFILE, &limit) == 0 || getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int start(struct pg_agent *agent, struct pg_error *err)
{
	int error, r;

	raise_descriptors();
	/* What a runtime has started is found before it begins on a busy host, too. Nice= of the
	 * unit says the same. */
	setpriority(PRIO_PROCESS, 0, NICE);
	r = sd_event_new(&agent->loop);
	if (r < 0)
		return pg_fail_errno(err, r, "cannot make the loop");
	if (pg_events_init(&agent->events) < 0)
		return pg_fail(err, -ENOMEM, "no memory for events");
	error = pg_passed_open(&agent->passed, err);
	if (!error)
		error = open_host(agent, err);
	if (!error)
		error = add_sources(agent, err);
	if (!error)
		error = pg_works_init(agent, err);
	if (!error)
		error = adopt_all(agent, err);
	/* That of the agent before goes on until then. */
	if (!error)
		pg_host_watch_exec(agent->host);
	if (!error)
		error = pg_watch_start(agent, &agent->watch, err);
	pg_passed_clear(&agent->passed, !error);
	if (!error)
		error = pg_server_start(agent, &agent->server, err);
	if (!error)
		error = pg_privileges_drop(err);
	if (error)
		return error;
	pg_leases_tend(agent);
	return 0;
}

/* Leaves every Environment as it is: the next agent adopts it. */
static void stop(struct pg_agent *agent)
{
	struct pg_managed *managed;

	agent->stopping = true;
	pg_server_stop(PG_TAKE_PTR(agent->server));
	pg_works_clear(agent);
	pg_verifications_clear(agent);
	pg_watch_stop(PG_TAKE_PTR(agent->watch));
	while ((managed = LIST_FIRST(&agent->environments))) {
		LIST_REMOVE(managed, link);
		pg_environment_leave(managed->environment);
		pg_exposures_unwatch(managed);
		pg_note_clear(&managed->note);
		free(managed);
	}
	sd_event_source_disable_unref(agent->host_source);
	sd_event_source_disable_unref(agent->lease_source);
	pg_host_free(agent->host);
	pg_events_clear(&agent->events);
	sd_event_unref(agent->loop);
}

int pg_agent_run(const struct pg_config *config, struct pg_error *err)
{
	struct pg_agent agent = {.config = config,
				 .works = {.event_fd = -1},
				 .passed = {.listen_fd = -1}};
	int error, r;

	LIST_INIT(&agent.environments);
	error = start(&agent, err);
	if (!error) {
		pg_log_info("serving %s", config->socket);
		sd_notify(0, "READY=1");
		r = sd_event_loop(agent.loop);
		if (r < 0)
			error = pg_fail_errno(err, r, "the loop has failed");
		sd_notify(0, "STOPPING=1");
		pg_log_info("stopping; Environments that stay as they are: %zu",
			    agent.environment_count);
	}
	stop(&agent);
	return error;
}
