/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters and events. Counts are atomic: a hook run may interrupt another on the same CPU. */
#pragma once

#include "facts.h"
#include "maps.bpf.h"
#include "view.bpf.h"

static __always_inline enum pg_verdict pg_count(struct pg_counters *counters, enum pg_count what,
						enum pg_reason reason)
{
	enum pg_verdict verdict = pg_reason_verdict(reason);
	__u32 index = reason;

	/* The verifier has to see the bound on the value that is the index, before it is one. */
	barrier_var(index);
	if (index >= PG_REASON_COUNT)
		return PG_DENY;
	__sync_fetch_and_add(&counters->verdict[what][verdict == PG_ALLOW], 1);
	__sync_fetch_and_add(&counters->reason[index], 1);
	return verdict;
}

static __always_inline void pg_event_fill(struct pg_event *event, const struct pg_view *view,
					  const struct pg_facts *facts, enum pg_event_kind kind,
					  enum pg_reason reason)
{
	__builtin_memset(event, 0, sizeof(*event));
	event->env_id = view->header->env_id;
	event->cgroup_id = view->header->cgroup_id;
	event->generation = view->generation;
	event->netns = facts->netns;
	event->time = bpf_ktime_get_boot_ns();
	event->local = facts->local;
	event->remote = facts->remote;
	event->local_port = facts->local_port;
	event->remote_port = facts->remote_port;
	event->phase = view->phase;
	event->kind = kind;
	event->reason = reason;
	event->protocol = facts->protocol;
}

static __always_inline void pg_report(const struct pg_view *view, const struct pg_facts *facts,
				      enum pg_event_kind kind, enum pg_reason reason,
				      struct pg_counters *counters)
{
	struct pg_event *event = bpf_ringbuf_reserve(&pg_events, sizeof(*event), 0);

	if (!event) {
		__sync_fetch_and_add(&counters->events_lost, 1);
		return;
	}
	pg_event_fill(event, view, facts, kind, reason);
	bpf_ringbuf_submit(event, 0);
}

/*
 * Whether the Environment may report one more denial in this second. CPUs that ask at once may
 * report one more each, and at the turn of a second as many more as one that was interrupted right
 * here takes back; a second that is over does not begin again.
 */
static __always_inline bool pg_may_report_denied(const struct pg_header *header, __u64 now)
{
	struct pg_event_budget *budget;
	__u32 index = header->state;
	__u64 second = now / 1000000000;

	budget = bpf_map_lookup_elem(&pg_event_budgets, &index);
	if (!budget || pg_events_are_half_full())
		return false;
	if (budget->second < second) {
		budget->second = second;
		budget->sent = 0;
	}
	if (budget->sent >= PG_EVENT_DENIED_PER_S)
		return false;
	__sync_fetch_and_add(&budget->sent, 1);
	return true;
}

/* A source that user space does not know: it looks at once whether the address is a new one. */
static __always_inline void pg_report_source(const struct pg_view *view,
					     const struct pg_facts *facts,
					     struct pg_counters *counters)
{
	const __u64 second = bpf_ktime_get_boot_ns() / 1000000000;
	__u32 index = view->header->state;
	struct pg_event_budget *budget = bpf_map_lookup_elem(&pg_event_budgets, &index);

	if (!budget)
		return;
	if (budget->source_second < second) {
		budget->source_second = second;
		budget->sources = 0;
	}
	if (budget->sources >= PG_EVENT_SOURCE_PER_S)
		return;
	__sync_fetch_and_add(&budget->sources, 1);
	pg_report(view, facts, PG_EVENT_UNKNOWN_SOURCE, PG_REASON_SOURCE, counters);
}

static __always_inline void pg_report_denied(const struct pg_view *view,
					     const struct pg_facts *facts, enum pg_count what,
					     enum pg_reason reason, struct pg_counters *counters)
{
	struct pg_event *event;

	if (!pg_header_valid(view->header) || !(view->header->flags & PG_HEADER_EVENTS))
		return;
	if (!pg_may_report_denied(view->header, bpf_ktime_get_boot_ns())) {
		__sync_fetch_and_add(&counters->events_suppressed, 1);
		return;
	}
	event = bpf_ringbuf_reserve(&pg_events, sizeof(*event), 0);
	if (!event) {
		__sync_fetch_and_add(&counters->events_lost, 1);
		return;
	}
	pg_event_fill(event, view, facts, PG_EVENT_DENIED, reason);
	event->what = what;
	bpf_ringbuf_submit(event, 0);
}
