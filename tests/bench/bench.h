/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the benchmark share; bench.c says what it is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "environment/environment.h"

#include "results.h"
#include "support.h"

#define BENCH_PORT	     7400
#define BENCH_PORT_HTTP	     7402
#define BENCH_PORT_ALONE     7403
#define BENCH_URL	     "http://" BENCH_TARGET4 ":7402"
#define BENCH_PATH_SMALL     "/small"
#define BENCH_PATH_LARGE     "/large"
#define BENCH_TARGET4	     "198.51.100.10" /* in every set */
#define BENCH_SPREAD	     4096 /* destinations of the work that visits many, at most */
#define BENCH_SMALL	     10
#define BENCH_NAMESPACE	     128 /* of a path */
#define BENCH_PORT_SQUID     3128
#define BENCH_PORT_TINYPROXY 8888
#define BENCH_PROXY4	     "192.0.2.1" /* the server's own address */
#define BENCH_ROUNDS	     512
#define BENCH_ENVIRONMENTS   1024
#define BENCH_LOADS_MAX	     64
#define BENCH_NAME	     64

struct bench_options {
	const char *name;   /* of the cgroup without a policy */
	const char *server; /* the server's network namespace; the caller is in the client's */
	const char *lists;  /* a directory of *cidr*.txt to load too, or NULL */
	const char *output; /* a file for the results, or NULL for standard output */
	const char *lacks;  /* "NAME: REASON" a line, of contenders that are not there, or NULL */
	unsigned int squid, tinyproxy; /* their processes, or 0 */
	const char *only;	       /* names of tables, separated by commas, or NULL for all */
	const char *work;     /* works whose names begin like that, of the table "pairs"; or NULL */
	unsigned int entries; /* of the large set */
	unsigned int rounds;  /* of each workload */
	unsigned int slice_ms; /* of one workload in one round */
	unsigned int switches; /* of each kind */
	unsigned int loads;    /* of each set */
	unsigned int attaches;
	unsigned int environments; /* at once, at most */
};

/* ---- stats.c: sorts in place */

struct quartiles quartiles_of(double *values, size_t count);
/* The value that a part (0.99) of the values do not exceed. values are sorted. */
double percentile_of(const double *values, size_t count, double part);

/* ---- sets.c */

/* Entry i of the generated mixture: half single IPv4, a quarter IPv4 ranges, a quarter IPv6. */
void set_entry(size_t i, char ret_text[static BENCH_NAME]);
/* Single IPv4 address i of the mixture, or of the ranges that the small set has for them. */
uint32_t set_address4(size_t i);
/* Every entry of the set of that size, the target among them. */
typedef void set_receiver(void *userdata, const char *entry);
void set_each(size_t count, set_receiver *receive, void *userdata);
/* Policy documents, to be freed: network_policy has the entries, run_network_policy ten others. */
char *set_document(size_t count);
char *set_document_of(char **entries, size_t count);

/* ---- workload.c, workload_http.c: what the client does, in a process of its own */

/* What a worker is told. */
struct assignment {
	size_t spread;	     /* addresses of the set to visit */
	uint16_t proxy_port; /* for HTTP, or 0 */
	pid_t proxy;
	/* Of the process that starts it: a socket that listens at the server's end, and is nobody's
	 * of the client's cgroup. */
	int listener;
};
typedef void workload_run(const struct assignment *assignment, uint64_t until_ns,
			  uint64_t *operations);
workload_run run_http_kept, run_http_single, run_http_large;

struct workload {
	const char *name, *unit;
	double scale; /* operations to the unit shown */
	workload_run *run;
	bool sockets;	/* no proxy can do it */
	bool alone;	/* one process is both ends: rates are by its CPU time */
	size_t warm_up; /* operations at least */
};
/* By RST: no connection waits afterwards, so that the ports suffice. */
void close_reset(int fd);
/* A connected socket of the client's; type as of socket(2). */
int connected(int type, const char *address, uint16_t port);
extern const struct workload workloads[];
extern const size_t workload_count;
/* Index of the UDP workload, the load under which switches are timed. */
size_t workload_udp(void);

/* ---- worker.c */

struct measurement {
	double rate;   /* operations per second */
	double cpu_ns; /* of the client (and of its proxy), per operation */
};
/* Body of the worker's process: argv = NAME "worker" MEMORY INDEX MILLISECONDS. */
int worker_main(char **argv);

/* A measured run in the Environment, or, if it is NULL, in the cgroup without a policy. */
struct site {
	struct pg_host *host;
	struct pg_environment *environment;
	int plain_cgroup;
	const char *namespace; /* path of the network namespace to work in, or NULL: this one */
	uint16_t proxy_port;
	pid_t proxy;
};
/* Executes argv[0] there. */
pid_t site_spawn(const struct site *site, char *const *argv);
pid_t worker_start(const struct site *site, size_t workload, unsigned int milliseconds);
struct measurement worker_finish(const struct site *site, pid_t pid);
/* Before the first; spread: single IPv4 addresses of the large set to send to; server: its network
 * namespace. */
void worker_memory(size_t spread, const char *server);

/* ---- server.c: a process in the server's namespace that ends with this one */
void server_start(const char *namespace);
/* server_http.c: threads of it; the listener must stay where it is. Negative: errno. */
int server_http_start(int *listener);

/* ---- rules.c: argv = NAME "rules" FORMAT COUNT, to standard output */
int rules_main(char **argv);

/* ---- nameserver.c: another one */
void nameserver_start(const char *namespace);

/* ---- cpu.c: the last CPU is the client's, the first the server's */
void pin_first(void);
void pin_last(void);

/* ---- options.c: ends the program if they are wrong */
void options_parse(struct bench_options *options, int argc, char **argv);

/* ---- machine.c */
void machine_describe(void);

/* ---- the tables */
struct machine {
	struct pg_host *host;
	int plain_cgroup;
	char plain_path[512];
	/* Told of denials, if set. */
	pg_denied denied;
	void *userdata;
};
struct confined {
	struct pg_policy *policy;
	struct pg_environment *environment;
};
/* bench.c */
struct pg_policy *bench_parse(const char *document, uint64_t *ret_ns);
struct confined confined_create(struct pg_host *host, const char *document);
void confined_destroy(struct confined *confined);
/* Forgets the UDP flows of its processes, which are gone: the next one's find the table as empty as
 * the first one's did, and not the Environment's share of it used up. */
void forget_flows(struct pg_host *host, const struct pg_environment *environment);

typedef void bench_table(const struct bench_options *options, struct machine *machine);
bench_table table_environments, table_memory, table_floods, table_accepts, table_programs;
bench_table table_pairs, table_switches, table_loads, table_fixed, table_names;
