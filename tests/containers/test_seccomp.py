#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles of `phasegate seccomp` in real containers. Each is made of the one that the runtime gave
a container of its own accord, and each refusal has that container for its control."""

import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import bundle
import cgroups
import dockerd
import podman
from harness import LabTest, main
from phasegate import BINARY, LIMIT

LOOK = os.environ["PHASEGATE_LOOK"]
INSTALLED = "/usr/share/containers/seccomp.json"
SIGSYS = 31
SOCKETS = ("unix", "inet", "inet6", "netlink", "raw")
REFUSED = {"packet": "EAFNOSUPPORT", "packet-dgram": "EAFNOSUPPORT", "vsock": "EAFNOSUPPORT",
           "xdp": "EAFNOSUPPORT", "alg": "EAFNOSUPPORT", "sock-packet": "EAFNOSUPPORT",
           "bpf": "EPERM",
           "io_uring_setup": "EPERM", "io_uring_enter": "EPERM", "io_uring_register": "EPERM",
           "request_key": "EPERM"}


def load_verdict():
    spec = importlib.util.spec_from_file_location("verdict", os.environ["PHASEGATE_VERDICT"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Seccomp(LabTest):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="pgt-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def restrict(self, base):
        """The path of the profile that is made of the file."""
        done = subprocess.run([BINARY, "seccomp", base], stdout=subprocess.PIPE, check=True,
                              timeout=LIMIT)
        path = self.folder + "/profile.json"
        with open(path, "wb") as file:
            file.write(done.stdout)
        return path

    def assert_restricted(self, output, before):
        seen = json.loads(output)
        for name, errno in REFUSED.items():
            self.assertEqual(seen[name], errno, name)
        for name in SOCKETS:
            self.assertEqual(seen[name], "", name)
        for name in ("getppid", "unshare", "mount"):
            self.assertEqual(seen[name], before[name], name)

    def assert_within(self, base, made, extra=frozenset()):
        """Of the two configurations that a runtime came to: no call is allowed that was not."""
        verdict = load_verdict()
        configurations = []
        for path in (base, made):
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
            configurations.append(document["linux"]["seccomp"] if "linux" in document
                                  else document)
        calls = {name for one in configurations for rule in one["syscalls"]
                 for name in verdict.names(rule)}
        self.assertGreater(len(calls), 300)
        for call in calls:
            for first in (*range(46), 1 << 17, 1 << 28, 0x7E020000):
                arguments = (first, 1, 0, 0, 0, 0)
                before, after = (verdict.permits(one, call, arguments) for one in configurations)
                self.assertLessEqual(after, before, (call, first))
                if call not in (*REFUSED, "socket", "socketpair", "socketcall"):
                    self.assertEqual(after, before, (call, first))

    @unittest.skipUnless(dockerd.AVAILABLE, "needs docker, containerd, runc and busybox")
    def test_docker(self):
        docker = dockerd.Dockerd()
        self.addCleanup(docker.close)
        docker.start(self.lab)
        words = ("--volume", LOOK + ":/bin/look:ro")

        def config(identity):
            return (f"{docker.containerd}/io.containerd.runtime.v2.task/moby/{identity}"
                    "/config.json")

        first, identity = docker.run(*words)
        before = json.loads(docker.call("exec", first, "/bin/look").stdout)
        self.assertEqual(before["packet"], "", "Docker gives NET_RAW")
        profile = self.restrict(config(identity))
        second, other = docker.run(*words, "--security-opt", "seccomp=" + profile)
        self.assert_restricted(docker.call("exec", second, "/bin/look").stdout, before)
        self.assert_within(config(identity), config(other))
        # 32-bit programs, whose sockets no filter tells apart.
        self.assertEqual(docker.call("exec", first, "/bin/look", "32").returncode, 0)
        done = docker.call("exec", second, "/bin/look", "32", check=False)
        self.assertEqual(done.returncode, 128 + SIGSYS, done.stderr)

    @unittest.skipUnless(podman.AVAILABLE and os.path.exists(INSTALLED),
                         "needs podman, its profile, conmon, runc and busybox")
    def test_podman(self):
        pod = podman.Podman()
        self.addCleanup(pod.close)
        pod.start(self.lab)
        words = ("--volume", LOOK + ":/bin/look:ro", "--cap-add", "NET_RAW")
        name, _ = pod.run(*words)
        before = json.loads(pod.call("exec", name, "/bin/look").stdout)
        self.assertEqual(before["packet"], "")
        name, _ = pod.run(*words, "--security-opt", "seccomp=" + self.restrict(INSTALLED))
        self.assert_restricted(pod.call("exec", name, "/bin/look").stdout, before)

    @unittest.skipUnless(shutil.which("runc") and shutil.which("busybox"),
                         "needs runc and busybox")
    def test_runc(self):
        """runc gives none, so one that allows all else is as strong as its own."""
        profiles = (None, self.restrict(self.write({"defaultAction": "SCMP_ACT_ALLOW"})))
        before = None
        for number, profile in enumerate(profiles):
            folder = f"{self.folder}/{number}"
            name = f"{cgroups.PREFIX}{os.getpid()}-seccomp-{number}"
            bundle.make(folder, self.lab.client, f"/{name}", ["/bin/look"])
            shutil.copy(LOOK, folder + "/rootfs/bin/look")
            if profile:
                self.configure(folder + "/config.json", profile)
            done = subprocess.run(
                self.lab.client.command("runc", "--root", folder + "/state", "run", "--bundle",
                                        folder, name), stdout=subprocess.PIPE, timeout=LIMIT,
                stdin=subprocess.DEVNULL, check=True)
            if profile:
                self.assert_restricted(done.stdout, before)
            before = json.loads(done.stdout)
            self.assertEqual(before["packet"], REFUSED["packet"] if profile else "")

    def write(self, document):
        path = self.folder + "/base.json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        return path

    @staticmethod
    def configure(path, profile):
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        with open(profile, encoding="utf-8") as file:
            config["linux"]["seccomp"] = json.load(file)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)


if __name__ == "__main__":
    main()
