# SPDX-License-Identifier: Apache-2.0
"""A container gets another link while it runs (docker network connect), and floods it with frames of a
packet socket from the first moment on: not one gets away.

PHASEGATE_STARTS is how often it gets one; 5 times unless it is given."""

import os
import time

from case import MODES, POLICY, SOON, VectorsTest
from containers import DEFAULT, Docker, Program, WithDocker
from harness import main
from phasegate import NO_NETWORK, PUBLIC
from rows import ROWS
from suite import DENIED, ROOT, Suite
from wire import numbers

STARTS = int(os.environ.get("PHASEGATE_STARTS", "5"))
OTHER, OTHER_BRIDGE = "pgtother", "pgbr1"


class Connect(WithDocker, VectorsTest):
    @classmethod
    def set_up(cls):
        super().set_up()
        cls.docker.call("network", "create", "--opt",
                        f"com.docker.network.bridge.name={OTHER_BRIDGE}", OTHER)
        cls.world.host.ip(f"link set {OTHER_BRIDGE} promisc on")
        cls.world.watch("other", cls.world.host, OTHER_BRIDGE)

    def begin(self):
        """A container with an Environment, which floods whatever device it gets."""
        container = Docker(self.world, self.docker, DEFAULT)
        made = self.create(POLICY, members=[{"container": container.container}])
        number, line = Suite(self.world).line(ROWS["packet_raw"], "4", ROOT, DENIED,
                                              container.addresses)
        flood = Program(self.world.lab, command=[
            "docker", "--host", "unix://" + self.docker.socket, "exec", "--interactive",
            container.container, "/bin/adversary", "flood", line])
        self.addCleanup(flood.close)
        return made["name"], container.container, flood, number

    def connect(self, name, container, flood):
        """Until the flood has got frames to the device, and a guard is on it; and some of them
        later."""
        self.docker.call("network", "connect", OTHER, container)
        flood.line()
        began = time.monotonic()
        while [link["guard"] for link in self.daemon.show(name)["links"]] != ["on", "on"]:
            self.assertLess(time.monotonic() - began, SOON, "no guard comes")
        time.sleep(0.05)

    def frames(self, number):
        wire = self.world.wires["other"]
        found = sum(number in numbers(frame) for frame in wire.frames())
        lost, wire.lost = wire.lost, 0
        return found + lost

    def wait_for_frames(self, number):
        began = time.monotonic()
        while not self.frames(number):
            self.assertLess(time.monotonic() - began, SOON,
                            "nothing arrives, so this proves nothing")

    def test_connect(self):
        name, container, flood, number = self.begin()
        got_away = []
        for index in range(1 + STARTS):
            mode = NO_NETWORK if index else PUBLIC
            reply = self.daemon.phase(name, MODES[mode], survivors="allow")
            self.assertEqual(reply.status, 200, reply)
            self.connect(name, container, flood)
            if mode == PUBLIC:
                self.wait_for_frames(number)
            elif found := self.frames(number):
                got_away.append((index, found))
            self.docker.call("network", "disconnect", OTHER, container)
            self.frames(number)
        self.assertEqual(got_away, [])


if __name__ == "__main__":
    main()
