# SPDX-License-Identifier: Apache-2.0
"""crossed.py WAY OWN PEER PORT: a connection of the workload's own, inside, that looks as if PEER
had opened it: "crossed": a SYN of the peer's crosses that of connect(); "accepted": a server inside
accepts what the peer acknowledges, asked by a raw socket. Prints "open", then what becomes of each
line that it sends. The segments "of the peer" come in by lo."""

import socket
import struct
import subprocess
import sys

ETH_P_ALL, ETH_P_IP = 3, b"\x08\x00"
SYN, ACK = 2, 16
SERVER, NUMBER = 7777, 1000
PATIENCE_S = 20


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return struct.pack("!H", ~total & 0xffff)


class Ends:
    def __init__(self, own, peer, port):
        self.own, self.peer, self.port = own, peer, port
        self.sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.sniffer.bind(("eth0", ETH_P_ALL))
        self.sniffer.settimeout(PATIENCE_S)
        self.lo = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self.lo.bind(("lo", 0))

    def segment(self, source, target, number, acknowledged, flags):
        """An IPv4 packet from one (address, port) to another."""
        ends = socket.inet_aton(source[0]) + socket.inet_aton(target[0])
        tcp = struct.pack("!HHIIBBHHH", source[1], target[1], number & 0xffffffff, acknowledged,
                          0x50, flags, 65535, 0, 0)
        tcp = tcp[:16] + checksum(ends + struct.pack("!HH", 6, len(tcp)) + tcp) + tcp[18:]
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 1, 0, 64, 6, 0) + ends
        return head[:10] + checksum(head) + head[12:] + tcp

    def come(self, port, number, acknowledged, flags):
        """A segment of the peer's comes in at the port."""
        self.lo.send(bytes(12) + ETH_P_IP + self.segment(
            (self.peer, self.port), (self.own, port), number, acknowledged, flags))

    def wait(self, source):
        """The numbers of the next SYN-ACK of the source's."""
        while True:
            frame = self.sniffer.recv(4096)
            if frame[12:14] == ETH_P_IP and frame[23] == 6 and \
                    frame[26:30] == socket.inet_aton(source) and frame[47] == SYN | ACK:
                return struct.unpack("!II", frame[38:46])

    def crossed(self):
        stream = socket.socket()
        stream.bind((self.own, 0))
        stream.setblocking(False)
        stream.connect_ex((self.peer, self.port))
        number, acknowledged = self.wait(self.peer)
        port = stream.getsockname()[1]
        self.come(port, number, 0, SYN)
        self.come(port, number + 1, acknowledged, ACK)
        stream.settimeout(PATIENCE_S)
        return stream

    def accepted(self):
        with socket.socket() as server, \
                socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
            server.bind((self.own, SERVER))
            server.listen()
            server.settimeout(PATIENCE_S)
            self.come(SERVER, NUMBER, 0, SYN)
            number, _ = self.wait(self.own)
            raw.sendto(self.segment((self.own, SERVER), (self.peer, self.port), number, 0, SYN),
                       (self.peer, 0))
            _, acknowledged = self.wait(self.peer)
            self.come(SERVER, NUMBER + 1, acknowledged, ACK)
            return server.accept()[0]


def main(way, own, peer, port):
    for name in ("all", "default", "lo", "eth0"):
        with open(f"/proc/sys/net/ipv4/conf/{name}/rp_filter", "w", encoding="ascii") as file:
            file.write("0")
    # What the peer says itself is seen by the guard, and not by the sockets.
    for rule in ("add table ip t", "add chain ip t c { type filter hook prerouting priority -300; }",
                 f"add rule ip t c iifname eth0 ip saddr {peer} drop"):
        subprocess.run(["nft", rule], check=True)
    ends = Ends(own, peer, int(port))
    stream = ends.crossed() if way == "crossed" else ends.accepted()
    subprocess.run(["nft", "delete table ip t"], check=True)
    print("open", flush=True)
    for line in sys.stdin:
        try:
            stream.sendall(line.encode())
            print("sent", flush=True)
        except OSError as error:
            print(error, flush=True)


main(*sys.argv[1:])
