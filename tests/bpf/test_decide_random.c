// SPDX-License-Identifier: Apache-2.0
/* Random policies and facts, see any.h. */
#include <stdio.h>
#include <string.h>

#include "any.h"
#include "check.h"
#include "lab.h"
#include "random.h"

#define CASES	    200000
#define WORLD_CASES (8 * JUDGE_BATCH)

static const uint8_t protocols[] = {6, 6, 17, 17, 17, 136, 132, 1, 58, 4, 41, 47, 50, 255, 0};

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
		.loopback = rng_one_in(rng, rare),
		.member = rng_one_in(rng, rare),
		.established = rng_one_in(rng, 2),
		.remote = any_address(rng),
		.remote_port = any_port(rng),
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
			any_world(&rng, &lab);
		judge_batch(&check, &rng, &lab, done, hits);
	}
	check_group(&check, "decision function against the model");
	for (unsigned int i = 0; i < PG_REASON_COUNT; i++) {
		printf("# %8lu %s\n", hits[i], lab_reason_name(i));
		if (i != PG_REASON_INGRESS && i != PG_REASON_FRAME && cases >= CASES)
			CHECK(&check, hits[i] >= 100, "only %lu cases of %s", hits[i],
			      lab_reason_name(i));
	}
	check_group(&check, "every reason was reached often");
	lab_close(&lab);
	return check_end(&check);
}
