// SPDX-License-Identifier: Apache-2.0
/*
 * The guard at the host's end of a veth, by itself: no hook of a cgroup is attached. Inside is a
 * network namespace that one may do anything in; outside are an allowed and a denied address, whose
 * sockets say what arrived.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/cleanup.h"
#include "check.h"
#include "kernel/kernel.h"
#include "kernel/link.h"
#include "lab.h"
#include "link_senders.h"
#include "net/addr.h"

#define DEVICE	    "pglink0"
#define ALLOWED	    "10.9.1.1"
#define DENIED	    "10.9.1.2"
#define CLOSED	    7001
#define PATIENCE_MS 2000
#define SHORT_MS    300 /* for what is not to come */
#define HOST_END    "02:00:0a:09:00:01"

#define NO_NETWORK PG_PHASE_SETUP
#define PUBLIC	   PG_PHASE_RUN

struct bench {
	struct check check;
	struct pg_kernel *kernel;
	struct pg_header header;
	struct pg_state_value state;
	unsigned int ifindex;
	pid_t holder; /* of the namespace inside */
	int inside;
	int allowed, denied; /* sockets outside */
	size_t unknown_sources;
};

static int receiver(const char *address)
{
	const struct sockaddr_in name = endpoint(address, PORT);
	const struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&name, sizeof(name)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		perror(address);
	return fd;
}

/* Runs it in the namespace inside; its result is an errno, or 0. */
static int inside(const struct bench *bench, int (*function)(const char *address),
		  const char *address)
{
	const pid_t pid = fork();
	int status = 0;

	if (!pid)
		_exit(setns(bench->inside, CLONE_NEWNET) ? 255 : function(address));
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return 255;
	return WEXITSTATUS(status);
}

static int set_up_inside(const char *address)
{
	return system("ip link set lo up; ip addr add " OWN "/24 dev eth0 && "
		      "ip link set eth0 up && ip route add default via 10.9.0.1 && "
		      "ip neigh add 10.9.0.1 lladdr " HOST_END " dev eth0 nud permanent")
		       ? 1
		       : 0;
}

