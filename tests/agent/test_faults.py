# SPDX-License-Identifier: Apache-2.0
"""Each of the agent's requests to the kernel fails once, one after the other, for want of memory
(faults.c): what is told then says what could not be done, nothing is left of it, and the same
request works the next time."""

import contextlib
import ctypes
import errno
import mmap
import os
import random
import subprocess
import sys
import tempfile
import time

import cgroups
from agentcase import AgentTest
from harness import main
from lab import A4, B4, D4, Namespace
from left import descriptors, left, settle
from phasegate import NO_NETWORK, PUBLIC, allowlist, dying_with_us, started
from recorder import PORT

HEADLESS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "headless.py")
LIBRARY = os.environ.get("PHASEGATE_FAULTS_LIBRARY", "")
POLICY = {"network_policy": PUBLIC, "run_network_policy": allowlist(A4, "10.0.0.0/8"),
          "verifier_network_policy": NO_NETWORK}
OTHER = {"network_policy": PUBLIC, "run_network_policy": allowlist(A4, B4, D4),
         "verifier_network_policy": NO_NETWORK}
# More than any request needs; each takes about ten milliseconds.
CALLS_MAX = 2000
# What is made once and kept, and what may be on its way while it is counted.
KEPT_MAX = 16
# What a message of a failure is more than: the text of the error.
ERROR = os.strerror(errno.ENOMEM)


class Faults(ctypes.Structure):
    """As struct faults of faults.c."""
    _fields_ = [("countdown", ctypes.c_int32), ("error", ctypes.c_int32),
                ("failed", ctypes.c_int32), ("what", ctypes.c_char * 64)]


