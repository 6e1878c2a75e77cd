// SPDX-License-Identifier: Apache-2.0
/*
 * The order of judgement: each rule alone, and each two rules at once, where the earlier must win.
 * A trigger makes its rule apply and changes no more of the case than it needs.
 */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "lab.h"

struct situation {
	const struct lab *lab;
	struct model_policy policy;
	struct model_facts facts;
};

/* Triggers that write the same thing cannot be tested together. */
enum claim {
	CLAIM_STATE = 1 << 0,
	CLAIM_MODE = 1 << 1,
	CLAIM_DEFECT = 1 << 2,
	CLAIM_CEILING = 1 << 3,
	CLAIM_SET = 1 << 4,
	CLAIM_LEARNED = 1 << 5,
	CLAIM_REPLY = 1 << 6,
	CLAIM_PROTOCOL = 1 << 7,
	CLAIM_FAMILY = 1 << 8,
};

/* The sets of the lab that the triggers use. */
enum {
	SET_EMPTY,
	SET_EVERYTHING,
	SET_MISSING = LAB_SETS - 2,
	LEARNED_VALID = 0,
	LEARNED_EXPIRED,
	LEARNED_MISSING = LAB_LEARNED - 1,
};

static struct model_phase *in_force(struct situation *s)
{
	return &s->policy.phases[s->policy.phase % PG_PHASE_COUNT];
}

static void no_policy(struct situation *s)
{
	s->policy.installed = false;
}

static void no_phase(struct situation *s)
{
	s->policy.none_in_force = true;
}

static void bad_bank(struct situation *s)
{
	s->policy.bank += 2;
}

static void bad_phase(struct situation *s)
{
	s->policy.phase += PG_PHASE_COUNT;
}

static void no_mode(struct situation *s)
{
	in_force(s)->mode = 0;
}

static void unknown_mode(struct situation *s)
{
	in_force(s)->mode = PG_MODE_PUBLIC + 1;
}

static void kernel_nd(struct situation *s)
{
	s->facts.kernel_nd = true;
}

static void listener(struct situation *s)
{
	s->facts.listener = true;
	in_force(s)->dns_redirect = true;
}

static void hidden(struct situation *s)
{
	s->facts.hidden = true;
}

static void dns_bypass(struct situation *s)
{
	in_force(s)->dns_redirect = true;
	s->facts.remote_port = 53;
}

static void ceiling(struct situation *s, size_t set)
{
	s->policy.ceiling = &s->lab->sets[set];
	memset(s->policy.ceiling_named, true, sizeof(s->policy.ceiling_named));
}

static void ceiling_missing(struct situation *s)
{
	ceiling(s, SET_MISSING);
}

static void ceiling_hit(struct situation *s)
{
	ceiling(s, SET_EVERYTHING);
}

static void ceiling_fragment(struct situation *s)
{
	ceiling(s, SET_EVERYTHING);
	s->facts.defect = MODEL_FRAGMENT;
}

static void public(struct situation *s)
{
	in_force(s)->mode = PG_MODE_PUBLIC;
}

/* Whatever the ceiling has. */
static void ceiling_hidden(struct situation *s)
{
	ceiling(s, s->policy.phase % 2 ? SET_EMPTY : SET_EVERYTHING);
	s->facts.defect = MODEL_EXTENSION;
	public(s);
}

static void source(struct situation *s)
{
	s->policy.check_source = true;
	s->facts.own_source = false;
}

static void truncated(struct situation *s)
{
	s->facts.defect = MODEL_TRUNCATED;
}

static void fragment(struct situation *s)
{
	s->facts.defect = MODEL_FRAGMENT;
}

static void ip_options(struct situation *s)
{
	s->facts.defect = MODEL_IP_OPTIONS;
}

static void extension(struct situation *s)
{
	s->facts.defect = MODEL_EXTENSION;
}

static void accepted(struct situation *s)
{
	s->facts.accepted = true;
}

static void inbound(struct situation *s)
{
	s->facts.inbound = true;
}

static void loopback(struct situation *s)
{
	s->facts.loopback = true;
}

static void address_form(struct situation *s)
{
	s->facts.remote = lab_parse("::10.0.0.1");
	s->facts.ipv6_header = true;
}

static void no_network(struct situation *s)
{
	in_force(s)->mode = PG_MODE_NO_NETWORK;
}

static void protocol(struct situation *s)
{
	s->facts.protocol = 4; /* IPIP */
}

