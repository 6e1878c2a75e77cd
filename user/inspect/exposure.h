/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can get around hooks on cgroups and links, since it is no matter of the network: one list of
 * kinds for the agent, its settings, docs/openapi.yaml and the tests. The ids are stable.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/cleanup.h"

/* X(symbol, id, level, next step) */
#define PG_EXPOSURES(X) \
	X(PRIVILEGED, "privileged", REFUSE, "start the container without --privileged") \
	X(SANDBOX_RUNTIME, "sandbox_runtime", REFUSE, \
	  "run it with runc or crun: what another kernel or network stack sends is not judged as " \
	  "its own") \
	X(DEVICE_TUN, "device_tun", REFUSE, "start it without --device /dev/net/tun") \
	X(DEVICE_VHOST, "device_vhost", REFUSE, "start it without that --device") \
	X(DEVICE_KVM, "device_kvm", REFUSE, "start it without --device /dev/kvm") \
	X(DEVICE_INFINIBAND, "device_infiniband", REFUSE, "start it without that --device") \
	X(DEVICE_VFIO, "device_vfio", REFUSE, "start it without that --device") \
	X(DEVICE_HOST, "device_host", REFUSE, "start it without that --device") \
	X(RUNTIME_SOCKET, "runtime_socket", REFUSE, \
	  "start it without that mount: whoever speaks to the socket starts processes on the " \
	  "host") \
	X(HOST_SOCKET, "host_socket", WARN, \
	  "who listens there can send in its place: start it without that mount, or confine that " \
	  "one, too") \
	X(HOST_FILES, "host_files", REFUSE, "start it without that mount, or mount it read-only") \
	X(BPF_FILES, "bpf_files", REFUSE, "start it without a mount of a BPF file system") \
	X(CGROUP_WRITABLE, "cgroup_writable", REFUSE, \
	  "mount cgroups read-only, or start it with a cgroup namespace of its own") \
	X(PROC_WRITABLE, "proc_writable", REFUSE, \
	  "start it without systempaths=unconfined and without a mount of /proc") \
	X(HOST_PID_PTRACE, "host_pid_ptrace", REFUSE, \
	  "start it without --pid host, or without CAP_SYS_PTRACE") \
	X(HOST_PID, "host_pid", WARN, "start it without --pid host") \
	X(CAP_SYS_ADMIN, "cap_sys_admin", REFUSE, "start it with --cap-drop SYS_ADMIN") \
	X(CAP_SYS_MODULE, "cap_sys_module", REFUSE, "start it with --cap-drop SYS_MODULE") \
	X(CAP_SYS_RAWIO, "cap_sys_rawio", REFUSE, "start it with --cap-drop SYS_RAWIO") \
	X(CAP_DAC_READ_SEARCH, "cap_dac_read_search", REFUSE, \
	  "start it with --cap-drop DAC_READ_SEARCH") \
	X(CAP_BPF, "cap_bpf", REFUSE, "start it with --cap-drop BPF --cap-drop PERFMON") \
	X(CAP_NET_ADMIN, "cap_net_admin", REFUSE, \
	  "start it without NET_ADMIN, or in a user namespace of its own") \
	X(FOREIGN_SOCKET, "foreign_socket", REFUSE, \
	  "start it without descriptors of sockets of another network namespace") \
	X(PACKET_SOCKET, "packet_socket", REFUSE, \
	  "close packet sockets of another network namespace before it is confined") \
	X(VSOCK_SOCKET, "vsock_socket", REFUSE, "close AF_VSOCK sockets before it is confined") \
	X(VSOCK, "vsock", WARN, "start it with a seccomp profile that denies AF_VSOCK") \
	X(VSOCK_FILTERED, "vsock_filtered", LIST, \
	  "make sure that its seccomp profile denies AF_VSOCK") \
	X(UNGUARDED_LINK, "unguarded_link", REFUSE, \
	  "start it with --cap-drop NET_RAW and without NET_ADMIN, or in a network with a veth") \
	X(HOST_PROCESS, "host_process", WARN, \
	  "start it in a container, or as a user without privileges") \
	X(NOT_INSPECTED, "not_inspected", WARN, "look into the agent's log")

enum pg_exposure_id {
#define PG_X(symbol, id, level, next_step) PG_EXPOSURE_##symbol,
	PG_EXPOSURES(PG_X)
#undef PG_X
};
#define PG_X(symbol, id, level, next_step) +1
enum {
	PG_EXPOSURE_COUNT = PG_EXPOSURES(PG_X)
};
#undef PG_X

/* X(symbol, name): what is done where there is one. */
#define PG_EXPOSURE_LEVELS(X) \
	X(REFUSE, "refuse") \
	X(ASK, "ask") /* refused unless the request names it */ \
	X(WARN, "warn") \
	X(LIST, "list") /* shown of the Environment, and no warning */

enum pg_exposure_level {
#define PG_X(symbol, name) PG_EXPOSURE_##symbol,
	PG_EXPOSURE_LEVELS(PG_X)
#undef PG_X
};

const char *pg_exposure_name(enum pg_exposure_id id);
const char *pg_exposure_next_step(enum pg_exposure_id id);
enum pg_exposure_level pg_exposure_default(enum pg_exposure_id id);
const char *pg_exposure_level_name(enum pg_exposure_level level);
int pg_exposure_parse(const char *name, enum pg_exposure_id *ret_id) PG_MUST_CHECK;
int pg_exposure_level_parse(const char *name, enum pg_exposure_level *ret_level) PG_MUST_CHECK;

/* One that was found. */
struct pg_exposure {
	enum pg_exposure_id id;
	size_t member; /* by number */
	char *text;
	bool ended; /* the process is not there any more, because of that */
};

/* Texts of one kind and member that are kept: the others say the same of something else. */
#define PG_EXPOSURE_TEXTS_MAX 8

struct pg_exposure_list {
	struct pg_exposure *items;
	size_t count, room;
	bool incomplete; /* there was no memory for one */
};

void pg_exposures_clear(struct pg_exposure_list *list);
#define pg_autoexposures PG_CLEANUP(pg_exposures_clear)

/* Adds one, unless it is there. What comes from outside is made printable. */
void pg_exposures_add(struct pg_exposure_list *list, enum pg_exposure_id id, size_t member,
		      const char *format, ...) PG_PRINTF(4, 5);
bool pg_exposures_have(const struct pg_exposure_list *list, enum pg_exposure_id id, size_t member);
