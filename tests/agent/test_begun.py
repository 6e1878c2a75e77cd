# SPDX-License-Identifier: Apache-2.0
"""What a runtime has set up in a namespace before the first program of a container begins there is
believed, whenever the agent comes to see it; what comes after that could be the program's doing, if
that has CAP_NET_ADMIN, and is not. A process of the test is what a runtime is (begin.py)."""

import glob
import ipaddress
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import begin
import cgroups
from agentcase import ALL_LISTED, AgentTest
from daemon import BUSY_LIMIT
from harness import main
from lab import Namespace
from phasegate import NO_NETWORK, dying_with_us, started

FIRST, SECOND, LATER = (f"02:00:00:00:77:0{number}" for number in (1, 2, 3))
NETWORK = ipaddress.IPv4Network("192.0.2.64/27")
# PG_BEGUN_MAX
ROOM = 1024
# What the agent takes for somebody's doing who has begun long ago, where it cannot know that.
BEGIN_S = 3


class Begun(AgentTest):
    # What the test has in the place of a container is not one otherwise.
    SETTINGS = {"exposures": ALL_LISTED}

    def setUp(self):
        super().setUp()
        self.box()

    def box(self):
        """An Environment, and a container that is about to begin."""
        self.made = self.create({"network_policy": NO_NETWORK})
        self.lay()
        self.wait_for(lambda: self.table("pg_links"), "no guard")

    def lay(self):
        """The container of it."""
        self.namespace = Namespace()
        self.addCleanup(self.namespace.close)
        self.lab.client.ip(f"link add boxed type veth peer name eth7 netns {self.namespace.path}",
                           "link set boxed up")
        self.addCleanup(subprocess.run, self.lab.client.command("ip", "link", "del", "boxed"),
                        stderr=subprocess.DEVNULL)
        self.namespace.ip("link set lo up", f"link set eth7 address {FIRST}", "link set eth7 up")
        self.process = self.start()

    def start(self):
        root = tempfile.mkdtemp(prefix="pgt-root-")
        self.addCleanup(os.rmdir, root)
        process = subprocess.Popen(
            dying_with_us(*self.namespace.command(
                "unshare", "--mount", sys.executable, begin.__file__,
                cgroups.path_of(self.made["members"][0]["cgroup"]), root)),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.add(process.pid)
        for end in (process.stdout.close, process.stdin.close, process.wait, process.kill):
            self.addCleanup(end)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def begin(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.assertEqual(self.process.stdout.readline(), "begun\n")

    def wait_for(self, condition, about):
        deadline = time.monotonic() + BUSY_LIMIT
        while not condition():
            self.assertLess(time.monotonic(), deadline, about)
            time.sleep(0.02)

    def table(self, name):
        done = subprocess.run(["bpftool", "-j", "map", "dump", "pinned", self.pinned(name)],
                              check=True, capture_output=True, text=True)
        return json.loads(done.stdout)

    def pinned(self, name):
        path, = glob.glob(f"{self.daemon.pins}/+maps-*/{name}")
        return path

    def station(self):
        """That which the guard of the only link lets frames come from: behind header and flags."""
        (element,) = self.table("pg_links")
        return ":".join(f"{int(octet, 16):02x}" for octet in element["value"][208:214])

    def own(self):
        """The test's addresses that are the Environment's own."""
        keys = [bytes(int(octet, 16) for octet in element["key"])
                for element in self.table("pg_own")]
        own = os.stat(cgroups.path_of(self.made["members"][0]["cgroup"])).st_ino
        mapped = (ipaddress.IPv6Address(key[-16:]).ipv4_mapped for key in keys
                  if int.from_bytes(key[:8], sys.byteorder) == own)
        return {str(address) for address in mapped if address and address in NETWORK}

    def refused(self):
        reply = self.daemon.call("GET", f"/v1/events?environment={self.made['name']}")
        return [event["address"] for event in reply.body
                if event["event"] == "own_address_refused"]

    def assert_nothing_later(self, stations=(SECOND, FIRST)):
        """What is set now may be the program's doing."""
        self.namespace.ip(f"link set eth7 address {LATER}", "addr add 192.0.2.79/24 dev eth7")
        self.wait_for(lambda: "192.0.2.79" in self.refused(), "the address is not refused")
        self.assertIn(self.station(), stations)
        self.assertEqual(self.own(), {"192.0.2.77"})

    def test_while_it_is_looked(self):
        """Its process has the container's root directory already, and all rights."""
        self.namespace.ip(f"link set eth7 address {SECOND}", "addr add 192.0.2.77/24 dev eth7")
        self.wait_for(lambda: self.station() == SECOND, "the hardware address is not believed")
        self.wait_for(lambda: self.own() == {"192.0.2.77"}, "the address is not believed")
        self.begin()
        self.assert_nothing_later()

    def test_while_nobody_looks(self):
        """A busy machine."""
        self.daemon.process.send_signal(signal.SIGSTOP)
        self.namespace.ip(f"link set eth7 address {SECOND}", "addr add 192.0.2.77/24 dev eth7")
        self.begin()
        self.namespace.ip(f"link set eth7 address {LATER}", "addr add 192.0.2.78/24 dev eth7")
        self.daemon.process.send_signal(signal.SIGCONT)
        self.wait_for(lambda: self.station() == SECOND, "the hardware address is not believed")
        self.wait_for(lambda: self.own() == {"192.0.2.77"}, "the address is not believed")
        self.wait_for(lambda: self.refused() == ["192.0.2.78"], "no event")
        self.assert_nothing_later(stations=[SECOND])

    def test_while_there_is_no_agent(self):
        self.daemon.kill()
        self.namespace.ip(f"link set eth7 address {SECOND}", "addr add 192.0.2.77/24 dev eth7")
        self.begin()
        self.namespace.ip(f"link set eth7 address {LATER}", "addr add 192.0.2.78/24 dev eth7")
        self.daemon.start()
        self.wait_for(lambda: self.station() == SECOND, "the hardware address is not believed")
        self.wait_for(lambda: self.own() == {"192.0.2.77"}, "the address is not believed")
        self.assert_nothing_later(stations=[SECOND])

    def end_box(self):
        reply = self.daemon.destroy(self.made["name"])
        self.assertEqual(reply.status, 200, reply)
        subprocess.run(self.lab.client.command("ip", "link", "del", "boxed"), check=True)

    def begin_without_room(self):
        """There is room again as soon as it has begun."""
        table = self.table("pg_begun")
        size = len(table[0]["value"]) if table else 0
        self.assertTrue(size, "the element 0 is missing")
        path = self.pinned("pg_begun")
        keys = [" ".join(str(octet) for octet in ((1 << 62) + number).to_bytes(8, sys.byteorder))
                for number in range(ROOM - len(table))]
        value = " ".join(["255"] * 8 + ["0"] * (size - 8))
        self.batch(f"map update pinned {path} key {key} value {value}" for key in keys)
        self.begin()
        self.batch(f"map delete pinned {path} key {key}" for key in keys)

    @staticmethod
    def batch(lines):
        subprocess.run(["bpftool", "batch", "file", "-"], input="".join(f"{line}\n"
                       for line in lines), check=True, text=True, stdout=subprocess.DEVNULL)

    def set_later(self, until):
        """Gives one address after the other until then; what was refused of them."""
        for address in NETWORK:
            if until() or self.refused():
                break
            self.namespace.ip(f"addr add {address}/27 dev eth7")
            self.wait_for(lambda: str(address) in self.own() or self.refused(), address)
        return self.refused()

    def test_without_room(self):
        """A program that began unseen leaves nobody believed who is there with it, and whoever
        comes when it has ended is believed again; whoever comes after the next one is not."""
        for again in range(2):
            self.begin_without_room()
            missed = self.made["name"]
            subprocess.run(self.lab.client.command("ip", "link", "set", "boxed", "name", "old"),
                           check=True)
            self.box()
            self.assertTrue(self.set_later(until=lambda: False))
            if again:
                break
            self.end_box()
            self.assertEqual(self.daemon.destroy(missed).status, 200)
            subprocess.run(self.lab.client.command("ip", "link", "del", "old"), check=True)
            self.box()
            since = time.monotonic()
            self.assertEqual(
                self.set_later(until=lambda: time.monotonic() - since > 1.5 * BEGIN_S), [])

    def test_written_too_late(self):
        """Somebody is seen to begin there after a program that was not, and might have changed what
        is there."""
        self.begin_without_room()
        self.namespace.ip("addr add 192.0.2.77/24 dev eth7")
        self.process = self.start()
        self.begin()
        self.wait_for(lambda: self.refused() or self.own(), "no event")
        self.assertEqual((self.refused(), self.own()), (["192.0.2.77"], set()))

    def test_without_room_before_another_agent(self):
        """A program that began unseen may be of any Environment that the next agent adopts, in
        whatever order, also when the first of them has ended. Begins like the test before it, so
        that it comes after those in which nobody has been missed."""
        for again in range(2):
            # The order in which they were made, and are adopted.
            made = self.create({"network_policy": NO_NETWORK}) if again else None
            if again:
                self.box()
            self.begin()
            subprocess.run(self.lab.client.command("ip", "link", "set", "boxed", "name", "old"),
                           check=True)
            other, self.made = self.made, made or self.create({"network_policy": NO_NETWORK})
            self.daemon.kill()
            self.lay()
            self.begin_without_room()
            cgroup = cgroups.path_of(self.made["members"][0]["cgroup"])
            for pid in cgroups.processes(cgroup):
                os.kill(pid, signal.SIGKILL)
            self.wait_for(lambda: not cgroups.processes(cgroup), "it lives")
            self.daemon.start()
            self.assertEqual(self.daemon.destroy(other["name"]).status, 200)
            subprocess.run(self.lab.client.command("ip", "link", "del", "old"), check=True)
            self.process = self.start()
            self.wait_for(lambda: self.table("pg_links"), "no guard")
            since = time.monotonic()
            self.assertTrue(
                self.set_later(until=lambda: time.monotonic() - since > 1.5 * BEGIN_S), again)
            self.end_box()


if __name__ == "__main__":
    main()
