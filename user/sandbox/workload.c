/* SPDX-License-Identifier: Apache-2.0 */
#include "workload.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "families.h"
#include "program.h"

/* As if the kernel had no such family: programs have a second way then. */
static int deny_families(scmp_filter_ctx filter, int call)
{
	struct pg_family_block blocks[PG_FAMILY_BLOCKS_MAX];
	const unsigned int count = pg_family_blocks(blocks);
	int error = 0;

	for (unsigned int i = 0; !error && i < count; i++)
		error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAFNOSUPPORT), call, 1,
					 SCMP_A0(SCMP_CMP_MASKED_EQ, blocks[i].mask,
						 blocks[i].value));
	if (error)
		return error;
	return seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAFNOSUPPORT), call, 2,
				SCMP_A0(SCMP_CMP_MASKED_EQ, PG_FAMILY_MASK, AF_INET),
				SCMP_A1(SCMP_CMP_MASKED_EQ, PG_TYPE_MASK, SOCK_PACKET));
}

static const int denied[] = {
#define PG_X(call, why) SCMP_SYS(call),
	PG_DENIED_CALLS(PG_X)
#undef PG_X
};

static int deny_calls(scmp_filter_ctx filter)
{
	int error = 0;

	for (size_t i = 0; !error && i < PG_ARRAY_SIZE(denied); i++)
		error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), denied[i], 0);
	if (!error)
		error = deny_families(filter, SCMP_SYS(socket));
	if (!error)
		error = deny_families(filter, SCMP_SYS(socketpair));
	return error;
}

/* The 32-bit programs that a kernel of this architecture runs, as a rule. */
static int add_32_bit(scmp_filter_ctx filter)
{
	switch (seccomp_arch_native()) {
	case SCMP_ARCH_X86_64:
		return seccomp_arch_add(filter, SCMP_ARCH_X86);
	case SCMP_ARCH_AARCH64:
		return seccomp_arch_add(filter, SCMP_ARCH_ARM);
	default:
		return 0;
	}
}

/*
 * Whatever else the kernel may run, x32 with it, has no system calls. Where socketcall(2) is one,
 * libseccomp lets it make no sockets at all: their family is in memory, where no filter looks.
 */
static int make_filter(scmp_filter_ctx filter)
{
	int error = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));

	if (!error)
		error = add_32_bit(filter);
	return error ? error : deny_calls(filter);
}

static int build_filter(struct sock_fprog *ret_program)
{
	pg_autofilter scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int error = filter ? make_filter(filter) : -ENOMEM;

	return error ? error : pg_program_export(filter, ret_program);
}

int pg_workload_init(struct pg_workload *workload, struct pg_error *err)
{
	int error;

	if (workload->keep[PG_KEEP_SYSCALLS])
		return 0;
	error = build_filter(&workload->filter);
	return error ? pg_fail_errno(err, error, "making the filter of system calls") : 0;
}

void pg_workload_clear(struct pg_workload *workload)
{
	free(workload->filter.filter);
	workload->filter = (struct sock_fprog){};
}

static int load(const struct sock_fprog *filter)
{
	int error;

	if (!filter->len)
		return 0;
	error = pg_program_load(filter, 0);
	if (error != -EACCES)
		return error;
	/* Without CAP_SYS_ADMIN. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return pg_program_load(filter, 0);
}

/* Out of the bounding set: no program gives it back. Out of the others, the ambient set included.
 */
static int drop(int capability)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
	struct __user_cap_data_struct *set = &sets[CAP_TO_INDEX(capability)];

	if (prctl(PR_CAPBSET_READ, capability, 0, 0, 0) > 0 &&
	    prctl(PR_CAPBSET_DROP, capability, 0, 0, 0))
		return -errno;
	if (syscall(SYS_capget, &header, sets))
		return -errno;
	set->effective &= ~CAP_TO_MASK(capability);
	set->permitted &= ~CAP_TO_MASK(capability);
	set->inheritable &= ~CAP_TO_MASK(capability);
	return syscall(SYS_capset, &header, sets) ? -errno : 0;
}

int pg_workload_confine(const struct pg_workload *workload)
{
	int error = load(&workload->filter);

	if (!error && !workload->keep[PG_KEEP_NET_RAW])
		error = drop(CAP_NET_RAW);
	if (!error && !workload->keep[PG_KEEP_NET_ADMIN])
		error = drop(CAP_NET_ADMIN);
	return error;
}
