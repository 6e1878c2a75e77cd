/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <inttypes.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/set.h>

#include "kernel/kernel_internal.h"
#include "kernel/statistics_internal.h"

#include "support.h"

/* Of what is freed by now, the last is given back by workers after an RCU period: until nothing
 * more is, for so many periods, but not for ever. */
#define SETTLED_PERIODS 8
#define PERIODS_MAX	400

static uint64_t memlock_of(uint32_t map_id)
{
	pg_autoclose int fd = bpf_map_get_fd_by_id(map_id);

	return fd < 0 ? 0 : pg_statistics_memory(fd);
}

static uint64_t memory_of_set(const struct pg_kernel *kernel, const struct pg_phase_slot *phase)
{
	const int outer = bpf_map__fd(kernel->skeleton->maps.pg_sets);
	uint32_t map_id;

	if (!phase->tables || bpf_map_lookup_elem(outer, &phase->set, &map_id))
		return 0;
	return memlock_of(map_id);
}

uint64_t memory_of_sets(const struct pg_host *host, const struct pg_environment *environment)
{
	struct pg_kernel *kernel = pg_host_kernel(host);
	struct pg_header header;
	struct pg_error err = {0};
	uint64_t bytes = 0;

	if (pg_header_read(kernel, pg_environment_id(environment), &header, &err) < 0)
		fail("%s", err.text);
	for (size_t i = 0; i < PG_PHASE_COUNT; i++) {
		size_t first = 0;

		/* Phases with the same entries share their set. */
		while (header.slots[0][first].set != header.slots[0][i].set)
			first++;
		if (first == i)
			bytes += memory_of_set(kernel, &header.slots[0][i]);
	}
	return bytes;
}

static double slab_and_percpu(void)
{
	pg_autofclose FILE *file = fopen("/proc/meminfo", "re");
	char line[128];
	double bytes = 0;
	uint64_t kib;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Slab: %" SCNu64, &kib) == 1 ||
		    sscanf(line, "Percpu: %" SCNu64, &kib) == 1)
			bytes += (double)kib * 1024;
	return bytes;
}

double memory_of_kernel(void)
{
	double least = slab_and_percpu();

	for (unsigned int periods = 0, settled = 0;
	     settled < SETTLED_PERIODS && periods < PERIODS_MAX; periods++) {
		double now;

		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
		now = slab_and_percpu();
		settled = now < least ? 0 : settled + 1;
		least = now < least ? now : least;
	}
	return least;
}
