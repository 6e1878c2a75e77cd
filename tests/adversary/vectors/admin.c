/* SPDX-License-Identifier: Apache-2.0 */
/* What CAP_NET_ADMIN adds: the container's network is the application's to change. Each changes it
 * back. */
#include "../adversary.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/ip.h>
#include <linux/rtnetlink.h>
#include <net/ethernet.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char *mac_text(const uint8_t *mac)
{
	static char text[18];

	snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2],
		 mac[3], mac[4], mac[5]);
	return text;
}

static const char *version_of(const union any *address)
{
	return is_v6(address) ? "-6" : "-4";
}

static int udp_to(const struct attempt *attempt, const union any *to)
{
	return send_token(open_socket(to, SOCK_DGRAM, 0), attempt, to);
}

/* The token in UDP of the kernel's, which goes to the target. */
VECTOR(vxlan)
{
	int result = shell("ip link add pgx type vxlan id 7 remote %s local %s dstport %d; "
			   "ip link set pgx up",
			   text_of(&attempt->target), text_of(&attempt->own), PORT);

	result = result ?: frame_by("pgx", attempt);
	shell("ip link del pgx");
	return result;
}

static int tunnel(const struct attempt *attempt, const char *kind, const char *more)
{
	uint8_t packet[ROOM];
	size_t size = put_udp(packet, &attempt->own, &attempt->target, PORT, attempt->token);
	int result = shell("ip link add pgx type %s remote %s local %s %s; ip link set pgx up",
			   kind, text_of(&attempt->target), text_of(&attempt->own), more);

	result = result ?: wait_up("pgx");
	result = result ?: send_frame("pgx", packet, size);
	shell("ip link del pgx");
	return result;
}

VECTOR(tunnel_ipip)
{
	return is_v6(&attempt->target) ? tunnel(attempt, "ip6tnl", "mode any")
				       : tunnel(attempt, "ipip", "");
}

VECTOR(tunnel_gre)
{
	return tunnel(attempt, is_v6(&attempt->target) ? "ip6gre" : "gre", "");
}

VECTOR(tunnel_sit)
{
	return tunnel(attempt, "sit", "mode any");
}

VECTOR(tunnel_geneve)
{
	int result = shell("ip link add pgx type geneve id 7 remote %s; ip link set pgx up",
			   text_of(&attempt->target));

	result = result ?: frame_by("pgx", attempt);
	shell("ip link del pgx");
	return result;
}

/* A device of its own on the same link. */
VECTOR(macvlan)
{
	int result = shell("ip link add pgx link " DEVICE " type macvlan mode bridge; "
			   "ip link set pgx up");

	result = result ?: frame_by("pgx", attempt);
	shell("ip link del pgx");
	return result;
}

VECTOR(ipvlan)
{
	int result = shell("ip link add pgx link " DEVICE " type ipvlan; ip link set pgx up");

	result = result ?: frame_by("pgx", attempt);
	shell("ip link del pgx");
	return result;
}

VECTOR(vlan_device)
{
	int result = shell("ip link add pgx link " DEVICE " type vlan id 7; ip link set pgx up");

	result = result ?: frame_by("pgx", attempt);
	shell("ip link del pgx");
	return result;
}

/* Netlink can do what the read-only /proc/sys refuses. */
static int forward_from(const char *device)
{
	struct {
		struct nlmsghdr head;
		struct ifinfomsg info;
		struct rtattr spec, family, conf, value;
		uint32_t on;
	} request = {
		.head = {.nlmsg_len = sizeof(request),
			 .nlmsg_type = RTM_SETLINK,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
		.info = {.ifi_index = index_of(device)},
		.spec = {4 * sizeof(struct rtattr) + 4, IFLA_AF_SPEC | NLA_F_NESTED},
		.family = {3 * sizeof(struct rtattr) + 4, AF_INET | NLA_F_NESTED},
		.conf = {2 * sizeof(struct rtattr) + 4, IFLA_INET_CONF | NLA_F_NESTED},
		.value = {sizeof(struct rtattr) + 4, IPV4_DEVCONF_FORWARDING},
		.on = 1,
	};
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
	} answer = {0};
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);

	if (fd < 0 || send(fd, &request, sizeof(request), 0) < 0 ||
	    recv(fd, &answer, sizeof(answer), MSG_TRUNC) < 0)
		return -errno;
	return answer.error.error;
}

/* Comes in by a device of the container's own, and is forwarded: no socket sends it. */
static int forwarded(const struct attempt *attempt)
{
	union any from = attempt->own;
	uint8_t frame[ROOM];
	size_t head = put_ethernet(frame, attempt, ETHERTYPE_IP);
	int result = shell("ip link add pgx type veth peer name pgy; ip link set pgx up; "
			   "ip link set pgy address %s up; ip addr add 10.99.0.1/24 dev pgy",
			   mac_text(attempt->made_mac));

	result = result ?: forward_from("pgy");
	from.in.sin_addr.s_addr = htonl(0x0a630002);
	memcpy(frame, attempt->made_mac, 6);
	head += put_udp(frame + head, &from, &attempt->target, PORT, attempt->token);
	result = result ?: wait_up("pgx") ?: wait_up("pgy");
	result = result ?: send_frame("pgx", frame, head);
	shell("ip link del pgx");
	return result;
}

