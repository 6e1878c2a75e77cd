# SPDX-License-Identifier: Apache-2.0
"""An Environment whose end fails is denied everything, and ended as soon as it can be. Records and
pins of its own, since the lock of the records is held."""

import fcntl
import os
import subprocess
import sys
import textwrap
import time

import cgroups
from agentcase import AgentTest
from daemon import BUSY_LIMIT
from harness import main, patient
from keeper import isolate
from left import RECORDS
from phasegate import PUBLIC, dying_with_us, started

# Each takes a tenth of a second.
MANY = 16
# As long as a destroy waits for processes, and not that for each cgroup.
KILL_LIMIT_S = 10
# Traces a process of each pid that it reads, and stops it on its way out, where SIGKILL has no
# effect any more; until it is killed itself.
HOLD = textwrap.dedent("""
    import ctypes, sys
    PTRACE_SEIZE, PTRACE_O_TRACEEXIT = 0x4206, 0x40
    for line in sys.stdin:
        options = ctypes.c_void_p(PTRACE_O_TRACEEXIT)
        print(ctypes.CDLL(None).ptrace(PTRACE_SEIZE, int(line), None, options), flush=True)
""")


class Ending(AgentTest):
    SETTINGS = {"log_level": "debug"}

    @classmethod
    def setUpClass(cls):
        isolate()
        super().setUpClass()

    def wait_gone(self, path):
        deadline = time.monotonic() + BUSY_LIMIT
        while os.path.exists(path):
            self.assertLess(time.monotonic(), deadline, path)
            time.sleep(0.02)

    def fail_to_end(self, name):
        """Something is in the way; the record, and what is."""
        record = f"{RECORDS}/{name}"
        obstacle = f"{record}/obstacle"
        os.mkdir(obstacle)
        reply = self.daemon.destroy(name)
        self.assertEqual(reply.status, 500, reply)
        self.assertIn(record, reply["message"])
        self.assertEqual(self.daemon.show(name).status, 404)
        return record, obstacle

    def test_tried_again(self):
        made = self.create({"network_policy": PUBLIC})
        name, cgroup = made["name"], cgroups.path_of(made["cgroup_parent"])
        record, obstacle = self.fail_to_end(name)
        # Its name is not free, and what else goes on is not disturbed.
        self.assertGreaterEqual(self.daemon.create(name, policy={}).status, 400)
        self.daemon.destroy(self.create()["name"])
        os.rmdir(obstacle)
        self.wait_gone(record)
        self.assertFalse(os.path.exists(cgroup))
        self.assertEqual(self.create(name=name)["name"], name)

    def test_at_the_next_start(self):
        """If it could not be before that."""
        record, obstacle = self.fail_to_end(self.create()["name"])
        self.daemon.stop()
        os.rmdir(obstacle)
        self.daemon.start()
        self.wait_gone(record)

    def test_many(self):
        """Another process keeps the lock that each of them has to wait for."""
        ways = [self.fail_to_end(self.create()["name"]) for _ in range(MANY)]
        lock = os.open(RECORDS, os.O_RDONLY)
        self.addCleanup(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        deadline, tried, most, silence = time.monotonic() + BUSY_LIMIT, 0, 0, 0
        while tried < MANY:
            began = time.monotonic()
            self.assertEqual(self.daemon.call("GET", "/v1/environments").status, 200)
            silence = max(silence, time.monotonic() - began)
            before, tried = tried, self.daemon.output.count("holds the lock")
            most = max(most, tried - before)
            self.assertLess(began, deadline, "none is tried again")
        print(f"{MANY} Environments that cannot be ended: between two answers {most} tries at most,"
              f" silence {silence * 1e3:.0f} ms")
        # On a busy machine more than one.
        self.assertLess(most, MANY / 2)
        for _, obstacle in ways:
            os.rmdir(obstacle)
        fcntl.flock(lock, fcntl.LOCK_UN)
        for record, _ in ways:
            self.wait_gone(record)

    def undying(self):
        """Starts what holds processes; a cgroup with one that is held, and the pid of that."""
        holder = subprocess.Popen(dying_with_us(sys.executable, "-I", "-c", HOLD), text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.add(holder.pid)
        for end in (holder.stdin.close, holder.stdout.close, holder.wait, holder.kill):
            self.addCleanup(end)

        def hold():
            cgroup = self.make_cgroup(self.name("undying"))
            directory = cgroups.path_of(cgroup)
            process = self.start_in(directory, "sleep", "1000")
            self.wait_in(directory, process.pid)
            holder.stdin.write(f"{process.pid}\n")
            holder.stdin.flush()
            self.assertEqual(holder.stdout.readline(), "0\n")
            return cgroup

        return holder, hold

    def test_undying(self):
        """Several members, whose processes take their time: it is not waited for each."""
        holder, hold = self.undying()
        members = [hold() for _ in range(3)]
        made = self.create(members=[{"cgroup": cgroup} for cgroup in members], attach=True)
        began = time.monotonic()
        reply = self.daemon.destroy(made["name"])
        took = time.monotonic() - began
        self.assertEqual(reply.status, 500, reply)
        self.assertIn("still alive", reply["message"])
        self.assertLess(took, patient(1.5 * KILL_LIMIT_S))
        for cgroup in members:
            self.assertTrue(cgroups.processes(cgroups.path_of(cgroup)))
        holder.kill()
        self.wait_gone(f"{RECORDS}/{made['name']}")
        for cgroup in members:
            self.assertEqual(cgroups.processes(cgroups.path_of(cgroup)), [])


if __name__ == "__main__":
    main()
