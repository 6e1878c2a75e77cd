/* SPDX-License-Identifier: Apache-2.0 */
/* One exchange with a server: a token goes there and comes back, or an error comes at once. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SERVER_PORT    7700 /* of the server outside */
#define INSIDE_PORT    7701 /* of the server in the Environment */
#define TOKENS_MAX     512
#define TOKENS_PER_RUN 32 /* at least KIND_COUNT times the number of destinations */

enum kind {
	KIND_TCP,
	KIND_UDP,
	KIND_UDP_CONNECTED,
	KIND_COUNT,
};

extern const char *const kind_names[KIND_COUNT];

/* What a server saw; shared by the processes. */
struct record {
	uint32_t arrived[TOKENS_MAX]; /* times that each token arrived */
	uint32_t empty;		      /* connections without a token */
};

/*
 * Sends the token to the address, an IPv6 or IPv4-mapped one in text also through an IPv6 socket.
 * Returns 0 if it came back, or negative errno; -ENODATA if nothing came back in time.
 */
int exchange(enum kind kind, const char *address, uint16_t port, uint32_t token);

/* Opens the server's sockets on all addresses, v4 and v6. Returns 0 or negative errno. */
int server_open(uint16_t port, int *ret_listener, int *ret_datagrams);

/* Sends back what arrives, forever, or until count tokens did. Returns 0 or negative errno. */
int server_run(int listener, int datagrams, struct record *record, unsigned int count);
