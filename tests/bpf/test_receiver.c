// SPDX-License-Identifier: Apache-2.0
/*
 * Loopback by the receiving socket: with real sockets, the packets of a test run are the
 * Environment's own if the receiver's cgroup is the one in the header, another member's, or below.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/counter.h>
#include <phasegate/abi/member.h>

#include "check.h"
#include "judge.skel.h"
#include "lab.h"
#include "place.h"

#define PORT	    4242
#define CLOSED_PORT 4243
#define DEEP_PORT   4244

#define ENVIRONMENT 4711

static int listen_on(int family, int type, uint16_t port)
{
	const struct sockaddr_in v4 = {.sin_family = AF_INET,
				       .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(INADDR_ANY)};
	const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
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
	{"UDP far below", AF_INET, 17, DEEP_PORT, "127.0.0.1", false, false},
};
#define ROW_DEEP (sizeof(rows) / sizeof(rows[0]) - 1)

static uint64_t id_of(const char *cgroup)
{
	struct stat status;

	return stat(cgroup, &status) ? 0 : status.st_ino;
}

/* A cgroup at PG_MEMBER_LEVEL_MAX, below the third. */
static const char *deepest(const struct place *place)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s", place->other);
	for (unsigned int level = place->level; level < PG_MEMBER_LEVEL_MAX; level++)
		strcat(path, "/d");
	return path;
}

static bool make_deepest(const struct place *place, bool make)
{
	char *path = strdup(deepest(place)), *end;
	bool done = true;

	if (!make)
		for (; strcmp(path, place->other) != 0; *strrchr(path, '/') = '\0')
			done &= !rmdir(path);
	for (end = path + strlen(place->other); make && *end == '/'; end += 2) {
		const char kept = end[2];

		end[2] = '\0';
		done &= !mkdir(path, 0755);
		end[2] = kept;
	}
	free(path);
	return done;
}

/* Whose header it is. */
struct viewer {
	uint64_t env_id, cgroup_id;
	unsigned int level;
	uint32_t flags;
};

static unsigned int judge(struct lab *lab, size_t row, const struct viewer *viewer)
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
	lab->cases[0].header.env_id = viewer->env_id;
	lab->cases[0].header.cgroup_id = viewer->cgroup_id;
	lab->cases[0].header.level = (__u8)viewer->level;
	lab->cases[0].header.flags |= viewer->flags;
	if (lab_run(lab, lab->skeleton->progs.judge_path, &frame, 1) != 1)
		return UINT32_MAX;
	return lab->cases[0].reason;
}

static void judge_row(struct check *check, struct lab *lab, size_t row, const char *who,
		      bool allowed, const struct viewer *viewer)
{
	const unsigned int reason = judge(lab, row, viewer);

	CHECK(check, reason == (allowed ? PG_REASON_LOOPBACK : PG_REASON_NOT_ALLOWED), "%s, %s: %s",
	      rows[row].name, who, lab_reason_name(reason));
}

static void judge_rows(struct check *check, struct lab *lab, const struct place *place)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const bool foreign = rows[i].foreign, own = foreign || rows[i].received;

		judge_row(check, lab, i, "own", own,
			  &(struct viewer){ENVIRONMENT, place->id, place->level, 0});
		judge_row(check, lab, i, "another's", foreign,
			  &(struct viewer){ENVIRONMENT, place->id + 1000, place->level, 0});
		judge_row(check, lab, i, "too deep", foreign,
			  &(struct viewer){ENVIRONMENT, place->id, place->level + 1, 0});
		judge_row(check, lab, i, "at the root", foreign,
			  &(struct viewer){ENVIRONMENT, place->id, 0, 0});
	}
}

static void put_member(const struct lab *lab, uint64_t cgroup_id, uint64_t env_id)
{
	const struct pg_member member = {.env_id = env_id};
	const int fd = bpf_map__fd(lab->skeleton->maps.pg_members);

	if (env_id)
		bpf_map_update_elem(fd, &cgroup_id, &member, BPF_ANY);
	else
		bpf_map_delete_elem(fd, &cgroup_id);
}

/* As a member that is elsewhere sees the sockets: IPv4 ones in the outer cgroup, IPv6 below it. */
static void judge_members(struct check *check, struct lab *lab, const struct place *place)
{
	const struct viewer member = {ENVIRONMENT, place->id + 1000, 3, PG_HEADER_MEMBERS},
			    alone = {ENVIRONMENT, place->id + 1000, 3, 0};
	const uint64_t inner = id_of(place->inner), deep = id_of(deepest(place));

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const bool foreign = rows[i].foreign, own = foreign || rows[i].received;
		const bool v6 = rows[i].family == AF_INET6;

		judge_row(check, lab, i, "no member", foreign, &member);
		put_member(lab, place->id, ENVIRONMENT);
		judge_row(check, lab, i, "member, and below one", own, &member);
		judge_row(check, lab, i, "members that are strangers", foreign, &alone);
		put_member(lab, place->id, ENVIRONMENT + 1);
		judge_row(check, lab, i, "another's member", foreign, &member);
		put_member(lab, place->id, 0);
		put_member(lab, inner, ENVIRONMENT);
		judge_row(check, lab, i, "member at depth 2", foreign || (own && v6), &member);
		put_member(lab, inner, 0);
	}
	judge_row(check, lab, ROW_DEEP, "no member", false, &member);
	put_member(lab, deep, ENVIRONMENT);
	judge_row(check, lab, ROW_DEEP, "member at the greatest depth", true, &member);
	put_member(lab, deep, 0);
}

/* IPv4 sockets in the outer cgroup, IPv6 sockets below it, and one as deep as a member can be. */
static bool make_sockets(const struct place *place)
{
	return place_enter(place->outer) && listen_on(AF_INET, SOCK_STREAM, PORT) >= 0 &&
	       listen_on(AF_INET, SOCK_DGRAM, PORT) >= 0 && place_enter(place->inner) &&
	       listen_on(AF_INET6, SOCK_STREAM, PORT) >= 0 &&
	       listen_on(AF_INET6, SOCK_DGRAM, PORT) >= 0 && place_enter(deepest(place)) &&
	       listen_on(AF_INET, SOCK_DGRAM, DEEP_PORT) >= 0;
}

int main(void)
{
	struct check check = {};
	struct place place;
	struct lab lab;

	lab_open(&lab);
	if (!place_make(&place))
		return EXIT_FAILURE;
	if (CHECK(&check,
		  !system("ip link set lo up") && make_deepest(&place, true) &&
			  make_sockets(&place),
		  "no sockets to send to")) {
		judge_rows(&check, &lab, &place);
		check_group(&check, "loopback by receiver");
		judge_members(&check, &lab, &place);
	}
	check_group(&check, "loopback between members");
	if (!place_enter(place.mount) || !make_deepest(&place, false))
		return EXIT_FAILURE;
	place_remove(&place);
	lab_close(&lab);
	return check_end(&check);
}
