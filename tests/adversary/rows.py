# SPDX-License-Identifier: Apache-2.0
"""The vectors: what each is, who can try it, and what has to come of it. One list: the tests hold
what they see against it, and docs/threat-model.md has its table from it.

Of a vector that aims at a denied address nothing may leave, in no-network and in an allowlist, but
in the modes of its `leak`, if it has one: docs/threat-model.md says why. `to_allowed` says what
becomes of it when it aims at an allowed address: "passes", or "denied" if its form is denied outside
public, or None if there is no such thing. In public it has to arrive, or the rest proves nothing: unless it is
`rare`, which says what it wants that a kernel or a container may not have.
"""

import collections

CONFINED = ("no-network", "allowlist")
Row = collections.namedtuple("Row", "name families needs to_allowed rare leak text")
GROUPS = []


def _row(name, text, families="46", needs="", to_allowed="passes", rare="", leak=()):
    GROUPS[-1][1].append(Row(name, families, needs, to_allowed, rare, leak, text))


def _group(title):
    GROUPS.append((title, []))


# families: 4, 6, and m: IPv4-mapped on an IPv6 socket. needs: "" nothing, "raw" CAP_NET_RAW,
# "admin" CAP_NET_ADMIN, "alone" that and a container of its own, which is of no use afterwards.
_group("Streams")
_row("tcp_connect", "connect and send", "46m")
_row("tcp_fastopen", "payload in the SYN (`sendto` with MSG_FASTOPEN)", "46m")
_row("tcp_fastopen_connect", "the same, by TCP_FASTOPEN_CONNECT", "46m")
_row("tcp_reconnect", "a socket that was connected to loopback, disconnected by AF_UNSPEC", "46m")
_row("tcp_accepted_reconnect", "a socket that was accepted, whose packets are replies", "46m")
_row("tcp_listener_reconnect", "a socket that listened", "46m")
_row("tcp_sendfile", "payload from a file, by the kernel")
_row("tcp_zerocopy", "MSG_ZEROCOPY")
_row("mptcp", "Multipath TCP")
_row("tcp_repair", "a connection without handshake (TCP_REPAIR)", needs="admin")

_group("Datagrams")
_row("udp_connected", "connect and send", "46m")
_row("udp_sendto", "`sendto`", "46m")
_row("udp_inet_on_inet6", "an IPv4 sockaddr on an IPv6 socket", "4")
_row("udp_unspec", "a sockaddr of AF_UNSPEC", "4")
_row("udp_sendmmsg", "the second of two messages, the first to loopback", "46m")
_row("udp_connected_elsewhere", "connected to A, sent to another", "46m")
_row("udp_corked", "begun for A, finished after a connect to another")
_row("udp_gso", "segmented by the kernel (UDP_SEGMENT)")
_row("udp_large", "fragmented by the kernel")
_row("udp_zerocopy", "MSG_ZEROCOPY")
_row("udplite_connected", "UDP-Lite, connected", rare="UDP-Lite")
_row("udplite_sendto", "UDP-Lite, `sendto`", rare="UDP-Lite")
_row("udp_from_port", "from the port of a packet that was sent by other means")
_row("dns_port", "port 53 of any address")
_row("ping_socket", "an echo request of a ping socket", rare="ping_group_range")
_row("uring_udp", "`sendmsg` by io_uring", rare="io_uring")
_row("uring_polled", "the same by the kernel's thread (SQPOLL)", rare="io_uring")
_row("uring_socket", "the socket made by io_uring, too", rare="io_uring")
_row("uring_tcp", "a stream by io_uring", rare="io_uring")
_row("ipv6_of_6to4", "the IPv4 address in a 6to4 one", "6", to_allowed=None)
_row("ipv6_of_nat64", "the IPv4 address in a NAT64 one", "6", to_allowed=None)
_row("ipv6_compatible", "the IPv4 address in an IPv4-compatible one", "6", to_allowed=None,
     rare="a route for ::/96")

_row("docker_resolver", "a name asked of Docker's resolver", "4", to_allowed=None,
     rare="Docker's resolver")
