/* SPDX-License-Identifier: Apache-2.0 */
/* What is tried from inside, where to, and how the kernel would report its denial. */
#include "verify.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "dns/local.h"

#define PROTOCOL_UDPLITE 136

static const char *const names[] = {
#define PG_X(symbol, name, text) [PG_VERIFY_##symbol] = name,
	PG_VERIFY_VECTORS(PG_X)
#undef PG_X
};

static const char *const texts[] = {
#define PG_X(symbol, name, text) [PG_VERIFY_##symbol] = text,
	PG_VERIFY_VECTORS(PG_X)
#undef PG_X
};

const char *pg_verify_vector_name(enum pg_verify_vector vector)
{
	return names[vector];
}

const char *pg_verify_vector_text(enum pg_verify_vector vector)
{
	return texts[vector];
}

int pg_verify_vector_parse(const char *name, enum pg_verify_vector *ret_vector)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(names); i++) {
		if (strcmp(name, names[i]) == 0) {
			*ret_vector = (enum pg_verify_vector)i;
			return 0;
		}
	}
	return -EINVAL;
}

bool pg_verify_allows(const struct pg_phase_policy *phase, const struct pg_addr *addr)
{
	for (size_t i = 0; phase->entries && i < phase->entries->count; i++) {
		const struct pg_entry *entry = &phase->entries->items[i];
		bool allows;

		/* Of names only those that mean the same everywhere. */
		if (entry->kind == PG_ENTRY_HOST || entry->kind == PG_ENTRY_WILDCARD)
			allows = pg_addr_is_loopback(addr) && pg_local_is_localhost(entry->name);
		else
			allows = pg_prefix_contains(&entry->prefix, addr);
		if (allows)
			return true;
	}
	return false;
}

bool pg_verify_is_forbidden(const struct pg_config *config, const struct pg_addr *addr)
{
	for (size_t i = 0; i < config->never_allow_count; i++)
		if (pg_prefix_contains(&config->never_allow[i], addr))
			return true;
	return false;
}

bool pg_verify_find_blocked(const struct pg_phase_policy *phase, bool v4, bool v6,
			    struct pg_addr *ret_addr)
{
	static const char *const candidates[] = {"192.0.2.1", "198.51.100.1", "203.0.113.1",
						 "2001:db8::1", "2001:db8:ffff::1"};

	for (size_t i = 0; phase->mode != PG_MODE_PUBLIC && i < PG_ARRAY_SIZE(candidates); i++) {
		struct pg_addr addr;

		if (pg_addr_parse(candidates[i], &addr) == 0 && (pg_addr_is_v4(&addr) ? v4 : v6) &&
		    !pg_verify_allows(phase, &addr)) {
			*ret_addr = addr;
			return true;
		}
	}
	return false;
}

/* What all plans of one verification are made from. */
struct planning {
	const struct pg_config *config;
	const struct pg_phase_policy *phase;
	bool denied;	 /* everything is */
	bool redirected; /* DNS is */
	bool has4, has6;
	struct pg_addr blocked4, blocked6;
};

static const char everything[] = "the phase allows every destination";

/* Whether the phase is to deny the destination. */
static bool is_closed(const struct planning *planning, const struct pg_addr *addr)
{
	if (planning->denied || pg_verify_is_forbidden(planning->config, addr))
		return true;
	return planning->phase->mode != PG_MODE_PUBLIC && !pg_verify_allows(planning->phase, addr);
}

static void choose_blocked(struct planning *planning, const struct pg_verify_target *blocked)
{
	const struct pg_addr *given = &blocked->endpoint.addr;

	planning->has4 = pg_verify_find_blocked(planning->phase, true, false, &planning->blocked4);
	planning->has6 = pg_verify_find_blocked(planning->phase, false, true, &planning->blocked6);
	if (!blocked->given || !is_closed(planning, given))
		return;
	if (pg_addr_is_v4(given)) {
		planning->has4 = true;
		planning->blocked4 = *given;
	} else {
		planning->has6 = true;
		planning->blocked6 = *given;
	}
}

/* To the address, which is what the kernel reports. */
static void plan_to(const struct planning *planning, enum pg_verify_vector vector,
		    const struct pg_addr *addr, uint8_t protocol, struct pg_verify_plan *plan)
{
	plan->to = (struct pg_endpoint){
		.addr = *addr,
		.port = htons((uint16_t)(PG_VERIFY_PORT_FIRST + vector)),
	};
	plan->denied = plan->to;
	plan->protocol = protocol;
	if (!is_closed(planning, addr))
		plan->left_out = planning->phase->mode == PG_MODE_PUBLIC
					 ? everything
					 : "the phase allows its destination";
}

static void plan_blocked4(const struct planning *planning, enum pg_verify_vector vector,
			  uint8_t protocol, struct pg_verify_plan *plan)
{
	if (planning->has4)
		plan_to(planning, vector, &planning->blocked4, protocol, plan);
	else
		plan->left_out = planning->phase->mode == PG_MODE_PUBLIC
					 ? everything
					 : "no IPv4 address is known to be denied: name one";
}

static void plan_fixed(const struct planning *planning, enum pg_verify_vector vector,
		       const char *text, uint8_t protocol, struct pg_verify_plan *plan)
{
	struct pg_addr addr;

	if (pg_addr_parse(text, &addr) == 0)
		plan_to(planning, vector, &addr, protocol, plan);
}

