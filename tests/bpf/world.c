// SPDX-License-Identifier: Apache-2.0
#include "world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <phasegate/abi/dns.h>
#include <phasegate/abi/set.h>

#include "check.h"
#include "phasegate.skel.h"

/* Emulated machines are slow. */
#define PATIENCE_S 5

static void __attribute__((noreturn)) fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

static int take_event(void *context, void *data, size_t size)
{
	struct world *world = context;
	struct pg_event_parked *event = &world->events[world->event_count];

	world->event_total++;
	if (world->event_count == WORLD_EVENTS_MAX)
		return 0;
	memset(event, 0, sizeof(*event));
	memcpy(event, data, size < sizeof(*event) ? size : sizeof(*event));
	world->event_count++;
	return 0;
}

static void attach(struct world *world)
{
	struct bpf_program *const programs[PG_HOOK_COUNT] = {
#define PG_X(symbol, program, flags) world->skeleton->progs.program,
		PG_HOOKS(PG_X)
#undef PG_X
	};
	const int cgroup = open(world->place.outer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (cgroup < 0)
		fail(world->place.outer);
	for (size_t i = 0; i < PG_HOOK_COUNT; i++) {
		world->links[i] = bpf_program__attach_cgroup(programs[i], cgroup);
		if (!world->links[i])
			fail(bpf_program__name(programs[i]));
	}
	close(cgroup);
}

static void make_header(struct world *world)
{
	struct pg_header *header = &world->header;
	const struct pg_addr mapped = {.word = {0, 0, htonl(0xffff), inet_addr(WORLD_LISTENER4)}};

	header->magic = PG_HEADER_MAGIC;
	header->level = (__u8)world->place.level;
	header->env_id = header->cgroup_id = world->place.id;
	header->state = WORLD_STATE;
	header->flags = PG_HEADER_DNS_LISTENER | PG_HEADER_CHECK_LO_SOURCE;
	header->slots[0][WORLD_ALLOWLIST].mode = PG_MODE_ALLOWLIST;
	header->slots[0][WORLD_ALLOWLIST].flags = PG_PHASE_DNS_REDIRECT;
	header->slots[0][WORLD_NO_NETWORK].mode = PG_MODE_NO_NETWORK;
	header->slots[0][WORLD_PUBLIC].mode = PG_MODE_PUBLIC;
	header->slots[0][WORLD_PUBLIC].flags = PG_PHASE_DNS_REDIRECT;
	header->listener[0].addr = mapped;
	header->listener[0].port = htons(WORLD_PORT);
	inet_pton(AF_INET6, WORLD_LISTENER6, &header->listener[1].addr);
	header->listener[1].port = htons(WORLD_PORT);
}

void world_open(struct world *world)
{
	memset(world, 0, sizeof(*world));
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (geteuid()) {
		printf("1..0 # SKIP bpf() and a network namespace of one's own need root\n");
		exit(CHECK_SKIPPED);
	}
	world_unshare();
	world->skeleton = phasegate_bpf__open_and_load();
	if (!world->skeleton)
		fail("loading the programs");
	world->ring = ring_buffer__new(bpf_map__fd(world->skeleton->maps.pg_events), take_event,
				       world, NULL);
	if (!world->ring)
		fail("the ring of events");
	if (!place_make(&world->place))
		exit(EXIT_FAILURE);
	attach(world);
	make_header(world);
	world_switch(world, WORLD_ALLOWLIST);
}

void world_close(struct world *world)
{
	for (size_t i = 0; i < PG_HOOK_COUNT; i++)
		bpf_link__destroy(world->links[i]);
	place_remove(&world->place);
	ring_buffer__free(world->ring);
	phasegate_bpf__destroy(world->skeleton);
}

void world_unshare(void)
{
	if (unshare(CLONE_NEWNET) || system("ip link set lo up"))
		fail("making a network namespace");
}

void world_switch(struct world *world, enum pg_phase phase)
{
	world_write_header(world);
	world->generation++;
	world_set_state(world, 0, (int)phase);
}

void world_set_state(struct world *world, unsigned int bank, int phase)
{
	const __u32 index = WORLD_STATE;
	const struct pg_state state = {.word = world->generation << 8 | bank << 4 |
					       (__u64)(phase + 1)};

	if (bpf_map_update_elem(bpf_map__fd(world->skeleton->maps.pg_states), &index, &state,
				BPF_EXIST))
		fail("writing the state");
}

void world_write_header(struct world *world)
{
	if (bpf_map_update_elem(bpf_map__fd(world->skeleton->maps.pg_headers),
				&world->header.env_id, &world->header, BPF_EXIST))
		fail("writing the header");
}

static int make_socket(int family, int type, int protocol)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	int fd = socket(family, type | SOCK_CLOEXEC, protocol);

	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

int world_client(const struct world *world, int family, int type, int protocol)
{
	int fd, error;

	if (!place_enter(world->place.outer))
		fail("entering the cgroup");
	fd = make_socket(family, type, protocol);
	error = errno;
	if (!place_enter(world->place.mount))
		fail("leaving the cgroup");
	errno = error;
	return fd;
}

static int listen_at(const struct world *world, const char *address, uint16_t port, int type,
		     uint64_t env_id)
{
	const struct pg_dns_listener mark = {.env_id = env_id};
	const struct world_name name = world_name(address, port);
	const int on = 1;
	int fd = make_socket(name.storage.ss_family, type, 0);

	if (fd < 0)
		fail(address);
	if (env_id && bpf_map_update_elem(bpf_map__fd(world->skeleton->maps.pg_dns_listeners), &fd,
					  &mark, BPF_ANY))
		fail("marking a listener");
	if (type == SOCK_STREAM)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)&name.storage, name.size) ||
	    (type == SOCK_STREAM && listen(fd, 8)))
		fail(address);
	return fd;
}

