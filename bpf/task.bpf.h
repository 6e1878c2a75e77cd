/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the kernel has of a task. */
#pragma once

#include <vmlinux.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "kernel.bpf.h"

struct ns_common {
	unsigned int inum;
} PG_KERNEL_TYPE;

struct pid_namespace {
	struct task_struct *child_reaper;
	struct pid_namespace *parent;
	struct ns_common ns;
} PG_KERNEL_TYPE;

struct list_head {
	struct list_head *next;
} PG_KERNEL_TYPE;

struct net {
	struct ns_common ns;
	struct list_head dev_base_head;
} PG_KERNEL_TYPE;

/* Before Linux 5.12 another type. */
struct net___cookie {
	__u64 net_cookie;
} PG_KERNEL_TYPE;

struct nsproxy {
	struct uts_namespace *uts_ns;
	struct ipc_namespace *ipc_ns;
	struct pid_namespace *pid_ns_for_children;
	struct net *net_ns;
	struct cgroup_namespace *cgroup_ns;
} PG_KERNEL_TYPE;

struct user_namespace {
	int level;
} PG_KERNEL_TYPE;

/* A number of 64 bits, or, before Linux 6.3, two of 32. */
struct pg_capabilities {
	__u64 bits;
};

struct cred {
	struct pg_capabilities cap_inheritable, cap_permitted, cap_effective, cap_bset, cap_ambient;
	struct user_namespace *user_ns;
} PG_KERNEL_TYPE;

struct dentry;

struct path {
	struct dentry *dentry;
} PG_KERNEL_TYPE;

struct fs_struct {
	struct path root;
} PG_KERNEL_TYPE;

struct kernfs_node {
	const char *name;
} PG_KERNEL_TYPE;

struct cgroup {
	struct kernfs_node *kn;
} PG_KERNEL_TYPE;

/* Before Linux 6.1. */
struct cgroup___ids {
	int level;
	__u64 ancestor_ids[];
} PG_KERNEL_TYPE;

struct css_set {
	struct cgroup *dfl_cgrp;
} PG_KERNEL_TYPE;

struct task_struct {
	int tgid;
	const struct cred *cred;
	struct fs_struct *fs;
	struct nsproxy *nsproxy;
	struct css_set *cgroups;
} PG_KERNEL_TYPE;

static __always_inline __u64 pg_capability_bits(const struct pg_capabilities *set)
{
	return set->bits;
}

/* What it has, what it may get by executing something, and what it hands on. */
static __always_inline __u64 pg_task_capabilities(const struct cred *cred)
{
	return pg_capability_bits(&cred->cap_inheritable) |
	       pg_capability_bits(&cred->cap_permitted) | pg_capability_bits(&cred->cap_effective) |
	       pg_capability_bits(&cred->cap_bset) | pg_capability_bits(&cred->cap_ambient);
}
