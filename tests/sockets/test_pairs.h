/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets and pairs of them, each made in a cgroup of the test's world. Failures end the test. */
#pragma once

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include "test_world.h"

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

/* The local port, in host order. */
uint16_t port_of(int fd);

socklen_t endpoint(struct sockaddr_storage *storage, const char *text, uint16_t port);

/* A bound socket, listening if it is a stream. -1 if there is no MPTCP. */
int bound(enum place place, int type, int protocol, const char *address, uint16_t port);

void connect_to(int fd, const char *address, uint16_t port);
int connected(enum place place, int type, int protocol, const char *address, uint16_t port);

struct pair {
	int client, server; /* server is the accepted socket */
	uint16_t client_port, server_port;
};

struct pair tcp_pair(enum place client, const char *client_address, enum place server,
		     const char *server_address, int protocol);

/* Ends both sides without TIME_WAIT. */
void drop(struct pair *pair);

/* Takes the socket's pending error. */
int pending_error(int fd);

/* A byte arrives. */
void check_works(int from, int to);
