/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <phasegate/abi/exec.h>

#include "parts.h"

/* Later than the C library's headers of the oldest systems. */
#define PERFMON 38
#define BPF	39

/* X(capability, exposure, what it is good for) */
#define RIGHTS(X) \
	X(CAP_SYS_ADMIN, CAP_SYS_ADMIN, "can mount cgroups and leave its own") \
	X(CAP_SYS_MODULE, CAP_SYS_MODULE, "can load code into the kernel") \
	X(CAP_SYS_RAWIO, CAP_SYS_RAWIO, "can write to memory and disks") \
	X(CAP_DAC_READ_SEARCH, CAP_DAC_READ_SEARCH, "can open files of the host by their handles") \
	X(BPF, CAP_BPF, "can load programs of its own into the kernel") \
	X(PERFMON, CAP_BPF, "can look into the kernel") \
	X(CAP_NET_ADMIN, CAP_NET_ADMIN, \
	  "can make interfaces on those of the host, to which its veth leads")

static const struct {
	int capability;
	enum pg_exposure_id id;
	const char *name, *purpose;
} rights[] = {
#define PG_X(capability, exposure, purpose) \
	{capability, PG_EXPOSURE_##exposure, #capability, purpose},
	RIGHTS(PG_X)
#undef PG_X
};

static void add(struct pg_inspection *inspection, enum pg_exposure_id id, const char *what)
{
	pg_exposures_add(inspection->found, id, inspection->member, "%s %s", inspection->name,
			 what);
}

void pg_inspect_executed(struct pg_inspection *inspection, uint64_t executed)
{
	if (executed & PG_EXEC_HOST_PIDS)
		add(inspection, PG_EXPOSURE_HOST_PID_PTRACE,
		    "is in the host's pid namespace and has CAP_SYS_PTRACE: it can act as any"
		    " process of the host");
	/* Nothing can guard the host's own interfaces. */
	if (executed & PG_EXEC_HOST_NETWORK)
		add(inspection, PG_EXPOSURE_UNGUARDED_LINK,
		    "uses the host's network and may have CAP_NET_RAW or CAP_NET_ADMIN: what it"
		    " sends by packet sockets is judged by nothing");
	if (executed & PG_EXEC_PRIVILEGED &&
	    !pg_exposures_have(inspection->found, PG_EXPOSURE_PRIVILEGED, inspection->member))
		add(inspection, PG_EXPOSURE_PRIVILEGED,
		    "has all capabilities: its root can leave it, and with it the policy");
	for (size_t i = 0; i < PG_ARRAY_SIZE(rights); i++)
		if (executed & PG_EXEC_CAPABILITY(rights[i].capability))
			pg_exposures_add(inspection->found, rights[i].id, inspection->member,
					 "%s has %s%s: it %s", inspection->name,
					 strncmp(rights[i].name, "CAP_", 4) == 0 ? "" : "CAP_",
					 rights[i].name, rights[i].purpose);
}

uint64_t pg_inspect_rights_of(enum pg_exposure_id id)
{
	uint64_t found = 0;

	for (size_t i = 0; i < PG_ARRAY_SIZE(rights); i++)
		if (rights[i].id == id)
			found |= PG_EXEC_CAPABILITY(rights[i].capability);
	if (id == PG_EXPOSURE_PRIVILEGED)
		found = PG_EXEC_PRIVILEGED;
	if (id == PG_EXPOSURE_UNGUARDED_LINK)
		found = PG_EXEC_HOST_NETWORK;
	if (id == PG_EXPOSURE_HOST_PID_PTRACE)
		found = PG_EXEC_HOST_PIDS;
	return found;
}

void pg_inspect_rights(struct pg_inspection *inspection, const struct pg_process *process)
{
	const bool host_pids = pg_same_namespace(process->proc_fd, "pid", "self");
	/* What it has in a user namespace of its own it has over nothing of the host. */
	uint64_t found =
		process->own_user
			? pg_exec_rights(process->capabilities,
					 pg_same_namespace(process->proc_fd, "net", "self"),
					 host_pids)
			: 0;

	if (host_pids && !(found & PG_EXEC_HOST_PIDS))
		add(inspection, PG_EXPOSURE_HOST_PID,
		    "is in the host's pid namespace: it sees the host's processes, and can act as"
		    " those of the same user that have no more capabilities, unless the host's"
		    " kernel.yama.ptrace_scope forbids it");
	/* A runtime may have said so. */
	if (pg_exposures_have(inspection->found, PG_EXPOSURE_PRIVILEGED, inspection->member))
		found &= PG_EXEC_HOST_PIDS | PG_EXEC_HOST_NETWORK;
	pg_inspect_executed(inspection, found);
}

/* How the runtimes are called whose containers have a kernel or a network stack of their own. */
static const char *const sandboxes[] = {"runsc",       "gvisor", "kata",
					"firecracker", "krun",	 "cloud-hypervisor"};

void pg_inspect_runtime(struct pg_inspection *inspection, const char *runtime)
{
	for (size_t i = 0; runtime && i < PG_ARRAY_SIZE(sandboxes); i++) {
		if (!strcasestr(runtime, sandboxes[i]))
			continue;
		pg_exposures_add(inspection->found, PG_EXPOSURE_SANDBOX_RUNTIME, inspection->member,
				 "%s is run by %s: its sockets are not those of this kernel, so"
				 " what they send is not judged by who sends it",
				 inspection->name, runtime);
		return;
	}
}
