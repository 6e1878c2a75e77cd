# SPDX-License-Identifier: Apache-2.0
"""Answers that come after a switch, to what was sent in public: they open nothing. Whatever sent
it, a socket that hooks see or a packet socket that only the guard of the veth sees."""

import select
import unittest

from case import MODES, POLICY, VectorsTest
from containers import DEFAULT, Runc
from harness import main
from phasegate import NO_NETWORK, PUBLIC
from rows import ROWS
from suite import DENIED, LIST, ROOT, Suite
from wire import Marks
from world import BRIDGE, FORGED_PORT

# More than the guard remembers of what went out by other ways than sockets.
OTHERS = 100


@unittest.skipUnless(Runc.available, "needs runc and busybox")
class Later(VectorsTest):
    @classmethod
    def set_up(cls):
        cls.world.make_bridge()
        cls.world.watch("link", cls.world.host, BRIDGE)
        cls.suite = Suite(cls.world)

    def phase(self, name, mode):
        reply = self.daemon.phase(name, MODES[mode], survivors="allow")
        self.assertEqual(reply.status, 200, reply)

    def line(self, container, vector, family, peer=None):
        """To its own denied address, or the one of an earlier number."""
        number, line = self.suite.line(ROWS[vector], family, ROOT, DENIED, container.addresses)
        if peer:
            line = line.replace(self.denied(number, family), self.denied(peer, family))
        return number, line

    def send(self, container, vector, family):
        number, line = self.line(container, vector, family)
        container.attempt([line])
        return number

    @staticmethod
    def denied(number, family):
        marks = Marks(number)
        return marks.denied6 if family == "6" else marks.denied4

    def answered_later(self, vector, family, mode, others=0):
        """The frame that goes out to who has answered; None if there is none."""
        made = self.create(POLICY)
        container = Runc(self.world, made, DEFAULT, made["name"])
        self.wait_guarded(made["name"])
        first = self.send(container, vector, family)
        for _ in range(others):
            self.send(container, vector, family)
        self.suite.look(container)
        self.assertTrue(self.suite.seen[first], "nothing was sent, so this proves nothing")
        self.phase(made["name"], mode)
        number, line = self.line(container, "udp_from_port", family, first)
        process = container.program.process
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
        # Until one has come while its socket was there.
        while not select.select([process.stdout], [], [], 0.01)[0]:
            self.world.send_from(self.denied(first, family), container.addresses["own" + family],
                                 FORGED_PORT)
        container.program.line()
        self.suite.look(container)
        return self.suite.frames.get(number)

    def test_answers(self):
        for vector in ("udp_from_port", "raw_udp", "packet_raw"):
            for family in "46":
                for mode in (NO_NETWORK, LIST):
                    with self.subTest(vector=vector, family=family, mode=mode):
                        self.assertIsNone(self.answered_later(vector, family, mode))

    def test_answers_after_many_others(self):
        self.assertIsNone(self.answered_later("packet_raw", "4", NO_NETWORK, OTHERS))

    def test_in_public(self):
        """The control: it is sent, and would be seen."""
        self.assertIsNotNone(self.answered_later("packet_raw", "4", PUBLIC))


if __name__ == "__main__":
    main()
