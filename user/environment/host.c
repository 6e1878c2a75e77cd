/* SPDX-License-Identifier: Apache-2.0 */
#include "host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "dns.h"
#include "host_internal.h"
#include "kernel/exec.h"
#include "kernel/link.h"
#include "kernel/mountinfo.h"
#include "kernel/probe.h"
#include "steps.h"

/* Half of what an application may wait for the end of a connection that a switch has cut. */
#define CLOSING_PAUSE_MS    50
/* Of what passes take, that much longer something else is done. */
#define CLOSING_PAUSE_SHARE 4

static struct pg_environment *find_environment(const struct pg_host *host, uint64_t env_id)
{
	struct pg_environment *environment;

	LIST_FOREACH (environment, &host->environments, link)
		if (environment->header.env_id == env_id)
			return environment;
	return NULL;
}

static void note_event(void *userdata, const struct pg_event *event)
{
	struct pg_host *host = userdata;
	struct pg_environment *environment = find_environment(host, event->env_id);

	if (!environment)
		return;
	switch ((enum pg_event_kind)event->kind) {
	case PG_EVENT_STRANDED:
		environment->stranded = true;
		break;
	case PG_EVENT_UNSERVED:
	case PG_EVENT_PARKED:
		if (environment->dns)
			pg_dns_note(environment->dns, event);
		break;
	case PG_EVENT_DENIED:
		if (host->denied)
			host->denied(host->userdata, environment, event);
		break;
	case PG_EVENT_EXEC:
		pg_host_executed(environment, (const struct pg_event_exec *)event);
		break;
	case PG_EVENT_BEGUN:
	case PG_EVENT_UNKNOWN_SOURCE:
		pg_homes_look_into(environment);
		break;
	}
}

static struct pg_environment *find_stranded(const struct pg_host *host)
{
	struct pg_environment *environment;

	LIST_FOREACH (environment, &host->environments, link)
		if (environment->stranded)
			return environment;
	return NULL;
}

/* What one has taken adds up, also where several Environments' connections are stranded. */
static void pause_closing(struct pg_host *host, uint64_t start)
{
	const uint64_t now = pg_monotonic_ns();

	if (host->closing_next < now)
		host->closing_next = now;
	host->closing_next +=
		CLOSING_PAUSE_MS * PG_NSEC_PER_MSEC + CLOSING_PAUSE_SHARE * (now - start);
}

/* One Environment a turn: the others' events are not kept waiting, and what fails for one does not
 * leave another's connections hanging. */
static int close_stranded(struct pg_host *host, struct pg_error *err)
{
	struct pg_environment *environment = find_stranded(host);
	struct pg_closing closing;
	uint64_t start;
	int error, failed = 0;

	if (!environment)
		return 0;
	environment->stranded = false;
	start = pg_monotonic_ns();
	error = pg_environment_close_forbidden(environment, &closing, err);
	pause_closing(host, start);
	if (!error)
		pg_log_debug("closed %zu connections of %s that raced a switch", closing.closed,
			     pg_environment_name(environment));
	if (find_stranded(host))
		failed = pg_timer_set(host->closing_fd, 1, 0, error ? NULL : err);
	return error ? error : failed;
}

int pg_host_close_soon(struct pg_environment *environment, struct pg_error *err)
{
	environment->stranded = true;
	return pg_timer_set(environment->host->closing_fd, 1, 0, err);
}

static int process_closing(void *userdata, struct pg_error *err)
{
	struct pg_host *host = userdata;

	pg_timer_acknowledge(host->closing_fd);
	return close_stranded(host, err);
}

static void serve_dns(struct pg_host *host)
{
	struct pg_environment *environment;

	LIST_FOREACH (environment, &host->environments, link)
		if (environment->dns)
			pg_dns_serve(environment->dns);
}

/* A workload can strand connections at will, so a pass follows another only after a pause. */
static int process_events(void *userdata, struct pg_error *err)
{
	struct pg_host *host = userdata;
	const uint64_t next = host->closing_next;
	const uint64_t now = pg_monotonic_ns();
	int error = pg_events_process(host->kernel, err);

	if (error)
		return error;
	serve_dns(host);
	return now >= next ? close_stranded(host, err)
			   : pg_timer_set(host->closing_fd, next - now, 0, err);
}

static int age_flows(void *userdata, struct pg_error *err)
{
	struct pg_host *host = userdata;

	pg_timer_acknowledge(host->aging_fd);
	pg_flows_expire(host->kernel, 0);
	pg_flows_look(host);
	return 0;
}

