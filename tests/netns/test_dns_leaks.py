# SPDX-License-Identifier: Apache-2.0
"""Nothing of a denied name leaves, whatever is asked and however: the nameserver's log stays empty,
and no packet to any port 53 is seen. Each denied probe has an allowed one beside it."""

import itertools
import socket

import dnsmessage
import vectors
from dnslab import NOBODY4, NOBODY6, DnsTest
from dnsmessage import caa, cname, https, mx, ns, ptr, soa, srv, txt
from dnsserver import a
from harness import main, token
from lab import A4, A6, B4, CLIENT4, D4, D6, GATEWAY4, R4, R6, mapped
from phasegate import NO_NETWORK, PUBLIC, allowlist, policy
from recorder import DNS_PORT, PORT

NAME, SECRET = "allowed.example.com", "secret.example.net"
OTHER = "other.example.org"
FORWARDED = ("A", "AAAA", "CNAME", "MX", "TXT", "SRV", "NS", "SOA", "CAA", "HTTPS", "SVCB")
REFUSED = ("ANY", "AXFR", "IXFR")
UNKNOWN = ("TYPE10", "TYPE35", "TYPE99", "TYPE65534")
SERVERS = (NOBODY4, NOBODY6, "127.0.0.11", "127.0.0.53", "::1", mapped(NOBODY4), R4, R6, D4, D6)
WAYS = ({}, {"connected": True}, {"tcp": True}, {"edns": 1232}, {"tcp": True, "edns": 4096})
HINTS = ((1, b"\x02h2"), (3, b"\x01\xbb"), (4, socket.inet_aton(D4)), (5, b"\0\x04abcd"),
         (6, socket.inet_pton(socket.AF_INET6, D6)))
SCTP = 132
RECORDS = (
    a(NAME, A4), a(NAME, A6), mx(NAME, "mail.example.com"), txt(NAME, "text"),
    srv(NAME, "srv.example.com", 443), ns(NAME, "ns.example.com"), soa(NAME),
    caa(NAME, "issue", "ca"), https(NAME, *HINTS), https(NAME, *HINTS, kind="SVCB"),
    dnsmessage.Record(NAME, "TYPE65534", 60, b"opaque"),
    dnsmessage.Record(NAME, "TYPE99", 60, b"x"))


class LeakTest(DnsTest):
    def setUp(self):
        super().setUp()
        self.server.records(NAME, *RECORDS)
        self.server.host(SECRET, D4, D6)
        self.server.host(OTHER, B4)