static bool make_network(struct bench *bench)
{
	char command[256], path[64];
	int ready[2];

	if (pipe(ready))
		return false;
	bench->holder = fork();
	if (!bench->holder) {
		if (unshare(CLONE_NEWNET) || write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	if (read(ready[0], path, 1) != 1)
		return false;
	close(ready[0]);
	close(ready[1]);
	snprintf(path, sizeof(path), "/proc/%d/ns/net", bench->holder);
	bench->inside = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(command, sizeof(command),
		 "ip link set lo up; ip link add " DEVICE " address " HOST_END
		 " type veth peer name eth0 netns %d && "
		 "ip addr add 10.9.0.1/24 dev " DEVICE " && ip addr add " ALLOWED "/32 dev lo && "
		 "ip addr add " DENIED "/32 dev lo && ip link set " DEVICE " up",
		 bench->holder);
	if (system(command) || inside(bench, set_up_inside, NULL))
		return false;
	bench->ifindex = if_nametoindex(DEVICE);
	bench->allowed = receiver(ALLOWED);
	bench->denied = receiver(DENIED);
	return true;
}

static void note(void *userdata, const struct pg_event *event)
{
	struct bench *bench = userdata;

	bench->unknown_sources += event->kind == PG_EVENT_UNKNOWN_SOURCE;
}

static bool make_environment(struct bench *bench)
{
	const struct pg_addr allowed = pg_addr_from_v4(inet_addr(ALLOWED));
	struct pg_error err = {};

	bench->header = (struct pg_header){
		.magic = PG_HEADER_MAGIC,
		.flags = PG_HEADER_MEMBER_ADDRESSES,
		.env_id = LAB_ENV_ID,
		.cgroup_id = LAB_ENV_ID,
		.level = 1,
	};
	bench->header.slots[0][NO_NETWORK].mode = PG_MODE_NO_NETWORK;
	bench->header.slots[0][PUBLIC].mode = PG_MODE_PUBLIC;
	if (pg_kernel_open(NULL, &bench->kernel, &err) ||
	    pg_state_take(bench->kernel, &bench->header.state, &err) ||
	    pg_flows_allow(bench->kernel, LAB_ENV_ID, &err) ||
	    pg_member_address_add(bench->kernel, LAB_ENV_ID, &allowed, &err)) {
		printf("# %s\n", err.text);
		return false;
	}
	pg_events_set_sink(bench->kernel, note, bench);
	return true;
}

static void own(struct bench *bench)
{
	const struct pg_addr addr = pg_addr_from_v4(inet_addr(OWN));
	struct pg_error err = {};

	CHECK(&bench->check, !pg_own_add(bench->kernel, LAB_ENV_ID, &addr, 0, &err), "%s",
	      err.text);
}

static void put(struct bench *bench, uint32_t flags, const struct pg_link_stations *stations)
{
	struct pg_error err = {};

	CHECK(&bench->check,
	      !pg_link_put(bench->kernel, bench->ifindex, &bench->header, flags, stations, &err),
	      "%s", err.text);
}

static void switch_to(struct bench *bench, int phase)
{
	struct pg_error err = {};

	bench->state.generation++;
	bench->state.phase = phase;
	CHECK(&bench->check,
	      !pg_state_write(bench->kernel, bench->header.state, &bench->state, &err), "%s",
	      err.text);
}

static uint64_t denied(const struct bench *bench, enum pg_reason reason)
{
	struct pg_counters counters = {};
	struct pg_error err = {};

	if (pg_link_counters_read(bench->kernel, LAB_ENV_ID, &counters, &err))
		printf("# %s\n", err.text);
	return counters.reason[reason];
}

/* One datagram of this size at the socket, or none if size is 0. */
static void expect(struct bench *bench, int fd, size_t size, const char *what)
{
	static char datagram[5000];
	const ssize_t got = recv(fd, datagram, sizeof(datagram), size ? 0 : MSG_DONTWAIT);

	CHECK(&bench->check, size ? got == (ssize_t)size : got < 0 && errno == EAGAIN,
	      "%s: %zd octets (%s)", what, got, got < 0 ? strerror(errno) : "");
	CHECK(&bench->check, recv(fd, datagram, sizeof(datagram), MSG_DONTWAIT) < 0, "%s: and more",
	      what);
}

/* Denied for the reason, and then the same to the allowed address, where it has to arrive. */
static void try(struct bench *bench, int (*function)(const char *), size_t size,
		enum pg_reason reason, const char *what)
{
	const uint64_t before = denied(bench, reason);

	inside(bench, function, DENIED);
	expect(bench, bench->denied, 0, what);
	CHECK(&bench->check, denied(bench, reason) > before, "%s: not counted as %s", what,
	      lab_reason_name(reason));
	inside(bench, function, ALLOWED);
	expect(bench, bench->allowed, size, what);
}

static void check_closed(struct bench *bench)
{
	struct pg_error err = {};

	CHECK(&bench->check, pg_link_attached(bench->kernel, bench->ifindex, &err) == 0,
	      "attached already");
	CHECK(&bench->check, !pg_link_attach(bench->kernel, bench->ifindex, &err), "%s", err.text);
	CHECK(&bench->check, pg_link_attached(bench->kernel, bench->ifindex, &err) == 1,
	      "not attached");
	inside(bench, send_datagram, ALLOWED);
	expect(bench, bench->allowed, 0, "without an entry");
	put(bench, 0, NULL);
	inside(bench, send_datagram, ALLOWED);
	expect(bench, bench->allowed, 0, "without a phase");
	switch_to(bench, NO_NETWORK);
	inside(bench, send_datagram, ALLOWED);
	expect(bench, bench->allowed, 0, "without an own address");
	own(bench);
}

static void check_verdicts(struct bench *bench)
{
	const uint64_t frames = denied(bench, PG_REASON_FRAME);
	const uint64_t sources = denied(bench, PG_REASON_SOURCE);
	struct pg_error err = {};

	try(bench, send_datagram, 1, PG_REASON_NOT_ALLOWED, "a datagram");
	try(bench, send_fragments, 4000, PG_REASON_NOT_ALLOWED, "fragments of the kernel's");
	CHECK(&bench->check, !inside(bench, send_frame, ALLOWED), "no frame");
	expect(bench, bench->allowed, 0, "a frame of a packet socket");
	CHECK(&bench->check, denied(bench, PG_REASON_FRAME) == frames + 1, "frames");
	CHECK(&bench->check, !inside(bench, send_forged, ALLOWED), "no forged source");
	expect(bench, bench->allowed, 0, "a forged source");
	CHECK(&bench->check, denied(bench, PG_REASON_SOURCE) > sources, "sources");
	CHECK(&bench->check, !pg_events_process(bench->kernel, &err), "%s", err.text);
	CHECK(&bench->check, bench->unknown_sources, "no event of an unknown source");
	switch_to(bench, PUBLIC);
	inside(bench, send_datagram, DENIED);
	expect(bench, bench->denied, 1, "public");
	CHECK(&bench->check, !inside(bench, send_frame, DENIED), "no frame");
	expect(bench, bench->denied, 1, "a frame in public");
	switch_to(bench, NO_NETWORK);
	inside(bench, send_datagram, DENIED);
	expect(bench, bench->denied, 0, "after the switch");
}

static void check_echo(struct bench *bench)
{
	const struct sockaddr_in from = endpoint(DENIED, 0), to = endpoint(OWN, 0);
	const struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
	struct icmphdr echo = {.type = ICMP_ECHO, .un.echo.id = htons(77)};
	int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
	uint8_t answer[200] = {};
	ssize_t got;

	echo.checksum = checksum(&echo, sizeof(echo));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	CHECK(&bench->check, !bind(fd, (const struct sockaddr *)&from, sizeof(from)), "bind: %s",
	      strerror(errno));
	sendto(fd, &echo, sizeof(echo), 0, (const struct sockaddr *)&to, sizeof(to));
	got = recv(fd, answer, sizeof(answer), 0);
	CHECK(&bench->check,
	      got == sizeof(struct iphdr) + sizeof(echo) &&
		      answer[sizeof(struct iphdr)] == ICMP_ECHOREPLY,
	      "echo: %zd octets (%s)", got, got < 0 ? strerror(errno) : "");
	close(fd);
}

/* errno of talking to a closed port. */
static int knock(struct bench *bench, int type)
{
	const struct sockaddr_in from = endpoint(DENIED, 0), to = endpoint(OWN, CLOSED);
	const struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0), error;
	char octet;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	CHECK(&bench->check, !bind(fd, (const struct sockaddr *)&from, sizeof(from)), "bind: %s",
	      strerror(errno));
	error = connect(fd, (const struct sockaddr *)&to, sizeof(to)) ? errno : 0;
	if (type == SOCK_DGRAM && !error) {
		send(fd, "x", 1, 0);
		error = recv(fd, &octet, 1, 0) < 0 ? errno : 0;
	}
	close(fd);
	return error;
}

/* What the kernel inside answers to the denied address: only where that has sent something. */
static void check_answers(struct bench *bench)
{
	int error = knock(bench, SOCK_STREAM);

	CHECK(&bench->check, error == ECONNREFUSED, "a closed port of TCP: %s", strerror(error));
	error = knock(bench, SOCK_DGRAM);
	CHECK(&bench->check, error == ECONNREFUSED, "a closed port of UDP: %s", strerror(error));
	check_echo(bench);
}

static void check_stations(struct bench *bench)
{
	const struct pg_link_stations wrong = {.own = 1, .host = 2, .bridge = 2};
	const uint64_t frames = denied(bench, PG_REASON_FRAME);

	put(bench, PG_LINK_STATIONS, &wrong);
	inside(bench, send_datagram, ALLOWED);
	expect(bench, bench->allowed, 0, "from another station");
	CHECK(&bench->check, denied(bench, PG_REASON_FRAME) > frames, "frames");
	put(bench, 0, NULL);
	inside(bench, send_datagram, ALLOWED);
	expect(bench, bench->allowed, 1, "without stations");
}

/* A connection of the namespace inside to the allowed address, and its other end. */
static bool connect_out(struct bench *bench, int *ret_fd, int *ret_other)
{
	const struct sockaddr_in to = endpoint(ALLOWED, PORT);
	const struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
	pg_autoclose int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	pg_autoclose int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd;

	if (here < 0 || listener < 0 || bind(listener, (const struct sockaddr *)&to, sizeof(to)) ||
	    listen(listener, 1) || setns(bench->inside, CLONE_NEWNET))
		return false;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (setns(here, CLONE_NEWNET))
		return false;
	*ret_fd = fd;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) ||
	    connect(fd, (const struct sockaddr *)&to, sizeof(to)))
		return false;
	*ret_other = accept(listener, NULL, NULL);
	return *ret_other >= 0;
}

