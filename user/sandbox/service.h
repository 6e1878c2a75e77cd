/* SPDX-License-Identifier: Apache-2.0 */
/* What a service of ours may do once it works. */
#pragma once

#include <stddef.h>

#include "base/error.h"

/*
 * X(family): of its sockets. AF_VSOCK is only tried, by what verifies an Environment from inside.
 */
#define PG_SERVICE_FAMILIES(X) X(AF_UNIX) X(AF_INET) X(AF_INET6) X(AF_NETLINK) X(AF_VSOCK)

/*
 * From here on this process, all of its threads and its children make only these system calls, and
 * socket(2) of PG_SERVICE_FAMILIES. Any other fails with EPERM, and is named in the log once: by a
 * handler of SIGSYS, which must not be blocked. no_new_privs has to be set, or CAP_SYS_ADMIN be
 * there. Names that this machine does not have are passed over.
 */
int pg_service_confine(const char *const *calls, size_t count, struct pg_error *err) PG_MUST_CHECK;
