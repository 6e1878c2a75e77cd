/* SPDX-License-Identifier: Apache-2.0 */
/* A resolver with hooks that follow a script and write down what happens, in order. */
#pragma once

#include <criterion/criterion.h>

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "dns/resolver.h"
#include "dns/resolver_internal.h"
#include "fake_server.h"

#define PATIENCE_MS   20000
#define ATTEMPT_MS    200
#define LAB_NAMES_MAX 8
#define LAB_LOG	      4096
#define LAB_UDP	      0
#define LAB_TCP	      1

struct lab {
	struct pg_resolver *resolver;
	unsigned int upstream, own_upstream;
	/* The script. "*.x" is below x. */
	const char *allowed[LAB_NAMES_MAX];
	bool is_public, over_budget;
	const char *allowed_address;
	int commit_result;
	uint64_t generation;
	/* Called at each commit. */
	void (*on_commit)(struct lab *lab);
	/* What happened: "commit NAME ADDRESS TTL" and "reply RCODE COUNT", a line each. */
	char log[LAB_LOG];
	bool quiet; /* no log */
	size_t commits, replies;
	uint8_t reply[PG_DNS_MESSAGE_MAX]; /* the last one */
	size_t reply_size;
};

static inline void lab_note(struct lab *lab, const char *format, ...) PG_PRINTF(2, 3);
static inline void lab_note(struct lab *lab, const char *format, ...)
{
	size_t used = strlen(lab->log);
	va_list arguments;

	if (lab->quiet)
		return;
	va_start(arguments, format);
	vsnprintf(lab->log + used, sizeof(lab->log) - used, format, arguments);
	va_end(arguments);
}

static inline enum pg_name_verdict lab_judge(void *userdata, const char *name)
{
	const struct lab *lab = userdata;

	if (lab->is_public)
		return PG_NAME_UNRESTRICTED;
	for (size_t i = 0; i < LAB_NAMES_MAX && lab->allowed[i]; i++) {
		const char *allowed = lab->allowed[i];
		size_t size = strlen(name), tail = strlen(allowed);

		if (strcmp(allowed, name) == 0)
			return PG_NAME_ALLOWED;
		if (allowed[0] == '*' && size >= tail &&
		    strcmp(name + size - (tail - 1), allowed + 1) == 0)
			return lab->over_budget ? PG_NAME_OVER_BUDGET : PG_NAME_ALLOWED;
	}
	return PG_NAME_DENIED;
}

static inline bool lab_allows_address(void *userdata, const struct pg_addr *addr)
{
	const struct lab *lab = userdata;
	char text[PG_ADDR_TEXT];

	return lab->allowed_address &&
	       strcmp(pg_addr_format(addr, text), lab->allowed_address) == 0;
}

static inline int lab_commit(void *userdata, const char *name, const struct pg_addr *addr,
			     uint32_t ttl)
{
	struct lab *lab = userdata;
	char text[PG_ADDR_TEXT];

	lab->commits++;
	lab_note(lab, "commit %s %s %u\n", name, pg_addr_format(addr, text), ttl);
	if (lab->on_commit)
		lab->on_commit(lab);
	return lab->commit_result;
}

static inline uint64_t lab_generation(void *userdata)
{
	const struct lab *lab = userdata;

	return lab->generation;
}

static inline unsigned int reply_field(const struct lab *lab, size_t offset)
{
	return (unsigned int)(lab->reply[offset] << 8 | lab->reply[offset + 1]);
}

static inline unsigned int reply_code(const struct lab *lab)
{
	return lab->reply[3] & 0x0f;
}

static inline void lab_reply(void *owner, const struct pg_peer *peer, const uint8_t *message,
			     size_t size)
{
	struct lab *lab = owner;

	lab->replies++;
	if (size == 0) {
		lab_note(lab, "no reply\n");
		return;
	}
	cr_assert_geq(size, HFIXEDSZ);
	memcpy(lab->reply, message, size);
	lab->reply_size = size;
	lab_note(lab, "reply %u %u\n", reply_code(lab), reply_field(lab, DNS_ANSWERS));
}

static inline void lab_open_denying(struct lab *lab, const struct pg_endpoint *servers,
				    size_t count, enum pg_denial denial)
{
	const struct pg_resolver_hooks hooks = {
		.judge = lab_judge,
		.allows_address = lab_allows_address,
		.commit = lab_commit,
		.generation = lab_generation,
		.reply = lab_reply,
		.userdata = lab,
	};
	struct pg_error err;

	cr_assert_eq(pg_resolver_new_tuned(&hooks, denial, ATTEMPT_MS, &lab->resolver, &err), 0,
		     "%s", err.text);
	if (count > 0)
		cr_assert_eq(pg_resolver_add_upstream(lab->resolver, servers, count, -1,
						      &lab->upstream, &err),
			     0, "%s", err.text);
}

static inline void lab_open(struct lab *lab, const struct pg_endpoint *servers, size_t count)
{
	lab_open_denying(lab, servers, count, PG_DENIAL_NXDOMAIN);
}

static inline void lab_close(struct lab *lab)
{
	pg_resolver_free(lab->resolver);
}

