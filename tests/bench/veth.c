/* SPDX-License-Identifier: Apache-2.0 */
/* Work under ten entries with the guard on the veth besides, and without any of it, in turns. */
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>

#include "environment/environment.h"
#include "kernel/kernel.h"
#include "kernel/link.h"

#define CLIENT "192.0.2.2"
#define DEVICE "eth0" /* on both sides */

struct guarded {
	struct pg_kernel *kernel;
	struct pg_environment *environment;
	int here, server; /* network namespaces */
};

static void enter(int namespace)
{
	if (setns(namespace, CLONE_NEWNET) < 0)
		fail("entering a network namespace: %s", strerror(errno));
}

static void guard(const struct guarded *guarded, bool on)
{
	struct pg_error err = {0};
	struct pg_header header;
	unsigned int ifindex;
	int error;

	enter(guarded->server);
	ifindex = if_nametoindex(DEVICE);
	if (on) {
		error = pg_header_read(guarded->kernel,
				       pg_environment_member_id(guarded->environment, 0), &header,
				       &err);
		if (!error)
			error = pg_link_put(guarded->kernel, ifindex, &header, 0, NULL, &err);
		if (!error)
			error = pg_link_attach(guarded->kernel, ifindex, &err);
	} else {
		error = pg_link_detach(ifindex, &err);
		pg_link_forget(guarded->kernel, ifindex);
	}
	enter(guarded->here);
	if (error < 0)
		fail("%s", err.text);
}

static struct measurement measure(const struct guarded *guarded, size_t workload, bool on,
				  const struct bench_options *options,
				  const struct machine *machine)
{
	const struct site site = {
		.host = machine->host,
		.plain_cgroup = machine->plain_cgroup,
		.environment = on ? guarded->environment : NULL,
	};
	struct measurement measured;

	if (on)
		guard(guarded, true);
	measured = worker_finish(&site, worker_start(&site, workload, options->slice_ms));
	if (on)
		guard(guarded, false);
	return measured;
}

static void put_row(const struct guarded *guarded, size_t workload,
		    const struct bench_options *options, const struct machine *machine)
{
	double rates[BENCH_ROUNDS], cpu[BENCH_ROUNDS];

	for (size_t round = 0; round < options->rounds; round++) {
		struct measurement measured[2];

		for (size_t turn = 0; turn < 2; turn++) {
			const bool on = (round + turn) % 2;

			measured[on] = measure(guarded, workload, on, options, machine);
		}
		rates[round] = measured[true].rate / measured[false].rate;
		cpu[round] = measured[false].cpu_ns / measured[true].cpu_ns;
	}
	results_cell("guard", workloads[workload].name, "rate", "",
		     quartiles_of(rates, options->rounds));
	results_cell("guard", workloads[workload].name, "CPU", "",
		     quartiles_of(cpu, options->rounds));
}

void table_veth(const struct bench_options *options, struct machine *machine)
{
	pg_autofree char *document = set_document(BENCH_SMALL);
	struct confined confined = confined_create(machine->host, document);
	pg_autoclose int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	pg_autoclose int server = open(options->server, O_RDONLY | O_CLOEXEC);
	const struct guarded guarded = {
		.kernel = pg_host_kernel(machine->host),
		.environment = confined.environment,
		.here = here,
		.server = server,
	};
	struct pg_addr client = {0};
	struct pg_error err = {0};

	client.word[2] = htonl(0xffff);
	client.word[3] = inet_addr(CLIENT);
	if (here < 0 || server < 0 ||
	    pg_own_add(guarded.kernel, pg_environment_id(guarded.environment), &client, 0, &err) <
		    0)
		fail("preparing the guard of the veth: %s", err.text);
	results_table("guard", "The guard of a veth", "");
	for (size_t i = 0; i < workload_count; i++)
		put_row(&guarded, i, options, machine);
	confined_destroy(&confined);
}
