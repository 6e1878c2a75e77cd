// SPDX-License-Identifier: Apache-2.0
#include "any.h"

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
static const uint16_t ports[] = {53, 53, 80, 443, 0, 65535};

struct model_address any_address(struct rng *rng)
{
	return lab_parse(rng_one_in(rng, 2) ? RNG_PICK(rng, universe4) : RNG_PICK(rng, universe6));
}

static void fill_table(struct rng *rng, enum pg_table kind, struct model_table *table)
{
	const bool v4 = kind == PG_TABLE_V4;

	table->count = rng_below(rng, 5);
	for (size_t i = 0; i < table->count; i++) {
		struct model_prefix *prefix = &table->list[i];

		prefix->address =
			lab_parse(v4 ? RNG_PICK(rng, universe4) : RNG_PICK(rng, universe6));
		prefix->length = v4 ? 32 : 128;
		if (!rng_one_in(rng, 2))
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

void any_world(struct rng *rng, struct lab *lab)
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

struct model_policy any_policy(struct rng *rng, struct lab *lab)
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

uint16_t any_port(struct rng *rng)
{
	return RNG_PICK(rng, ports);
}
