/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/nameser.h>
#include <string.h>

#include "base/clock.h"
#include "resolver_internal.h"

/* RFC 6895, 3.1: 249 to 255 ask for keys, transfers and "any". */
#define META_FIRST 249
#define META_LAST  255

bool pg_resolver_is_meta_type(uint16_t type)
{
	return type == ns_t_invalid || type == ns_t_opt ||
	       (type >= META_FIRST && type <= META_LAST);
}

/* Types whose answers say where a service is, and whose questions carry no more than the name. */
static bool is_allowed_type(uint16_t type)
{
	switch (type) {
	case ns_t_a:
	case ns_t_aaaa:
	case ns_t_cname:
	case ns_t_mx:
	case ns_t_txt:
	case ns_t_srv:
	case ns_t_ns:
	case ns_t_soa:
	case ns_t_caa:
	case PG_DNS_TYPE_SVCB:
	case PG_DNS_TYPE_HTTPS:
		return true;
	default:
		return false;
	}
}

/* Letters, digits, hyphens and underscores. */
static bool is_plain(const char *text)
{
	return strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(text);
}

static bool is_allowed(enum pg_name_verdict verdict)
{
	switch (verdict) {
	case PG_NAME_DENIED:
	case PG_NAME_OVER_BUDGET:
		return false;
	case PG_NAME_ALLOWED:
	case PG_NAME_UNRESTRICTED:
		return true;
	}
	return false;
}

static bool try_original(const struct pg_resolver *resolver, const char *original)
{
	return is_allowed(resolver->hooks.judge(resolver->hooks.userdata, original));
}

/* Whether a name that is allowed has led to this one. */
static bool has_original(const struct pg_resolver *resolver, struct pg_asking *asking)
{
	struct pg_original originals[PG_TARGETS_ORIGINALS_MAX];
	size_t count;

	if (asking->original[0])
		return try_original(resolver, asking->original);
	count = pg_targets_find(resolver->targets, asking->query.text, pg_boottime_ns(), originals);
	for (size_t i = 0; i < count; i++) {
		if (!try_original(resolver, originals[i].name))
			continue;
		memcpy(asking->original, originals[i].name, sizeof(asking->original));
		return true;
	}
	return false;
}

enum pg_decision pg_resolver_judge(struct pg_resolver *resolver, struct pg_asking *asking)
{
	const struct pg_resolver_hooks *hooks = &resolver->hooks;
	const struct pg_dns_query *query = &asking->query;
	enum pg_name_verdict verdict;
	struct pg_addr addr;

	asking->generation = hooks->generation(hooks->userdata);
	verdict = hooks->judge(hooks->userdata, query->text);
	asking->own = is_allowed(verdict);
	if (verdict == PG_NAME_UNRESTRICTED)
		return PG_DECISION_FORWARD;
	/* Whose name an address has is asked about addresses, not about names. */
	if (query->type == ns_t_ptr)
		return pg_dns_reverse_address(query->text, &addr) &&
				       hooks->allows_address(hooks->userdata, &addr)
			       ? PG_DECISION_FORWARD
			       : PG_DECISION_DENY_NAME;
	if (!asking->own && !has_original(resolver, asking))
		return verdict == PG_NAME_OVER_BUDGET ? PG_DECISION_OVER_BUDGET
						      : PG_DECISION_DENY_NAME;
	if (!is_plain(query->text))
		return PG_DECISION_DENY_NAME;
	return is_allowed_type(query->type) ? PG_DECISION_FORWARD : PG_DECISION_DENY_TYPE;
}
