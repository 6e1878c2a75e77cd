// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What is executed in an Environment with rights that no policy can hold, and that the operator
 * refuses, is ended before its first instruction. A policy could not close what it may do: a
 * macvlan on the host's card passes no hook. An object of its own, since it may be that the kernel
 * does not let it be attached.
 */
#include <vmlinux.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include <phasegate/abi/exec.h>

#include "begun.bpf.h"
#include "host_end.bpf.h"
#include "maps_shared.bpf.h"
#include "task.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before the load: of the agent's namespaces. */
const volatile __u32 pg_pid_namespace, pg_net_namespace;

#define PG_SIGKILL	     9
/* MAX_PID_NS_LEVEL */
#define PG_PID_NAMESPACE_MAX 32

/* The id of the task's cgroup at the level; 0: it is not that deep. */
static __always_inline __u64 pg_cgroup_at(struct task_struct *task, int level)
{
	const struct cgroup___ids *cgroup;
	__u64 id = 0;

	/* Since Linux 6.1 programs of this kind can ask for it. */
	if (!bpf_core_field_exists(struct cgroup___ids, ancestor_ids))
		return bpf_get_current_ancestor_cgroup_id(level);
	cgroup = (const struct cgroup___ids *)task->cgroups->dfl_cgrp;
	if (level <= cgroup->level)
		bpf_probe_read_kernel(&id, sizeof(id), &cgroup->ancestor_ids[level]);
	return id;
}

/* The member that the task is in. */
static __always_inline struct pg_member *pg_find_member(struct task_struct *task, __u64 *id)
{
	struct pg_member *member;

#pragma unroll
	for (int level = 1; level <= PG_MEMBER_LEVEL_MAX; level++) {
		*id = pg_cgroup_at(task, level);
		if (!*id)
			return NULL;
		member = bpf_map_lookup_elem(&pg_members, id);
		if (member)
			return member;
	}
	return NULL;
}

/* The agent's pid namespace, or the outermost one if the task is in none below it. */
static __always_inline struct pid_namespace *pg_host_pids(struct nsproxy *own)
{
	struct pid_namespace *pids = own->pid_ns_for_children;

	for (int i = 0; i < PG_PID_NAMESPACE_MAX; i++) {
		struct pid_namespace *parent = pids->parent;

		if (pids->ns.inum == pg_pid_namespace || !parent)
			break;
		pids = parent;
	}
	return pids;
}

/*
 * Whether it is the host's: it has its root directory, as a container runtime has until the
 * container is set up, and its hooks; or, if a runtime has another one (snap), all of these
 * namespaces.
 */
static __always_inline bool pg_is_of_host(struct task_struct *task, struct pid_namespace *pids)
{
	struct task_struct *init = pids->child_reaper;
	struct nsproxy *own = task->nsproxy, *host = init->nsproxy;

	if (task->fs->root.dentry == init->fs->root.dentry)
		return true;
	return own->pid_ns_for_children == pids && own->uts_ns == host->uts_ns &&
	       own->ipc_ns == host->ipc_ns && own->cgroup_ns == host->cgroup_ns;
}

/* CPUs that ask at once may report one more each. */
static __always_inline bool pg_may_report_exec(struct pg_member *member, __u64 now)
{
	const __u32 second = now / 1000000000;

	if (pg_events_are_half_full())
		return false;
	if (member->exec_second != second) {
		member->exec_second = second;
		member->exec_reported = 0;
	}
	if (member->exec_reported >= PG_EVENT_EXEC_PER_S)
		return false;
	__sync_fetch_and_add(&member->exec_reported, 1);
	return true;
}

static __always_inline void pg_tell(struct task_struct *task, struct pg_member *member,
				    __u64 member_id, __u64 rights, long error)
{
	const __u64 now = bpf_ktime_get_boot_ns();
	struct pg_event_exec *exec = NULL;

	if (pg_may_report_exec(member, now))
		exec = bpf_ringbuf_reserve(&pg_events, sizeof(*exec), 0);
	if (!exec) {
		__sync_fetch_and_add(&member->exec_suppressed, 1);
		return;
	}
	__builtin_memset(exec, 0, sizeof(*exec));
	exec->event.kind = PG_EVENT_EXEC;
	exec->event.env_id = member->env_id;
	exec->event.cgroup_id = member_id;
	exec->event.time = now;
	exec->rights = rights;
	exec->pid = task->tgid;
	exec->error = (__s32)error;
	bpf_get_current_comm(exec->program, sizeof(exec->program));
	bpf_probe_read_kernel_str(exec->cgroup, sizeof(exec->cgroup),
				  task->cgroups->dfl_cgrp->kn->name);
	bpf_ringbuf_submit(exec, 0);
}

/* Whether it could give itself any address in its network namespace. */
static __always_inline bool pg_may_change_network(struct task_struct *task, const struct cred *cred,
						  struct pid_namespace *pids)
{
	return pg_capability_bits(&cred->cap_bset) & PG_EXEC_CAPABILITY(PG_CAP_NET_ADMIN) &&
	       task->nsproxy->net_ns->ns.inum != pg_net_namespace &&
	       task->fs->root.dentry != pids->child_reaper->fs->root.dentry;
}

/* In the task that executes, which has its new rights and is still in the kernel. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(pg_exec, struct task_struct *task)
{
	const struct cred *cred = task->cred;
	struct pg_member *member;
	struct pid_namespace *pids;
	__u64 member_id, rights;

	member = pg_find_member(task, &member_id);
	if (member && task->nsproxy->net_ns->ns.inum != pg_net_namespace)
		pg_host_ends_note(task->nsproxy->net_ns, pg_net_namespace, member->env_id);
	/* In a user namespace of its own it has no rights over the host. */
	if (!member || cred->user_ns->level)
		return 0;
	pids = pg_host_pids(task->nsproxy);
	rights = pg_exec_rights(pg_task_capabilities(cred),
				task->nsproxy->net_ns->ns.inum == pg_net_namespace,
				task->nsproxy->pid_ns_for_children == pids);
	rights &= member->refused;
	if (rights && !pg_is_of_host(task, pids))
		pg_tell(task, member, member_id, rights, bpf_send_signal(PG_SIGKILL));
	else if (pg_may_change_network(task, cred, pids))
		pg_begun_note(task->nsproxy->net_ns, member->env_id);
	return 0;
}
