/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners in network namespaces, and what their other inhabitants can do to them. */
#include "dns/listener.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <linux/if_tun.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sys/ioctl.h>

#include "base/netns.h"
#include "listener_lab.h"

static struct lab lab;

Test(listener_netns, without_ipv6)
{
	struct pg_error err = {};

	lab_need_isolation();
	if (access("/proc/sys/net/ipv6/conf/lo/disable_ipv6", W_OK) < 0)
		cr_skip_test("no IPv6");
	lab_write_file("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "1");
	lab_setup(&lab);
	cr_assert_eq(pg_listener_open(&lab.options, true, &lab.listener, &err), 0, "%s", err.text);
	cr_expect(!pg_listener_has_ipv6(lab.listener));
	pg_listener_send(lab.listener,
			 &(struct pg_peer){.addr.any.sa_family = AF_INET6,
					   .addr_size = sizeof(struct sockaddr_in6)},
			 (const uint8_t *)"", 0);
	pg_listener_close(lab.listener);
}

static bool lo_is_up(void)
{
	struct ifreq request = {.ifr_name = "lo"};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	cr_assert_eq(ioctl(fd, SIOCGIFFLAGS, &request), 0);
	close(fd);
	return request.ifr_flags & IFF_UP;
}

Test(listener_netns, another_namespace)
{
	struct pg_error err = {};
	int netns, back, fd;
	ino_t home, there;

	lab_need_isolation();
	there = lab_netns_inode();
	netns = open(LAB_HERE, O_RDONLY | O_CLOEXEC);
	cr_expect(!lo_is_up());
	cr_assert_eq(unshare(CLONE_NEWNET), 0);
	home = lab_netns_inode();
	cr_assert_neq(home, there);

	lab_setup(&lab);
	lab.options.netns_fd = netns;
	cr_assert_eq(pg_listener_open(&lab.options, false, &lab.listener, &err), 0, "%s", err.text);
	cr_expect_eq(lab_netns_inode(), home);
	cr_expect(!lo_is_up());
	cr_assert_eq(pg_netns_enter(netns, &back, &err), 0, "%s", err.text);
	cr_expect(lo_is_up());
	fd = lab_client(&lab, SOCK_DGRAM, false);
	pg_netns_leave(&back);
	close(netns);
	lab_expect_echo(&lab, fd, "from there");
	pg_listener_close(lab.listener);
	cr_expect_eq(lab_netns_inode(), home);
}

Test(listener_netns, cookies_tell_namespaces_apart)
{
	uint64_t first;

	lab_need_isolation();
	lab_open(&lab);
	first = pg_listener_netns_cookie(lab.listener);
	pg_listener_close(lab.listener);
	if (first == 0)
		cr_skip_test("this kernel has no SO_NETNS_COOKIE");
	lab_open(&lab);
	cr_expect_neq(pg_listener_netns_cookie(lab.listener), first);
	pg_listener_close(lab.listener);
}

/* What `ss -K` does. Returns a negative errno. */
static int destroy(int protocol, int family, const struct pg_endpoint *endpoint)
{
	struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 body;
	} request = {
		.header = {sizeof(request), SOCK_DESTROY, NLM_F_REQUEST | NLM_F_ACK, 1, 0},
		.body =
			{
				.sdiag_family = (uint8_t)family,
				.sdiag_protocol = (uint8_t)protocol,
				.id.idiag_sport = endpoint->port,
				.id.idiag_if = PG_LISTENER_LO,
				.id.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE},
			},
	};
	__be32 ipv4 = pg_addr_to_v4(&endpoint->addr);
	struct {
		struct nlmsghdr header;
		struct nlmsgerr body;
		uint8_t more[512];
	} answer;
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG);

	if (family == AF_INET)
		memcpy(request.body.id.idiag_src, &ipv4, sizeof(ipv4));
	else
		memcpy(request.body.id.idiag_src, endpoint->addr.word, sizeof(endpoint->addr.word));
	if (fd < 0 || send(fd, &request, sizeof(request), 0) < 0 ||
	    recv(fd, &answer, sizeof(answer), 0) < (ssize_t)NLMSG_LENGTH(sizeof(answer.body))) {
		close(fd);
		return -EPROTONOSUPPORT;
	}
	close(fd);
	return answer.body.error;
}

