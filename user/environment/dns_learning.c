/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses the resolver's answers teach, and when they are let go. */
#include "dns.h"

#include <errno.h>

#include "base/clock.h"
#include "members.h"

/* How often expired addresses are looked for. Looking at the sockets costs, draining does not. */
#define SWEEP_PERIOD_NS (5 * PG_NSEC_PER_SEC)
/* A full book is swept at once, but a workload cannot make us do nothing else. */
#define SWEEP_PAUSE_NS	(100 * PG_NSEC_PER_MSEC)

void pg_learning_warn_shared(void *userdata, const struct pg_addr *addr, const char *name,
			     const char *other)
{
	const struct pg_names *names = userdata;
	struct pg_dns *dns = names->environment->dns;
	char message[640], text[PG_ADDR_TEXT];

	if (!dns || dns->told_shared++ >= PG_DNS_MESSAGES_MAX)
		return;
	snprintf(message, sizeof(message),
		 "%s, learned for %s, is an address of %s, too: what is allowed is the address%s",
		 pg_addr_format(addr, text), name, other,
		 dns->told_shared == PG_DNS_MESSAGES_MAX ? " (further ones are not reported)" : "");
	pg_host_warn(dns->environment->host, "shared_address", message);
}

static void warn_unlearnable(struct pg_dns *dns, const char *name, const struct pg_addr *addr)
{
	char message[512], text[PG_ADDR_TEXT];

	if (dns->told_unlearnable++ >= PG_DNS_MESSAGES_MAX)
		return;
	snprintf(message, sizeof(message),
		 "%s has the address %s, which DNS may not teach (%s): it is not opened%s", name,
		 pg_addr_format(addr, text),
		 pg_addr_is_learnable(addr) ? "private addresses are forbidden by a setting"
					    : "loopback, link-local and the like",
		 dns->told_unlearnable == PG_DNS_MESSAGES_MAX ? " (further ones are not reported)"
							      : "");
	pg_host_warn(dns->environment->host, "not_learned", message);
}

/* Who is told of the open sockets of the Environment. */
struct collecting {
	pg_learned_use use;
	void *context;
	int error;
};

/* A judge that closes nothing. */
static bool note_remote(void *userdata, const struct pg_socket *socket)
{
	struct collecting *collecting = userdata;

	if (!collecting->error)
		collecting->error = collecting->use(collecting->context, &socket->remote.addr);
	return false;
}

static int collect_remotes(void *userdata, pg_learned_use use, void *context, struct pg_error *err)
{
	const struct pg_environment *environment = userdata;
	pg_automembers struct pg_members members = {};
	struct collecting collecting = {.use = use, .context = context};
	size_t closed;
	int error = pg_places_collect(environment, 0, &members);

	if (error)
		return pg_fail_errno(err, error, "listing the processes of %s",
				     environment->record.name);
	error = pg_members_close_sockets(&members, pg_kernel_mark_map_fd(environment->host->kernel),
					 note_remote, &collecting,
					 pg_monotonic_ns() + PG_MEMBERS_CLOSE_NS, &closed, err);
	if (error)
		return error;
	if (collecting.error)
		return pg_fail_errno(err, collecting.error, "noting the open sockets of %s",
				     environment->record.name);
	return 0;
}

static void sweep(struct pg_dns *dns, const struct pg_content *content)
{
	struct pg_environment *environment = dns->environment;
	struct pg_error err = {};

	dns->swept_at = pg_boottime_ns();
	/* Before there is a cgroup nothing can be in use, and nothing has expired either. */
	if (!content->names || !pg_place_count(environment))
		return;
	if (pg_learned_book_sweep(content->names->book, collect_remotes, environment, &err) >= 0)
		return;
	if (dns->told_draining++ >= PG_DNS_MESSAGES_MAX)
		return;
	pg_error_prefix(&err, "expired addresses go on draining%s",
			dns->told_draining == PG_DNS_MESSAGES_MAX
				? " (further faults are not reported)"
				: "");
	pg_host_warn(environment->host, "draining", err.text);
}

void pg_learning_tend(struct pg_dns *dns)
{
	const struct pg_content *content = dns->environment->content;
	const bool behind = content->names && pg_learned_book_is_behind(content->names->book);

	if (behind || pg_boottime_ns() - dns->swept_at >= SWEEP_PERIOD_NS)
		sweep(dns, content);
}

