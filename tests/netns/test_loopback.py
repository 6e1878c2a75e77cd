# SPDX-License-Identifier: Apache-2.0
"""Loopback within the Environment works in every phase; the loopback of others is outside."""

import socket
import sys

from harness import EPERM_LIMIT_US, NetTest, main, patient, token
from lab import A4, A6, CLIENT4, CLIENT6
from phasegate import NO_NETWORK, PUBLIC, allowlist, policy

MODES = {"setup": PUBLIC, "run": allowlist(A4, A6), "verifier": NO_NETWORK}
OWN = ("127.0.0.1", "127.9.9.9", "::1", CLIENT4, CLIENT6, "::ffff:127.0.0.1")
INSIDE, OUTSIDE, CLOSED, SHARED = 8100, 8200, 8300, 8400

# Binds the port that is held, twice, and then one that is free, twice (the own one may be shared).
SHARE = """
import socket, sys
address, port, option = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
kept = []
def bind(port):
    one = socket.socket(family, socket.SOCK_DGRAM)
    one.setsockopt(socket.SOL_SOCKET, option, 1)
    one.bind((address, port))
    kept.append(one)
for _ in range(2):
    try:
        bind(port)
        print("bound")
    except PermissionError:
        print("EPERM")
bind(port + 1)
bind(port + 1)
print("free")
"""


