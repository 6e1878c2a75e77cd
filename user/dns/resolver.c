/* SPDX-License-Identifier: Apache-2.0 */
#include "resolver.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "device.h"
#include "resolver_internal.h"

/* Events handled by one pg_resolver_process(); the rest keeps the descriptor readable. */
#define EVENTS_MAX 64

/* Event data carries the upstream's number in its upper 16 bits; this is no number of one. */
#define TIMER_EVENT  0
#define UPSTREAM_MAX 0xffffU
#define EVENT_SHIFT  48

static int open_descriptors(struct pg_resolver *resolver, struct pg_error *err)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = TIMER_EVENT};

	resolver->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (resolver->epoll_fd < 0)
		return pg_fail_errno(err, -errno, "epoll_create1 for DNS");
	resolver->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (resolver->timer_fd < 0)
		return pg_fail_errno(err, -errno, "timerfd_create for DNS");
	if (epoll_ctl(resolver->epoll_fd, EPOLL_CTL_ADD, resolver->timer_fd, &event) < 0)
		return pg_fail_errno(err, -errno, "cannot watch the timer of DNS");
	return 0;
}

int pg_resolver_new_tuned(const struct pg_resolver_hooks *hooks, enum pg_denial denial,
			  unsigned int attempt_ms, struct pg_resolver **ret_resolver,
			  struct pg_error *err)
{
	PG_CLEANUP(pg_resolver_freep) struct pg_resolver *resolver = calloc(1, sizeof(*resolver));
	int r;

	if (!resolver)
		return pg_fail(err, -ENOMEM, "no memory for the resolver");
	resolver->hooks = *hooks;
	resolver->denial = denial;
	resolver->attempt_ms = attempt_ms;
	resolver->epoll_fd = resolver->timer_fd = -1;
	pg_hash_key_make(&resolver->key);
	resolver->cache = pg_cache_new(PG_RESOLVER_CACHE_MAX);
	resolver->targets = pg_targets_new(PG_RESOLVER_TARGETS_MAX, &resolver->key);
	resolver->local = pg_local_new(&resolver->key);
	if (!resolver->cache || !resolver->targets || !resolver->local)
		return pg_fail(err, -ENOMEM, "no memory for the resolver's tables");
	r = open_descriptors(resolver, err);
	if (r < 0)
		return r;
	*ret_resolver = PG_TAKE_PTR(resolver);
	return 0;
}

int pg_resolver_new(const struct pg_resolver_hooks *hooks, enum pg_denial denial,
		    struct pg_resolver **ret_resolver, struct pg_error *err)
{
	return pg_resolver_new_tuned(hooks, denial, PG_UPSTREAM_ATTEMPT_MS, ret_resolver, err);
}

static void free_upstream(struct pg_resolver_upstream *upstream)
{
	LIST_REMOVE(upstream, entry);
	pg_upstream_free(upstream->upstream);
	free(upstream);
}

void pg_resolver_free(struct pg_resolver *resolver)
{
	if (!resolver)
		return;
	while (!LIST_EMPTY(&resolver->upstreams))
		free_upstream(LIST_FIRST(&resolver->upstreams));
	pg_questions_clear(resolver);
	pg_loads_clear(resolver);
	pg_cache_free(resolver->cache);
	pg_targets_free(resolver->targets);
	pg_local_free(resolver->local);
	pg_close_fd(&resolver->timer_fd);
	pg_close_fd(&resolver->epoll_fd);
	free(resolver);
}

static struct pg_resolver_upstream *find(const struct pg_resolver *resolver, unsigned int id)
{
	struct pg_resolver_upstream *upstream;

	LIST_FOREACH (upstream, &resolver->upstreams, entry) {
		if (upstream->id == id)
			return upstream;
	}
	return NULL;
}

struct pg_upstream *pg_resolver_upstream(const struct pg_resolver *resolver, unsigned int id)
{
	const struct pg_resolver_upstream *upstream = find(resolver, id);

	return upstream ? upstream->upstream : NULL;
}

int pg_resolver_near_netns(const struct pg_resolver *resolver, unsigned int id,
			   const struct pg_addr *server)
{
	const struct pg_resolver_upstream *upstream = find(resolver, id);

	if (!upstream || upstream->near_netns_fd < 0)
		return -1;
	for (size_t i = 0; i < upstream->told_count; i++)
		if (pg_addr_compare(&upstream->told[i].addr, server) == 0 &&
		    !pg_device_may_be_inside(upstream->near_netns_fd, server))
			return -1;
	return upstream->near_netns_fd;
}

static int prepare_socket(void *userdata, int fd, struct pg_error *err)
{
	const struct pg_resolver *resolver = userdata;

	return resolver->hooks.prepare_socket(resolver->hooks.userdata, fd, err);
}

int pg_resolver_add_upstream(struct pg_resolver *resolver, const struct pg_endpoint *servers,
			     size_t count, int netns_fd, unsigned int *ret_upstream,
			     struct pg_error *err)
{
	pg_autofree struct pg_resolver_upstream *upstream = NULL;
	struct pg_upstream_options options = {
		.servers = servers,
		.count = count,
		.netns_fd = netns_fd,
		.epoll_fd = resolver->epoll_fd,
		.attempt_ms = resolver->attempt_ms,
		.prepare_socket = resolver->hooks.prepare_socket ? prepare_socket : NULL,
		.read = pg_question_read,
		.done = pg_question_done,
		.userdata = resolver,
	};
	int r;

