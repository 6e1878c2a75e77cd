# SPDX-License-Identifier: Apache-2.0
"""The policy is for outbound traffic: servers inside stay reachable in every phase, and nothing
that came in can be turned into a way out."""

import socket

import vectors
from harness import NetTest, main, token
from lab import A4, A6, CLIENT4, CLIENT6, D4, D6, GATEWAY4
from phasegate import NO_NETWORK, PUBLIC, allowlist, policy
from recorder import PORT

MODES = {"setup": PUBLIC, "run": allowlist(A4, A6), "verifier": NO_NETWORK}
INSIDE = 8000


class Inbound(NetTest):
    def outside(self, family, kind, peer):
        """A socket of the server's namespace, connected to the Environment."""
        def make():
            made = socket.socket(family, kind)
            made.settimeout(30)
            made.connect(peer)
            return made

        made = self.lab.server.call(make)
        self.addCleanup(made.close)
        return made

    def listen(self, agent):
        for number, family, address in ((0, "4", CLIENT4), (1, "6", CLIENT6)):
            agent(f"socket {number} tcp{family}")
            self.assertEqual(agent(f"bind {number} {address} {INSIDE}")["errno"], "")
            agent(f"listen {number}")
            agent(f"socket {number + 2} udp{family}")
            self.assertEqual(agent(f"bind {number + 2} {address} {INSIDE}")["errno"], "")

    def accept_one(self, agent, number, slot):
        family, address = ((socket.AF_INET, CLIENT4), (socket.AF_INET6, CLIENT6))[number]
        stream = self.outside(family, socket.SOCK_STREAM, (address, INSIDE))
        self.assertEqual(agent(f"accept {number} {slot}")["errno"], "")
        return stream

    def exchange(self, agent):
        for number, family, address in ((0, socket.AF_INET, CLIENT4),
                                        (1, socket.AF_INET6, CLIENT6)):
            stream = self.accept_one(agent, number, 9)
            stream.send(b"question")
            self.assertEqual(agent("recv 9")["data"], "question")
            agent("send 9 answer")
            self.assertEqual(stream.recv(100), b"answer")
            agent("close 9")
            datagram = self.outside(family, socket.SOCK_DGRAM, (address, INSIDE))
            datagram.send(b"question")
            self.assertEqual(agent(f"recvfrom {number + 2}")["data"], "question")
            self.assertEqual(agent(f"reply {number + 2} answer")["errno"], "")
            self.assertEqual(datagram.recv(100), b"answer")

    def test_servers_stay_reachable_in_every_phase(self):
        for phase in MODES:
            with self.subTest(phase=phase), \
                    self.agent("--policy", policy(**MODES), "--phase", phase) as agent:
                self.listen(agent)
                self.exchange(agent)

    def test_connection_to_a_closed_port_is_refused(self):
        with self.agent("--policy", policy(run=NO_NETWORK)):
            with self.assertRaises(ConnectionRefusedError):
                self.outside(socket.AF_INET, socket.SOCK_STREAM, (CLIENT4, INSIDE + 1))

    def test_accepted_socket_and_listener_cannot_turn_outbound(self):
        for phase in ("run", "verifier"):
            with self.subTest(phase=phase), \
                    self.agent("--policy", policy(**MODES), "--phase", phase) as agent:
                self.listen(agent)
                for number, denied, allowed in ((0, D4, A4), (1, D6, A6)):
                    self.accept_one(agent, number, 9)
                    self.turn(agent, 9, denied, allowed, phase)
                    self.turn(agent, number, denied, allowed, phase)
                self.assert_silent(D4, D6)

    def turn(self, agent, slot, denied, allowed, phase):
        self.assertEqual(agent(f"connect {slot} unspec 0")["errno"], "")
        self.assertEqual(agent(f"connect {slot} {denied} {PORT}")["errno"], "EPERM")
        self.assertNotEqual(agent(f"send {slot} leak")["errno"], "")
        result = agent(f"connect {slot} {allowed} {PORT}")
        self.assertEqual(result["errno"], "" if phase == "run" else "EPERM")

    def test_answering_a_datagram_opens_its_own_way_only(self):
        with self.agent("--policy", policy(**MODES), "--phase", "verifier") as agent:
            self.listen(agent)
            datagram = self.outside(socket.AF_INET, socket.SOCK_DGRAM, (CLIENT4, INSIDE))
            port = datagram.getsockname()[1]
            datagram.send(b"question")
            agent("recvfrom 2")
            self.assertEqual(agent("reply 2 answer")["errno"], "")
            self.assertEqual(datagram.recv(100), b"answer")
            self.assertEqual(agent(f"sendto 2 {GATEWAY4} {port ^ 1} leak")["errno"], "EPERM")
            self.assertEqual(agent(f"sendto 2 {D4} {port} leak")["errno"], "EPERM")
            agent("socket 5 udp4")
            self.assertEqual(agent(f"sendto 5 {GATEWAY4} {port} leak")["errno"], "EPERM")
            self.assertFalse([p for p in self.capture.drain() if b"leak" in p.payload])

    def test_an_answer_does_not_make_the_way_inbound(self):
        """A flow that the Environment opened stays outbound: two agents in one namespace would
        be two flows, so this asks the same socket before and after the answer came."""
        with self.agent("--policy", policy(run=allowlist(A4))) as agent:
            self.assert_reaches(agent, vectors.udp_sendto, A4, PORT)
            mark = token()
            agent("socket 0 udp4")
            agent(f"sendto 0 {A4} {PORT} {mark}")
            self.assertEqual(agent("recvfrom 0")["data"], mark)
            self.assertEqual(agent("reply 0 again")["errno"], "")
            self.assertEqual(agent(f"sendto 0 {D4} {PORT} leak")["errno"], "EPERM")
            self.assert_silent(D4, D6)


if __name__ == "__main__":
    main()
