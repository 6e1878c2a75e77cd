#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is released is free when the reply says so, and not a little later."""

import os
import subprocess

import cgroups
import vectors
from agentcase import AgentTest
from harness import main
from lab import D4
from phasegate import NO_NETWORK, PROBE, Agent
from recorder import PORT

ROUNDS = 5


class Inside(Agent):
    """The probe in a cgroup."""

    def __init__(self, lab, directory):
        script = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
        super(Agent, self).__init__(lab, command=["sh", "-c", script, directory, PROBE])
        self("print ready")


class Release(AgentTest):
    def setUp(self):
        super().setUp()
        self.cgroup = self.make_cgroup(self.name("free"))
        self.inside = Inside(self.lab, cgroups.path_of(self.cgroup))
        self.addCleanup(self.inside.close)

    def attach(self):
        made = self.create({"network_policy": NO_NETWORK}, attach=True,
                           members=[{"cgroup": self.cgroup}])
        self.assert_denied(self.inside, vectors.udp_sendto, D4, PORT)
        return made["name"]

    def test_by_the_reply(self):
        for _ in range(ROUNDS):
            self.assertEqual(self.daemon.destroy(self.attach(), "release").status, 200)
            self.assert_reaches(self.inside, vectors.udp_sendto, D4, PORT)

    def test_in_a_parent(self):
        """Nothing below it has a network without an Environment, so nothing can be released there;
        what to do is said."""
        made = self.create({"network_policy": NO_NETWORK})
        inside = Inside(self.lab, cgroups.path_of(made["cgroup_parent"]))
        self.addCleanup(inside.close)
        self.assertIn("processes=kill", self.daemon.destroy(made["name"], "release")["next_step"])
        done = subprocess.run(
            [os.environ["PHASEGATE_BINARY"], "env", "destroy", made["name"], "--release"],
            capture_output=True, text=True, check=False,
            env={**os.environ, "PHASEGATE_SOCKET": self.daemon.socket})
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("cannot be released", done.stderr)
        self.assertIn("-> end them, or give --kill in the place of --release", done.stderr)
        self.assert_denied(inside, vectors.udp_sendto, D4, PORT)


if __name__ == "__main__":
    main()
