// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <string.h>

#include <phasegate/abi/mode.h>

#define NONE (-1)

static bool all_zero(const uint8_t *octets, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (octets[i])
			return false;
	return true;
}

static bool is_mapped(const struct model_address *address)
{
	return address->family == 6 && all_zero(address->octets, 10) &&
	       address->octets[10] == 0xff && address->octets[11] == 0xff;
}

/* An IPv4-mapped address means its IPv4 address. */
static struct model_address meant(const struct model_address *address)
{
	struct model_address v4 = {.family = 4};

	if (!is_mapped(address))
		return *address;
	memcpy(v4.octets, address->octets + 12, 4);
	return v4;
}

bool model_same(const struct model_address *a, const struct model_address *b)
{
	const struct model_address x = meant(a), y = meant(b);

	return x.family == y.family && !memcmp(x.octets, y.octets, x.family == 4 ? 4 : 16);
}

bool model_is_loopback(const struct model_address *address)
{
	const struct model_address real = meant(address);

	if (real.family == 4)
		return real.octets[0] == 127;
	return all_zero(real.octets, 15) && real.octets[15] == 1;
}

static bool covers(const struct model_prefix *prefix, const struct model_address *address)
{
	if (prefix->address.family != address->family)
		return false;
	for (unsigned int bit = 0; bit < prefix->length; bit++) {
		const uint8_t mask = (uint8_t)(0x80 >> bit % 8);

		if ((prefix->address.octets[bit / 8] ^ address->octets[bit / 8]) & mask)
			return false;
	}
	return true;
}

static bool table_covers(const struct model_table *table, const struct model_address *address)
{
	for (size_t i = 0; i < table->count; i++)
		if (covers(&table->list[i], address))
			return true;
	return false;
}

/* In the ranges of its family; rule 1 has seen that they exist. */
static bool set_covers(const struct model_set *set, const bool *named,
		       const struct model_address *address)
{
	const struct model_address real = meant(address);
	const enum pg_table table = real.family == 4 ? PG_TABLE_V4 : PG_TABLE_V6;

	return named[table] && table_covers(&set->tables[table], &real);
}

/* Whether the set exists, if it is named at all. */
static bool set_complete(const struct model_set *set, const bool *named)
{
	for (size_t i = 0; i < PG_TABLE_COUNT; i++)
		if (named[i] && !set->exists)
			return false;
	return true;
}

/* Rule 1: also of what this very packet would not need. */
static int rule_state(const struct model_policy *policy)
{
	const struct model_phase *phase;

	if (!policy->installed || policy->none_in_force)
		return PG_REASON_NO_POLICY;
	if (policy->phase >= PG_PHASE_COUNT || policy->bank > 1)
		return PG_REASON_UNREADABLE;
	if (!set_complete(policy->ceiling, policy->ceiling_named))
		return PG_REASON_UNREADABLE;
	phase = &policy->phases[policy->phase];
	switch (phase->mode) {
	case PG_MODE_NO_NETWORK:
	case PG_MODE_PUBLIC:
		return NONE;
	case PG_MODE_ALLOWLIST:
		if (phase->learned && !phase->learned->exists)
			return PG_REASON_UNREADABLE;
		return set_complete(phase->set, phase->named) ? NONE : PG_REASON_UNREADABLE;
	}
	return PG_REASON_UNREADABLE;
}

static bool has_ceiling(const struct model_policy *policy)
{
	bool any = false;

	for (size_t i = 0; i < PG_TABLE_COUNT; i++)
		any |= policy->ceiling_named[i];
	return any;
}

/* Or it can be changed on its way. */
static bool hides_destination(const struct model_facts *facts)
{
	switch (facts->defect) {
	case MODEL_SOUND:
		break;
	case MODEL_FRAGMENT:
		return facts->ipv6_header;
	case MODEL_TRUNCATED:
	case MODEL_IP_OPTIONS:
	case MODEL_EXTENSION:
	case MODEL_FRAME:
		return true;
	}
	return false;
}

/* Rule 4 */
static int rule_operator(const struct model_policy *policy, const struct model_facts *facts)
{
	return has_ceiling(policy) && !hides_destination(facts) &&
			       set_covers(policy->ceiling, policy->ceiling_named, &facts->remote)
		       ? PG_REASON_OPERATOR
		       : NONE;
}

/* Rule 5: what hides its destination is never below the ceiling. */
static int rule_public(const struct model_policy *policy, const struct model_facts *facts)
{
	if (policy->phases[policy->phase].mode != PG_MODE_PUBLIC)
		return NONE;
	if (facts->on_lo && facts->defect != MODEL_SOUND)
		return NONE;
	return has_ceiling(policy) && hides_destination(facts) ? NONE : PG_REASON_PUBLIC;
}

static int rule_defect(const struct model_facts *facts)
{
	switch (facts->defect) {
	case MODEL_SOUND:
		break;
	case MODEL_TRUNCATED:
		return PG_REASON_TRUNCATED;
	case MODEL_FRAGMENT:
		return PG_REASON_FRAGMENT;
	case MODEL_IP_OPTIONS:
		return PG_REASON_IP_OPTIONS;
	case MODEL_EXTENSION:
		return PG_REASON_EXTENSION;
	case MODEL_FRAME:
		return PG_REASON_FRAME;
	}
	return NONE;
}

