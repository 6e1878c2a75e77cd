/* SPDX-License-Identifier: Apache-2.0 */
#include "names.h"

#include <arpa/nameser.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "answer.h"
#include "base/clock.h"
#include "base/wait.h"
#include "names_private.h"
#include "schedule.h"
#include "upstream.h"

/* A and AAAA. */
#define QUERIES_PER_NAME 2
#define LOOKUPS		 (PG_NAMES_IN_FLIGHT / QUERIES_PER_NAME)

/* Events handled by one pg_names_process(); the rest keeps the descriptor readable. */
#define EVENTS_MAX 64

/* Event data of the timer; never a socket's. */
#define TIMER_EVENT 0

static const char waiting[] = "no answer yet";
static const char no_address[] = "it has no address";
static const char not_learnable[] =
	"its only addresses are ones that DNS may not teach (loopback, link-local and the like)";
static const char not_stored[] = "its addresses could not be stored";

/* A name being asked for. The query comes first: the answers' callback gets only that. */
struct lookup {
	struct pg_query queries[QUERIES_PER_NAME];
	bool busy;
	bool failed_to_store;
	size_t name;
	size_t learned, refused; /* addresses */
	uint32_t ttl;		 /* smallest of those learned */
};

struct pg_names {
	const char *const *names;
	size_t count;
	const char **failures; /* per name; NULL: it has an address */
	size_t failed;	       /* how many of them are not NULL */
	size_t unanswered;     /* how many of them are still waiting for their first answer */
	pg_names_learned learned;
	void *userdata;
	struct pg_names_tuning tuning;
	int epoll_fd, timer_fd;
	struct pg_upstream *upstream;
	struct pg_schedule schedule;
	size_t busy;
	struct lookup lookups[LOOKUPS];
};

/* What take_address() needs to know. */
struct taking {
	struct pg_names *names;
	struct lookup *lookup;
};

static int take_address(void *userdata, const struct pg_addr *addr, uint32_t ttl)
{
	struct taking *taking = userdata;
	struct lookup *lookup = taking->lookup;
	struct pg_names *names = taking->names;

	if (ttl > PG_NAMES_TTL_MAX_S)
		ttl = PG_NAMES_TTL_MAX_S;
	if (!pg_addr_is_learnable(addr)) {
		lookup->refused++;
		return 0;
	}
	if (names->learned(names->userdata, lookup->name, addr, ttl) < 0) {
		lookup->failed_to_store = true;
		return 0;
	}
	lookup->learned++;
	if (ttl < lookup->ttl)
		lookup->ttl = ttl;
	return 0;
}

static struct lookup *lookup_of(struct pg_names *names, const struct pg_query *query)
{
	size_t offset = (size_t)((const char *)query - (const char *)names->lookups);

	return &names->lookups[offset / sizeof(names->lookups[0])];
}

static int on_answer(void *userdata, struct pg_query *query, const uint8_t *message, size_t size)
{
	struct pg_names *names = userdata;
	struct taking taking = {.names = names, .lookup = lookup_of(names, query)};

	return pg_answer_addresses(message, size, query->name, query->type, take_address, &taking);
}

static void set_failure(struct pg_names *names, size_t name, const char *failure)
{
	if (names->failures[name] == waiting)
		names->unanswered--;
	names->failed -= names->failures[name] != NULL;
	names->failed += failure != NULL;
	names->failures[name] = failure;
}

/* Why the lookup brought nothing to connect to, or NULL. */
static const char *judge(const struct lookup *lookup)
{
	if (lookup->failed_to_store)
		return not_stored;
	if (lookup->learned > 0)
		return NULL;
	if (lookup->refused > 0)
		return not_learnable;
	/* A server that is out of reach says more than a name without one of the two types. */
	for (size_t i = 0; i < QUERIES_PER_NAME; i++) {
		if (lookup->queries[i].failure && !lookup->queries[i].lasting)
			return lookup->queries[i].failure;
	}
	for (size_t i = 0; i < QUERIES_PER_NAME; i++) {
		if (lookup->queries[i].failure)
			return lookup->queries[i].failure;
	}
	return no_address;
}

/* Whether a type has no answer, though another attempt may bring one. */
static bool is_partial(const struct lookup *lookup)
{
	for (size_t i = 0; i < QUERIES_PER_NAME; i++) {
		if (lookup->queries[i].failure && !lookup->queries[i].lasting)
			return true;
	}
	return false;
}

