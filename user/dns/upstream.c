/* SPDX-License-Identifier: Apache-2.0 */
#include "upstream.h"

#include <arpa/nameser.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>

#include "base/clock.h"
#include "reply.h"
#include "upstream_channel.h"

/* With one server, so that two lost packets in a row do not fail a name. */
#define ATTEMPTS_MIN 3

/* No attempt begins later than this many times the wait for one after the query began. */
#define LAST_ATTEMPT 3

/* c-ares hears of a late answer for as long as this many attempts. */
#define LATE_ATTEMPTS 4

/* Attempts that c-ares has, late ones included; queries beyond fail at once. */
#define UNDER_WAY_MAX 8192

#define OPT_OCTETS  11
#define EDNS_OCTETS 1232

/* Random octets that are fetched at once, for some dozens of questions. */
#define RANDOM_OCTETS 1024

/* One sending to one server. */
struct pg_attempt {
	TAILQ_ENTRY(pg_attempt) entry; /* in upstream.awaited, unless late */
	struct pg_attempt *next;       /* of the same query */
	struct pg_query *query;	       /* NULL: it has ended */
	struct pg_upstream *upstream;
	struct pg_channel *channel;
	unsigned int server;
	uint64_t sent;
	bool awaited;
	uint8_t upper[(PG_DNS_NAME_MAX + 7) / 8]; /* which letters are sent in upper case */
};

struct server {
	struct pg_channels channels;
	uint64_t answered;   /* when it last sent a response */
	uint64_t down_until; /* 0: not known to be down */
	bool plain;	     /* it does not know EDNS */
};

struct pg_upstream {
	struct pg_upstream_options options;
	uint64_t attempt_ns;
	bool closing;
	TAILQ_HEAD(attempt_list, pg_attempt) awaited; /* oldest first */
	unsigned int under_way;
	uint8_t random[RANDOM_OCTETS];
	unsigned int random_used;
	unsigned int count;
	struct server servers[];
};

static const struct pg_upstream_failure no_memory = {.text = "no memory to ask",
						     .ede = PG_EDE_OTHER,
						     .final = true};
static const struct pg_upstream_failure too_many = {.text = "too many questions are under way",
						    .ede = PG_EDE_OTHER,
						    .final = true};
static const struct pg_upstream_failure no_socket = {.text = "no socket to ask with",
						     .ede = PG_EDE_NETWORK_ERROR};
static const struct pg_upstream_failure silent = {.text = "no server answers",
						  .ede = PG_EDE_NO_REACHABLE,
						  .is_silent = true};
static const struct pg_upstream_failure unreachable = {.text = "no server can be reached",
						       .ede = PG_EDE_NETWORK_ERROR,
						       .is_silent = true};
static const struct pg_upstream_failure servfail = {.text = "the server failed (SERVFAIL)",
						    .ede = PG_EDE_NO_REACHABLE};
static const struct pg_upstream_failure refused = {.text = "the server refused to answer",
						   .ede = PG_EDE_NO_REACHABLE};
static const struct pg_upstream_failure other_code = {.text = "the server answered with an error",
						      .ede = PG_EDE_NO_REACHABLE};
static const struct pg_upstream_failure other_case =
	{.text = "what looks like the server's answer has another question",
	 .ede = PG_EDE_NO_REACHABLE};
static const struct pg_upstream_failure far =
	{.text = "the server may tell of addresses on the networks there only",
	 .ede = PG_EDE_OTHER};
static const struct pg_upstream_failure malformed = {.text = "the server's answer is malformed",
						     .ede = PG_EDE_NO_REACHABLE};

int pg_upstream_new(const struct pg_upstream_options *options, struct pg_upstream **ret_upstream,
		    struct pg_error *err)
{
	PG_CLEANUP(pg_upstream_freep) struct pg_upstream *upstream = NULL;
	struct pg_channels_options channels = {
		.netns_fd = options->netns_fd,
		.epoll_fd = options->epoll_fd,
		.timeout_ms = LATE_ATTEMPTS * options->attempt_ms,
		.prepare_socket = options->prepare_socket,
		.userdata = options->userdata,
	};

