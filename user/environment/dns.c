/* SPDX-License-Identifier: Apache-2.0 */
/* Names in the policy: which may be asked in which phase, and of whom. */
#include "dns.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"

/* Names without an address that are warned of one by one. */
#define UNRESOLVED_SHOWN 10

static void warn_budget(struct pg_dns *dns, size_t wildcard)
{
	char message[512];

	snprintf(message, sizeof(message),
		 "more than %u names under *.%s were asked within a minute: further ones are"
		 " refused until it is over",
		 dns->environment->settings.dns.wildcard_per_minute,
		 pg_name_index_wildcard(dns->environment->content->names->index, wildcard));
	pg_host_warn(dns->environment->host, "wildcard_budget", message);
}

static enum pg_name_verdict judge(void *userdata, const char *name)
{
	struct pg_dns *dns = userdata;
	const struct pg_content *content = dns->environment->content;
	const struct pg_compiled *list = pg_content_list(dns->environment);
	struct pg_name_match match;
	bool first;

	switch ((enum pg_mode)pg_content_slot(dns->environment)->mode) {
	case PG_MODE_NO_NETWORK:
		return PG_NAME_DENIED;
	case PG_MODE_PUBLIC:
		return PG_NAME_UNRESTRICTED;
	case PG_MODE_ALLOWLIST:
		break;
	}
	if (!list || !content->names)
		return PG_NAME_DENIED;
	/* In this list only: what is spent is the budget of one of its own entries. */
	match = pg_name_index_find_in(content->names->index, 1U << (list - content->compiled),
				      name);
	if (match.by_host)
		return PG_NAME_ALLOWED;
	if (!match.lists)
		return PG_NAME_DENIED;
	if (pg_budget_spend(content->names->budget, match.wildcard - 1, name, pg_boottime_ns(),
			    &first))
		return PG_NAME_ALLOWED;
	if (first)
		warn_budget(dns, match.wildcard - 1);
	return PG_NAME_OVER_BUDGET;
}

static bool allows_address(void *userdata, const struct pg_addr *addr)
{
	const struct pg_dns *dns = userdata;

	return pg_content_slot(dns->environment)->mode == PG_MODE_PUBLIC ||
	       pg_content_has_address(dns->environment, addr);
}

static uint64_t generation(void *userdata)
{
	const struct pg_dns *dns = userdata;

	return dns->environment->state.generation;
}

static void reply(void *owner, const struct pg_peer *peer, const uint8_t *message, size_t size)
{
	pg_listener_send(owner, peer, message, size);
}

/* No Environment's, and let through by the guard of the veth that it may ask through. */
static int hide_socket(void *userdata, int fd, struct pg_error *err)
{
	const struct pg_environment *environment = ((struct pg_dns *)userdata)->environment;
	int error = pg_dns_socket_hide(fd, err);

	return error ? error
		     : pg_agent_socket_mark(environment->host->kernel, fd,
					    environment->header.env_id, err);
}

unsigned int pg_dns_upstream(const struct pg_dns *dns, const struct pg_site *site)
{
	return dns->upstream ? dns->upstream : site->own_upstream;
}

void pg_dns_ask(struct pg_dns *dns, const struct pg_site *site, const struct pg_peer *peer,
		bool tcp, const uint8_t *message, size_t size)
{
	const struct pg_resolver_client client = {
		.owner = site->listener,
		.peer = *peer,
		.upstream = pg_dns_upstream(dns, site),
		.own_upstream = site->own_upstream,
		.tcp = tcp,
	};

	pg_resolver_ask(dns->resolver, &client, message, size);
}

static int process_resolver(void *userdata, struct pg_error *err)
{
	struct pg_dns *dns = userdata;

	return pg_resolver_process(dns->resolver, err);
}

static void note_refused(void *userdata, const char *name, enum pg_refusal refusal)
{
	struct pg_dns *dns = userdata;
	struct pg_environment *environment = dns->environment;
	const struct pg_host *host = environment->host;
	const uint64_t second = pg_monotonic_ns() / PG_NSEC_PER_SEC;

	if (!host->refused || !environment->settings.report_denials)
		return;
	if (second != dns->refusals_second)
		dns->refusals = 0;
	dns->refusals_second = second;
	if (dns->refusals++ < PG_REFUSALS_PER_S)
		host->refused(host->userdata, environment, name, refusal);
	else
		dns->refusals_unreported++;
}

