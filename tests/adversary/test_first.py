# SPDX-License-Identifier: Apache-2.0
"""What a container does first, in a cgroup made beforehand: frames of a packet socket, which only
the host's end of its veth can judge. Docker makes the veth after the container's first process; of
runc the namespace and its veth are there before it.

PHASEGATE_STARTS is how often each runtime starts one; unless it is given, runc 10 times, Docker 5.
"""

import json
import os
import unittest

from case import POLICY, VectorsTest
from containers import DEFAULT, Docker, Runc, WithDocker
from harness import main
from lab import R4
from phasegate import NO_NETWORK, PUBLIC
from rows import ROWS
from suite import DENIED, MODES, ROOT, Suite
from world import BRIDGE, HOST4, HOST6, NETWORK4, NETWORK6

STARTS = int(os.environ.get("PHASEGATE_STARTS", "0"))
TRIES = 20  # As FIRST_TRIES in adversary.c.


class Started:
    """A container that is only looked at."""

    def __init__(self, addresses):
        self.addresses = addresses


class First:
    """start() starts a container whose first process tries something."""

    def environment(self, mode):
        made = self.create(POLICY)
        reply = self.daemon.phase(made["name"], MODES[mode], survivors="allow")
        self.assertEqual(reply.status, 200, reply)
        return made

    def start_all(self, count):
        """One in public, which shows that the frames arrive, then all others. Returns the frames
        that got away."""
        suite = Suite(self.world)
        frames = []
        for index in range(1 + (STARTS or count)):
            mode = NO_NETWORK if index else PUBLIC
            made = self.environment(mode)
            number, container = self.start(suite, made, index)
            suite.look(container)
            if mode == PUBLIC:
                self.look_at_control(suite, number)
            elif suite.seen[number]:
                frames.append(suite.frames[number])
            self.after(suite, made, container, mode)
        return frames

    def look_at_control(self, suite, number):
        self.assertTrue(suite.seen[number], "nothing arrives, so this proves nothing")

    def after(self, suite, made, container, mode):
        pass


@unittest.skipUnless(Runc.available, "needs runc and busybox")
class RuncFirst(First, VectorsTest):
    @classmethod
    def set_up(cls):
        cls.world.make_bridge()
        cls.world.watch("link", cls.world.host, BRIDGE)

    def start(self, suite, made, _):
        addresses = self.world.next_addresses()
        number, line = suite.line(ROWS["packet_raw"], "4", ROOT, DENIED, addresses)
        container = Runc(self.world, made, DEFAULT, made["name"], ["first", line])
        json.loads(container.program.line())
        return number, container

    def look_at_control(self, suite, number):
        """As long as there is no guard nothing arrives in public either; see after()."""

    def after(self, suite, made, container, mode):
        """As soon as there is a guard nothing gets away."""
        self.wait_guarded(made["name"])
        # What it has not answered yet it has sent. Lines that came together are in a buffer, where
        # nobody waits for them.
        for _ in range(TRIES - 1):
            container.program.process.stdout.readline()
        suite.try_all(container, DEFAULT, ROOT, mode, DENIED, [(ROWS["packet_raw"], "4")])
        number = max(suite.attempts)
        suite.look(container)
        self.assertEqual(bool(suite.seen[number]), mode == PUBLIC, suite.frames.get(number))

    def test_first(self):
        self.assertEqual(self.start_all(10), [])


class DockerFirst(First, WithDocker, VectorsTest):
    def start(self, suite, made, index):
        own = {"own4": f"{NETWORK4}.0.{50 + index}", "own6": f"{NETWORK6}::{50 + index:x}",
               # As Docker makes it.
               "mac": f"02:42:ac:1e:00:{50 + index:02x}"}
        addresses = {**own, "gateway4": HOST4, "gateway6": HOST6, "network4": NETWORK4,
                     "network6": NETWORK6, "gwmac": Docker.bridge_mac(self.world)}
        number, line = suite.line(ROWS["packet_raw"], "4", ROOT, DENIED, addresses)
        name, _ = self.docker.run(
            "--interactive", "--network", "pgt", "--dns", R4, "--ip", own["own4"], "--ip6",
            own["own6"], "--cgroup-parent", made["cgroup_parent"],
            words=("/bin/adversary", "first", line))
        while not self.docker.call("logs", name).stdout:
            pass
        self.addCleanup(self.docker.remove, name)

        return number, Started(addresses)

    def test_first(self):
        self.assertEqual(self.start_all(5), [])


if __name__ == "__main__":
    main()
