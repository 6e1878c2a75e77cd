# SPDX-License-Identifier: Apache-2.0
"""A server inside is reached from outside in every mode, the guard of the veth included: whatever
TCP, UDP and ICMP send in answer, with a socket or without, and what the link needs for it."""

import errno
import socket
import struct
import unittest

from case import MODES, POLICY, VectorsTest
from containers import ADMIN, DEFAULT, Runc
from harness import main
from world import BRIDGE

ECHO, RESETS, CLOSES, DOWNLOADS, DATAGRAMS = range(8000, 8005)
CLOSED = 8999
LARGE = 200000
LIMIT = 10
MSG_FASTOPEN, IPV6_FREEBIND = 0x20000000, 78
SMALL_MTU = 1300


class Client:
    """Somewhere outside, at an address that no mode but public allows."""

    def __init__(self, world, own, here):
        self.world, self.own, self.here = world, own, here
        self.family = socket.AF_INET6 if ":" in own else socket.AF_INET

    def socket(self, kind=socket.SOCK_STREAM, protocol=0, port=0):
        def make():
            made = socket.socket(self.family, kind, protocol)
            made.settimeout(LIMIT)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self.family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
            made.bind((self.here, port))
            return made

        return self.world.lab.server.call(make)

    def connect(self, to, **more):
        made = self.socket(**more)
        made.connect((self.own, to))
        return made

    def echo(self, port=ECHO):
        with self.connect(port) as stream:
            stream.sendall(b"hello")
            return stream.recv(100)

    def fastopen(self):
        with self.socket() as stream:
            stream.sendto(b"hello", MSG_FASTOPEN, (self.own, ECHO))
            return stream.recv(100)

    def refused(self):
        with self.socket() as stream:
            return errno.errorcode[stream.connect_ex((self.own, CLOSED))]

    def reset(self):
        with self.connect(RESETS) as stream:
            stream.sendall(b"hello")
            try:
                while stream.recv(100):
                    pass
            except ConnectionResetError:
                return "reset"
            return "closed"

    def port_again(self):
        """The server's end waits (TIME_WAIT); the same addresses and ports once more."""
        with self.connect(CLOSES) as stream:
            port = stream.getsockname()[1]
            stream.sendall(b"hello")
            while stream.recv(100):
                pass
        with self.connect(CLOSES, port=port) as stream:
            stream.sendall(b"again")
            return stream.recv(100)

    def datagram(self, size):
        with self.socket(socket.SOCK_DGRAM) as one:
            one.sendto(b"x" * size, (self.own, DATAGRAMS))
            return len(one.recv(65536))

    def unreachable(self):
        with self.socket(socket.SOCK_DGRAM) as one:
            one.connect((self.own, CLOSED))
            one.send(b"hello")
            try:
                one.recv(100)
            except ConnectionRefusedError:
                return "refused"
        return "answered"

    def ping(self):
        six = self.family == socket.AF_INET6
        with self.socket(socket.SOCK_DGRAM,
                         socket.IPPROTO_ICMPV6 if six else socket.IPPROTO_ICMP) as one:
            one.sendto(bytes([128 if six else 8]) + bytes(7) + b"hello", (self.own, 0))
            return one.recv(100)[8:]

    def download(self):
        size = 0
        with self.connect(DOWNLOADS) as stream:
            while data := stream.recv(1 << 16):
                size += len(data)
        return size

    def waiting_ack(self):
        """Of a connection that waits (TIME_WAIT): an old segment is answered by an ACK, which no
        socket sends. IPv4 only."""
        with self.connect(CLOSES) as stream:
            port = stream.getsockname()[1]
            stream.sendall(b"hello")
            while stream.recv(100):
                pass
        return self.world.lab.server.call(lambda: self._old_segment(port))

    def _old_segment(self, port):
        segment = struct.pack("!HHIIBBHHH", port, CLOSES, 1, 1, 5 << 4, 16, 1024, 0, 0)
        addresses = socket.inet_aton(self.here) + socket.inet_aton(self.own)
        words = struct.unpack("!16H", addresses + struct.pack("!HH", 6, 20) + segment)
        total = sum(words)
        total = (total & 0xffff) + (total >> 16)
        segment = segment[:16] + struct.pack("!H", ~(total + (total >> 16)) & 0xffff) + segment[18:]
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP) as raw:
            raw.settimeout(LIMIT)
            raw.bind((self.here, 0))
            raw.sendto(segment, (self.own, 0))
            while True:
                packet = raw.recv(2048)
                source, target, flags = *struct.unpack("!HH", packet[20:24]), packet[33]
                if (source, target) == (CLOSES, port) and flags & 16:
                    return len(packet) - 20 - (packet[32] >> 4) * 4


