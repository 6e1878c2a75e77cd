/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_internal.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/log.h"

/* Kernel memory of the programs and of the maps that have a fixed size, for the advice on locked
 * memory: mostly the hash tables of flows and addresses and the outer maps. */
#define FIXED_BYTES (8UL * 1024 * 1024)

static int log_libbpf(enum libbpf_print_level level, const char *format, va_list arguments)
{
	char line[512];

	if (!pg_log_enabled(PG_LOG_DEBUG) || level == LIBBPF_DEBUG)
		return 0;
	vsnprintf(line, sizeof(line), format, arguments);
	line[strcspn(line, "\n")] = '\0';
	pg_log_debug("%s", line);
	return 0;
}

static int handle_event(void *context, void *data, size_t size)
{
	const struct pg_event_parked *parked = data;
	struct pg_kernel *kernel = context;

	if (!kernel->sink || size < sizeof(struct pg_event))
		return 0;
	if (parked->event.kind == PG_EVENT_PARKED &&
	    (size < sizeof(*parked) || parked->size > sizeof(parked->data)))
		return 0;
	if (parked->event.kind == PG_EVENT_EXEC && size < sizeof(struct pg_event_exec))
		return 0;
	kernel->sink(kernel->sink_userdata, data);
	return 0;
}

int pg_fail_map(struct pg_error *err, int number, const char *operation, const char *name,
		size_t bytes)
{
	struct rlimit limit;

	pg_fail_errno(err, number, "%s the BPF map %s", operation, name);
	if (number == -EPERM && !getrlimit(RLIMIT_MEMLOCK, &limit) &&
	    limit.rlim_cur != RLIM_INFINITY)
		pg_error_prefix(err,
				"about %zu KiB of locked memory are needed, the limit is %llu KiB;"
				" raise it with 'ulimit -l unlimited' if the kernel is older than"
				" 5.11",
				bytes / 1024, (unsigned long long)limit.rlim_cur / 1024);
	return number;
}

static int load(struct pg_kernel *kernel, struct pg_error *err)
{
	int error = phasegate_bpf__load(kernel->skeleton);

	if (error == -EPERM)
		return pg_fail_map(err, error, "loading the programs and creating", "tables",
				   FIXED_BYTES);
	if (error)
		return pg_fail_errno(err, error,
				     "loading the BPF programs into the kernel (run 'phasegate"
				     " doctor' to see what is missing)");
	return 0;
}

int pg_kernel_open(const char *pins, struct pg_kernel **ret_kernel, struct pg_error *err)
{
	PG_CLEANUP(pg_kernel_freep) struct pg_kernel *kernel = calloc(1, sizeof(*kernel));
	int error = 0;

	if (!kernel)
		return pg_fail(err, -ENOMEM, "not enough memory for the kernel state");
	kernel->set_slots.max = kernel->learned_slots.max = PG_SLOT_MAX;
	kernel->state_slots.max = PG_ENVIRONMENT_MAX;
	kernel->pinned = pins != NULL;
	kernel->link_new = pg_link_new_handle(pins);
	kernel->emptying.sets.empty = kernel->emptying.learned.empty = -1;
	LIST_INIT(&kernel->puts);
	libbpf_set_print(log_libbpf);
	kernel->skeleton = phasegate_bpf__open();
	if (!kernel->skeleton)
		return pg_fail_errno(err, -errno, "opening the BPF object");
	if (pins)
		error = pg_maps_adopt(kernel, pins, &kernel->adopted, err);
	if (!error)
		error = load(kernel, err);
	if (!error && pins && !kernel->adopted)
		error = pg_maps_pin(kernel, pins, err);
	if (error)
		return error;
	pg_states_map(kernel);
	error = pg_flow_counts_map(kernel, err);
	if (!error && kernel->adopted)
		error = pg_own_read(kernel, err);
	if (error)
		return error;
	kernel->events = ring_buffer__new(bpf_map__fd(kernel->skeleton->maps.pg_events),
					  handle_event, kernel, NULL);
	if (!kernel->events)
		return pg_fail_errno(err, -errno, "mapping the event ring buffer");
	*ret_kernel = PG_TAKE_PTR(kernel);
	return 0;
}

void pg_kernel_free(struct pg_kernel *kernel)
{
	if (!kernel)
		return;
	/* Before anything is loaded there are none. */
	if (kernel->pinned && kernel->events)
		pg_outer_empty(kernel);
	pg_outer_end(kernel);
	ring_buffer__free(kernel->events);
	pg_states_unmap(kernel);
	pg_flow_counts_unmap(kernel);
	links_bpf__destroy(kernel->links);
	phasegate_bpf__destroy(kernel->skeleton);
	pg_own_book_clear(&kernel->own);
	free(kernel);
}

bool pg_kernel_has_adopted(const struct pg_kernel *kernel)
{
	return kernel->adopted;
}

int pg_kernel_mark_map_fd(const struct pg_kernel *kernel)
{
	return bpf_map__fd(kernel->skeleton->maps.pg_marks);
}

void pg_events_set_sink(struct pg_kernel *kernel, pg_event_sink sink, void *userdata)
{
	kernel->sink = sink;
	kernel->sink_userdata = userdata;
}

int pg_events_fd(const struct pg_kernel *kernel)
{
	return ring_buffer__epoll_fd(kernel->events);
}

int pg_events_process(struct pg_kernel *kernel, struct pg_error *err)
{
	int count = ring_buffer__consume(kernel->events);

	return count < 0 ? pg_fail_errno(err, count, "reading the event ring buffer") : 0;
}

void pg_wait_for_hooks(const struct pg_kernel *kernel)
{
	const __u32 unused_slot = 0;

	/* MEMBARRIER_CMD_GLOBAL is synchronize_rcu(); it is refused only with nohz_full. There,
	 * changing a map-in-map does the same (maybe_wait_bpf_programs() in kernel/bpf/syscall.c).
	 */
	if (!syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
		return;
	bpf_map_delete_elem(bpf_map__fd(kernel->skeleton->maps.pg_sets), &unused_slot);
}

void pg_kernel_synchronize(struct pg_kernel *kernel)
{
	pg_wait_for_hooks(kernel);
	pg_slots_reclaim(&kernel->state_slots);
}
