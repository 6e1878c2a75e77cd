#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is not for a machine on which others work: records and pins of its own. Another process has
the lock; what cannot be adopted; and one Environment that is switched a thousand times beside
another."""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import threading
import time

import cgroups
from agentcase import AgentTest
from daemon import BUSY_LIMIT, Daemon, directory_of, start_in
from harness import main, patient
from keeper import RECORDS, isolate
from lab import A4, B4, D4
from phasegate import NO_NETWORK, PROBE, PUBLIC, allowlist
from recorder import PORT
from storm import SENDER

POLICY = {"network_policy": allowlist(A4), "run_network_policy": NO_NETWORK}
CHURNS = int(os.environ.get("PHASEGATE_CHURNS", "1000"))
BUSY_LIMIT_S = 15


class Alone(AgentTest):
    def probe(self, directory, address):
        """The errno's name of a connection from inside; "" if it was made."""
        process = self.start_in(directory, *self.lab.client.command(
            PROBE, "socket 1 tcp4", f"connect 1 {address} {PORT}"), stdout=subprocess.PIPE)
        output, _ = process.communicate()
        return json.loads(output.splitlines()[-1])["errno"]

    def test_busy(self):
        """Another process that is stopped with the lock keeps nobody waiting for long."""
        made = self.create(POLICY, name="a.b")
        self.assertEqual(self.probe(directory_of(made), A4), "")
        lock = os.open(RECORDS, os.O_RDONLY)
        self.addCleanup(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        for request in (("POST", "/v1/environments", {"name": "c", "policy": POLICY}),
                        ("DELETE", "/v1/environments/a.b?processes=kill")):
            began = time.monotonic()
            reply = self.daemon.call(*request)
            self.assertCode(reply, "busy", "holds the lock")
            self.assertLess(time.monotonic() - began, patient(BUSY_LIMIT_S))
        self.assertEqual(self.probe(directory_of(made), A4), "")
        self.assertEqual(self.daemon.phase("a.b", "run")["generation"], 2)
        self.assertEqual(self.daemon.phase("a.b", "setup")["generation"], 3)
        fcntl.flock(lock, fcntl.LOCK_UN)
        self.assertEqual(self.daemon.create("c", policy=POLICY).status, 201)
        self.assertEqual(self.daemon.destroy("a.b").status, 200)

    def test_locks_that_outlive_the_agent(self):
        """As those of its children do, which die a moment later."""
        made = self.create(POLICY)
        paths = (self.daemon.pins, f"{RECORDS}/{made['name']}")
        locks = [os.open(path, os.O_RDONLY) for path in paths]
        self.daemon.kill()
        for lock in locks:
            fcntl.flock(lock, fcntl.LOCK_EX)
        self.daemon.start(wait=False)
        for path, lock in zip(paths, locks):
            self.wait_waiting(path)
            os.close(lock)
        self.wait_serving()
        self.assertEqual(self.daemon.show(made["name"])["generation"], 1)

    def has_open(self, path):
        """Whether the agent has a descriptor of it."""
        directory = f"/proc/{self.daemon.process.pid}/fd"
        for number in os.listdir(directory):
            with contextlib.suppress(FileNotFoundError):
                if os.path.samefile(f"{directory}/{number}", path):
                    return True
        return False

    def wait_waiting(self, path):
        """Until the agent waits for the lock of the directory: what it does not wait for it closes
        at once."""
        deadline, seen = time.monotonic() + BUSY_LIMIT, 0
        while seen < 5:
            seen = seen + 1 if self.has_open(path) else 0
            self.assertIsNone(self.daemon.process.poll(), self.daemon.output)
            self.assertLess(time.monotonic(), deadline, self.daemon.output)
            time.sleep(0.02)

    def wait_serving(self):
        for _ in range(1000):
            try:
                return self.daemon.call("GET", "/v1/environments")
            except OSError:
                time.sleep(0.02)
        self.fail(self.daemon.output)

    def test_names_with_dots(self):
        """Pins cannot have one in their names."""
        made = self.create(POLICY, name="v1.2.x-a")
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(self.daemon.show("v1.2.x-a")["generation"], 1)
        self.assertEqual(self.probe(directory_of(made), D4), "EPERM")
        self.assertEqual(self.daemon.destroy("v1.2.x-a").status, 200)
        self.assertFalse(os.path.exists(f"{RECORDS}/v1.2.x-a"))

    def test_damaged(self):
        """One that cannot be adopted is denied everything; the others are, and it can be ended."""
        made = self.create({"network_policy": allowlist(B4),
                            "run_network_policy": allowlist(A4, B4)})
        other = self.create(POLICY)
        directory = directory_of(made)
        self.daemon.kill()
        # Those of earlier tests may still be there; the next start empties them.
        self.assertGreaterEqual(self.slots(), 3)
        path = f"{RECORDS}/{made['name']}/state.json"
        with open(path, encoding="utf-8") as file:
            state = json.load(file)
        # That of the run, after that of the setup.
        state["banks"][0][1]["set_id"] ^= 1 << 30
        with open(path, "w", encoding="utf-8") as file:
            json.dump(state, file)
        self.daemon.start()
        self.assertCode(self.daemon.show(made["name"]), "environment_not_found")
        self.assertEqual(self.probe(directory, B4), "EPERM")
        self.assertIn(f"{made['name']} cannot be adopted", self.daemon.output)
        self.assertEqual(self.slots(), 1, "what it had is not let go")
        self.assertEqual(self.probe(directory_of(other), A4), "")
        self.daemon.kill()
        cgroups.remove(directory, "cgroup2")
        self.daemon.start()
        self.assertFalse(os.path.exists(f"{RECORDS}/{made['name']}"))
        self.assertEqual(self.daemon.show(other["name"])["generation"], 1)

    def test_record_removed(self):
        """Somebody has removed what says which cgroups it has: it is not forgotten, but denied
        everything, and its name is not given to another."""
        made, other = self.create(POLICY), self.create(POLICY)
        directory, record = directory_of(made), f"{RECORDS}/{made['name']}"
        self.assertEqual(self.probe(directory, A4), "")
        self.daemon.kill()
        os.unlink(f"{record}/environment")
        for _ in range(2):
            # A child of the killed agent's may be about to die.
            lock = os.open(record, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.daemon.start(wait=False)
            self.wait_waiting(record)
            os.close(lock)
            self.wait_serving()
            self.assertEqual(self.probe(directory, A4), "EPERM")
            self.assertEqual(self.probe(directory_of(other), A4), "")
            self.assertIn(f"-inum {os.stat(directory).st_ino})", self.daemon.output)
            self.assertTrue(os.path.exists(f"{record}/state.json"))
            self.assertGreaterEqual(self.daemon.create(made["name"], policy={}).status, 400)
            self.daemon.kill()
        # As the message says.
        cgroups.remove(directory, "cgroup2")
        shutil.rmtree(record)
        self.daemon.start()
        self.assertEqual(self.daemon.create(made["name"], policy={}).status, 201)

    def test_record_removed_and_state_changed(self):
        """Not even the numbers of its cgroups are known: it is denied everything all the same."""
        members = [self.make_cgroup(self.name("given")) for _ in range(2)]
        made = self.create({"network_policy": PUBLIC},
                           members=[{"cgroup": cgroup} for cgroup in members])
        other = self.create(POLICY)
        directories = [cgroups.path_of(cgroup) for cgroup in members]
        one, two = (os.stat(directory).st_ino for directory in directories)
        record = f"{RECORDS}/{made['name']}"
        self.assertEqual(self.probe(directories[0], A4), "")
        self.daemon.kill()
        os.unlink(f"{record}/environment")
        with open(f"{record}/state.json", encoding="utf-8") as file:
            state = json.load(file)
        for numbers, advice in (((0, 0), "bpftool cgroup tree /"), ((0, two), f" -inum {two})"),
                                ((one, two), f" -inum {one} -o -inum {two})")):
            with open(f"{record}/state.json", "w", encoding="utf-8") as file:
                json.dump({**state, "members": list(map(str, numbers))}, file)
            said = len(self.daemon.output)
            self.daemon.start()
            for directory in directories:
                self.assertEqual(self.probe(directory, A4), "EPERM")
            self.assertEqual(self.probe(directory_of(other), A4), "")
            self.assertIn(advice, self.daemon.output[said:])
            self.assertNotIn("-inum 0", self.daemon.output[said:])
            self.daemon.kill()
        for directory in directories:
            os.rmdir(directory)
        shutil.rmtree(record)
        self.daemon.start()
        self.assertEqual(self.daemon.create(made["name"], policy={}).status, 201)

    def test_unwritten(self):
        """What had not been made is removed, unless its state cannot be read."""
        self.create(POLICY)
        self.daemon.kill()
        for name, text in (("nothing", None), ("unreadable", "{")):
            os.mkdir(f"{RECORDS}/pgt-{name}", mode=0o700)
            if text:
                with open(f"{RECORDS}/pgt-{name}/state.json", "w", encoding="utf-8") as file:
                    file.write(text)
        self.daemon.start()
        self.assertFalse(os.path.exists(f"{RECORDS}/pgt-nothing"))
        self.assertTrue(os.path.exists(f"{RECORDS}/pgt-unreadable/state.json"))
        self.assertIn(f"{RECORDS}/pgt-unreadable is left as it is", self.daemon.output)
        shutil.rmtree(f"{RECORDS}/pgt-unreadable")

    def slots(self):
        """How many of them have a set."""
        maps, = (name for name in os.listdir(self.daemon.pins) if name.startswith("+maps-"))
        dump = subprocess.run(
            ["bpftool", "-j", "map", "dump", "pinned", f"{self.daemon.pins}/{maps}/pg_slots"],
            stdout=subprocess.PIPE, check=True).stdout
        return sum(one["formatted"]["value"]["set_id"] != 0 for one in json.loads(dump))

    def test_abandoned(self):
        """Nobody's, since the pins of its agent are gone: confined while there is anybody."""
        other = Daemon(self.lab)
        name = self.name()
        directory = directory_of(other.create(name, policy=POLICY))
        process = start_in(directory, "sleep", "1000")
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.wait_in(directory, process.pid)
        other.kill()
        for folder in os.listdir(other.pins):
            shutil.rmtree(f"{other.pins}/{folder}", ignore_errors=True)
        shutil.rmtree(other.pins)
        self.daemon.kill()
        self.daemon.start()
        self.assertIn(f"{name} stays confined, but nobody can adopt it", self.daemon.output)
        self.assertEqual(self.probe(directory, D4), "EPERM")
        process.kill()
        process.wait()
        self.assertTrue(cgroups.wait_empty(directory))
        self.daemon.kill()
        self.daemon.start()
        self.assertFalse(os.path.exists(f"{RECORDS}/{name}"))
        self.assertFalse(os.path.exists(directory))
        other.directory.cleanup()
        other.log.close()

    def test_churn(self):
        """One is switched to public and back; another's verdicts are what they are, all the
        time."""
        quiet = self.create({"network_policy": allowlist(A4)})
        churned = self.create({"network_policy": PUBLIC, "run_network_policy": allowlist(B4)})
        mark = f"quiet-{os.getpid()}"
        self.start_in(directory_of(quiet), *self.lab.client.command(
            SENDER, "plain", mark, "1000", A4, str(PORT), B4, str(PORT), D4, str(PORT)))
        self.assertIsNotNone(self.recorder.wait(mark))
        refused, ending = [], threading.Event()

        def watch():
            while not ending.is_set():
                for address, wanted in ((A4, ""), (B4, "EPERM"), (D4, "EPERM")):
                    got = self.probe(directory_of(quiet), address)
                    if got != wanted:
                        refused.append((address, got))

        watcher = threading.Thread(target=watch)
        watcher.start()
        times, packets = [], 0
        try:
            for number in range(CHURNS):
                phase = ("run", "setup")[number % 2]
                reply = self.daemon.phase(churned["name"], phase, survivors="allow")
                self.assertEqual((reply.status, reply["generation"]), (200, number + 2), reply)
                times.append(reply["took_us"])
                if number % 100 == 99:
                    came = [p for p in self.capture.drain() if mark.encode() in p.payload]
                    packets += len(came)
                    self.assertEqual([p for p in came if p.destination != A4], [])
        finally:
            ending.set()
            watcher.join()
        self.assertEqual(refused, [])
        self.assertEqual(self.daemon.show(quiet["name"])["generation"], 1)
        came = [p for p in self.fence() if mark.encode() in p.payload]
        self.assertEqual([p for p in came if p.destination != A4], [])
        times.sort()
        print(f"{CHURNS} switches, the write {times[len(times) // 2]:.1f} us in the middle,"
              f" {times[-1]:.1f} us at most; {packets + len(came)} packets of the other", flush=True)
        self.assertGreater(packets + len(came), CHURNS // 10)


if __name__ == "__main__":
    isolate()
    main()
