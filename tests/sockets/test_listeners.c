/* SPDX-License-Identifier: Apache-2.0 */
/* Marks on the sockets of the DNS listener, and where one has been seen, as the kernel has them. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "kernel/kernel_internal.h"
#include "test_world.h"

static uint64_t mark_of(const struct pg_kernel *kernel, int fd)
{
	struct pg_dns_listener listener;

	if (bpf_map_lookup_elem(bpf_map__fd(kernel->skeleton->maps.pg_dns_listeners), &fd,
				&listener))
		return 0;
	return listener.env_id;
}

static int open_stream(struct sockaddr_in *name)
{
	socklen_t size = sizeof(*name);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 && !bind(fd, (const struct sockaddr *)name, size) && !listen(fd, 1));
	CHECK(!getsockname(fd, (struct sockaddr *)name, &size));
	return fd;
}

static void test_marks(struct pg_kernel *kernel)
{
	struct sockaddr_in name = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	pg_autoclose int listener = open_stream(&name), client = -1, accepted = -1;
	struct pg_error err = {0};

	CHECK(mark_of(kernel, listener) == 0);
	CHECK(!pg_dns_listener_mark(kernel, listener, 4711, &err));
	CHECK(mark_of(kernel, listener) == 4711);
	client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(!connect(client, (const struct sockaddr *)&name, sizeof(name)));
	accepted = accept(listener, NULL, NULL);
	CHECK(accepted >= 0);
	CHECK(mark_of(kernel, accepted) == 4711);
	CHECK(mark_of(kernel, client) == 0);
	CHECK(pg_dns_listener_mark(kernel, STDIN_FILENO, 4711, &err) < 0);
	CHECK(err.text[0]);
}

static bool is_served(int map, uint64_t env_id, uint64_t netns)
{
	const struct pg_dns_served_key key = {.env_id = env_id, .netns = netns};
	__u8 present;

	return !bpf_map_lookup_elem(map, &key, &present);
}

static void test_forget(struct pg_kernel *kernel)
{
	const int map = bpf_map__fd(kernel->skeleton->maps.pg_dns_served);
	const __u8 present = 1;

	for (uint64_t netns = 1; netns <= 100; netns++) {
		for (uint64_t env_id = 1; env_id <= 2; env_id++) {
			const struct pg_dns_served_key key = {.env_id = env_id, .netns = netns};

			CHECK(!bpf_map_update_elem(map, &key, &present, BPF_ANY));
		}
	}
	pg_dns_forget(kernel, 1);
	for (uint64_t netns = 1; netns <= 100; netns++)
		CHECK(!is_served(map, 1, netns) && is_served(map, 2, netns));
	pg_dns_forget(kernel, 2);
	pg_dns_forget(kernel, 2);
	CHECK(!is_served(map, 2, 1));
}

int main(void)
{
	PG_CLEANUP(pg_kernel_freep) struct pg_kernel *kernel = NULL;
	struct pg_error err = {0};

	if (geteuid() != 0) {
		puts("skipped: needs root for BPF programs and a network namespace");
		return 77;
	}
	CHECK(!unshare(CLONE_NEWNET) && !system("ip link set lo up"));
	if (pg_kernel_open(NULL, &kernel, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return EXIT_FAILURE;
	}
	test_marks(kernel);
	test_forget(kernel);
	puts("marks are set and inherited, namespaces are forgotten");
	return EXIT_SUCCESS;
}
