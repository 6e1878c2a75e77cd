# SPDX-License-Identifier: Apache-2.0
"""A connection that was opened inside does not go on after a switch because it looks as if it had
been opened from outside (crossed.py), with a guard at the veth."""

import os
import subprocess

import cgroups
from dnslab import PYTHON
from harness import main, token
from keeper import isolate
from lab import A4
from linklab import LinkTest
from phasegate import NO_NETWORK, PUBLIC, allowlist, policy
from recorder import PORT

CROSSED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "crossed.py")
TEXT = policy(setup=allowlist(A4), run=NO_NETWORK, verifier=PUBLIC)


class Crossed(LinkTest):
    def open(self, container, way):
        """The process that has the connection."""
        process = subprocess.Popen(
            ["nsenter", f"--net=/proc/{container.pid}/ns/net", "sh", "-c",
             'echo $$ >"$0" && exec "$@"', f"{cgroups.path_of(container.cgroup)}/cgroup.procs",
             PYTHON, CROSSED, way, container.address4, A4, str(PORT)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "open\n")
        return process

    def say(self, process):
        """Has it send something; what, and what its socket said."""
        mark = token()
        process.stdin.write(mark + "\n")
        process.stdin.flush()
        return mark, process.stdout.readline()

    def check(self, way, number, reaches):
        container, keeper = self.container(way, number), self.keeper()
        self.create(keeper, container.cgroup, text=TEXT, options="a")
        process = self.open(container, way)
        if reaches:
            mark, said = self.say(process)
            self.assertEqual(said, "sent\n")
            self.assertIsNotNone(self.recorder.wait(mark))
        keeper("switch", "run")
        self.capture.drain()
        mark, _ = self.say(process)
        came = [p for p in self.fence() if mark.encode() in p.payload]
        self.assertEqual(came, [])

    def test_both_ends_open_it(self):
        self.check("crossed", 1, True)

    def test_a_server_inside_accepts_it(self):
        """The peer knows nothing of it, so it takes nothing."""
        self.check("accepted", 2, False)


if __name__ == "__main__":
    isolate()
    main()
