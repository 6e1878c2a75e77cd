# SPDX-License-Identifier: Apache-2.0
"""Every `sh` block of README.md, in its order, as it stands there.

A comment before the block says what becomes of it: <!-- test --> must end with status 0,
<!-- test N --> with N, and <!-- test docker --> and <!-- test podman --> with 0, too, where there
is one; <!-- needs X --> is not run. They run in the lab, where the names and addresses of the
README exist, and in one directory, since later blocks use files of earlier ones. The agent, Docker
and Podman are the test's own: /phasegate is the agent's parent cgroup, IMAGE the test's image.
"""

import http.server
import os
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest

import bundle
import cgroups
import dockerd
import podman
from daemon import Daemon
from harness import LabTest, main
from lab import A4, A6, B4, B6, D4, D6, R4
from nameserver import Nameserver
from phasegate import BINARY, LIMIT, dying_with_us

README = os.path.join(os.environ["PHASEGATE_SOURCE"], "README.md")
HOSTS = {"api.example.com": (A4, A6), "get.packages.example.com": (B4, B6),
         "mirror.example.com": (D4, D6)}
BLOCK = re.compile(r"^(?:<!-- (?P<marker>[^\n]*) -->\n)?```sh\n(?P<text>.*?)^```$", re.M | re.S)
# The parent cgroup of the README's container.
AGENTS = "agents"
# Programs look up names at the lab's nameserver, by files that only they see.
ENTER = """mount --bind resolv.conf /etc/resolv.conf
mount --bind nsswitch.conf /etc/nsswitch.conf
exec sh -e block"""


def read_blocks():
    """(line number, marker, text) of each block."""
    with open(README, encoding="utf-8") as file:
        readme = file.read()
    return [(readme.count("\n", 0, match.start("text")) + 1, match["marker"], match["text"])
            for match in BLOCK.finditer(readme)]


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello\n")

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    """On all addresses of both families."""

    address_family = socket.AF_INET6


@unittest.skipUnless(shutil.which("curl"), "needs curl")
class Commands(LabTest):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="pgt-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        Nameserver(self.lab, hosts=HOSTS)
        self.write("resolv.conf", f"nameserver {R4}\n")
        self.write("nsswitch.conf", "hosts: files dns\n")
        server = self.lab.server.call(lambda: Server(("::", 80), Hello))
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def start_runtimes(self):
        """Docker and Podman, as far as they are there, and the agent that knows them."""
        self.variables = {}
        self.docker, self.podman = dockerd.Dockerd(), podman.Podman()
        for runtime in (self.docker, self.podman):
            self.addCleanup(runtime.close)
        self.parent = f"{cgroups.PREFIX}{os.getpid()}-readme"
        self.daemon = Daemon(self.lab, docker_socket=self.docker.socket,
                             podman_socket=self.podman.socket, resolvers=[R4],
                             cgroup_parent=self.parent)
        self.addCleanup(self.daemon.close)
        self.variables["PHASEGATE_SOCKET"] = self.daemon.socket
        self.there = set()
        if dockerd.AVAILABLE:
            self.docker.start(self.lab)
            self.there.add("docker")
            self.variables["DOCKER_HOST"] = "unix://" + self.docker.socket
        if podman.AVAILABLE:
            self.podman.start(self.lab)
            self.there.add("podman")
            self.write("podman", f'#!/bin/sh\nexec {shlex.join(self.podman.command())} "$@"\n')
            os.chmod(self.folder + "/podman", 0o755)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def make_bundle(self):
        places = [(f"{point}/{AGENTS}", kind) for kind, point in cgroups.mounts()]
        self.assertFalse(any(os.path.exists(path) for path, _ in places), "in use: " + AGENTS)
        for path, kind in places:
            self.addCleanup(cgroups.remove, path, kind)
        bundle.make(self.folder + "/bundle", self.lab.client, f"/{AGENTS}/agent-1",
                    ["/bin/busybox", "wget", "-O", "-", f"http://{A4}/"])

    def run_block(self, text):
        self.write("block", text)
        words = self.lab.client.command("unshare", "--mount", "sh", "-ec", ENTER)
        path = ":".join((self.folder, os.path.dirname(os.path.abspath(BINARY)),
                         os.environ["PATH"]))
        return subprocess.run(dying_with_us(*words), cwd=self.folder, timeout=LIMIT, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False,
                              stderr=subprocess.STDOUT,
                              env={**os.environ, **self.variables, "PATH": path})

    def test_blocks(self):
        blocks = read_blocks()
        self.assertGreater(len(blocks), 5)
        self.make_bundle()
        self.start_runtimes()
        tested = 0
        for line, marker, text in blocks:
            with self.subTest(line=line):
                self.assertRegex(marker or "", r"^(test( \d+| docker| podman)?|needs \w+)$",
                                 "the block does not say whether it is tested")
                runtime = marker.split()[-1]
                if marker.startswith("needs"):
                    continue
                if runtime in ("docker", "podman"):
                    if runtime not in self.there:
                        self.skipTest("needs " + runtime)
                    text = text.replace("/phasegate/", f"/{self.parent}/")
                    text = text.replace("IMAGE", dockerd.IMAGE)
                if "runc" in text and not shutil.which("runc"):
                    self.skipTest("needs runc")
                done = self.run_block(text)
                self.assertEqual(done.returncode, int(runtime) if runtime.isdigit() else 0,
                                 text + done.stdout)
                tested += 1
        print(f"{tested} of {len(blocks)} blocks were run")


if __name__ == "__main__":
    main()
