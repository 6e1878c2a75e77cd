# SPDX-License-Identifier: Apache-2.0
"""Base of the DNS tests: a lab with a scripted nameserver, and a client that knows DNS inside."""

import contextlib
import json
import os
import tempfile
import time
import types

from dnsserver import DnsServer
from harness import NetTest
from lab import R4
from phasegate import BINARY, Run
from recorder import DNS_PORT, SYN, TCP, UDP

PYTHON = "/usr/bin/python3"
DNSCLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "dnsclient.py")
# A nameserver that nobody is: what the client asks is redirected, so any will do.
NOBODY4, NOBODY6 = "203.0.113.53", "2001:db8:d::53"
EXPIRY_LIMIT_S = 30


class Client(Run):
    """dnsclient.py under `phasegate run`: client("ask", server, name) calls its function.
    through and before: words that execute the words after them, those outside of the Environment
    and these inside."""

    def __init__(self, lab, *options, conf, through=(), before=()):
        super().__init__(lab, command=[
            *through, BINARY, "run", "--json", "--keep", "all", *options, "--", *before,
            *with_resolv_conf(conf, PYTHON, DNSCLIENT)])
        self("pid")

    def __call__(self, function, *args, **more):
        self.post(function, *args, **more)
        return self.answer()

    def post(self, function, *args, **more):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps([function, args, more]).encode() + b"\n")
            self.process.stdin.flush()

    def answer(self):
        return json.loads(self.line())

    def warnings(self, code):
        return [event["message"] for event in self.events
                if event["event"] == "warning" and event["code"] == code]

    def end(self, phase="run"):
        """Ends the client; the report of its phase."""
        status, _ = self.finish()
        assert status == 0, self.stderr
        return self.phase_report(phase)


def with_resolv_conf(path, *words):
    """A command line that executes words where /etc/resolv.conf is the file."""
    return ["unshare", "--mount", "sh", "-c",
            'touch /etc/resolv.conf && mount --bind "$0" /etc/resolv.conf && exec "$@"', path,
            *words]


class DnsTest(NetTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = DnsServer(cls.lab)
        # The far end has every address of the benchmarking network (RFC 2544).
        cls.lab.server.ip("route add local 198.18.0.0/15 dev lo")

    def setUp(self):
        super().setUp()
        self.conf = self.file("resolv.conf")
        self.resolv_conf(f"nameserver {NOBODY4}")
        self.server.forget_all()
        self.server.queries()

    def nameserver(self, addresses, port=53, namespace=None):
        """Another one, as long as the test; on the client's side, or in the namespace."""
        namespace = namespace or self.lab.client
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        return DnsServer(types.SimpleNamespace(client=namespace, server=namespace, stack=stack),
                         addresses, port)

    def file(self, name, text=""):
        """A file with the text; it lives as long as the test."""
        file = tempfile.NamedTemporaryFile("w", suffix="." + name)
        self.addCleanup(file.close)
        file.write(text)
        file.flush()
        return file.name

    def resolv_conf(self, *lines):
        """For clients to come and for those that run: the file stays the same one."""
        with open(self.conf, "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")

    def client(self, document, *options, resolver=R4, **more):
        """With what its start asks of the nameserver forgotten."""
        resolvers = ["--resolver", resolver] if resolver else []
        client = Client(self.lab, "--policy", document, *resolvers, *options, conf=self.conf,
                        **more)
        self.addCleanup(client.close)
        self.server.queries()
        self.capture.drain()
        return client

    def assert_resolves(self, client, name, *addresses, server=NOBODY4, **more):
        """The question has these addresses for an answer, from whom it was asked."""
        for kind in ("A", "AAAA"):
            wanted = sorted(one for one in addresses if (":" in one) == (kind == "AAAA"))
            if wanted:
                reply = client("ask", server, name, kind, **more)
                self.assertEqual((reply.get("rcode"), reply.get("addresses")), ("NOERROR", wanted),
                                 (name, reply))
                self.assertTrue(reply["same"], reply)
                self.assertEqual((reply["from"], reply["peer"]), ([server, DNS_PORT],) * 2)

    def assert_denied_name(self, client, name, kind="A", server=NOBODY4, rcode="NXDOMAIN", **more):
        reply = client("ask", server, name, kind, **more)
        self.assertEqual((reply.get("rcode"), reply.get("answer")), (rcode, []), (name, reply))
        self.assertTrue(reply["same"], reply)
        return reply

    def assert_connects(self, client, *addresses):
        for address in addresses:
            self.assertEqual(client("connect", address, "hello").get("data"), "hello", address)

    def assert_refused(self, client, *addresses):
        for address in addresses:
            result = client("connect", address, "hello")
            self.assertEqual(result["errno"], "EPERM", (address, result))
            self.assertLess(result["us"], 50_000)

    def dns_packets(self):
        """To any address's port 53, other than the fences of the nameserver."""
        return [packet for packet in self.fence()
                if packet.port == DNS_PORT and b"fence" not in packet.payload and
                (packet.protocol == UDP or
                 packet.protocol == TCP and (packet.size or packet.flags & SYN))]

    def assert_nothing_left(self):
        """Since the last drain: no query has come, and no packet to any port 53."""
        self.assertEqual(self.server.names(), [])
        self.assertEqual(self.dns_packets(), [])

    def asked(self):
        """The names that the nameserver was asked for since the last call, each once."""
        return sorted(set(self.server.names()))

    def wait_for(self, condition, limit=EXPIRY_LIMIT_S, about="it does not come"):
        """Asks until it is so; what it said, and how long that took."""
        started = time.monotonic()
        while True:
            result = condition()
            passed = time.monotonic() - started
            if result:
                return result, passed
            if passed > limit:
                raise AssertionError(about)
            time.sleep(0.02)

    def wait_refused(self, client, address, since, limit=EXPIRY_LIMIT_S):
        """Seconds from `since` until the address is no longer allowed."""
        self.wait_for(lambda: client("attempt", address)[address] == "EPERM", limit,
                      f"{address} does not expire")
        return time.monotonic() - since
