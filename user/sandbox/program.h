/* SPDX-License-Identifier: Apache-2.0 */
/* Private to this folder: what libseccomp has compiled. */
#pragma once

#include <linux/filter.h>
#include <seccomp.h>

#include "base/cleanup.h"

void pg_program_release(scmp_filter_ctx *filter);
#define pg_autofilter PG_CLEANUP(pg_program_release)

/* The filter's instructions, to be loaded without libseccomp, in a child or in all threads. */
int pg_program_export(scmp_filter_ctx filter, struct sock_fprog *ret_program) PG_MUST_CHECK;

/* seccomp(2) with SECCOMP_SET_MODE_FILTER; negative errno. */
int pg_program_load(const struct sock_fprog *program, unsigned int flags) PG_MUST_CHECK;
