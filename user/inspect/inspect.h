/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process has that hooks on its cgroup and links do not judge. It is looked at from outside,
 * by what the kernel says of it; nothing of it is executed, and no file is opened that it could
 * keep from answering.
 *
 *   exposure.c     the kinds of what is found
 *   inspect.c      a process
 *   rights.c       capabilities, namespaces
 *   mounts.c       what is mounted in it
 *   devices.c      devices that it can open
 *   vsock.c        whether the host has AF_VSOCK
 *   descriptors.c  sockets that it has open
 */
#pragma once

#include "exposure.h"

#include <linux/capability.h>
#include <sys/types.h>

/* Of one member; the rest is counted as not inspected. Texts are read whole or not at all. */
#define PG_INSPECT_PROCESSES_MAX   1024
#define PG_INSPECT_DESCRIPTORS_MAX 16384
#define PG_INSPECT_DEVICES_MAX	   4096
#define PG_INSPECT_TEXT_MAX	   (4UL * 1024 * 1024)

/* A place on the host that nobody in a container may reach. */
struct pg_inspect_place {
	const char *path; /* as the host sees it */
	enum pg_exposure_id id;
};
#define PG_INSPECT_PLACES_MAX 32

/* Where the places are in their file systems. */
struct pg_host_places {
	struct {
		char *path;   /* as the host sees it */
		char *inside; /* in the file system */
		unsigned int major, minor;
		enum pg_exposure_id id;
	} items[PG_INSPECT_PLACES_MAX];
	size_t count;
};

/* mountinfo: of a process of the host. Places that are not there are left out; -ENOMEM. */
int pg_host_places_find(const char *mountinfo, const struct pg_inspect_place *places, size_t count,
			struct pg_host_places *ret_places) PG_MUST_CHECK;
void pg_host_places_clear(struct pg_host_places *places);
#define pg_autohostplaces PG_CLEANUP(pg_host_places_clear)

/* What lets a process send past sockets that hooks judge. */
#define PG_NET_CAPABILITIES (1ULL << CAP_NET_RAW | 1ULL << CAP_NET_ADMIN)

struct pg_inspection {
	const char *name;   /* of the member, for texts: "the container web" */
	size_t member;	    /* by number */
	const char *cgroup; /* of the member: an absolute path below the mount of cgroup2 */
	const struct pg_host_places *places;
	struct pg_exposure_list *found;
	/* out: PG_NET_CAPABILITIES that a process in it may have, the host's own left out */
	uint64_t net_capabilities;
	bool contained;		       /* out: there is a process that is not the host's own */
	bool unfiltered;	       /* out: one of them has no seccomp filter */
	size_t processes, descriptors; /* looked at so far */
	ino_t namespaces[8];	       /* of mounts, looked at last */
	size_t next_namespace;
};

/* Looks at a process of the member. False: it has ended, and nothing is found. */
bool pg_inspect_process(struct pg_inspection *inspection, pid_t pid);

/* A program that was executed in the member: what it had (abi/exec.h). */
void pg_inspect_executed(struct pg_inspection *inspection, uint64_t executed);
/* The rights that are the exposure, as a set of PG_EXEC_*; 0: it is not one of rights. */
uint64_t pg_inspect_rights_of(enum pg_exposure_id id);

/* After all of its processes: whether they may use AF_VSOCK, which no hook sees. */
void pg_inspect_vsock(struct pg_inspection *inspection);

/* What a runtime says of a container. */
void pg_inspect_runtime(struct pg_inspection *inspection, const char *runtime);
void pg_inspect_device(struct pg_inspection *inspection, const char *path);
/* A file or directory of the host that was mounted into it. */
void pg_inspect_source(struct pg_inspection *inspection, const char *path, bool read_only);
