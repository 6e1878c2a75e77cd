/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One program of many vectors: ways in which what runs in a container might make bytes leave it.
 * Each vector is a function in vectors/, told where to send to, and what; whether anything left is
 * not its business: that is judged outside, on the host and at the servers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define DEVICE		  "eth0"
/* How long what cannot be denied at once is waited for. */
#define PATIENCE_MS	  250

union any {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_storage storage;
};

/* Every address of an attempt but A's and the container's own is of this attempt alone: who sees
 * one of them on the wire knows who has sent it. */
struct attempt {
	unsigned number;
	const char *token;
	union any target;  /* Where it shall arrive; may be IPv4-mapped. */
	union any allowed; /* A, of the same family. */
	union any own, gateway;
	union any group;  /* A multicast group. */
	union any onlink; /* An address of the container's network that nobody has. */
	union any other;  /* As target, of the other family. */
	uint8_t mac[6], gateway_mac[6];
	uint8_t made_mac[6]; /* A hardware address that nobody has. */
};

typedef int (*vector_fn)(const struct attempt *);

struct vector {
	const char *name;
	vector_fn run;
};

/* VECTOR(name) { ... return 0; } Returns 0 if all that it tried was taken, or -errno. */
#define VECTOR(name_) \
	static int name_(const struct attempt *attempt); \
	static const struct vector vector_##name_ \
		__attribute__((section("vectors"), used, aligned(16))) = {#name_, name_}; \
	static int name_(const struct attempt *attempt)

/* Helpers: helpers.c. Descriptors are not closed: each attempt is a process of its own. */

/* The text of the attempt's family without mapping, for commands. */
const char *text_of(const union any *address);
bool is_v6(const union any *address);
socklen_t size_of(const union any *address);
union any with_port(const union any *address, uint16_t port);
union any loopback_of(const union any *like);
const void *bytes_of(const union any *address, size_t *ret_size);

/* -errno, or a descriptor. */
int open_socket(const union any *like, int type, int protocol);
int bound_socket(const union any *address, int type, int protocol);
/* 0 or -errno of what send and the like returned. */
int sent(ssize_t result);
int set_option(int fd, int level, int name, int value);
/* Waits for at most PATIENCE_MS. */
int connect_soon(int fd, const union any *to);
/* The token, then the end of the stream. */
int send_stream(int fd, const struct attempt *attempt);
int send_token(int fd, const struct attempt *attempt, const union any *to);
/* With one control message. */
int send_control(int fd, const struct attempt *attempt, const union any *to, int level, int type,
		 const void *data, size_t size);
/* 0 if the shell command, printf's way, succeeds. Its standard error is thrown away. */
int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Why it is not possible here, for the report. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A process of its own; what it returns is what the function returned, or -ETIME. */
int in_child(vector_fn function, const struct attempt *attempt);

/* Packets: packets.c. */

#define PORT	     7000
#define ROOM	     1500
#define SOURCE	     40123
#define IP4_SIZE     20
#define IP6_SIZE     40
#define UDP_SIZE     8
#define TCP_SIZE     20
#define ICMP_SIZE    8
/* Of the segments of put_tcp(). */
#define FIRST_NUMBER 0x70676164

/* A header of the family, with what follows already there behind room for it; returns the size of
 * all. Source and destination may be of any port. */
size_t put_ip(uint8_t *packet, const union any *from, const union any *to, uint8_t protocol,
	      size_t payload);
/* A whole datagram with the token; returns its size. */
size_t put_udp(uint8_t *packet, const union any *from, const union any *to, uint16_t port,
	       const char *token);
/* TCP with the token as payload if there is one. */
size_t put_tcp(uint8_t *packet, const union any *from, const union any *to, uint16_t port,
	       uint8_t flags, const char *token);
struct segment {
	uint16_t source, port;
	uint32_t number, acknowledged;
	uint8_t flags;
	const char *token;
};
size_t put_segment(uint8_t *packet, const union any *from, const union any *to,
		   const struct segment *segment);
size_t put_echo(uint8_t *packet, const union any *from, const union any *to, const char *token);
size_t header_size(const union any *address);
/* An Ethernet header to the gateway; returns its size. */
size_t put_ethernet(uint8_t *frame, const struct attempt *attempt, uint16_t type);
/* Sends a packet that begins with its own header by a raw socket, with the sockaddr of "by". */
int send_packet(const uint8_t *packet, size_t size, const union any *by);
/* Sends a whole frame by a packet socket. */
int send_frame(const char *device, const uint8_t *frame, size_t size);
int index_of(const char *device);
/* A device that has just been set up drops what comes before its queue is there. */
int wait_up(const char *device);
/* A frame with the token by a device that is up: packet sockets on it, or below it, are nobody's.
 */
int frame_by(const char *device, const struct attempt *attempt);
