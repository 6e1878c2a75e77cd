# SPDX-License-Identifier: Apache-2.0
"""What each mode lets through: allowed destinations are reached, denied ones fail at once with
EPERM and nothing of the attempt arrives."""

import vectors
from harness import NetTest, main, token
from lab import A4, A6, D4, D6, mapped
from phasegate import NO_NETWORK, PUBLIC, allowlist, policy
from recorder import PORT

ALLOWED = (A4, A6, mapped(A4))
DENIED = (D4, D6, mapped(D4))
ONLY_A = policy(run=allowlist(A4, A6))


class Verdicts(NetTest):
    def assert_all_denied(self, agent, addresses, addresses4):
        for vector in vectors.EVERY_FAMILY:
            for address in addresses:
                with self.subTest(vector=vector.__name__, address=address):
                    self.assert_denied(agent, vector, address, PORT)
        for vector in vectors.IPV4_ONLY:
            for address in addresses4:
                with self.subTest(vector=vector.__name__, address=address):
                    self.assert_denied(agent, vector, address, PORT)

    def assert_all_reach(self, agent, addresses, addresses4):
        for vector in vectors.EVERY_FAMILY:
            for address in addresses:
                with self.subTest(vector=vector.__name__, address=address):
                    self.assert_reaches(agent, vector, address, PORT)
        for vector in vectors.IPV4_ONLY:
            for address in addresses4:
                with self.subTest(vector=vector.__name__, address=address):
                    self.assert_reaches(agent, vector, address, PORT)

    def test_allowlist(self):
        with self.agent("--policy", ONLY_A) as agent:
            self.assert_all_reach(agent, ALLOWED, (A4,))
            self.assert_all_denied(agent, DENIED, (D4,))
            self.assert_silent(D4, D6)
        # An IPv4 entry and an IPv6 entry each open their own family only.
        with self.agent("--policy", policy(run=allowlist(A4))) as agent:
            self.assert_reaches(agent, vectors.tcp, A4, PORT)
            self.assert_denied(agent, vectors.tcp, A6, PORT)
            self.assert_denied(agent, vectors.udp_sendto, A6, PORT)

    def test_ranges(self):
        ranges = allowlist("198.51.100.0/28", "2001:db8:a::/64")
        with self.agent("--policy", policy(run=ranges)) as agent:
            self.assert_all_reach(agent, ALLOWED, (A4,))
            self.assert_all_denied(agent, DENIED, (D4,))
            self.assert_denied(agent, vectors.tcp, "198.51.100.16", PORT)
            self.assert_silent(D4, D6, "198.51.100.16")

    def test_no_network(self):
        with self.agent("--policy", policy(run=NO_NETWORK)) as agent:
            self.assert_all_denied(agent, ALLOWED + DENIED, (A4, D4))
            self.assert_silent(A4, A6, D4, D6)
            # The same attempts on the same way, unconfined.
            self.assert_all_reach(self.unconfined, ALLOWED + DENIED, (A4, D4))

    def test_public(self):
        with self.agent("--policy", policy(run=PUBLIC)) as agent:
            self.assert_all_reach(agent, ALLOWED + DENIED, (A4, D4))

    def test_every_phase_can_be_chosen(self):
        text = policy(setup=PUBLIC, run=allowlist(A4), verifier=NO_NETWORK)
        for phase, reached in (("setup", (A4, D4)), ("run", (A4,)), ("verifier", ())):
            with self.subTest(phase=phase), \
                    self.agent("--policy", text, "--phase", phase) as agent:
                for address in (A4, D4):
                    if address in reached:
                        self.assert_reaches(agent, vectors.tcp, address, PORT)
                    else:
                        self.assert_denied(agent, vectors.tcp, address, PORT)

    def test_second_message_of_sendmmsg(self):
        with self.agent("--policy", ONLY_A) as agent:
            for kind, allowed, denied in (("udp4", A4, D4), ("udp6", A6, D6),
                                          ("udp6", mapped(A4), mapped(D4))):
                first, second = token("first"), token("second")
                agent(f"socket 0 {kind}")
                result = agent(f"sendmmsg 0 {allowed} {PORT} {first} {denied} {PORT} {second}")
                self.assertEqual((result["ret"], result["errno"]), (1, ""))
                self.assertIsNotNone(self.recorder.wait(first))
                result = agent(f"sendmmsg 0 {denied} {PORT} {second}")
                self.assertEqual(result["errno"], "EPERM")
                agent("close 0")
            self.assert_silent(D4, D6)

    def test_sendto_elsewhere_from_a_connected_socket(self):
        with self.agent("--policy", ONLY_A) as agent:
            agent("socket 0 udp4")
            agent(f"connect 0 {A4} {PORT}")
            self.assertEqual(agent(f"sendto 0 {D4} {PORT} x")["errno"], "EPERM")
            mark = token()
            self.assertEqual(agent(f"send 0 {mark}")["errno"], "")
            self.assertIsNotNone(self.recorder.wait(mark))
            self.assert_silent(D4, D6)

    def test_corked_datagram_cannot_be_redirected(self):
        with self.agent("--policy", ONLY_A) as agent:
            agent("socket 0 udp4")
            agent(f"connect 0 {A4} {PORT}")
            agent("option 0 cork 1")
            agent("send 0 corked")
            self.assertEqual(agent(f"connect 0 {D4} {PORT}")["errno"], "EPERM")
            agent("option 0 cork 0")
            self.assert_silent(D4, D6)

    def test_protocols_without_a_connect_hook(self):
        """UDP-Lite, ping and raw sockets: the packet itself is judged. Here the errno of a denied
        IPv6 send is not promised, only that nothing leaves."""
        with self.agent("--policy", ONLY_A) as agent:
            for family, allowed, denied in (("4", A4, D4), ("6", A6, D6)):
                for kind in ("ping", "icmp"):
                    agent(f"socket 0 {kind}{family}")
                    for address in (denied, allowed):
                        agent(f"echo 0 {address} {token(kind)}")
                    agent("close 0")
                agent(f"socket 0 udplite{family}")
                for address in (denied, allowed):
                    agent(f"connect 0 {address} {PORT}")
                    agent("send 0 lite")
                agent("close 0")
                seen = {(p.protocol, p.destination) for p in self.capture.drain()}
                icmp = 1 if family == "4" else 58
                self.assertIn((icmp, allowed), seen)
                self.assertNotIn((icmp, denied), seen)
                self.assertIn((136, allowed), seen)
                self.assertNotIn((136, denied), seen)

    def test_counts(self):
        """Every number in the report was counted: as many as were tried."""
        with self.agent("--policy", ONLY_A) as agent:
            for _ in range(3):
                self.assert_reaches(agent, vectors.tcp, A4, PORT)
            for _ in range(5):
                self.assert_denied(agent, vectors.tcp, D4, PORT)
            for _ in range(7):
                self.assert_denied(agent, vectors.udp_sendto, D6, PORT)
            status, _ = agent.finish()
            report = agent.phase_report("run")
        self.assertEqual(status, 0)
        self.assertEqual(report["network_mode"], "allowlist")
        self.assertEqual(report["connects"], {"allowed": 3, "denied": 5})
        self.assertEqual(report["sendmsgs"], {"allowed": 0, "denied": 7})
        self.assertGreaterEqual(report["packets"]["allowed"], 3 * 4)
        self.assertEqual(report["packets"]["denied"], 0)


if __name__ == "__main__":
    main()
