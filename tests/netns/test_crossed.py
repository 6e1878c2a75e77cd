# SPDX-License-Identifier: Apache-2.0
"""A connection that was opened inside does not go on after a switch because it looks as if it had
been opened from outside (crossed.py), with a guard at the veth."""

import json
import os
import subprocess

import cgroups
from crossed import SYN
from dnslab import PYTHON
from harness import main, token
from keeper import PINS, isolate
from lab import A4
from linklab import LinkTest
from phasegate import NO_NETWORK, PUBLIC, allowlist, policy
from recorder import PORT

CROSSED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "crossed.py")
TEXT = policy(setup=allowlist(A4), run=NO_NETWORK, verifier=PUBLIC)
# As PG_LINK_ASKED in abi/link.h; at the end of struct pg_link_table.
ASKED = 512
# After so many segments of a connection the last one is remembered: PG_SENT_SEGMENTS, and some.
SEGMENTS = 24


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

    def create_for(self, container):
        keeper = self.keeper()
        self.create(keeper, container.cgroup, text=TEXT, options="a")
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
        keeper = self.create_for(container)
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

    def asked(self):
        """Of how many addresses the guard remembers that a SYN went there."""
        maps = next(name for name in os.listdir(PINS) if name.startswith("+maps-"))
        shown = subprocess.run(
            ["bpftool", "-j", "map", "dump", "pinned", f"{PINS}/{maps}/pg_link_tables"],
            stdout=subprocess.PIPE, check=True).stdout
        table, = json.loads(shown)
        return sum(int(octet, 16) for octet in table["value"][-ASKED:])

    def test_a_segment_that_is_made_to_ask(self):
        """It is of a connection that was open before, so nobody has been asked so far."""
        container = self.container("plain", 5, bridge=False)
        process = self.open(container, "plain")
        self.assert_open(process)
        self.create_for(container)
        for _ in range(SEGMENTS):
            self.assertIsNotNone(self.recorder.wait(self.say(process)[0]))
        self.assertEqual(self.asked(), 0)
        self.tell(process, "syn")
        self.capture.drain()
        mark, said = self.say(process)
        self.assertEqual(said, "sent\n")
        self.assertEqual([p.flags for p in self.came(mark)], [SYN])
        self.assertEqual(self.asked(), 1)


if __name__ == "__main__":
    isolate()
    main()