static int start_sources(struct pg_host *host, struct pg_error *err)
{
	const uint64_t period = pg_flows_period_ns();
	int error;

	pg_events_set_sink(host->kernel, note_event, host);
	host->events = (struct pg_source){process_events, host};
	host->closing = (struct pg_source){process_closing, host};
	host->aging = (struct pg_source){age_flows, host};
	error = pg_host_add_source(host, pg_events_fd(host->kernel), EPOLLIN, &host->events, err);
	if (!error)
		error = pg_host_add_timer(host, &host->closing, &host->closing_fd, err);
	if (!error)
		error = pg_host_add_timer(host, &host->aging, &host->aging_fd, err);
	if (!error)
		error = pg_tidying_start(host, err);
	if (!error)
		error = pg_ending_start(host, err);
	return error ? error : pg_timer_set(host->aging_fd, period, period, err);
}

static int open_cgroup_mount(struct pg_host *host, struct pg_error *err)
{
	int error = pg_cgroup2_mount(&host->cgroup_mount, err);

	if (error)
		return error;
	host->cgroup_mount_fd = open(host->cgroup_mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (host->cgroup_mount_fd < 0)
		return pg_fail_errno(err, -errno, "opening the cgroup2 mount %s",
				     host->cgroup_mount);
	return 0;
}

void pg_host_warn(const struct pg_host *host, const char *code, const char *message)
{
	if (host->warning)
		host->warning(host->userdata, code, message);
}

/* Looks through the records, before anything is made: for where we are, and for orphans. */
static int settle_records(struct pg_host *host, int records_fd, struct pg_error *err)
{
	int error = pg_records_refuse_here(records_fd, err);

	/* What cannot be read must not have been changed. */
	if (!error && host->pins)
		error = pg_kept_read(host, records_fd, err);
	if (!error)
		error = pg_orphans_end(host, records_fd, err);
	return error;
}

/* Under the lock of the records: what others have pinned or made is seen whole. */
static int open_kernel(struct pg_host *host, bool links, struct pg_error *err)
{
	PG_CLEANUP(pg_records_unlock) int records_fd = -1;
	int error = pg_records_lock(host->interrupt_fd, &records_fd, err);

	if (!error && host->pins)
		error = pg_pins_lock(host, err);
	if (!error)
		error = settle_records(host, records_fd, err);
	/* Loading takes long. Nobody else sees maps that are not pinned. */
	if (!host->pins)
		pg_records_unlock(&records_fd);
	if (!error)
		error = pg_kernel_open(host->pins, &host->kernel, err);
	if (!error && links)
		error = pg_link_programs_load(host->kernel, err);
	if (!error && host->pins)
		error = pg_kept_settle(host, records_fd, err);
	if (!error && host->pins)
		error = pg_pins_guard(host, records_fd, err);
	return error;
}

/* What is denied, in whatever form it is written into a packet. */
static int compile_never_allowed(struct pg_host *host, const struct pg_host_options *options,
				 struct pg_error *err)
{
	pg_autofree struct pg_prefix *prefixes =
		calloc(options->never_allow_count, sizeof(*prefixes) * (PG_PREFIX_FORMS + 1));
	size_t count = 0;

	if (!prefixes)
		return pg_fail(err, -ENOMEM, "not enough memory for %zu denied ranges",
			       options->never_allow_count);
	for (size_t i = 0; i < options->never_allow_count; i++) {
		const struct pg_prefix *prefix = &options->never_allow[i];

		prefixes[count++] = *prefix;
		if (!prefix->v4)
			continue;
		pg_prefix_forms(prefix, prefixes + count);
		count += PG_PREFIX_FORMS;
	}
	return pg_compile_prefixes(prefixes, count, &host->never_allowed, err);
}

static int set_ceiling(struct pg_host *host, const struct pg_host_options *options,
		       struct pg_error *err)
{
	pg_autofree __be16 *ports = NULL;
	int error = 0;

	if (options->never_allow_count)
		error = compile_never_allowed(host, options, err);
	if (!error)
		error = pg_set_create(host->kernel, &host->never_allowed, &host->ceiling, err);
	if (error || !options->host_ports)
		return error;
	host->limit_ports = true;
	ports = calloc(options->host_port_count + 1, sizeof(*ports));
	if (!ports)
		return pg_fail(err, -ENOMEM, "not enough memory for the host's ports");
	for (size_t i = 0; i < options->host_port_count; i++)
		ports[i] = htons(options->host_ports[i]);
	host->ports = PG_TAKE_PTR(ports);
	host->port_count = options->host_port_count;
	return pg_host_ports_set(host->kernel, host->ports, host->port_count, err);
}

static int take_options(struct pg_host *host, const struct pg_host_options *options,
			struct pg_error *err)
{
	LIST_INIT(&host->environments);
	LIST_INIT(&host->ending);
	LIST_INIT(&host->kept);
	host->warning = options->warning;
	host->denied = options->denied;
	host->refused = options->refused;
	host->unguarded = options->unguarded;
	host->address_refused = options->address_refused;
	host->crowded = options->crowded;
	host->executed = options->executed;
	host->ended = options->ended;
	host->store = options->store;
	host->userdata = options->userdata;
	host->interrupt_fd = options->interrupt_fd;
	host->names_wait_ms = options->names_wait_ms ? options->names_wait_ms : PG_RESOLVER_LOAD_MS;
	host->cgroup_mount_fd = host->epoll_fd = host->aging_fd = host->closing_fd = -1;
	host->tidying_fd = host->ending_fd = host->inotify_fd = -1;
	host->pins_fd = -1;
	host->parent = strdup(options->parent ? options->parent : PG_CGROUP_PARENT);
	host->pins = options->pins ? strdup(options->pins) : NULL;
	if (!host->parent || (options->pins && !host->pins))
		return pg_fail(err, -ENOMEM, "not enough memory for a path");
	return strchr(host->parent, '/') || host->parent[0] == '.'
		       ? pg_fail(err, -EINVAL, "\"%s\" is not the name of a cgroup", host->parent)
		       : 0;
}

static int check_host(struct pg_host *host, struct pg_error *err)
{
	bool mounted;
	int error = pg_probe_required(err);

	if (!error)
		error = pg_bpffs_ensure(&mounted, err);
	if (error)
		return error;
	if (mounted)
		pg_host_warn(host, "bpffs_mounted",
			     "no BPF file system was mounted at /sys/fs/bpf; it is now");
	return 0;
}

int pg_host_open(const struct pg_host_options *options, struct pg_host **ret_host,
		 struct pg_error *err)
{
	PG_CLEANUP(pg_host_freep) struct pg_host *host = calloc(1, sizeof(*host));
	int error;

	if (!host)
		return pg_fail(err, -ENOMEM, "not enough memory for the host's state");
	error = take_options(host, options, err);
	if (!error)
		error = check_host(host, err);
	if (error)
		return error;
	host->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (host->epoll_fd < 0)
		return pg_fail_errno(err, -errno, "making the event loop");
	error = open_cgroup_mount(host, err);
	if (!error)
		error = open_kernel(host, options->links, err);
	if (error)
		return error;
	pg_step(PG_STEP_LOADED);
	error = set_ceiling(host, options, err);
	if (!error)
		error = pg_addresses_watch(host, err);
	if (!error)
		error = pg_homes_watch(host, err);
	if (!error)
		error = pg_place_watch_open(host, err);
	if (!error)
		error = pg_links_watch(host, err);
	if (!error)
		error = start_sources(host, err);
	if (error)
		return error;
	*ret_host = PG_TAKE_PTR(host);
	return 0;
}

void pg_host_free(struct pg_host *host)
{
	if (!host)
		return;
	pg_ending_leave(host);
	pg_links_free(host->links);
	pg_homes_free(host);
	pg_addresses_free(host->addresses);
	if (host->pins)
		pg_pins_leave(host);
	pg_kept_clear(host);
	pg_exec_watch_free(host->exec_watch);
	pg_kernel_free(host->kernel);
	pg_address_set_clear(&host->never_allowed);
	free(host->ports);
	pg_close_fd(&host->aging_fd);
	pg_close_fd(&host->closing_fd);
	pg_close_fd(&host->tidying_fd);
	pg_close_fd(&host->ending_fd);
	pg_close_fd(&host->inotify_fd);
	free(host->watches.items);
	pg_close_fd(&host->epoll_fd);
	pg_close_fd(&host->cgroup_mount_fd);
	pg_close_fd(&host->pins_fd);
	free(host->pins);
	free(host->parent);
	free(host->cgroup_mount);
	free(host);
}

const char *pg_host_guard_pins(const struct pg_host *host)
{
	return strcmp(host->parent, PG_CGROUP_PARENT) != 0 ? host->pins : PG_PIN_ROOT;
}

bool pg_host_is_below_parent(const struct pg_host *host, const char *path)
{
	return path[0] == '/' && pg_path_is_within(path + 1, host->parent);
}

bool pg_host_forbids(const struct pg_host *host, const struct pg_addr *addr)
{
	return pg_address_set_contains(&host->never_allowed, addr);
}

bool pg_host_opens(const struct pg_host *host, const struct pg_endpoint *remote)
{
	if (!host->limit_ports || !pg_addresses_may_receive(host->addresses, &remote->addr))
		return true;
	for (size_t i = 0; i < host->port_count; i++)
		if (host->ports[i] == remote->port)
			return true;
	return false;
}

struct pg_kernel *pg_host_kernel(const struct pg_host *host)
{
	return host->kernel;
}

const char *pg_host_cgroup_mount(const struct pg_host *host)
{
	return host->cgroup_mount;
}
