/* SPDX-License-Identifier: Apache-2.0 */
/* Private to user/container/. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/error.h"

/*
 * GET of the path from the server behind the Unix socket, which the whole may take until the
 * deadline (CLOCK_MONOTONIC ns), or until *cancelled is set (NULL: never; then it takes a second
 * more at most). The body, which the caller frees, ends with a NUL that *ret_size
 * does not count. -ENOENT: status 404; -ENOTCONN: nobody listens there; -ETIMEDOUT; -EFBIG: more
 * than limit octets; -EPROTO: another status, or no HTTP.
 */
int pg_http_get(const char *socket, const char *path, size_t limit, uint64_t deadline,
		const atomic_bool *cancelled, char **ret_body, size_t *ret_size,
		struct pg_error *err) PG_MUST_CHECK;
