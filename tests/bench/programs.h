/* SPDX-License-Identifier: Apache-2.0 */
/* Traffic of known size, for the figures of single programs: a child does it when it is told to. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "bench.h"

#define TRAFFIC_DENIED4	     "203.0.113.99" /* in no set */
#define TRAFFIC_CLIENT4	     "192.0.2.2"    /* scripts/bench gives it to the client's namespace */
#define TRAFFIC_SERVER4	     "192.0.2.1"    /* and this one to the server's */
#define TRAFFIC_IN_PORT	     7410	    /* of the socket that receives */
#define TRAFFIC_DESTINATIONS 4096
#define TRAFFIC_SPREAD	     65536 /* of new flows, at most */

struct traffic {
	const char *name;
	/* In the child, once. false: it is not to be had here. */
	bool (*prepare)(void);
	/* In the child, or, if it is what others send, in the parent. */
	void (*batch)(size_t count, size_t round);
	bool outside;
	bool denied;  /* which it is not without a policy */
	bool forget;  /* all flows of the Environment, after each batch */
	size_t count; /* of operations in one batch, some milliseconds */
};

extern const struct traffic traffics[];
extern const size_t traffic_count;

/* Before the first; namespace: the server's; spread: how many destinations the set has. */
void traffic_open(const char *namespace, size_t spread);

struct traffic_child {
	const struct traffic *traffic;
	int fd; /* of the parent's end */
	int child_fd;
	size_t round;
};

void traffic_begin(struct traffic_child *child, const struct traffic *traffic);
/* Body of the child; userdata is the struct traffic_child. */
int traffic_child_main(void *userdata);
/* In the parent, once the child is started. false: the traffic is not to be had here. */
bool traffic_ready(struct traffic_child *child);
/* One batch; returns when it is done. */
void traffic_batch(struct traffic_child *child);
/* The child ends by itself then. */
void traffic_end(struct traffic_child *child);