/* What is sent has come within so many ms. */
static bool comes(int fd, int ms)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	char octet;

	return poll(&readable, 1, ms) == 1 && read(fd, &octet, 1) == 1;
}

/* Nothing of a link that was written anew counts any more, whatever was let out before. */
static void check_rewritten(struct bench *bench)
{
	const struct pg_link_stations wrong = {.own = 1, .host = 2, .bridge = 2};
	pg_autoclose int fd = -1, other = -1;

	if (!CHECK(&bench->check, connect_out(bench, &fd, &other), "connect: %s", strerror(errno)))
		return;
	for (int i = 0; i < 3; i++)
		CHECK(&bench->check, write(fd, "x", 1) == 1 && comes(other, PATIENCE_MS),
		      "segment %d", i);
	put(bench, PG_LINK_STATIONS, &wrong);
	CHECK(&bench->check, write(fd, "x", 1) == 1 && !comes(other, SHORT_MS),
	      "from another station");
	put(bench, 0, NULL);
	CHECK(&bench->check, comes(other, PATIENCE_MS), "without stations");
	switch_to(bench, PUBLIC); /* where segments are remembered, too */
	for (int i = 0; i < 2; i++)
		CHECK(&bench->check, write(fd, "x", 1) == 1 && comes(other, PATIENCE_MS),
		      "segment %d in public", i);
	pg_link_forget(bench->kernel, bench->ifindex);
	CHECK(&bench->check, write(fd, "x", 1) == 1 && !comes(other, SHORT_MS), "without an entry");
	put(bench, 0, NULL);
	CHECK(&bench->check, comes(other, PATIENCE_MS), "with one again");
	switch_to(bench, NO_NETWORK);
}