static int start_resolver(struct pg_dns *dns, struct pg_error *err)
{
	const struct pg_settings *settings = &dns->environment->settings;
	const struct pg_resolver_hooks hooks = {
		.judge = judge,
		.allows_address = allows_address,
		.commit = pg_learning_commit,
		.generation = generation,
		.reply = reply,
		.prepare_socket = hide_socket,
		.refused = note_refused,
		.userdata = dns,
	};
	int error;

	if (!settings->resolver_count && !settings->own_resolver_count)
		return pg_fail(err, -EINVAL,
			       "the policy has host names, but no resolver is given to ask for"
			       " their addresses");
	error = pg_resolver_new(&hooks, settings->dns.denial, &dns->resolver, err);
	if (error)
		return error;
	dns->resolver_source = (struct pg_source){process_resolver, dns};
	error = pg_host_add_source(dns->environment->host, pg_resolver_fd(dns->resolver), EPOLLIN,
				   &dns->resolver_source, err);
	if (error || !settings->resolver_count)
		return error;
	return pg_resolver_add_upstream(dns->resolver, settings->resolvers,
					settings->resolver_count, -1, &dns->upstream, err);
}

static int add_hosts(struct pg_dns *dns, struct pg_error *err)
{
	const struct pg_settings *settings = &dns->environment->settings;
	int error = 0;

	for (size_t i = 0; i < settings->host_count && !error; i++)
		error = pg_resolver_add_local(dns->resolver, settings->hosts[i].name,
					      &settings->hosts[i].addr, err);
	return error;
}

/* Names of a policy that have no address so far, and why. */
struct unresolved {
	const char **names, **reasons;
	size_t count;
};

static void clear_unresolved(struct unresolved *unresolved)
{
	free(unresolved->names);
	free(unresolved->reasons);
}

static void note_unresolved(void *userdata, const char *name, const char *reason)
{
	struct unresolved *unresolved = userdata;

	unresolved->names[unresolved->count] = name;
	unresolved->reasons[unresolved->count++] = reason;
}

/* A list of thousands may be at fault for one reason, so a few of them say it. */
static void warn_unresolved(const struct pg_host *host, const struct unresolved *unresolved)
{
	char message[512];

	for (size_t i = 0; i < unresolved->count && i < UNRESOLVED_SHOWN; i++) {
		snprintf(message, sizeof(message), "%s has no address: %s", unresolved->names[i],
			 unresolved->reasons[i]);
		pg_host_warn(host, "unresolved", message);
	}
	if (unresolved->count <= UNRESOLVED_SHOWN)
		return;
	snprintf(message, sizeof(message), "%zu more names have no address",
		 unresolved->count - UNRESOLVED_SHOWN);
	pg_host_warn(host, "unresolved", message);
}

static int load_hosts(struct pg_dns *dns, struct pg_content *content, struct pg_error *err)
{
	const struct pg_settings *settings = &dns->environment->settings;
	int error = 0;

	for (size_t i = 0; i < settings->host_count && !error; i++)
		error = pg_learning_add_fixed(dns, content, settings->hosts[i].name,
					      &settings->hosts[i].addr, err);
	return error;
}

/* Moves to names what the site might know and others have not: those that are asked there. */
static size_t take_for_site(const struct pg_dns *dns, const struct pg_site *site,
			    struct unresolved *unresolved, const char **names)
{
	size_t kept = 0, taken = 0;

	for (size_t i = 0; i < unresolved->count; i++) {
		const char *name = unresolved->names[i], *reason = unresolved->reasons[i];

		if (site->own_upstream && (!dns->upstream || !strchr(name, '.'))) {
			names[taken++] = name;
			continue;
		}
		unresolved->names[kept] = name;
		unresolved->reasons[kept++] = reason;
	}
	unresolved->count = kept;
	return taken;
}

/* Leaves out names that only the namespaces of processes to come know. */
static size_t leave_out_local(const struct pg_dns *dns, const char **names, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (dns->upstream && strchr(names[i], '.'))
			names[kept++] = names[i];
	return kept;
}

/* While this process waits nobody else is served: so nameservers that do not answer are waited for
 * in full once in this time, and half as long at each further one. */
#define PATIENCE_NS	(30 * PG_NSEC_PER_SEC)
#define PATIENCE_MIN_MS 5

static uint64_t choose_deadline(struct pg_host *host)
{
	const uint64_t now = pg_monotonic_ns();

	if (!host->names_late_at || now - host->names_late_at > PATIENCE_NS)
		host->names_patience_ms = host->names_wait_ms;
	return now + (uint64_t)host->names_patience_ms * PG_NSEC_PER_MSEC;
}

static void note_lateness(struct pg_host *host, uint64_t deadline)
{
	/* Waits are in whole milliseconds. */
	const uint64_t now = pg_monotonic_ns() + PG_NSEC_PER_MSEC;

	if (now < deadline)
		return;
	if (host->names_patience_ms == host->names_wait_ms)
		host->names_late_at = now;
	if (host->names_patience_ms / 2 >= PATIENCE_MIN_MS)
		host->names_patience_ms /= 2;
}

/* Where the Environment's processes are, a name of one label may have other addresses than here. */
static int load_at_sites(struct pg_dns *dns, const char **names, size_t count,
			 struct unresolved *unresolved, struct pg_error *err)
{
	const struct pg_environment *environment = dns->environment;
	struct pg_host *host = environment->host;
	const uint64_t deadline = choose_deadline(host);
	const bool elsewhere = pg_sites_find(dns);
	bool first = true;
	struct pg_site *site;