	if (options->count == 0)
		return pg_fail(err, -EINVAL, "no DNS server to ask");
	if (options->count > PG_UPSTREAM_SERVERS_MAX)
		return pg_fail(err, -E2BIG, "%zu DNS servers are too many (at most %d)",
			       options->count, PG_UPSTREAM_SERVERS_MAX);
	if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS)
		return pg_fail(err, -ENOMEM, "cannot initialise c-ares");
	upstream = calloc(1, sizeof(*upstream) + options->count * sizeof(upstream->servers[0]));
	if (!upstream) {
		ares_library_cleanup();
		return pg_fail(err, -ENOMEM, "no memory for %zu DNS servers", options->count);
	}
	TAILQ_INIT(&upstream->awaited);
	upstream->options = *options;
	upstream->attempt_ns = options->attempt_ms * PG_NSEC_PER_MSEC;
	upstream->random_used = RANDOM_OCTETS;
	for (size_t i = 0; i < options->count; i++) {
		int r;

		channels.server = options->servers[i];
		channels.tag = (uint64_t)options->tag << 8 | i;
		r = pg_channels_open(&upstream->servers[i].channels, &channels, err);
		if (r < 0)
			return r;
		upstream->count++;
	}
	upstream->options.servers = NULL;
	*ret_upstream = PG_TAKE_PTR(upstream);
	return 0;
}

void pg_upstream_free(struct pg_upstream *upstream)
{
	if (!upstream)
		return;
	upstream->closing = true;
	for (unsigned int i = 0; i < upstream->count; i++)
		pg_channels_close(&upstream->servers[i].channels);
	free(upstream);
	ares_library_cleanup();
}

/* The first server from start on that is not known to be down; start itself if all are. */
static unsigned int choose_server(const struct pg_upstream *upstream, unsigned int start,
				  uint64_t now)
{
	for (unsigned int i = 0; i < upstream->count; i++) {
		unsigned int candidate = (start + i) % upstream->count;

		if (upstream->servers[candidate].down_until <= now)
			return candidate;
	}
	return start % upstream->count;
}

/* The server is down unless it has answered another query since this one was sent. */
static void note_silence(const struct pg_attempt *attempt)
{
	struct server *server = &attempt->upstream->servers[attempt->server];

	if (server->answered < attempt->sent)
		server->down_until = pg_boottime_ns() + PG_UPSTREAM_DOWN_S * PG_NSEC_PER_SEC;
}

/* The attempt is late, has failed, or nobody waits for it any more. */
static void stop_awaiting(struct pg_attempt *attempt)
{
	if (!attempt->awaited)
		return;
	attempt->awaited = false;
	TAILQ_REMOVE(&attempt->upstream->awaited, attempt, entry);
	attempt->query->awaited--;
}

/* Takes the attempt out of its query's list. */
static void leave_query(struct pg_attempt *attempt)
{
	struct pg_attempt **place = &attempt->query->under_way;

	stop_awaiting(attempt);
	while (*place != attempt)
		place = &(*place)->next;
	*place = attempt->next;
	attempt->query = NULL;
}

/* What is still under way is heard of by the upstream alone. */
static void finish(struct pg_query *query, const struct pg_upstream_failure *failure)
{
	struct pg_upstream *upstream = query->upstream;

	while (query->under_way)
		leave_query(query->under_way);
	query->failure = failure;
	upstream->options.done(upstream->options.userdata, query);
}

/* The query's name, its letters in the case given by bits; NULL: all in lower case. Octets of
 * length are below 'A'. */
static void write_name(const struct pg_dns_name *name, const uint8_t *upper, uint8_t *at)
{
	for (unsigned int i = 0; i < name->size; i++) {
		uint8_t c = name->octets[i];

		if (c >= 'A' && c <= 'Z')
			c = (uint8_t)(c - 'A' + 'a');
		if (c >= 'a' && c <= 'z' && upper && upper[i / 8] >> i % 8 & 1)
			c = (uint8_t)(c - 'a' + 'A');
		at[i] = c;
	}
}