static void finish(struct pg_names *names, struct lookup *lookup)
{
	const char *failure = judge(lookup);
	uint64_t wait_ms = names->tuning.retry_ms;

	set_failure(names, lookup->name, failure);
	if (!failure) {
		uint64_t ttl_ms = (uint64_t)lookup->ttl * 1000;

		if (ttl_ms < names->tuning.ttl_floor_ms)
			ttl_ms = names->tuning.ttl_floor_ms;
		if (!is_partial(lookup) || ttl_ms < wait_ms)
			wait_ms = ttl_ms;
	}
	pg_schedule_add(&names->schedule, lookup->name,
			pg_boottime_ns() + wait_ms * PG_NSEC_PER_MSEC);
	lookup->busy = false;
	names->busy--;
}

static void start(struct pg_names *names, struct lookup *lookup)
{
	static const uint16_t types[QUERIES_PER_NAME] = {ns_t_a, ns_t_aaaa};
	size_t name = pg_schedule_take(&names->schedule);

	*lookup = (struct lookup){.busy = true, .name = name, .ttl = UINT32_MAX};
	names->busy++;
	for (size_t i = 0; i < QUERIES_PER_NAME; i++) {
		lookup->queries[i] =
			(struct pg_query){.name = names->names[name], .type = types[i]};
		pg_upstream_ask(names->upstream, &lookup->queries[i]);
	}
}

/* Makes the next attempts; returns whether all queries of the lookup are done. */
static bool advance(struct pg_names *names, struct lookup *lookup)
{
	bool done = true;

	for (size_t i = 0; i < QUERIES_PER_NAME; i++) {
		struct pg_query *query = &lookup->queries[i];

		/* An attempt may fail at once; how often is bounded. */
		while (query->state == PG_QUERY_AGAIN)
			pg_upstream_ask(names->upstream, query);
		done &= query->state == PG_QUERY_DONE;
	}
	return done;
}

/*
 * Ends what is done and starts what is due, at most one name per lookup, so that a fault that ends
 * each query at once cannot keep the caller here. Returns whether there is more to do now.
 */
static bool pump(struct pg_names *names)
{
	bool more = false;

	for (size_t i = 0; i < LOOKUPS; i++) {
		struct lookup *lookup = &names->lookups[i];

		if (lookup->busy && advance(names, lookup))
			finish(names, lookup);
		if (!lookup->busy && pg_schedule_next(&names->schedule) <= pg_boottime_ns()) {
			start(names, lookup);
			more |= advance(names, lookup);
		}
	}
	return more;
}

/* Sets the timer to the next time-out or due name, or to now. */
static int arm(struct pg_names *names, bool now, struct pg_error *err)
{
	uint64_t wait = now ? 1 : pg_upstream_next(names->upstream);
	struct itimerspec timer = {0};

	if (names->busy < LOOKUPS) {
		uint64_t due = pg_schedule_next(&names->schedule), time = pg_boottime_ns();

		if (due <= time)
			wait = 1;
		else if (due - time < wait)
			wait = due - time;
	}
	/* Zero disarms: there is nothing to wait for. */
	if (wait != UINT64_MAX) {
		timer.it_value.tv_sec = (time_t)(wait / PG_NSEC_PER_SEC);
		timer.it_value.tv_nsec = (long)(wait % PG_NSEC_PER_SEC);
	}
	if (timerfd_settime(names->timer_fd, 0, &timer, NULL) < 0)
		return pg_fail_errno(err, -errno, "cannot set the timer of DNS lookups");
	return 0;
}

static int open_descriptors(struct pg_names *names, struct pg_error *err)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = TIMER_EVENT};

	names->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	/* Counts while the machine sleeps, as TTLs do. */
	names->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (names->epoll_fd < 0 || names->timer_fd < 0)
		return pg_fail_errno(err, -errno, "cannot open descriptors for DNS lookups");
	if (epoll_ctl(names->epoll_fd, EPOLL_CTL_ADD, names->timer_fd, &event) < 0)
		return pg_fail_errno(err, -errno, "cannot watch the timer of DNS lookups");
	return 0;
}

static int allocate(const char *const *texts, size_t count, struct pg_names **ret_names)
{
	PG_CLEANUP(pg_names_freep) struct pg_names *names = calloc(1, sizeof(*names));

	if (!names)
		return -ENOMEM;
	names->epoll_fd = -1;
	names->timer_fd = -1;
	names->names = texts;
	names->count = count;
	names->failures = calloc(count ? count : 1, sizeof(names->failures[0]));
	if (!names->failures || pg_schedule_init(&names->schedule, count) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		names->failures[i] = waiting;
		pg_schedule_add(&names->schedule, i, 0);
	}
	names->failed = count;
	names->unanswered = count;
	*ret_names = PG_TAKE_PTR(names);
	return 0;
}

