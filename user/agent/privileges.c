/* SPDX-License-Identifier: Apache-2.0 */
#include "privileges.h"

#include <errno.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>

#include "base/log.h"
#include "sandbox/service.h"
#include "syscalls.h"

#if defined(__SANITIZE_ADDRESS__)
#define PG_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PG_SANITIZED
#endif
#endif

static const cap_value_t kept[] = {
#define PG_X(capability, purpose) capability,
	PG_CAPABILITIES(PG_X)
#undef PG_X
};

static bool is_kept(cap_value_t capability)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(kept); i++)
		if (kept[i] == capability)
			return true;
	return false;
}

static int drop_bounding(struct pg_error *err)
{
	for (cap_value_t i = 0; i < cap_max_bits(); i++) {
		if (is_kept(i) || cap_get_bound(i) <= 0)
			continue;
		if (cap_drop_bound(i))
			return pg_fail_errno(err, -errno, "cannot drop capability %d", i);
	}
	return 0;
}

/* Of those that are kept only what there is: the agent may have been started with less. */
static int keep(cap_t now, cap_t later, cap_value_t capability)
{
	cap_flag_value_t has = CAP_CLEAR;

	if (cap_get_flag(now, capability, CAP_PERMITTED, &has) || has == CAP_CLEAR)
		return 0;
	if (cap_set_flag(later, CAP_PERMITTED, 1, &capability, CAP_SET) ||
	    cap_set_flag(later, CAP_EFFECTIVE, 1, &capability, CAP_SET))
		return -errno;
	return 0;
}

static int drop_sets(struct pg_error *err)
{
	cap_t now = cap_get_proc(), later = cap_init();
	int error = now && later ? 0 : -errno;

	for (size_t i = 0; !error && i < PG_ARRAY_SIZE(kept); i++)
		error = keep(now, later, kept[i]);
	if (!error && cap_set_proc(later))
		error = -errno;
	cap_free(now);
	cap_free(later);
	return error ? pg_fail_errno(err, error, "cannot drop capabilities") : 0;
}

static void report(cap_t now, cap_value_t capability, const char *name, const char *purpose)
{
	cap_flag_value_t has = CAP_CLEAR;

	if (cap_get_flag(now, capability, CAP_EFFECTIVE, &has) == 0 && has == CAP_SET)
		pg_log_info("keeps %s: %s", name, purpose);
	else
		pg_log_info("was not given %s: %s", name, purpose);
}

static void report_all(void)
{
	cap_t now = cap_get_proc();

	if (!now)
		return;
#define PG_X(capability, purpose) report(now, capability, #capability, purpose);
	PG_CAPABILITIES(PG_X)
#undef PG_X
	cap_free(now);
}

static const char *const calls[] = {
#define PG_X(call) #call,
	PG_CALLS(PG_X)
#undef PG_X
#ifdef PG_SANITIZED
	/* To look for leaks at the end. */
	"getdents",
	"personality",
	"process_vm_readv",
	"ptrace",
#endif
};

/* What is in force does not depend on it, so a kernel that cannot is said, and no more. */
static void filter_calls(void)
{
	struct pg_error err = {};

	if (pg_service_confine(calls, PG_ARRAY_SIZE(calls), &err))
		pg_log_warning("works without a filter: %s", err.text);
	else
		pg_log_info("makes only the %zu system calls that it needs", PG_ARRAY_SIZE(calls));
}

int pg_privileges_drop(struct pg_error *err)
{
	int error;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return pg_fail_errno(err, -errno, "cannot set no_new_privs");
	cap_reset_ambient();
	error = drop_bounding(err);
	if (!error)
		error = drop_sets(err);
	if (error)
		return error;
	report_all();
	filter_calls();
	return 0;
}
