/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/nameser.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/wait.h"
#include "resolver_internal.h"

/* A and AAAA. */
#define QUESTIONS_PER_NAME 2

/* What all loads together may have under way; more would leave clients too little. */
#define IN_FLIGHT_MAX (PG_RESOLVER_IN_FLIGHT_MAX / 8)

/* Names started at once, since those of which the answer is at hand need no waiting. */
#define BATCH 64

static const char no_answer[] = "no answer yet";
static const char no_such_name[] = "there is no such name";
static const char no_address[] = "it has no address";
static const char bad_name[] = "not a name that DNS can have";
static const char too_many[] = "too many questions are under way";
static const char not_learnable[] =
	"its only addresses are ones that DNS may not teach (loopback, link-local and the like)";
static const char not_stored[] = "its addresses could not be stored";

/* What is known of one name. */
struct state {
	const char *failure; /* that may not last; NULL: none */
	unsigned char pending;
	bool learned, refused, not_stored, absent, bad;
};

struct pg_load {
	LIST_ENTRY(pg_load) entry;
	struct pg_resolver *resolver;
	const char *const *names;
	size_t count, next;
	unsigned int upstream, own_upstream;
	unsigned int in_flight; /* questions */
	size_t unanswered;	/* names */
	struct state *states;	/* NULL: nobody waits for them any more */
	void *copies;		/* of names, then */
};

void pg_loads_clear(struct pg_resolver *resolver)
{
	struct pg_load *load;

	while ((load = LIST_FIRST(&resolver->loads))) {
		LIST_REMOVE(load, entry);
		free(load->states);
		free(load->copies);
		free(load);
	}
}

/* Frees a load that is over, if nobody waits for it. */
static void tidy(struct pg_load *load)
{
	if (load->states || load->in_flight > 0 || load->next < load->count)
		return;
	LIST_REMOVE(load, entry);
	free(load->copies);
	free(load);
}

static void answered(struct pg_load *load, struct state *state)
{
	if (state && --state->pending == 0)
		load->unanswered--;
}

struct taking {
	const struct pg_resolver_hooks *hooks;
	const char *name;
	uint32_t age;
	struct state *state;
};

static int take_address(void *userdata, const struct pg_addr *addr, uint32_t ttl)
{
	const struct taking *taking = userdata;
	const struct pg_resolver_hooks *hooks = taking->hooks;
	uint32_t left = ttl > taking->age ? ttl - taking->age : 0;

	if (hooks->commit(hooks->userdata, taking->name, addr, left) < 0)
		taking->state->not_stored = true;
	else if (pg_addr_is_learnable(addr))
		taking->state->learned = true;
	else
		taking->state->refused = true;
	return 0;
}

void pg_load_take(const struct pg_waiter *waiter, const struct pg_dns_name *name,
		  const struct pg_answer *answer, uint32_t age,
		  const struct pg_upstream_failure *failure)
{
	struct pg_load *load = waiter->load;
	struct pg_resolver *resolver = load->resolver;
	struct state unused = {.pending = 0};
	struct state *state = load->states ? &load->states[waiter->load_name] : &unused;
	struct taking taking = {.hooks = &resolver->hooks, .age = age, .state = state};
	char text[PG_DNS_TEXT];

	load->in_flight--;
	taking.name = text;
	if (!answer) {
		state->failure = failure->text;
	} else if (pg_dns_name_to_text(name, text) == 0) {
		state->absent |= answer->rcode == ns_r_nxdomain;
		/* The sink does not fail, and the answer is one that was read before. */
		(void)!pg_answer_addresses(answer, take_address, &taking);
		pg_resolver_note_targets(resolver, text, answer, age, UINT64_MAX);
	}
	answered(load, load->states ? state : NULL);
}

