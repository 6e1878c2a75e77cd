/* SPDX-License-Identifier: Apache-2.0 */
/* What the C tests share: failing, time, sockets in the other namespace, an Environment. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "environment/environment.h"

/* Ends the test with the formatted text. */
void fail(const char *format, ...) PG_PRINTF(1, 2) __attribute__((noreturn));

/* CLOCK_REALTIME, the clock of the kernel's packet timestamps. */
uint64_t wall_ns(void);

/* ADDR and port (host order) as a sockaddr; returns its length. */
socklen_t endpoint(const char *address, uint16_t port, struct sockaddr_storage *ret);

/*
 * A bound socket in the network namespace at path (listening, if it is a stream); the caller stays
 * where it is.
 */
int socket_in(const char *namespace, int type, const char *address, uint16_t port);

/* Memory that commands spawned in the Environment map too, by shared_path() of this process. */
void *shared_create(size_t size);
const char *shared_path(void);
void *shared_open(const char *path, size_t size);

struct confinement {
	struct pg_host *host;
	struct pg_policy *policy;
	struct pg_environment *environment;
};

/* The policy document in force in its setup phase. */
void confine(struct confinement *confinement, const char *document);
/* The same, with names: asked of the nameserver, and with these settings. */
void confine_with_names(struct confinement *confinement, const char *document,
			const char *nameserver, const struct pg_dns_settings *settings);
pid_t confine_spawn(struct confinement *confinement, const char *cgroup, char *const *argv);
/* Returns when the phase is in force; the second step is the caller's. */
void confine_switch(struct confinement *confinement, enum pg_phase phase);
/* Closes what is forbidden; returns how many connections. */
size_t confine_close_forbidden(struct confinement *confinement);
/* Handles what is pending, without waiting. */
void confine_process(struct confinement *confinement);
void confine_end(struct confinement *confinement);
