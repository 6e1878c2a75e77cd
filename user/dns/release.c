/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/nameser.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "resolver_internal.h"

/* The policy is changed by hand or by a harness, not all the time. */
#define JUDGE_MAX 8

/* A forwarder needs a moment to ask for a target whose TTL is 0. */
#define TARGET_MIN_S 10

void pg_resolver_reply(struct pg_resolver *resolver, const struct pg_asking *asking,
		       const struct pg_reply *reply)
{
	size_t limit = NS_PACKETSZ, size;

	if (asking->tcp)
		limit = sizeof(resolver->reply);
	else if (asking->query.edns)
		limit = asking->query.udp_size < PG_RESOLVER_UDP_MAX ? asking->query.udp_size
								     : PG_RESOLVER_UDP_MAX;
	size = pg_reply_write(&asking->query, reply, resolver->reply, limit);
	resolver->hooks.reply(asking->owner, &asking->peer, resolver->reply, size);
}

static void tell(const struct pg_resolver *resolver, const struct pg_asking *asking,
		 enum pg_refusal refusal)
{
	const struct pg_dns_query *query = &asking->query;

	if (resolver->hooks.refused)
		resolver->hooks.refused(resolver->hooks.userdata,
					query->has_text ? query->text : "", refusal);
}

void pg_resolver_refuse(struct pg_resolver *resolver, const struct pg_asking *asking,
			enum pg_decision decision)
{
	struct pg_reply reply = {.ede = PG_EDE_FILTERED};

	switch (decision) {
	case PG_DECISION_FORWARD:
	case PG_DECISION_DENY_NAME:
		resolver->stats.denied++;
		tell(resolver, asking, PG_REFUSAL_NAME);
		reply.rcode = ns_r_refused;
		if (resolver->denial == PG_DENIAL_NXDOMAIN) {
			reply.rcode = ns_r_nxdomain;
			reply.negative_ttl = PG_REPLY_DENIED_TTL_S;
		}
		reply.ede_text = "phasegate: the policy does not allow this name";
		break;
	case PG_DECISION_DENY_TYPE:
		resolver->stats.denied++;
		tell(resolver, asking, PG_REFUSAL_TYPE);
		reply.rcode = ns_r_noerror;
		reply.negative_ttl = PG_REPLY_DENIED_TTL_S;
		reply.ede_text =
			"phasegate: the policy allows this name, but not this type of record";
		break;
	case PG_DECISION_OVER_BUDGET:
		/* Not "no such name": in a minute it may be asked. */
		resolver->stats.overload++;
		tell(resolver, asking, PG_REFUSAL_BUDGET);
		reply.rcode = ns_r_servfail;
		reply.ede_text = "phasegate: too many names a minute under one wildcard";
		break;
	}
	pg_resolver_reply(resolver, asking, &reply);
}

void pg_resolver_fail(struct pg_resolver *resolver, const struct pg_asking *asking,
		      enum pg_failing failing, uint16_t ede, const char *text)
{
	const struct pg_reply reply = {.rcode = ns_r_servfail, .ede = ede, .ede_text = text};

	switch (failing) {
	case PG_FAILING_FAILED:
		resolver->stats.failed++;
		resolver->stats.cached += asking->cached;
		break;
	case PG_FAILING_OVERLOAD:
		resolver->stats.overload++;
		break;
	}
	pg_resolver_reply(resolver, asking, &reply);
}

static uint32_t lowered(uint32_t ttl, uint32_t age)
{
	return ttl > age ? ttl - age : 0;
}

void pg_resolver_answer(struct pg_resolver *resolver, const struct pg_asking *asking,
			const struct pg_answer *answer, uint32_t age)
{
	struct pg_reply reply = {.rcode = answer->rcode, .answer = answer, .age = age};

	if (answer->count == answer->chain)
		reply.negative_ttl = answer->ttl;
	resolver->stats.answered++;
	resolver->stats.cached += asking->cached;
	pg_resolver_reply(resolver, asking, &reply);
}

struct commit {
	const struct pg_resolver_hooks *hooks;
	const char *name;
	uint32_t age;
};

static int commit_address(void *userdata, const struct pg_addr *addr, uint32_t ttl)
{
	const struct commit *commit = userdata;

	return commit->hooks->commit(commit->hooks->userdata, commit->name, addr,
				     lowered(ttl, commit->age));
}

