# SPDX-License-Identifier: Apache-2.0
"""Upstream and clients at their worst: others keep resolving, and the report shows it."""

import os
import re
import resource
import time

from dnslab import NOBODY4, NOBODY6, DnsTest
from dnsserver import (DnsServer, Reply, a, compression_loop, forged_first, noise, wrong_id,
                       wrong_question)
from harness import main
from lab import A4, A6, D4, R4
from phasegate import allowlist, policy

WWW, OTHER, SECRET = "www.example.com", "other.example.com", "secret.example.net"
# Nobody has this address; the far end drops what comes for it.
DEAD = "198.51.100.99"


def cut(message):
    """Within the answer's address: its OPT record, at the end, has 11 octets."""
    return message[:-13]


class FailureTest(DnsTest):
    def setUp(self):
        super().setUp()
        self.server.host(WWW, A4, A6)
        self.server.host(OTHER, A4)
        self.server.host(SECRET, D4)


class Upstream(FailureTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.lab.server.ip(f"route add blackhole {DEAD}/32")

    def test_dead(self):
        """SERVFAIL in the end, and denied names are answered at once meanwhile."""
        inside = self.client(policy(run=allowlist("*.example.com")), resolver=DEAD)
        reply = inside("ask", NOBODY4, WWW, limit=20)
        self.assertEqual(reply.get("rcode"), "SERVFAIL", reply)
        self.assertLess(reply["ms"], 10_000)
        self.assertLess(self.assert_denied_name(inside, SECRET)["ms"], 1000)
        self.assert_refused(inside, A4)
        self.assertGreater(inside.end()["dns"]["failed"], 0)

    def test_first_of_two_dead(self):
        inside = self.client(policy(run=allowlist(WWW, "*.example.org")), "--resolver", R4,
                             resolver=DEAD)
        self.server.rule("*.example.org", lambda name, *_: [a(name, A4)])
        replies = [inside("ask", NOBODY4, f"n{i}.example.org", limit=10) for i in range(5)]
        self.assertEqual({r.get("rcode") for r in replies}, {"NOERROR"}, replies)
        self.assertLess(max(r["ms"] for r in replies), 4000)
        self.assertLess(replies[-1]["ms"], 1000)

    def test_slow(self):
        """Two seconds: it is waited for, and quick names are not."""
        inside = self.client(policy(run=allowlist(WWW, "*.example.org")))
        self.server.rule("*.example.org", lambda name, *_: [a(name, A4)])
        other = self.client(policy(run=allowlist("*.example.org")))
        self.server.rule("slow.example.org", lambda name, kind, _: Reply(
            (a(name, A4),) if kind == "A" else (), delay=2))
        inside("open_datagrams", "slow", NOBODY4, 53)
        started = time.monotonic()
        inside("send_question", "slow", "slow.example.org")
        for number, client in enumerate((inside, other) * 2):
            reply = client("ask", NOBODY4, f"n{number}.example.org")
            self.assertEqual(reply["rcode"], "NOERROR")
        self.assertLess(time.monotonic() - started, 1.9)
        reply = inside("receive_answer", "slow")
        self.assertEqual(reply.get("addresses"), [A4], reply)
        self.assertGreater(time.monotonic() - started, 1.9)

    def test_lies(self):
        """Alone they are no answer and teach nothing; before the honest one they do no harm."""
        rules = (wrong_id, wrong_question, cut, noise, compression_loop)
        inside = self.client(policy(run=allowlist("*.example.com", "*.example.org")))
        for change in rules:
            self.server.rule(f"{change.__name__.replace('_', '-')}.example.com",
                             lambda name, *_, c=change: Reply((a(name, D4),), change=c))
            self.server.rule(f"{change.__name__.replace('_', '-')}.example.org",
                             lambda name, kind, count, c=change: Reply(
                                 (a(name, A4),), change=forged_first(c) if count == 0 else None))
        names = [change.__name__.replace("_", "-") for change in rules]
        started = time.monotonic()
        replies = inside("ask_many", [NOBODY4], [f"{name}.example.com" for name in names], limit=20)
        for reply in replies:
            self.assertEqual((reply["rcode"], reply["answer"]), ("SERVFAIL", []), reply)
        self.assertLess(time.monotonic() - started, 10)
        self.assert_refused(inside, D4)
        for name in names:
            reply = inside("ask", NOBODY4, f"{name}.example.org", limit=10)
            self.assertEqual(reply.get("addresses"), [A4], reply)
        self.assert_resolves(inside, WWW, A4)

    def test_refusing(self):
        for rcode in (1, 2, 4, 5):
            self.server.rule(f"r{rcode}.example.com", lambda *_, r=rcode: Reply(rcode=r))
        inside = self.client(policy(run=allowlist("*.example.com")))
        for rcode in (1, 2, 4, 5):
            reply = inside("ask", NOBODY4, f"r{rcode}.example.com", limit=10)
            self.assertIn(reply.get("rcode"), ("SERVFAIL", "REFUSED"), reply)
        self.assert_resolves(inside, WWW, A4)

    def test_comes_back(self):
        """A nameserver that was not there when the Environment started."""
        inside = self.client(policy(run=allowlist(WWW)), resolver=f"{R4}:5399")
        self.assertEqual(inside("ask", NOBODY4, WWW, limit=20).get("rcode"), "SERVFAIL")
        late = DnsServer(self.lab, port=5399)
        late.host(WWW, A4)
        self.wait_for(lambda: inside("ask", NOBODY4, WWW, limit=10).get("addresses") == [A4])
        self.assert_connects(inside, A4)


class Clients(FailureTest):
    def memory(self, pid, field="VmRSS"):
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return int(re.search(rf"{field}:\s+(\d+) kB", file.read()).group(1))

    def test_flood(self):
        """10,000 questions a second, allowed and denied, from one Environment."""
        self.server.rule("*.example.com", lambda name, *_: [a(name, A4)])
        text = policy(run=allowlist("*.example.com"))
        options = ("--dns", "wildcard-budget=1000000")
        flooding, other = self.client(text, *options), self.client(text, *options)
        before = self.memory(flooding.pid)
        for pattern in ("n{}.example.com", "n{}.example.net"):
            flooding.post("flood", NOBODY4, pattern, 10_000, 1.5)
            slowest = 0
            for number in range(40):
                reply = other("ask", NOBODY4, f"{pattern[-3:]}{number}.example.com")
                self.assertEqual(reply.get("rcode"), "NOERROR", reply)
                slowest = max(slowest, reply["ms"])
            result = flooding.answer()
            print(f"flood of {pattern}: {result['rate']:.0f}/s; the slowest answer to another"
                  f" Environment {slowest:.1f} ms", flush=True)
            self.assertLess(slowest, 1000)
            self.assertGreater(result["rate"], 5_000)
        grown = self.memory(flooding.pid, "VmHWM") - before
        self.assertLess(grown, 128 << 10)
        self.wait_for(lambda: flooding("ask", NOBODY4, WWW, limit=2).get("rcode") == "NOERROR")
        report = flooding.end()["dns"]
        self.assertGreater(report["queries"], 5_000)
        self.assertGreater(report["denied"], 1_000)
        self.assertEqual(report["queries"], sum(report[field] for field in (
            "answered", "denied", "failed", "overload")), report)

    def test_few_descriptors(self):
        """A client opens more connections than Phasegate has descriptors for: 20 more than it had
        at the start, and none at all (RLIMIT_NOFILE 64, of which it has used more)."""
        for limit in (20, None):
            with self.subTest(limit=limit):
                inside = self.client(policy(run=allowlist(WWW, "*.example.org")))
                self.server.rule("*.example.org", lambda name, *_: [a(name, A4)])
                other = self.client(policy(run=allowlist("*.example.org")))
                self.assert_resolves(inside, "first.example.org", A4)
                used = max(int(fd) for fd in os.listdir(f"/proc/{inside.pid}/fd"))
                most = resource.prlimit(inside.pid, resource.RLIMIT_NOFILE)[1]
                resource.prlimit(inside.pid, resource.RLIMIT_NOFILE,
                                 (used + limit if limit else 64, most))
                opened = inside("open_idle", NOBODY4, 150)["open"]
                self.assertGreater(opened, 64)
                # What is known is answered still, what is not at least at once.
                self.assert_resolves(inside, "first.example.org", A4)
                self.assert_denied_name(inside, SECRET)
                reply = inside("ask", NOBODY4, f"n{limit}.example.org", limit=10)
                self.assertIn(reply.get("rcode"), ("NOERROR", "SERVFAIL"), reply)
                self.assert_resolves(other, f"n{limit}.example.org", A4)
                self.assert_resolves(other, f"tcp{limit}.example.org", A4, tcp=True)
                for number in range(opened):
                    inside("close", f"idle{number}")
                resource.prlimit(inside.pid, resource.RLIMIT_NOFILE, (most, most))
                for way in ({}, {"tcp": True}):
                    self.wait_for(lambda i=inside, w=way: i("ask", NOBODY4, "t.example.org",
                                                            limit=2, **w).get("addresses") == [A4])

    def test_idle_connections_make_room(self):
        """More than there may be at once: the next one is served all the same."""
        inside = self.client(policy(run=allowlist(WWW)))
        self.assertEqual(inside("open_idle", NOBODY4, 150), {"open": 150, "errno": ""})
        for server in (NOBODY4, NOBODY6):
            self.assert_resolves(inside, WWW, A4, A6, server=server, tcp=True)

    def test_destroyed_listener(self):
        """With NET_ADMIN inside, ss -K ends the sockets that Phasegate listens with."""
        inside = self.client(policy(run=allowlist(WWW)))
        for words in (("-u", "-a"), ("-t", "-a"), ("-u", "-t", "-a")):
            with self.subTest(words=words):
                self.assert_resolves(inside, WWW, A4, A6)
                result = inside("run", "ss", "-K", *words)
                self.assertEqual(result["status"], 0, result)
                for way in ({}, {"tcp": True}, {"connected": True}):
                    for server in (NOBODY4, NOBODY6):
                        self.wait_for(lambda w=way, s=server: inside(
                            "ask", s, WWW, limit=1, **w).get("addresses") == [A4])
                self.assert_denied_name(inside, SECRET)
        self.assertTrue(inside.warnings("listener_lost"), inside.stderr)


if __name__ == "__main__":
    main()
