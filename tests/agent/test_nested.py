#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process of an Environment that makes namespaces of its own, in which it is root."""

import os
import subprocess
import sys
import tempfile
import textwrap

import cgroups
from agentcase import AgentTest
from daemon import directory_of
from harness import main
from lab import A4, D4, Namespace
from phasegate import PUBLIC, allowlist

SERVER, CLIENT = "198.51.100.53", "198.51.100.54"

STALLED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stalled.py")

# In a second namespace, joined to the first, a nameserver with an answer of its own.
FORGER = textwrap.dedent("""
    import socket, sys

    nameserver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    nameserver.bind(("0.0.0.0", 53))
    forged = socket.inet_aton(sys.argv[1])
    print("ready", flush=True)
    while True:
        query, peer = nameserver.recvfrom(512)
        question = query[12:query.index(b"\\0", 12) + 5]
        a = question[-4:-2] == b"\\0\\1"
        answer = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\x0e\\x10\\0\\4" + forged if a else b""
        nameserver.sendto(query[:2] + b"\\x81\\x80\\0\\1\\0" + bytes([bool(a)]) + b"\\0\\0\\0\\0" +
                          question + answer, peer)
""")
# In the first one, asks for the name; says whether the answer was that one.
ASKER = textwrap.dedent("""
    import socket, subprocess, sys

    forger, forged, server, client = sys.argv[1:]
    with subprocess.Popen(["unshare", "--net", sys.executable, "-I", "-c", forger, forged],
                          stdout=subprocess.PIPE) as peer:
        peer.stdout.readline()
        subprocess.run(["ip", "link", "add", "one", "type", "veth", "peer", "name", "two",
                        "netns", str(peer.pid)], check=True)
        inside = ["nsenter", "--net", "--target", str(peer.pid)]
        for prefix, name, address in ([], "one", client), (inside, "two", server):
            subprocess.run([*prefix, "ip", "address", "add", address + "/24", "dev", name],
                           check=False)
            for link in name, "lo":
                subprocess.run([*prefix, "ip", "link", "set", link, "up"], check=True)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            asker.settimeout(10)
            asker.connect(("127.0.0.53", 53))
            asker.send(b"ab\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\2db\\0\\0\\1\\0\\1")
            print(socket.inet_aton(forged) in asker.recv(4096))
        peer.kill()
""")


class Nested(AgentTest):
    """The name of a policy, and a nameserver of own_resolvers, which has its address there."""

    SETTINGS = {"resolvers": ["127.0.0.1:9"]}

    def forge(self, *namespaces):
        made = self.create({"network_policy": PUBLIC, "run_network_policy": allowlist("db", A4)},
                           dns={"own_resolvers": [SERVER]})
        process = self.start_in(directory_of(made), *self.lab.client.command(
            "unshare", *namespaces, sys.executable, "-I", "-c", ASKER, FORGER, D4, SERVER,
            CLIENT), stdout=subprocess.PIPE)
        output, _ = process.communicate(timeout=60)
        return output.decode().split()[-1:]

    def test_namespace_of_a_user_namespace(self):
        """Who has made it is root there, and not of the host: it is not asked."""
        self.assertEqual(self.forge("--user", "--map-root-user", "--net"), ["False"])

    def test_namespace_of_the_hosts_root(self):
        """As of a container: whoever has the address decides."""
        self.assertEqual(self.forge("--net"), ["True"])

    def test_root_directory_that_does_not_answer(self):
        """Whoever waited for it would serve nobody any more."""
        if not os.path.exists("/dev/fuse"):
            self.skipTest("no FUSE here")
        cgroup = self.make_cgroup(self.name("stalled"))
        directory = self.enterContext(tempfile.TemporaryDirectory())
        namespace = Namespace()
        self.addCleanup(namespace.close)
        self.start_in(cgroups.path_of(cgroup), *namespace.command("sleep", "1000"))
        process = self.start_in(cgroups.path_of(cgroup), sys.executable, "-I", STALLED, directory,
                                stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        made = self.create({"network_policy": PUBLIC}, members=[{"cgroup": cgroup}], attach=True)
        self.assertEqual(self.daemon.show(made["name"])["phase"], "setup")


if __name__ == "__main__":
    main()
