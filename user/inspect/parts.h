/* SPDX-License-Identifier: Apache-2.0 */
/* Private to user/inspect/: a process, and what each part looks at. */
#pragma once

#include "base/process.h"
#include "inspect.h"

struct pg_process {
	pid_t pid;
	int proc_fd;			    /* /proc/PID */
	char *status, *mountinfo, *cgroups; /* texts of /proc/PID */
	uint64_t capabilities;		    /* that it has or may get */
	unsigned int uid;		    /* effective */
	bool own_user;			    /* in the user namespace of this process */
	bool of_host;			    /* its root directory is the host's */
};

void pg_inspect_rights(struct pg_inspection *inspection, const struct pg_process *process);
void pg_inspect_mounts(struct pg_inspection *inspection, const struct pg_process *process);
void pg_inspect_devices(struct pg_inspection *inspection, const struct pg_process *process);
void pg_inspect_descriptors(struct pg_inspection *inspection, const struct pg_process *process);

/* A device by the name that the kernel has for it, "net/tun": what it would be. */
bool pg_device_kind(const char *name, enum pg_exposure_id *ret_id);
/* A line of devices.list allows it: "c 10:200 rwm". Pure function. */
bool pg_devices_allow(const char *list, bool block, unsigned int major, unsigned int minor);

/* Of a zombie nothing can be told. */
bool pg_process_is_alive(const struct pg_process *process);

/* By its name. */
bool pg_is_runtime_socket(const char *path);
