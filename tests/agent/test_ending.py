# SPDX-License-Identifier: Apache-2.0
"""An Environment whose end fails is denied everything, and ended as soon as it can be. Records and
pins of its own, since the lock of the records is held."""

import fcntl
import os
import select
import socket
import subprocess
import sys
import textwrap
import time

import cgroups
from agentcase import AgentTest
from daemon import BUSY_LIMIT, UnixConnection, directory_of, read_reply
from harness import main, patient
from keeper import isolate
from lab import A4
from left import RECORDS
from phasegate import NO_NETWORK, PUBLIC, dying_with_us, started
from recorder import PORT

# Each takes a tenth of a second.
MANY = 16
# As long as a destroy waits for processes, and not that for each cgroup.
KILL_LIMIT_S = 10
# What is meant is 0.1; sanitizers and a busy machine included.
SILENCE_S = 1
# Traces a process of each pid that it reads, and stops it on its way out, where SIGKILL has no
# effect any more; until it is killed itself.
HOLD = textwrap.dedent("""
    import ctypes, sys
    PTRACE_SEIZE, PTRACE_O_TRACEEXIT = 0x4206, 0x40
    for line in sys.stdin:
        options = ctypes.c_void_p(PTRACE_O_TRACEEXIT)
        print(ctypes.CDLL(None).ptrace(PTRACE_SEIZE, int(line), None, options), flush=True)
""")
# Connects a socket, and gives another process a descriptor of it: what that one sends is judged as
# the socket's.
SHARE = textwrap.dedent("""
    import signal, socket, sys
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.connect((sys.argv[2], int(sys.argv[3])))
    socket.send_fds(socket.socket(fileno=int(sys.argv[1])), [b"x"], [made.fileno()])
    signal.pause()
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
        self.assertCode(self.daemon.create(name, policy={}), "name_taken", "still being ended")
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

    def holder(self):
        """Starts what holds processes, until it is killed; and what lets it hold one."""
        holder = subprocess.Popen(dying_with_us(sys.executable, "-I", "-c", HOLD), text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.add(holder.pid)
        for end in (holder.stdin.close, holder.stdout.close, holder.wait, holder.kill):
            self.addCleanup(end)

        def hold(pid):
            # Before the process is waited for.
            self.addCleanup(holder.kill)
            holder.stdin.write(f"{pid}\n")
            holder.stdin.flush()
            self.assertEqual(holder.stdout.readline(), "0\n")

        return holder, hold

    def undying(self):
        """An Environment with a process that does not die until its holder is killed, and a socket
        of that process."""
        holder, hold = self.holder()
        made = self.create({"network_policy": PUBLIC})
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = self.start_in(
                directory_of(made),
                *self.lab.client.command(sys.executable, "-I", "-c", SHARE, str(theirs.fileno()),
                                         A4, str(PORT)),
                pass_fds=[theirs.fileno()])
            shared = socket.socket(fileno=socket.recv_fds(ours, 1, 1)[1][0])
        self.addCleanup(shared.close)
        hold(process.pid)
        # Everything is allowed as long as it is not destroyed.
        shared.send(b"x")
        return made["name"], holder, shared

    def begin_destroy(self, name):
        """Sends the request; the reply is read by the caller."""
        connection = UnixConnection(self.daemon.socket)
        self.addCleanup(connection.close)
        connection.request("DELETE", f"/v1/environments/{name}?processes=kill")
        return connection

    def end_destroy(self, connection):
        return read_reply(connection, "DELETE", "/v1/environments/x")

    def wait_tried(self, name, count):
        """Until so many tries to end it have failed, but for the first."""
        deadline = time.monotonic() + BUSY_LIMIT
        while self.daemon.output.count(f"ending the Environment {name} again") < count:
            self.assertLess(time.monotonic(), deadline, "it is not tried again")
            time.sleep(0.02)

    def events_of(self, name):
        body = self.daemon.call("GET", f"/v1/events?environment={name}").body
        return [line["event"] for line in body]

    def test_undying(self):
        """Several members, whose processes take their time: it is not waited for each, and nobody
        else waits for any."""
        holder, hold = self.holder()
        members = [self.make_cgroup(self.name("undying")) for _ in range(3)]
        for cgroup in members:
            process = self.start_in(cgroups.path_of(cgroup), "sleep", "1000")
            self.wait_in(cgroups.path_of(cgroup), process.pid)
            hold(process.pid)
        other = self.create({"network_policy": PUBLIC, "run_network_policy": NO_NETWORK})["name"]
        made = self.create(members=[{"cgroup": cgroup} for cgroup in members], attach=True)
        began = time.monotonic()
        connection = self.begin_destroy(made["name"])
        switch = listing = count = 0
        while not select.select([connection.sock], [], [], 0)[0]:
            at = time.monotonic()
            self.assertTrue(self.daemon.phase(other, ("run", "setup")[count % 2])["changed"])
            between = time.monotonic()
            listed = self.daemon.call("GET", "/v1/environments")["environments"]
            switch = max(switch, between - at)
            listing = max(listing, time.monotonic() - between)
            count += 1
        took = time.monotonic() - began
        print(f"beside a destroy of {took:.1f} s {count} switches of another Environment, at most"
              f" {switch * 1e3:.0f} ms, and lists, at most {listing * 1e3:.0f} ms", flush=True)
        self.assertEqual([one["name"] for one in listed], [other])
        reply = self.end_destroy(connection)
        self.assertEqual(reply.status, 500, reply)
        self.assertIn("still alive", reply["message"])
        self.assertLess(took, patient(1.5 * KILL_LIMIT_S))
        self.assertGreater(took, 0.9 * KILL_LIMIT_S)
        self.assertLess(max(switch, listing), patient(SILENCE_S))
        for cgroup in members:
            self.assertTrue(cgroups.processes(cgroups.path_of(cgroup)))
        holder.kill()
        self.wait_gone(f"{RECORDS}/{made['name']}")
        for cgroup in members:
            self.assertEqual(cgroups.processes(cgroups.path_of(cgroup)), [])

    def test_dying_later(self):
        """Its end is told when it has come, and not at the next try; until then everything is
        denied, and nobody can have it or its name."""
        name, holder, shared = self.undying()
        connection = self.begin_destroy(name)
        # The next try would be four seconds later.
        self.wait_tried(name, 3)
        with self.assertRaises(PermissionError):
            shared.send(b"x")
        for reply in (self.daemon.show(name), self.daemon.phase(name, "run"),
                      self.daemon.destroy(name)):
            self.assertCode(reply, "environment_not_found")
        self.assertCode(self.daemon.create(name, policy={}), "name_taken", "still being ended")
        self.assertNotIn("destroyed", self.events_of(name))
        began = time.monotonic()
        holder.kill()
        reply = self.end_destroy(connection)
        took = time.monotonic() - began
        self.assertEqual((reply.status, reply.body), (200, {"name": name, "destroyed": True}))
        print(f"answered {took * 1e3:.0f} ms after the last process could die", flush=True)
        self.assertLess(took, patient(1))
        self.assertEqual(self.events_of(name).count("destroyed"), 1)
        self.assertFalse(os.path.exists(f"{RECORDS}/{name}"))
        self.assertEqual(self.create(name=name)["name"], name)

    def test_client_that_leaves(self):
        name, holder, _ = self.undying()
        connection = self.begin_destroy(name)
        while self.daemon.show(name).status != 404:
            pass
        connection.close()
        self.wait_tried(name, 1)
        self.assertNotIn("destroyed", self.events_of(name))
        holder.kill()
        self.wait_gone(f"{RECORDS}/{name}")
        self.assertIn("destroyed", self.events_of(name))

    def test_killed_meanwhile(self):
        """What is left is denied everything, and the next agent ends it."""
        name, holder, shared = self.undying()
        self.begin_destroy(name)
        self.wait_tried(name, 1)
        self.daemon.kill()
        with self.assertRaises(PermissionError):
            shared.send(b"x")
        holder.kill()
        self.daemon.start()
        self.wait_gone(f"{RECORDS}/{name}")

    def test_stopped_meanwhile(self):
        """The request is answered, and keeps the agent from nothing."""
        name, holder, shared = self.undying()
        connection = self.begin_destroy(name)
        self.wait_tried(name, 1)
        began = time.monotonic()
        self.assertEqual(self.daemon.stop(), 0, self.daemon.output)
        self.assertLess(time.monotonic() - began, patient(KILL_LIMIT_S / 2))
        self.assertCode(self.end_destroy(connection), "stopping", "still alive")
        with self.assertRaises(PermissionError):
            shared.send(b"x")
        holder.kill()
        self.daemon.start()
        self.wait_gone(f"{RECORDS}/{name}")


if __name__ == "__main__":
    main()