struct world_listener world_listen(const struct world *world, const char *address, uint16_t port,
				   uint64_t env_id)
{
	struct world_listener listener = {.udp = {-1, -1}, .tcp = {-1, -1}};

	listener.tcp[0] = listen_at(world, address, port, SOCK_STREAM, env_id);
	if (!strcmp(address, WORLD_LISTENER4)) {
		listener.tcp[1] = listen_at(world, WORLD_LISTENER6, port, SOCK_STREAM, env_id);
		listener.udp[1] = listen_at(world, WORLD_LISTENER6, port, SOCK_DGRAM, env_id);
	}
	listener.udp[0] = listen_at(world, address, port, SOCK_DGRAM, env_id);
	return listener;
}

void world_unlisten(struct world_listener *listener)
{
	for (size_t i = 0; i < 2; i++) {
		if (listener->udp[i] >= 0)
			close(listener->udp[i]);
		if (listener->tcp[i] >= 0)
			close(listener->tcp[i]);
	}
}

/* All counters are u64, so a sum over the CPUs is one over arrays. */
static struct pg_counters read_counters(const struct world *world)
{
	const int cpus = libbpf_num_possible_cpus();
	struct pg_counters *each = calloc((size_t)cpus, sizeof(*each)), sum = {};

	if (!each || bpf_map_lookup_elem(bpf_map__fd(world->skeleton->maps.pg_counts),
					 &world->place.id, each))
		fail("reading the counters");
	for (int i = 0; i < cpus; i++) {
		for (size_t j = 0; j < PG_REASON_COUNT; j++)
			sum.reason[j] += each[i].reason[j];
		sum.events_lost += each[i].events_lost;
		sum.events_suppressed += each[i].events_suppressed;
	}
	free(each);
	return sum;
}

uint64_t world_counted(const struct world *world, enum pg_reason reason)
{
	return read_counters(world).reason[reason];
}

uint64_t world_events_lost(const struct world *world)
{
	return read_counters(world).events_lost;
}

uint64_t world_events_suppressed(const struct world *world)
{
	return read_counters(world).events_suppressed;
}

void world_take_events(struct world *world)
{
	world->event_count = 0;
	ring_buffer__consume(world->ring);
}

bool world_learn_address(int learned, const char *text, uint64_t expires)
{
	const struct pg_learned value = {.expires = expires};
	const struct pg_addr addr = world_address(text);

	return !bpf_map_update_elem(learned, &addr, &value, BPF_ANY);
}

bool world_forget_address(int learned, const char *text)
{
	const struct pg_addr addr = world_address(text);

	return !bpf_map_delete_elem(learned, &addr);
}

struct world_name world_name(const char *address, uint16_t port)
{
	struct world_name name = {};
	struct sockaddr_in *v4 = (struct sockaddr_in *)&name.storage;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&name.storage;

	if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		name.size = sizeof(*v4);
	} else if (inet_pton(AF_INET6, address, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		name.size = sizeof(*v6);
	}
	return name;
}

bool world_name_is(const struct world_name *name, const char *address, uint16_t port)
{
	const struct world_name other = world_name(address, port);

	return name->size == other.size && !memcmp(&name->storage, &other.storage, other.size);
}

int world_send(int fd, const struct world_name *to, size_t size)
{
	char octets[1024];
	ssize_t sent;

	memset(octets, 'q', sizeof(octets));
	sent = sendto(fd, octets, size, MSG_NOSIGNAL,
		      to ? (const struct sockaddr *)&to->storage : NULL, to ? to->size : 0);
	if (sent < 0)
		return errno;
	return (size_t)sent == size ? 0 : EIO;
}

int world_learn(struct world *world, enum pg_phase phase)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);
	const __u32 slot = 1;
	const int fd = bpf_map_create(BPF_MAP_TYPE_HASH, "learned", sizeof(struct pg_addr),
				      sizeof(struct pg_learned), 64, &options);

	if (fd < 0 || bpf_map_update_elem(bpf_map__fd(world->skeleton->maps.pg_learned_sets), &slot,
					  &fd, BPF_ANY))
		fail("the learned set");
	world->header.slots[0][phase].learned = slot;
	world_write_header(world);
	return fd;
}

struct pg_addr world_address(const char *text)
{
	struct pg_addr addr = {.word = {0, 0, htonl(0xffff), 0}};

	if (inet_pton(AF_INET, text, &addr.word[3]) != 1)
		inet_pton(AF_INET6, text, &addr);
	return addr;
}

void world_add_link(struct world *world)
{
	if (!system("ip link add pgtest0 type veth peer name pgtest1 && "
		    "ip addr add 10.9.0.1/24 dev pgtest0 && "
		    "ip addr add fd09::1/64 dev pgtest0 nodad && "
		    "ip link set pgtest1 up && ip link set pgtest0 up && "
		    "ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev pgtest0 && "
		    "ip neigh add fd09::2 lladdr 02:00:00:00:00:02 dev pgtest0"))
		return;
	world_close(world);
	exit(EXIT_FAILURE);
}
