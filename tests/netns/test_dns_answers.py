# SPDX-License-Identifier: Apache-2.0
"""What an answer opens, and what it does not."""

from dnslab import NOBODY4, DnsTest
from dnsserver import NXDOMAIN, Reply, a, cname
from harness import main
from lab import A4, A6, B4, D4, D6
from phasegate import allowlist, policy

WWW, CDN, EDGE = "www.example.com", "cdn.example.net", "edge.example.net"
OTHER = "other.example.org"


class AnswerTest(DnsTest):
    def allow(self, *names, options=(), **more):
        return self.client(policy(run=allowlist(*names)), *options, **more)


class Chains(AnswerTest):
    def chain(self, split):
        self.server.records(WWW, cname(WWW, CDN), split=split)
        self.server.records(CDN, cname(CDN, EDGE), split=split)
        self.server.host(EDGE, A4, A6)

    def test_chain(self):
        """In one answer, and in one for each name."""
        for split in (False, True):
            with self.subTest(split=split):
                self.chain(split)
                inside = self.allow(WWW)
                for name in (EDGE, CDN):
                    self.assertNotIn(name, self.asked())
                reply = inside("ask", NOBODY4, WWW)
                self.assertEqual([r[:2] + r[3:] for r in reply["answer"]],
                                 [[WWW, "CNAME", CDN], [CDN, "CNAME", EDGE], [EDGE, "A", A4]])
                found = inside("visit", WWW, "x")
                self.assertEqual({one.get("data") for one in found["connects"].values()}, {"x"})
                self.assertEqual(found["addresses"], sorted([A4, A6]))

    def test_targets_may_be_asked_afterwards(self):
        """As forwarders do that follow a chain on their own."""
        self.chain(False)
        inside = self.allow(WWW)
        inside("ask", NOBODY4, WWW)
        for name in (CDN, EDGE):
            self.assert_resolves(inside, name, A4)
        self.assert_connects(inside, A4)

    def test_loop_and_too_long(self):
        self.server.records(WWW, cname(WWW, CDN), split=True)
        self.server.records(CDN, cname(CDN, WWW), split=True)
        for i in range(20):
            self.server.records(f"n{i}.example.com", cname(f"n{i}.example.com",
                                                          f"n{i + 1}.example.com"), split=True)
        self.server.host("n20.example.com", D4)
        inside = self.allow(WWW, "n0.example.com")
        for name in (WWW, "n0.example.com"):
            reply = inside("ask", NOBODY4, name, limit=20)
            self.assertEqual((reply.get("rcode"), reply.get("addresses")), ("SERVFAIL", []), reply)
        self.assert_refused(inside, D4)
        self.assert_resolves(self.allow("n10.example.com"), "n10.example.com", D4)

    def test_records_beside_the_chain_do_not_count(self):
        def rule(records, **more):
            return lambda name, kind, _: Reply(tuple(records) if kind == "A" else (), **more)

        extra = a(OTHER, D4)
        for records, more, wanted in (
                ([a(WWW, A4), extra], {}, [A4]),
                ([extra, a(WWW, A4)], {}, [A4]),
                ([cname(WWW, CDN), extra, a(CDN, A4)], {}, [A4]),
                ([cname(OTHER, CDN), a(CDN, D4), a(WWW, A4)], {}, [A4]),
                ([a(WWW, A4)], {"additional": (a(WWW, D4),)}, [A4]),
                ([a(WWW, A4)], {"authority": (a(WWW, D4),)}, [A4]),
                ([a(WWW, A4), a("x." + WWW, D4)], {}, [A4]),
                ([extra], {}, [])):
            with self.subTest(records=records):
                self.server.rule(WWW, rule(records, **more))
                inside = self.allow(WWW)
                reply = inside("ask", NOBODY4, WWW)
                self.assertEqual(reply["addresses"], wanted, reply)
                self.assert_refused(inside, D4)
                if wanted:
                    self.assert_connects(inside, A4)
        self.assertNotIn(OTHER, self.asked())

    def test_the_other_type_in_the_answer(self):
        """An AAAA that nobody asked for."""
        self.server.rule(WWW, lambda name, kind, _: [a(name, A4), a(name, D6)]
                         if kind == "A" else [])
        inside = self.allow(WWW)
        inside("ask", NOBODY4, WWW)
        self.assert_connects(inside, A4)
        self.assert_refused(inside, D6)