static int commit_under(const struct pg_resolver *resolver, const char *name,
			const struct pg_answer *answer, uint32_t age)
{
	struct commit commit = {.hooks = &resolver->hooks, .name = name, .age = age};

	return pg_answer_addresses(answer, commit_address, &commit);
}

/*
 * Commits under each name that the client may have asked first: this one, and those that led to it.
 * Which of them are in a list is the business of the hook.
 */
static int commit(const struct pg_resolver *resolver, const struct pg_asking *asking,
		  const struct pg_original *originals, size_t count, const struct pg_answer *answer,
		  uint32_t age)
{
	int r = 0;

	if (answer->type != ns_t_a && answer->type != ns_t_aaaa)
		return 0;
	if (asking->own)
		r = commit_under(resolver, asking->query.text, answer, age);
	if (r == 0 && asking->original[0])
		r = commit_under(resolver, asking->original, answer, age);
	for (size_t i = 0; r == 0 && i < count; i++) {
		if (strcmp(originals[i].name, asking->original) != 0)
			r = commit_under(resolver, originals[i].name, answer, age);
	}
	return r;
}

struct noting {
	struct pg_targets *targets;
	const char *original;
	uint32_t age;
	uint64_t now, latest;
};

static int note_target(void *userdata, const struct pg_dns_name *name, uint32_t ttl)
{
	const struct noting *noting = userdata;
	uint64_t seconds = lowered(ttl, noting->age), expires;
	char text[PG_DNS_TEXT];

	/* Nobody can be allowed to ask for a name without text. */
	if (pg_dns_name_to_text(name, text) < 0)
		return 0;
	expires = noting->now + (seconds < TARGET_MIN_S ? TARGET_MIN_S : seconds) * PG_NSEC_PER_SEC;
	pg_targets_add(noting->targets, text, noting->original,
		       expires < noting->latest ? expires : noting->latest, noting->now);
	return 0;
}

void pg_resolver_note_targets(struct pg_resolver *resolver, const char *name,
			      const struct pg_answer *answer, uint32_t age, uint64_t latest)
{
	struct noting noting = {
		.targets = resolver->targets,
		.original = name,
		.age = age,
		.now = pg_boottime_ns(),
		.latest = latest,
	};

	if (answer->chain == 0 || answer->type == ns_t_ptr)
		return;
	/* The sink does not fail, and the answer is one that was read before. */
	(void)!pg_answer_targets(answer, note_target, &noting);
}

/* What has led to this name leads to where its chain goes on, but not for longer. */
static void note_targets(struct pg_resolver *resolver, const struct pg_asking *asking,
			 const struct pg_original *originals, size_t count,
			 const struct pg_answer *answer, uint32_t age)
{
	if (asking->own)
		pg_resolver_note_targets(resolver, asking->query.text, answer, age, UINT64_MAX);
	for (size_t i = 0; i < count; i++)
		pg_resolver_note_targets(resolver, originals[i].name, answer, age,
					 originals[i].expires);
}

void pg_resolver_release(struct pg_resolver *resolver, struct pg_asking *asking,
			 const struct pg_answer *answer, uint32_t age)
{
	const struct pg_resolver_hooks *hooks = &resolver->hooks;
	struct pg_original originals[PG_TARGETS_ORIGINALS_MAX];
	size_t count =
		pg_targets_find(resolver->targets, asking->query.text, pg_boottime_ns(), originals);

	for (unsigned int tries = 0; tries < JUDGE_MAX; tries++) {
		int r;

		if (hooks->generation(hooks->userdata) != asking->generation) {
			enum pg_decision decision = pg_resolver_judge(resolver, asking);

			if (decision != PG_DECISION_FORWARD) {
				pg_resolver_refuse(resolver, asking, decision);
				return;
			}
		}
		r = commit(resolver, asking, originals, count, answer, age);
		if (r < 0) {
			pg_resolver_fail(resolver, asking, PG_FAILING_FAILED, PG_EDE_OTHER,
					 "phasegate: the addresses could not be stored");
			return;
		}
		if (hooks->generation(hooks->userdata) != asking->generation)
			continue;
		note_targets(resolver, asking, originals, count, answer, age);
		pg_resolver_answer(resolver, asking, answer, age);
		return;
	}
	pg_resolver_fail(resolver, asking, PG_FAILING_FAILED, PG_EDE_NOT_READY,
			 "phasegate: the policy is being changed");
}
