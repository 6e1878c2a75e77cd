# SPDX-License-Identifier: Apache-2.0
"""How long a learned address is allowed: max(TTL, floor) + grace, and open connections longer."""

import time

from dnslab import NOBODY4, DnsTest
from dnsserver import a
from harness import main, patient, token
from lab import A4, A6, B4, D4
from phasegate import allowlist, policy
from recorder import PORT

WWW, OTHER = "www.example.com", "other.example.com"
# What the kernel rounds, and what a machine takes.
LATE_S = 3


class Lifetime(DnsTest):
    def start(self, *names, floor=1, grace=0, **more):
        return self.client(policy(run=allowlist(*names)), "--dns", f"floor={floor}", "--dns",
                           f"grace={grace}", **more)

    def learn(self, inside, name, kind="A"):
        """The time of the answer."""
        reply = inside("ask", NOBODY4, name, kind)
        self.assertEqual(reply["rcode"], "NOERROR", reply)
        return time.monotonic()

    def test_a_client_that_caches_longer_than_the_ttl(self):
        """TTL 1, floor 2, grace 1: usable for three seconds, and not for long after that."""
        self.server.host(WWW, A4, ttl=1)
        inside = self.start(WWW, floor=2, grace=1)
        asked = time.monotonic()
        learned = self.learn(inside, WWW)
        while time.monotonic() < asked + 2.9:
            outcome = inside("attempt", A4)[A4]
            if time.monotonic() < asked + 2.9:
                self.assertEqual(outcome, "ok", f"{time.monotonic() - learned:.2f} s")
        self.assertLess(self.wait_refused(inside, A4, learned), 3 + patient(LATE_S))
        self.learn(inside, WWW)
        self.assert_connects(inside, A4)

    def test_each_address_has_its_own_ttl(self):
        self.server.rule(WWW, lambda name, kind, _: [a(name, A4, 1), a(name, B4, 60)]
                         if kind == "A" else [])
        inside = self.start(WWW)
        asked = time.monotonic()
        self.learn(inside, WWW)
        self.assert_connects(inside, A4, B4)
        self.assertGreater(self.wait_refused(inside, A4, asked), 0.9)
        self.assert_connects(inside, B4)

    def test_a_long_ttl_is_longer_than_the_floor(self):
        self.server.host(WWW, A4, ttl=3)
        # Not by its name: an answer that the start has got would be some time old.
        inside = self.start("*.example.com")
        asked = time.monotonic()
        learned = self.learn(inside, WWW)
        passed = self.wait_refused(inside, A4, learned)
        self.assertGreater(passed + learned - asked, 2.9)
        self.assertLess(passed, 3 + patient(LATE_S))

    def test_asking_again_prolongs(self):
        self.server.host(WWW, A4, ttl=1)
        inside = self.start(WWW)
        until = time.monotonic() + 3
        while time.monotonic() < until:
            self.learn(inside, WWW)
            self.assertEqual(inside("attempt", A4)[A4], "ok")

    def test_rotating_addresses(self):
        """400 addresses, eight in an answer with TTL 0, 504 connects: none is denied, and those of
        old answers are allowed still."""
        self.server.rule(WWW, lambda name, kind, count: [
            a(name, f"198.18.{(count * 8 + i) % 400 // 200}.{(count * 8 + i) % 200 + 1}", 0)
            for i in range(8)] if kind == "A" else [])
        inside = self.start(WWW, floor=60)
        result = inside("ask_and_connect", NOBODY4, WWW, 63)
        self.assertEqual(result, {"connects": 504, "outcomes": {"ok": 504}})
        everyone = [f"198.18.{i // 200}.{i % 200 + 1}" for i in range(400)]
        self.assertEqual(set(inside("attempt", *everyone).values()), {"ok"})
        self.assertEqual(inside("attempt", "198.18.2.1")["198.18.2.1"], "EPERM")

    def test_a_transfer_that_outlives_the_ttl(self):
        """Segments of open connections pass when a new connect no longer does, UDP as well."""
        self.server.host(WWW, A4, A6, ttl=1)
        inside = self.start(WWW, floor=2)
        self.learn(inside, WWW, "AAAA")
        learned = self.learn(inside, WWW)
        for address in (A4, A6):
            self.assertEqual(inside("open_stream", "tcp" + address, address)["errno"], "")
            self.assertEqual(inside("open_datagrams", "udp" + address, address)["errno"], "")
        for address in (A4, A6):
            self.wait_refused(inside, address, learned)
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            for address in (A4, A6):
                for kind in ("tcp", "udp"):
                    mark = token(kind)
                    self.assertEqual(inside("send", kind + address, mark)["errno"], "")
                    self.assertIsNotNone(self.recorder.wait(mark), (kind, address))
                self.assertEqual(inside("receive", "udp" + address)["data"], mark)
                self.assertEqual(inside("attempt", address)[address], "EPERM")
                self.assertEqual(inside("open_datagrams", "new", address)["errno"], "EPERM")
        self.assertEqual(inside("ask", D4, "x", port=PORT)["errno"], "EPERM")

    def test_two_names_of_one_address(self):
        """It is allowed as long as one of them says so."""
        self.server.host(WWW, A4, ttl=1)
        self.server.host(OTHER, A4, ttl=10)
        self.server.host("third.example.com", B4, ttl=1)
        started = []
        for order in ((WWW, OTHER), (OTHER, WWW)):
            inside = self.start("*.example.com")
            asked = time.monotonic()
            for name in (*order, "third.example.com"):
                self.learn(inside, name)
            started.append((inside, asked))
        for inside, asked in started:
            self.wait_refused(inside, B4, asked)
            self.assert_connects(inside, A4)
        for inside, asked in started:
            self.assertGreater(self.wait_refused(inside, A4, asked), 9.9)

    def test_expired_addresses_make_room(self):
        """More than twice as many as fit at once; the one that is in use stays."""
        self.server.rule("*.fresh.example.com", lambda name, kind, _: [
            a(name, f"198.18.40.{name[1:].split('.')[0]}", 0)] if kind == "A" else [])
        self.server.host(WWW, A4, ttl=0)
        inside = self.client(policy(run=allowlist("*.fresh.example.com", WWW)), "--dns", "floor=2",
                             "--dns", "grace=0", "--dns", "addresses=20")
        self.learn(inside, WWW)
        self.assertEqual(inside("open_stream", "kept", A4)["errno"], "")

        def resolves(number):
            reply = inside("ask", NOBODY4, f"n{number}.fresh.example.com")
            return reply["addresses"]

        for number in range(1, 45):
            addresses, _ = self.wait_for(lambda n=number: resolves(n))
            self.assertEqual(set(inside("attempt", *addresses).values()), {"ok"})
        mark = token("kept")
        inside("send", "kept", mark)
        self.assertIsNotNone(self.recorder.wait(mark))


if __name__ == "__main__":
    main()
