/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of listener.h share: datagrams (listener_udp.c), connections (listener_tcp.c). */
#pragma once

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "dns/listener.h"

/* "lo" has this index in every network namespace, whatever it is named. */
#define PG_LISTENER_LO 1

/* Messages of one socket that are handled before others get their turn. */
#define PG_LISTENER_SHARE 8

/* Replies that a client has not taken, in octets: its connection is closed when there would be
 * more. Half of it, and no more queries are read from it. */
#define PG_LISTENER_OUTPUT_MAX (128UL * 1024)

/* How long connections wait at least when there was no descriptor for them. */
#define PG_LISTENER_ACCEPT_MS 100

/* What epoll says of the sockets; what is not below PG_LISTENER_CONNECTIONS_MAX is the number of a
 * connection. */
enum pg_listener_source {
	PG_LISTENER_UDP4,
	PG_LISTENER_TCP4,
	PG_LISTENER_UDP6,
	PG_LISTENER_TCP6,
	PG_LISTENER_TIMER,
};
_Static_assert(PG_LISTENER_TIMER == PG_LISTENER_SOCKETS, "the sockets come first");

struct pg_listener_datagram {
	struct pg_peer peer;
	struct iovec data;
	/* Room for either family's packet information. */
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(struct in6_pktinfo))];
	uint8_t message[PG_LISTENER_MESSAGE_MAX];
};

struct pg_listener_connection {
	uint64_t number;
	uint64_t touched; /* when the client last sent or took something */
	struct pg_peer peer;
	int fd;
	uint32_t interest;    /* what epoll looks for */
	unsigned int waiting; /* queries without a reply yet */
	bool ended;	      /* the client sends nothing more */
	bool broken;	      /* goes at its next event, which is sure to come */
	size_t skip;	      /* so many octets of a message that is too long follow */
	size_t input_start, input_end;
	size_t output_start, output_end, output_room;
	uint8_t *output; /* NULL if there is none */
	uint8_t input[2 + PG_LISTENER_MESSAGE_MAX];
};

struct pg_listener {
	struct pg_listener_options options;
	int epoll_fd, timer_fd;
	int sockets[PG_LISTENER_SOCKETS];
	uint64_t netns_cookie;
	int lost; /* a socket that has been destroyed; -1: none */

	uint64_t timer_at;  /* when the timer fires; UINT64_MAX: never */
	uint64_t idle_ns;   /* PG_LISTENER_IDLE_S, but for tests */
	uint64_t accept_at; /* 0: connections are accepted */

	uint64_t opened;  /* connections so far */
	uint64_t current; /* the connection whose event is being handled */
	struct pg_listener_connection *connections[PG_LISTENER_CONNECTIONS_MAX];

	struct mmsghdr headers[PG_LISTENER_SHARE];
	struct pg_listener_datagram datagrams[PG_LISTENER_SHARE];
};

/* A listener without sockets. */
int pg_listener_new(const struct pg_listener_options *options, struct pg_listener **ret_listener,
		    struct pg_error *err) PG_MUST_CHECK;

/* Lets the timer fire at this time (pg_monotonic_ns) or before. */
void pg_listener_schedule(struct pg_listener *listener, uint64_t when);
/* The socket is no more: pg_listener_process() will say so. */
void pg_listener_lose(struct pg_listener *listener, enum pg_listener_source source);

/* Handle what a socket has. Return the number of messages. */
unsigned int pg_listener_udp_event(struct pg_listener *listener, enum pg_listener_source source);
void pg_listener_accept(struct pg_listener *listener, enum pg_listener_source source,
			uint32_t events);
unsigned int pg_listener_connection_event(struct pg_listener *listener, uint64_t number,
					  uint32_t events);

void pg_listener_udp_send(struct pg_listener *listener, const struct pg_peer *peer,
			  const uint8_t *message, size_t size);
void pg_listener_connection_send(struct pg_listener *listener, uint64_t number,
				 const uint8_t *message, size_t size);

/* Makes a connection of the descriptor, which is closed with it, or on failure. */
void pg_listener_adopt(struct pg_listener *listener, int fd, const struct pg_peer *peer);
/* What is due at this time. */
void pg_listener_time_out(struct pg_listener *listener, uint64_t now);
void pg_listener_drop_all(struct pg_listener *listener);
