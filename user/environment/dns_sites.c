/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listeners in the network namespaces of an Environment. The first is opened in the namespace of
 * this process, where commands start; others as soon as something in them asks a nameserver: the
 * hooks say so and keep the query (abi/dns.h).
 */
#include "dns.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/nsfs.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "members.h"

/* 127.77.0.0/16: a part of loopback that nobody uses by habit. */
#define LISTENER_NET   0x7f4d0000U
/* Ports above the usual range of ephemeral ones (net.ipv4.ip_local_port_range), and, if chance
 * finds none there, all that need no privilege: a neighbour in the namespace could hold the former.
 */
#define PORT_FIRST     61000U
#define PORT_COUNT     4000U
#define PORT_ANY_FIRST 1024U
#define PORT_ANY_COUNT 64512U
/* Of each kind. */
#define OPEN_TRIES     32

/* A namespace whose listener is destroyed again and again is not served faster than this. */
#define REOPEN_NS (1 * PG_NSEC_PER_SEC)

static void take_query(void *userdata, struct pg_listener *listener, const struct pg_peer *peer,
		       bool tcp, const uint8_t *message, size_t size)
{
	struct pg_site *site = userdata;

	pg_dns_ask(site->dns, site, peer, tcp, message, size);
}

static int mark_socket(void *userdata, int fd, struct pg_error *err)
{
	const struct pg_site *site = userdata;
	const struct pg_environment *environment = site->dns->environment;

	return pg_dns_listener_mark(environment->host->kernel, fd, environment->header.env_id, err);
}

/* From now on sockets there may hear of errors: what they send is delivered. */
static void declare_served(const struct pg_site *site)
{
	const struct pg_environment *environment = site->dns->environment;
	const uint64_t cookie = pg_listener_netns_cookie(site->listener);

	if (cookie)
		pg_dns_served_add(environment->host->kernel, environment->header.env_id, cookie);
}

static void close_listener(struct pg_site *site)
{
	struct pg_dns *dns = site->dns;
	const struct pg_site *other;

	if (!site->listener)
		return;
	pg_host_remove_source(dns->environment->host, pg_listener_fd(site->listener),
			      &site->source);
	pg_resolver_cancel(dns->resolver, site->listener);
	pg_listener_close(site->listener);
	site->listener = NULL;
	if (dns->leaving)
		return;
	pg_site_drop_sockets(site);
	/* So that a query is parked until there is a listener again. */
	pg_dns_forget(dns->environment->host->kernel, dns->environment->header.env_id);
	LIST_FOREACH (other, &dns->sites, link)
		if (other->listener)
			declare_served(other);
}

void pg_sites_warn(struct pg_dns *dns, const char *code, struct pg_error *err)
{
	if (dns->told_sites++ >= PG_DNS_MESSAGES_MAX)
		return;
	pg_error_prefix(err, "DNS of %s%s", dns->environment->record.name,
			dns->told_sites == PG_DNS_MESSAGES_MAX ? " (further ones are not reported)"
							       : "");
	pg_host_warn(dns->environment->host, code, err->text);
}

static void warn_site(struct pg_site *site, const char *code, struct pg_error *err)
{
	pg_error_prefix(err, "in the network namespace %" PRIu64, site->inode);
	pg_sites_warn(site->dns, code, err);
}

static int process_listener(void *userdata, struct pg_error *err)
{
	struct pg_site *site = userdata;
	struct pg_error fault = {};

	if (!pg_listener_process(site->listener, &fault))
		return 0;
	close_listener(site);
	warn_site(site, "listener_lost", &fault);
	return 0;
}

static int open_listener(struct pg_site *site, bool ipv6_required, struct pg_error *err)
{
	const struct pg_header *header = &site->dns->environment->header;
	int inherited[PG_LISTENER_SOCKETS];
	const struct pg_listener_options options = {
		.netns_fd = site->netns_fd,
		.inherited = inherited,
		.endpoints = {header->listener[0], header->listener[1]},
		.prepare = mark_socket,
		.query = take_query,
		.userdata = site,
	};
	int error;

	site->opened = pg_monotonic_ns();
	pg_site_take_sockets(site, inherited);
	error = pg_listener_open(&options, ipv6_required, &site->listener, err);
	for (size_t i = 0; i < PG_ARRAY_SIZE(inherited); i++)
		pg_close_fd(&inherited[i]);
	if (error)
		return error;
	site->source = (struct pg_source){process_listener, site};
	error = pg_host_add_source(site->dns->environment->host, pg_listener_fd(site->listener),
				   EPOLLIN, &site->source, err);
	if (error) {
		pg_listener_close(site->listener);
		site->listener = NULL;
		return error;
	}
	pg_site_keep_sockets(site);
	declare_served(site);
	return 0;
}

