/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host ends of the namespaces in which members have executed something, as the kernel has noted
 * them (abi/host_end.h).
 */
#pragma once

#include <phasegate/abi/host_end.h>

#include "kernel.h"

/* Whether it is noted. */
bool pg_host_end_read(struct pg_kernel *kernel, const struct pg_host_end_key *key,
		      struct pg_host_end *ret_end);
/* As it was read, unless the kernel has noted it again. */
void pg_host_end_restore(struct pg_kernel *kernel, const struct pg_host_end_key *key,
			 const struct pg_host_end *end);
void pg_host_end_forget(struct pg_kernel *kernel, const struct pg_host_end_key *key);
/* Those that the callback does not want to keep. */
typedef bool (*pg_host_end_keep)(void *userdata, const struct pg_host_end_key *key);
void pg_host_ends_sweep(struct pg_kernel *kernel, pg_host_end_keep keep, void *userdata);
/* All of the Environment. */
void pg_host_ends_forget(struct pg_kernel *kernel, uint64_t env_id);
