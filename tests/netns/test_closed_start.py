# SPDX-License-Identifier: Apache-2.0
"""Before its first header an Environment is closed, loopback too; and what cannot be put in force
starts nothing."""

import os
import unittest

import cgroups
import steps
import vectors
from harness import NetTest, main
from lab import A4, A6, D4
from phasegate import NO_NETWORK, PUBLIC, Unconfined, allowlist, policy
from recorder import PORT

OPEN = policy(run=PUBLIC)
LISTENER = 8400


class ClosedStart(NetTest):
    def intruder(self, cgroup):
        """A probe that the test moves into the cgroup, though nothing has been started in it."""
        agent = Unconfined(self.lab)
        self.addCleanup(agent.close)
        # Servers on loopback, made before: only the way to them is in question.
        for number, (family, address) in enumerate((("4", "127.0.0.1"), ("6", "::1"))):
            for line in (f"socket {number + 10} tcp{family}",
                         f"bind {number + 10} {address} {LISTENER}", f"listen {number + 10}"):
                self.assertEqual(agent(line)["errno"], "", line)
        with open(cgroups.path_of(cgroup) + "/cgroup.procs", "w", encoding="ascii") as file:
            file.write(str(agent.pid))
        return agent

    def assert_closed(self, agent):
        self.capture.drain()
        for vector in (vectors.tcp, vectors.udp_connected, vectors.udp_sendto):
            for address in (A4, A6, D4):
                self.assert_denied(agent, vector, address, PORT)
            for address in ("127.0.0.1", "::1"):
                self.assert_denied(agent, vector, address, LISTENER)
        self.assert_silent(A4, A6, D4)
        self.assert_reaches(self.unconfined, vectors.tcp, A4, PORT)

    def assert_closed_until_the_header(self, cgroup):
        names = steps.names()
        for step in names[names.index("attached"):names.index("header")]:
            with self.subTest(step=step):
                run = self.run_command("--policy", OPEN, "--cgroup", cgroup, "--", "true",
                                       environment=steps.stop_at(step))
                try:
                    self.assertTrue(run.wait_stopped(), run.stderr)
                    with self.intruder(cgroup) as agent:
                        self.assert_closed(agent)
                    # It goes on, so that the cgroup has been open when the next one starts.
                    run.resume()
                    self.assertEqual(run.finish()[0], 0, run.stderr)
                finally:
                    run.close()

    @unittest.skipUnless(steps.AVAILABLE, "built without PHASEGATE_TEST_HOOKS")
    def test_everything_is_denied_before_the_first_header(self):
        self.assert_closed_until_the_header(self.make_cgroup("fresh"))

    @unittest.skipUnless(steps.AVAILABLE, "built without PHASEGATE_TEST_HOOKS")
    def test_a_cgroup_that_was_public_starts_closed(self):
        cgroup = self.make_cgroup("used")
        with self.agent("--policy", OPEN, "--cgroup", cgroup) as agent:
            self.assert_reaches(agent, vectors.tcp, D4, PORT)
        self.assert_closed_until_the_header(cgroup)

    @unittest.skipUnless(steps.AVAILABLE, "built without PHASEGATE_TEST_HOOKS")
    def test_a_cgroup_left_public_by_a_killed_run_starts_closed(self):
        cgroup = self.make_cgroup("killed")
        for step in ("header", "spawned"):
            run = self.run_command("--policy", OPEN, "--cgroup", cgroup, "--", "cat",
                                   environment=steps.stop_at(step))
            self.assertTrue(run.wait_stopped(), run.stderr)
            run.close()
            self.assert_closed_until_the_header(cgroup)

    def test_a_used_cgroup_gets_the_new_policy(self):
        cgroup = self.make_cgroup("again")
        for text, reached in ((OPEN, (A4, D4)), (policy(run=NO_NETWORK), ()),
                              (policy(run=allowlist(A4)), (A4,)), (OPEN, (A4, D4))):
            with self.subTest(policy=text), \
                    self.agent("--policy", text, "--cgroup", cgroup) as agent:
                for address in (A4, D4):
                    if address in reached:
                        self.assert_reaches(agent, vectors.tcp, address, PORT)
                    else:
                        self.assert_denied(agent, vectors.tcp, address, PORT)

    def test_a_cgroup_in_use_is_refused(self):
        cgroup = self.make_cgroup("busy")
        with self.agent("--policy", policy(run=NO_NETWORK), "--cgroup", cgroup) as agent:
            for other in (cgroup, cgroup + "/below"):
                os.makedirs(cgroups.path_of(other), exist_ok=True)
                run = self.run_command("--policy", OPEN, "--cgroup", other, "--", "echo", "in")
                status, output = run.finish()
                self.assertEqual((status, output), (125, ""), run.stderr)
                self.assertIn(other, run.stderr)
            self.assert_denied(agent, vectors.tcp, D4, PORT)


if __name__ == "__main__":
    main()