class Names(AnswerTest):
    def test_case(self):
        """The reply has the client's."""
        self.server.host(WWW, A4)
        for entry, name in ((WWW, "wWw.ExAmPle.COM"), ("WWW.Example.com", WWW)):
            inside = self.allow(entry)
            reply = inside("ask", NOBODY4, name)
            self.assertTrue(reply["same"], reply)
            self.assertEqual(reply["addresses"], [A4])

    def test_final_dot(self):
        self.server.host(WWW, A4, A6)
        inside = self.allow(WWW + ".")
        for name in (WWW, WWW + "."):
            self.assertEqual(inside("lookup", name)["addresses"], sorted([A4, A6]))

    def test_search_list(self):
        """ndots:5, as in a Kubernetes pod: what the list makes of the name leaves nothing."""
        self.server.host(WWW, A4, A6)
        inside = self.allow(WWW)
        self.resolv_conf(f"nameserver {NOBODY4}", "options ndots:5",
                         "search default.svc.cluster.local svc.cluster.local cluster.local")
        self.assertEqual(inside("lookup", WWW)["addresses"], sorted([A4, A6]))
        self.assertEqual(set(self.asked()) - {WWW}, set())
        self.assertEqual(inside("lookup", OTHER)["error"], "EAI_NONAME")
        self.assertEqual(self.server.names(), [])

    def test_ends_of_names(self):
        self.server.rule("*.test", lambda name, *_: [a(name, A4)])
        self.server.rule("*.evil", lambda name, *_: [a(name, D4)])
        denied = ("notgithub.test", "github.test.evil.test", "github.test.evil", "hub.test", "test",
                  "github.tes", "github.testx", "xgithub.test", "github-test")
        inside = self.allow("github.test")
        for name in (*denied, "a.github.test", "www.github.test"):
            self.assert_denied_name(inside, name)
        self.assert_nothing_left()
        self.assert_resolves(inside, "github.test", A4)
        inside = self.allow("*.github.test")
        for name in (*denied, "github.test", "a.notgithub.test", "a.github.test.evil.test"):
            self.assert_denied_name(inside, name)
        self.assert_nothing_left()
        for name in ("a.github.test", "a.b.github.test", "a.b.c.d.e.f.github.test"):
            self.assert_resolves(inside, name, A4)
        self.assertEqual(self.asked(), ["a.b.c.d.e.f.github.test", "a.b.github.test",
                                        "a.github.test"])
        self.assert_connects(inside, A4)

    def test_localhost(self):
        """By definition, whatever is allowed: nobody is asked."""
        for names in (("localhost", WWW), (WWW,)):
            inside = self.allow(*names)
            self.assert_resolves(inside, "localhost", "127.0.0.1", "::1")
            self.assertNotIn("localhost", self.asked())

    def test_hosts_file(self):
        hosts = self.file("hosts", f"# gateway\n{A4}\thost.docker.internal gateway\n{D4} {OTHER}\n"
                                   f"{A6} host.docker.internal\n")
        inside = self.allow("host.docker.internal", options=("--hosts", hosts))
        self.assert_resolves(inside, "host.docker.internal", A4, A6)
        self.assert_denied_name(inside, OTHER)
        self.assert_denied_name(inside, "gateway")
        self.assert_nothing_left()
        self.assert_connects(inside, A4, A6)
        self.assert_refused(inside, D4)

    def test_a_private_address_of_the_hosts_file(self):
        """private=deny is about what DNS teaches; the file is the operator's own word."""
        hosts = self.file("hosts", "10.1.2.3 gateway.example.com\n")
        self.server.host(WWW, "10.1.2.4")
        inside = self.allow("gateway.example.com", WWW, options=("--hosts", hosts, "--dns",
                                                                 "private=deny"))
        for name in ("gateway.example.com", WWW):
            inside("ask", NOBODY4, name)
        self.assertNotEqual(inside("attempt", "10.1.2.3")["10.1.2.3"], "EPERM")
        self.assertEqual(inside("attempt", "10.1.2.4")["10.1.2.4"], "EPERM")
        messages, _ = self.wait_for(lambda: inside.warnings("not_learned"))
        self.assertEqual({message.split()[0] for message in messages}, {WWW})

    def test_wildcard_budget(self):
        self.server.rule("*.example.com", lambda name, *_: [a(name, A4)])
        self.server.host(OTHER, B4)
        inside = self.allow("*.example.com", OTHER, options=("--dns", "wildcard-budget=5"))
        names = [f"n{i}.example.com" for i in range(12)]
        replies = [inside("ask", NOBODY4, name, edns=1232) for name in names]
        self.assertEqual([r["rcode"] == "NOERROR" for r in replies], [True] * 5 + [False] * 7)
        self.assertEqual(self.asked(), sorted(names[:5]))
        self.assert_resolves(inside, names[0], A4)
        self.assert_resolves(inside, OTHER, B4)
        self.assertEqual(len(inside.warnings("wildcard_budget")), 1)
        self.assertIn("example.com", inside.warnings("wildcard_budget")[0])

    def test_names_that_do_not_exist_open_nothing(self):
        self.server.records("empty.example.com")
        inside = self.allow("missing.example.com", "empty.example.com")
        for name, rcode in (("missing.example.com", "NXDOMAIN"), ("empty.example.com", "NOERROR")):
            reply = inside("ask", NOBODY4, name)
            self.assertEqual((reply["rcode"], reply["answer"]), (rcode, []))
        self.assert_refused(inside, A4, A6, D4, D6)
        self.assertTrue(any("missing.example.com" in message
                            for message in inside.warnings("unresolved")), inside.stderr)

    def test_no_such_name_with_addresses(self):
        """NXDOMAIN with an address in it is a lie."""
        self.server.rule(WWW, lambda name, *_: Reply((a(name, D4),), rcode=NXDOMAIN))
        inside = self.allow(WWW)
        inside("ask", NOBODY4, WWW)
        self.assert_refused(inside, D4)


