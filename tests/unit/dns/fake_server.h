/* SPDX-License-Identifier: Apache-2.0 */
/* A DNS server on a random port of 127.0.0.1, UDP and TCP, that does what its rules say. */
#pragma once

#include <criterion/criterion.h>

#include <ctype.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "dns_message.h"
#include "net/addr.h"

#define FAKE_RECORDS_MAX     8
#define FAKE_CONNECTIONS_MAX 8
#define FAKE_HELD_MAX	     2048

/* How a rule's answers lie. */
enum fake_lie {
	FAKE_HONEST,
	FAKE_CUT,     /* they end within a record */
	FAKE_LOOP,    /* a record's owner points at itself */
	FAKE_NOISE,   /* octets without meaning behind the question */
	FAKE_FORGED,  /* an empty one, one with a wrong id and one with a wrong question come before
		       * the right one */
	FAKE_GUESSED, /* over UDP, one with the right id and question comes before the right one */
	FAKE_LOWER,   /* the question is repeated in lower case */
};

/* The record of a rule whose data is octets as they are. */
struct fake_raw {
	uint16_t type;
	const char *data;
	size_t size;
};

struct fake_rule {
	const char *name;
	uint16_t type; /* 0: any */
	unsigned int rcode;
	unsigned int silent_first; /* so many queries get no answer */
	unsigned int fail_first;   /* so many queries get SERVFAIL */
	unsigned int absent_first; /* so many queries get NXDOMAIN */
	unsigned int absent_after; /* after so many, if not 0, all get NXDOMAIN */
	bool truncate;		   /* over UDP */
	bool no_edns;		   /* FORMERR to a query with an OPT record */
	enum fake_lie lie;
	unsigned int lie_first; /* so many answers lie; 0: all */
	struct fake_raw raw;
	unsigned int soa_minimum; /* of an SOA in the authority section; 0: none */
	struct dns_record records[FAKE_RECORDS_MAX];
	atomic_uint asked, asked_tcp;
};

struct fake_query {
	uint8_t data[512];
	size_t size;
	struct sockaddr_in from;
	uint64_t due;
};

struct fake_server {
	struct fake_rule *rules;
	size_t rule_count;
	const struct dns_record *other; /* the A record of names without a rule; NULL: NXDOMAIN */
	bool hold;			/* answer only when no more queries come */
	unsigned int delay_ms;		/* answer so much later (over UDP) */
	/* Set by the server: */
	atomic_uint others_asked; /* queries without a rule */
	atomic_uint ports;	  /* changes of the client's port from query to query */
	unsigned int held_most;	  /* read it after fake_stop() */
	struct pg_endpoint endpoint;
	int udp, tcp, stop;
	int connections[FAKE_CONNECTIONS_MAX];
	size_t connection_count;
	pthread_t thread;
	struct fake_query held[FAKE_HELD_MAX];
	unsigned int held_count;
	in_port_t last_port;
};

static inline bool fake_question(const struct fake_query *query, char ret_name[256],
				 uint16_t *ret_type)
{
	size_t at = HFIXEDSZ, used = 0;

	while (at < query->size && query->data[at]) {
		size_t length = query->data[at];

		if (at + 1 + length + 4 > query->size || used + length + 1 > 255)
			return false;
		if (used > 0)
			ret_name[used++] = '.';
		memcpy(ret_name + used, query->data + at + 1, length);
		used += length;
		at += 1 + length;
	}
	ret_name[used] = '\0';
	if (at + 5 > query->size)
		return false;
	*ret_type = (uint16_t)(query->data[at + 1] << 8 | query->data[at + 2]);
	return true;
}

static inline struct fake_rule *fake_find(struct fake_server *server, const char *name,
					  uint16_t type)
{
	for (size_t i = 0; i < server->rule_count; i++) {
		struct fake_rule *rule = &server->rules[i];

		if (strcasecmp(rule->name, name) == 0 && (rule->type == 0 || rule->type == type))
			return rule;
	}
	return NULL;
}

static inline void fake_send(struct fake_server *server, const struct fake_query *query, int tcp_fd,
			     const struct dns_message *message)
{
	uint8_t length[2] = {(uint8_t)(message->size >> 8), (uint8_t)message->size};

	if (tcp_fd < 0) {
		sendto(server->udp, message->data, message->size, 0,
		       (const struct sockaddr *)&query->from, sizeof(query->from));
		return;
	}
	send(tcp_fd, length, sizeof(length), MSG_NOSIGNAL | MSG_MORE);
	send(tcp_fd, message->data, message->size, MSG_NOSIGNAL);
}

/* Answers that no resolver may take: a foreign id, and a foreign question. */
static inline void fake_forge(struct fake_server *server, const struct fake_query *query,
			      unsigned int id, const char *name, uint16_t type)
{
	struct dns_record record = {name, ns_t_a, 60, "198.51.100.66"};
	struct dns_message message;

	/* Nothing at all is no end of a connection. */
	sendto(server->udp, "", 0, 0, (const struct sockaddr *)&query->from, sizeof(query->from));
	dns_begin(&message, id ^ 1, 0x8180, name, type);
	dns_put_record(&message, &record);
	fake_send(server, query, -1, &message);
	record.owner = "evil.example.net";
	dns_begin(&message, id, 0x8180, "evil.example.net", type);
	dns_put_record(&message, &record);
	fake_send(server, query, -1, &message);
}

