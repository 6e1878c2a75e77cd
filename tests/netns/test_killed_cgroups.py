#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cgroups whose processes were once killed by cgroup.kill: a kernel that takes the count of kills
of another cgroup for theirs (Linux 6.14 and later) kills what is forked into them."""

import os

import cgroups
from harness import NetTest, main
from lab import A4, D4
from phasegate import BINARY, allowlist, dying_with_us, policy
from recorder import PORT
from vectors import tcp

POLICY = policy(run=allowlist(A4))


class KilledCgroups(NetTest):
    def killed_cgroup(self, name):
        cgroup = self.make_cgroup(name)
        path = cgroups.path_of(cgroup) + "/cgroup.kill"
        if not os.path.exists(path):
            self.skipTest("before Linux 5.14 there is no cgroup.kill")
        with open(path, "w", encoding="ascii") as file:
            file.write("1")
        return cgroup

    def check(self, agent):
        self.assert_reaches(agent, tcp, A4, PORT)
        self.assert_denied(agent, tcp, D4, PORT)
        agent.close()

    def test_given(self):
        self.check(self.agent("--policy", POLICY, "--cgroup", self.killed_cgroup("given")))

    def test_own(self):
        """It is the caller that is in such a cgroup."""
        cgroup = self.killed_cgroup("own")
        run = self.run_command(command=dying_with_us(
            "sh", "-c", 'echo $$ >"$0" && exec "$@"', f"{cgroups.path_of(cgroup)}/cgroup.procs",
            BINARY, "run", "--policy", POLICY, "--", "echo", "alive"))
        self.assertEqual(run.finish(), (0, "alive\n"), run.stderr)


if __name__ == "__main__":
    main()