class Addresses(AnswerTest):
    BOGUS = ("127.0.0.1", "127.8.8.8", "169.254.169.254", "0.0.0.0", "224.0.0.251",
             "255.255.255.255", "::1", "::", "fe80::1", "ff02::fb", "::ffff:169.254.169.254",
             "::ffff:127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "::169.254.169.254")

    def test_bogus_addresses_are_not_learned(self):
        """127.0.0.1 is open inside of an Environment as it is; but not for others' servers."""
        self.unconfined("socket 20 tcp4")
        self.unconfined("bind 20 127.0.0.1 7000")
        self.unconfined("listen 20")
        self.addCleanup(lambda: self.unconfined("close 20"))
        for number, address in enumerate(self.BOGUS):
            good = A6 if ":" in address else A4
            self.server.host(f"n{number}.example.com", address, good)
        inside = self.allow("*.example.com")
        for number, address in enumerate(self.BOGUS):
            inside("ask", NOBODY4, f"n{number}.example.com", "AAAA" if ":" in address else "A")
        for address in self.BOGUS:
            if address in ("127.8.8.8", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1"):
                continue  # loopback, where nobody is
            self.assertEqual(inside("attempt", address)[address],
                             "EPERM", address)
        self.assert_connects(inside, A4, A6)

    def test_private_addresses(self):
        """Learned by default; not with private=deny. An entry of the policy opens them still."""
        private = ("10.1.2.3", "172.16.5.6", "192.168.7.8", "100.64.0.1", "fd00::1")
        names = [f"n{i}.example.com" for i in range(len(private))]
        for name, address in zip(names, private):
            self.server.host(name, address)
        for options, wanted in (((), True), (("--dns", "private=learn"), True),
                                (("--dns", "private=deny"), False)):
            with self.subTest(options=options):
                inside = self.allow("*.example.com", "192.168.7.8", options=options)
                for name, address in zip(names, private):
                    reply = inside("ask", NOBODY4, name, "AAAA" if ":" in address else "A")
                    outcome = inside("attempt", address)[address]
                    if wanted or address == "192.168.7.8":
                        self.assertNotEqual(outcome, "EPERM", address)
                    else:
                        self.assertEqual(outcome, "EPERM", (address, reply))

    def test_an_address_of_two_names(self):
        """Address-based enforcement cannot tell them apart: it is said."""
        self.server.host(WWW, A4)
        self.server.host(OTHER, A4)
        text = policy(setup="public", run=allowlist(WWW))
        inside = self.client(text, "--phase", "setup")
        self.assert_resolves(inside, WWW, A4)
        self.assertEqual(inside.warnings("shared_address"), [])
        for _ in range(2):
            self.assert_resolves(inside, OTHER, A4)
        messages, _ = self.wait_for(lambda: inside.warnings("shared_address"))
        self.assertEqual(len(messages), 1)
        for word in (A4, WWW, OTHER):
            self.assertIn(word, messages[0])

    def test_more_addresses_than_are_wanted(self):
        """An answer whose addresses have no room is no answer, and none of the old ones goes."""
        self.server.rule("*.example.com", lambda name, kind, _: [
            a(name, f"198.18.{name[1:].split('.')[0]}.{i}", 600) for i in range(1, 9)]
            if kind == "A" else [])
        inside = self.allow("*.example.com", options=("--dns", "addresses=20"))
        replies = [inside("ask", NOBODY4, f"n{i}.example.com") for i in range(4)]
        self.assertEqual([r["rcode"] for r in replies],
                         ["NOERROR", "NOERROR", "SERVFAIL", "SERVFAIL"])
        self.assertTrue(inside.warnings("learned_full"))
        for i in range(2):
            self.assertEqual(set(inside("attempt", *replies[i]["addresses"]).values()), {"ok"})
        self.assertEqual(set(inside("attempt", *(f"198.18.3.{i}" for i in range(1, 9))).values()),
                         {"EPERM"})


class Economy(AnswerTest):
    def test_cache(self):
        self.server.host(WWW, A4, ttl=60)
        inside = self.allow(WWW, "*.example.org")
        inside("ask", NOBODY4, WWW)
        self.server.queries()
        reply = inside("ask", NOBODY4, WWW)
        self.assertEqual(reply["addresses"], [A4])
        self.assertLessEqual(reply["answer"][0][2], 60)
        for _ in range(3):
            self.assertEqual(inside("ask", NOBODY4, "missing.example.org")["rcode"], "NXDOMAIN")
        self.assertEqual(self.server.names(), ["missing.example.org"])

    def test_ttl_0_is_not_cached(self):
        self.server.rule(WWW, lambda name, kind, count: [a(name, f"198.18.9.{count}", 0)]
                         if kind == "A" else [])
        inside = self.allow(WWW)
        seen = set()
        for _ in range(5):
            reply = inside("ask", NOBODY4, WWW)
            seen |= set(reply["addresses"])
            self.assertEqual(set(inside("attempt", *reply["addresses"]).values()), {"ok"})
        self.assertEqual(len(seen), 5)
        self.assertEqual(set(inside("attempt", *seen).values()), {"ok"})

    def test_one_question_for_all_who_ask_it(self):
        self.server.rule("*.example.com", lambda name, *_: Reply((a(name, A4),), delay=0.3))
        inside = self.allow("*.example.com")
        replies = inside("ask_many", [NOBODY4], ["a.example.com"] * 30)
        self.assertEqual({tuple(r["addresses"]) for r in replies}, {(A4,)})
        self.assertEqual(self.server.names(), ["a.example.com"])


if __name__ == "__main__":
    main()