/* Rebuilt from nothing but name and type: an id and case of our own, no options. */
static size_t write_query(const struct pg_attempt *attempt, uint16_t id, bool plain,
			  uint8_t buffer[static HFIXEDSZ + PG_DNS_NAME_MAX + QFIXEDSZ + OPT_OCTETS])
{
	static const uint8_t opt[OPT_OCTETS] = {0, 0, ns_t_opt, EDNS_OCTETS >> 8,
						EDNS_OCTETS & 0xff};
	const struct pg_query *query = attempt->query;
	uint8_t *at = buffer;

	memset(at, 0, HFIXEDSZ);
	at[0] = (uint8_t)(id >> 8);
	at[1] = (uint8_t)id;
	at[2] = PG_DNS_RD >> 8;
	at[5] = 1;
	at[11] = plain ? 0 : 1;
	at += HFIXEDSZ;
	write_name(query->name, attempt->upper, at);
	at += query->name->size;
	*at++ = (uint8_t)(query->type >> 8);
	*at++ = (uint8_t)query->type;
	*at++ = 0;
	*at++ = ns_c_in;
	if (!plain) {
		memcpy(at, opt, sizeof(opt));
		at += sizeof(opt);
	}
	return (size_t)(at - buffer);
}

static bool take_random(struct pg_upstream *upstream, void *ret_octets, unsigned int size)
{
	if (size > RANDOM_OCTETS - upstream->random_used) {
		if (getrandom(upstream->random, RANDOM_OCTETS, 0) != RANDOM_OCTETS)
			return false;
		upstream->random_used = 0;
	}
	memcpy(ret_octets, upstream->random + upstream->random_used, size);
	upstream->random_used += size;
	return true;
}

/*
 * Whether the response has the question exactly as it was sent; c-ares has seen that it is the same
 * name. Then it gets its usual case, also where the rest of the message points to it.
 */
static bool repeats_case(const struct pg_attempt *attempt, uint8_t *message, size_t size)
{
	const struct pg_dns_name *name = attempt->query->name;
	uint8_t sent[PG_DNS_NAME_MAX];

	write_name(name, attempt->upper, sent);
	if (size < HFIXEDSZ + (size_t)name->size ||
	    memcmp(message + HFIXEDSZ, sent, name->size) != 0)
		return false;
	write_name(name, NULL, message + HFIXEDSZ);
	return true;
}

/* What the status and the response say. NULL: it is an answer, and was taken. */
static const struct pg_upstream_failure *judge(struct pg_attempt *attempt, int status,
					       uint8_t *message, int size)
{
	const struct pg_upstream_options *options = &attempt->upstream->options;
	struct server *server = &attempt->upstream->servers[attempt->server];
	int r;

	if (status == ARES_ETIMEOUT)
		return &silent;
	if (status == ARES_ENOMEM)
		return &no_memory;
	if (status != ARES_SUCCESS || !message || size < HFIXEDSZ) {
		r = server->channels.socket_error;
		return r == -EMFILE || r == -ENFILE || r == -ENOBUFS || r == -ENOMEM || r == -ENOSPC
			       ? &no_socket
			       : &unreachable;
	}
	/* Nobody forges over TCP without seeing what is sent. */
	if (!repeats_case(attempt, message, (size_t)size) &&
	    attempt->channel->index != PG_CHANNEL_TCP)
		return &other_case;
	switch (message[3] & 0x0f) {
	case ns_r_noerror:
	case ns_r_nxdomain:
		r = options->read(options->userdata, attempt->query,
				  &server->channels.options.server.addr, message, (size_t)size);
		if (r < 0)
			return r == -EXDEV ? &far : &malformed;
		return NULL;
	case ns_r_formerr:
		server->plain = true;
		return &other_code;
	case ns_r_servfail:
		return &servfail;
	case ns_r_refused:
		return &refused;
	default:
		return &other_code;
	}
}

static void advance(struct pg_query *query);

static void on_response(void *arg, int status, int timeouts, unsigned char *message, int size)
{
	pg_autofree struct pg_attempt *attempt = arg;
	struct server *server = &attempt->upstream->servers[attempt->server];
	const struct pg_upstream_failure *failure;
	struct pg_query *query = attempt->query;

	if (attempt->upstream->closing)
		return;
	attempt->channel->under_way--;
	attempt->upstream->under_way--;
	if (message) {
		server->answered = pg_boottime_ns();
		server->down_until = 0;
	}
	if (!query)
		return;
	failure = judge(attempt, status, message, size);
	if (failure && failure->is_silent)
		note_silence(attempt);
	leave_query(attempt);
	if (!failure) {
		finish(query, NULL);
		return;
	}
	query->failure = failure;
	query->over_tcp |= failure == &other_case;
	/* Else pg_upstream_ask() or the like is on the stack, and goes on itself. */
	if (!query->sending)
		advance(query);
}