_row("docker_resolver_tcp", "the same by TCP", "4", to_allowed=None, rare="Docker's resolver")
_row("docker_resolver_port", "at the port where it really listens", "4", to_allowed=None,
     rare="Docker's resolver")
_row("docker_resolver_port_tcp", "the same by TCP", "4", to_allowed=None,
     rare="Docker's resolver")

_group("Other header, other way, other source")
_row("srh", "segment routing header: sockaddr A, header D", "6", to_allowed="denied")
_row("rthdr2", "routing header of type 2", "6", to_allowed="denied", needs="raw",
     rare="mobile IPv6")
_row("destination_options", "destination options with payload", "6", "raw", "denied")
_row("lsrr", "loose source routing: sockaddr A, header D", "4", "raw", "denied")
_row("record_route", "an IPv4 option", "4", to_allowed="denied")
_row("loopback_by_device", "127.x and ::1 by SO_BINDTODEVICE of the container's device",
     to_allowed=None)
_row("unspecified_by_device", "0.0.0.0 and :: in the same way", to_allowed=None,
     rare="a kernel that sends it")
_row("socket_marks", "Phasegate's own socket marks (SO_MARK)", needs="admin")
_row("forged_to_own", "source D to its own closed port: the kernel's error goes to D", "6",
     to_allowed=None)
_row("forged_to_loopback", "the same by loopback", "6", to_allowed=None)
_row("forged_by_pktinfo", "the same, source by IPV6_PKTINFO", "6", to_allowed=None)
_row("forged_to_allowed", "source D to A, which answers to D", "6", to_allowed=None)
_row("forged_syn_to_closed", "a SYN with source D: the kernel's RST goes to D", "6",
     to_allowed=None)
_row("forged_syn_to_listener", "the same: the SYN-ACK goes to D", "6", to_allowed=None)

_group("Many at once")
_row("multicast", "a multicast group", to_allowed=None)
_row("broadcast", "255.255.255.255, and that of the network", "4", to_allowed=None)
_row("subnet_anycast", "the routers' anycast address of the network", "6", to_allowed=None)
_row("onlink_udp", "a neighbour on the container's network", to_allowed=None)
_row("group_join", "octets in the address of a group that is joined", to_allowed=None)
_row("group_source_join", "octets in the address of a source that is joined", to_allowed=None)

_group("Raw sockets")
_row("raw_icmp", "an echo request", needs="raw")
_row("raw_icmp_timestamp", "an ICMP timestamp request", "4", needs="raw")
_row("raw_icmp_redirect", "a redirect", needs="raw")
_row("raw_neighbour", "neighbour discovery, as the kernel's", "6", "raw", None)
_row("raw_group_report", "IGMP and MLD reports, as the kernel's", "46", "raw", None)
_row("raw_udp", "UDP: sockaddr A, header D", needs="raw")
_row("raw_dns", "UDP to port 53: the same", needs="raw")
_row("raw_tcp_syn", "a SYN with payload", needs="raw")
_row("raw_tcp_rst", "an RST with payload", needs="raw")
_row("raw_tcp_syn_ack", "a SYN-ACK with payload", needs="raw")
_row("raw_tcp_fin", "a FIN with payload", needs="raw")
_row("raw_forged_echo", "from D to itself: the kernel answers to D", "4", "raw", None)
_row("raw_forged_udp", "from D to its closed port: the kernel's error goes to D", "46", "raw",
     None)
_row("raw_forged_syn", "from D to its closed port: the RST goes to D", "46", "raw", None)
_row("raw_forged_to_allowed", "from D to A", "46", "raw", None)
_row("raw_fragment", "a fragment", "46", "raw", "denied",
     rare="a container without conntrack, which collects fragments")
