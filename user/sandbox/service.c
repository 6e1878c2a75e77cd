/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <ucontext.h>

#include "base/log.h"
#include "families.h"
#include "program.h"

#if defined(__x86_64__)
#define RESULT(context) ((context)->uc_mcontext.gregs[REG_RAX])
#elif defined(__aarch64__)
#define RESULT(context) ((context)->uc_mcontext.regs[0])
#endif

#ifdef RESULT
#define DENY SCMP_ACT_TRAP
#else
/* Without a name in the log. */
#define DENY SCMP_ACT_ERRNO(EPERM)
#endif

/* As in the kernel's headers, which cannot be included beside the C library's. */
#ifndef SYS_SECCOMP
#define SYS_SECCOMP 1
#endif

/* Calls beyond are named each time. */
#define CALLS_MAX 1024

#ifdef RESULT
/* Whatever made the call may be in the middle of something, but of nothing that logs. */
static void say(int number, unsigned int architecture)
{
	static atomic_bool said[CALLS_MAX];
	char *name;

	if (number >= 0 && number < CALLS_MAX && atomic_exchange(&said[number], true))
		return;
	name = seccomp_syscall_resolve_num_arch(architecture, number);
	pg_log_warning("the system call %s (%d) is none that the agent makes: it was denied",
		       name ? name : "without a name", number);
	free(name);
}

static void on_denied(int signal_, siginfo_t *info, void *context)
{
	const int saved = errno;

	if (info->si_code != SYS_SECCOMP)
		return;
	say(info->si_syscall, info->si_arch);
	RESULT((ucontext_t *)context) = -EPERM;
	errno = saved;
}
#endif

static int handle(void)
{
#ifdef RESULT
	struct sigaction action = {.sa_sigaction = on_denied, .sa_flags = SA_SIGINFO | SA_NODEFER};

	return sigaction(SIGSYS, &action, NULL) ? -errno : 0;
#else
	return 0;
#endif
}

static const uint64_t families[] = {
#define PG_X(family) family,
	PG_SERVICE_FAMILIES(PG_X)
#undef PG_X
};

static int allow_families(scmp_filter_ctx filter)
{
	int error = 0;

	for (size_t i = 0; !error && i < PG_ARRAY_SIZE(families); i++)
		error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
					 SCMP_A0(SCMP_CMP_MASKED_EQ, PG_FAMILY_MASK, families[i]));
	return error;
}

static int allow(scmp_filter_ctx filter, const char *const *calls, size_t count)
{
	int error = allow_families(filter);

	for (size_t i = 0; !error && i < count; i++) {
		const int number = seccomp_syscall_resolve_name(calls[i]);

		if (number != __NR_SCMP_ERROR)
			error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
	}
	return error;
}

/* A tree instead of a list: it is gone through for every call on kernels before 5.11. */
static int build(scmp_filter_ctx filter, const char *const *calls, size_t count)
{
	int error = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);

	if (!error)
		error = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	return error ? error : allow(filter, calls, count);
}

int pg_service_confine(const char *const *calls, size_t count, struct pg_error *err)
{
	pg_autofilter scmp_filter_ctx filter = seccomp_init(DENY);
	struct sock_fprog program = {};
	int error = filter ? build(filter, calls, count) : -ENOMEM;

	if (!error)
		error = pg_program_export(filter, &program);
	if (!error)
		error = handle();
	if (!error)
		error = pg_program_load(&program, SECCOMP_FILTER_FLAG_TSYNC);
	free(program.filter);
	return error ? pg_fail_errno(err, error, "cannot filter system calls") : 0;
}
