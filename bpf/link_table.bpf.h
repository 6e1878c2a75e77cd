/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a veth's guard remembers (abi/link.h): who opened what the kernel answers, and who is there.
 * Two CPUs that write one place may mix two records; both are of what came in, or of what may go.
 */
#pragma once

#include "facts.h"
#include "flow.bpf.h"
#include "maps.bpf.h"
#include "packet.bpf.h"
#include "view.bpf.h"

#define PG_FLOW_IDLE_S (PG_FLOW_IDLE_NS / 1000000000)

static __always_inline __u32 pg_link_now(void)
{
	return bpf_ktime_get_boot_ns() / 1000000000;
}

/* Of streams: in about microseconds. Whoever is there for longer than an hour may seem new. */
static __always_inline __u32 pg_link_instant(void)
{
	return bpf_ktime_get_boot_ns() >> 10;
}

static __always_inline __u32 pg_link_hash(const struct pg_addr *addr, __u32 hash)
{
	const __u32 odd = 0x9e3779b1;

	/* What addresses of one network differ in comes first, so that all bits depend on it: its
	 * last octet is the word's highest. */
	hash = (hash ^ addr->word[3]) * odd;
	hash = (hash ^ addr->word[2] ^ hash >> 15) * odd;
	hash = (hash ^ addr->word[1] ^ hash >> 15) * odd;
	hash = (hash ^ addr->word[0] ^ hash >> 15) * odd;
	return hash ^ hash >> 16;
}

/* 1 or 0 without a branch, both ways of which the verifier would follow to the end. */
static __always_inline __u64 pg_is_zero(__u64 below_2_to_63)
{
	barrier_var(below_2_to_63);
	return (below_2_to_63 - 1) >> 63;
}

static __always_inline __u32 pg_link_flow_hash(const struct pg_link_flow *key)
{
	const __u32 ports = (__u32)key->local_port << 16 | key->remote_port;

	return pg_link_hash(&key->remote, ports ^ key->protocol);
}

static __always_inline struct pg_link_flow *pg_link_stream_place(struct pg_link_table *table,
								 __u32 hash, __u32 way)
{
	__u32 index = (hash * PG_LINK_STREAM_WAYS + way) & (PG_LINK_STREAMS - 1);

	barrier_var(index);
	return &table->streams[index & (PG_LINK_STREAMS - 1)];
}

static __always_inline __u64 pg_link_flow_difference(const struct pg_link_flow *place,
						     const struct pg_link_flow *key)
{
	return pg_addr_difference(&place->remote, &key->remote) |
	       (__u32)(place->local_port ^ key->local_port) |
	       (__u32)(place->remote_port ^ key->remote_port) |
	       (__u32)(place->protocol ^ key->protocol);
}

/* Of streams the place that has the key, if there is one. */
static __always_inline struct pg_link_flow *pg_link_place(struct pg_link_table *table,
							  const struct pg_link_flow *key)
{
	__u32 hash = pg_link_flow_hash(key), found = 0;

	if (key->protocol == IPPROTO_UDP) {
		hash &= PG_LINK_DATAGRAMS - 1;
		barrier_var(hash);
		return &table->datagrams[hash & (PG_LINK_DATAGRAMS - 1)];
	}
#pragma unroll
	for (__u32 way = 1; way < PG_LINK_STREAM_WAYS; way++) {
		const struct pg_link_flow *place = pg_link_stream_place(table, hash, way);

		found |= way & -(__u32)pg_is_zero(pg_link_flow_difference(place, key));
	}
	return pg_link_stream_place(table, hash, found);
}

/* Of a stream that has none: that of who was there first. */
static __always_inline struct pg_link_flow *pg_link_oldest_place(struct pg_link_table *table,
								 const struct pg_link_flow *key)
{
	const __u32 hash = pg_link_flow_hash(key), now = pg_link_instant();
	__u32 oldest = 0;
	__u64 age = 0;

#pragma unroll
	for (__u32 way = 0; way < PG_LINK_STREAM_WAYS; way++) {
		const struct pg_link_flow *place = pg_link_stream_place(table, hash, way);
		const __u64 other = (__u32)(now - place->seen) | pg_is_zero(place->protocol) << 32;
		const __u64 older = -((age - other) >> 63);

		oldest ^= (oldest ^ way) & older;
		age ^= (age ^ other) & older;
	}
	return pg_link_stream_place(table, hash, oldest);
}

static __always_inline bool pg_link_is_same(const struct pg_link_flow *place,
					    const struct pg_link_flow *key)
{
	return place->protocol == key->protocol && place->local_port == key->local_port &&
	       place->remote_port == key->remote_port &&
	       pg_addr_equal(&place->remote, &key->remote);
}

