# SPDX-License-Identifier: Apache-2.0
"""behind.py WAY ...: what the guard of a veth judges is not what arrives, or not the socket's.

    reset OWN PEER GATEWAY NUMBER    a socket with the peer, which is here for a while, resets its
                                     connection on lo; below the hooks it becomes the veth's
    asked OWN TARGET GATEWAY MARK    a question of the kernel's whether a neighbour, which is far away,
                                     is still there; with six octets
    routed OWN TARGET HEXTET MARK    a frame whose checksum is still to be written: over the third
                                     part of its IPv6 destination; it is forwarded
    bridged OWN TARGET GATEWAY ROUTER PORT MARK
                                     the same over the destination port, of a frame on a bridge
                                     that gets a UDP socket there, whose own are let out
    skipped OWN TARGET GATEWAY MARK  frames, of which every fourth or so goes by a device that has
                                     the kernel classify them no more"""

import re
import socket
import struct
import subprocess
import sys
import time

from frames import checksum

PACKET_VNET_HDR, IP_TRANSPARENT, NEEDS_CSUM = 15, 19, 1
TO, FROM, TIMES, FRAMES = 7000, 4000, 3, 60
WARM = "warm"


def ip(*lines):
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)


def nft(text):
    subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)


def write(name, value):
    with open(f"/proc/sys/net/{name}", "w", encoding="ascii") as file:
        file.write(value)


def mac_of(device):
    shown = subprocess.run(["ip", "link", "show", device], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    return re.search("link/ether ([0-9a-f:]+)", shown)[1]


def octets(mac):
    return bytes.fromhex(mac.replace(":", ""))


def reset(own, peer, gateway, number):
    ip(f"addr replace {peer}/32 dev lo")
    nft(f"""table netdev behind
delete table netdev behind
table netdev behind {{
    chain out {{
        type filter hook egress device "lo" priority 0
        ip daddr {peer} tcp dport {TO} tcp flags & rst == rst ip saddr set {own} \
@ll,0,48 set 0x{octets(gateway).hex()} @ll,48,48 set 0x{octets(mac_of("eth0")).hex()} \
tcp sequence set {number} fwd to eth0
    }}
}}
""")
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((peer, TO))
        server.listen()
        for _ in range(TIMES):
            with socket.create_connection((peer, TO)) as client, server.accept()[0]:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()
    ip(f"addr del {peer}/32 dev lo")


def packet(own, target, payload):
    """With two octets in front of the payload that are not set yet."""
    udp = struct.pack("!HHHHH", FROM, TO, 10 + len(payload), 0, 0) + payload
    if ":" in own:
        return b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(udp), 17, 64) + \
            socket.inet_pton(socket.AF_INET6, own) + \
            socket.inet_pton(socket.AF_INET6, target) + udp
    head = struct.pack("!BBHHHBBH", 69, 0, 20 + len(udp), 1, 0, 64, 17, 0) + \
        socket.inet_aton(own) + socket.inet_aton(target)
    return b"\x08\x00" + head[:10] + checksum(head) + head[12:] + udp


def frame(stations, whole, start, value):
    """With the virtio_net_hdr that has a checksum written at the offset, and is that value."""
    whole = stations + whole
    payload = 14 + (40 if whole[12] == 0x86 else 20) + 8
    rest, = struct.unpack("!H", checksum(whole[start:]))
    filled = struct.pack("!H", (rest - value) % 0xffff)
    whole = whole[:payload] + filled + whole[payload + 2:]
    return struct.pack("=BBHHHH", NEEDS_CSUM, 0, 0, 0, start, 0) + whole


def link():
    """A packet socket at the other end of va."""
    ip("link add va type veth peer name vb", "link set va up", "link set vb up")
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    made.setsockopt(socket.SOL_PACKET if hasattr(socket, "SOL_PACKET") else 263, PACKET_VNET_HDR, 1)
    made.bind(("vb", 0))
    return made


