// SPDX-License-Identifier: Apache-2.0
/* Random policies and facts in a universe so small that most rules are hit all the time. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "lab.h"
#include "random.h"

#define CASES	    200000
#define WORLD_CASES (8 * JUDGE_BATCH)

static const char *const universe4[] = {
	"10.0.0.0", "10.0.0.1",	 "10.0.0.2",	    "10.0.0.3", "10.0.1.1",
	"10.8.0.1", "127.0.0.1", "169.254.169.254", "0.0.0.0",	"255.255.255.255",
};
static const char *const universe6[] = {
	"2001:db8::",	   "2001:db8::1", "2001:db8::2", "2001:db8::3",	      "2001:db8:0:1::1",
	"::ffff:10.0.0.1", "::10.0.0.1",  "::1",	 "::ffff:10.0.0.200", "::",
	"fe80::1",	   "ff02::1",
};
static const unsigned int lengths4[] = {0, 8, 24, 29, 30, 31, 32};
static const unsigned int lengths6[] = {0, 1, 32, 64, 96, 125, 126, 127, 128};
static const unsigned int modes[] = {PG_MODE_NO_NETWORK, PG_MODE_ALLOWLIST, PG_MODE_ALLOWLIST,
				     PG_MODE_ALLOWLIST,	 PG_MODE_ALLOWLIST, PG_MODE_PUBLIC};
static const uint8_t protocols[] = {6, 6, 17, 17, 17, 136, 132, 1, 58, 4, 41, 47, 50, 255, 0};
static const uint16_t ports[] = {53, 53, 80, 443, 0, 65535};

static struct model_address any_address(struct rng *rng)
{
	return lab_parse(rng_one_in(rng, 2) ? RNG_PICK(rng, universe4) : RNG_PICK(rng, universe6));
}

static void fill_table(struct rng *rng, enum pg_table kind, struct model_table *table)
{
	const bool v4 = kind == PG_TABLE_V4;

	table->count = rng_below(rng, MODEL_LIST_MAX + 1);
	for (size_t i = 0; i < table->count; i++) {
		struct model_prefix *prefix = &table->list[i];

		prefix->address =
			lab_parse(v4 ? RNG_PICK(rng, universe4) : RNG_PICK(rng, universe6));
		prefix->length = v4 ? 32 : 128;
		if (rng_one_in(rng, 2))
			prefix->length = v4 ? RNG_PICK(rng, lengths4) : RNG_PICK(rng, lengths6);
		/* What covers everything hides the rest. */
		if (prefix->length < 8 && !rng_one_in(rng, 4))
			prefix->length = v4 ? 30 : 126;
	}
}

/* A learned address is of one family; the last mention of an address counts, so there is one. */
static void fill_learned(struct rng *rng, struct model_learned *learned)
{
	const size_t first = rng_below(rng, 4);

	learned->count = rng_below(rng, 6);
	for (size_t i = 0; i < learned->count; i++) {
		learned->list[i] = lab_parse(i % 2 ? universe4[first + i] : universe6[first + i]);
		learned->expired[i] = rng_one_in(rng, 2);
	}
}

static void fill_world(struct rng *rng, struct lab *lab)
{
	for (size_t i = 0; i < LAB_SETS; i++)
		for (size_t j = 0; j < PG_TABLE_COUNT; j++)
			fill_table(rng, (enum pg_table)j, &lab->sets[i].tables[j]);
	for (size_t i = 0; i < LAB_LEARNED; i++)
		fill_learned(rng, &lab->learned[i]);
	lab->host.count = rng_below(rng, 4);
	for (size_t i = 0; i < lab->host.count; i++)
		lab->host.list[i] = any_address(rng);
	lab->host.port_count = rng_below(rng, 3);
	for (size_t i = 0; i < lab->host.port_count; i++)
		lab->host.ports[i] = RNG_PICK(rng, ports);
	lab_fill(lab);
}

/* Mostly a whole one. */
static const struct model_set *any_set(struct rng *rng, struct lab *lab)
{
	return &lab->sets[rng_below(rng, rng_one_in(rng, 8) ? LAB_SETS : LAB_WHOLE_SETS)];
}

static struct model_phase any_phase(struct rng *rng, struct lab *lab)
{
	struct model_phase phase = {
		.mode = rng_one_in(rng, 50) ? rng_below(rng, 256) : RNG_PICK(rng, modes),
		.set = any_set(rng, lab),
		.dns_redirect = rng_one_in(rng, 4),
	};

	for (size_t j = 0; j < PG_TABLE_COUNT; j++)
		phase.named[j] = !rng_one_in(rng, 4);
	if (rng_one_in(rng, 2))
		phase.learned =
			&lab->learned[rng_below(rng, rng_one_in(rng, 8) ? LAB_LEARNED
									: LAB_WHOLE_LEARNED)];
	return phase;
}