static inline void lab_send(struct lab *lab, const struct dns_message *message, bool tcp)
{
	struct pg_resolver_client client = {
		.owner = lab,
		.peer = {.connection = tcp ? 7 : 0, .addr_size = sizeof(struct sockaddr_in)},
		.upstream = lab->upstream,
		.own_upstream = lab->own_upstream,
		.tcp = tcp,
	};

	pg_resolver_ask(lab->resolver, &client, message->data, message->size);
}

/* Asks without waiting. */
static inline void lab_begin(struct lab *lab, const char *name, uint16_t type)
{
	static struct dns_message message;

	dns_begin(&message, 0x1234, PG_DNS_RD, name, type);
	lab_send(lab, &message, LAB_UDP);
}

/* The same of a client that speaks EDNS. */
static inline void lab_begin_edns(struct lab *lab, const char *name, uint16_t type,
				  unsigned int udp_size)
{
	static struct dns_message message;

	dns_begin(&message, 0x1234, PG_DNS_RD, name, type);
	dns_count(&message, DNS_ADDITIONALS);
	dns_put8(&message, 0);
	dns_put16(&message, ns_t_opt);
	dns_put16(&message, udp_size);
	dns_put32(&message, 0);
	dns_put16(&message, 0);
	lab_send(lab, &message, LAB_UDP);
}

/* Handles what happens until so many replies have gone out since the lab was opened. */
static inline void lab_wait(struct lab *lab, size_t replies)
{
	uint64_t deadline = pg_monotonic_ns() + PATIENCE_MS * PG_NSEC_PER_MSEC;

	while (lab->replies < replies) {
		struct pollfd poller = {.fd = pg_resolver_fd(lab->resolver), .events = POLLIN};
		struct pg_error err;

		cr_assert_lt(pg_monotonic_ns(), deadline, "no reply");
		poll(&poller, 1, 1000);
		cr_assert_eq(pg_resolver_process(lab->resolver, &err), 0, "%s", err.text);
	}
}

/* Handles what happens in the time. Returns how often there was something. */
static inline unsigned int lab_idle(struct lab *lab, unsigned int ms)
{
	uint64_t deadline = pg_monotonic_ns() + ms * PG_NSEC_PER_MSEC;
	unsigned int wakes = 0;

	while (pg_monotonic_ns() < deadline) {
		struct pollfd poller = {.fd = pg_resolver_fd(lab->resolver), .events = POLLIN};

		wakes += poll(&poller, 1, 10) > 0;
		cr_assert_eq(pg_resolver_process(lab->resolver, NULL), 0);
	}
	return wakes;
}

/* Asks and waits for the reply. Returns its code. */
static inline unsigned int lab_ask(struct lab *lab, const char *name, uint16_t type)
{
	size_t replies = lab->replies;

	lab_begin(lab, name, type);
	lab_wait(lab, replies + 1);
	return reply_code(lab);
}

/* What happened since the last time. */
static inline void lab_expect_log(struct lab *lab, const char *text)
{
	cr_expect_str_eq(lab->log, text);
	lab->log[0] = '\0';
}

struct reply_record {
	char owner[PG_DNS_TEXT];
	uint16_t type;
	uint32_t ttl;
	const uint8_t *data;
	size_t data_size;
};

/* The reply's number-th record, counted through all sections. */
static inline struct reply_record reply_record(const struct lab *lab, unsigned int number)
{
	const struct pg_dns_message message = {.data = lab->reply, .size = lab->reply_size};
	struct reply_record record;
	struct pg_dns_name name;
	size_t offset = HFIXEDSZ;

	cr_assert_eq(pg_dns_name_skip(&message, &offset), 0);
	offset += QFIXEDSZ;
	for (unsigned int i = 0;; i++) {
		cr_assert_eq(pg_dns_name_read(&message, offset, &name), 0);
		cr_assert_eq(pg_dns_name_to_text(&name, record.owner), 0);
		cr_assert_eq(pg_dns_name_skip(&message, &offset), 0);
		record.type = pg_dns_load16(&message, offset);
		record.ttl = pg_dns_load32(&message, offset + 4);
		record.data_size = pg_dns_load16(&message, offset + 8);
		record.data = lab->reply + offset + RRFIXEDSZ;
		offset += RRFIXEDSZ + record.data_size;
		cr_assert_leq(offset, lab->reply_size);
		if (i == number)
			return record;
	}
}

/* The code of the extended error of the reply, or -1. The OPT record comes last. */
static inline int reply_ede(const struct lab *lab)
{
	struct reply_record opt;

	if (reply_field(lab, DNS_ADDITIONALS) == 0)
		return -1;
	opt = reply_record(lab, reply_field(lab, DNS_ANSWERS) + reply_field(lab, DNS_AUTHORITIES));
	cr_assert_eq(opt.type, ns_t_opt);
	if (opt.data_size < 6)
		return -1;
	cr_assert_eq(opt.data[1], 15);
	return opt.data[4] << 8 | opt.data[5];
}

/* A server with these rules (an array), and a lab that asks it. */
static inline void lab_start(struct lab *lab, struct fake_server *server)
{
	fake_bind(server);
	fake_start(server);
	lab_open(lab, &server->endpoint, 1);
}

static inline void lab_stop(struct lab *lab, struct fake_server *server)
{
	lab_close(lab);
	fake_stop(server);
}