/* Another process takes over, and what is not ours stays. */
static void check_replaced(struct bench *bench)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)bench->ifindex,
		    .attach_point = BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, anothers, .handle = 1, .priority = 7);
	LIBBPF_OPTS(bpf_tc_opts, looked_for, .handle = 1, .priority = 7);
	LIBBPF_OPTS(bpf_tc_opts, left, .handle = 1, .priority = 7);
	const struct bpf_insn pass[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	PG_CLEANUP(pg_kernel_freep) struct pg_kernel *next = NULL;
	struct pg_error err = {};

	anothers.prog_fd = bpf_prog_load(BPF_PROG_TYPE_SCHED_CLS, "anothers", "GPL", pass, 2, NULL);
	CHECK(&bench->check, !bpf_tc_attach(&hook, &anothers), "another's filter: %s",
	      strerror(errno));
	if (!CHECK(&bench->check, !pg_kernel_open(NULL, &next, &err), "%s", err.text))
		return;
	CHECK(&bench->check, pg_link_attached(next, bench->ifindex, &err) == 2, "not an older one");
	CHECK(&bench->check, !pg_link_attach(next, bench->ifindex, &err), "%s", err.text);
	CHECK(&bench->check,
	      pg_link_attached(next, bench->ifindex, &err) == 1 &&
		      pg_link_attached(bench->kernel, bench->ifindex, &err) == 2,
	      "not replaced");
	inside(bench, send_datagram, ALLOWED);
	expect(bench, bench->allowed, 0, "under the next one, which has no entry");
	CHECK(&bench->check, !pg_link_detach(bench->ifindex, &err), "%s", err.text);
	CHECK(&bench->check, !pg_link_attached(next, bench->ifindex, &err), "still there");
	inside(bench, send_datagram, DENIED);
	expect(bench, bench->denied, 1, "detached");
	CHECK(&bench->check, !bpf_tc_query(&hook, &looked_for), "another's filter is gone");
	CHECK(&bench->check, !bpf_tc_detach(&hook, &left), "detaching another's");
	CHECK(&bench->check, !pg_link_detach(bench->ifindex, &err), "%s", err.text);
	CHECK(&bench->check, system("ip -d qdisc show dev " DEVICE " 2>/dev/null | grep -q clsact"),
	      "the queue stays");
	close(anothers.prog_fd);
}

