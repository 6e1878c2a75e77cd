# SPDX-License-Identifier: Apache-2.0
"""What the guard of a veth cannot read in a packet opens nothing: a checksum that is written behind
it, over the destination; and a socket whose peer a process inside has chosen, which resets."""

import array
import fcntl
import os
import socket
import struct

from dnslab import PYTHON
from harness import main, token
from keeper import isolate
from lab import A4, A6, D4, D6
from linklab import LinkTest
from phasegate import NO_NETWORK, PUBLIC, allowlist, policy
from recorder import PORT, RST

BEHIND = os.path.join(os.path.dirname(os.path.abspath(__file__)), "behind.py")
NUMBER, OTHER, FRAMES, TRIES = 0xcafe, PORT + 1, 60, 5
ROUTED = "2001:db8:ffff::/64"
SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17


def sum_in_software():
    """As most network cards have it done for checksums at any place."""
    value = array.array("I", (ETHTOOL_STXCSUM, 0))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCETHTOOL,
                    struct.pack("16sP16x", b"eth0", value.buffer_info()[0]))


class Behind(LinkTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.lab.client.call(sum_in_software)

    def setUp(self):
        super().setUp()
        self.box, self.keeper_ = self.container(), self.keeper()
        # One that is far away, but to the kernel a router of the link.
        self.box.ip(f"route add {ROUTED} via {D6} dev eth0 onlink")
        self.create(self.keeper_, self.box.cgroup, options="a",
                    text=policy(setup=PUBLIC, run=NO_NETWORK, verifier=allowlist(A4, A6)))
        self.assert_link(self.keeper_, "v1")

    def came(self, *words):
        """The packets that behind.py makes, as they arrive."""
        self.capture.drain()
        self.box.enter(PYTHON, BEHIND, *words)
        return self.fence()

    def test_reset(self):
        def resets():
            return {p.source for p in self.came("reset", self.box.address4, D4,
                                                self.mac_of("b1"), str(NUMBER))
                    if p.destination == D4 and p.flags & RST}

        self.assertEqual(resets(), {self.box.address4}, "in public")
        for phase in ("run", "verifier"):
            self.keeper_("switch", phase)
            self.assertEqual(resets(), set(), phase)

    def skip(self, box):
        """How many frames arrive that are sent so that the guard is not asked."""
        mark = token("skipped")
        self.capture.drain()
        redirected = int(box.enter(PYTHON, BEHIND, "skipped", box.address4, D4,
                                   self.mac_of(box.gateway), mark))
        self.assertGreater(redirected, 0)
        return len({p.payload for p in self.fence()
                    if p.port == PORT and mark.encode() in p.payload})

    def test_skipped(self):
        self.assertEqual(self.skip(self.container("free", 2)), FRAMES, "without an Environment")
        self.keeper_("switch", "verifier")
        self.assertEqual(self.skip(self.box), 0)

    def test_told(self):
        """Who is cut off by a switch hears of it while the phase before is in force."""
        told = set()
        # A busy machine may take longer than a switch waits.
        for _ in range(TRIES):
            self.keeper_("switch", "setup")
            for address in (A4, D4):
                self.assertEqual(self.box.inside("open_stream", address, address)["errno"], "")
            self.capture.drain()
            self.keeper_("switch", "verifier")
            told |= {p.destination for p in self.fence()
                     if p.source == self.box.address4 and p.flags & RST}
            if D4 in told:
                break
        self.assertIn(D4, told)

    def test_destination(self):
        def targets():
            mark = token("routed")
            return {p.destination for p in self.came(
                "routed", self.box.address6, A6, D6.split(":")[2], mark)
                if mark.encode() in p.payload}

        self.assertEqual(targets(), {D6}, "in public")
        for phase in ("run", "verifier"):
            self.keeper_("switch", phase)
            self.assertEqual(targets(), set(), phase)

    def test_far_neighbour(self):
        """Who is routed by, or has sent something, is no neighbour: what goes there is forwarded."""
        def probes():
            return [p for p in self.came("asked", self.box.address6, D6, self.mac_of("b1"), "SECRET")
                    if p.destination == D6 and b"SECRET" in p.payload]

        self.assertTrue(probes(), "in public")
        self.keeper_("switch", "run")
        self.assertEqual(probes(), [], "a router")
        self.keeper_("switch", "setup")
        self.assertEqual(self.box.inside("open_stream", D6, D6)["errno"], "")
        for phase in ("run", "verifier"):
            self.keeper_("switch", phase)
            self.assertEqual(probes(), [], phase)

    def ports(self):
        mark = token("bridged")
        came = self.came("bridged", self.box.address4, A4, self.mac_of("b1"), self.box.host4,
                         str(OTHER), mark)
        self.assertTrue([p for p in came if p.payload == b"warm"])
        return {p.port for p in came if mark.encode() in p.payload}

    def test_port_in_public(self):
        self.assertEqual(self.ports(), {PORT, OTHER})

    def test_port_of_a_socket(self):
        """Whose other packets are let out."""
        self.keeper_("switch", "verifier")
        self.assertEqual(self.ports(), {PORT})


if __name__ == "__main__":
    isolate()
    main()