static int add(struct pg_dns *dns, const struct pg_content *content,
	       const struct pg_learned_teacher *teacher, const struct pg_addr *addr,
	       uint64_t expires, struct pg_error *err)
{
	struct pg_learned_book *book = content->names->book;
	int error = pg_learned_book_add(book, teacher, addr, expires, err);

	if ((error != -ENOSPC && error != -EDQUOT) ||
	    pg_boottime_ns() - dns->swept_at < SWEEP_PAUSE_NS)
		return error;
	sweep(dns, content);
	return pg_learned_book_add(book, teacher, addr, expires, err);
}

static void warn_full(struct pg_dns *dns, const struct pg_learned_teacher *teacher,
		      struct pg_error *err)
{
	for (unsigned int i = 0; i < dns->told_full_count; i++)
		if (dns->told_full[i] == teacher->owner)
			return;
	if (dns->told_full_count == PG_DNS_MESSAGES_MAX)
		return;
	dns->told_full[dns->told_full_count++] = teacher->owner;
	pg_error_prefix(err,
			"%s (answers whose addresses have no room are SERVFAIL; this is said once"
			" for an entry)%s",
			teacher->name,
			dns->told_full_count == PG_DNS_MESSAGES_MAX
				? " (further entries are not reported)"
				: "");
	pg_host_warn(dns->environment->host, "learned_full", err->text);
}

/* Whether each of the lists has the address anyway: by an entry, or from a hosts file. */
static bool is_open(const struct pg_content *content, unsigned int lists,
		    const struct pg_addr *addr)
{
	for (size_t i = 0; i < content->compiled_count; i++) {
		const struct pg_compiled *compiled = &content->compiled[i];

		if (lists & 1U << i && !pg_address_set_contains(&compiled->addresses, addr) &&
		    !pg_learned_contains(&compiled->learned, addr, false))
			return false;
	}
	return true;
}

static int commit(struct pg_dns *dns, const struct pg_content *content, const char *name,
		  const struct pg_addr *addr, uint64_t expires)
{
	const struct pg_learned_teacher teacher = pg_quota_teacher(content->names->index, name);
	struct pg_error err = {};
	int error;

	if (!pg_addr_is_learnable(addr) ||
	    (dns->environment->settings.dns.forbid_private && pg_addr_is_private(addr))) {
		if (!is_open(content, teacher.lists, addr))
			warn_unlearnable(dns, name, addr);
		return 0;
	}
	error = add(dns, content, &teacher, addr, expires, &err);
	if (!error || !teacher.lists)
		return 0;
	warn_full(dns, &teacher, &err);
	return error;
}

/* The time at which it is over, in whole seconds: who asks again within one changes nothing. */
static uint64_t expiry(const struct pg_dns *dns, uint32_t ttl)
{
	const struct pg_dns_settings *settings = &dns->environment->settings.dns;
	const unsigned int floor = settings->floor_s;
	const uint64_t seconds = (uint64_t)(ttl > floor ? ttl : floor) + settings->grace_s;

	return (pg_boottime_ns() / PG_NSEC_PER_SEC + seconds + 1) * PG_NSEC_PER_SEC;
}

int pg_learning_commit(void *userdata, const char *name, const struct pg_addr *addr, uint32_t ttl)
{
	struct pg_dns *dns = userdata;
	const struct pg_content *contents[] = {dns->environment->content, dns->environment->next};
	const uint64_t expires = expiry(dns, ttl);
	int error = 0;

	for (size_t i = 0; i < PG_ARRAY_SIZE(contents) && !error; i++)
		if (contents[i] && contents[i]->names)
			error = commit(dns, contents[i], name, addr, expires);
	return error;
}

int pg_learning_add_fixed(struct pg_dns *dns, struct pg_content *content, const char *name,
			  const struct pg_addr *addr, struct pg_error *err)
{
	const struct pg_learned_teacher teacher = pg_quota_teacher(content->names->index, name);

	if (!teacher.lists)
		return 0;
	if (!pg_addr_is_learnable(addr)) {
		warn_unlearnable(dns, name, addr);
		return 0;
	}
	return add(dns, content, &teacher, addr, UINT64_MAX, err);
}