int pg_names_new_tuned(const struct pg_names_tuning *tuning, const struct pg_endpoint *servers,
		       size_t server_count, const char *const *names, size_t name_count,
		       pg_names_learned learned, void *userdata, struct pg_names **ret_names,
		       struct pg_error *err)
{
	PG_CLEANUP(pg_names_freep) struct pg_names *fresh = NULL;
	int r;

	/* pg_names_load() returns a number of names. */
	if (name_count > INT_MAX)
		return pg_fail(err, -E2BIG, "%zu names are too many to look up", name_count);
	if (allocate(names, name_count, &fresh) < 0)
		return pg_fail(err, -ENOMEM, "no memory for the lookups of %zu names", name_count);
	fresh->tuning = *tuning;
	fresh->learned = learned;
	fresh->userdata = userdata;
	r = open_descriptors(fresh, err);
	if (r < 0)
		return r;
	r = pg_upstream_new(servers, server_count, fresh->epoll_fd, tuning->attempt_ms, on_answer,
			    fresh, &fresh->upstream, err);
	if (r < 0)
		return r;
	r = arm(fresh, false, err);
	if (r < 0)
		return r;
	*ret_names = PG_TAKE_PTR(fresh);
	return 0;
}

int pg_names_new(const struct pg_endpoint *servers, size_t server_count, const char *const *names,
		 size_t name_count, pg_names_learned learned, void *userdata,
		 struct pg_names **ret_names, struct pg_error *err)
{
	static const struct pg_names_tuning tuning = {
		.ttl_floor_ms = PG_NAMES_TTL_FLOOR_S * 1000UL,
		.retry_ms = PG_NAMES_RETRY_S * 1000UL,
		.attempt_ms = PG_UPSTREAM_ATTEMPT_MS,
	};

	return pg_names_new_tuned(&tuning, servers, server_count, names, name_count, learned,
				  userdata, ret_names, err);
}

void pg_names_free(struct pg_names *names)
{
	if (!names)
		return;
	/* Closes sockets, and takes them out of the epoll set. */
	pg_upstream_free(names->upstream);
	pg_close_fd(&names->timer_fd);
	pg_close_fd(&names->epoll_fd);
	pg_schedule_clear(&names->schedule);
	free(names->failures);
	free(names);
}

int pg_names_load(struct pg_names *names, int timeout_ms, int interrupt_fd, struct pg_error *err)
{
	uint64_t deadline = pg_monotonic_ns() + (uint64_t)timeout_ms * PG_NSEC_PER_MSEC;

	while (names->unanswered > 0) {
		uint64_t now = pg_monotonic_ns();
		int r;

		if (now >= deadline)
			break;
		r = pg_wait_readable(names->epoll_fd, interrupt_fd,
				     (int)((deadline - now) / PG_NSEC_PER_MSEC) + 1);
		if (r < 0)
			return pg_fail_errno(err, r, "cannot wait for DNS answers");
		if (r == 0)
			continue;
		r = pg_names_process(names, err);
		if (r < 0)
			return r;
	}
	return (int)names->failed;
}

const char *pg_names_failure(const struct pg_names *names, size_t name)
{
	return names->failures[name];
}

int pg_names_fd(const struct pg_names *names)
{
	return names->epoll_fd;
}

int pg_names_process(struct pg_names *names, struct pg_error *err)
{
	struct epoll_event events[EVENTS_MAX];
	uint64_t expirations;
	bool more;
	int count, r;

	count = epoll_wait(names->epoll_fd, events, EVENTS_MAX, 0);
	if (count < 0 && errno != EINTR)
		return pg_fail_errno(err, -errno, "cannot read the events of DNS lookups");
	for (int i = 0; i < count; i++) {
		if (events[i].data.u64 != TIMER_EVENT)
			pg_upstream_event(names->upstream, events[i].data.u64, events[i].events);
		else if (read(names->timer_fd, &expirations, sizeof(expirations)) < 0 &&
			 errno != EAGAIN)
			return pg_fail_errno(err, -errno, "cannot read the timer of DNS lookups");
	}
	pg_upstream_time_out(names->upstream);
	more = pump(names);
	r = arm(names, more, err);
	if (r < 0)
		return r;
	r = pg_upstream_take_fault(names->upstream);
	if (r < 0)
		return pg_fail_errno(err, r, "cannot watch the sockets of DNS lookups");
	return 0;
}
