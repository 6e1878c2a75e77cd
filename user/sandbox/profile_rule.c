/* SPDX-License-Identifier: Apache-2.0 */
#include "profile_rule.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "families.h"

/* One of the list, as libseccomp compares with it. */
struct comparison {
	const char *name;
	bool (*holds)(uint64_t argument, uint64_t value, uint64_t second);
};

static bool holds_ne(uint64_t argument, uint64_t value, uint64_t second)
{
	return argument != value;
}

static bool holds_lt(uint64_t argument, uint64_t value, uint64_t second)
{
	return argument < value;
}

static bool holds_le(uint64_t argument, uint64_t value, uint64_t second)
{
	return argument <= value;
}

static bool holds_eq(uint64_t argument, uint64_t value, uint64_t second)
{
	return argument == value;
}

static bool holds_ge(uint64_t argument, uint64_t value, uint64_t second)
{
	return argument >= value;
}

static bool holds_gt(uint64_t argument, uint64_t value, uint64_t second)
{
	return argument > value;
}

static bool holds_masked(uint64_t argument, uint64_t value, uint64_t second)
{
	return (argument & value) == second;
}

static const struct comparison comparisons[] = {
	{"SCMP_CMP_NE", holds_ne},
	{"SCMP_CMP_LT", holds_lt},
	{"SCMP_CMP_LE", holds_le},
	{"SCMP_CMP_EQ", holds_eq},
	{"SCMP_CMP_GE", holds_ge},
	{"SCMP_CMP_GT", holds_gt},
	{"SCMP_CMP_MASKED_EQ", holds_masked},
};

static const uint64_t families[] = {
#define PG_X(family) family,
	PG_FAMILIES(PG_X)
#undef PG_X
};

/* Where there is socketcall, it cannot be told which family it makes a socket of. */
static const char *const denied[] = {
#define PG_X(call, why) #call,
	PG_DENIED_CALLS(PG_X)
#undef PG_X
		"socketcall",
};
static const char *const makers[] = {"socket", "socketpair"};

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static bool permits(const char *action)
{
	static const char *const actions[] = {"SCMP_ACT_ALLOW", "SCMP_ACT_LOG", "SCMP_ACT_TRACE",
					      "SCMP_ACT_NOTIFY"};

	return is_one_of(action, actions, PG_ARRAY_SIZE(actions));
}

static int no_memory(struct pg_error *err)
{
	return pg_fail(err, -ENOMEM, "no memory for the profile");
}

static const char *action_of(const cJSON *rule)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(rule, "action"));
}

/* The call itself in old profiles, else their list. */
static const cJSON *names_of(const cJSON *rule)
{
	const cJSON *name = cJSON_GetObjectItemCaseSensitive(rule, "name");

	return cJSON_IsString(name) && *name->valuestring
		       ? name
		       : cJSON_GetObjectItemCaseSensitive(rule, "names");
}

static const cJSON *first_name(const cJSON *names)
{
	return cJSON_IsString(names) ? names : names->child;
}

static const cJSON *next_name(const cJSON *names, const cJSON *name)
{
	return name == names ? NULL : name->next;
}

static uint64_t number_of(const cJSON *condition, const char *name)
{
	const cJSON *number = cJSON_GetObjectItemCaseSensitive(condition, name);

	return cJSON_IsNumber(number) && number->valuedouble > 0 ? (uint64_t)number->valuedouble
								 : 0;
}

static const struct comparison *comparison_of(const cJSON *condition)
{
	const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(condition, "op"));

	for (size_t i = 0; name && i < PG_ARRAY_SIZE(comparisons); i++)
		if (!strcmp(name, comparisons[i].name))
			return &comparisons[i];
	return NULL;
}

