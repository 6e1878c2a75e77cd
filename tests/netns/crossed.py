# SPDX-License-Identifier: Apache-2.0
"""crossed.py WAY OWN PEER PORT: a connection of the workload's own, inside, that looks as if PEER
had opened it: "crossed": a SYN of the peer's crosses that of connect(); "accepted": a server inside
accepts what the peer acknowledges, asked by a raw socket; "told": the same, but somebody else has
the peer acknowledge it, and says so by a line, after the number has been printed. "plain" is one
that connect() opens; what comes after a line "syn" leaves with the flags of one that asks for a
connection. Prints "open", then what becomes of each line that it sends. The segments "of the peer"
come in by lo."""

import socket
import struct
import subprocess
import sys

ETH_P_ALL, ETH_P_IP = 3, b"\x08\x00"
SYN, ACK = 2, 16
SERVER, NUMBER = 7777, 1000
MARKED = 7
PATIENCE_S = 20


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return struct.pack("!H", ~total & 0xffff)


def segment(source, target, number, acknowledged, flags):
    """An IPv4 packet from one (address, port) to another."""
    ends = socket.inet_aton(source[0]) + socket.inet_aton(target[0])
    tcp = struct.pack("!HHIIBBHHH", source[1], target[1], number & 0xffffffff, acknowledged,
                      0x50, flags, 65535, 0, 0)
    tcp = tcp[:16] + checksum(ends + struct.pack("!HH", 6, len(tcp)) + tcp) + tcp[18:]
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 1, 0, 64, 6, 0) + ends
    return head[:10] + checksum(head) + head[12:] + tcp


class Ends:
    def __init__(self, own, peer, port):
        self.own, self.peer, self.port = own, peer, port
        self.sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.sniffer.bind(("eth0", ETH_P_ALL))
        self.sniffer.settimeout(PATIENCE_S)
        self.lo = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self.lo.bind(("lo", 0))

    def come(self, port, number, acknowledged, flags):
        """A segment of the peer's comes in at the port."""
        self.lo.send(bytes(12) + ETH_P_IP + segment(
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

    def ask(self, number):
        """The peer, by a raw socket; what it acknowledges."""
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
            raw.sendto(segment((self.own, SERVER), (self.peer, self.port), number, 0, SYN),
                       (self.peer, 0))
        return self.wait(self.peer)[1]

    @staticmethod
    def have_acknowledged(number):
        print(number, flush=True)
        sys.stdin.readline()
        return number + 1

    def accepted(self, acknowledge):
        with socket.socket() as server:
            server.bind((self.own, SERVER))
            server.listen()
            server.settimeout(PATIENCE_S)
            self.come(SERVER, NUMBER, 0, SYN)
            self.come(SERVER, NUMBER + 1, acknowledge(self.wait(self.own)[0]), ACK)
            return server.accept()[0]

    def plain(self):
        stream = socket.create_connection((self.peer, self.port), PATIENCE_S)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return stream


def nft(*rules):
    for rule in rules:
        subprocess.run(["nft", rule], check=True)


def main(way, own, peer, port):
    for name in ("all", "default", "lo", "eth0"):
        with open(f"/proc/sys/net/ipv4/conf/{name}/rp_filter", "w", encoding="ascii") as file:
            file.write("0")
    ends = Ends(own, peer, int(port))
    nft("add table ip t")
    if way == "plain":
        stream = ends.plain()
        nft("add chain ip t c { type filter hook postrouting priority 300; }",
            f"add rule ip t c meta mark {MARKED} tcp flags set syn")
    else:
        # What the peer says itself is seen by the guard, and not by the sockets.
        nft("add chain ip t c { type filter hook prerouting priority -300; }",
            f"add rule ip t c iifname eth0 ip saddr {peer} drop")
        stream = {"crossed": ends.crossed, "accepted": lambda: ends.accepted(ends.ask),
                  "told": lambda: ends.accepted(ends.have_acknowledged)}[way]()
        nft("delete table ip t")
    print("open", flush=True)
    for line in sys.stdin:
        if line == "syn\n":
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARKED)
            continue
        try:
            stream.sendall(line.encode())
            print("sent", flush=True)
        except OSError as error:
            print(error, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