class Leaks(LeakTest):
    def setUp(self):
        super().setUp()
        self.inside = self.client(policy(run=allowlist(NAME)))

    def test_every_type_and_way_of_a_denied_name(self):
        """The labels in the capture as well, in whatever case."""
        number = itertools.count()
        for kind in (*FORWARDED, "PTR", *REFUSED, *UNKNOWN):
            for server, way in itertools.chain(
                    itertools.product(SERVERS, ({},)), itertools.product((NOBODY4, NOBODY6), WAYS)):
                label = f"Exfil{next(number)}Data"
                reply = self.inside("ask", server, f"{label}.{SECRET}", kind, **way)
                self.assertIn(reply.get("rcode"),
                              ("NXDOMAIN", "REFUSED") if kind in REFUSED else ("NXDOMAIN",),
                              (kind, server, way, reply))
                self.assertEqual(reply["answer"], [])
                self.assertTrue(reply["same"])
        self.assertEqual(self.server.names(), [])
        packets = self.fence()
        self.assertEqual([p for p in packets if b"exfil" in p.payload.lower()], [])
        self.assertEqual([p for p in packets
                          if p.port == DNS_PORT and b"fence" not in p.payload], [])
        for server, way in itertools.product(SERVERS, WAYS):
            self.assert_resolves(self.inside, NAME, A4, A6, server=server, **way)

    def test_types_of_an_allowed_name(self):
        for kind in FORWARDED:
            with self.subTest(kind=kind):
                reply = self.inside("ask", NOBODY4, NAME, kind, edns=1232)
                self.assertEqual(reply["rcode"], "NOERROR")
                self.assertEqual({r[1] for r in reply["answer"]},
                                 set() if kind == "CNAME" else {kind}, reply)
        self.assertEqual(self.asked(), [NAME])

    def test_hints_are_taken_out(self):
        """Addresses in HTTPS and SVCB, which nobody has judged, and the encrypted hello."""
        for kind in ("HTTPS", "SVCB"):
            reply = self.inside("ask", NOBODY4, NAME, kind, edns=1232)
            self.assertEqual([r[3] for r in reply["answer"]],
                             [https(NAME, *HINTS[:2], kind=kind).data.hex()])
        self.assert_refused(self.inside, D4, D6)

    def test_denied_types_of_an_allowed_name(self):
        self.assert_resolves(self.inside, NAME, A4)
        self.server.queries()
        self.capture.drain()
        for kind, way in itertools.product(UNKNOWN, WAYS):
            reply = self.inside("ask", NOBODY4, NAME, kind, **way)
            self.assertEqual((reply["rcode"], reply["answer"]), ("NOERROR", []), (kind, reply))
            self.assertEqual([code for code, _ in reply["ede"]], [17] if "edns" in way else [])
        for kind, way in itertools.product(REFUSED, WAYS):
            reply = self.inside("ask", NOBODY4, NAME, kind, **way)
            self.assertEqual((reply["rcode"], reply["answer"]), ("REFUSED", []), (kind, reply))
        self.assert_nothing_left()

    def test_what_a_denial_says(self):
        for way in WAYS:
            reply = self.assert_denied_name(self.inside, SECRET, **way)
            self.assertEqual([r[1] for r in reply["authority"]], ["SOA"])
            self.assertLessEqual(reply["authority"][0][2], 60)
            self.assertEqual(reply["opt"], "edns" in way)
            self.assertEqual([code for code, _ in reply["ede"]], [17] if "edns" in way else [])
            for _, text in reply["ede"]:
                self.assertIn("policy", text.lower())

    def test_refused_instead(self):
        inside = self.client(policy(run=allowlist(NAME)), "--dns", "denied=refused")
        for way in WAYS:
            self.assert_denied_name(inside, SECRET, rcode="REFUSED", **way)
        self.assert_nothing_left()
        self.assert_resolves(inside, NAME, A4)

    def test_addresses_by_name(self):
        """PTR: of addresses that are allowed."""
        reverse = {address: ".".join(reversed(address.split("."))) + ".in-addr.arpa"
                   for address in (A4, D4)}
        for name in reverse.values():
            self.server.records(name, ptr(name, "host.example.com"))
        self.assert_resolves(self.inside, NAME, A4)
        self.assertEqual(self.inside("ask", NOBODY4, reverse[A4], "PTR")["answer"],
                         [[reverse[A4], "PTR", 60, "host.example.com"]])
        self.server.queries()
        self.capture.drain()
        self.assert_denied_name(self.inside, reverse[D4], "PTR")
        for name in ("exfil." + reverse[A4], "in-addr.arpa", "1.in-addr.arpa",
                     "x.y.ip6.arpa", "300.1.1.1.in-addr.arpa"):
            self.assert_denied_name(self.inside, name, "PTR")
        self.assert_nothing_left()

    def test_other_classes(self):
        for klass in (3, 4, 255, 4242):
            reply = self.inside("ask", NOBODY4, NAME, "TXT", klass=klass)
            self.assertNotEqual(reply.get("rcode"), "NOERROR", reply)
        self.assert_nothing_left()

    def send(self, message):
        return self.inside("send_datagram", NOBODY4, message.hex())

    def test_messages_that_are_no_question(self):
        good = dnsmessage.query(NAME, "A")
        secret = dnsmessage.query(SECRET, "A")
        for message in (
                b"", b"\0", good[:11], good[:-1], good[:20],
                good[:4] + b"\0\2" + good[6:] + secret[12:],     # two questions
                good[:4] + b"\0\0" + good[6:],                   # none
                good[:2] + b"\x81" + good[3:],                   # a reply
                good[:2] + b"\x29" + good[3:],                   # UPDATE
                good[:2] + b"\x21" + good[3:],                   # NOTIFY
                good[:12] + b"\xc0\x0c\0\1\0\1",                 # a pointer to itself
                good[:12] + b"\xff" + good[13:],
                good[:12] + b"\x3f" + b"a" * 10,
                good[:12] + b"\x3f" + b"a" * 63 + (b"\x3f" + b"b" * 63) * 5 + b"\0\0\1\0\1",
                b"\xff" * 512, secret[12:] * 20):
            reply = self.send(message)
            self.assertNotEqual(reply.get("rcode"), "NOERROR", message)
        self.assert_nothing_left()
        self.assertEqual(self.send(good)["addresses"], [A4])

    def test_labels_that_look_like_something_else(self):
        """A dot, a NUL, blanks and what is no letter within a label, below a wildcard as well."""
        inside = self.client(policy(run=allowlist(NAME, "*.wild.example.com")))
        self.server.rule("*.wild.example.com", lambda name, *_: [a(name, A4)])
        wild = dnsmessage.labels("wild.example.com")
        heads, tail = dnsmessage.query("", "A")[:12], b"\0\1\0\1"
        for name in (bytes([len(NAME)]) + NAME.encode() + b"\0",
                     b"\x08allowed." + dnsmessage.labels("example.com"),
                     b"\x0eallowed\0secret" + dnsmessage.labels("example.com"),
                     b"\x07allow\xe9d" + dnsmessage.labels("example.com"),
                     b"\x03a\0b" + wild, b"\x03a.b" + wild, b"\x03a b" + wild, b"\x03a\xffb" + wild,
                     b"\x03a/b" + wild, b"\x03a\\b" + wild, b"\x03a\nb" + wild):
            reply = inside("send_datagram", NOBODY4, (heads + name + tail).hex())
            self.assertIn(reply.get("rcode"), ("NXDOMAIN", "FORMERR", "REFUSED"), (name, reply))
        self.assert_nothing_left()
        for name in ("a-b.wild.example.com", "a_b.c.wild.example.com"):
            self.assert_resolves(inside, name, A4)

    def test_nothing_rides_on_an_allowed_question(self):
        """Case, id, flags, options and what follows the message: none of the client's goes out."""
        option = b"\xfd\xe9\0\x05exfil"
        message = dnsmessage.query("aLLowed.ExamPLE.com", "TXT", number=0x7777, edns=1500,
                                   options=option)
        names = set()
        for flags in (b"\x01\x00", b"\x01\x70", b"\x05\x30"):
            self.server.queries()
            # A new type each time, so that the cache does not answer.
            kind = {b"\x00": "TXT", b"\x70": "MX", b"\x30": "CAA"}[flags[1:]]
            number = dnsmessage.type_number(kind).to_bytes(2, "big")
            end = dnsmessage.parse(message).end
            sent = message[:2] + flags + message[4:end - 4] + number + message[end - 2:] + b"exfil"
            if flags == b"\x01\x00":
                sent = sent[:-5]
            self.send(sent)
            for query in self.server.queries():
                self.assertNotIn(b"exfil", query.message)
                self.assertIn(dnsmessage.labels(NAME), query.message.lower())
                names.add(query.message[12:12 + len(NAME) + 2])
                self.assertEqual(query.message[2:4], b"\x01\x00")
                self.assertNotIn(b"\x05\xdc", query.message[-20:])
        self.assertEqual([p for p in self.fence() if b"exfil" in p.payload.lower()], [])
        # By chance one may have the client's case.
        self.assertNotEqual(names, {message[12:12 + len(NAME) + 2]})
        ids = set()
        for kind in ("NS", "SRV", "SOA"):
            self.inside("ask", NOBODY4, NAME, kind, number=0x7777)
            ids |= {query.message[:2] for query in self.server.queries()}
        self.assertNotEqual(ids, {b"\x77\x77"})

    def test_port_53_of_an_allowed_address(self):
        """An entry opens its address for all ports, but not for this one."""
        inside = self.client(policy(run=allowlist(NAME, A4, A6)))
        for address, way in itertools.product((A4, A6), WAYS):
            self.assert_denied_name(inside, SECRET, server=address, **way)
        self.assert_nothing_left()
        self.assert_connects(inside, A4, A6)

    def assert_raw_is_stopped(self, inside, addresses, protocols):
        for address, protocol in itertools.product(addresses, protocols):
            mark = token("raw")
            self.capture.drain()
            inside("send_raw", address, mark, protocol, DNS_PORT)
            self.assertEqual([p for p in self.fence() if mark.encode() in p.payload], [],
                             (address, protocol))
            inside("send_raw", address, mark, protocol, PORT)
            self.assertTrue([p for p in self.fence() if mark.encode() in p.payload],
                            (address, protocol))

    def test_raw_sockets(self):
        inside = self.client(policy(run=allowlist(NAME, A4, A6)))
        self.assert_raw_is_stopped(inside, (A4, A6),
                                   (socket.IPPROTO_UDP, socket.IPPROTO_TCP, SCTP,
                                    socket.IPPROTO_UDPLITE))

    def test_udplite(self):
        with self.agent("--policy", policy(run=allowlist(NAME, A4)), "--resolver", R4) as agent:
            self.capture.drain()
            for line in ("socket 0 udplite4", f"sendto 0 {A4} {DNS_PORT} exfil",
                         f"connect 0 {A4} {DNS_PORT}", "send 0 exfil", "close 0"):
                agent(line)
            self.assertEqual([p for p in self.fence() if b"exfil" in p.payload], [])
            for line in ("socket 0 udplite4", f"sendto 0 {A4} {PORT} arrives"):
                agent(line)
            self.assertTrue([p for p in self.fence() if b"arrives" in p.payload])

    def test_every_way_to_send(self):
        """Also payload in a SYN, sendmmsg, sockaddrs of another family, a socket bound to eth0."""
        with self.agent("--policy", policy(run=allowlist(NAME, A4)), "--resolver", R4) as agent:
            self.server.queries()
            self.capture.drain()
            for address in (D4, D6, mapped(D4), A4, NOBODY4, NOBODY6):
                to, six = f"{address} {DNS_PORT}", "6" if ":" in address else "4"
                for kind, *lines in (("udp", f"sendto 0 {to} exfil", f"sendmmsg 0 {to} exfil"),
                                     ("udp", f"connect 0 {to}", "send 0 exfil"),
                                     ("tcp", f"fastopen 0 {to} exfil"),
                                     ("tcp", "option 0 fastopen 1", f"connect 0 {to}",
                                      "send 0 exfil"),
                                     ("tcp", f"connect 0 {to}", "send 0 exfil")):
                    for line in (f"socket 0 {kind}{six}", *lines, "close 0"):
                        agent(line)
            for address, (kind, form) in itertools.product(
                    (D4, A4), (("udp6", ""), ("udp4", "unspec:"))):
                for line in (f"socket 0 {kind}", f"sendto 0 {form}{address} {DNS_PORT} exfil",
                             "close 0"):
                    agent(line)
            for line in (f"sendto 0 {A4} {DNS_PORT} exfil", f"connect 0 {A4} {DNS_PORT}",
                         "send 0 exfil"):
                agent("socket 0 udp4")
                agent("option 0 device eth0")
                agent(line)
            self.assertEqual([p for p in self.fence() if b"exfil" in p.payload or
                              p.destination in (D4, D6, NOBODY4, NOBODY6)], [])
            self.assert_nothing_left()
            for vector in vectors.EVERY_FAMILY:
                self.assert_reaches(agent, vector, A4, PORT)

    def test_a_reply_to_port_53(self):
        """Of a flow that was opened from outside, with that port: it goes back there."""
        with self.agent("--policy", policy(run=allowlist(NAME)), "--resolver", R4) as agent:
            agent("socket 0 udp4")
            agent("bind 0 0.0.0.0 8500")

            def ask_from_outside():
                made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                made.settimeout(30)
                made.bind((GATEWAY4, DNS_PORT))
                made.sendto(b"hello", (CLIENT4, 8500))
                return made

            with self.lab.server.call(ask_from_outside) as outside:
                self.assertEqual(agent("recvfrom 0")["data"], "hello")
                self.assertEqual(agent("reply 0 answer")["errno"], "")
                self.assertEqual(outside.recv(100), b"answer")
                # Another socket does not get there.
                agent("socket 1 udp4")
                agent(f"sendto 1 {GATEWAY4} {DNS_PORT} exfil")
            self.assertEqual([p for p in self.fence() if b"exfil" in p.payload], [])

    def test_a_raw_packet_to_the_listener(self):
        """It has another source, so a reply would go there."""
        for address in ("127.0.0.1", "127.0.0.11"):
            self.inside("send_raw", address, "raw", socket.IPPROTO_UDP, DNS_PORT)
        self.assert_nothing_left()