static void send_attempt(struct pg_query *query, uint64_t now)
{
	uint8_t packet[HFIXEDSZ + PG_DNS_NAME_MAX + QFIXEDSZ + OPT_OCTETS];
	struct pg_upstream *upstream = query->upstream;
	struct server *server = &upstream->servers[query->server];
	struct pg_attempt *attempt;
	struct pg_channel *channel;
	uint16_t id;

	query->attempts++;
	if (upstream->under_way >= UNDER_WAY_MAX) {
		query->failure = &too_many;
		return;
	}
	channel = query->over_tcp ? pg_channels_take_tcp(&server->channels)
				  : pg_channels_take(&server->channels);
	attempt = malloc(sizeof(*attempt));
	if (!channel || !attempt) {
		free(attempt);
		query->failure = &no_memory;
		return;
	}
	*attempt = (struct pg_attempt){
		.next = query->under_way,
		.query = query,
		.upstream = upstream,
		.channel = channel,
		.server = query->server,
		.sent = now,
		.awaited = true,
	};
	if (!take_random(upstream, &id, sizeof(id)) ||
	    !take_random(upstream, attempt->upper, (query->name->size + 7U) / 8)) {
		free(attempt);
		query->failure = &no_memory;
		return;
	}
	query->under_way = attempt;
	query->awaited++;
	TAILQ_INSERT_TAIL(&upstream->awaited, attempt, entry);
	upstream->under_way++;
	attempt->channel->asked++;
	attempt->channel->under_way++;
	ares_send(attempt->channel->ares, packet,
		  (int)write_query(attempt, id, server->plain, packet), on_response, attempt);
}

/* Whether the last failure leaves room for another attempt. */
static bool may_try(const struct pg_query *query, uint64_t now)
{
	const struct pg_upstream *upstream = query->upstream;
	const unsigned int most = 2 * upstream->count;

	if (query->failure && query->failure->final)
		return false;
	return query->attempts < (most < ATTEMPTS_MIN ? ATTEMPTS_MIN : most) &&
	       now - query->started < LAST_ATTEMPT * upstream->attempt_ns;
}

/* Sends until an attempt is under way, or none is left. An attempt may fail at once. */
static void advance(struct pg_query *query)
{
	query->sending = true;
	while (query->awaited == 0) {
		uint64_t now = pg_boottime_ns();
		/* Whoever has been doubted is asked once more. */
		bool next = query->attempts > 0 && query->failure != &other_case;

		if (!may_try(query, now))
			break;
		query->server = choose_server(query->upstream, query->server + next, now);
		send_attempt(query, now);
	}
	query->sending = false;
	if (query->awaited == 0)
		finish(query, query->failure);
}

void pg_upstream_ask(struct pg_upstream *upstream, struct pg_query *query)
{
	query->upstream = upstream;
	query->started = pg_boottime_ns();
	advance(query);
}

void pg_upstream_event(struct pg_upstream *upstream, uint64_t data, uint32_t events)
{
	uint64_t index = data >> 40 & 0xff;

	if (index < upstream->count)
		pg_channels_event(&upstream->servers[index].channels, data, events);
}

void pg_upstream_time_out(struct pg_upstream *upstream, uint64_t now)
{
	struct pg_attempt *attempt;

	while ((attempt = TAILQ_FIRST(&upstream->awaited)) &&
	       now >= attempt->sent + upstream->attempt_ns) {
		struct pg_query *query = attempt->query;

		note_silence(attempt);
		/* It stays under way: a late answer is an answer. */
		stop_awaiting(attempt);
		query->failure = &silent;
		advance(query);
	}
	for (unsigned int i = 0; i < upstream->count; i++)
		pg_channels_time_out(&upstream->servers[i].channels);
}

uint64_t pg_upstream_next(const struct pg_upstream *upstream, uint64_t now)
{
	const struct pg_attempt *oldest = TAILQ_FIRST(&upstream->awaited);

	if (oldest)
		return oldest->sent + upstream->attempt_ns;
	/* c-ares ends late ones when it is called. */
	return upstream->under_way > 0 ? now + upstream->attempt_ns : UINT64_MAX;
}
