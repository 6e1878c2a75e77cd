#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Containers that are started in a cgroup made beforehand: the first thing that their first process
does is judged. It sends to a denied address before anything else, and to an allowed one after that;
the servers say what has arrived. Meanwhile a process of the host reaches what is denied to them.

PHASEGATE_STARTS is how often each runtime starts one; unless it is given, runc does so 100 times,
and Docker, which takes some half a second for each, 40 times.
"""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

import bundle
import cgroups
import dockerd
import vectors
from agentcase import AgentTest
from harness import main, token
from lab import A4, B4, D4
from phasegate import LIMIT, NO_NETWORK, allowlist
from recorder import PORT

STARTS = int(os.environ.get("PHASEGATE_STARTS", "0"))
TOGETHER = 4


def first(allowed, denied):
    """Words of PID 1: without a shell, and without a library that is loaded before them."""
    return ("/bin/probe", "socket 0 tcp4", f"connect 0 {D4} {PORT}", "socket 1 udp4",
            f"sendto 1 {D4} {PORT} {denied}", "socket 2 tcp4", f"connect 2 {B4} {PORT}",
            "socket 3 tcp4", f"connect 3 {A4} {PORT}", f"send 3 {allowed}", "shutdown 3", "recv 3")


def errors(output):
    return [json.loads(line)["errno"] for line in output.splitlines()]


# What first() prints.
CONFINED = ["", "EPERM", "", "EPERM", "", "EPERM", "", "", "", "", ""]


class StartsTest(AgentTest):
    POLICY = {"network_policy": allowlist(A4)}

    @contextlib.contextmanager
    def neighbour(self):
        """A process of the host that sends to B4 all the time; all of it arrives."""
        done, sent = threading.Event(), []

        def run():
            while not done.is_set():
                sent.append(token("host"))
                results.append(vectors.tcp(self.unconfined, B4, PORT, sent[-1])["errno"])
                done.wait(0.02)

        results = []
        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        self.assertEqual(set(results), {""})
        for one in sent:
            self.assertIsNotNone(self.recorder.wait(one))

    def start_many(self, count, start):
        """start(number, words) returns the output of a container whose first process has words."""
        marks = [(token(f"allowed-{number}"), token(f"denied-{number}"))
                 for number in range(STARTS or count)]
        with self.neighbour(), ThreadPoolExecutor(TOGETHER) as pool:
            outputs = list(pool.map(lambda number: start(number, first(*marks[number])),
                                    range(len(marks))))
        for number, (output, (allowed, denied)) in enumerate(zip(outputs, marks)):
            with self.subTest(number=number):
                self.assertEqual(errors(output), CONFINED)
                self.assertIsNotNone(self.recorder.wait(allowed))
                self.assertEqual(self.recorder.arrivals(denied), [])
        self.assert_silent(D4)

    def assert_nothing_left(self, made):
        self.assertEqual(self.daemon.destroy(made["name"], "kill").status, 200)
        self.daemon.names.discard(made["name"])
        for path in (cgroups.path_of(made["cgroup_parent"]), f"/run/phasegate/{made['name']}"):
            self.assertFalse(os.path.exists(path), path)


@unittest.skipUnless(shutil.which("runc") and shutil.which("busybox"), "needs runc and busybox")
class Runc(StartsTest):
    def bundle(self, cgroup):
        folder = tempfile.mkdtemp(prefix="pgt-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        bundle.make(folder, self.lab.client, cgroup, [], bundle.WITHOUT_RAW)
        return folder

    @staticmethod
    def runc(folder, *words, stdout=subprocess.PIPE):
        return subprocess.run(["runc", "--root", folder + "/state", *words], text=True,
                              stdin=subprocess.DEVNULL, stdout=stdout, stderr=stdout,
                              timeout=LIMIT, check=True).stdout

    def start(self, folder, words, *options, **more):
        path = folder + "/config.json"
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        config["process"]["args"] = list(words)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        return self.runc(folder, "run", "--bundle", folder, *options,
                         os.path.basename(config["linux"]["cgroupsPath"]), **more)

    def test_first_instruction(self):
        made = self.create(self.POLICY)
        folders = [self.bundle(f"{made['cgroup_parent']}/{self.name('first')}")
                   for _ in range(TOGETHER)]

        def start(_, words):
            folder = folders.pop()
            try:
                return self.start(folder, words)
            finally:
                folders.append(folder)

        self.start_many(100, start)
        self.assert_nothing_left(made)

    def test_exec(self):
        made = self.create(self.POLICY)
        folder = self.bundle(f"{made['cgroup_parent']}/{self.name('exec')}")
        self.start(folder, ["/bin/busybox", "sleep", "1000"], "--detach",
                   stdout=subprocess.DEVNULL)
        name = os.listdir(folder + "/state")[0]
        allowed, denied = token("exec"), token("exec-denied")
        self.assertEqual(errors(self.runc(folder, "exec", name, *first(allowed, denied))), CONFINED)
        self.assertIsNotNone(self.recorder.wait(allowed))
        self.assert_silent(D4)
        self.assert_nothing_left(made)
        self.runc(folder, "delete", "--force", name)


@unittest.skipUnless(dockerd.AVAILABLE, "needs dockerd, docker, containerd, runc and busybox")
class Docker(StartsTest):
    @classmethod
    def setUpClass(cls):
        cls.docker = dockerd.Dockerd()
        cls.addClassCleanup(cls.docker.close)
        cls.SETTINGS = {"docker_socket": cls.docker.socket,
                        "exposures": {"cap_net_admin": "ask"}}
        super().setUpClass()
        cls.docker.start(cls.lab)

    def inside(self, made, *options, words):
        """The output of a container whose parent is the Environment's cgroup."""
        return self.docker.call("run", "--rm", "--cgroup-parent", made["cgroup_parent"], *options,
                                dockerd.IMAGE, *words).stdout.decode()

    def container(self, made, *options, **more):
        name, _ = self.docker.run("--cgroup-parent", made["cgroup_parent"], *options, **more)
        self.addCleanup(self.docker.remove, name)
        return name

    def network(self):
        name = self.name("net")
        self.docker.call("network", "create", name)
        self.addCleanup(self.docker.call, "network", "rm", name, check=False)
        return name

    def test_first_instruction(self):
        """In each network that leads out."""
        made = self.create(self.POLICY)
        owner = self.container(made)
        networks = (("bridge",), (self.network(),), ("host", "--cap-drop", "NET_RAW"),
                    ("container:" + owner,))
        self.start_many(40, lambda number, words: self.inside(
            made, "--network", *networks[number % len(networks)], words=words))
        self.docker.remove(owner)
        self.assert_nothing_left(made)

    def test_no_network(self):
        made = self.create(self.POLICY)
        output = self.inside(made, "--network", "none", words=("/bin/probe", "socket 0 tcp4",
                             f"connect 0 {D4} {PORT}", f"connect 0 {A4} {PORT}"))
        self.assertEqual(errors(output), ["", "EPERM", "ENETUNREACH"])

    def test_namespaces_of_the_host(self):
        """What a container sees of cgroups and processes does not matter for what is judged."""
        made = self.create(self.POLICY)
        for options in (("--cgroupns", "host"), ("--pid", "host"), ("--ipc", "host"),
                        ("--cap-add", "NET_RAW"), ("--security-opt", "seccomp=unconfined")):
            with self.subTest(options=options):
                allowed = token("namespaces")
                self.assertEqual(errors(self.inside(made, *options, words=first(allowed, "x"))),
                                 CONFINED)
                self.assertIsNotNone(self.recorder.wait(allowed))
        self.assert_silent(D4)

    def test_exec(self):
        made = self.create(self.POLICY)
        name = self.container(made)
        allowed = token("exec")
        done = self.docker.call("exec", name, *first(allowed, "x"))
        self.assertEqual(errors(done.stdout.decode()), CONFINED)
        self.assertIsNotNone(self.recorder.wait(allowed))
        self.assert_silent(D4)

    def refused(self, *words):
        """Nothing of it is executed."""
        done = self.docker.call(*words, check=False)
        self.assertEqual((done.returncode, done.stdout), (137, b""), done.stderr)

    def test_rights(self):
        """With those that are refused nothing begins; what is there goes on."""
        made = self.create(self.POLICY)
        name = self.container(made)
        denied = token("rights-denied")
        for options in (("--cap-add", "NET_ADMIN"), ("--cap-add", "SYS_ADMIN", "--user", "1000"),
                        ("--cap-add", "SYS_PTRACE", "--pid", "host"),
                        ("--cap-add", "NET_RAW", "--network", "host")):
            with self.subTest(options=options):
                self.refused("run", "--rm", "--cgroup-parent", made["cgroup_parent"], *options,
                             dockerd.IMAGE, *first(denied, denied))
        shown = {one["id"] for one in self.daemon.show(made["name"])["exposures"]
                 if one.get("ended")}
        self.assertEqual(shown, {"cap_net_admin", "cap_sys_admin", "host_pid_ptrace",
                                 "unguarded_link"})
        self.assertEqual(self.recorder.arrivals(denied), [])
        done = self.docker.call("exec", name, *first(token("rights"), "x"))
        self.assertEqual(errors(done.stdout.decode()), CONFINED)
        made = self.create(self.POLICY, accept=["cap_net_admin"])
        self.assertEqual(errors(self.inside(made, "--cap-add", "NET_ADMIN",
                                            words=first(token("rights"), "x"))), CONFINED)

    def test_privileged_exec(self):
        made = self.create(self.POLICY)
        name = self.container(made)
        done = self.docker.call("exec", "--privileged", name, "true", check=False)
        if b"unable to apply caps" in done.stdout + done.stderr:
            self.skipTest("this machine grants no privileged processes")
        self.assertEqual(done.returncode, 137, done)
        self.assertTrue(self.daemon.show(made["name"])["exposures"][0]["ended"])

    def test_phases(self):
        made = self.create({"network_policy": allowlist(A4), "run_network_policy": allowlist(B4),
                            "verifier_network_policy": NO_NETWORK})
        agent = self.docker.probe(self.container(made))
        self.addCleanup(agent.close)
        for phase, allowed in (("setup", A4), ("run", B4), ("verifier", None), ("setup", A4)):
            with self.subTest(phase=phase):
                reply = self.daemon.phase(made["name"], phase, survivors="allow")
                self.assertEqual(reply.status, 200, reply)
                for address in (A4, B4, D4):
                    if address == allowed:
                        self.assert_reaches(agent, vectors.tcp, address, PORT)
                    else:
                        self.assert_denied(agent, vectors.tcp, address, PORT)
        self.assert_silent(D4)
        self.assert_nothing_left(made)

    def test_names_of_services(self):
        """Of a project that is started there: Docker's resolver is asked, in its network."""
        made = self.create({"network_policy": allowlist("db", A4)},
                           dns={"own_resolvers": ["127.0.0.11"]})
        self.assertEqual([w["code"] for w in made["warnings"]], ["environment_resolver"])
        self.assertCode(self.daemon.create(self.name(), policy={}, dns={"own_resolvers": ["db"]}),
                        "request_invalid", "nameserver")
        network = self.network()
        for name in ("db", "cache"):
            self.container(made, "--network", network, "--network-alias", name)
        web = self.container(made, "--network", network)
        known = self.docker.call("exec", web, "nslookup", "-type=a", "db", check=False)
        self.assertIn("172.31.", known.stdout.decode().split("Name:")[-1], known)
        unknown = self.docker.call("exec", web, "nslookup", "-type=a", "cache", check=False)
        self.assertIn("NXDOMAIN", unknown.stdout.decode() + unknown.stderr.decode())

    def test_restart(self):
        """Docker makes its cgroup anew below the same parent: the first thing is judged again."""
        made = self.create(self.POLICY)
        allowed, denied = token("restart"), token("restart-denied")
        name = self.container(made, words=first(allowed, denied))
        for number in range(1, 4):
            self.docker.call("wait", name)
            with self.subTest(number=number):
                self.assertEqual(errors(self.docker.call("logs", name).stdout.decode()),
                                 CONFINED * number)
            self.docker.call("restart", name)
        self.assertGreaterEqual(len(self.recorder.arrivals(allowed)), 3)
        self.assertEqual(self.recorder.arrivals(denied), [])
        self.assert_silent(D4)

    def test_outlives_its_environment(self):
        """Neither what is left of it nor what is started there later has a network."""
        made = self.create(self.POLICY)
        name = self.container(made, words=first(token("late"), "x"))
        self.docker.call("wait", name)
        self.assertEqual(self.daemon.destroy(made["name"], "kill").status, 200)
        self.daemon.names.discard(made["name"])
        self.docker.call("start", name)
        self.docker.call("wait", name)
        self.addCleanup(cgroups.remove, cgroups.path_of(made["cgroup_parent"]), "cgroup2")
        output = errors(self.docker.call("logs", name).stdout.decode())
        self.assertEqual(output[:len(CONFINED)], CONFINED)
        self.assertEqual(set(output[len(CONFINED) + 1::2][:4]), {"EPERM"})
        self.assert_silent(D4)


if __name__ == "__main__":
    main()