class Phases(LeakTest):
    def test_public(self):
        """Every name may be asked, but only of the trusted nameserver, and not by raw packets."""
        inside = self.client(policy(setup=PUBLIC, run=allowlist(NAME)), "--phase", "setup")
        for server, way in itertools.product((D4, D6, A4, NOBODY4, NOBODY6, "127.0.0.11"), WAYS):
            self.assert_resolves(inside, OTHER, B4, server=server, **way)
        self.assertEqual({p.destination for p in self.dns_packets()} - {R4}, set())
        self.assertIn(OTHER, self.server.names())
        reply = inside("ask", NOBODY4, NAME, "TYPE65534")
        self.assertEqual(reply["answer"], [[NAME, "TYPE65534", 60, b"opaque".hex()]])
        for kind in REFUSED:
            self.assertEqual(inside("ask", NOBODY4, OTHER, kind)["rcode"], "REFUSED")
        Leaks.assert_raw_is_stopped(self, inside, (D4, D6),
                                    (socket.IPPROTO_UDP, socket.IPPROTO_TCP))
        self.assert_connects(inside, D4, D6)

    def test_no_network(self):
        text = policy(setup=PUBLIC, run=allowlist(NAME), verifier=NO_NETWORK)
        inside = self.client(text, "--phase", "verifier")
        for server, way in itertools.product(SERVERS, WAYS):
            if server.startswith("127.") or server == "::1":
                continue  # loopback is the Environment's own: nobody is there
            for name in (NAME, SECRET):
                self.assertEqual(inside("ask", server, name, **way)["errno"], "EPERM",
                                 (server, way))
        self.assert_nothing_left()
        self.assert_refused(inside, A4, A6, D4)

    def test_an_allowlist_without_names_in_a_policy_with_some(self):
        text = policy(setup=allowlist(A4, A6), run=allowlist(NAME), verifier=NO_NETWORK)
        inside = self.client(text, "--phase", "setup")
        for server, way in itertools.product(SERVERS, WAYS):
            for name in (NAME, SECRET):
                self.assert_denied_name(inside, name, server=server, **way)
        self.assert_nothing_left()
        self.assert_connects(inside, A4, A6)

    def test_policies_without_names(self):
        """DNS is traffic like all else."""
        for value in (NO_NETWORK, allowlist(A4, A6)):
            with self.subTest(value=value), \
                    self.agent("--policy", policy(run=value), "--resolver", R4) as agent:
                self.server.queries()
                self.capture.drain()
                for server in (R4, R6, mapped(R4), A4, A6, D4):
                    if server in (A4, A6) and value != NO_NETWORK:
                        continue
                    for vector in (vectors.udp_connected, vectors.udp_sendto, vectors.udp_sendmmsg,
                                   vectors.tcp):
                        self.assert_denied(agent, vector, server, DNS_PORT)
                self.assert_nothing_left()
        with self.agent("--policy", policy(run=PUBLIC)) as agent:
            self.assert_reaches(agent, vectors.udp_sendto, D4, DNS_PORT)

    def test_a_chain_does_not_lead_out(self):
        """What an allowed name is an alias of may be asked, and nothing beside that."""
        self.server.records("www.example.com", cname("www.example.com", "cdn.example.org"))
        self.server.host("cdn.example.org", B4)
        inside = self.client(policy(run=allowlist(NAME, "www.example.com")))
        self.assert_resolves(inside, "www.example.com", B4)
        self.server.queries()
        for name in ("x.cdn.example.org", "example.org", OTHER):
            self.assert_denied_name(inside, name)
        self.assert_nothing_left()
        self.assert_resolves(inside, "cdn.example.org", B4)


if __name__ == "__main__":
    main()