/* To itself, and back. */
static void plan_own(const struct planning *planning, uint8_t protocol, struct pg_verify_plan *plan)
{
	plan->denied.addr = pg_addr_from_v4(htonl(INADDR_LOOPBACK));
	plan->protocol = protocol;
	plan->passes =
		!planning->denied && !pg_verify_is_forbidden(planning->config, &plan->denied.addr);
}

/* What the packet says of its source or its way, and the address of the call does not. */
static void plan_hidden(const struct planning *planning, enum pg_verify_vector vector,
			struct pg_verify_plan *plan)
{
	if (planning->phase->mode == PG_MODE_PUBLIC && !planning->denied)
		plan->left_out = everything;
	else if (planning->has6)
		plan_to(planning, vector, &planning->blocked6, 0, plan);
	else
		plan->left_out = "no IPv6 address is known to be denied: name one";
	if (vector == PG_VERIFY_FORGED_SOURCE) {
		plan->denied.addr = pg_addr_from_bytes(in6addr_loopback.s6_addr);
		plan->protocol = IPPROTO_UDP;
	} else {
		plan->denied.port = 0; /* it is behind the header */
	}
}

static void plan_dns(const struct planning *planning, struct pg_verify_plan *plan)
{
	plan_blocked4(planning, PG_VERIFY_DNS, IPPROTO_UDP, plan);
	plan->to.port = plan->denied.port = htons(PG_PORT_DNS);
	if (planning->redirected && planning->phase->mode == PG_MODE_PUBLIC)
		plan->left_out = "the phase allows every name";
}

/* A report of the groups of a device; where they are joined is for the child to choose. */
static void plan_group(const struct planning *planning, const char *reports, uint8_t protocol,
		       struct pg_verify_plan *plan)
{
	if (planning->phase->mode == PG_MODE_PUBLIC && !planning->denied)
		plan->left_out = everything;
	if (pg_addr_parse(reports, &plan->denied.addr) == 0)
		plan->protocol = protocol;
}

static void plan_vector(const struct planning *planning, enum pg_verify_vector vector,
			struct pg_verify_plan *plan)
{
	switch (vector) {
	case PG_VERIFY_LOOPBACK_TCP:
		return plan_own(planning, IPPROTO_TCP, plan);
	case PG_VERIFY_LOOPBACK_UDP:
		return plan_own(planning, IPPROTO_UDP, plan);
	case PG_VERIFY_TCP_FAST_OPEN:
	case PG_VERIFY_MPTCP:
	case PG_VERIFY_TCP_MAPPED:
		return plan_blocked4(planning, vector, IPPROTO_TCP, plan);
	case PG_VERIFY_UDP_CONNECTED:
	case PG_VERIFY_UDP_SENDTO:
	case PG_VERIFY_UDP_RECONNECTED:
	case PG_VERIFY_UDP_MAPPED:
		return plan_blocked4(planning, vector, IPPROTO_UDP, plan);
	case PG_VERIFY_UDP_LITE:
		return plan_blocked4(planning, vector, PROTOCOL_UDPLITE, plan);
	case PG_VERIFY_PING:
		plan_blocked4(planning, vector, IPPROTO_ICMP, plan);
		plan->denied.port = 0;
		return;
	case PG_VERIFY_MULTICAST:
		return plan_fixed(planning, vector, "239.255.80.71", IPPROTO_UDP, plan);
	case PG_VERIFY_BROADCAST:
		return plan_fixed(planning, vector, "255.255.255.255", IPPROTO_UDP, plan);
	case PG_VERIFY_BOUND_LOOPBACK:
		return plan_fixed(planning, vector, "127.0.0.1", IPPROTO_UDP, plan);
	case PG_VERIFY_FORGED_SOURCE:
	case PG_VERIFY_ROUTING_HEADER:
		return plan_hidden(planning, vector, plan);
	case PG_VERIFY_DNS:
		return plan_dns(planning, plan);
	case PG_VERIFY_MLD:
		return plan_group(planning, "ff02::16", 0, plan);
	case PG_VERIFY_IGMP:
		return plan_group(planning, "224.0.0.22", IPPROTO_IGMP, plan);
	case PG_VERIFY_VSOCK:
		if (planning->phase->mode == PG_MODE_PUBLIC && !planning->denied)
			plan->left_out = everything;
		return;
	case PG_VERIFY_VECTOR_COUNT:
		break;
	}
}

void pg_verify_make_plans(const struct pg_config *config, const struct pg_environment *environment,
			  const struct pg_verify_target *blocked, unsigned int without,
			  struct pg_verify_plan plans[PG_VERIFY_VECTOR_COUNT])
{
	const struct pg_policy *policy = pg_environment_policy(environment);
	struct planning planning = {
		.config = config,
		.phase = &policy->phases[pg_environment_phase(environment)],
		.denied = pg_environment_denied(environment),
	};

	planning.redirected = pg_policy_has_names(policy) &&
			      planning.phase->mode != PG_MODE_NO_NETWORK && !planning.denied;
	choose_blocked(&planning, blocked);
	for (size_t i = 0; i < PG_VERIFY_VECTOR_COUNT; i++) {
		plans[i] = (struct pg_verify_plan){.left_out = NULL};
		plan_vector(&planning, (enum pg_verify_vector)i, &plans[i]);
		if (without & PG_VERIFY_BIT(i))
			plans[i].left_out = "left out, as asked for";
	}
}
