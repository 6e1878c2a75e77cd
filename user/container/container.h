/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers as their runtimes know them: Docker and Podman are asked over their Unix sockets;
 * containerd, which has no HTTP API, is read from its state in the file system.
 *
 *   container.c   finding one by name or id, in one runtime or in all
 *   http.c        a bounded GET over a Unix socket (libcurl)
 *   inspect.c     what the replies of Docker's API say; pure functions
 *   containerd.c  the state directory of containerd
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "net/addr.h"

struct pg_json;

/* X(symbol, name, default path): a socket; of containerd the directory of its state. */
#define PG_RUNTIMES(X) \
	X(DOCKER, "docker", "/run/docker.sock") \
	X(PODMAN, "podman", "/run/podman/podman.sock") \
	X(CONTAINERD, "containerd", "/run/containerd")

enum pg_runtime {
#define PG_X(symbol, name, path) PG_RUNTIME_##symbol,
	PG_RUNTIMES(PG_X)
#undef PG_X
};
#define PG_X(symbol, name, path) +1
enum {
	PG_RUNTIME_COUNT = PG_RUNTIMES(PG_X)
};
#undef PG_X

const char *pg_runtime_name(enum pg_runtime runtime);
int pg_runtime_parse(const char *name, enum pg_runtime *ret_runtime) PG_MUST_CHECK;

/* Where the runtimes are, and until when all requests together may last. */
struct pg_runtimes {
	const char *paths[PG_RUNTIME_COUNT];
	uint64_t deadline; /* CLOCK_MONOTONIC ns */
	/* Set by another thread: nobody waits for the answers any more. NULL: that is not said. */
	const atomic_bool *cancelled;
};
/* A runtime that runs answers within some ten milliseconds. */
#define PG_RUNTIME_WAIT_MS 5000

/* Networks of one container that are looked at; Docker users have one or two. */
#define PG_CONTAINER_NETWORKS_MAX 8
#define PG_CONTAINER_DNS_MAX	  3
#define PG_CONTAINER_PROXIES_MAX  8
/* Names that were given to it with an address: a line each of a command or a Compose file. */
#define PG_CONTAINER_HOSTS_MAX	  256

/* Devices that are asked for by name; what it has beyond them is seen in it. */
#define PG_CONTAINER_DEVICES_MAX 32
/* So it is with mounts. */
#define PG_CONTAINER_MOUNTS_MAX	 64

struct pg_container_network {
	char *name;
	bool internal;		 /* has no way out */
	bool ip4, ip6;		 /* the container has an address of the family there */
	struct pg_addr addrs[2]; /* of the container */
	size_t addr_count;
	struct pg_addr gateways[2];
	size_t gateway_count;
};

struct pg_container_proxy {
	const char *variable; /* of the list of those that programs look at */
	char *value;	      /* without user and password */
};

struct pg_container_mount {
	char *source; /* a path of the host */
	bool read_only;
};

struct pg_container_host {
	char *name;
	bool gateway; /* the address is the host's own, by the runtime's choice */
	struct pg_addr addr;
};

struct pg_container {
	enum pg_runtime runtime;
	char *id;
	char *name; /* the id if it has no other */
	pid_t pid;
	bool privileged;
	/* What executes it: "runc", "io.containerd.kata.v2"; NULL: not known. */
	char *executor;
	char *devices[PG_CONTAINER_DEVICES_MAX]; /* of the host that it was given, as paths */
	size_t device_count;
	struct pg_container_mount mounts[PG_CONTAINER_MOUNTS_MAX]; /* of the host's files */
	size_t mount_count;
	/* "none", "host", "container:ID", the name of a network, or a runtime's own word for a
	 * namespace with a network; NULL: not known. */
	char *network_mode;
	struct pg_container_network networks[PG_CONTAINER_NETWORKS_MAX];
	size_t network_count;
	struct pg_addr dns[PG_CONTAINER_DNS_MAX]; /* nameservers that its maker chose */
	size_t dns_count;
	/* Files of the host that are its /etc/resolv.conf and /etc/hosts; NULL: none. What is
	 * in the container may have written them since. */
	char *resolv_conf, *hosts;
	uint64_t started; /* CLOCK_REALTIME ns; 0: not known */
	struct pg_container_host *extra_hosts;
	size_t extra_host_count;
	char *project, *service; /* of Compose; NULL: none */
	struct pg_container_proxy proxies[PG_CONTAINER_PROXIES_MAX];
	size_t proxy_count;
};

void pg_container_clear(struct pg_container *container);
#define pg_autocontainer PG_CLEANUP(pg_container_clear)

/*
 * The running container of this name, id or unambiguous beginning of an id. -ENOENT: there is
 * none; -ESRCH: it does not run; -ENOTUNIQ: several could be meant; -EINVAL: nothing could have
 * that name; -ENOTCONN: no runtime is there; -ETIMEDOUT, -EPROTO, -EFBIG, -EACCES and others: a
 * runtime does not answer as it should; -ENOMEM.
 */
int pg_container_find(const struct pg_runtimes *runtimes, enum pg_runtime runtime, const char *name,
		      struct pg_container *ret_container, struct pg_error *err) PG_MUST_CHECK;
/* The same in all runtimes that are there. */
int pg_container_find_any(const struct pg_runtimes *runtimes, const char *name,
			  struct pg_container *ret_container, struct pg_error *err) PG_MUST_CHECK;

/* A running container as a list of them shows it; texts live as long as the list. */
struct pg_neighbour {
	const char *id, *name, *project, *service, *network_mode; /* NULL: none or not known */
};
struct pg_neighbours {
	struct pg_json *json; /* what the texts are of */
	struct pg_neighbour *items;
	size_t count;
};

/* All containers of the runtime that run; of containerd none, since its state says nothing of
 * projects. */
int pg_container_list(const struct pg_runtimes *runtimes, enum pg_runtime runtime,
		      struct pg_neighbours *ret_neighbours, struct pg_error *err) PG_MUST_CHECK;
void pg_neighbours_clear(struct pg_neighbours *neighbours);
#define pg_autoneighbours PG_CLEANUP(pg_neighbours_clear)

/* The id in "container:ID", NULL for any other mode. */
const char *pg_network_owner(const char *network_mode);
