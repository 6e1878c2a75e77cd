# SPDX-License-Identifier: Apache-2.0
"""Podman of the test's own: its state, its networks and its mounts are the test's alone, in the
client's network namespace; with the image of dockerd.py, and its API for the agent."""

import itertools
import os
import shutil
import subprocess
import tempfile
import time

import cgroups
from dockerd import IMAGE, image
from phasegate import LIMIT, Agent, dying_with_us, started

AVAILABLE = all(map(shutil.which, ("podman", "conmon", "runc", "busybox")))
# Of the default bridge.
SUBNET = "172.31.78.0/24"
# Where Podman keeps what no option puts elsewhere.
OWN = ("/run/netns", "/var/lib/cni", "/dev/shm")
CONF = """[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "{runtime}"
[network]
network_config_dir = "{directory}/net"
default_subnet = "{subnet}"
"""
_numbers = itertools.count(1)


class Podman:
    """Two steps, since the agent's settings need the path first."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="pgt-podman-")
        self.socket = self.directory + "/sock"
        self.keeper = self.service = None
        self.containers = []

    def start(self, lab, runtime="runc"):
        self.lab = lab
        os.mkdir(self.directory + "/net")
        with open(self.directory + "/conf", "w", encoding="utf-8") as file:
            file.write(CONF.format(directory=self.directory, runtime=runtime, subnet=SUBNET))
        mounts = "".join(f"mkdir -p {path} && mount -t tmpfs tmpfs {path} && " for path in OWN)
        # A mount namespace that all of its processes share, and that ends with them.
        self.keeper = self.popen(*lab.client.command(
            "unshare", "--mount", "--propagation", "private", "sh", "-c",
            f"{mounts}echo && exec cat"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if not self.keeper.stdout.readline():
            raise AssertionError("no mounts for podman")
        self.call("import", "-", IMAGE, input=image())
        self.service = self.popen(*self.command("system", "service", "--time", "0",
                                                "unix://" + self.socket),
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        began = time.monotonic()
        while not os.path.exists(self.socket):
            if self.service.poll() is not None or time.monotonic() - began > LIMIT:
                raise AssertionError("podman does not serve")
            time.sleep(0.1)

    @staticmethod
    def popen(*words, **more):
        process = subprocess.Popen(dying_with_us(*words), **more)
        started.add(process.pid)
        return process

    def command(self, *words):
        """The command line that runs Podman there."""
        return ["nsenter", f"--mount=/proc/{self.keeper.pid}/ns/mnt",
                f"--net=/proc/{self.keeper.pid}/ns/net", "env",
                f"CONTAINERS_CONF={self.directory}/conf", shutil.which("podman"),
                "--root", self.directory + "/root", "--runroot", self.directory + "/run",
                "--tmpdir", self.directory + "/tmp", "--storage-driver", "vfs", *words]

    def call(self, *words, check=True, **more):
        done = subprocess.run(self.command(*words), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=LIMIT, check=False, **more)
        if check and done.returncode:
            raise AssertionError(f"podman {words}: {done.stderr.decode()}")
        return done

    def run(self, *options, words=("/bin/sleep", "1000"), parent=None):
        """Starts a container, outside of every Environment if no parent is named; returns its name
        and id."""
        name = f"pgt-{os.getpid()}-{next(_numbers)}"
        self.containers.append(name)
        done = self.call("run", "--detach", "--name", name, "--cgroup-parent",
                         parent or f"/{cgroups.PREFIX}{os.getpid()}-podman", *options, IMAGE,
                         *words)
        return name, done.stdout.decode().strip()

    def probe(self, name):
        return Agent(self.lab, command=self.command("exec", "--interactive", name, "/bin/probe"))

    def remove(self, *names):
        self.call("rm", "--force", "--time", "0", *names, check=False)
        self.containers = [name for name in self.containers if name not in names]

    def close(self):
        try:
            if self.containers:
                self.remove(*self.containers)
            for process in (self.service, self.keeper):
                if process:
                    process.kill()
                    process.communicate()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)
