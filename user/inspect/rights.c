/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

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

static bool has(const struct pg_process *process, int capability)
{
	return process->capabilities >> capability & 1;
}

/* All that this kernel has. */
static bool has_everything(const struct pg_process *process)
{
	return has(process, CAP_SYS_ADMIN) && has(process, CAP_SYS_MODULE) &&
	       has(process, CAP_SYS_RAWIO) && has(process, CAP_SYS_BOOT) &&
	       has(process, CAP_MAC_ADMIN) && has(process, CAP_SYSLOG);
}

/* In the host's network it is PG_EXPOSURE_UNGUARDED_LINK. */
static bool is_named_elsewhere(const struct pg_process *process, enum pg_exposure_id id)
{
	return id == PG_EXPOSURE_CAP_NET_ADMIN &&
	       pg_same_namespace(process->proc_fd, "net", "self");
}

static void look_at_capabilities(struct pg_inspection *inspection, const struct pg_process *process)
{
	for (size_t i = 0; i < PG_ARRAY_SIZE(rights); i++)
		if (has(process, rights[i].capability) &&
		    !is_named_elsewhere(process, rights[i].id))
			pg_exposures_add(inspection->found, rights[i].id, inspection->member,
					 "%s has %s%s: it %s", inspection->name,
					 strncmp(rights[i].name, "CAP_", 4) == 0 ? "" : "CAP_",
					 rights[i].name, rights[i].purpose);
}

static void look_at_host_pids(struct pg_inspection *inspection, const struct pg_process *process)
{
	if (!pg_same_namespace(process->proc_fd, "pid", "self"))
		return;
	if (process->own_user && has(process, CAP_SYS_PTRACE))
		pg_exposures_add(inspection->found, PG_EXPOSURE_HOST_PID_PTRACE, inspection->member,
				 "%s is in the host's pid namespace and has CAP_SYS_PTRACE: it can"
				 " act as any process of the host",
				 inspection->name);
	else
		pg_exposures_add(inspection->found, PG_EXPOSURE_HOST_PID, inspection->member,
				 "%s is in the host's pid namespace: it sees the host's processes,"
				 " and can act as those of the same user that have no more"
				 " capabilities, unless the host's kernel.yama.ptrace_scope"
				 " forbids it",
				 inspection->name);
}

/* Nothing can guard the host's own interfaces. */
static void look_at_network(struct pg_inspection *inspection, const struct pg_process *process)
{
	if (process->own_user && process->capabilities & PG_NET_CAPABILITIES &&
	    pg_same_namespace(process->proc_fd, "net", "self"))
		pg_exposures_add(inspection->found, PG_EXPOSURE_UNGUARDED_LINK, inspection->member,
				 "%s uses the host's network and may have %s: what it sends by"
				 " packet sockets is judged by nothing",
				 inspection->name,
				 has(process, CAP_NET_RAW) ? "CAP_NET_RAW" : "CAP_NET_ADMIN");
}

void pg_inspect_rights(struct pg_inspection *inspection, const struct pg_process *process)
{
	look_at_host_pids(inspection, process);
	look_at_network(inspection, process);
	/* What it has in a user namespace of its own it has over nothing of the host. */
	if (!process->own_user ||
	    pg_exposures_have(inspection->found, PG_EXPOSURE_PRIVILEGED, inspection->member))
		return;
	if (has_everything(process))
		pg_exposures_add(inspection->found, PG_EXPOSURE_PRIVILEGED, inspection->member,
				 "%s has all capabilities: its root can leave it, and with it the"
				 " policy",
				 inspection->name);
	else
		look_at_capabilities(inspection, process);
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