	/* Of an agent's Environment nobody will be here. */
	if (!elsewhere && environment->settings.own_resolver_count && environment->record.made &&
	    host->pins)
		count = leave_out_local(dns, names, count);
	LIST_FOREACH (site, &dns->sites, link) {
		const uint64_t now = pg_monotonic_ns();
		int error;

		if (site->home && elsewhere)
			continue;
		if (!first)
			count = take_for_site(dns, site, unresolved, names);
		first = false;
		error = pg_resolver_load(dns->resolver, names, count, pg_dns_upstream(dns, site),
					 site->own_upstream,
					 now < deadline ? (int)((deadline - now) / PG_NSEC_PER_MSEC)
							: 0,
					 host->interrupt_fd, note_unresolved, unresolved, err);
		if (error < 0)
			return error;
	}
	note_lateness(host, deadline);
	return 0;
}

int pg_dns_load(struct pg_dns *dns, struct pg_content *content, struct pg_error *err)
{
	const struct pg_name_index *index = content->names->index;
	const size_t count = pg_name_index_hosts(index), room = count ? count : 1;
	pg_autofree const char **names = calloc(room, sizeof(*names));
	PG_CLEANUP(clear_unresolved)
	struct unresolved unresolved = {
		.names = calloc(room, sizeof(*names)),
		.reasons = calloc(room, sizeof(*names)),
	};
	int error;

	if (!names || !unresolved.names || !unresolved.reasons)
		return pg_fail(err, -ENOMEM, "not enough memory for %zu names", count);
	for (size_t i = 0; i < count; i++)
		names[i] = pg_name_index_host(index, i);
	error = load_hosts(dns, content, err);
	if (!error)
		error = load_at_sites(dns, names, count, &unresolved, err);
	if (!error)
		warn_unresolved(dns->environment->host, &unresolved);
	return error;
}

static int tend(void *userdata, struct pg_error *err)
{
	struct pg_dns *dns = userdata;

	pg_timer_acknowledge(dns->timer_fd);
	dns->hurried = false;
	pg_sites_tend(dns);
	pg_learning_tend(dns);
	return 0;
}

static int prepare(struct pg_dns *dns, struct pg_error *err)
{
	int error = start_resolver(dns, err);

	if (!error)
		error = pg_sites_prepare(dns, err);
	if (!error)
		error = add_hosts(dns, err);
	if (error)
		return error;
	dns->timer = (struct pg_source){tend, dns};
	return pg_host_add_timer(dns->environment->host, &dns->timer, &dns->timer_fd, err);
}

int pg_dns_create(struct pg_environment *environment, struct pg_error *err)
{
	struct pg_dns *dns = calloc(1, sizeof(*dns));

	if (!dns)
		return pg_fail(err, -ENOMEM, "not enough memory for the resolver");
	LIST_INIT(&dns->sites);
	dns->environment = environment;
	dns->timer_fd = -1;
	environment->dns = dns;
	return prepare(dns, err);
}

static int start_timer(struct pg_dns *dns, struct pg_error *err)
{
	dns->environment->header.flags |= PG_HEADER_DNS_LISTENER;
	return pg_timer_set(dns->timer_fd, PG_NSEC_PER_SEC, PG_NSEC_PER_SEC, err);
}

int pg_dns_start(struct pg_dns *dns, struct pg_error *err)
{
	int error = pg_sites_start(dns, err);

	return error ? error : start_timer(dns, err);
}

int pg_dns_resume(struct pg_dns *dns, struct pg_error *err)
{
	int error = pg_sites_resume(dns, err);

	return error ? error : start_timer(dns, err);
}

void pg_dns_destroy(struct pg_environment *environment, bool keep)
{
	struct pg_dns *dns = environment->dns;
	struct pg_host *host = environment->host;

	if (!dns)
		return;
	pg_sites_close(dns, keep);
	if (dns->timer_fd >= 0)
		pg_host_remove_source(host, dns->timer_fd, &dns->timer);
	if (dns->resolver)
		pg_host_remove_source(host, pg_resolver_fd(dns->resolver), &dns->resolver_source);
	pg_close_fd(&dns->timer_fd);
	pg_resolver_free(dns->resolver);
	if (environment->header.env_id && !keep)
		pg_dns_forget(host->kernel, environment->header.env_id);
	free(dns);
	environment->dns = NULL;
}

uint64_t pg_environment_refusals_unreported(const struct pg_environment *environment)
{
	return environment->dns ? environment->dns->refusals_unreported : 0;
}

struct pg_resolver_stats pg_environment_dns_stats(const struct pg_environment *environment)
{
	return environment->dns ? *pg_resolver_stats(environment->dns->resolver)
				: (struct pg_resolver_stats){};
}