_row("raw_ipip", "IP in IP: outer A, inner D", "46", "raw", "denied")
_row("raw_gre", "GRE: outer A, inner D", "46", "raw", "denied")
_row("raw_6in4", "IPv6 in IPv4, and IPv4 in IPv6", "46", "raw", "denied")
_row("raw_sctp", "SCTP", needs="raw")
_row("raw_esp", "ESP", "46", "raw", "denied")
_row("raw_unknown", "protocol 253", "46", "raw", "denied")
_row("raw_short", "a header without ports behind it", "46", "raw", "denied")
_row("raw_hop_by_hop", "hop-by-hop options", "6", "raw", "denied")

_group("Packet sockets")
_row("packet_raw", "AF_PACKET, SOCK_RAW", "46", "raw", "denied")
_row("packet_dgram", "AF_PACKET, SOCK_DGRAM", "46", "raw", "denied")
_row("packet_old", "AF_INET, SOCK_PACKET", "46", "raw", "denied")
_row("packet_bypass", "PACKET_QDISC_BYPASS", "46", "raw", "denied")
_row("packet_ring", "PACKET_TX_RING", "46", "raw", "denied")
_row("packet_vnet", "PACKET_VNET_HDR", "46", "raw", "denied")
_row("packet_vlan", "behind a VLAN tag", "46", "raw", "denied")
_row("packet_unknown_type", "an EtherType that nobody has", "4", "raw", "denied")
_row("packet_llc", "IEEE 802.3 with LLC", "4", "raw", "denied")
_row("packet_link_local", "addresses that bridges take: spanning tree, LLDP", "4", "raw", None,
     rare="a bridge that forwards them")
_row("packet_broadcast", "the broadcast address", "4", "raw", None)
_row("packet_arp", "an ARP question with payload behind", "4", "raw", None)
_row("packet_neighbour", "a neighbour solicitation", "6", "raw", None)
_row("packet_to_station", "to A's address, at another station", "46", "raw", None)
_row("reflected_echo", "into lo, from D: the kernel answers to D, without a socket", "46", "raw",
     None)
_row("reflected_udp", "the same, to a closed port", "46", "raw", None)
_row("reflected_syn", "the same, by a SYN", "46", "raw", None)
_row("reflected_syn_to_listener", "the same, to a listener: the SYN-ACK's numbers are chosen", "46",
     "raw", None)
_row("reflected_connection", "a connection \"from\" D, accepted by a server inside", "46", "raw",
     None)
_row("reflected_collision", "the same, and A acknowledges it, at ports with the same hash", "46", "raw",
     None)
_row("af_xdp", "AF_XDP", "46", "raw", "denied", rare="AF_XDP")

_group("Devices, tunnels and rewriting")
_row("vxlan", "VXLAN to D", "46", "admin", "denied", rare="vxlan")
_row("tunnel_ipip", "IPIP and ip6tnl to D", "46", "admin", "denied", rare="ipip")
_row("tunnel_gre", "GRE to D", "46", "admin", "denied", rare="gre")
_row("tunnel_sit", "6in4 to D", "4", "admin", "denied", rare="sit")
_row("tunnel_geneve", "Geneve to D", "46", "admin", "denied", rare="geneve")
_row("xfrm_tunnel", "IPsec, tunnel mode", "46", "admin", "denied", rare="ESP")
_row("macvlan", "a macvlan device on the link", "46", "admin", "denied", rare="macvlan")
_row("ipvlan", "an ipvlan device", "46", "admin", "denied", rare="ipvlan")
_row("vlan_device", "a VLAN device", "46", "admin", "denied", rare="8021q")
_row("nested_namespace", "a network namespace of its own, joined by a macvlan", "46", "admin",
     "denied", rare="user namespaces, macvlan")
_row("moved_device", "the container's own device moved to a namespace of its own", "46", "alone",
     None, rare="user namespaces")
_row("tun_device", "a TUN device, and forwarding", "4", "admin", None, rare="/dev/net/tun")
_row("forwarded_packet", "forwarded from a device of its own: no socket", "4", "admin", None)
_row("forwarded_masqueraded", "the same, with the container's source", "4", "admin", "passes",
     rare="nf_nat")
_row("nft_dnat", "netfilter: to A, which becomes D", "46", "admin", "passes", rare="nf_nat")
_row("nft_snat", "netfilter: from D to A", "46", "admin", None, rare="nf_nat")
_row("nft_rewrite", "netfilter at the device, below the hooks: A becomes D", "46", "admin",
     "passes", rare="nf_tables netdev egress")