/*
 * Whether the namespace was made by root of the host, as runtimes do: in one that a process made in
 * a user namespace of its own, that process answers at every address there is.
 */
static bool is_made_by_root(int netns_fd)
{
	pg_autoclose int user_fd = ioctl(netns_fd, NS_GET_USERNS);
	struct stat own, its;

	return user_fd >= 0 && !fstat(user_fd, &its) && !stat("/proc/self/ns/user", &own) &&
	       own.st_dev == its.st_dev && own.st_ino == its.st_ino;
}

static int add_site(struct pg_dns *dns, int netns_fd, struct pg_site **ret_site,
		    struct pg_error *err)
{
	const struct pg_settings *settings = &dns->environment->settings;
	struct pg_site *site;
	struct stat status;
	int error = 0;

	if (dns->site_count == PG_SITES_MAX)
		return pg_fail(err, -E2BIG,
			       "%s has more than %d network namespaces; the others have no DNS",
			       dns->environment->record.name, PG_SITES_MAX);
	site = calloc(1, sizeof(*site));
	if (!site)
		return pg_fail(err, -ENOMEM, "not enough memory for a network namespace");
	site->dns = dns;
	site->netns_fd = fcntl(netns_fd, F_DUPFD_CLOEXEC, 0);
	if (site->netns_fd < 0 || fstat(site->netns_fd, &status))
		error = pg_fail_errno(err, -errno, "keeping a network namespace open");
	else if (settings->own_resolver_count && is_made_by_root(site->netns_fd))
		error = pg_resolver_add_upstream(dns->resolver, settings->own_resolvers,
						 settings->own_resolver_count, site->netns_fd,
						 &site->own_upstream, err);
	if (error) {
		pg_close_fd(&site->netns_fd);
		free(site);
		return error;
	}
	site->inode = status.st_ino;
	/* Nobody says of `phasegate run` itself that containers are in its namespace. */
	if (dns->upstream && dns->site_count)
		pg_resolver_keep_near(dns->resolver, site->own_upstream, site->netns_fd,
				      settings->own_resolvers + settings->own_resolver_count -
					      settings->told_resolver_count,
				      settings->told_resolver_count);
	LIST_INSERT_HEAD(&dns->sites, site, link);
	dns->site_count++;
	*ret_site = site;
	return 0;
}

static void remove_site(struct pg_site *site)
{
	close_listener(site);
	if (site->own_upstream)
		pg_resolver_remove_upstream(site->dns->resolver, site->own_upstream);
	LIST_REMOVE(site, link);
	site->dns->site_count--;
	pg_close_fd(&site->netns_fd);
	free(site);
}

int pg_sites_prepare(struct pg_dns *dns, struct pg_error *err)
{
	pg_autoclose int netns_fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	struct pg_site *site;
	int error;

	if (netns_fd < 0)
		return pg_fail_errno(err, -errno, "opening the own network namespace");
	error = add_site(dns, netns_fd, &site, err);
	if (!error)
		site->home = true;
	return error;
}

struct pg_site *pg_sites_home(const struct pg_dns *dns)
{
	struct pg_site *site;

	LIST_FOREACH (site, &dns->sites, link)
		if (site->home)
			return site;
	return NULL;
}

/* An endpoint of the Environment's own: others in the namespace, Environments among them, have
 * theirs. */
static int choose_endpoints(struct pg_header *header, bool any_port, struct pg_error *err)
{
	static const uint8_t loopback6[16] = {[15] = 1};
	struct {
		uint16_t host, port;
	} random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return pg_fail_errno(err, -errno, "drawing a random port");
	/* Neither the network's own address nor its broadcast. */
	random.host = (uint16_t)(random.host % 0xfffe + 1);
	random.port = (uint16_t)(any_port ? PORT_ANY_FIRST + random.port % PORT_ANY_COUNT
					  : PORT_FIRST + random.port % PORT_COUNT);
	header->listener[0] = (struct pg_endpoint){
		.addr = pg_addr_from_v4(htonl(LISTENER_NET + random.host)),
		.port = htons(random.port),
	};
	header->listener[1] = (struct pg_endpoint){
		.addr = pg_addr_from_bytes(loopback6),
		.port = htons(random.port),
	};
	return 0;
}

static void try_open(struct pg_site *site)
{
	struct pg_error err = {};

	if (site->listener || (site->opened && pg_monotonic_ns() - site->opened < REOPEN_NS))
		return;
	if (!open_listener(site, false, &err)) {
		site->warned = false;
		return;
	}
	if (!site->warned)
		warn_site(site, "listener_refused", &err);
	site->warned = true;
}