static int check_rule(const cJSON *rule, struct pg_error *err)
{
	const cJSON *names = names_of(rule), *conditions;

	if (!action_of(rule))
		return pg_fail(err, -EINVAL, "it has no action");
	if (!names || !(cJSON_IsString(names) || cJSON_IsArray(names)))
		return pg_fail(err, -EINVAL, "it has no names");
	for (const cJSON *name = first_name(names); name; name = next_name(names, name))
		if (!cJSON_IsString(name))
			return pg_fail(err, -EINVAL, "a name is no string");
	conditions = cJSON_GetObjectItemCaseSensitive(rule, "args");
	if (conditions && !cJSON_IsNull(conditions) && !cJSON_IsArray(conditions))
		return pg_fail(err, -EINVAL, "args is no list");
	for (const cJSON *one = conditions ? conditions->child : NULL; one; one = one->next)
		if (!comparison_of(one) || number_of(one, "index") > 5)
			return pg_fail(err, -EINVAL, "an argument has no op or index");
	return 0;
}

/* Adds the rule for these calls and conditions; takes all three over. */
static int add_owned(cJSON *rules, cJSON *rule, cJSON *names, cJSON *conditions,
		     struct pg_error *err)
{
	if (!rule || !names || !conditions || !cJSON_AddItemToArray(rules, rule)) {
		cJSON_Delete(rule);
		cJSON_Delete(names);
		cJSON_Delete(conditions);
		return no_memory(err);
	}
	if (!cJSON_AddItemToObject(rule, "names", names)) {
		cJSON_Delete(names);
		cJSON_Delete(conditions);
		return no_memory(err);
	}
	if (cJSON_AddItemToObject(rule, "args", conditions))
		return 0;
	cJSON_Delete(conditions);
	return no_memory(err);
}

/* What else the rule says, for these calls and conditions. */
static int add_copy(cJSON *rules, const cJSON *rule, cJSON *names, cJSON *conditions,
		    struct pg_error *err)
{
	cJSON *copy = cJSON_Duplicate(rule, true);

	if (copy) {
		cJSON_DeleteItemFromObjectCaseSensitive(copy, "name");
		cJSON_DeleteItemFromObjectCaseSensitive(copy, "names");
		cJSON_DeleteItemFromObjectCaseSensitive(copy, "args");
	}
	return add_owned(rules, copy, names, conditions, err);
}

static bool add_condition(cJSON *conditions, unsigned int index, uint64_t mask, uint64_t value)
{
	cJSON *condition = cJSON_CreateObject();

	if (!condition || !cJSON_AddItemToArray(conditions, condition)) {
		cJSON_Delete(condition);
		return false;
	}
	return cJSON_AddNumberToObject(condition, "index", index) &&
	       cJSON_AddNumberToObject(condition, "value", (double)mask) &&
	       cJSON_AddNumberToObject(condition, "valueTwo", (double)value) &&
	       cJSON_AddStringToObject(condition, "op", "SCMP_CMP_MASKED_EQ");
}

/* What the condition says of a socket of the family; of another argument it is kept. */
static bool add_other(cJSON *conditions, const cJSON *condition, uint64_t family, bool *ret_never)
{
	cJSON *copy;

	if (number_of(condition, "index") == 0) {
		*ret_never |=
			!comparison_of(condition)->holds(family, number_of(condition, "value"),
							 number_of(condition, "valueTwo"));
		return true;
	}
	copy = cJSON_Duplicate(condition, true);
	if (copy && cJSON_AddItemToArray(conditions, copy))
		return true;
	cJSON_Delete(copy);
	return false;
}

/* A condition on the type that SOCK_PACKET does not meet, whatever flags are with it. */
static bool is_no_sock_packet(const cJSON *condition)
{
	const uint64_t value = number_of(condition, "value");

	if (comparison_of(condition)->holds == holds_eq)
		return (value & PG_TYPE_MASK) != SOCK_PACKET;
	return comparison_of(condition)->holds == holds_masked &&
	       ((SOCK_PACKET ^ number_of(condition, "valueTwo")) & value & PG_TYPE_MASK);
}

