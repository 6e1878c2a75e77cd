# SPDX-License-Identifier: Apache-2.0
"""A cgroup that is given more than once, and a path that is made anew."""

import fcntl
import os
import signal
import subprocess

import cgroups
from harness import LabTest, main
from phasegate import BINARY, PUBLIC, Run, policy

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
                               f"rmdir {path}/command-1-* {path}")
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

    def test_a_cgroup_that_cannot_run_is_refused(self):
        for file, value in (("cgroup.type", "threaded"), ("cgroup.freeze", "1")):
            with self.subTest(file=file):
                cgroup = self.make_cgroup("unfit-" + value)
                with open(f"{cgroups.path_of(cgroup)}/{file}", "w", encoding="ascii") as control:
                    control.write(value)
                run = self.run_command("--cgroup", cgroup, "--", "echo", "started")
                self.assertEqual(run.finish(), (125, ""), run.stderr)
                self.assertIn(cgroup, run.stderr)

    def test_a_run_inside_of_another_is_refused(self):
        """It would start its command in a cgroup of its own, out of the policy's reach."""
        outer = self.run_command("--", BINARY, "run", "--policy", policy(run=PUBLIC), "--", "echo",
                                 "started")
        self.assertEqual(outer.finish(), (125, ""), outer.stderr)
        self.assertIn("inside the Environment " + outer.events[0]["environment"], outer.stderr)

    def test_a_command_cannot_prepare_the_cgroup_of_the_next(self):
        cgroup = self.make_cgroup("prepare")
        path = cgroups.path_of(cgroup)
        run = self.run_command("--cgroup", cgroup, "--setup",
                               f"mkdir {path}/command-2 && echo 1 >{path}/command-2/cgroup.freeze",
                               "--run", "tail -1 /proc/self/cgroup")
        status, output = run.finish()
        self.assertEqual(status, 0, run.stderr)
        self.assertRegex(output.strip(), rf"^0::{cgroup}/command-2-[0-9a-f]{{8}}$")

    def test_a_signal_ends_the_start_of_a_command_that_is_frozen(self):
        """The parent is frozen as soon as the command's cgroup is there: before exec the start is
        given up, after it the signal waits with the command for the thaw."""
        parent = self.make_cgroup("frozen")
        path = cgroups.path_of(parent)
        os.mkdir(path + "/child")
        run = self.run_command("--cgroup", parent + "/child", "--", "sleep", "1000")
        while not any(name.startswith("command-1") for name in os.listdir(path + "/child")):
            self.assertIsNone(run.process.poll(), run.stderr)
        with open(path + "/cgroup.freeze", "w", encoding="ascii") as control:
            control.write("1")
        run.process.terminate()
        try:
            run.process.wait(2)
        except subprocess.TimeoutExpired:
            with open(path + "/cgroup.freeze", "w", encoding="ascii") as control:
                control.write("0")
        self.assertEqual(run.finish()[0], 128 + signal.SIGTERM, run.stderr)
        self.assertEqual(cgroups.processes(path), [])

    def test_a_signal_ends_the_wait_for_the_records(self):
        os.makedirs("/run/phasegate", mode=0o700, exist_ok=True)
        records = os.open("/run/phasegate", os.O_RDONLY | os.O_DIRECTORY)
        self.addCleanup(os.close, records)
        fcntl.flock(records, fcntl.LOCK_EX)
        run = self.run_command("--", "echo", "started")
        # Once it is blocked, the signal is read; before, it would end the process by itself.
        with open(f"/proc/{run.pid}/status", encoding="ascii") as file:
            while not self.blocks(file, signal.SIGTERM):
                self.assertIsNone(run.process.poll(), run.stderr)
        run.process.terminate()
        try:
            self.assertEqual(run.finish(), (128 + signal.SIGTERM, ""), run.stderr)
        finally:
            fcntl.flock(records, fcntl.LOCK_UN)
        self.assertIn("nothing was started", run.stderr)

    @staticmethod
    def blocks(status, number):
        status.seek(0)
        mask = next(line.split()[1] for line in status if line.startswith("SigBlk"))
        return int(mask, 16) >> number - 1 & 1

    def test_the_tree_of_a_killed_run_is_ended(self):
        """The counterpart: a given cgroup that is still the same is emptied, and kept."""
        cgroup = self.make_cgroup("same")
        path = cgroups.path_of(cgroup)
        killed = self.run_command("--cgroup", cgroup, "--", "sh", "-c", "setsid sleep 100 & cat")
        self.wait_started(killed)
        killed.kill()
        self.assertEqual(self.run_command("--", "true").finish()[0], 0)
        self.assertEqual(cgroups.processes(path), [])
        self.assertEqual([name for name in os.listdir(path) if name.startswith("command")], [])


if __name__ == "__main__":
    main()
