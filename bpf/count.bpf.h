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

	if (reason >= PG_REASON_COUNT)
		return PG_DENY;
	__sync_fetch_and_add(&counters->verdict[what][verdict == PG_ALLOW], 1);
	__sync_fetch_and_add(&counters->reason[reason], 1);
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