/*
 * All conditions of the rule, or only one. What allows AF_INET needs one on the type; runtimes
 * would take a second one for an alternative.
 */
static int allow_family(cJSON *rules, const cJSON *rule, const char *call, const cJSON *only,
			uint64_t family, struct pg_error *err)
{
	const cJSON *all = cJSON_GetObjectItemCaseSensitive(rule, "args");
	cJSON *conditions = cJSON_CreateArray();
	bool done = conditions && add_condition(conditions, 0, PG_FAMILY_MASK, family);
	bool never = false, typed = family != AF_INET || !permits(action_of(rule)), unfit = false;

	for (const cJSON *one = all ? all->child : NULL; done && one; one = one->next) {
		if (only && one != only)
			continue;
		done = add_other(conditions, one, family, &never);
		if (typed || number_of(one, "index") != 1)
			continue;
		typed = true;
		unfit = !is_no_sock_packet(one);
	}
	if (!typed)
		done = done && add_condition(conditions, 1, PG_TYPE_HIGH, 0);
	if (!done || never || unfit) {
		cJSON_Delete(conditions);
		if (done && !never)
			return pg_fail(err, -EINVAL, "its types of AF_INET sockets cannot be kept");
		return done ? 0 : no_memory(err);
	}
	return add_copy(rules, rule, cJSON_CreateStringArray(&call, 1), conditions, err);
}

static int allow_families(cJSON *rules, const cJSON *rule, const char *call, const cJSON *only,
			  struct pg_error *err)
{
	int error = 0;

	for (size_t i = 0; !error && i < PG_ARRAY_SIZE(families); i++)
		error = allow_family(rules, rule, call, only, families[i], err);
	return error;
}

/* Runtimes take conditions on one argument for alternatives, and then each condition for one. */
static bool are_alternatives(const cJSON *conditions)
{
	unsigned int seen = 0;

	for (const cJSON *one = conditions ? conditions->child : NULL; one; one = one->next) {
		const unsigned int bit = 1U << number_of(one, "index");

		if (seen & bit)
			return true;
		seen |= bit;
	}
	return false;
}

static int allow_sockets(cJSON *rules, const cJSON *rule, const char *call, struct pg_error *err)
{
	const cJSON *conditions = cJSON_GetObjectItemCaseSensitive(rule, "args");
	int error = 0;

	if (!are_alternatives(conditions))
		return allow_families(rules, rule, call, NULL, err);
	for (const cJSON *one = conditions->child; !error && one; one = one->next)
		error = allow_families(rules, rule, call, one, err);
	return error;
}

static bool is_touched(const char *name)
{
	return is_one_of(name, denied, PG_ARRAY_SIZE(denied)) ||
	       is_one_of(name, makers, PG_ARRAY_SIZE(makers));
}

static int keep_others(cJSON *rules, const cJSON *rule, struct pg_error *err)
{
	const cJSON *names = names_of(rule);
	const cJSON *conditions = cJSON_GetObjectItemCaseSensitive(rule, "args");
	cJSON *others = cJSON_CreateArray();

	for (const cJSON *name = first_name(names); others && name; name = next_name(names, name)) {
		cJSON *copy;

		if (is_touched(name->valuestring))
			continue;
		copy = cJSON_CreateString(name->valuestring);
		if (!copy || !cJSON_AddItemToArray(others, copy)) {
			cJSON_Delete(copy);
			cJSON_Delete(others);
			return no_memory(err);
		}
	}
	if (others && !others->child) {
		cJSON_Delete(others);
		return 0;
	}
	return add_copy(rules, rule, others,
			cJSON_IsArray(conditions) ? cJSON_Duplicate(conditions, true)
						  : cJSON_CreateArray(),
			err);
}

static bool kills(const char *action)
{
	return !permits(action) && strcmp(action, "SCMP_ACT_ERRNO") != 0;
}

