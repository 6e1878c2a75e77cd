/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seccomp profiles of containers: the runtime's own, without what gets around the hooks of a
 * cgroup. What the base does not allow stays denied.
 */
#pragma once

#include <stddef.h>

#include "base/error.h"

/* Many times what runtimes have. */
#define PG_PROFILE_SIZE_MAX 1048576

/*
 * base is a profile as Docker and Podman take it, or an OCI configuration, whose /linux/seccomp is
 * taken. The text is for all of them, and for the caller to free. -EINVAL: base is none.
 */
int pg_profile_restrict(const char *base, size_t size, char **ret_text,
			struct pg_error *err) PG_MUST_CHECK;