static struct pg_site *find_site(const struct pg_dns *dns, uint64_t inode)
{
	struct pg_site *site;

	LIST_FOREACH (site, &dns->sites, link)
		if (site->inode == inode)
			return site;
	return NULL;
}

int pg_sites_start(struct pg_dns *dns, struct pg_error *err)
{
	struct pg_site *site, *home = pg_sites_home(dns);
	int error = -EADDRINUSE;

	for (int i = 0; i < 2 * OPEN_TRIES && error == -EADDRINUSE; i++) {
		error = choose_endpoints(&dns->environment->header, i >= OPEN_TRIES, err);
		if (!error)
			error = open_listener(home, true, err);
	}
	if (error)
		return pg_error_prefix(err, "listening for DNS queries of %s",
				       dns->environment->record.name);
	LIST_FOREACH (site, &dns->sites, link)
		try_open(site);
	return 0;
}

int pg_sites_resume(struct pg_dns *dns, struct pg_error *err)
{
	struct pg_error fault = {};

	/* Where nobody listens yet, queries are kept from now on. */
	pg_dns_forget(dns->environment->host->kernel, dns->environment->header.env_id);
	/* What cannot be served now is tried again, and other namespaces are served. */
	if (open_listener(pg_sites_home(dns), false, &fault))
		warn_site(pg_sites_home(dns), "listener_refused", &fault);
	dns->unserved = true;
	pg_dns_serve(dns);
	return 0;
}

void pg_sites_close(struct pg_dns *dns, bool keep)
{
	struct pg_site *site, *next;

	dns->leaving = keep;
	for (site = LIST_FIRST(&dns->sites); site; site = next) {
		next = LIST_NEXT(site, link);
		remove_site(site);
	}
}

/* The members may not have been opened yet. */
static int collect(const struct pg_environment *environment, struct pg_members *members)
{
	int error = 0;

	for (size_t i = 0; i < pg_place_count(environment) && !error; i++) {
		const int mount_fd = environment->host->cgroup_mount_fd;
		pg_autoclose int fd = -1;
		struct pg_error unused = {};

		if (!pg_cgroup_open(mount_fd, pg_place_path(environment, i) + 1, &fd, &unused))
			error = pg_members_add(members, i, fd);
	}
	return error;
}

bool pg_sites_find(struct pg_dns *dns)
{
	pg_automembers struct pg_members members = {};
	struct pg_site *home = pg_sites_home(dns);
	bool found = false;

	if (!dns->environment->settings.own_resolver_count ||
	    collect(dns->environment, &members) < 0)
		return false;
	for (size_t i = 0; i < members.namespace_count; i++) {
		struct pg_site *site = find_site(dns, members.namespaces[i].inode);
		struct pg_error unused = {};

		/* One that there is no room for is told of once something there asks. */
		if (site || !add_site(dns, members.namespaces[i].fd, &site, &unused))
			found |= site != home;
	}
	return found;
}

/* Opens listeners in the namespaces of all processes that are there now. */
void pg_sites_open_missing(struct pg_dns *dns, const struct pg_members *members)
{
	for (size_t i = 0; i < members->namespace_count; i++) {
		const struct pg_member_namespace *namespace = &members->namespaces[i];
		struct pg_site *site = find_site(dns, namespace->inode);
		struct pg_error err = {};

		if (!site && add_site(dns, namespace->fd, &site, &err) && !dns->told_refused) {
			pg_sites_warn(dns, "listener_refused", &err);
			dns->told_refused = true;
		}
		if (site)
			try_open(site);
	}
}

static void close_unused(struct pg_dns *dns, const struct pg_members *members)
{
	struct pg_site *site, *next;

	for (site = LIST_FIRST(&dns->sites); site; site = next) {
		next = LIST_NEXT(site, link);
		if (!site->home && !pg_members_have_namespace(members, site->inode))
			remove_site(site);
	}
}

void pg_sites_tend(struct pg_dns *dns)
{
	pg_automembers struct pg_members members = {};
	struct pg_site *site;

	LIST_FOREACH (site, &dns->sites, link)
		try_open(site);
	if (dns->unserved)
		pg_dns_serve(dns);
	/* Only the namespace of this process: nothing to close. */
	site = LIST_FIRST(&dns->sites);
	if (!site || (site->home && !LIST_NEXT(site, link)))
		return;
	if (!pg_places_collect(dns->environment, 0, &members))
		close_unused(dns, &members);
}