static struct model_policy any_policy(struct rng *rng, struct lab *lab)
{
	struct model_policy policy = {
		.installed = !rng_one_in(rng, 50),
		.phase = rng_one_in(rng, 50) ? 3 + rng_below(rng, 12) : rng_below(rng, 3),
		.bank = rng_one_in(rng, 50) ? 2 + rng_below(rng, 14) : rng_below(rng, 2),
		.none_in_force = rng_one_in(rng, 50),
		.generation = rng_next(rng) >> 8,
		.check_source = rng_one_in(rng, 3),
	};

	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		policy.phases[i] = any_phase(rng, lab);
		policy.idle[i] = any_phase(rng, lab);
	}
	policy.host = rng_one_in(rng, 3) ? &lab->host : NULL;
	policy.ceiling = any_set(rng, lab);
	if (rng_one_in(rng, 4))
		for (size_t j = 0; j < PG_TABLE_COUNT; j++)
			policy.ceiling_named[j] = rng_one_in(rng, 2);
	return policy;
}

static struct model_facts any_facts(struct rng *rng)
{
	const unsigned int rare = 4 + rng_below(rng, 12);
	struct model_facts facts = {
		.packet = !rng_one_in(rng, 3),
		.own_source = !rng_one_in(rng, 3),
		.kernel_nd = rng_one_in(rng, 4 * rare),
		.listener = rng_one_in(rng, 2 * rare),
		.hidden = rng_one_in(rng, 2 * rare),
		.accepted = rng_one_in(rng, rare),
		.inbound = rng_one_in(rng, rare),
		.reset = rng_one_in(rng, rare),
		.loopback = rng_one_in(rng, rare),
		.member = rng_one_in(rng, rare),
		.established = rng_one_in(rng, 2),
		.remote = any_address(rng),
		.remote_port = RNG_PICK(rng, ports),
		.protocol = rng_one_in(rng, 8) ? (uint8_t)rng_next(rng) : RNG_PICK(rng, protocols),
	};

	facts.on_lo = facts.packet && rng_one_in(rng, 3);
	facts.ipv6_header = facts.packet && facts.remote.family == 6;
	if (facts.packet && rng_one_in(rng, rare))
		facts.defect = (enum model_defect)(1 + rng_below(rng, 4));
	return facts;
}

static void compare(struct check *check, const struct judge_case *got,
		    const struct model_policy *policy, const struct model_facts *facts,
		    unsigned long number, unsigned long *hits)
{
	const enum pg_reason expected = model_judge(policy, facts);

	hits[expected]++;
	CHECK(check, got->reason == expected,
	      "case %lu: %s instead of %s (phase %u, bank %u, mode %u, bits %#x, defect %u, "
	      "protocol %u, "
	      "port "
	      "%u)",
	      number, lab_reason_name(got->reason), lab_reason_name(expected), policy->phase,
	      policy->bank, policy->phase < PG_PHASE_COUNT ? policy->phases[policy->phase].mode : 0,
	      got->facts.bits, got->facts.defect, facts->protocol, facts->remote_port);
}

static void judge_batch(struct check *check, struct rng *rng, struct lab *lab, unsigned long first,
			unsigned long *hits)
{
	static struct model_policy policies[JUDGE_BATCH];
	static struct model_facts facts[JUDGE_BATCH];

	for (unsigned int i = 0; i < JUDGE_BATCH; i++) {
		policies[i] = any_policy(rng, lab);
		facts[i] = any_facts(rng);
		lab->cases[i] = (struct judge_case){
			.facts = lab_facts(&facts[i]),
			.reason = UINT32_MAX,
		};
		lab_describe(lab, &policies[i], &lab->cases[i]);
	}
	lab_decide(lab, JUDGE_BATCH);
	for (unsigned int i = 0; i < JUDGE_BATCH; i++)
		compare(check, &lab->cases[i], &policies[i], &facts[i], first + i, hits);
}

int main(void)
{
	const unsigned long cases = lab_case_count(CASES);
	unsigned long hits[PG_REASON_COUNT] = {};
	struct check check = {};
	struct lab lab;
	struct rng rng;

	lab_open(&lab);
	rng.state = lab_seed();
	for (unsigned long done = 0; done < cases; done += JUDGE_BATCH) {
		if (done % WORLD_CASES == 0)
			fill_world(&rng, &lab);
		judge_batch(&check, &rng, &lab, done, hits);
	}
	check_group(&check, "decision function against the model");
	for (unsigned int i = 0; i < PG_REASON_COUNT; i++) {
		printf("# %8lu %s\n", hits[i], lab_reason_name(i));
		if (i != PG_REASON_INGRESS && cases >= CASES)
			CHECK(&check, hits[i] >= 100, "only %lu cases of %s", hits[i],
			      lab_reason_name(i));
	}
	check_group(&check, "every reason was reached often");
	lab_close(&lab);
	return check_end(&check);
}
