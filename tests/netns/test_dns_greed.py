# SPDX-License-Identifier: Apache-2.0
"""Zones that answer with thousands of addresses: other names find room and time all the same."""

import time

from dnslab import NOBODY4, DnsTest
from dnsserver import Reply, a
from harness import main
from lab import A4
from phasegate import allowlist, policy

API = "api.example.com"
KEPT = 256  # PG_ANSWER_ADDRESSES_MAX


def addresses(first, count):
    """Of the network of which the far end has all."""
    return [f"198.{18 + (i >> 16)}.{i >> 8 & 255}.{i & 255}" for i in range(first, first + count)]


class Greed(DnsTest):
    def greedy(self, name, count, ttl=0):
        """Answers with addresses that no answer had before."""
        state = {"next": 0x10000}

        def answer(asked, kind, _):
            if kind != "A":
                return []
            state["next"] += count
            return Reply(tuple(a(asked, one, ttl)
                               for one in addresses(state["next"] - count, count)), truncated=True)
        self.server.rule(name, answer)

    def rotating(self, name):
        self.server.rule(name, lambda asked, kind, count: [a(asked, f"198.18.7.{count % 250 + 1}",
                                                             0)] if kind == "A" else [])

    def ask_big(self, inside, name):
        return inside("ask", NOBODY4, name, tcp=True, limit=10)

    def assert_api(self, inside, times):
        """Each time with a new address."""
        seen = set()
        for _ in range(times):
            reply = inside("ask", NOBODY4, API)
            self.assertEqual((reply.get("rcode"), len(reply["addresses"])), ("NOERROR", 1), reply)
            self.assertEqual(inside("attempt", *reply["addresses"]), {reply["addresses"][0]: "ok"})
            seen.update(reply["addresses"])
        self.assertEqual(len(seen), times)

    def assert_full(self, inside, *entries):
        """One warning for each entry, whatever its name."""
        messages = inside.warnings("learned_full")
        self.assertEqual(len(messages), len(entries), messages)
        for entry in entries:
            self.assertTrue(any(entry in message for message in messages), messages)

    def test_an_answer_is_cut(self):
        """Whoever asks never gets an address that is not opened."""
        self.server.rule("big.example.com", lambda name, kind, _: Reply(tuple(
            a(name, one) for one in addresses(0x11000, 3000)), truncated=True)
            if kind == "A" else [])
        inside = self.client(policy(run=allowlist("big.example.com")))
        reply = self.ask_big(inside, "big.example.com")
        self.assertEqual(reply["rcode"], "NOERROR", reply)
        self.assertEqual(sorted(reply["addresses"]), sorted(addresses(0x11000, KEPT)))
        self.assertEqual(set(inside("attempt", *reply["addresses"]).values()), {"ok"})
        beyond = addresses(0x11000 + KEPT, 3)
        self.assertEqual(set(inside("attempt", *beyond).values()), {"EPERM"})

    def test_hosts_that_take_all(self):
        self.rotating(API)
        names = ("n1.evil.test", "n2.evil.test")
        for name in names:
            self.greedy(name, KEPT)
        inside = self.client(policy(run=allowlist(API, *names)), "--dns", "floor=600")
        for name in names:
            rcodes = [self.ask_big(inside, name)["rcode"] for _ in range(8)]
            self.assertEqual(rcodes[:3], ["NOERROR"] * 3)
            self.assertEqual(rcodes[-3:], ["SERVFAIL"] * 3)
        self.assert_api(inside, 5)
        self.assert_full(inside, *names)

    def test_a_wildcard_that_takes_all(self):
        """In a table that is small, so that it comes to its end."""
        self.rotating(API)
        self.greedy("*.evil.test", KEPT)
        inside = self.client(policy(run=allowlist(API, "*.evil.test")), "--dns", "floor=600",
                             "--dns", "addresses=2000")
        rcodes = [self.ask_big(inside, f"n{i}.evil.test")["rcode"] for i in range(10)]
        self.assertEqual((rcodes[0], rcodes[-1]), ("NOERROR", "SERVFAIL"), rcodes)
        self.assert_api(inside, 5)
        self.assert_full(inside, "*.evil.test")

    def test_many_names_of_the_same_addresses(self):
        """What a known name costs does not depend on how many have its addresses."""
        self.server.host(API, A4)
        self.server.rule("*.evil.test", lambda name, kind, _: Reply(tuple(
            a(name, one, 86400) for one in addresses(0x11000, KEPT)), truncated=True)
            if kind == "A" else [])
        inside = self.client(policy(run=allowlist(API, "*.evil.test")))
        for i in range(300):
            self.assertEqual(self.ask_big(inside, f"n{i}.evil.test")["rcode"], "NOERROR")
        times = [self.ask_big(inside, f"n{i}.evil.test")["ms"] for i in range(40)]
        inside("flood", NOBODY4, "n0.evil.test", 5000, 1)
        started = time.monotonic()
        reply = inside("ask", NOBODY4, API, tcp=True, limit=10)
        passed = time.monotonic() - started
        print(f"a known name {sorted(times)[20]:.1f} ms, another one after a flood {passed:.3f} s",
              flush=True)
        self.assertEqual(reply.get("addresses"), [A4], reply)
        self.assertLess(passed, 1)
        self.assertLess(sorted(times)[20], 100)


if __name__ == "__main__":
    main()