static inline void fake_lower(char *name)
{
	for (; *name; name++)
		*name = (char)tolower(*name);
}

/* What may be sent by who knows all of the query but the case of its letters. */
static inline void fake_guess(struct fake_server *server, const struct fake_query *query,
			      unsigned int id, const char *name, uint16_t type)
{
	struct dns_record record = {name, ns_t_a, 60, "198.51.100.66"};
	struct dns_message message;

	dns_begin(&message, id, 0x8180, name, type);
	dns_put_record(&message, &record);
	fake_send(server, query, -1, &message);
}

/* An SOA in the authority section, which says for how long there is nothing. */
static inline void fake_put_soa(struct dns_message *message, const char *name, uint32_t minimum)
{
	const uint8_t data[22] = {[18] = (uint8_t)(minimum >> 24),
				  [19] = (uint8_t)(minimum >> 16),
				  [20] = (uint8_t)(minimum >> 8),
				  [21] = (uint8_t)minimum};

	dns_put_raw(message, name, ns_t_soa, minimum, data, sizeof(data));
	dns_count(message, DNS_AUTHORITIES);
}

static inline void fake_lie(struct dns_message *message, enum fake_lie lie)
{
	static const struct dns_record record = {"www.example.com", ns_t_a, 60, "198.51.100.66"};

	switch (lie) {
	case FAKE_HONEST:
	case FAKE_FORGED:
	case FAKE_GUESSED:
	case FAKE_LOWER:
		return;
	case FAKE_CUT:
		dns_put_record(message, &record);
		message->size -= 3;
		return;
	case FAKE_LOOP:
		dns_count(message, DNS_ANSWERS);
		dns_put16(message, 0xc000U | (unsigned int)message->size);
		dns_put_record_rest(message, &record);
		return;
	case FAKE_NOISE:
		dns_set16(message, DNS_ANSWERS, 7);
		for (unsigned int i = 0; i < 100; i++)
			dns_put8(message, i * 167 & 0xff);
		return;
	}
}

/* Response code for the rule's n-th query. */
static inline unsigned int fake_rcode(const struct fake_rule *rule, unsigned int n)
{
	if (n < rule->fail_first)
		return ns_r_servfail;
	if (n < rule->absent_first || (rule->absent_after > 0 && n >= rule->absent_after))
		return ns_r_nxdomain;
	return rule->rcode;
}

static inline void fake_put_records(struct dns_message *message, const struct fake_rule *rule,
				    const char *name)
{
	for (size_t i = 0; i < FAKE_RECORDS_MAX && rule->records[i].owner; i++)
		dns_put_record(message, &rule->records[i]);
	if (!rule->raw.type)
		return;
	dns_count(message, DNS_ANSWERS);
	dns_put_raw(message, name, rule->raw.type, 60, rule->raw.data, rule->raw.size);
}

static inline void fake_answer(struct fake_server *server, const struct fake_query *query,
			       int tcp_fd)
{
	unsigned int id = query->data[0] << 8U | query->data[1], n, rcode;
	struct dns_message message;
	struct fake_rule *rule;
	char name[256];
	uint16_t type;

	if (!fake_question(query, name, &type))
		return;
	rule = fake_find(server, name, type);
	if (!rule) {
		atomic_fetch_add(&server->others_asked, 1);
		dns_begin(&message, id, server->other ? 0x8180 : 0x8183, name, type);
		if (server->other && type == ns_t_a) {
			struct dns_record record = *server->other;

			record.owner = name;
			dns_put_record(&message, &record);
		}
		fake_send(server, query, tcp_fd, &message);
		return;
	}
	n = atomic_fetch_add(tcp_fd < 0 ? &rule->asked : &rule->asked_tcp, 1);
	if (n < rule->silent_first)
		return;
	if (rule->lie == FAKE_FORGED)
		fake_forge(server, query, id, name, type);
	if (rule->lie == FAKE_GUESSED && tcp_fd < 0)
		fake_guess(server, query, id, rule->name, type);
	if (rule->lie == FAKE_LOWER)
		fake_lower(name);
	rcode = fake_rcode(rule, n);
	if (rule->no_edns && query->data[11] > 0)
		rcode = ns_r_formerr;
	dns_begin(&message, id, 0x8180 | rcode, name, type);
	if (rule->truncate && tcp_fd < 0) {
		message.data[2] |= 0x02;
	} else if (rule->lie >= FAKE_CUT && rule->lie <= FAKE_NOISE &&
		   (rule->lie_first == 0 || n < rule->lie_first)) {
		fake_lie(&message, rule->lie);
	} else if (rcode == ns_r_noerror) {
		fake_put_records(&message, rule, name);
	}
	if (rule->soa_minimum)
		fake_put_soa(&message, name, rule->soa_minimum);
	fake_send(server, query, tcp_fd, &message);
}

