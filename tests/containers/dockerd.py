# SPDX-License-Identifier: Apache-2.0
"""A Docker daemon of the test's own: in the client's network namespace, with its state in a
directory of its own, and with an image of busybox and the probe."""

import io
import itertools
import os
import shutil
import subprocess
import tarfile
import tempfile
import time

import cgroups
from phasegate import LIMIT, PROBE, Agent, dying_with_us, started

AVAILABLE = all(map(shutil.which, ("dockerd", "docker", "containerd", "runc", "busybox")))
IMAGE = "pgt"
# Of the default bridge: the host in the sight of a container.
GATEWAY = "172.31.77.1"
_numbers = itertools.count(1)


def image():
    """A root file system as a tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("bin", "tmp", "etc", "proc", "sys", "dev"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        archive.add(shutil.which("busybox"), "bin/busybox")
        archive.add(PROBE, "bin/probe")
        for name in ("sh", "sleep", "nslookup", "wget"):
            entry = tarfile.TarInfo("bin/" + name)
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(entry)
    return buffer.getvalue()


class Dockerd:
    """Two steps, since the agent's settings need the paths first."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="pgt-docker-")
        self.socket = self.directory + "/sock"
        # Docker runs a containerd of its own.
        self.containerd = self.directory + "/exec/containerd/daemon"
        self.process = None
        self.containers = []

    def start(self, lab):
        self.lab = lab
        self.log = open(self.directory + "/log", "w+", encoding="utf-8")
        # A mount namespace of its own takes its mounts along when it ends.
        self.process = subprocess.Popen(
            dying_with_us(*lab.client.command(
                "unshare", "--mount", "--propagation", "private", "dockerd",
                "--data-root", self.directory + "/data", "--exec-root", self.directory + "/exec",
                "--pidfile", self.directory + "/pid", "--host", "unix://" + self.socket,
                "--bip", GATEWAY + "/24", "--default-address-pool", "base=172.31.80.0/20,size=24",
                "--cgroup-parent", f"/{cgroups.PREFIX}{os.getpid()}-docker",
                "--oom-score-adjust", "0")),
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        started.add(self.process.pid)
        began = time.monotonic()
        while self.call("version", check=False).returncode:
            if self.process.poll() is not None or time.monotonic() - began > LIMIT:
                raise AssertionError("dockerd does not serve: " + self.output)
            time.sleep(0.1)
        self.call("import", "-", IMAGE, input=image())

    @property
    def output(self):
        with open(self.log.name, encoding="utf-8") as file:
            return file.read()

    def call(self, *words, check=True, **more):
        done = subprocess.run(["docker", "--host", "unix://" + self.socket, *words],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT,
                              check=False, **more)
        if check and done.returncode:
            raise AssertionError(f"docker {words}: {done.stderr.decode()}")
        return done

    def run(self, *options, words=("/bin/sleep", "1000"), name=None):
        """Starts a container; returns its name and id."""
        name = name or f"pgt-{os.getpid()}-{next(_numbers)}"
        self.containers.append(name)
        done = self.call("run", "--detach", "--name", name, *options, IMAGE, *words)
        return name, done.stdout.decode().strip()

    def probe(self, name):
        return Agent(self.lab, command=["docker", "--host", "unix://" + self.socket, "exec",
                                        "--interactive", name, "/bin/probe"])

    def remove(self, *names):
        self.call("rm", "--force", "--volumes", *names, check=False)
        self.containers = [name for name in self.containers if name not in names]

    def close(self):
        try:
            if self.process and self.process.poll() is None:
                if self.containers:
                    self.remove(*self.containers)
                self.process.terminate()
                try:
                    self.process.wait(LIMIT)
                finally:
                    self.process.kill()
                    self.process.wait()
        finally:
            if self.process:
                self.log.close()
            shutil.rmtree(self.directory, ignore_errors=True)
