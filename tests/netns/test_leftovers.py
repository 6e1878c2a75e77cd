# SPDX-License-Identifier: Apache-2.0
"""What a command leaves behind does not live into another phase, whatever it does to survive."""

import os
import shlex

import cgroups
from harness import NetTest, main, token
from lab import A4, D4
from phasegate import PROBE, PUBLIC, allowlist, policy
from recorder import PORT


def shell(*words):
    return shlex.join([PROBE, *words])


class Leftovers(NetTest):
    def test_nothing_of_a_leftover_arrives_in_a_later_phase(self):
        """In the run phase it may not reach D; in setup and verifier, which are public, it would."""
        left, ours = token("left"), token("verify")
        text = policy(setup=PUBLIC, run=allowlist(A4), verifier=PUBLIC)
        send = ["socket 0 udp4", f"connect 0 {D4} {PORT}"]
        run = self.run_command(
            "--policy", text,
            "--run", shell(f"leave {left} {D4} {PORT} {A4} {PORT}"),
            # The verifier makes 200 exchanges with D, time enough for a leftover to be seen.
            "--verify", shell(*send, *[f"send 0 {ours}", "recv 0"] * 200))
        status, _ = run.finish()
        self.assertEqual(status, 0, run.stderr)
        self.assertEqual(len(self.recorder.arrivals(ours)), 200)
        arrived = self.recorder.arrivals(left)
        self.assertTrue([a for a in arrived if a.address == A4], "the leftover did not even start")
        self.assertEqual([a for a in arrived if a.address == D4], [])
        packets = [p for p in self.capture.to(D4) if left.encode() in p.payload]
        self.assertEqual(packets, [])

    def test_a_leftover_of_setup_does_not_see_the_run(self):
        left, after = token("left"), token("after")
        text = policy(setup=allowlist(A4), run=PUBLIC, verifier=PUBLIC)
        run = self.run_command(
            "--policy", text,
            "--setup", shell(f"leave {left} {D4} {PORT} {A4} {PORT}"),
            "--run", shell("socket 0 udp4", f"connect 0 {D4} {PORT}",
                           *[f"send 0 {after}", "recv 0"] * 200),
            "--verify", "true")
        status, _ = run.finish()
        self.assertEqual(status, 0, run.stderr)
        arrived = self.recorder.arrivals(left)
        self.assertTrue(arrived)
        self.assertEqual([a for a in arrived if a.address == D4], [])
        self.assertEqual(len(self.recorder.arrivals(after)), 200)

    def test_a_leftover_does_not_hide_in_the_depth(self):
        cgroup = cgroups.path_of(self.make_cgroup("kill"))
        if not os.path.exists(cgroup + "/cgroup.kill"):
            self.skipTest("needs cgroup.kill (Linux 5.14)")
        script = (f"cd {cgroups.mount2()}$(tail -1 /proc/self/cgroup | cut -d: -f3);"
                  "for i in $(seq 80); do mkdir d; cd d; done;"
                  "setsid sleep 1000 & echo $! >cgroup.procs")
        run = self.run_command("--policy", policy(), "--", "sh", "-c", script)
        self.assertEqual(run.finish()[0], 0, run.stderr)
        self.assertFalse(os.path.exists(cgroups.path_of(run.events[0]["cgroup"])))

    def test_nothing_lives_on_after_the_end(self):
        left = token("left")
        run = self.run_command("--policy", policy(run=allowlist(A4)), "--",
                               PROBE, f"leave {left} {A4} {PORT}")
        self.assertEqual(run.finish()[0], 0, run.stderr)
        self.assert_silent(D4)
        self.assertTrue(self.recorder.arrivals(left))
        # Everything sent before the end is behind the fence; from here on nothing may come.
        self.recorder.forget()
        self.assert_silent(A4)


if __name__ == "__main__":
    main()
