# SPDX-License-Identifier: Apache-2.0
"""A connection that was opened inside does not go on after a switch because it looks as if it had
been opened from outside (crossed.py), with a guard at the veth."""

import errno
import json
import os
import socket
import subprocess

import cgroups
from crossed import ACK, NUMBER, SERVER, SYN, segment
from dnslab import PYTHON
from harness import main, token
from keeper import PINS, isolate
from lab import A4
from linklab import Container, LinkTest
from phasegate import NO_NETWORK, PUBLIC, allowlist, policy
from recorder import PORT

CROSSED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "crossed.py")
TEXT = policy(setup=allowlist(A4), run=NO_NETWORK, verifier=PUBLIC)
CLOSED = 1
# As PG_LINK_ASKED in abi/link.h, and what struct pg_link_table has behind .asked.
ASKED, BEHIND = 4096, 8192 + 8
# After so many segments of a connection the guard has a record of it, also where another had the
# place.
SEGMENTS = 24
# So many SYNs take the places of all others (PG_LINK_STREAMS).
OTHERS = 4096


class Crossed(LinkTest):
    def open(self, container, way):
        """The process that has the connection, or is to say more about it."""
        process = subprocess.Popen(
            ["nsenter", f"--net=/proc/{container.pid}/ns/net", "sh", "-c",
             'echo $$ >"$0" && exec "$@"', f"{cgroups.path_of(container.cgroup)}/cgroup.procs",
             PYTHON, CROSSED, way, container.address4, A4, str(PORT)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def tell(self, process, line):
        process.stdin.write(line + "\n")
        process.stdin.flush()

    def say(self, process):
        """Has it send something; what, and what its socket said."""
        mark = token()
        self.tell(process, mark)
        return mark, process.stdout.readline()

    def assert_open(self, process):
        self.assertEqual(process.stdout.readline(), "open\n")

    def create_for(self, cgroup):
        keeper = self.keeper()
        self.create(keeper, cgroup, text=TEXT, options="a")
        return keeper

    def came(self, mark):
        return [p for p in self.fence() if mark.encode() in p.payload]

    def passes_after_switch(self, keeper, process):
        keeper("switch", "run")
        self.capture.drain()
        mark, _ = self.say(process)
        return self.came(mark) != []

    def check(self, way, number, reaches):
        container = self.container(way, number)
        keeper = self.create_for(container.cgroup)
        process = self.open(container, way)
        self.assert_open(process)
        if reaches:
            mark, said = self.say(process)
            self.assertEqual(said, "sent\n")
            self.assertIsNotNone(self.recorder.wait(mark))
        self.assertFalse(self.passes_after_switch(keeper, process))

    def test_both_ends_open_it(self):
        self.check("crossed", 1, True)

    def test_a_server_inside_accepts_it(self):
        """The peer knows nothing of it, so it takes nothing."""
        self.check("accepted", 2, False)

    def send(self, container, *segments):
        """By the peer: port, number, what it acknowledges, and flags of each."""
        def send():
            with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
                for port, *rest in segments:
                    raw.sendto(segment((A4, port), (container.address4, SERVER), *rest),
                               (container.address4, 0))
        self.lab.server.call(send)

    def assert_comes_in(self, container):
        """What has been sent there before has come in by then, too."""
        def connect():
            with socket.socket() as stream:
                return stream.connect_ex((container.address4, CLOSED))
        self.assertEqual(self.lab.server.call(connect), errno.ECONNREFUSED)

    def passes_when_acknowledged(self, keeper, container, asks=False):
        """What the peer's kernel says on a connection of which nothing is known inside any more.
        asks: after a SYN of its own, of which the guard knows nothing any more either."""
        if asks:
            self.send(container, (PORT, NUMBER, 0, SYN))
            self.assert_comes_in(container)
        process = self.open(container, "told")
        number = int(process.stdout.readline())
        if asks:
            self.send(container, *((port, 1, 0, SYN) for port in range(20000, 20000 + OTHERS)))
        self.send(container, (PORT, NUMBER + 1, number + 1, ACK))
        self.assert_comes_in(container)
        self.tell(process, "done")
        self.assert_open(process)
        return self.passes_after_switch(keeper, process)

    def fresh(self):
        """A container in which nobody has lived before."""
        cgroup = self.make_cgroup("told")
        keeper = self.create_for(cgroup)
        container = Container(self, "told", cgroup=cgroup)
        container.join(3, bridge=False)
        self.wait_for(lambda: keeper("links")["links"], about="no guard comes")
        return keeper, container

    def test_acknowledged_by_somebody_who_has_asked(self):
        """As what a SYN cookie stood for, in a flood."""
        self.assertTrue(self.passes_when_acknowledged(*self.fresh(), asks=True))

    def test_acknowledged_by_somebody_who_was_only_answered(self):
        """The SYN was made inside, so the answer to it is the first that goes past the guard."""
        self.assertFalse(self.passes_when_acknowledged(*self.fresh()))

    def test_acknowledged_by_somebody_who_may_have_been_asked_before(self):
        """That may be a connection from before the attach."""
        container = self.container("told", 4, bridge=False)
        keeper = self.create_for(container.cgroup)
        self.assertFalse(self.passes_when_acknowledged(keeper, container))

    def asked(self):
        """Of how many addresses the guard remembers that a segment went there."""
        maps = next(name for name in os.listdir(PINS) if name.startswith("+maps-"))
        shown = subprocess.run(
            ["bpftool", "-j", "map", "dump", "pinned", f"{PINS}/{maps}/pg_link_tables"],
            stdout=subprocess.PIPE, check=True).stdout
        table, = json.loads(shown)
        return sum(int(octet, 16) for octet in table["value"][-ASKED - BEHIND:-BEHIND])

    def test_a_segment_that_is_made_to_ask(self):
        """It is of a connection that was open before, and known without one that asks."""
        container = self.container("plain", 5, bridge=False)
        process = self.open(container, "plain")
        self.assert_open(process)
        self.create_for(container.cgroup)
        for _ in range(SEGMENTS):
            self.assertIsNotNone(self.recorder.wait(self.say(process)[0]))
        self.assertEqual(self.asked(), 1)
        self.tell(process, "syn")
        self.capture.drain()
        mark, said = self.say(process)
        self.assertEqual(said, "sent\n")
        self.assertEqual([p.flags for p in self.came(mark)], [SYN])
        self.assertEqual(self.asked(), 1)


if __name__ == "__main__":
    isolate()
    main()