/* Answers what was held, or of what was delayed that which is due. */
static inline void fake_release(struct fake_server *server)
{
	uint64_t now = pg_monotonic_ns();
	unsigned int kept = 0;

	if (server->held_count > server->held_most)
		server->held_most = server->held_count;
	for (unsigned int i = 0; i < server->held_count; i++) {
		if (server->held[i].due > now)
			server->held[kept++] = server->held[i];
		else
			fake_answer(server, &server->held[i], -1);
	}
	server->held_count = kept;
}

static inline void fake_read_udp(struct fake_server *server)
{
	struct fake_query query;
	socklen_t length = sizeof(query.from);
	ssize_t size = recvfrom(server->udp, query.data, sizeof(query.data), MSG_DONTWAIT,
				(struct sockaddr *)&query.from, &length);

	if (size < HFIXEDSZ)
		return;
	query.size = (size_t)size;
	query.due = 0;
	if (query.from.sin_port != server->last_port)
		atomic_fetch_add(&server->ports, 1);
	server->last_port = query.from.sin_port;
	if (server->delay_ms)
		query.due = pg_monotonic_ns() + server->delay_ms * PG_NSEC_PER_MSEC;
	if ((server->hold || server->delay_ms) && server->held_count < FAKE_HELD_MAX)
		server->held[server->held_count++] = query;
	else
		fake_answer(server, &query, -1);
}

/* Reads one query; returns false when the connection has ended. */
static inline bool fake_read_tcp(struct fake_server *server, int fd)
{
	struct fake_query query;
	uint8_t length[2];

	if (recv(fd, length, sizeof(length), MSG_WAITALL) != sizeof(length))
		return false;
	query.size = length[0] << 8U | length[1];
	if (query.size > sizeof(query.data) ||
	    recv(fd, query.data, query.size, MSG_WAITALL) != (ssize_t)query.size)
		return false;
	fake_answer(server, &query, fd);
	return true;
}

static inline void *fake_serve(void *argument)
{
	struct fake_server *server = argument;

	for (;;) {
		struct pollfd fds[3 + FAKE_CONNECTIONS_MAX] = {
			{.fd = server->stop, .events = POLLIN},
			{.fd = server->udp, .events = POLLIN},
			{.fd = server->tcp, .events = POLLIN},
		};
		size_t count = server->connection_count, kept = 0;
		/* Held queries are answered once the client has nothing more to ask. */
		int ready;

		for (size_t i = 0; i < count; i++)
			fds[3 + i] =
				(struct pollfd){.fd = server->connections[i], .events = POLLIN};
		ready = poll(fds, 3 + count, server->held_count > 0 ? 20 : -1);
		if (ready == 0 || server->delay_ms)
			fake_release(server);
		if (fds[0].revents)
			return NULL;
		if (fds[1].revents)
			fake_read_udp(server);
		for (size_t i = 0; i < count; i++) {
			int fd = server->connections[i];

			if (fds[3 + i].revents && !fake_read_tcp(server, fd))
				close(fd);
			else
				server->connections[kept++] = fd;
		}
		server->connection_count = kept;
		if (fds[2].revents && kept < FAKE_CONNECTIONS_MAX) {
			int fd = accept(server->tcp, NULL, NULL);

			if (fd >= 0)
				server->connections[server->connection_count++] = fd;
		}
	}
}

/* Binds both sockets to the same free port, without serving yet. */
static inline void fake_bind(struct fake_server *server)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(addr);

	for (unsigned int tries = 0;; tries++) {
		cr_assert_lt(tries, 100, "no port is free for UDP and TCP");
		addr.sin_port = 0;
		server->udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		server->tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		cr_assert_eq(bind(server->udp, (struct sockaddr *)&addr, sizeof(addr)), 0);
		cr_assert_eq(getsockname(server->udp, (struct sockaddr *)&addr, &length), 0);
		if (bind(server->tcp, (struct sockaddr *)&addr, sizeof(addr)) == 0)
			break;
		close(server->udp);
		close(server->tcp);
	}
	cr_assert_eq(listen(server->tcp, FAKE_CONNECTIONS_MAX), 0);
	server->endpoint = (struct pg_endpoint){.addr = pg_addr_from_v4(addr.sin_addr.s_addr),
						.port = addr.sin_port};
}

static inline void fake_start(struct fake_server *server)
{
	server->stop = eventfd(0, EFD_CLOEXEC);
	cr_assert_geq(server->stop, 0);
	cr_assert_eq(pthread_create(&server->thread, NULL, fake_serve, server), 0);
}

static inline void fake_close(struct fake_server *server)
{
	close(server->udp);
	close(server->tcp);
}

static inline void fake_stop(struct fake_server *server)
{
	uint64_t one = 1;

	cr_assert_eq(write(server->stop, &one, sizeof(one)), sizeof(one));
	pthread_join(server->thread, NULL);
	for (size_t i = 0; i < server->connection_count; i++)
		close(server->connections[i]);
	close(server->stop);
	fake_close(server);
}
