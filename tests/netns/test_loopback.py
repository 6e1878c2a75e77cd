# SPDX-License-Identifier: Apache-2.0
"""Loopback within the Environment works in every phase; the loopback of others is outside."""

import socket

from harness import EPERM_LIMIT_US, NetTest, main, token
from lab import A4, A6, CLIENT4, CLIENT6
from phasegate import NO_NETWORK, PUBLIC, allowlist, policy

MODES = {"setup": PUBLIC, "run": allowlist(A4, A6), "verifier": NO_NETWORK}
OWN = ("127.0.0.1", "127.9.9.9", "::1", CLIENT4, CLIENT6, "::ffff:127.0.0.1")
INSIDE, OUTSIDE, CLOSED = 8100, 8200, 8300


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
        self.assertLess(result["us"], EPERM_LIMIT_US)
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
                        self.assertLess(result["us"], EPERM_LIMIT_US)
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
