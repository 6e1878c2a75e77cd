/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/nameser.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "resolver_internal.h"

/* The codes that <arpa/nameser.h> knows end before that one (RFC 6891, 9). */
#define RCODE_BADVERS 16

static void malformed(struct pg_resolver *resolver, const struct pg_asking *asking, uint16_t rcode)
{
	const struct pg_reply reply = {.rcode = rcode};

	resolver->stats.malformed++;
	pg_resolver_reply(resolver, asking, &reply);
}

/* Whether there is a query to judge; else it has ended. */
static bool parse(struct pg_resolver *resolver, struct pg_asking *asking, const uint8_t *message,
		  size_t size)
{
	switch (pg_dns_query_parse(message, size, &asking->query)) {
	case PG_DNS_PARSED_OK:
		return true;
	case PG_DNS_PARSED_DROP:
		resolver->stats.malformed++;
		if (asking->tcp)
			resolver->hooks.reply(asking->owner, &asking->peer, NULL, 0);
		return false;
	case PG_DNS_PARSED_FORMERR:
		malformed(resolver, asking, ns_r_formerr);
		return false;
	case PG_DNS_PARSED_NOTIMP:
		malformed(resolver, asking, ns_r_notimpl);
		return false;
	case PG_DNS_PARSED_BADVERS:
		malformed(resolver, asking, RCODE_BADVERS);
		return false;
	}
	return false;
}

/* Octets of length are below 'A'. */
static struct pg_dns_name lower(const struct pg_dns_name *name)
{
	struct pg_dns_name result = {.size = name->size};

	for (unsigned int i = 0; i < name->size; i++) {
		uint8_t c = name->octets[i];

		result.octets[i] = c >= 'A' && c <= 'Z' ? (uint8_t)(c - 'A' + 'a') : c;
	}
	return result;
}

static void out_of_memory(struct pg_resolver *resolver, const struct pg_asking *asking)
{
	pg_resolver_fail(resolver, asking, PG_FAILING_OVERLOAD, PG_EDE_OTHER,
			 "phasegate: no memory");
}

/* "localhost" is what it is in every phase, and no address is committed for it. Returns whether the
 * query has ended. */
static bool answer_localhost(struct pg_resolver *resolver, struct pg_asking *asking,
			     const struct pg_dns_name *name)
{
	PG_CLEANUP(pg_answer_freep) struct pg_answer *answer = NULL;

	asking->cached = true;
	if (pg_local_find_localhost(asking->query.text, name, asking->query.type, &answer) < 0)
		out_of_memory(resolver, asking);
	else if (answer)
		pg_resolver_answer(resolver, asking, answer, 0);
	else
		asking->cached = false;
	return asking->cached;
}

/* Returns whether the query, which may be asked, has ended. */
static bool answer_local(struct pg_resolver *resolver, struct pg_asking *asking,
			 const struct pg_dns_name *name)
{
	PG_CLEANUP(pg_answer_freep) struct pg_answer *answer = NULL;

	asking->cached = true;
	if (pg_local_find(resolver->local, asking->query.text, name, asking->query.type, &answer) <
	    0)
		out_of_memory(resolver, asking);
	else if (answer)
		pg_resolver_release(resolver, asking, answer, 0);
	else
		asking->cached = false;
	return asking->cached;
}

static void forward(struct pg_resolver *resolver, struct pg_waiter *waiter,
		    const struct pg_answer_key *key)
{
	const uint64_t hash = pg_answer_key_hash(key, &resolver->key);
	const struct pg_answer *answer;
	uint32_t age;
	int r;

	answer = pg_cache_get(resolver->cache, key, hash, pg_boottime_ns(), &age);
	if (answer) {
		waiter->asking.cached = true;
		pg_resolver_release(resolver, &waiter->asking, answer, age);
		return;
	}
	r = pg_question_join(resolver, key, hash, waiter);
	if (r == 0)
		pg_resolver_arm(resolver, false);
	else if (r == -ENOENT)
		pg_resolver_fail(resolver, &waiter->asking, PG_FAILING_FAILED, PG_EDE_NOT_READY,
				 "phasegate: there is no server to ask");
	else
		pg_resolver_fail(resolver, &waiter->asking, PG_FAILING_OVERLOAD, PG_EDE_OTHER,
				 "phasegate: too many questions at once");
}

void pg_resolver_ask(struct pg_resolver *resolver, const struct pg_resolver_client *client,
		     const uint8_t *message, size_t size)
{
	struct pg_waiter waiter = {
		.asking = {.owner = client->owner, .peer = client->peer, .tcp = client->tcp},
	};
	struct pg_asking *asking = &waiter.asking;
	const struct pg_dns_query *query = &asking->query;
	struct pg_answer_key key = {.upstream = client->upstream};
	enum pg_decision decision;
	struct pg_dns_name name;

	resolver->stats.queries++;
	if (!parse(resolver, asking, message, size))
		return;
	if (pg_resolver_is_meta_type(query->type)) {
		const struct pg_reply reply = {.rcode = ns_r_refused};

		resolver->stats.denied++;
		pg_resolver_reply(resolver, asking, &reply);
		return;
	}
	if (query->class != ns_c_in || !query->has_text) {
		pg_resolver_refuse(resolver, asking, PG_DECISION_DENY_NAME);
		return;
	}
	name = lower(&query->name);
	if (answer_localhost(resolver, asking, &name))
		return;
	decision = pg_resolver_judge(resolver, asking);
	if (decision != PG_DECISION_FORWARD) {
		pg_resolver_refuse(resolver, asking, decision);
		return;
	}
	if (answer_local(resolver, asking, &name))
		return;
	if (client->own_upstream && query->text[0] && !strchr(query->text, '.'))
		key.upstream = client->own_upstream;
	key.type = query->type;
	key.name = &name;
	forward(resolver, &waiter, &key);
}
