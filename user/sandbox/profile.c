/* SPDX-License-Identifier: Apache-2.0 */
#include "profile.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "families.h"
#include "json/scan.h"
#include "profile_rule.h"

static void delete_json(cJSON **json)
{
	cJSON_Delete(*json);
}
#define pg_autocjson PG_CLEANUP(delete_json)

/* cJSON has doubles: what it cannot read exactly it cannot copy. */
static bool is_exact(const cJSON *item)
{
	if (cJSON_IsNumber(item) &&
	    (item->valuedouble > 9007199254740991.0 || item->valuedouble < -9007199254740991.0))
		return false;
	for (const cJSON *child = item->child; child; child = child->next)
		if (!is_exact(child))
			return false;
	return true;
}

static int parse(const char *text, size_t size, cJSON **ret_json, struct pg_error *err)
{
	const struct pg_json_limits limits = {.size = PG_PROFILE_SIZE_MAX,
					      .depth = 32,
					      .values = 200000};
	pg_autofree char *copy = malloc(size + 1);
	struct pg_json_scan scan;

	if (!copy)
		return pg_fail(err, -ENOMEM, "no memory for the profile");
	if (pg_json_scan(text, size, &limits, copy, &scan))
		return pg_fail(err, -EINVAL, "no JSON, or too much of it, at octet %zu",
			       scan.position);
	*ret_json = cJSON_ParseWithLength(copy, scan.size);
	if (!*ret_json)
		return pg_fail(err, -EINVAL, "it is no JSON");
	return is_exact(*ret_json)
		       ? 0
		       : pg_fail(err, -EINVAL, "it has a number that JSON does not keep exactly");
}

/*
 * Those where the family of a socket is an argument of each call that makes one. Filters take calls
 * of others, 32-bit x86 among them, whose socketcall(2) has it in memory, for any family.
 */
static bool has_arguments(const char *architecture)
{
	static const char *const names[] = {"SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64",
					    "SCMP_ARCH_ARM"};

	for (size_t i = 0; architecture && i < PG_ARRAY_SIZE(names); i++)
		if (!strcmp(architecture, names[i]))
			return true;
	return false;
}

static void keep_architectures(cJSON *names)
{
	for (cJSON *name = names ? names->child : NULL, *next; name; name = next) {
		next = name->next;
		if (!has_arguments(cJSON_GetStringValue(name)))
			cJSON_Delete(cJSON_DetachItemViaPointer(names, name));
	}
}

static int restrict_architectures(cJSON *profile, struct pg_error *err)
{
	cJSON *map = cJSON_GetObjectItemCaseSensitive(profile, "archMap");
	cJSON *list = cJSON_GetObjectItemCaseSensitive(profile, "architectures");
	const bool some = (map && map->child) || (list && list->child);

	for (cJSON *entry = map ? map->child : NULL, *next; entry; entry = next) {
		next = entry->next;
		if (has_arguments(cJSON_GetStringValue(
			    cJSON_GetObjectItemCaseSensitive(entry, "architecture"))))
			keep_architectures(
				cJSON_GetObjectItemCaseSensitive(entry, "subArchitectures"));
		else
			cJSON_Delete(cJSON_DetachItemViaPointer(map, entry));
	}
	keep_architectures(list);
	if (some && !(map && map->child) && !(list && list->child))
		return pg_fail(err, -EINVAL, "it is for neither x86-64 nor arm64");
	return 0;
}

static int restrict_profile(cJSON *profile, struct pg_error *err)
{
	const cJSON *action = cJSON_GetObjectItemCaseSensitive(profile, "defaultAction");
	cJSON *rules = cJSON_GetObjectItemCaseSensitive(profile, "syscalls");
	pg_autocjson cJSON *restricted = cJSON_CreateArray();
	int error, place = 0;

	if (!cJSON_IsString(action))
		return pg_fail(err, -EINVAL, "no seccomp profile: it has no defaultAction");
	if (rules && !cJSON_IsNull(rules) && !cJSON_IsArray(rules))
		return pg_fail(err, -EINVAL, "/syscalls is no list");
	if (!restricted)
		return pg_fail(err, -ENOMEM, "no memory for the profile");
	error = restrict_architectures(profile, err);
	if (error)
		return error;
	for (const cJSON *rule = rules ? rules->child : NULL; rule; rule = rule->next, place++) {
		error = pg_profile_restrict_rule(restricted, rule, err);
		if (error)
			return pg_error_prefix(err, "/syscalls/%d", place);
	}
	error = pg_profile_deny(restricted, rules, err);
	if (error)
		return error;
	cJSON_DeleteItemFromObjectCaseSensitive(profile, "syscalls");
	if (!cJSON_AddItemToObject(profile, "syscalls", restricted))
		return pg_fail(err, -ENOMEM, "no memory for the profile");
	(void)PG_TAKE_PTR(restricted);
	return 0;
}

int pg_profile_restrict(const char *base, size_t size, char **ret_text, struct pg_error *err)
{
	pg_autocjson cJSON *json = NULL;
	cJSON *profile, *linux_;
	int error = parse(base, size, &json, err);

	if (error)
		return error;
	linux_ = cJSON_GetObjectItemCaseSensitive(json, "linux");
	profile = linux_ ? cJSON_GetObjectItemCaseSensitive(linux_, "seccomp") : json;
	if (!cJSON_IsObject(profile))
		return pg_fail(err, -EINVAL, "no seccomp profile: %s",
			       linux_ ? "the container has none, as one that is privileged or"
					" unconfined; take another's"
				      : "it is no object");
	error = restrict_profile(profile, err);
	if (error)
		return error;
	*ret_text = cJSON_Print(profile);
	return *ret_text ? 0 : pg_fail(err, -ENOMEM, "no memory for the profile");
}
