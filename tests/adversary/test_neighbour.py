# SPDX-License-Identifier: Apache-2.0
"""A neighbour on the container's network says that the gateway is where it is: what goes to an allowed
address must not come to it."""

import socket
import time
import unittest

from case import MODES, POLICY, VectorsTest
from containers import DEFAULT, Runc
from harness import main
from phasegate import PUBLIC
from rows import ROWS
from suite import LIST, ROOT, TO_ALLOWED, Suite
from world import BRIDGE, HOST4, HOST6

ETH_P_ARP, ETH_P_IPV6, SOLICITED_OVERRIDE = 0x0806, 0x86dd, 0x60000000


def octets(station):
    return bytes.fromhex(station.replace(":", ""))


def arp_reply(own, other, address):
    return (other + own + ETH_P_ARP.to_bytes(2, "big") + bytes.fromhex("0001080006040002") + own +
            socket.inet_aton(HOST4) + other + socket.inet_aton(address))


def advertisement(own, other, address):
    target = socket.inet_pton(socket.AF_INET6, HOST6)
    to = socket.inet_pton(socket.AF_INET6, address)
    message = SOLICITED_OVERRIDE.to_bytes(4, "big") + target + b"\2\1" + own
    pseudo = target + to + (4 + len(message)).to_bytes(4, "big") + b"\0\0\0\x3a" + b"\x88\0" + message
    total = sum(int.from_bytes(pseudo[i:i + 2], "big") for i in range(0, len(pseudo), 2))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return (other + own + ETH_P_IPV6.to_bytes(2, "big") + b"\x60\0\0\0" +
            (4 + len(message)).to_bytes(2, "big") + b"\x3a\xff" + target + to + b"\x88\0" +
            (0xffff - total).to_bytes(2, "big") + message)


@unittest.skipUnless(Runc.available, "needs runc and busybox")
class Neighbour(VectorsTest):
    @classmethod
    def set_up(cls):
        cls.world.make_bridge()
        cls.world.watch("link", cls.world.host, BRIDGE)

    def frames_to_neighbour(self, mode, family):
        """What the container sends to A, as it comes to the neighbour."""
        made = self.create(POLICY)
        container = Runc(self.world, made, DEFAULT, made["name"])
        neighbour = self.world.namespace()
        own = octets(self.world.attach(neighbour)["mac"])
        other = octets(container.addresses["mac"])
        self.wait_guarded(made["name"])
        reply = self.daemon.phase(made["name"], MODES[mode], survivors="allow")
        self.assertEqual(reply.status, 200, reply)
        suite = Suite(self.world)
        frame = (advertisement if family == "6" else arp_reply)(
            own, other, container.addresses["own" + family])
        link = neighbour.call(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
        with link:
            link.bind(("eth0", 0))
            # The kernel does not believe one that comes right after another.
            suite.try_all(container, DEFAULT, ROOT, mode, TO_ALLOWED, [(ROWS["udp_sendto"], family)])
            for _ in range(12):
                link.send(frame)
                time.sleep(0.1)
        suite.try_all(container, DEFAULT, ROOT, mode, TO_ALLOWED, [(ROWS["udp_sendto"], family)])
        time.sleep(0.2)
        token = b"pgadv%06d" % max(suite.attempts)
        return [frame for frame in self.world.wires["link"].frames()
                if frame.startswith(own) and token in frame]

    def test_gateway(self):
        for family in "46":
            with self.subTest(family=family):
                self.assertEqual(self.frames_to_neighbour(LIST, family), [])

    def test_in_public(self):
        """The control: it believes the neighbour."""
        for family in "46":
            with self.subTest(family=family):
                self.assertNotEqual(self.frames_to_neighbour(PUBLIC, family), [])


if __name__ == "__main__":
    main()