static void expect_loss(int protocol, bool ipv6, bool by_sending)
{
	struct pg_error err = {};
	int r;

	lab_open(&lab);
	if (ipv6 && !pg_listener_has_ipv6(lab.listener)) {
		pg_listener_close(lab.listener);
		return;
	}
	r = destroy(protocol, ipv6 ? AF_INET6 : AF_INET, &lab.options.endpoints[ipv6]);
	if (r < 0) {
		pg_listener_close(lab.listener);
		cr_skip_test("cannot destroy sockets here: %s", strerror(-r));
	}
	if (by_sending) {
		struct pg_peer peer = {.addr_size = sizeof(peer.addr.in4)};

		peer.addr.in4 = (struct sockaddr_in){.sin_family = AF_INET,
						     .sin_port = htons(9),
						     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		pg_listener_send(lab.listener, &peer, (const uint8_t *)"x", 1);
	}
	cr_assert_eq(pg_wait_readable(pg_listener_fd(lab.listener), -1, 1000), 1);
	cr_expect_eq(pg_listener_process(lab.listener, &err), -ENOTCONN);
	cr_expect(strstr(err.text, ipv6 ? "[::1]:" : "127.77.") &&
			  strstr(err.text, protocol == IPPROTO_TCP ? "TCP" : "UDP"),
		  "%s", err.text);
	cr_expect_eq(pg_listener_process(lab.listener, NULL), -ENOTCONN);
	pg_listener_close(lab.listener);
	cr_expect_eq(pg_listener_open(&lab.options, false, &lab.listener, &err), 0, "%s", err.text);
	pg_listener_close(lab.listener);
}

Test(listener_netns, destroyed_sockets)
{
	lab_need_isolation();
	for (int ipv6 = 0; ipv6 <= 1; ipv6++) {
		expect_loss(IPPROTO_TCP, ipv6, false);
		expect_loss(IPPROTO_UDP, ipv6, false);
	}
	expect_loss(IPPROTO_UDP, false, true);
}

/* RFC 1071; of an even number of octets. */
static uint32_t add_up(uint32_t sum, const void *data, size_t size)
{
	const uint8_t *octets = data;

	for (size_t i = 0; i < size; i += 2)
		sum += (uint32_t)(octets[i] << 8 | octets[i + 1]);
	return sum;
}

static uint16_t checksum(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t) ~(sum + (sum >> 16)));
}

/* An interface that hands in what is written to the descriptor. */
static int make_tunnel(void)
{
	struct ifreq request = {.ifr_name = "outside", .ifr_flags = IFF_TUN | IFF_NO_PI};
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC), control;

	if (fd < 0 || ioctl(fd, TUNSETIFF, &request) < 0)
		cr_skip_test("no /dev/net/tun: %s", strerror(errno));
	control = socket(AF_INET, SOCK_DGRAM, 0);
	request.ifr_flags = IFF_UP;
	cr_assert_eq(ioctl(control, SIOCSIFFLAGS, &request), 0);
	request.ifr_addr.sa_family = AF_INET;
	((struct sockaddr_in *)&request.ifr_addr)->sin_addr.s_addr = inet_addr("192.0.2.1");
	cr_assert_eq(ioctl(control, SIOCSIFADDR, &request), 0);
	((struct sockaddr_in *)&request.ifr_dstaddr)->sin_addr.s_addr = inet_addr("192.0.2.2");
	cr_assert_eq(ioctl(control, SIOCSIFDSTADDR, &request), 0);
	close(control);
	lab_write_file("/proc/sys/net/ipv4/conf/outside/route_localnet", "1");
	lab_write_file("/proc/sys/net/ipv4/conf/all/rp_filter", "0");
	lab_write_file("/proc/sys/net/ipv4/conf/outside/rp_filter", "0");
	return fd;
}