class FaultTest(AgentTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        file = tempfile.NamedTemporaryFile(prefix="pgt-faults-")
        cls.addClassCleanup(file.close)
        file.truncate(ctypes.sizeof(Faults))
        cls.map = mmap.mmap(file.fileno(), ctypes.sizeof(Faults))
        cls.faults = Faults.from_buffer(cls.map)
        sanitizer = f"{os.environ.get('ASAN_OPTIONS', '')}:verify_asan_link_order=0"
        cls.environment = {"LD_PRELOAD": LIBRARY, "PHASEGATE_FAULTS": file.name,
                           "ASAN_OPTIONS": sanitizer}
        cls.daemon.stop()
        cls.daemon.start(environment=cls.environment)
        cls.prefix = f"pgt-fault-{os.getpid()}-"
        cls.at_first = left(cls.daemon, cls.prefix)
        cls.open_at_first = descriptors(cls.daemon)

    def made(self, policy=None, **body):
        return self.create(policy or POLICY, name=self.name("fault"), **body)

    def failing(self, number, act):
        """The reply of act(), of whose requests the one with the number fails; and which it was,
        or None if there were fewer."""
        self.faults.error, self.faults.failed = errno.ENOMEM, 0
        self.faults.countdown = number
        reply = act()
        self.faults.countdown = 0
        return reply, self.faults.what.decode() if self.faults.failed else None

    def each(self, act, then, step=1):
        """act() with each of its requests failing in turn, or one of as many as the step. Then the
        reply and what has failed are given to then(), which puts everything back in order."""
        told, works = {}, 0
        for number in range(random.randint(1, step), CALLS_MAX, step):
            reply, what = self.failing(number, act)
            with self.subTest(number=number, what=what):
                if reply.status < 300:
                    works += 1
                else:
                    self.assertGreaterEqual(reply.status, 500, reply)
                    message = reply["message"]
                    told.setdefault(f"{what}: {message}", number)
                    self.assertNotEqual(message.strip(), ERROR)
                    # What could not be done, and why.
                    self.assertIn(ERROR, message)
                    self.assertGreater(len(message), len(ERROR) + 10, message)
                then(reply, what)
            if what is None:
                break
        print(f"{self.id()}: {number} requests, {works} without an effect on the reply; told:",
              *sorted(told), sep="\n    ", flush=True)
        self.assertLess(number, CALLS_MAX - 1)
        self.assertGreater(number, step)

    def gone(self):
        settle(self, self.daemon, self.prefix, self.at_first, self.open_at_first + KEPT_MAX)

    def assertDestroyed(self, name):
        reply = self.daemon.destroy(name)
        self.assertEqual(reply.status, 200, reply)

    def each_create(self, step=1, **body):
        name = self.name("fault")

        def act():
            return self.daemon.create(name, policy=POLICY, **body)

        def then(reply, what):
            if reply.status >= 300:
                self.assertEqual(self.daemon.show(name).status, 404)
                again = act()
                self.assertEqual(again.status, 201, again)
            self.assertDestroyed(name)

        self.each(act, then, step)
        self.gone()


class Plain(FaultTest):
    def test_create(self):
        self.each_create()

    def test_create_of_members(self):
        """The second is undone with the first; of the requests for each some will do."""
        self.each_create(step=4, members=[{"cgroup": self.make_cgroup(self.name("m"))}
                                          for _ in range(2)])

    def test_update(self):
        made = self.made()
        policies = [OTHER, POLICY]

        def act():
            return self.daemon.call("PUT", f"/v1/environments/{made['name']}/policy",
                                    {"policy": policies[0]})

        def then(reply, what):
            if reply.status >= 300:
                again = act()
                self.assertEqual(again.status, 200, again)
            policies.reverse()

        self.each(act, then)
        self.assertDestroyed(made["name"])
        self.gone()

    def test_destroy(self):
        """What fails is done once more."""
        made = [self.made()]

        def then(reply, what):
            self.assertEqual(reply.status, 200)
            self.assertEqual(self.daemon.show(made[0]["name"]).status, 404)
            made[0] = self.made()

        self.each(lambda: self.daemon.destroy(made[0]["name"]), then)
        self.assertDestroyed(made[0]["name"])
        self.gone()


class Joined(AgentTest):
    """A cgroup, and a namespace with a veth, without a process as yet."""

    def setUp(self):
        super().setUp()
        self.namespace = Namespace()
        self.addCleanup(self.namespace.close)
        self.lab.client.ip(f"link add faulty type veth peer name eth7 netns {self.namespace.path}")
        self.addCleanup(subprocess.run, self.lab.client.command("ip", "link", "del", "faulty"),
                        stderr=subprocess.DEVNULL)
        self.cgroup = self.make_cgroup(self.name("box"))

    def start(self):
        directory = cgroups.path_of(self.cgroup)
        script = 'echo $$ >"$0/cgroup.procs" && exec sleep 1000'
        process = subprocess.Popen(dying_with_us(
            *self.namespace.command("sh", "-c", script, directory)))
        started.add(process.pid)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.wait_in(directory, process.pid)


class Linked(Joined, FaultTest):
    """A member in a namespace of its own, with a veth that has a guard."""

    def setUp(self):
        super().setUp()
        self.start()

    def test_attach(self):
        name = self.name("fault")
        unguarded = 0

        def act():
            return self.daemon.create(name, policy={"network_policy": NO_NETWORK}, attach=True,
                                      members=[{"cgroup": self.cgroup}])

        def then(reply, what):
            nonlocal unguarded
            if reply.status >= 300:
                again = act()
                self.assertEqual(again.status, 201, again)
            links = self.daemon.show(name)["links"]
            self.assertEqual([link["device"] for link in links], ["eth7"])
            unguarded += links[0]["guard"] != "on"
            reply = self.daemon.destroy(name, "release")
            self.assertEqual(reply.status, 200, reply)

        self.each(act, then)
        print(f"not guarded at once: {unguarded}", flush=True)
        self.gone()


class Watched(Joined):
    """A member's first process, which sends nothing."""

    def quiet(self):
        """Whether the agent has done nothing for longer than it lets pass between two looks."""
        with open(f"/proc/{self.daemon.process.pid}/status", encoding="ascii") as file:
            switches = [line for line in file if line.startswith("voluntary")]
        if switches != self.switches:
            self.switches, self.since = switches, time.monotonic()
        return time.monotonic() - self.since > 0.5

    def wait_for(self, condition, about):
        deadline = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), deadline, about)
            time.sleep(0.02)

    def files(self):
        """Those of cgroups that it has open."""
        directory, found = f"/proc/{self.daemon.process.pid}/fd", []
        for fd in os.listdir(directory):
            with contextlib.suppress(FileNotFoundError):
                found.append(os.readlink(f"{directory}/{fd}"))
        return [target for target in found if target.endswith("/cgroup.events")]

    def assertHeard(self, files):
        before = self.create()
        made = self.create({"network_policy": NO_NETWORK}, members=[{"cgroup": self.cgroup}])
        self.create()
        self.daemon.destroy(before["name"])
        self.assertEqual(len(self.files()), 2 * files)
        self.switches = None
        self.wait_for(self.quiet, "it looks on and on")
        self.assertEqual(self.daemon.show(made["name"])["links"], [])
        self.start()
        self.wait_for(lambda: [link["guard"] for link in self.daemon.show(made["name"])["links"]]
                      == ["on"], "no guard")

    def test_inotify(self):
        self.assertHeard(0)

    def test_without_inotify(self):
        sanitizer = f"{os.environ.get('ASAN_OPTIONS', '')}:verify_asan_link_order=0"
        self.daemon.stop()
        self.daemon.start(environment={"LD_PRELOAD": LIBRARY, "PHASEGATE_FAULTS_INOTIFY": "1",
                                       "ASAN_OPTIONS": sanitizer})
        self.assertHeard(1)


class OlderKernel(AgentTest):
    """Before Linux 6.9 there is no descriptor of a thread."""

    def test_of_a_process_without_its_first_thread(self):
        """Its datagram sockets may not answer, but it is attached to like others."""
        sanitizer = f"{os.environ.get('ASAN_OPTIONS', '')}:verify_asan_link_order=0"
        self.daemon.stop()
        self.daemon.start(environment={"LD_PRELOAD": LIBRARY, "PHASEGATE_FAULTS_THREADS": "1",
                                       "ASAN_OPTIONS": sanitizer})
        cgroup = self.make_cgroup(self.name("box"))
        process = self.start_in(cgroups.path_of(cgroup), *self.lab.client.command(
            sys.executable, HEADLESS, D4, str(PORT)), stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.create({"network_policy": NO_NETWORK}, members=[{"cgroup": cgroup}], attach=True)
        self.assertEqual(process.stdout.readline(), f"{errno.ECONNABORTED}\n")


if __name__ == "__main__":
    main()
