/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The c-ares channels of one server. Private to upstream. A channel closes its sockets when it has
 * nothing under way; to have the port change under load, too, another channel takes over after
 * PG_CHANNEL_QUERIES, and the old one runs dry. The socket for what is asked next is made while
 * nobody waits for an answer. One more is for what must be asked over TCP.
 */
#pragma once

#include <ares.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "net/addr.h"

#define PG_CHANNEL_QUERIES 128
/* Of one server; opened as needed. */
#define PG_CHANNELS_MAX	   4
/* The index of the one for TCP. */
#define PG_CHANNEL_TCP	   PG_CHANNELS_MAX

struct pg_channels;

struct pg_channel {
	struct pg_channels *owner;
	ares_channel ares;
	uint8_t index;
	bool wants_write;
	unsigned int asked;	/* since its sockets were opened */
	unsigned int under_way; /* kept by the caller */
};

struct pg_channels_options {
	struct pg_endpoint server;
	int netns_fd, epoll_fd;
	unsigned int timeout_ms;
	/* Upper 24 bits of the epoll data; the channel's index and the descriptor follow. */
	uint64_t tag;
	/* NULL, or what is done with each socket before it is used. */
	int (*prepare_socket)(void *userdata, int fd, struct pg_error *err);
	void *userdata;
};

struct pg_channels {
	struct pg_channels_options options;
	int socket_error; /* 0, or the negative errno of the last socket that could not be made */
	unsigned int current;
	/* A UDP socket, neither bound nor connected yet, registered as of the channel; -1: none */
	int spare_fd;
	const struct pg_channel *spare_of;
	struct pg_channel list[PG_CHANNELS_MAX + 1];
};

/* Opens the first channel. Fails also if a socket cannot be prepared. */
int pg_channels_open(struct pg_channels *channels, const struct pg_channels_options *options,
		     struct pg_error *err) PG_MUST_CHECK;
/* Queries under way get ARES_EDESTRUCTION. */
void pg_channels_close(struct pg_channels *channels);

/* The channel for the next query. */
struct pg_channel *pg_channels_take(struct pg_channels *channels);
/* The same for a query over TCP; NULL if there is no memory for it. */
struct pg_channel *pg_channels_take_tcp(struct pg_channels *channels);

/* Handles an epoll event with the tag. */
void pg_channels_event(struct pg_channels *channels, uint64_t data, uint32_t events);

/* Lets c-ares end what has waited for timeout_ms. */
void pg_channels_time_out(struct pg_channels *channels);