_row("nft_forward", "netfilter: loopback's packets to the device", "46", "admin", None,
     rare="nft_fwd_netdev")
_row("nft_duplicate", "netfilter: copies of loopback's packets", "46", "admin", None,
     rare="nft_dup")
_row("tc_mirror", "tc: copies of loopback's packets", "46", "admin", None, rare="act_mirred")
_row("tc_rewrite", "tc: A becomes D", "4", "admin", "passes", rare="act_pedit")
_row("seg6_route", "a route that puts packets to A into a header to D", "6", "admin", None,
     rare="seg6")
_row("mpls_route", "a route with an MPLS label", "4", "admin", "denied", rare="mpls_iptunnel")
_row("rule_without_local", "loopback addresses routed to the device", "46", "admin", None)
_row("injected_echo", "as if D had asked, by the container's device: the kernel answers", "46",
     "admin", None, rare="act_mirred")
_row("injected_udp", "as if D had sent first: a server inside answers", "46", "admin", None,
     rare="act_mirred")
_row("injected_arp", "as if a station of the link had asked: the kernel answers it", "4", "admin",
     None, rare="act_mirred")
_row("gained_address", "an address that it gives itself, to A", "46", "admin", None)
_row("address_detection", "the kernel asks the link for an address that it gives itself", "6",
     "admin", None)
_row("neighbour_question", "the kernel asks the link for a neighbour", "46", "admin", None)
_row("route_by_neighbour", "the same, for a gateway of a route to A", "46", "admin", None)
_row("neighbour_static", "frames to A, to another station of the network", "46", "admin", None)
_row("hardware_address", "octets in the hardware address of frames", "46", "admin", None)
_row("question_to_target", "the kernel's question for a neighbour, rewritten: to D", "6", "admin",
     None, rare="nf_tables netdev egress")
_row("question_to_station", "the same: to another station of the network", "46", "admin", None,
     rare="nf_tables netdev egress")
_row("question_filled", "the same: octets where the kernel leaves it empty", "46", "admin", None,
     rare="nf_tables netdev egress")
_row("neighbour_far_away", "the kernel asks whether D is still a neighbour", "6", "admin", None)
_row("skipped_by_ifb", "frames that the kernel classifies no more", "46", "admin", "denied",
     rare="ifb")
_row("checksum_elsewhere", "a checksum that is written behind the guard, into the destination",
     "6", "admin", "denied", rare="nft_fwd_netdev")
_row("reset_of_peer", "the reset of a connection on loopback with D's address, handed on", "46",
     "admin", None, rare="nft_fwd_netdev")
_row("host_macvlan", "a macvlan device on one of the host's", "46", "admin", None, leak=CONFINED,
     rare="macvlan, and no user namespace of its own")
_row("host_vxlan", "VXLAN that the host sends", "46", "admin", None, leak=CONFINED,
     rare="vxlan, and no user namespace of its own")

_group("Not the network's")
_row("vsock", "AF_VSOCK: the machine around this one", "4", to_allowed=None, leak=CONFINED,
     rare="AF_VSOCK, and no profile that denies it")
_row("unix_abstract", "an abstract Unix socket of the host", "4", to_allowed=None, leak=CONFINED,
     rare="the host's network namespace")
_row("request_key", "the host's `request-key` asked for a name", "4", to_allowed=None,
     leak=CONFINED, rare="keyutils on the host, and no profile that denies it")

# Rare ones that no kernel has had on which the suite has run: the table must not say of them that
# they are blocked. Who runs it on one that has them is told, and takes them out of here.
UNTRIED = {"rthdr2", "tunnel_ipip", "tunnel_gre", "tunnel_sit",
           "tunnel_geneve", "xfrm_tunnel", "ipvlan", "vlan_device", "tun_device", "tc_rewrite",
           "mpls_route"}

ROWS = {row.name: row for _, rows in GROUPS for row in rows}