	/* Numbers are not used again: the cache knows answers by them. */
	if (resolver->last_upstream == UPSTREAM_MAX)
		return pg_fail(err, -ENOSPC, "sets of DNS servers were changed %u times",
			       UPSTREAM_MAX);
	upstream = malloc(sizeof(*upstream));
	if (!upstream)
		return pg_fail(err, -ENOMEM, "no memory for %zu DNS servers", count);
	upstream->id = resolver->last_upstream + 1;
	upstream->near_netns_fd = -1;
	options.tag = (uint16_t)upstream->id;
	r = pg_upstream_new(&options, &upstream->upstream, err);
	if (r < 0)
		return r;
	*ret_upstream = resolver->last_upstream = upstream->id;
	LIST_INSERT_HEAD(&resolver->upstreams, upstream, entry);
	upstream = NULL;
	return 0;
}

void pg_resolver_keep_near(struct pg_resolver *resolver, unsigned int upstream, int netns_fd,
			   const struct pg_endpoint *told, size_t told_count)
{
	struct pg_resolver_upstream *found = find(resolver, upstream);

	if (!found)
		return;
	found->near_netns_fd = netns_fd;
	found->told = told;
	found->told_count = told_count;
}

void pg_resolver_remove_upstream(struct pg_resolver *resolver, unsigned int upstream)
{
	struct pg_resolver_upstream *found = find(resolver, upstream);

	if (!found)
		return;
	free_upstream(found);
	pg_questions_fail(resolver, upstream);
}

int pg_resolver_add_local(struct pg_resolver *resolver, const char *name,
			  const struct pg_addr *addr, struct pg_error *err)
{
	int r = pg_local_add(resolver->local, name, addr);

	if (r == -EINVAL)
		return pg_fail(err, r, "'%s' is not a name that DNS can have", name);
	if (r < 0)
		return pg_fail(err, r, "no memory for the address of '%s'", name);
	return 0;
}

void pg_resolver_cancel(struct pg_resolver *resolver, const void *owner)
{
	pg_questions_cancel(resolver, owner);
}

int pg_resolver_fd(const struct pg_resolver *resolver)
{
	return resolver->epoll_fd;
}

const struct pg_resolver_stats *pg_resolver_stats(const struct pg_resolver *resolver)
{
	return &resolver->stats;
}

static uint64_t next_time_out(const struct pg_resolver *resolver, uint64_t now)
{
	const struct pg_resolver_upstream *upstream;
	uint64_t next = UINT64_MAX;

	LIST_FOREACH (upstream, &resolver->upstreams, entry) {
		uint64_t own = pg_upstream_next(upstream->upstream, now);

		if (own < next)
			next = own;
	}
	return next;
}

void pg_resolver_arm(struct pg_resolver *resolver, bool more)
{
	uint64_t now, next;
	struct itimerspec timer;

	/* What is asked later times out later: mostly there is nothing to do. */
	if (resolver->armed != 0 && !more)
		return;
	now = pg_boottime_ns();
	next = more ? now : next_time_out(resolver, now);
	if (next == UINT64_MAX)
		return;
	timer = (struct itimerspec){
		.it_value.tv_sec = (time_t)(next / PG_NSEC_PER_SEC),
		.it_value.tv_nsec = (long)(next % PG_NSEC_PER_SEC),
	};
	if (timerfd_settime(resolver->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL) < 0)
		resolver->fault = -errno;
	resolver->armed = next;
}

static void time_out(struct pg_resolver *resolver)
{
	struct pg_resolver_upstream *upstream;
	const uint64_t now = pg_boottime_ns();
	uint64_t expirations;

	/* -EAGAIN: it was set anew since. */
	if (read(resolver->timer_fd, &expirations, sizeof(expirations)) < 0 && errno != EAGAIN)
		resolver->fault = -errno;
	resolver->armed = 0;
	LIST_FOREACH (upstream, &resolver->upstreams, entry)
		pg_upstream_time_out(upstream->upstream, now);
}

int pg_resolver_process(struct pg_resolver *resolver, struct pg_error *err)
{
	struct epoll_event events[EVENTS_MAX];
	int count = epoll_wait(resolver->epoll_fd, events, EVENTS_MAX, 0), r;

	if (count < 0 && errno != EINTR)
		return pg_fail_errno(err, -errno, "cannot read the events of DNS");
	for (int i = 0; i < count; i++) {
		struct pg_upstream *upstream;

		if (events[i].data.u64 == TIMER_EVENT) {
			time_out(resolver);
			continue;
		}
		upstream = pg_resolver_upstream(resolver,
						(unsigned int)(events[i].data.u64 >> EVENT_SHIFT));
		if (upstream)
			pg_upstream_event(upstream, events[i].data.u64, events[i].events);
	}
	pg_resolver_arm(resolver, pg_loads_pump(resolver));
	r = PG_TAKE(resolver->fault, 0);
	if (r < 0)
		return pg_fail_errno(err, r, "cannot set the timer of DNS");
	return 0;
}
