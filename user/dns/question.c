/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "device.h"
#include "resolver_internal.h"

static const struct pg_upstream_failure removed = {.text = "the server is not used any more",
						   .ede = PG_EDE_NETWORK_ERROR};
static const struct pg_upstream_failure endless = {.text = "the CNAME chain is too long",
						   .ede = PG_EDE_OTHER};

static struct pg_questions *bucket_of(struct pg_resolver *resolver, uint64_t hash)
{
	return &resolver->questions[hash % PG_RESOLVER_BUCKETS];
}

static struct pg_question *find(struct pg_resolver *resolver, const struct pg_answer_key *key,
				uint64_t hash)
{
	struct pg_question *question = LIST_FIRST(bucket_of(resolver, hash));

	for (; question; question = LIST_NEXT(question, entry)) {
		if (question->hash == hash && question->key.upstream == key->upstream &&
		    question->key.type == key->type &&
		    pg_dns_name_equal(&question->name, key->name))
			return question;
	}
	return NULL;
}

static void drop_waiter(struct pg_question *question, struct pg_waiter *waiter)
{
	TAILQ_REMOVE(&question->waiters, waiter, entry);
	question->resolver->waiting--;
	free(waiter);
}

static void tell(struct pg_question *question, struct pg_waiter *waiter,
		 const struct pg_upstream_failure *failure)
{
	struct pg_resolver *resolver = question->resolver;

	if (waiter->load)
		pg_load_take(waiter, &question->name, failure ? NULL : question->answer, 0,
			     failure);
	else if (failure)
		pg_resolver_fail(resolver, &waiter->asking, PG_FAILING_FAILED, failure->ede,
				 failure->text);
	else
		pg_resolver_release(resolver, &waiter->asking, question->answer, 0);
}

/* Nothing is lost if a hook asks or cancels something: the question is out of the table, and who
 * waits leaves its list first. */
static void finish(struct pg_question *question, const struct pg_upstream_failure *failure)
{
	struct pg_resolver *resolver = question->resolver;
	struct pg_waiter *waiter;

	LIST_REMOVE(question, entry);
	resolver->in_flight--;
	while ((waiter = TAILQ_FIRST(&question->waiters))) {
		TAILQ_REMOVE(&question->waiters, waiter, entry);
		resolver->waiting--;
		tell(question, waiter, failure);
		free(waiter);
	}
	/* Failures are not kept: the next to ask starts anew. */
	if (question->answer && !failure)
		pg_cache_put(resolver->cache, &question->key, question->hash,
			     PG_TAKE_PTR(question->answer), pg_boottime_ns());
	pg_answer_free(question->answer);
	free(question);
}

static void ask(struct pg_question *question, struct pg_upstream *upstream,
		const struct pg_dns_name *name)
{
	question->target = *name;
	question->query = (struct pg_query){.name = &question->target, .type = question->key.type};
	pg_upstream_ask(upstream, &question->query);
}

static struct pg_question *start(struct pg_resolver *resolver, const struct pg_answer_key *key,
				 uint64_t hash)
{
	struct pg_question *question = calloc(1, sizeof(*question));

	if (!question)
		return NULL;
	question->resolver = resolver;
	question->key = *key;
	question->name = *key->name;
	question->key.name = &question->name;
	question->hash = hash;
	TAILQ_INIT(&question->waiters);
	LIST_INSERT_HEAD(bucket_of(resolver, hash), question, entry);
	resolver->in_flight++;
	return question;
}

int pg_question_join(struct pg_resolver *resolver, const struct pg_answer_key *key, uint64_t hash,
		     const struct pg_waiter *waiter)
{
	struct pg_upstream *upstream = pg_resolver_upstream(resolver, key->upstream);
	struct pg_question *question = find(resolver, key, hash);
	bool is_new = !question;
	struct pg_waiter *copy;

	if (!upstream)
		return -ENOENT;
	if (resolver->waiting >= PG_RESOLVER_WAITING_MAX ||
	    (is_new && resolver->in_flight >= PG_RESOLVER_IN_FLIGHT_MAX))
		return -EBUSY;
	copy = malloc(sizeof(*copy));
	if (copy && is_new)
		question = start(resolver, key, hash);
	if (!copy || !question) {
		free(copy);
		return -ENOMEM;
	}
	*copy = *waiter;
	TAILQ_INSERT_TAIL(&question->waiters, copy, entry);
	resolver->waiting++;
	if (is_new)
		ask(question, upstream, &question->name);
	return 0;
}