/* Why the name has nothing to connect to, or NULL. */
static const char *judge(const struct state *state)
{
	if (state->not_stored)
		return not_stored;
	if (state->learned)
		return NULL;
	if (state->refused)
		return not_learnable;
	if (state->bad)
		return bad_name;
	/* A server that is out of reach says more than a name without one of the two types. */
	if (state->failure)
		return state->failure;
	if (state->pending > 0)
		return no_answer;
	return state->absent ? no_such_name : no_address;
}

static void fail(const struct pg_waiter *waiter, const struct pg_dns_name *name, const char *reason)
{
	const struct pg_upstream_failure failure = {.text = reason};

	pg_load_take(waiter, name, NULL, 0, &failure);
}

/* Asks one question, or finds the answer at hand. */
static void ask(struct pg_load *load, const char *text, const struct pg_answer_key *key,
		const struct pg_waiter *waiter)
{
	struct pg_resolver *resolver = load->resolver;
	PG_CLEANUP(pg_answer_freep) struct pg_answer *local = NULL;
	const uint64_t hash = pg_answer_key_hash(key, &resolver->key);
	const struct pg_answer *answer;
	uint32_t age = 0;
	int r = pg_local_find(resolver->local, text, key->name, key->type, &local);

	load->in_flight++;
	answer = local ? local : pg_cache_get(resolver->cache, key, hash, pg_boottime_ns(), &age);
	if (r == 0 && answer) {
		pg_load_take(waiter, key->name, answer, age, NULL);
		return;
	}
	if (r == 0)
		r = pg_question_join(resolver, key, hash, waiter);
	if (r == -ENOENT)
		fail(waiter, key->name, "there is no server to ask");
	else if (r < 0)
		fail(waiter, key->name, too_many);
}

/* The name needs no question. */
static void settle(struct pg_load *load, size_t number, bool bad)
{
	if (!load->states)
		return;
	load->states[number].bad = bad;
	load->states[number].learned = !bad;
	load->states[number].pending = 0;
	load->unanswered--;
}

static void start(struct pg_load *load)
{
	static const uint16_t types[QUESTIONS_PER_NAME] = {ns_t_a, ns_t_aaaa};
	const size_t number = load->next++;
	const char *text = load->names[number];
	struct pg_waiter waiter = {.load = load, .load_name = number};
	struct pg_answer_key key = {.upstream = load->upstream};
	struct pg_dns_name name;

	if (pg_dns_name_from_text(text, &name) < 0 || pg_local_is_localhost(text)) {
		settle(load, number, !pg_local_is_localhost(text));
		return;
	}
	if (load->own_upstream && !strchr(text, '.'))
		key.upstream = load->own_upstream;
	key.name = &name;
	for (size_t i = 0; i < QUESTIONS_PER_NAME; i++) {
		key.type = types[i];
		ask(load, text, &key, &waiter);
	}
}

/* Whether there is room for the questions of one more name. */
static bool has_room(const struct pg_resolver *resolver, const struct pg_load *load)
{
	return load->in_flight + QUESTIONS_PER_NAME <= IN_FLIGHT_MAX &&
	       resolver->in_flight + QUESTIONS_PER_NAME <= PG_RESOLVER_IN_FLIGHT_MAX &&
	       resolver->waiting + QUESTIONS_PER_NAME <= PG_RESOLVER_WAITING_MAX;
}

/* Returns whether there is more to do at once. */
static bool pump(struct pg_load *load)
{
	for (unsigned int i = 0; i < BATCH; i++) {
		if (load->next == load->count || !has_room(load->resolver, load))
			return false;
		start(load);
	}
	return load->next < load->count && has_room(load->resolver, load);
}

bool pg_loads_pump(struct pg_resolver *resolver)
{
	struct pg_load *load = LIST_FIRST(&resolver->loads), *next;
	bool more = false;

	for (; load; load = next) {
		next = LIST_NEXT(load, entry);
		more |= pump(load);
		tidy(load);
	}
	return more;
}

