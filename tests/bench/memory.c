/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <inttypes.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/set.h>

#include "kernel/kernel_internal.h"
#include "kernel/statistics_internal.h"

#include "support.h"

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

/* KiB, of a line of /proc/meminfo; 0: there is none. */
static double meminfo(const char *name)
{
	pg_autofclose FILE *file = fopen("/proc/meminfo", "re");
	const size_t length = strlen(name);
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, length) && line[length] == ':')
			return strtod(line + length + 1, NULL);
	return 0;
}

/* Directories and inodes that nobody uses are no more than remembered, such as those of /proc. */
static void drop_unused(void)
{
	pg_autofclose FILE *file = fopen("/proc/sys/vm/drop_caches", "we");

	if (file)
		fputs("2", file);
}

static void add_part(struct memory_parts *parts, const char *name, double octets)
{
	struct memory_part *part = &parts->parts[parts->count];

	if (parts->count == MEMORY_PARTS)
		return;
	snprintf(part->name, sizeof(part->name), "%s", name);
	part->octets = octets;
	parts->count++;
}

/* Objects in use; pages that are half full depend on what was there before. */
static void read_slabs(struct memory_parts *parts)
{
	pg_autofclose FILE *file = fopen("/proc/slabinfo", "re");
	char line[512], name[32];
	uint64_t objects, size;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%31s %" SCNu64 " %*u %" SCNu64, name, &objects, &size) == 3)
			add_part(parts, name, (double)(objects * size));
}

static void read_once(struct memory_parts *parts)
{
	parts->count = 0;
	read_slabs(parts);
	if (parts->count)
		add_part(parts, "memory of the CPUs", meminfo("Percpu") * 1024);
}

/* What is in use for a moment only, and what is given back an RCU period after it was freed, is
 * not in the least of several readings. */
bool memory_read(struct memory_parts *ret, size_t readings)
{
	pg_autofree struct memory_parts *again = calloc(1, sizeof(*again));

	if (!again)
		fail("not enough memory for reading its use");
	drop_unused();
	read_once(ret);
	for (size_t i = 1; i < readings; i++) {
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
		read_once(again);
		for (size_t part = 0; part < ret->count && part < again->count; part++)
			if (again->parts[part].octets < ret->parts[part].octets)
				ret->parts[part].octets = again->parts[part].octets;
	}
	ret->octets = 0;
	for (size_t part = 0; part < ret->count; part++)
		ret->octets += ret->parts[part].octets;
	return ret->count > 0;
}