/* Rule 7 and 8 */
static int rule_not_outbound(const struct model_facts *facts)
{
	if (facts->accepted)
		return PG_REASON_ACCEPTED;
	if (facts->inbound)
		return PG_REASON_INBOUND;
	if (facts->loopback)
		return PG_REASON_LOOPBACK;
	return NONE;
}

/* ::ffff:a.b.c.d, ::a.b.c.d and :: in an IPv6 header, but not ::1 */
static bool has_odd_form(const struct model_facts *facts)
{
	if (!facts->ipv6_header)
		return false;
	if (is_mapped(&facts->remote))
		return true;
	return all_zero(facts->remote.octets, 12) && !model_is_loopback(&facts->remote);
}

bool model_is_opened(uint8_t protocol)
{
	static const uint8_t opened[] = {6 /* TCP */,	 17 /* UDP */, 136 /* UDP-Lite */,
					 132 /* SCTP */, 1 /* ICMP */, 58 /* ICMPv6 */};

	return memchr(opened, protocol, sizeof(opened));
}

/* Port 53 by a protocol that has ports, where only the listener may be asked; replies are none. */
static bool bypasses_listener(const struct model_phase *phase, const struct model_facts *facts)
{
	static const uint8_t ported[] = {6 /* TCP */, 17 /* UDP */, 136 /* UDP-Lite */,
					 132 /* SCTP */};

	return phase->dns_redirect && facts->remote_port == 53 &&
	       memchr(ported, facts->protocol, sizeof(ported)) && !facts->accepted &&
	       !facts->inbound;
}

static enum pg_reason rule_learned(const struct model_learned *learned,
				   const struct model_facts *facts)
{
	if (!learned)
		return PG_REASON_NOT_ALLOWED;
	for (size_t i = 0; i < learned->count; i++) {
		if (!model_same(&learned->list[i], &facts->remote))
			continue;
		if (!learned->expired[i])
			return PG_REASON_LEARNED;
		return facts->established ? PG_REASON_DRAINING : PG_REASON_EXPIRED;
	}
	return PG_REASON_NOT_ALLOWED;
}

static enum pg_reason rule_list(const struct model_policy *policy, const struct model_facts *facts)
{
	const struct model_phase *phase = &policy->phases[policy->phase];

	if (set_covers(phase->set, phase->named, &facts->remote))
		return PG_REASON_ENTRY;
	return rule_learned(phase->learned, facts);
}

bool model_is_for_many(const struct model_address *address)
{
	static const uint8_t all[4] = {255, 255, 255, 255}, lo[4] = {127, 255, 255, 255},
			     old_lo[4] = {127, 0, 0, 0};
	const struct model_address real = meant(address);

	if (real.family != 4)
		return real.octets[0] == 0xff;
	return real.octets[0] >> 4 == 0xe || !memcmp(real.octets, all, 4) ||
	       !memcmp(real.octets, lo, 4) || !memcmp(real.octets, old_lo, 4);
}

/* What a list opens of the host's own addresses, and of those at which it may be reached too. */
static bool is_closed_on_host(const struct model_host *host, const struct model_facts *facts)
{
	bool on_host = model_is_loopback(&facts->remote) || model_is_for_many(&facts->remote);

	if (!host)
		return false;
	for (size_t i = 0; i < host->count; i++)
		on_host |= model_same(&host->list[i], &facts->remote);
	for (size_t i = 0; i < host->port_count; i++)
		if (host->ports[i] == facts->remote_port)
			return false;
	return on_host;
}

/* Rule 9 and 10 */
static enum pg_reason rule_destination(const struct model_policy *policy,
				       const struct model_facts *facts)
{
	const struct model_phase *phase = &policy->phases[policy->phase];

	enum pg_reason reason;

	if (has_odd_form(facts))
		return PG_REASON_ADDRESS_FORM;
	if (facts->member && model_is_opened(facts->protocol))
		return PG_REASON_MEMBER;
	if (phase->mode == PG_MODE_NO_NETWORK)
		return PG_REASON_NOT_ALLOWED;
	if (!model_is_opened(facts->protocol))
		return PG_REASON_PROTOCOL;
	reason = rule_list(policy, facts);
	if (reason == PG_REASON_ENTRY || reason == PG_REASON_LEARNED ||
	    reason == PG_REASON_DRAINING)
		return is_closed_on_host(policy->host, facts) ? PG_REASON_OPERATOR : reason;
	return reason;
}

enum pg_reason model_judge(const struct model_policy *policy, const struct model_facts *facts)
{
	const struct model_phase *phase;
	int reason = rule_state(policy);

	if (reason != NONE)
		return (enum pg_reason)reason;
	phase = &policy->phases[policy->phase];
	if (facts->kernel_nd)
		return PG_REASON_KERNEL_ND;
	if (facts->listener && phase->dns_redirect)
		return PG_REASON_LISTENER;
	if (facts->hidden)
		return PG_REASON_NOT_ALLOWED;
	reason = rule_operator(policy, facts);
	if (reason != NONE)
		return (enum pg_reason)reason;
	if (bypasses_listener(phase, facts))
		return PG_REASON_DNS_BYPASS;
	reason = rule_public(policy, facts);
	if (reason != NONE)
		return (enum pg_reason)reason;
	if (facts->packet && !facts->own_source &&
	    (facts->on_link || policy->check_source || (policy->check_lo_source && facts->on_lo)))
		return PG_REASON_SOURCE;
	reason = rule_defect(facts);
	if (reason == NONE)
		reason = rule_not_outbound(facts);
	return reason == NONE ? rule_destination(policy, facts) : (enum pg_reason)reason;
}
