/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What network namespaces were when the first program was executed there that may change them
 * (abi/begun.h). Namespaces by their cookies; 0: it is not known.
 */
#pragma once

#include <phasegate/abi/begun.h>

#include "kernel.h"

enum pg_begun_found {
	PG_BEGUN_UNKNOWN, /* nobody can tell */
	PG_BEGUN_NOT,	  /* none has been seen there so far */
	PG_BEGUN_SO,	  /* one has; the first, unless that was missed */
};

/* From then on it can be told, of those that the kernel sees begin (kernel/exec.h). */
int pg_begun_start(struct pg_kernel *kernel, struct pg_error *err) PG_MUST_CHECK;
/* *ret_missed, unless nobody can tell: how many could not be seen, in whatever namespace, since the
 * maps were made. */
enum pg_begun_found pg_begun_read(struct pg_kernel *kernel, uint64_t cookie,
				  struct pg_begun *ret_begun, uint32_t *ret_missed);
/* The namespace has gone. */
void pg_begun_forget(struct pg_kernel *kernel, uint64_t cookie);
/* All that programs of the Environment have begun in. */
void pg_begun_forget_all(struct pg_kernel *kernel, uint64_t env_id);