static __always_inline void pg_link_put(struct pg_link_flow *place, const struct pg_link_flow *key,
					enum pg_direction direction)
{
	place->protocol = 0;
	barrier();
	place->remote = key->remote;
	place->local_port = key->local_port;
	place->remote_port = key->remote_port;
	place->direction = direction;
	place->generation = key->generation;
	place->seen = key->protocol == IPPROTO_UDP ? pg_link_now() : pg_link_instant();
	barrier();
	place->protocol = key->protocol;
}

/* Something came in. */
static __always_inline void pg_link_record_inbound(struct pg_link_table *table,
						   const struct pg_link_flow *key)
{
	struct pg_link_flow *place = pg_link_place(table, key);
	const __u32 now = pg_link_now();

	if (key->protocol == IPPROTO_UDP) {
		/* What went out has the place, this or another: it may be an answer. */
		if (place->protocol && place->direction == PG_FLOW_OUTBOUND &&
		    now - place->seen < PG_FLOW_IDLE_S) {
			if (place->seen != now)
				place->seen = now;
			return;
		}
		if (now < table->barred)
			return;
	}
	if (pg_link_is_same(place, key) && place->direction == PG_FLOW_INBOUND &&
	    place->generation == key->generation)
		return;
	if (key->protocol != IPPROTO_UDP && !pg_link_is_same(place, key))
		place = pg_link_oldest_place(table, key);
	pg_link_put(place, key, PG_FLOW_INBOUND);
}

/* A datagram goes out: unless something came in first, in this generation, no answer. */
static __always_inline void pg_link_record_outbound(struct pg_link_table *table,
						    const struct pg_link_flow *key)
{
	struct pg_link_flow *place = pg_link_place(table, key);
	const __u32 now = pg_link_now();

	if (!pg_link_is_same(place, key)) {
		pg_link_put(place, key, PG_FLOW_OUTBOUND);
		return;
	}
	if (place->direction == PG_FLOW_INBOUND && place->generation != key->generation)
		place->direction = PG_FLOW_OUTBOUND;
	if (place->seen != now)
		place->seen = now;
}

/* One goes out that cannot be read. */
static __always_inline void pg_link_bar(struct pg_link_table *table)
{
	const __u32 until = pg_link_now() + PG_FLOW_IDLE_S;

	if (table->barred != until)
		table->barred = until;
}

/* Whether it was opened from outside; all but TCP in this generation, as UDP flows (flow.h). */
static __always_inline bool pg_link_is_inbound(struct pg_link_table *table,
					       const struct pg_link_flow *key)
{
	struct pg_link_flow *place = pg_link_place(table, key);

	return pg_link_is_same(place, key) && place->direction == PG_FLOW_INBOUND &&
	       (key->protocol == IPPROTO_TCP || place->generation == key->generation);
}

/* Whether no router is needed for it. What is farther away may be said to be anywhere: whoever
 * sends a frame in its name is not believed. */
static __always_inline bool pg_link_is_near(const struct pg_link_stations *stations,
					    const struct pg_addr *addr)
{
	__u64 found = pg_addr_is_link_local(addr);

#pragma unroll
	for (__u32 i = 0; i < PG_LINK_NETWORKS; i++) {
		const struct pg_link_network *network = &stations->networks[i];
		__u32 difference = 0;

#pragma unroll
		for (__u32 word = 0; word < 4; word++)
			difference |= (addr->word[word] & network->mask.word[word]) ^
				      network->addr.word[word];
		found |= pg_is_zero(difference | (__u64)(i >= stations->network_count) << 32);
	}
	return found;
}

static __always_inline struct pg_link_ack *pg_link_ack_place(struct pg_link_table *table,
							     const struct pg_link_flow *key)
{
	__u32 index = pg_link_hash(&key->remote, (__u32)key->local_port << 16 | key->remote_port);

	index &= PG_LINK_ACKS - 1;
	barrier_var(index);
	return &table->acks[index & (PG_LINK_ACKS - 1)];
}

static __always_inline __u8 *pg_link_asked_place(struct pg_link_table *table,
						 const struct pg_addr *remote)
{
	__u32 index = pg_link_hash(remote, 0) & (PG_LINK_ASKED - 1);

	barrier_var(index);
	return &table->asked[index & (PG_LINK_ASKED - 1)];
}

/* A segment goes out. Whoever answers may acknowledge what the workload likes, later, too. */
static __always_inline void pg_link_record_asked(struct pg_link_table *table,
						 const struct pg_addr *remote)
{
	__u8 *place = pg_link_asked_place(table, remote);

	if (!*place)
		*place = 1;
}

/* The same, unless it is of a connection that was opened from outside. Without a SYN, too: a router
 * on the way may take any segment for the beginning of one. Returns whether it was recorded. */
