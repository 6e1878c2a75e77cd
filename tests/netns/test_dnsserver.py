# SPDX-License-Identifier: Apache-2.0
"""The scripted nameserver: that it answers, misbehaves and remembers as the tests rely on."""

import socket
import struct
import time

import dnsmessage
from dnsserver import (NXDOMAIN, DnsServer, Reply, a, cname, compression_loop, cut, forged_first,
                       noise, wrong_id, wrong_question)
from harness import LabTest, main
from lab import A4, A6, CLIENT4, CLIENT6, R4, R6


class Server(LabTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = DnsServer(cls.lab)

    def setUp(self):
        self.server.queries()

    def socket(self, address, kind):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        made = self.lab.client.call(lambda: socket.socket(family, kind))
        self.addCleanup(made.close)
        made.settimeout(30)
        made.connect((address, 53))
        return made

    def udp(self, name, kind="A", address=R4, **more):
        asker = self.socket(address, socket.SOCK_DGRAM)
        asker.send(dnsmessage.query(name, kind, **more))
        return asker.recv(65536)

    def tcp(self, stream, name, kind="A"):
        message = dnsmessage.query(name, kind)
        stream.sendall(struct.pack("!H", len(message)) + message)
        with stream.makefile("rb") as file:
            return file.read(int.from_bytes(file.read(2), "big"))

    def test_answers_and_remembers(self):
        self.server.host("a.test", A4, A6, ttl=7)
        self.assertEqual(dnsmessage.read_records(self.udp("a.test")), (0, [a("a.test", A4, 7)]))
        self.assertEqual(dnsmessage.read_records(self.udp("A.Test", "AAAA", R6)),
                         (0, [a("a.test", A6, 7)]))
        stream = self.socket(R6, socket.SOCK_STREAM)
        for _ in range(2):
            self.assertEqual(dnsmessage.read_records(self.tcp(stream, "a.test"))[1],
                             [a("a.test", A4, 7)])
        self.assertEqual([query[:4] for query in self.server.queries()],
                         [("a.test", "A", "udp", CLIENT4), ("a.test", "AAAA", "udp", CLIENT6),
                          ("a.test", "A", "tcp", CLIENT6), ("a.test", "A", "tcp", CLIENT6)])
        self.assertEqual(self.server.queries(), [])

    def test_remembers_what_nobody_waits_for(self):
        stream = self.socket(R6, socket.SOCK_STREAM)
        message = dnsmessage.query("tcp.test", "A")
        stream.sendall(struct.pack("!H", len(message)) + message)
        self.socket(R6, socket.SOCK_DGRAM).send(dnsmessage.query("udp.test", "A"))
        self.socket(R4, socket.SOCK_DGRAM).send(b"no query")
        self.assertCountEqual(self.server.names(), ["tcp.test", "udp.test", "?"])

    def test_no_such_name_and_no_such_type(self):
        self.server.host("four.test", A4)
        for name, kind, rcode in (("none.test", "A", NXDOMAIN), ("four.test", "AAAA", 0)):
            found, records = dnsmessage.read_records(self.udp(name, kind))
            self.assertEqual((found, [r.type for r in records]), (rcode, ["SOA"]))

    def test_chains(self):
        self.server.host("end.test", A4)
        chain = [cname("one.test", "two.test"), cname("two.test", "end.test")]
        for split in (False, True):
            self.server.records("one.test", chain[0], split=split)
            self.server.records("two.test", chain[1])
            self.assertEqual(dnsmessage.read_records(self.udp("one.test"))[1],
                             chain[:1] if split else [*chain, a("end.test", A4)])

    def test_rules(self):
        self.server.fresh("fresh.test")
        self.server.rule("*.move.test", lambda name, _, count: [a(name, f"198.18.0.{count}"),
                                                                a("other.test", A4)])
        self.assertEqual(dnsmessage.read_records(self.udp("n300.fresh.test"))[1],
                         [a("n300.fresh.test", "198.18.1.44")])
        for count in range(3):
            self.assertEqual(dnsmessage.read_records(self.udp("x.y.move.test"))[1][0],
                             a("x.y.move.test", f"198.18.0.{count}"))

    def test_size_limits(self):
        self.server.host("many.test", *(f"198.18.0.{i}" for i in range(40)))
        self.server.rule("tc.test", lambda name, *_: Reply([a(name, A4)], truncated=True))
        for name, limit, whole in (("many.test", None, False), ("many.test", 1232, True),
                                   ("tc.test", 1232, False)):
            message = self.udp(name, edns=limit)
            self.assertEqual(message[2] & 2, 0 if whole else 2)
            self.assertEqual(len(dnsmessage.read_records(message)[1]), 40 if whole else 0)
            stream = self.socket(R4, socket.SOCK_STREAM)
            self.assertTrue(dnsmessage.read_records(self.tcp(stream, name))[1])

    def test_lies(self):
        honest = dnsmessage.query("lie.test", "A")
        lies = {}
        for change in (wrong_id, wrong_question, cut, noise, compression_loop):
            self.server.rule("lie.test", lambda name, *_, c=change: Reply([a(name, A4)], change=c))
            lies[change] = self.udp("lie.test")
            self.assertEqual(lies[change][:2] == honest[:2], change != wrong_id)
        self.assertEqual(dnsmessage.parse(lies[wrong_question]).name, "xie.test")
        with self.assertRaises(ValueError):
            dnsmessage.read_records(lies[compression_loop])
        self.server.rule("lie.test", lambda name, *_: Reply([a(name, A4)],
                                                            change=forged_first(wrong_id)))
        asker = self.socket(R4, socket.SOCK_DGRAM)
        asker.send(honest)
        self.assertNotEqual(asker.recv(512)[:2], honest[:2])
        self.assertEqual(dnsmessage.read_records(asker.recv(512)), (0, [a("lie.test", A4)]))

    def test_silence_and_delay(self):
        self.server.rule("mute.test", lambda *_: Reply(silent=True))
        self.server.rule("slow.test", lambda name, *_: Reply([a(name, A4)], delay=0.3))
        asker = self.socket(R4, socket.SOCK_DGRAM)
        start = time.monotonic()
        asker.send(dnsmessage.query("mute.test", "A"))
        asker.send(dnsmessage.query("slow.test", "A"))
        self.assertEqual(dnsmessage.parse(asker.recv(512)).name, "slow.test")
        self.assertGreaterEqual(time.monotonic() - start, 0.3)


if __name__ == "__main__":
    main()
