// SPDX-License-Identifier: Apache-2.0
/*
 * Sockets of Phasegate's own that ask nameservers: no packet of an Environment is received by one,
 * whatever the phase and however it is built. To the same socket without the mark it goes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <string.h>
#include <unistd.h>

#include <phasegate/abi/dns.h>

#include "check.h"
#include "world.h"

#define SERVER	    "127.0.0.53"
#define SERVER_PORT 4053
#define OWN	    "127.0.0.1"
#define OWN_PORT    4100
#define DATA	    32

struct bench {
	struct check check;
	struct world world;
};

/* Asks the server, outside the Environment. */
static int asking_socket(struct check *check, bool hidden)
{
	const struct world_name own = world_name(OWN, OWN_PORT);
	const struct world_name server = world_name(SERVER, SERVER_PORT);
	const unsigned int mark = PG_HIDDEN_MARK;
	const int fd = socket(AF_INET, SOCK_DGRAM, 0);

	CHECK(check,
	      fd >= 0 && !bind(fd, (const struct sockaddr *)&own.storage, own.size) &&
		      !connect(fd, (const struct sockaddr *)&server.storage, server.size) &&
		      (!hidden || !setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark))),
	      "no socket that asks: %s", strerror(errno));
	return fd;
}

enum form {
	FORM_SOCKET, /* of the server's address, by its port */
	FORM_RAW,
	FORM_FRAGMENTS,
	FORM_OPTIONS,
};
static const char *const form_names[] = {"socket", "raw", "fragments", "options"};

struct datagram {
	struct udphdr udp;
	char data[DATA];
};

static int send_part(const struct bench *bench, const void *part, size_t size, unsigned int offset,
		     bool more, bool options)
{
	uint8_t packet[128] = {0};
	struct iphdr ip = {.version = 4, .ihl = options ? 6 : 5, .ttl = 64, .id = htons(7)};
	const struct world_name to = world_name(OWN, 0);
	const int fd = world_client(&bench->world, AF_INET, SOCK_RAW, IPPROTO_RAW);
	int error = 0;

	ip.protocol = IPPROTO_UDP;
	ip.frag_off = htons((uint16_t)(offset / 8 | (more ? IP_MF : 0)));
	ip.saddr = inet_addr(SERVER);
	ip.daddr = inet_addr(OWN);
	memset(packet, 1, sizeof(packet)); /* options that do nothing */
	memcpy(packet, &ip, sizeof(ip));
	memcpy(packet + ip.ihl * 4, part, size);
	if (sendto(fd, packet, ip.ihl * 4 + size, 0, (const struct sockaddr *)&to.storage,
		   to.size) < 0)
		error = errno;
	close(fd);
	return error;
}

static int send_socket(const struct bench *bench)
{
	const struct world_name from = world_name(SERVER, SERVER_PORT);
	const struct world_name to = world_name(OWN, OWN_PORT);
	const int fd = world_client(&bench->world, AF_INET, SOCK_DGRAM, 0);
	int error = bind(fd, (const struct sockaddr *)&from.storage, from.size)
			    ? errno
			    : world_send(fd, &to, DATA);

	close(fd);
	return error;
}

static int forge(const struct bench *bench, enum form form)
{
	const struct datagram whole = {
		.udp = {.source = htons(SERVER_PORT),
			.dest = htons(OWN_PORT),
			.len = htons(sizeof(whole))},
	};
	int error;

	switch (form) {
	case FORM_SOCKET:
		return send_socket(bench);
	case FORM_RAW:
		return send_part(bench, &whole, sizeof(whole), 0, false, false);
	case FORM_FRAGMENTS:
		error = send_part(bench, &whole, 16, 0, true, false);
		return error ? error
			     : send_part(bench, (const char *)&whole + 16, sizeof(whole) - 16, 16,
					 false, false);
	case FORM_OPTIONS:
		return send_part(bench, &whole, sizeof(whole), 0, false, true);
	}
	return EINVAL;
}

/* Nothing is received, and all of it is denied. */
static void try_hidden(struct bench *bench, enum pg_phase phase, const char *name)
{
	const int fd = asking_socket(&bench->check, true);
	char octets[DATA];

	world_switch(&bench->world, phase);
	for (enum form form = FORM_SOCKET; form <= FORM_OPTIONS; form++) {
		const int error = forge(bench, form);

		CHECK(&bench->check, error == EPERM, "%s: %s: %s", name, form_names[form],
		      strerror(error));
		CHECK(&bench->check,
		      recv(fd, octets, sizeof(octets), MSG_DONTWAIT) < 0 && errno == EAGAIN,
		      "%s: %s is received", name, form_names[form]);
	}
	close(fd);
	check_group(&bench->check, name);
}

/* Without the mark in public: what tells its receiver arrives. */
static void try_other(struct bench *bench)
{
	const int fd = asking_socket(&bench->check, false);
	char octets[DATA];

	world_switch(&bench->world, WORLD_PUBLIC);
	for (enum form form = FORM_SOCKET; form <= FORM_OPTIONS; form++) {
		const int error = forge(bench, form);
		const bool told = form <= FORM_RAW;

		CHECK(&bench->check, error == (told ? 0 : EPERM), "another's: %s: %s",
		      form_names[form], strerror(error));
		CHECK(&bench->check,
		      (recv(fd, octets, sizeof(octets), MSG_DONTWAIT) == DATA) == told,
		      "another's: %s", form_names[form]);
	}
	close(fd);
	check_group(&bench->check, "another's socket is reached in public");
}

int main(void)
{
	struct bench bench = {};

	world_open(&bench.world);
	try_hidden(&bench, WORLD_ALLOWLIST, "hidden in an allowlist");
	try_hidden(&bench, WORLD_PUBLIC, "hidden in public");
	try_hidden(&bench, WORLD_NO_NETWORK, "hidden without network");
	try_other(&bench);
	world_close(&bench.world);
	return check_end(&bench.check);
}