VECTOR(forwarded_packet)
{
	return forwarded(attempt);
}

#define NFT_CHAIN \
	"nft add table %s pgt; nft 'add chain %s pgt c { type %s hook %s priority %d; }'; "

static int with_rule(const char *family, const char *type, const char *hook, int priority,
		     const char *rule)
{
	return shell(NFT_CHAIN "nft 'add rule %s pgt c %s'", family, family, type, hook, priority,
		     family, rule);
}

/* With the container's own source. */
VECTOR(forwarded_masqueraded)
{
	int result = with_rule("ip", "nat", "postrouting", 100, "masquerade");

	result = result ?: forwarded(attempt);
	shell("nft delete table ip pgt");
	return result;
}

static int by_rule(const struct attempt *attempt, const char *family, const char *type,
		   const char *hook, int priority, const char *rule, const union any *to)
{
	int result = with_rule(family, type, hook, priority, rule);

	result = result ?: udp_to(attempt, to);
	shell("nft delete table %s pgt", family);
	return result;
}

static const char *nft_family(const union any *address)
{
	return is_v6(address) ? "ip6" : "ip";
}

/* To A, which netfilter makes the target. */
VECTOR(nft_dnat)
{
	const char *family = nft_family(&attempt->target);
	char rule[200];

	snprintf(rule, sizeof(rule), "%s daddr %s dnat to %s", family, text_of(&attempt->allowed),
		 text_of(&attempt->target));
	return by_rule(attempt, family, "nat", "output", -100, rule, &attempt->allowed);
}

/* From the target. */
VECTOR(nft_snat)
{
	const char *family = nft_family(&attempt->target);
	char rule[200];

	snprintf(rule, sizeof(rule), "%s daddr %s snat to %s", family, text_of(&attempt->allowed),
		 text_of(&attempt->target));
	return by_rule(attempt, family, "nat", "postrouting", 100, rule, &attempt->allowed);
}

/* Below the hooks. */
VECTOR(nft_rewrite)
{
	const char *family = nft_family(&attempt->target);
	char rule[200];

	snprintf(rule, sizeof(rule), "%s daddr %s %s daddr set %s", family,
		 text_of(&attempt->allowed), family, text_of(&attempt->target));
	return by_rule(attempt, "netdev", "filter", "egress device " DEVICE, 0, rule,
		       &attempt->allowed);
}

/* What goes to loopback leaves by the other device. */
VECTOR(nft_forward)
{
	union any loopback = loopback_of(&attempt->target);

	/* Bridges drop what has no source. */
	return shell("ip link set lo address %s", mac_text(attempt->mac))
		       ?: by_rule(attempt, "netdev", "filter", "ingress device lo", 0,
				  "dup to " DEVICE, &loopback);
}

VECTOR(nft_duplicate)
{
	union any loopback = loopback_of(&attempt->target);
	char rule[200];

	snprintf(rule, sizeof(rule), "udp dport %d dup to %s device " DEVICE, PORT,
		 text_of(&attempt->gateway));
	return by_rule(attempt, nft_family(&loopback), "filter", "output", 0, rule, &loopback);
}

VECTOR(tc_mirror)
{
	union any loopback = loopback_of(&attempt->target);
	/* Bridges drop what has no source. */
	int result = shell("ip link set lo address %s; tc qdisc add dev lo clsact; "
			   "tc filter add dev lo egress protocol all u32 match u32 0 0 "
			   "action mirred egress mirror dev " DEVICE,
			   mac_text(attempt->mac));

	result = result ?: udp_to(attempt, &loopback);
	shell("tc qdisc del dev lo clsact");
	return result;
}

VECTOR(tc_rewrite)
{
	int result = shell("tc qdisc add dev " DEVICE " clsact; tc filter add dev " DEVICE
			   " egress matchall action pedit ex munge ip dst set %s",
			   text_of(&attempt->target));

	result = result ?: udp_to(attempt, &attempt->allowed);
	shell("tc qdisc del dev " DEVICE " clsact");
	return result;
}

static int by_route(const struct attempt *attempt, const char *way)
{
	const char *version = version_of(&attempt->allowed), *to = text_of(&attempt->allowed);
	int result = shell("ip %s route add %s %s", version, to, way);

	result = result ?: udp_to(attempt, &attempt->allowed);
	/* The neighbour is asked for meanwhile. */
	usleep(2000);
	shell("ip %s route del %s", version, to);
	return result;
}

/* Packets to A get an outer header with the target. */
VECTOR(seg6_route)
{
	char way[200];

	snprintf(way, sizeof(way), "encap seg6 mode encap segs %s via %s dev " DEVICE,
		 text_of(&attempt->target), text_of(&attempt->gateway));
	return by_route(attempt, way);
}

VECTOR(mpls_route)
{
	char way[200];

	snprintf(way, sizeof(way), "encap mpls %u via %s dev " DEVICE,
		 16 + (attempt->number & 0xffff), text_of(&attempt->gateway));
	return by_route(attempt, way);
}