static void check_entries(struct bench *bench)
{
	unsigned int ifindex = 0;
	struct pg_error err = {};
	struct pg_link link;

	CHECK(&bench->check,
	      pg_link_next(bench->kernel, &ifindex) && ifindex == bench->ifindex &&
		      !pg_link_next(bench->kernel, &ifindex),
	      "the walk");
	CHECK(&bench->check,
	      !pg_link_read(bench->kernel, bench->ifindex, &link, &err) &&
		      link.header.env_id == LAB_ENV_ID,
	      "read");
	pg_link_forget(bench->kernel, bench->ifindex);
	CHECK(&bench->check, pg_link_read(bench->kernel, bench->ifindex, &link, &err) == -ENOENT,
	      "still there");
	CHECK(&bench->check, denied(bench, PG_REASON_FRAME), "counts stay with the Environment");
	pg_link_environment_forget(bench->kernel, LAB_ENV_ID);
	CHECK(&bench->check, !denied(bench, PG_REASON_FRAME), "counts stay");
	CHECK(&bench->check, !pg_link_detach(9999, &err), "an interface that is not there: %s",
	      err.text);
}

int main(void)
{
	struct bench bench = {.holder = -1};
	struct lab lab;

	lab_open(&lab); /* for its namespace, and to skip without root */
	if (make_network(&bench) && make_environment(&bench)) {
		check_closed(&bench);
		check_group(&bench.check, "nothing passes without an entry, a phase, a source");
		/* First: no hook of a cgroup records what is sent then, so that it bars answers. */
		check_answers(&bench);
		check_group(&bench.check, "the kernel's answers");
		check_verdicts(&bench);
		check_group(&bench.check, "verdicts, and a switch");
		check_stations(&bench);
		check_group(&bench.check, "stations");
		check_rewritten(&bench);
		check_group(&bench.check, "a link that is written anew");
		check_replaced(&bench);
		check_group(&bench.check, "the next process, and others' filters");
		check_entries(&bench);
	} else {
		CHECK(&bench.check, false, "no network or no Environment");
	}
	check_group(&bench.check, "entries and counts");
	pg_kernel_free(bench.kernel);
	if (bench.holder > 0) {
		kill(bench.holder, SIGKILL);
		waitpid(bench.holder, NULL, 0);
	}
	lab_close(&lab);
	return check_end(&bench.check);
}
