# SPDX-License-Identifier: Apache-2.0
"""A neighbour on the container's network says that the gateway is where it is, and may have sent
something from an allowed address before: what goes there must not come to it."""

import re
import socket
import time
import unittest

from case import MODES, POLICY, VectorsTest
from containers import DEFAULT, Runc
from harness import main
from lab import A4, A6
from phasegate import PUBLIC, allowlist
from rows import ROWS
from suite import LIST, ROOT, TO_ALLOWED, Suite
from world import BRIDGE, HOST4, HOST6

ETH_P_IP, ETH_P_ARP, ETH_P_IPV6 = 0x0800, 0x0806, 0x86dd
SOLICITED_OVERRIDE = 0x60000000


def octets(station):
    return bytes.fromhex(station.replace(":", ""))


def checksum(data):
    total = sum(int.from_bytes(data[i:i + 2], "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return (0xffff - total).to_bytes(2, "big")


def arp_reply(own, other, address):
    return (other + own + ETH_P_ARP.to_bytes(2, "big") + bytes.fromhex("0001080006040002") + own +
            socket.inet_aton(HOST4) + other + socket.inet_aton(address))


def advertisement(own, other, address):
    target = socket.inet_pton(socket.AF_INET6, HOST6)
    to = socket.inet_pton(socket.AF_INET6, address)
    message = SOLICITED_OVERRIDE.to_bytes(4, "big") + target + b"\2\1" + own
    pseudo = target + to + (4 + len(message)).to_bytes(4, "big") + b"\0\0\0\x3a" + b"\x88\0" + message
    return (other + own + ETH_P_IPV6.to_bytes(2, "big") + b"\x60\0\0\0" +
            (4 + len(message)).to_bytes(2, "big") + b"\x3a\xff" + target + to + b"\x88\0" +
            checksum(pseudo) + message)


def datagram(own, other, source, to):
    """An empty one, from port 7000 to 7000; it need not arrive."""
    udp = bytes.fromhex("1b581b5800080000")
    if ":" in source:
        return (other + own + ETH_P_IPV6.to_bytes(2, "big") + bytes.fromhex("6000000000081140") +
                socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, to) +
                udp)
    # A bridge with netfilter looks at the checksum.
    first, addresses = bytes.fromhex("4500001c000040004011"), \
        socket.inet_aton(source) + socket.inet_aton(to)
    return (other + own + ETH_P_IP.to_bytes(2, "big") + first + checksum(first + addresses) +
            addresses + udp)


@unittest.skipUnless(Runc.available, "needs runc and busybox")
class Neighbour(VectorsTest):
    @classmethod
    def set_up(cls):
        cls.world.make_bridge()
        cls.world.watch("link", cls.world.host, BRIDGE)

    def begin(self, mode, allowed=()):
        """A container, and a neighbour of it that starts with nothing."""
        made = self.create({**POLICY, "verifier_network_policy": allowlist(A4, A6, *allowed)})
        container = Runc(self.world, made, DEFAULT, made["name"])
        neighbour = self.world.namespace()
        addresses = self.world.attach(neighbour)
        self.wait_guarded(made["name"])
        reply = self.daemon.phase(made["name"], MODES[mode], survivors="allow")
        self.assertEqual(reply.status, 200, reply)
        return container, neighbour, addresses

    def arrived(self, own, number):
        time.sleep(0.2)
        token = b"pgadv%06d" % number
        return [frame for frame in self.world.wires["link"].frames()
                if frame.startswith(own) and token in frame]

    def frames_to_neighbour(self, mode, family, pretend=False):
        """What the container sends to A, as it comes to the neighbour."""
        container, neighbour, addresses = self.begin(mode)
        own, other = octets(addresses["mac"]), octets(container.addresses["mac"])
        suite = Suite(self.world)
        address = container.addresses["own" + family]
        frame = (advertisement if family == "6" else arp_reply)(own, other, address)
        link = neighbour.call(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
        with link:
            link.bind(("eth0", 0))
            # The kernel does not believe one that comes right after another.
            suite.try_all(container, DEFAULT, ROOT, mode, TO_ALLOWED, [(ROWS["udp_sendto"], family)])
            for _ in range(12):
                if pretend:
                    link.send(datagram(own, other, A6 if family == "6" else A4, address))
                link.send(frame)
                time.sleep(0.1)
        suite.try_all(container, DEFAULT, ROOT, mode, TO_ALLOWED, [(ROWS["udp_sendto"], family)])
        return self.arrived(own, max(suite.attempts))

    def test_gateway(self):
        for family in "46":
            with self.subTest(family=family):
                self.assertEqual(self.frames_to_neighbour(LIST, family), [])

    def test_gateway_and_allowed(self):
        """It has sent something from A, too."""
        for family in "46":
            with self.subTest(family=family):
                self.assertEqual(self.frames_to_neighbour(LIST, family, pretend=True), [])

    def test_in_public(self):
        """The control: it believes the neighbour."""
        for family in "46":
            with self.subTest(family=family):
                self.assertNotEqual(self.frames_to_neighbour(PUBLIC, family), [])

    def test_allowed_neighbour(self):
        """What goes to one that is allowed itself comes there."""
        for family in "46":
            with self.subTest(family=family):
                address = self.neighbours_address("own" + family)
                container, _, addresses = self.begin(LIST, [address])
                self.assertEqual(addresses["own" + family], address)
                suite = Suite(self.world)
                number, line = suite.line(ROWS["udp_sendto"], family, ROOT, TO_ALLOWED,
                                          container.addresses)
                container.attempt([re.sub(r"\btarget=\S+", "target=" + address, line)])
                self.assertNotEqual(self.arrived(octets(addresses["mac"]), number), [])

    def neighbours_address(self, which):
        """Of the namespace that is attached after the next."""
        self.world.count += 1
        try:
            return self.world.next_addresses()[which]
        finally:
            self.world.count -= 1


if __name__ == "__main__":
    main()