int pg_profile_restrict_rule(cJSON *rules, const cJSON *rule, struct pg_error *err)
{
	int error = check_rule(rule, err);
	const cJSON *names;

	if (error)
		return error;
	names = names_of(rule);
	if (kills(action_of(rule))) {
		cJSON *copy = cJSON_Duplicate(rule, true);

		if (copy && cJSON_AddItemToArray(rules, copy))
			return 0;
		cJSON_Delete(copy);
		return no_memory(err);
	}
	error = keep_others(rules, rule, err);
	for (const cJSON *name = first_name(names); !error && name; name = next_name(names, name)) {
		if (!is_one_of(name->valuestring, makers, PG_ARRAY_SIZE(makers)))
			continue;
		error = allow_sockets(rules, rule, name->valuestring, err);
	}
	return error;
}

static bool has_member(const cJSON *rule, const char *name)
{
	const cJSON *member = cJSON_GetObjectItemCaseSensitive(rule, name);

	return member && member->child;
}

/* Whether the base ends who makes the call, however it makes it: that stays. */
static bool is_killed(const cJSON *base, const char *call)
{
	for (const cJSON *rule = base ? base->child : NULL; rule; rule = rule->next) {
		const cJSON *names = names_of(rule);

		if (!kills(action_of(rule)) || has_member(rule, "args") ||
		    has_member(rule, "includes") || has_member(rule, "excludes"))
			continue;
		for (const cJSON *name = first_name(names); name; name = next_name(names, name))
			if (!strcmp(name->valuestring, call))
				return true;
	}
	return false;
}

/* Denies the calls with the errno; takes over conditions. */
static int add_denial(cJSON *rules, const cJSON *base, const char *const *calls, size_t count,
		      cJSON *conditions, int error, struct pg_error *err)
{
	cJSON *rule = cJSON_CreateObject(), *names = cJSON_CreateArray();
	bool done = rule && names && conditions;

	for (size_t i = 0; done && i < count; i++)
		if (!is_killed(base, calls[i]))
			done = cJSON_AddItemToArray(names, cJSON_CreateString(calls[i]));
	done = done && cJSON_AddStringToObject(rule, "action", "SCMP_ACT_ERRNO") &&
	       cJSON_AddNumberToObject(rule, "errnoRet", error);
	if (done && names->child)
		return add_owned(rules, rule, names, conditions, err);
	cJSON_Delete(rule);
	cJSON_Delete(names);
	cJSON_Delete(conditions);
	return done ? 0 : no_memory(err);
}

static int deny_sock_packet(cJSON *rules, const cJSON *base, struct pg_error *err)
{
	cJSON *conditions = cJSON_CreateArray();

	if (!conditions || !add_condition(conditions, 0, PG_FAMILY_MASK, AF_INET) ||
	    !add_condition(conditions, 1, PG_TYPE_MASK, SOCK_PACKET)) {
		cJSON_Delete(conditions);
		return no_memory(err);
	}
	return add_denial(rules, base, makers, PG_ARRAY_SIZE(makers), conditions, EAFNOSUPPORT,
			  err);
}

int pg_profile_deny(cJSON *rules, const cJSON *base, struct pg_error *err)
{
	struct pg_family_block blocks[PG_FAMILY_BLOCKS_MAX];
	const unsigned int count = pg_family_blocks(blocks);
	int error = add_denial(rules, base, denied, PG_ARRAY_SIZE(denied), cJSON_CreateArray(),
			       EPERM, err);

	for (unsigned int i = 0; !error && i < count; i++) {
		cJSON *conditions = cJSON_CreateArray();

		if (!conditions || !add_condition(conditions, 0, blocks[i].mask, blocks[i].value)) {
			cJSON_Delete(conditions);
			return no_memory(err);
		}
		error = add_denial(rules, base, makers, PG_ARRAY_SIZE(makers), conditions,
				   EAFNOSUPPORT, err);
	}
	return error ? error : deny_sock_packet(rules, base, err);
}