/* The kernel asks the link for a gateway of the application's choice. */
VECTOR(route_by_neighbour)
{
	char way[200];

	snprintf(way, sizeof(way), "via %s dev " DEVICE " onlink", text_of(&attempt->onlink));
	return by_route(attempt, way);
}

VECTOR(neighbour_question)
{
	const char *to = text_of(&attempt->onlink);
	int result = shell("ip neigh add %s dev " DEVICE " use", to);

	usleep(2000);
	shell("ip neigh del %s dev " DEVICE, to);
	return result;
}

/* A's frames go to another station. */
VECTOR(neighbour_static)
{
	const char *gateway = text_of(&attempt->gateway);
	int result = shell("ip neigh replace %s lladdr %s dev " DEVICE " nud permanent", gateway,
			   mac_text(attempt->made_mac));

	result = result ?: udp_to(attempt, &attempt->allowed);
	shell("ip neigh del %s dev " DEVICE, gateway);
	return result;
}

/* Loopback addresses are nothing special any more. */
VECTOR(rule_without_local)
{
	union any to = loopback_of(&attempt->target);
	const char *version = version_of(&to);
	int result =
		shell("ip %s route add %s via %s dev " DEVICE " table 99; "
		      "ip %s rule add pref 9 lookup local; ip %s rule add pref 0 to %s lookup 99; "
		      "ip %s rule del pref 0 lookup local",
		      version, text_of(&to), text_of(&attempt->gateway), version, version,
		      text_of(&to), version);

	result = result ?: udp_to(attempt, &to);
	shell("set +e; ip %s rule add pref 0 lookup local; ip %s rule del pref 9; "
	      "ip %s rule del pref 0 to %s lookup 99; ip %s route flush table 99",
	      version, version, version, text_of(&to), version);
	return result;
}

/* An address that it gives to itself: the target's. The kernel says so on the link, too. */
VECTOR(gained_address)
{
	const char *more =
		is_v6(&attempt->target) ? "/128 dev " DEVICE " nodad" : "/32 dev " DEVICE;
	const char *address = text_of(&attempt->target);
	int result = shell("ip addr add %s%s", address, more), fd;
	union any from = with_port(&attempt->target, 0);

	if (!result) {
		fd = bound_socket(&from, SOCK_DGRAM, 0);
		result = fd < 0 ? fd : send_token(fd, attempt, &attempt->allowed);
	}
	shell("ip addr del %s%s", address,
	      is_v6(&attempt->target) ? "/128 dev " DEVICE : "/32 dev " DEVICE);
	return result;
}

/* The kernel asks the link whether somebody has the address already. */
VECTOR(address_detection)
{
	const char *address = text_of(&attempt->target);
	int result =
		shell("ip link set " DEVICE " addrgenmode none; ip addr add %s/128 dev " DEVICE,
		      address);

	usleep(20000);
	shell("ip addr del %s/128 dev " DEVICE, address);
	return result;
}

/* Six octets in each frame that passes. */
VECTOR(hardware_address)
{
	const char *gateway = text_of(&attempt->gateway);
	struct attempt nothing = *attempt;
	int result = shell("ip link set " DEVICE " address %s", mac_text(attempt->made_mac));

	/* The kernel's question for the gateway has them, too. */
	shell("ip neigh del %s dev " DEVICE, gateway);
	shell("ip neigh add %s dev " DEVICE " use", gateway);
	usleep(2000);
	/* Not with the token: A may have that. */
	nothing.token = "-";
	result = result ?: udp_to(&nothing, &attempt->allowed);
	shell("ip link set " DEVICE " address %s", mac_text(attempt->mac));
	return result;
}

VECTOR(tun_device)
{
	struct ifreq request = {.ifr_name = "pgx", .ifr_flags = IFF_TUN | IFF_NO_PI};
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC), result;
	union any from = attempt->own;
	uint8_t packet[ROOM];
	size_t size;

	if (fd < 0 || ioctl(fd, TUNSETIFF, &request))
		return -errno;
	result = shell("ip link set pgx up; ip addr add 10.99.0.1/24 dev pgx");
	result = result ?: forward_from("pgx");
	from.in.sin_addr.s_addr = htonl(0x0a630002);
	size = put_udp(packet, &from, &attempt->target, PORT, attempt->token);
	return result ?: sent(write(fd, packet, size));
}

/* State of IPsec: what is sent to A is wrapped, for the target. */
VECTOR(xfrm_tunnel)
{
	const char *own = text_of(&attempt->own), *to = text_of(&attempt->target);
	int result = shell("ip xfrm state add src %s dst %s proto esp spi 7 mode tunnel "
			   "enc 'ecb(cipher_null)' ''; ip xfrm policy add dst %s dir out "
			   "tmpl src %s dst %s proto esp mode tunnel",
			   own, to, text_of(&attempt->allowed), own, to);

	result = result ?: udp_to(attempt, &attempt->allowed);
	shell("ip xfrm policy flush; ip xfrm state flush");
	return result;
}
