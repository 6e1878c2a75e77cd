# SPDX-License-Identifier: Apache-2.0
"""The containers of the vectors: runc's and Docker's, with the program and the tools that change a
network. Each offers attempt(lines) -> answers, and what it is called in the table."""

import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

import bundle
import dockerd
from lab import R4
from phasegate import LIMIT, Run
from world import BRIDGE, NETWORK4, NETWORK6

PROGRAM = os.environ.get("PHASEGATE_ADVERSARY", "adversary")
TOOLS = ("ip", "tc", "nft")
DEFAULT, ADMIN = "default", "net_admin"
# Dockers of today give it NET_RAW, those of tomorrow may not: it is what is tried.
GIVEN = {DEFAULT: ("NET_RAW",), ADMIN: ("NET_RAW", "NET_ADMIN")}


def tools():
    """(path in the container, file here) of the program, the tools and the libraries they load."""
    files = {"/bin/adversary": PROGRAM}
    for name in TOOLS:
        found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        if not found:
            continue
        files["/bin/" + name] = os.path.realpath(found)
        listed = subprocess.run(["ldd", found], stdout=subprocess.PIPE, text=True, check=True)
        for path in re.findall(r"(/\S+) \(0x", listed.stdout):
            files[path] = os.path.realpath(path)
    return files.items()


def add_tools(root):
    for inside, path in tools():
        where = root + inside
        os.makedirs(os.path.dirname(where), exist_ok=True)
        shutil.copy(path, where)


class Program(Run):
    """The program of the vectors inside: a line each way for each attempt."""

    def attempt(self, lines):
        answers = []
        for line in lines:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
            answers.append(json.loads(self.line()))
        return answers


class Runc:
    """A container of runc in a namespace of the world's, below the Environment's cgroup."""

    name = "runc"
    available = shutil.which("runc") and shutil.which("busybox")

    def __init__(self, world, environment, privilege, label, words=(), **sysctl):
        self.folder = tempfile.mkdtemp(prefix="pgt-")
        world.stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        namespace = world.namespace()
        self.namespace = namespace
        self.addresses = world.attach(namespace)
        namespace.sysctl(**sysctl)
        bundle.make(self.folder, namespace, f"{environment['cgroup_parent']}/{label}",
                    ["/bin/adversary", *words])
        add_tools(self.folder + "/rootfs")
        if privilege == ADMIN:
            self._add_capability("CAP_NET_ADMIN")
        self.program = Program(world.lab, command=[
            "runc", "--root", self.folder + "/state", "run", "--bundle", self.folder, label])
        world.stack.callback(self.program.close)
        self.attempt = self.program.attempt

    def _add_capability(self, capability):
        path = self.folder + "/config.json"
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        for kind in ("bounding", "effective", "permitted"):
            config["process"]["capabilities"][kind].append(capability)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)


class DockerHost(dockerd.Dockerd):
    """A Docker daemon on the host, and a network of its own whose bridge the world watches."""

    def begin(self, world, bridge, network4, network6):
        self.start(world.lab)
        files = list(tools())
        with tempfile.TemporaryFile() as archive:
            with tarfile.open(fileobj=archive, mode="w") as image:
                for inside, path in files:
                    image.add(path, inside.lstrip("/"))
                image.add(shutil.which("busybox"), "bin/busybox")
                entry = tarfile.TarInfo("bin/sh")
                entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
                image.addfile(entry)
                entry = tarfile.TarInfo("bin/sleep")
                entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
                image.addfile(entry)
            archive.seek(0)
            self.call("import", "-", dockerd.IMAGE, stdin=archive)
        self.call("network", "create", "--ipv6", "--subnet", f"{network4}.0.0/16", "--gateway",
                  f"{network4}.0.1", "--subnet", f"{network6}::/32", "--gateway", f"{network6}::1",
                  "--opt", f"com.docker.network.bridge.name={bridge}",
                  "--opt", "com.docker.network.enable_ipv6=true", "pgt")
        world.host.ip(f"link set {bridge} promisc on type bridge mcast_snooping 0")
        # Docker's own firewall forwards what the container sends; so do we, also of other sources.
        world.host.call(lambda: subprocess.run(["iptables", "-P", "FORWARD", "ACCEPT"],
                                               check=False, timeout=LIMIT))


class Docker:
    """A container of Docker in a network of its own, running before it is attached to."""

    name = "docker"
    available = dockerd.AVAILABLE

    def __init__(self, world, docker, privilege):
        options = [word for one in GIVEN[privilege] for word in ("--cap-add", one)]
        self.container, _ = docker.run("--network", "pgt", "--dns", R4, *options)
        shown = json.loads(docker.call("inspect", self.container).stdout)[0]
        network = shown["NetworkSettings"]["Networks"]["pgt"]
        self.addresses = {
            "own4": network["IPAddress"], "own6": network["GlobalIPv6Address"],
            "gateway4": network["Gateway"], "gateway6": network["IPv6Gateway"],
            "mac": network["MacAddress"], "network4": "172.30", "network6": "fd00:30",
            "gwmac": self.bridge_mac(world)}
        self.program = Program(world.lab, command=[
            "docker", "--host", "unix://" + docker.socket, "exec", "--interactive",
            self.container, "/bin/adversary"])
        world.stack.callback(self.program.close)
        self.attempt = self.program.attempt

    @staticmethod
    def bridge_mac(world):
        # sysfs shows the namespace that it was mounted in.
        done = subprocess.run(world.host.command("ip", "-json", "link", "show", "pgbr0"),
                              stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout)[0]["address"]


@unittest.skipUnless(Docker.available, "needs dockerd, docker, containerd, runc and busybox")
class WithDocker:
    """For a VectorsTest, before that: a Docker daemon, of which the agent knows."""

    EXPOSURES = {}

    @classmethod
    def set_up(cls):
        cls.docker = DockerHost()
        cls.addClassCleanup(cls.docker.close)
        cls.SETTINGS = {"docker_socket": cls.docker.socket, "podman_socket": "/nonexistent",
                        "containerd_state": cls.docker.containerd, "exposures": cls.EXPOSURES}
        cls.docker.begin(cls.world, BRIDGE, NETWORK4, NETWORK6)
        cls.world.watch("link", cls.world.host, BRIDGE)