static void use_set(struct situation *s, size_t set)
{
	in_force(s)->set = &s->lab->sets[set];
	memset(in_force(s)->named, true, sizeof(in_force(s)->named));
}

static void set_missing(struct situation *s)
{
	use_set(s, SET_MISSING);
}

static void entry(struct situation *s)
{
	use_set(s, SET_EVERYTHING);
}

static void learned_missing(struct situation *s)
{
	in_force(s)->learned = &s->lab->learned[LEARNED_MISSING];
}

static void learned(struct situation *s)
{
	in_force(s)->learned = &s->lab->learned[LEARNED_VALID];
}

static void draining(struct situation *s)
{
	in_force(s)->learned = &s->lab->learned[LEARNED_EXPIRED];
	s->facts.established = true;
}

static void member(struct situation *s)
{
	s->facts.member = true;
}

static void host(struct situation *s)
{
	entry(s);
	s->policy.host = &s->lab->host;
}

static void expired(struct situation *s)
{
	in_force(s)->learned = &s->lab->learned[LEARNED_EXPIRED];
}

static void nothing(struct situation *s)
{
	(void)s;
}

/* In the order of docs/verdicts.md. */
static const struct trigger {
	const char *name;
	enum pg_reason reason;
	void (*pull)(struct situation *s);
	unsigned int claims;
} triggers[] = {
	{"no-policy", PG_REASON_NO_POLICY, no_policy, 0},
	{"no-phase", PG_REASON_NO_POLICY, no_phase, CLAIM_STATE},
	{"bank-range", PG_REASON_UNREADABLE, bad_bank, CLAIM_STATE},
	{"phase-range", PG_REASON_UNREADABLE, bad_phase, CLAIM_STATE},
	{"mode-zero", PG_REASON_UNREADABLE, no_mode, CLAIM_STATE | CLAIM_MODE},
	{"mode-unknown", PG_REASON_UNREADABLE, unknown_mode, CLAIM_STATE | CLAIM_MODE},
	{"ceiling-missing", PG_REASON_UNREADABLE, ceiling_missing, CLAIM_CEILING | CLAIM_DEFECT},
	{"set-missing", PG_REASON_UNREADABLE, set_missing, CLAIM_SET | CLAIM_MODE},
	{"learned-missing", PG_REASON_UNREADABLE, learned_missing, CLAIM_LEARNED | CLAIM_MODE},
	{"kernel-nd", PG_REASON_KERNEL_ND, kernel_nd, 0},
	{"listener", PG_REASON_LISTENER, listener, 0},
	{"hidden", PG_REASON_NOT_ALLOWED, hidden, 0},
	/* A defect may hide the destination. */
	{"ceiling", PG_REASON_OPERATOR, ceiling_hit, CLAIM_CEILING | CLAIM_DEFECT},
	{"ceiling-fragment", PG_REASON_OPERATOR, ceiling_fragment,
	 CLAIM_CEILING | CLAIM_DEFECT | CLAIM_FAMILY},
	/* Not of replies. */
	{"dns-bypass", PG_REASON_DNS_BYPASS, dns_bypass, CLAIM_REPLY | CLAIM_PROTOCOL},
	{"public", PG_REASON_PUBLIC, public, CLAIM_MODE},
	{"source", PG_REASON_SOURCE, source, 0},
	{"ceiling-hidden", PG_REASON_EXTENSION, ceiling_hidden,
	 CLAIM_CEILING | CLAIM_DEFECT | CLAIM_MODE},
	{"truncated", PG_REASON_TRUNCATED, truncated, CLAIM_DEFECT},
	{"fragment", PG_REASON_FRAGMENT, fragment, CLAIM_DEFECT},
	{"ip-options", PG_REASON_IP_OPTIONS, ip_options, CLAIM_DEFECT},
	{"extension", PG_REASON_EXTENSION, extension, CLAIM_DEFECT},
	{"accepted", PG_REASON_ACCEPTED, accepted, CLAIM_REPLY},
	{"inbound", PG_REASON_INBOUND, inbound, CLAIM_REPLY},
	{"loopback", PG_REASON_LOOPBACK, loopback, 0},
	{"address-form", PG_REASON_ADDRESS_FORM, address_form, CLAIM_FAMILY},
	{"member", PG_REASON_MEMBER, member, CLAIM_PROTOCOL},
	{"no-network", PG_REASON_NOT_ALLOWED, no_network, CLAIM_MODE},
	{"protocol", PG_REASON_PROTOCOL, protocol, CLAIM_PROTOCOL},
	{"host", PG_REASON_OPERATOR, host, CLAIM_SET},
	{"entry", PG_REASON_ENTRY, entry, CLAIM_SET},
	{"learned", PG_REASON_LEARNED, learned, CLAIM_LEARNED},
	{"draining", PG_REASON_DRAINING, draining, CLAIM_LEARNED},
	{"expired", PG_REASON_EXPIRED, expired, CLAIM_LEARNED},
	{"nothing", PG_REASON_NOT_ALLOWED, nothing, 0},
};
#define TRIGGERS (sizeof(triggers) / sizeof(triggers[0]))