/* The caller's names are the caller's only until pg_resolver_load() returns. */
static int copy_names(struct pg_load *load)
{
	const size_t left = load->count - load->next;
	size_t size = left * sizeof(char *);
	const char **names;
	char *text;

	for (size_t i = load->next; i < load->count; i++)
		size += strlen(load->names[i]) + 1;
	names = malloc(size > 0 ? size : 1);
	if (!names)
		return -ENOMEM;
	text = (char *)(names + left);
	for (size_t i = 0; i < left; i++) {
		names[i] = text;
		text = stpcpy(text, load->names[load->next + i]) + 1;
	}
	load->copies = names;
	load->names = names;
	load->count = left;
	load->next = 0;
	return 0;
}

/* The load goes on without anybody who waits for it, or, if told, only ends what is under way. */
static int leave(struct pg_load *load, bool go_on)
{
	int r = 0;

	free(PG_TAKE_PTR(load->states));
	if (!go_on)
		load->next = load->count;
	else if (load->next < load->count)
		r = copy_names(load);
	if (r < 0)
		load->next = load->count;
	tidy(load);
	return r;
}

static int load_new(struct pg_resolver *resolver, const char *const *names, size_t count,
		    struct pg_load **ret_load, struct pg_error *err)
{
	struct pg_load *load;

	/* A number of names is what pg_resolver_load() returns. */
	if (count > INT_MAX)
		return pg_fail(err, -E2BIG, "%zu names are too many to look up", count);
	load = calloc(1, sizeof(*load));
	if (load)
		load->states = calloc(count > 0 ? count : 1, sizeof(*load->states));
	if (!load || !load->states) {
		free(load);
		return pg_fail(err, -ENOMEM, "no memory for the lookups of %zu names", count);
	}
	load->resolver = resolver;
	load->names = names;
	load->count = load->unanswered = count;
	for (size_t i = 0; i < count; i++)
		load->states[i].pending = QUESTIONS_PER_NAME;
	LIST_INSERT_HEAD(&resolver->loads, load, entry);
	*ret_load = load;
	return 0;
}

static int wait_for(struct pg_load *load, int timeout_ms, int interrupt_fd, struct pg_error *err)
{
	const uint64_t deadline = pg_monotonic_ns() + (uint64_t)timeout_ms * PG_NSEC_PER_MSEC;
	struct pg_resolver *resolver = load->resolver;

	pg_resolver_arm(resolver, true);
	while (load->unanswered > 0) {
		uint64_t now = pg_monotonic_ns();
		int r;

		if (now >= deadline)
			break;
		r = pg_wait_readable(resolver->epoll_fd, interrupt_fd,
				     (int)((deadline - now) / PG_NSEC_PER_MSEC) + 1);
		if (r < 0)
			return pg_fail_errno(err, r, "cannot wait for DNS answers");
		if (r == 0)
			continue;
		r = pg_resolver_process(resolver, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int pg_resolver_load(struct pg_resolver *resolver, const char *const *names, size_t count,
		     unsigned int upstream, unsigned int own_upstream, int timeout_ms,
		     int interrupt_fd, pg_resolver_unresolved failed, void *userdata,
		     struct pg_error *err)
{
	struct pg_load *load = NULL;
	int r, unresolved = 0;

	r = load_new(resolver, names, count, &load, err);
	if (r < 0)
		return r;
	load->upstream = upstream;
	load->own_upstream = own_upstream;
	r = wait_for(load, timeout_ms, interrupt_fd, err);
	if (r < 0) {
		(void)!leave(load, false);
		return r;
	}
	for (size_t i = 0; i < count; i++) {
		const char *reason = judge(&load->states[i]);

		if (!reason)
			continue;
		unresolved++;
		if (failed)
			failed(userdata, names[i], reason);
	}
	r = leave(load, true);
	if (r < 0)
		return pg_fail(err, r, "no memory for the names that DNS has no answer for yet");
	return unresolved;
}