static int check_near(void *userdata, const struct pg_addr *addr, uint32_t ttl)
{
	const int *netns_fd = userdata;

	return pg_device_is_near(*netns_fd, addr) ? 0 : -EXDEV;
}

/* See pg_resolver_keep_near(). */
static int check_answer(const struct pg_question *question, const struct pg_addr *server,
			const struct pg_answer *answer)
{
	int netns_fd;

	if (!answer->count)
		return 0;
	netns_fd = pg_resolver_near_netns(question->resolver, question->key.upstream, server);
	if (netns_fd < 0)
		return 0;
	return answer->chain ? -EXDEV : pg_answer_addresses(answer, check_near, &netns_fd);
}

int pg_question_read(void *userdata, struct pg_query *query, const struct pg_addr *server,
		     const uint8_t *message, size_t size)
{
	struct pg_question *question = (struct pg_question *)query;
	PG_CLEANUP(pg_answer_freep) struct pg_answer *answer = NULL;
	int r = pg_answer_read(message, size, query->name, query->type, &answer);

	if (r >= 0)
		r = check_answer(question, server, answer);
	if (r < 0)
		return r;
	if (question->answer)
		return pg_answer_join(&question->answer, answer);
	question->answer = PG_TAKE_PTR(answer);
	return 0;
}

void pg_question_done(void *userdata, struct pg_query *query)
{
	struct pg_question *question = (struct pg_question *)query;
	struct pg_resolver *resolver = userdata;
	const struct pg_answer *answer = question->answer;

	resolver->stats.upstream += query->attempts;
	if (query->failure) {
		finish(question, query->failure);
	} else if (!pg_answer_is_dangling(answer)) {
		finish(question, NULL);
	} else if (question->chases >= PG_ANSWER_CHAIN_MAX) {
		finish(question, &endless);
	} else {
		question->chases++;
		ask(question, query->upstream, &answer->target);
	}
}

static struct pg_question *first_of(struct pg_questions *questions, unsigned int upstream)
{
	struct pg_question *question;

	LIST_FOREACH (question, questions, entry) {
		if (question->key.upstream == upstream)
			return question;
	}
	return NULL;
}

void pg_questions_fail(struct pg_resolver *resolver, unsigned int upstream)
{
	struct pg_question *question;

	for (size_t i = 0; i < PG_RESOLVER_BUCKETS; i++) {
		while ((question = first_of(&resolver->questions[i], upstream)))
			finish(question, &removed);
	}
}

void pg_questions_cancel(struct pg_resolver *resolver, const void *owner)
{
	struct pg_question *question;

	for (size_t i = 0; i < PG_RESOLVER_BUCKETS; i++) {
		LIST_FOREACH (question, &resolver->questions[i], entry) {
			struct pg_waiter *waiter = TAILQ_FIRST(&question->waiters), *next;

			for (; waiter; waiter = next) {
				next = TAILQ_NEXT(waiter, entry);
				if (waiter->load || waiter->asking.owner != owner)
					continue;
				resolver->stats.cancelled++;
				drop_waiter(question, waiter);
			}
		}
	}
}

void pg_questions_clear(struct pg_resolver *resolver)
{
	struct pg_question *question;

	for (size_t i = 0; i < PG_RESOLVER_BUCKETS; i++) {
		while ((question = LIST_FIRST(&resolver->questions[i]))) {
			while (!TAILQ_EMPTY(&question->waiters))
				drop_waiter(question, TAILQ_FIRST(&question->waiters));
			LIST_REMOVE(question, entry);
			pg_answer_free(question->answer);
			free(question);
		}
	}
}
