# SPDX-License-Identifier: Apache-2.0
"""Connections that a server inside has accepted go on, with a guard at the veth: over a switch to a
phase that allows nothing, and over the death of the agent."""

import glob
import json
import socket
import subprocess
import sys
import time

import cgroups
from dnslab import PYTHON
from harness import main
from keeper import PINS, isolate
from lab import A4, D4
from linklab import LinkTest
from phasegate import LIMIT, NO_NETWORK, PUBLIC, allowlist, policy

PORT = 8000
TEXT = policy(setup=allowlist(A4), run=NO_NETWORK, verifier=NO_NETWORK)
SERVER = f"""
import socket, socketserver
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line)
class Server(socketserver.ThreadingTCPServer):
    address_family = socket.AF_INET6
    allow_reuse_address = daemon_threads = True
with Server(("::", {PORT}), Echo) as server:
    print("listens", flush=True)
    server.serve_forever()
"""
MANY = 30  # segments


class Accepted(LinkTest):
    def serve(self, container):
        """An echo server inside, of IPv4 and IPv6."""
        process = subprocess.Popen(
            ["nsenter", f"--net=/proc/{container.pid}/ns/net", "sh", "-c",
             'echo $$ >"$0" && exec "$@"', f"{cgroups.path_of(container.cgroup)}/cgroup.procs",
             PYTHON, "-c", SERVER], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "listens\n")

    def connect(self, address):
        stream = self.lab.server.call(lambda: socket.create_connection((address, PORT), 30))
        self.addCleanup(stream.close)
        return stream

    def exchange(self, stream):
        stream.sendall(b"line\n")
        self.assertEqual(stream.recv(100), b"line\n")

    def open(self, container):
        """One that has sent little and one that has sent a lot, of each family."""
        streams = [self.connect(address) for _ in range(2)
                   for address in (container.address4, container.address6)]
        for number, stream in enumerate(streams):
            for _ in range(MANY if number < 2 else 1):
                self.exchange(stream)
        return streams

    def check(self, container, streams):
        for stream in streams:
            self.exchange(stream)
        for stream in self.open(container):
            stream.close()

    def begin(self, text=TEXT):
        container, keeper = self.container(), self.keeper()
        self.create(keeper, container.cgroup, text=text, options="a")
        self.assert_link(keeper, "v1")
        self.serve(container)
        return container, keeper, self.open(container)

    def test_a_switch(self):
        container, keeper, streams = self.begin()
        keeper("switch", "run")
        self.check(container, streams)
        keeper("switch", "verifier")
        self.check(container, streams)
        self.assert_guarded(container)
        self.assert_silent(D4)

    def confirmed(self, link):
        """Remote ports of what is remembered of sockets that the guard has let out, too."""
        path, = glob.glob(f"{PINS}/+maps-*/pg_sent_places")
        dump = subprocess.run(["bpftool", "-j", "map", "dump", "pinned", path], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        values = (bytes(int(octet, 16) for octet in element["value"][:52])
                  for element in json.loads(dump) if set(element["value"][48:52]) != {"0x00"})
        return {int.from_bytes(value[42:44], "big") for value in values
                if any(value[:8]) and int.from_bytes(value[48:52], sys.byteorder) == link}

    def test_remembered(self):
        """By the guard, too, whether the phase allows the destination or not."""
        _, keeper, streams = self.begin(policy(setup=PUBLIC, run=NO_NETWORK))
        shown = subprocess.run(self.lab.client.command("ip", "-j", "link", "show", "v1"),
                               check=True, stdout=subprocess.PIPE, text=True).stdout
        link = json.loads(shown)[0]["ifindex"]
        for phase in ("run", "setup"):
            keeper("switch", phase)
            for stream in streams[:2]:
                deadline = time.monotonic() + LIMIT
                port = stream.getsockname()[1]
                self.exchange(stream)
                while port not in self.confirmed(link):
                    self.assertLess(time.monotonic(), deadline, (phase, stream))
                    self.exchange(stream)

    def test_another_agent(self):
        container, keeper, streams = self.begin()
        keeper.kill()
        self.check(container, streams)
        keeper = self.keeper()
        keeper("adopt", self.name)
        self.check(container, streams)
        keeper("switch", "run")
        self.check(container, streams)
        self.assert_guarded(container)


if __name__ == "__main__":
    isolate()
    main()
