/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What does the same work: nothing in the way, programs that do nothing, Phasegate with sets of
 * several sizes, and what else is in use. scripts/bench makes the network namespaces with rules.
 */
#pragma once

#include "bench.h"

#define CONTENDERS_MAX 24

enum contender_kind {
	CONTENDER_PLAIN, /* no program of ours */
	CONTENDER_EMPTY, /* a program that allows at once at every hook that an Environment has */
	CONTENDER_CONFINED, /* an Environment */
};

struct contender {
	const char *label;     /* of those that differ in entries only */
	char name[BENCH_NAME]; /* with the entries */
	enum contender_kind kind;
	size_t entries; /* of the Environment's set */
	/* The network namespace is NAME-space; NULL: "plain". None works in this process's own, at
	 * whose devices Phasegate has filters. */
	const char *space;
	bool guarded; /* its veth has the guard, or programs that do nothing */
	bool proxy;
	char missing[128]; /* why it does not take part, or empty */
	char path[BENCH_NAMESPACE];
	struct site site;
};

/* The first is the one without a policy. Returns how many there are. */
size_t contenders_open(struct contender contenders[static CONTENDERS_MAX],
		       const struct bench_options *options, const struct machine *machine);
void contenders_close(const struct machine *machine);

/* ---- empty.c */
/* A cgroup below the one without a policy; of the veth, the end in the server's namespace. */
int empty_cgroup_open(const struct machine *machine);
void empty_cgroup_close(const struct machine *machine, int fd);
void empty_attach_veth(unsigned int ifindex);

/* ---- guard.c: of the contender's veth */
/* Enters its address as the Environment's own, as the runtime or the agent would. */
void guard_own(const struct contender *contender, const struct machine *machine);
void guard_attach(const struct contender *contender, const struct bench_options *options,
		  const struct machine *machine);
