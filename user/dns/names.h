/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of a policy's names: asked from trusted upstream servers at load, and again
 * whenever a TTL runs out. Built on c-ares; one thread, driven by one pollable descriptor.
 *
 * An answer counts only along the CNAME chain that starts at the question, and only addresses
 * that pg_addr_is_learnable() accepts are reported; the others are counted as refused.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "net/addr.h"

/* Loading a policy never waits longer than this for DNS. */
#define PG_NAMES_LOAD_MS     5000
/* Queries under way at once; more would overrun a resolver's socket buffer. */
#define PG_NAMES_IN_FLIGHT   128
/* A name is asked again after max(TTL, this), so that TTL 0 cannot make a busy loop. */
#define PG_NAMES_TTL_FLOOR_S 30
/*
 * A TTL counts as at most this, one day, as resolvers do (unbound's default; RFC 8767, 4 lets
 * them), so that a server cannot fill the room for learned addresses for years, nor keep one
 * allowed.
 */
#define PG_NAMES_TTL_MAX_S   86400
/* How soon a name that failed is tried again. */
#define PG_NAMES_RETRY_S     10

struct pg_names;

/*
 * Called for each address of an answer. name is the index into the names given; ttl in seconds as
 * the server said it, at most PG_NAMES_TTL_MAX_S. Returns 0, or a negative errno if the address
 * could not be stored (which counts as a failed lookup of the name).
 */
typedef int (*pg_names_learned)(void *userdata, size_t name, const struct pg_addr *addr,
				uint32_t ttl);

/*
 * The host's own nameservers (/etc/resolv.conf or path if not NULL), at most max of them.
 * -ENOENT if there is none.
 */
int pg_names_host_servers(const char *path, struct pg_endpoint *ret_servers, size_t max,
			  size_t *ret_count, struct pg_error *err) PG_MUST_CHECK;

/* names are host names in normal form; the strings must outlive the object. */
int pg_names_new(const struct pg_endpoint *servers, size_t server_count, const char *const *names,
		 size_t name_count, pg_names_learned learned, void *userdata,
		 struct pg_names **ret_names, struct pg_error *err) PG_MUST_CHECK;
void pg_names_free(struct pg_names *names);
static inline void pg_names_freep(struct pg_names **names)
{
	pg_names_free(*names);
}

/*
 * Asks for A and AAAA of every name and waits until all have an answer or timeout_ms has passed.
 * Returns the number of names without any address (each then has pg_names_failure()), or a
 * negative errno; -ECANCELED if interrupt_fd (-1: none) became readable. Lookups that are late go
 * on in the background.
 */
int pg_names_load(struct pg_names *names, int timeout_ms, int interrupt_fd,
		  struct pg_error *err) PG_MUST_CHECK;

/* Why the name has no address now, as a short text, or NULL if it has one. */
const char *pg_names_failure(const struct pg_names *names, size_t name);

/* Becomes readable whenever pg_names_process() has something to do. */
int pg_names_fd(const struct pg_names *names);

/* Handles answers, time-outs and names that are due. Does not block. */
int pg_names_process(struct pg_names *names, struct pg_error *err) PG_MUST_CHECK;
