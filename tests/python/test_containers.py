#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same as test_tasks.py with containers of Docker: a harness that starts a container for each
task lets the provider confine it and run the task's commands in it by `docker exec`."""

import json
import os
import subprocess
import time
import unittest

import vectors
from dockerd import AVAILABLE, Dockerd
from harness import main, token
from harnesscase import HarnessTest
from lab import A4, B4, D4
from phasegate import LIMIT, NO_NETWORK, allowlist
from recorder import PORT

TASKS = 32
# Busybox, as the image has it. A datagram of a detached process: it has no end by itself.
SEND = """
send() { if printf %%s "$2" | busybox nc -w 5 $1 %d >/dev/null 2>&1
         then echo "$1 open"; else echo "$1 denied"; fi; }
""" % PORT
SENDER = """
(busybox setsid sh -c 'while :; do printf %%s "%s" | busybox nc -w 5 %s %d; echo >>/shared/%s
 busybox usleep 10000; done' </dev/null >/dev/null 2>&1 &)
"""


def shell(*lines):
    return ["sh", "-c", SEND + "\n".join(lines)]


def send(host, mark):
    return f'send {host} "{mark}"'


@unittest.skipUnless(AVAILABLE, "needs dockerd, docker, containerd, runc and busybox")
class Containers(HarnessTest):
    @classmethod
    def setUpClass(cls):
        cls.docker = Dockerd()
        cls.addClassCleanup(cls.docker.close)
        cls.SETTINGS = {"docker_socket": cls.docker.socket, "podman_socket": "/nonexistent",
                        "containerd_state": cls.docker.containerd}
        cls.ENVIRONMENT = {"DOCKER_HOST": "unix://" + cls.docker.socket}
        super().setUpClass()
        cls.docker.start(cls.lab)

    def container(self):
        """One that runs, with the test's directory in it."""
        name, _ = self.docker.run("--volume", f"{self.daemon.directory.name}:/shared")
        self.addCleanup(self.docker.remove, name)
        return name

    def task(self, number):
        """Even and odd ones have opposite runs."""
        near, far = (A4, D4) if number % 2 == 0 else (D4, A4)
        marks = {what: token(f"{number}-{what}") for what in (
            "setup", "setup-no", "run", "run-no", "late", "verify-no")}
        return {"near": near, "far": far, **marks}, {
            "name": self.name(f"box{number}"), "container": self.container(),
            "network_policy": allowlist(B4), "run_network_policy": allowlist(near),
            "verifier_network_policy": NO_NETWORK,
            "setup": shell(send(B4, marks["setup"]), send(near, marks["setup-no"])),
            "run": shell(send(near, marks["run"]), send(far, marks["run-no"]),
                         SENDER % (marks["late"], B4, PORT, f"late-{number}")),
            "verify": shell(send(near, marks["verify-no"]), send(B4, marks["verify-no"]))}

    def test_many_at_once(self):
        known, tasks = zip(*(self.task(number) for number in range(TASKS)))
        began = time.monotonic()
        results = self.run_tasks(*tasks)
        print(f"{TASKS} tasks in {time.monotonic() - began:.1f} s", flush=True)
        self.fence()
        for about, task in zip(known, tasks):
            result, near, far = results[task["name"]], about["near"], about["far"]
            with self.subTest(task=task["name"]):
                self.assertNotIn("error", result)
                outputs = [result[phase]["output"].split("\n")[:-1]
                           for phase in ("setup", "run", "verify")]
                self.assertEqual(outputs, [[f"{B4} open", f"{near} denied"],
                                           [f"{near} open", f"{far} denied"],
                                           [f"{near} denied", f"{B4} denied"]])
                self.assertSeen(B4, about["setup"])
                self.assertSeen(near, about["run"])
                for denied in ("setup-no", "run-no", "late", "verify-no"):
                    self.assertNotSeen(about[denied])
        self.assertNothingLeft()

    def test_time_out_and_separate_verifier(self):
        """What goes on in the container is gone before its setup's host is open again, and the
        verifier's container has the verifier's policy."""
        run, late, verify = token("run"), token("late"), token("verify")
        task = {"name": self.name("slow"), "container": self.container(), "run_timeout": 4,
                "verifier": "new", "verifier_container": self.container(),
                "network_policy": allowlist(B4), "run_network_policy": allowlist(A4),
                "verifier_network_policy": allowlist(D4),
                "run": shell(send(A4, run), SENDER % (late, B4, PORT, "late"), "sleep 1000"),
                "verify": shell(send(D4, verify), send(A4, verify))}
        result = self.run_tasks(task)[task["name"]]
        self.assertIsNone(result["run"]["status"], result)
        self.assertEqual(result["verify"], {"status": 0, "output": f"{D4} open\n{A4} denied\n"})
        self.fence()
        self.assertSeen(A4, run)
        self.assertSeen(D4, verify)
        self.assertGreater(self.attempts(self.path("late")), 10)
        self.assertNotSeen(late)
        self.assertNothingLeft()

    def test_sidecar(self):
        """One policy after another, with nothing set in the container, which ends with it."""
        container = self.container()
        agent = self.docker.probe(container)
        self.addCleanup(agent.close)
        name = self.name("sidecar")
        self.daemon.names.add(name)
        process = self.harness("sidecar", name, json.dumps([{"container": container}]),
                               stdin=subprocess.PIPE)

        def do(*words):
            process.stdin.write(json.dumps(words) + "\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), "done\n")

        def deny(host):
            self.assertEqual(vectors.tcp(agent, host, PORT, token("no"))["errno"], "EPERM")

        do("start", "allowlist", [A4])
        self.assert_reaches(agent, vectors.tcp, A4, PORT)
        deny(D4)
        self.assert_silent(D4)
        do("set_policy", "no-network")
        deny(A4)
        self.assert_silent(A4, D4)
        do("set_policy", "allowlist", [D4])
        self.assert_reaches(agent, vectors.tcp, D4, PORT)
        do("stop")
        self.docker.call("wait", container)
        self.assertNothingLeft()

    def test_harness_is_killed(self):
        name, mark, container = self.name("crash"), token("crash"), self.container()
        self.daemon.names.add(name)
        create = json.dumps({"name": name, "members": [{"container": container}], "policy": {
            "network_policy": allowlist(B4), "run_network_policy": allowlist(A4)}})
        cursor = self.daemon.call("GET", "/v1/events?cursor=now").body[-1]["cursor"]
        process = self.harness("hold", create, "3", "docker", "exec", container,
                               *shell(SENDER % (mark, A4, PORT, "crash")))
        self.assertTrue(process.stdout.readline())
        self.assertSeen(A4, mark)
        process.kill()
        process.wait(LIMIT)
        self.assertTrue(self.event(cursor, "lease_over", name)["denied"])
        self.fence()
        self.recorder.forget()
        self.wait_counted(self.path("crash"))
        self.fence()
        self.assertNotSeen(mark)
        self.assertTrue(os.path.exists(self.path("crash")))


if __name__ == "__main__":
    main()
