// SPDX-License-Identifier: Apache-2.0
/*
 * Loopback by the receiving socket: with real sockets, the packets of a test run are the
 * Environment's own if the receiver's cgroup is the one in the header or below it.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include <phasegate/abi/counter.h>

#include "check.h"
#include "judge.skel.h"
#include "lab.h"
#include "place.h"

#define PORT	    4242
#define CLOSED_PORT 4243

static int listen_on(int family, int type)
{
	const struct sockaddr_in v4 = {.sin_family = AF_INET,
				       .sin_port = htons(PORT),
				       .sin_addr.s_addr = htonl(INADDR_ANY)};
	const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
	const int one = 1;
	int fd = socket(family, type, 0);

	if (fd < 0)
		return -1;
	if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)))
		goto failed;
	if (bind(fd, family == AF_INET ? (const struct sockaddr *)&v4 : (const void *)&v6,
		 family == AF_INET ? sizeof(v4) : sizeof(v6)))
		goto failed;
	if (type == SOCK_STREAM && listen(fd, 1))
		goto failed;
	return fd;
failed:
	close(fd);
	return -1;
}

/* A packet from the loopback address to itself: a SYN or a datagram. */
static size_t make(uint8_t *ip, int family, uint8_t protocol, uint16_t port,
		   const char *destination)
{
	const size_t header = family == AF_INET ? 20 : 40;

	memset(ip, 0, 80);
	ip[0] = family == AF_INET ? 0x45 : 0x60;
	ip[family == AF_INET ? 9 : 6] = protocol;
	inet_pton(family, family == AF_INET ? "127.0.0.1" : "::1",
		  ip + (family == AF_INET ? 12 : 8));
	inet_pton(family, destination, ip + (family == AF_INET ? 16 : 24));
	ip[header + 1] = 99;
	ip[header + 2] = (uint8_t)(port >> 8);
	ip[header + 3] = (uint8_t)port;
	ip[header + 12] = 0x50;
	ip[header + 13] = 0x02;
	return header + 20;
}

static const struct {
	const char *name;
	int family;
	uint8_t protocol;
	uint16_t port;
	const char *destination;
	bool received; /* by the test's socket */
	bool foreign;  /* and allowed whoever receives it */
} rows[] = {
	{"TCP to a listener", AF_INET, 6, PORT, "127.0.0.1", true, false},
	{"UDP to a socket", AF_INET, 17, PORT, "127.0.0.1", true, false},
	{"UDP to a socket by another address", AF_INET, 17, PORT, "127.9.9.9", true, false},
	{"TCP to a closed port", AF_INET, 6, CLOSED_PORT, "127.0.0.1", false, true},
	{"UDP to a closed port", AF_INET, 17, CLOSED_PORT, "127.0.0.1", false, true},
	{"ICMP", AF_INET, 1, PORT, "127.0.0.1", false, false},
	{"UDP-Lite", AF_INET, 136, PORT, "127.0.0.1", false, false},
	{"IPIP", AF_INET, 4, PORT, "127.0.0.1", false, false},
	{"UDP to lo's broadcast", AF_INET, 17, PORT, "127.255.255.255", false, false},
	{"UDP to a multicast group", AF_INET, 17, PORT, "224.0.0.251", false, false},
	{"TCP to a listener, v6", AF_INET6, 6, PORT, "::1", true, false},
	{"UDP to a socket, v6", AF_INET6, 17, PORT, "::1", true, false},
	{"TCP to a closed port, v6", AF_INET6, 6, CLOSED_PORT, "::1", false, true},
	{"UDP to a closed port, v6", AF_INET6, 17, CLOSED_PORT, "::1", false, true},
	{"ICMPv6", AF_INET6, 58, PORT, "::1", false, false},
	{"UDP to a multicast group, v6", AF_INET6, 17, PORT, "ff02::1", false, false},
};

static unsigned int judge(struct lab *lab, size_t row, uint64_t env_id, unsigned int level)
{
	struct model_policy policy = {.installed = true};
	uint8_t octets[80];
	const struct lab_frame frame = {
		.ethertype = rows[row].family == AF_INET ? 0x0800 : 0x86dd,
		.octets = octets,
		.size = make(octets, rows[row].family, rows[row].protocol, rows[row].port,
			     rows[row].destination),
	};

	for (size_t i = 0; i < PG_PHASE_COUNT; i++)
		policy.phases[i].mode = PG_MODE_NO_NETWORK;
	lab->cases[0] = (struct judge_case){.reason = UINT32_MAX};
	lab_describe(lab, &policy, &lab->cases[0]);
	lab->cases[0].header.env_id = lab->cases[0].header.cgroup_id = env_id;
	lab->cases[0].header.level = (__u8)level;
	if (lab_run(lab, lab->skeleton->progs.judge_path, &frame, 1) != 1)
		return UINT32_MAX;
	return lab->cases[0].reason;
}

static void judge_row(struct check *check, struct lab *lab, size_t row, const char *who,
		      bool allowed, uint64_t env_id, unsigned int level)
{
	const unsigned int reason = judge(lab, row, env_id, level);

	CHECK(check, reason == (allowed ? PG_REASON_LOOPBACK : PG_REASON_NOT_ALLOWED), "%s, %s: %s",
	      rows[row].name, who, lab_reason_name(reason));
}

static void judge_rows(struct check *check, struct lab *lab, const struct place *place)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const bool foreign = rows[i].foreign, own = foreign || rows[i].received;

		judge_row(check, lab, i, "own", own, place->id, place->level);
		judge_row(check, lab, i, "another's", foreign, place->id + 1000, place->level);
		judge_row(check, lab, i, "too deep", foreign, place->id, place->level + 1);
		judge_row(check, lab, i, "at the root", foreign, place->id, 0);
	}
}

/* IPv4 sockets in the outer cgroup, IPv6 sockets below it. */
static bool make_sockets(const struct place *place)
{
	return place_enter(place->outer) && listen_on(AF_INET, SOCK_STREAM) >= 0 &&
	       listen_on(AF_INET, SOCK_DGRAM) >= 0 && place_enter(place->inner) &&
	       listen_on(AF_INET6, SOCK_STREAM) >= 0 && listen_on(AF_INET6, SOCK_DGRAM) >= 0;
}

int main(void)
{
	struct check check = {};
	struct place place;
	struct lab lab;

	lab_open(&lab);
	if (!place_make(&place))
		return EXIT_FAILURE;
	if (CHECK(&check, !system("ip link set lo up") && make_sockets(&place),
		  "no sockets to send to"))
		judge_rows(&check, &lab, &place);
	check_group(&check, "loopback by receiver");
	place_remove(&place);
	lab_close(&lab);
	return check_end(&check);
}
