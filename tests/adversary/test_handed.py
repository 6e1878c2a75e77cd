# SPDX-License-Identifier: Apache-2.0
"""What a vector cannot try from inside: sockets that were made elsewhere and came with their
process, and the container's device in another namespace."""

import itertools
import unittest

import cgroups
from case import MODES, POLICY, VectorsTest
from containers import ADMIN, DEFAULT, Runc
from harness import main
from lab import A4, A6
from phasegate import NO_NETWORK, PROBE, PUBLIC, Agent
from rows import ROWS
from suite import DENIED, LIST, ROOT, Suite
from wire import Marks
from world import BRIDGE, PORT

KINDS = ("udp4", "udp6", "icmp4", "icmp6")


@unittest.skipUnless(Runc.available, "needs runc and busybox")
class Handed(VectorsTest):
    @classmethod
    def set_up(cls):
        cls.world.make_bridge()
        cls.world.watch("link", cls.world.host, BRIDGE)
        cls.suite = Suite(cls.world)

    def seen(self, container, number):
        self.suite.look(container)
        return sorted(self.suite.seen[number])

    def phase(self, name, mode):
        reply = self.daemon.phase(name, MODES[mode], survivors="allow")
        self.assertEqual(reply.status, 200, reply)

    def outsider(self, container):
        """A process in the container's network namespace that is not the container's."""
        agent = Agent(self.world.lab, command=[
            "nsenter", f"--net={container.namespace.path}", PROBE])
        self.addCleanup(agent.close)
        return agent

    @staticmethod
    def send(agent, number, kind, target, mark):
        if kind.startswith("udp"):
            agent(f"sendto {number} {target} {PORT} {mark}")
        else:
            agent(f"echo {number} {target} raw")

    def test_sockets_made_before(self):
        """In another cgroup, whose process then joins the Environment's: the hooks of cgroups are
        where a socket was made."""
        made = self.create(POLICY)
        container = Runc(self.world, made, DEFAULT, made["name"])
        self.wait_guarded(made["name"])
        self.suite.look(container)
        for mode in MODES:
            self.phase(made["name"], mode)
            agent = self.outsider(container)
            for number, kind in enumerate(KINDS):
                self.assertEqual(agent(f"socket {number} {kind}")["errno"], "")
            with open(cgroups.path_of(made["cgroup_parent"]) + "/cgroup.procs", "w",
                      encoding="ascii") as file:
                file.write(str(agent.pid))
            self.wait_guarded(made["name"])
            for number, kind in enumerate(KINDS):
                with self.subTest(mode=mode, kind=kind):
                    self.check_one(agent, container, mode, number, kind)
            agent.close()

    def check_one(self, agent, container, mode, number, kind):
        marks = Marks(next(self.suite.next))
        target = marks.denied6 if kind[-1] == "6" else marks.denied4
        self.send(agent, number, kind, target, marks.token)
        seen = self.seen(container, marks.number)
        self.assertEqual(bool(seen), mode == PUBLIC, seen)
        if kind.startswith("udp") and mode == LIST:
            marks = Marks(next(self.suite.next))
            self.send(agent, number, kind, A6 if kind[-1] == "6" else A4, marks.token)
            self.assertIn("servers", self.seen(container, marks.number))

    def test_moved_device(self):
        for mode, family in itertools.product((PUBLIC, NO_NETWORK, LIST), "46"):
            made = self.create(POLICY)
            container = Runc(self.world, made, ADMIN, made["name"])
            self.wait_guarded(made["name"])
            self.phase(made["name"], mode)
            self.suite.try_all(container, ADMIN, ROOT, mode, DENIED,
                               [(ROWS["moved_device"], family)])
            number = max(self.suite.attempts)
            with self.subTest(mode=mode, family=family):
                # Nobody is left who would answer an echo: another container's is behind it.
                witness = Runc(self.world, made, DEFAULT, made["name"] + "-witness")
                seen = self.seen(witness, number)
                self.assertEqual(bool(seen), mode == PUBLIC, (seen, self.suite.attempts[number]))


if __name__ == "__main__":
    main()