def asked(own, target, gateway, mark):
    """The kernel asks a neighbour whether it is still there; with six octets."""
    nft(f"""table netdev behind
delete table netdev behind
table netdev behind {{
    chain out {{
        type filter hook egress device "eth0" priority 0
        ip6 daddr {target} icmpv6 type nd-neighbor-solicit ip6 saddr set {own} \
@th,192,64 set 0x0e01{mark.encode().hex()} counter
    }}
}}
""")
    ip(f"route replace {target}/128 dev eth0")
    ip(f"neigh replace {target} lladdr {gateway} dev eth0 nud probe")
    sent = ("nft", "list", "table", "netdev", "behind")
    while "counter packets 0 " in subprocess.run(sent, check=True, text=True,
                                                 stdout=subprocess.PIPE).stdout:
        time.sleep(0.01)
    ip(f"neigh del {target} dev eth0")
    ip(f"route del {target}/128 dev eth0")


def padded(mark):
    return mark.encode() + b" " * (len(mark) % 2)


def routed(own, target, hextet, mark):
    write("ipv6/conf/all/forwarding", "1")
    with link() as packets:
        stations = octets(mac_of("va")) + octets(mac_of("vb"))
        for _ in range(TIMES):
            packets.send(frame(stations, packet(own, target, padded(mark)), 14 + 24 + 4,
                               int(hextet, 16)))
    ip("link del va")


def bridged(own, target, gateway, router, port, mark):
    mac = mac_of("eth0")
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.setsockopt(socket.IPPROTO_IP, IP_TRANSPARENT, 1)
    server.bind(("0.0.0.0", FROM))
    with link() as packets:
        ip(f"link add br0 address {mac} type bridge", "link set br0 up", "link set va master br0",
           "link set eth0 master br0", "addr flush dev eth0", f"addr add {own}/24 dev br0",
           f"route replace default via {router}",
           f"neigh replace {router} lladdr {gateway} dev br0 nud permanent")
        subprocess.run(["bridge", "fdb", "replace", gateway, "dev", "eth0", "master", "static"],
                       check=True)
        write("bridge/bridge-nf-call-iptables", "1")
        nft(f"""table ip behind {{
    chain in {{
        type filter hook prerouting priority -150
        iifname "br0" udp dport {TO} tproxy to 127.0.0.1:{FROM}
    }}
}}
""")
        for _ in range(TIMES):
            for _ in range(TIMES):
                server.sendto(WARM.encode(), (target, TO))
            packets.send(frame(octets(gateway) + octets(mac),
                               packet(own, target, padded(mark)), 14 + 20 + 2, int(port)))
        for _ in range(TIMES):
            packets.send(bytes(10) + octets(gateway) + octets(mac) +
                         packet(own, target, padded(mark)))
    server.close()


def skipped(own, target, gateway, mark):
    ip("link add ifb7 type ifb", "link set ifb7 up")
    # By chance, so that it is not matched again when it comes back.
    random = "4,32 0 0 4294963256,37 0 1 2147483647,6 0 0 4294967295,6 0 0 0"
    subprocess.run(["tc", "qdisc", "replace", "dev", "eth0", "clsact"], check=True)
    subprocess.run(["tc", "filter", "add", "dev", "eth0", "egress", "bpf", "bytecode", random,
                    "flowid", "1:1", "action", "mirred", "egress", "redirect", "dev", "ifb7"],
                   check=True)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as packets:
        packets.bind(("eth0", 0))
        for number in range(FRAMES):
            packets.send(octets(gateway) + octets(mac_of("eth0")) +
                         packet(own, target, f"{mark} {number}".encode()))
    ip("link del ifb7")
    shown = subprocess.run(["tc", "-s", "filter", "show", "dev", "eth0", "egress"], check=True,
                           text=True, stdout=subprocess.PIPE).stdout
    print(re.search(r"Sent \d+ bytes (\d+) pkt", shown)[1])


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