static struct iphdr header_to(const struct pg_endpoint *to, uint8_t protocol, size_t size)
{
	struct iphdr header = {
		.ihl = 5,
		.version = 4,
		.tot_len = htons((uint16_t)(sizeof(header) + size)),
		.ttl = 64,
		.protocol = protocol,
		.saddr = inet_addr("192.0.2.2"),
		.daddr = pg_addr_to_v4(&to->addr),
	};

	header.check = checksum(add_up(0, &header, sizeof(header)));
	return header;
}

static void hand_in_datagram(int tunnel, const struct pg_endpoint *to)
{
	struct {
		struct iphdr ip;
		struct udphdr udp;
		char data[8];
	} packet = {
		.ip = header_to(to, IPPROTO_UDP, sizeof(packet) - sizeof(packet.ip)),
		.udp = {.source = htons(4000),
			.dest = to->port,
			.len = htons(sizeof(packet) - sizeof(packet.ip))},
		.data = "outside",
	};

	cr_assert_eq(write(tunnel, &packet, sizeof(packet)), sizeof(packet));
}

/* Asks for a connection. Returns whether it is granted. */
static bool hand_in_syn(int tunnel, const struct pg_endpoint *to)
{
	struct {
		struct iphdr ip;
		struct tcphdr tcp;
	} packet = {
		.ip = header_to(to, IPPROTO_TCP, sizeof(packet.tcp)),
		.tcp = {.source = htons(4000),
			.dest = to->port,
			.doff = 5,
			.syn = 1,
			.window = htons(1000)},
	};
	uint32_t pseudo = add_up(IPPROTO_TCP + sizeof(packet.tcp), &packet.ip.saddr, 8);

	packet.tcp.check = checksum(add_up(pseudo, &packet.tcp, sizeof(packet.tcp)));
	cr_assert_eq(write(tunnel, &packet, sizeof(packet)), sizeof(packet));
	while (pg_wait_readable(tunnel, -1, 1000) > 0) {
		ssize_t got = read(tunnel, &packet, sizeof(packet));

		if (got == sizeof(packet) && packet.ip.version == 4 &&
		    packet.ip.protocol == IPPROTO_TCP)
			return packet.tcp.syn && packet.tcp.ack;
	}
	return false;
}

/* With route_localnet packets from outside reach 127/8. */
Test(listener_netns, what_came_from_outside)
{
	struct sockaddr_in own = {.sin_family = AF_INET};
	struct sockaddr_storage addr;
	struct pg_endpoint plain;
	int tunnel, other, fd;
	socklen_t size;

	lab_need_isolation();
	lab_open(&lab);
	tunnel = make_tunnel();
	plain = lab.options.endpoints[0];
	plain.port = htons(53);
	other = lab_occupy(&plain, SOCK_DGRAM);
	hand_in_datagram(tunnel, &plain);
	cr_expect_eq(pg_wait_readable(other, -1, 1000), 1, "the packet does not come in at all");
	lab_occupy(&plain, SOCK_STREAM);
	cr_expect(hand_in_syn(tunnel, &plain), "the segment does not come in at all");

	hand_in_datagram(tunnel, &lab.options.endpoints[0]);
	lab_serve(&lab);
	cr_expect_eq(lab.queries, 0);
	cr_expect(!hand_in_syn(tunnel, &lab.options.endpoints[0]));

	/* From inside, what has an address of another interface is not answered over UDP, but for
	 * a connection its client is known. */
	own.sin_addr.s_addr = inet_addr("192.0.2.1");
	size = pg_endpoint_to_sockaddr(&lab.options.endpoints[0], &addr);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	cr_assert_eq(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&addr, size), 0);
	cr_assert_eq(send(fd, "inside", 6, 0), 6);
	lab_serve(&lab);
	cr_expect_eq(lab.queries, 0);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&addr, size), 0);
	lab_ask(fd, 1, 20);
	lab_serve(&lab);
	cr_expect_eq(lab_read(fd, NULL), 1);
	pg_listener_close(lab.listener);
}