@unittest.skipUnless(Runc.available, "needs runc and busybox")
class Inbound(VectorsTest):
    @classmethod
    def set_up(cls):
        cls.world.make_bridge()
        cls.world.watch("link", cls.world.host, BRIDGE)
        cls.number = 0

    def server(self, privilege, **sysctl):
        made = self.create(POLICY)
        container = Runc(self.world, made, privilege, made["name"], ["serve"], **sysctl)
        self.assertEqual(container.program.line(), "ready")
        # What it would see go out without having seen it come in it takes for no answer.
        self.wait_guarded(made["name"])
        return made["name"], container

    def clients(self, container):
        """New ones: what a kernel has learned of the way is of an address."""
        Inbound.number += 1
        for version, here in (("4", f"198.19.0.{self.number}"), ("6", f"2001:db8:d::{self.number}")):
            yield Client(self.world, container.addresses["own" + version], here)

    def in_all_modes(self, name):
        for mode, phase in MODES.items():
            reply = self.daemon.phase(name, phase, survivors="allow")
            self.assertEqual(reply.status, 200, reply)
            yield mode

    def check_tcp(self, client):
        self.assertEqual(client.echo(), b"hello")
        self.assertEqual(client.refused(), "ECONNREFUSED")
        self.assertEqual(client.reset(), "reset")
        self.assertEqual(client.port_again(), b"again")
        if client.family == socket.AF_INET:
            self.assertEqual(client.waiting_ack(), 0)

    def check_others(self, client):
        self.assertEqual(client.fastopen(), b"hello")
        self.assertEqual(client.datagram(10), 10)
        self.assertEqual(client.datagram(4000), 4000)
        self.assertEqual(client.unreachable(), "refused")
        self.assertEqual(client.ping(), b"hello")

    def test_what_is_answered(self):
        for privilege in (DEFAULT, ADMIN):
            name, container = self.server(privilege)
            for mode in self.in_all_modes(name):
                for client in self.clients(container):
                    with self.subTest(privilege=privilege, mode=mode, own=client.own):
                        self.check_tcp(client)
                        self.check_others(client)

    def test_syn_cookies(self):
        """Every connection begins with one: its SYN-ACK is sent without a socket."""
        name, container = self.server(DEFAULT, ipv4__tcp_syncookies=2)
        for mode in self.in_all_modes(name):
            for client in self.clients(container):
                with self.subTest(mode=mode, own=client.own):
                    self.check_tcp(client)

    def test_neighbour_discovery(self):
        """The host asks for the container anew, and the container for the host."""
        name, container = self.server(DEFAULT)
        for mode in self.in_all_modes(name):
            with self.subTest(mode=mode):
                for own in (container.addresses["own4"], container.addresses["own6"]):
                    self.world.ping(own)

    def test_path_mtu(self):
        """Behind the host the way is narrower than the container's link: routers say so."""
        name, container = self.server(DEFAULT)
        self.world.host.ip(f"link set eth0 mtu {SMALL_MTU}")
        for mode in self.in_all_modes(name):
            for client in self.clients(container):
                with self.subTest(mode=mode, own=client.own):
                    self.assertEqual(client.download(), LARGE)
        self.world.host.ip("link set eth0 mtu 1500")


if __name__ == "__main__":
    main()