static __always_inline bool pg_link_record_stream(struct pg_link_table *table,
						  const struct pg_link_flow *tuple, bool syn)
{
	if (!syn && pg_link_is_inbound(table, tuple))
		return false;
	pg_link_record_asked(table, &tuple->remote);
	return true;
}

static __always_inline bool pg_link_has_asked(struct pg_link_table *table,
					      const struct pg_addr *remote)
{
	return table->asked_any || *pg_link_asked_place(table, remote);
}

/* A bit of the tuple, in the first half, and of its remote address, in the second. */
static __always_inline __u32 pg_link_sent_tuple(const struct pg_link_flow *key, __u32 number)
{
	const __u32 ports = (__u32)key->local_port << 16 | key->remote_port;

	return pg_link_hash(&key->remote, ports ^ number) & (PG_LINK_SENT / 2 - 1);
}

static __always_inline __u32 pg_link_sent_address(const struct pg_link_flow *key, __u32 number)
{
	return PG_LINK_SENT / 2 | (pg_link_hash(&key->remote, number) & (PG_LINK_SENT / 2 - 1));
}

static __always_inline __u32 *pg_link_sent_word(struct pg_link_table *table, __u32 bit)
{
	__u32 index = bit / 32;

	barrier_var(index);
	return &table->sent[index & (PG_LINK_SENT / 32 - 1)];
}

static __always_inline bool pg_link_sent_has(struct pg_link_table *table, __u32 bit)
{
	return *pg_link_sent_word(table, bit) >> (bit & 31) & 1;
}

/* No bit that another CPU sets in the same word gets lost. */
static __always_inline void pg_link_sent_set(struct pg_link_table *table, __u32 bit)
{
	__u32 *word = pg_link_sent_word(table, bit);
	const __u32 mask = 1U << (bit & 31);

	if (*word & mask)
		return;
	bpf_spin_lock(&table->lock);
	*word |= mask;
	bpf_spin_unlock(&table->lock);
}

static __always_inline void pg_link_record_sent(struct pg_link_table *table,
						const struct pg_link_flow *key)
{
	pg_link_sent_set(table, pg_link_sent_tuple(key, 0));
	pg_link_sent_set(table, pg_link_sent_tuple(key, ~0U));
	pg_link_sent_set(table, pg_link_sent_address(key, 0));
	pg_link_sent_set(table, pg_link_sent_address(key, ~0U));
}

static __always_inline bool pg_link_has_sent(struct pg_link_table *table,
					     const struct pg_link_flow *key)
{
	return table->sent_any || (pg_link_sent_has(table, pg_link_sent_tuple(key, 0)) &&
				   pg_link_sent_has(table, pg_link_sent_tuple(key, ~0U)) &&
				   pg_link_sent_has(table, pg_link_sent_address(key, 0)) &&
				   pg_link_sent_has(table, pg_link_sent_address(key, ~0U)));
}

static __always_inline void pg_link_record_ack(struct pg_link_table *table,
					       const struct pg_link_flow *key, __u32 number)
{
	struct pg_link_ack *place = pg_link_ack_place(table, key);

	place->remote = key->remote;
	place->local_port = key->local_port;
	place->remote_port = key->remote_port;
	place->generation = key->generation;
	place->number = number;
}

/*
 * Whether the connection that is being accepted was opened from outside: its SYN or the segment
 * that completes it came in by a veth. A process with a packet socket could have made them inside.
 */
static __always_inline bool pg_link_confirms(struct pg_link_table *table,
					     const struct pg_header *header,
					     const struct pg_mark *accepted, __be16 local_port,
					     __u32 next)
{
	struct pg_link_flow key = {.protocol = IPPROTO_TCP};
	struct pg_link_ack *ack;
	struct pg_view view;

	key.remote = accepted->remote;
	key.local_port = local_port;
	key.remote_port = accepted->remote_port;
	if (pg_link_is_inbound(table, &key))
		return true;
	if (pg_link_has_asked(table, &key.remote))
		return false;
	ack = pg_link_ack_place(table, &key);
	/* The whole tuple: whoever knows the hash finds another with the same. In this generation:
	 * numbers repeat within minutes, and an older one is of a connection that went out. */
	pg_view_read(&view, header);
	return pg_addr_equal(&ack->remote, &key.remote) && ack->local_port == local_port &&
	       ack->remote_port == key.remote_port && ack->number == next &&
	       ack->generation == (__u32)view.generation;
}

static __always_inline void pg_link_key_fill(struct pg_link_flow *key, const struct pg_view *view,
					     const struct pg_facts *facts)
{
	key->remote = facts->remote;
	key->local_port = facts->local_port;
	key->remote_port = facts->remote_port;
	key->protocol = facts->protocol;
	key->generation = (__u32)view->generation;
}