/* An allowlist without entries, and a sound UDP packet from an own address. */
static struct situation plain(const struct lab *lab, unsigned int phase)
{
	struct situation s = {
		.lab = lab,
		.policy = {.installed = true, .phase = phase, .bank = phase % 2},
		.facts = {.packet = true,
			  .own_source = true,
			  .remote = lab_parse("10.0.0.1"),
			  .remote_port = 80,
			  .protocol = 17},
	};

	/* The other phases and bank allow everything, so that reading the wrong one shows. */
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		s.policy.phases[i].mode = i == phase ? PG_MODE_ALLOWLIST : PG_MODE_PUBLIC;
		s.policy.idle[i].mode = PG_MODE_PUBLIC;
	}
	return s;
}

static void judge(struct check *check, struct lab *lab, const struct situation *s,
		  enum pg_reason expected, const char *first, const char *second)
{
	const enum pg_reason model = model_judge(&s->policy, &s->facts);

	lab->cases[0] = (struct judge_case){
		.facts = lab_facts(&s->facts),
		.reason = UINT32_MAX,
	};
	lab_describe(lab, &s->policy, &lab->cases[0]);
	lab_decide(lab, 1);
	CHECK(check, lab->cases[0].reason == expected, "%s before %s in phase %u: %s", first,
	      second, s->policy.phase, lab_reason_name(lab->cases[0].reason));
	CHECK(check, model == expected, "the model on %s before %s: %s", first, second,
	      lab_reason_name(model));
}

static void fill(struct lab *lab)
{
	struct model_set *everything = &lab->sets[SET_EVERYTHING];
	const char *const remotes[2] = {"10.0.0.1", "::10.0.0.1"};

	everything->tables[PG_TABLE_V4].list[0].address = lab_parse("0.0.0.0");
	everything->tables[PG_TABLE_V4].count = 1;
	everything->tables[PG_TABLE_V6].list[0].address = lab_parse("::");
	everything->tables[PG_TABLE_V6].count = 1;
	lab->host.count = 1;
	lab->host.list[0] = lab_parse(remotes[0]);
	lab->host.port_count = 1;
	lab->host.ports[0] = 443;
	for (size_t i = LEARNED_VALID; i <= LEARNED_EXPIRED; i++) {
		lab->learned[i].count = 2;
		for (size_t j = 0; j < 2; j++) {
			lab->learned[i].list[j] = lab_parse(remotes[j]);
			lab->learned[i].expired[j] = i == LEARNED_EXPIRED;
		}
	}
	lab_fill(lab);
}

int main(void)
{
	struct check check = {};
	struct lab lab;

	lab_open(&lab);
	fill(&lab);
	for (unsigned int phase = 0; phase < PG_PHASE_COUNT; phase++) {
		for (size_t i = 0; i < TRIGGERS; i++) {
			struct situation s = plain(&lab, phase);

			triggers[i].pull(&s);
			judge(&check, &lab, &s, triggers[i].reason, triggers[i].name, "nothing");
		}
	}
	check_group(&check, "each rule alone, in each phase");
	for (size_t i = 0; i < TRIGGERS; i++) {
		for (size_t j = i + 1; j < TRIGGERS; j++) {
			struct situation s = plain(&lab, PG_PHASE_RUN);

			if (triggers[i].claims & triggers[j].claims)
				continue;
			triggers[j].pull(&s);
			triggers[i].pull(&s);
			judge(&check, &lab, &s, triggers[i].reason, triggers[i].name,
			      triggers[j].name);
		}
	}
	check_group(&check, "of each two rules the earlier one");
	lab_close(&lab);
	return check_end(&check);
}