class Loopback(NetTest):
    def test_own_servers_are_reached_in_every_phase(self):
        for phase in MODES:
            with self.subTest(phase=phase), \
                    self.agent("--policy", policy(**MODES), "--phase", phase) as agent:
                for number, address in enumerate(OWN):
                    with self.subTest(address=address):
                        self.tcp_inside(agent, address, INSIDE + number)
                        self.udp_inside(agent, address, INSIDE + number)
                        self.closed_port(agent, address)

    def tcp_inside(self, agent, address, port):
        family = "6" if ":" in address else "4"
        mark = token("lo")
        for line in (f"socket 0 tcp{family}", f"bind 0 {address} {port}", "listen 0",
                     f"socket 1 tcp{family}", f"connect 1 {address} {port}", "accept 0 2",
                     f"send 1 {mark}"):
            self.assertEqual(agent(line)["errno"], "", line)
        self.assertEqual(agent("recv 2")["data"], mark)
        agent(f"send 2 {mark}")
        self.assertEqual(agent("recv 1")["data"], mark)
        for slot in (0, 1, 2):
            agent(f"close {slot}")

    def udp_inside(self, agent, address, port):
        family = "6" if ":" in address else "4"
        mark = token("lo")
        for line in (f"socket 0 udp{family}", f"bind 0 {address} {port}", f"socket 1 udp{family}",
                     f"sendto 1 {address} {port} {mark}"):
            self.assertEqual(agent(line)["errno"], "", line)
        self.assertEqual(agent("recvfrom 0")["data"], mark)
        self.assertEqual(agent(f"reply 0 {mark}")["errno"], "")
        self.assertEqual(agent("recv 1")["data"], mark)
        for slot in (0, 1):
            agent(f"close {slot}")

    def closed_port(self, agent, address):
        agent("socket 0 tcp" + ("6" if ":" in address else "4"))
        result = agent(f"connect 0 {address} {CLOSED}")
        self.assertEqual(result["errno"], "ECONNREFUSED")
        self.assertLess(result["us"], patient(EPERM_LIMIT_US))
        agent("close 0")

    def listen_outside(self, address, port):
        """TCP and UDP servers of another cgroup in the Environment's namespace."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET

        def make():
            stream = socket.socket(family, socket.SOCK_STREAM)
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            stream.bind((address, port))
            stream.listen()
            stream.setblocking(False)
            datagram = socket.socket(family, socket.SOCK_DGRAM)
            datagram.bind((address, port))
            datagram.setblocking(False)
            return stream, datagram

        made = self.lab.client.call(make)
        for one in made:
            self.addCleanup(one.close)
        return made

    def attempt_outside(self, agent, address, port):
        """Returns the errnos of a TCP connect and of a UDP send."""
        family = "6" if ":" in address else "4"
        agent(f"socket 0 tcp{family}")
        stream = agent(f"connect 0 {address} {port}")
        agent("close 0")
        agent(f"socket 0 udp{family}")
        datagram = agent(f"sendto 0 {address} {port} hello")
        agent("close 0")
        return stream, datagram

    def test_servers_of_others_are_outside(self):
        for number, address in enumerate(("127.0.0.1", "::1", CLIENT4, CLIENT6)):
            port = OUTSIDE + number
            stream, datagram = self.listen_outside(address, port)
            for phase in ("run", "verifier"):
                with self.subTest(phase=phase, address=address), \
                        self.agent("--policy", policy(**MODES), "--phase", phase) as agent:
                    for result in self.attempt_outside(agent, address, port):
                        self.assertEqual(result["errno"], "EPERM")
                        self.assertLess(result["us"], patient(EPERM_LIMIT_US))
                    self.assertRaises(BlockingIOError, stream.accept)
                    self.assertRaises(BlockingIOError, datagram.recv, 100)
            for text in (policy(run=PUBLIC), policy(run=allowlist(address))):
                with self.subTest(policy=text), self.agent("--policy", text) as agent:
                    for result in self.attempt_outside(agent, address, port):
                        self.assertEqual(result["errno"], "")
                    stream.accept()[0].close()
                    self.assertEqual(datagram.recv(100), b"hello")

    def test_a_server_of_others_does_not_stop_the_start(self):
        """The self-probe is denied nothing, whoever listens on the port of its connect()."""
        def make():
            server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            server.bind(("127.0.0.1", 9))
            return server

        self.addCleanup(self.lab.client.call(make).close)
        run = self.run_command("--policy", policy(run=NO_NETWORK), "--", "true")
        self.assertEqual(run.finish()[0], 0, run.stderr)

    def test_a_port_of_others_is_not_shared(self):
        """With SO_REUSEADDR or SO_REUSEPORT the receiver could change after the verdict."""
        for address in ("127.0.0.1", "::1", CLIENT4):
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
                def make(option=option, family=family, address=address):
                    held = socket.socket(family, socket.SOCK_DGRAM)
                    held.setsockopt(socket.SOL_SOCKET, option, 1)
                    held.bind((address, SHARED))
                    return held

                held = self.lab.client.call(make)
                for mode, expected in ((NO_NETWORK, ["EPERM", "EPERM", "free"]),
                                       (PUBLIC, ["bound", "bound", "free"])):
                    with self.subTest(address=address, option=option, mode=mode):
                        run = self.run_command(
                            "--policy", policy(run=mode), "--", sys.executable, "-c", SHARE,
                            address, str(SHARED), str(option))
                        self.assertEqual(run.finish()[1].split(), expected, run.stderr)
                held.close()

    def test_icmp_is_judged_by_its_destination(self):
        """Any raw socket of the namespace gets a copy of it, whoever owns that."""
        with self.agent("--policy", policy(run=NO_NETWORK)) as agent:
            agent("socket 0 icmp4")
            self.assertEqual(agent(f"echo 0 127.0.0.1 {token()}")["errno"], "EPERM")
        with self.agent("--policy", policy(run=allowlist("127.0.0.1"))) as agent:
            agent("socket 0 icmp4")
            self.assertEqual(agent(f"echo 0 127.0.0.1 {token()}")["errno"], "")

    def test_two_environments_in_one_namespace(self):
        """Neither reaches the other's servers without an entry."""
        text = policy(run=NO_NETWORK)
        with self.agent("--policy", text) as one, self.agent("--policy", text) as other:
            for line in ("socket 0 tcp4", f"bind 0 127.0.0.1 {INSIDE}", "listen 0",
                         "socket 1 udp4", f"bind 1 127.0.0.1 {INSIDE}"):
                self.assertEqual(one(line)["errno"], "", line)
            for result in self.attempt_outside(other, "127.0.0.1", INSIDE):
                self.assertEqual(result["errno"], "EPERM")
            for result in self.attempt_outside(one, "127.0.0.1", INSIDE):
                self.assertEqual(result["errno"], "")


if __name__ == "__main__":
    main()
