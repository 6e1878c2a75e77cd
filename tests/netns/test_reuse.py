# SPDX-License-Identifier: Apache-2.0
"""A cgroup that is given more than once, and a path that is made anew."""

import os
import signal
import subprocess

import cgroups
from harness import LabTest, main
from phasegate import Run, policy

NOTHING = policy()


class Reuse(LabTest):
    def make_cgroup(self, name):
        cgroup = cgroups.make(name)
        self.addCleanup(cgroups.remove, cgroups.path_of(cgroup), "cgroup2")
        return cgroup

    def run_command(self, *words):
        run = Run(self.lab, "--policy", NOTHING, *words)
        self.addCleanup(run.close)
        return run

    def wait_started(self, run):
        """Until the command has echoed a line: all of the start is behind it."""
        run.process.stdin.write(b"ready\n")
        run.process.stdin.flush()
        self.assertEqual(run.line(), "ready")

    def test_one_process_uses_a_cgroup_again(self):
        self.run_program("reuse", self.make_cgroup("reuse"))

    def test_a_path_made_anew_is_not_the_killed_runs(self):
        """The next start ends the tree of a killed run, but not what somebody has put into another
        cgroup of the same path since."""
        cgroup = self.make_cgroup("anew")
        path = cgroups.path_of(cgroup)
        killed = self.run_command("--cgroup", cgroup, "--", "cat")
        self.wait_started(killed)
        killed.kill()
        cgroups.remove(path, "cgroup2")
        os.mkdir(path)
        stranger = subprocess.Popen(["sleep", "100"])
        self.addCleanup(stranger.wait)
        self.addCleanup(stranger.kill)
        with open(path + "/cgroup.procs", "w", encoding="ascii") as file:
            file.write(str(stranger.pid))
        self.assertEqual(self.run_command("--", "true").finish()[0], 0)
        self.assertIsNone(stranger.poll(), "a stranger was killed")
        stranger.send_signal(signal.SIGKILL)
        self.assertTrue(cgroups.wait_empty(path))
        # The record is gone too: the path is free again.
        self.assertEqual(self.run_command("--cgroup", cgroup, "--", "true").finish()[0], 0)

    def test_a_cgroup_that_is_removed_leaves_nothing(self):
        """The command leaves its cgroup and removes it: record and pins go all the same."""
        cgroup = self.make_cgroup("removed")
        path = cgroups.path_of(cgroup)
        run = self.run_command("--cgroup", cgroup, "--", "sh", "-c",
                               f"echo $$ >{cgroups.mount2()}/cgroup.procs;"
                               f"rmdir {path}/command-1 {path}")
        run.finish()
        name = run.events[0]["environment"]
        for root in ("/run/phasegate", "/sys/fs/bpf/phasegate"):
            self.assertFalse(os.path.exists(f"{root}/{name}"), run.stderr)

    def test_what_is_below_a_given_cgroup_is_kept(self):
        """It would be removed at the end, so a cgroup that has any is refused."""
        cgroup = self.make_cgroup("above")
        below = cgroups.path_of(cgroup) + "/below"
        os.mkdir(below)
        run = self.run_command("--cgroup", cgroup, "--", "true")
        self.assertNotEqual(run.finish()[0], 0)
        self.assertIn(cgroup, run.stderr)
        self.assertTrue(os.path.isdir(below))

    def test_the_tree_of_a_killed_run_is_ended(self):
        """The counterpart: a given cgroup that is still the same is emptied, and kept."""
        cgroup = self.make_cgroup("same")
        path = cgroups.path_of(cgroup)
        killed = self.run_command("--cgroup", cgroup, "--", "sh", "-c", "setsid sleep 100 & cat")
        self.wait_started(killed)
        killed.kill()
        self.assertEqual(self.run_command("--", "true").finish()[0], 0)
        self.assertEqual(cgroups.processes(path), [])
        self.assertEqual(os.listdir(path).count("command-1"), 0)


if __name__ == "__main__":
    main()
