# SPDX-License-Identifier: Apache-2.0
"""`phasegate run` with 1,000,000 addresses and ranges, IPv4 and IPv6: all of it is in force.

The generated entries neither overlap nor merge: each is alone in a block of its own, whose other
addresses are the denied ones. The server answers for all of them, so what passes would arrive.
"""

import json
import random
import selectors
import socket
import tempfile

from harness import LabTest, main, token
from phasegate import Agent, Unconfined, allowlist, policy
from recorder import Capture, Recorder

PORT = 7000
ENTRIES = 1_000_000
SAMPLES = 40  # of each kind
EPERM_LIMIT_US = 50_000
# Where each kind begins, the size of the block that each of its entries has for itself, in bits,
# the share of the kind, and whether it is of ranges.
KINDS = (("10.0.0.0", 5, 2, False), ("100.64.0.0", 4, 4, True),
         ("2001:db8:200::", 64, 8, False), ("2001:db8:100::", 68, 8, True))
ROUTED = ("10.0.0.0/8", "100.64.0.0/10", "2001:db8:100::/40", "2001:db8:200::/40")


def text(family, number):
    return socket.inet_ntop(family, number.to_bytes(16 if family == socket.AF_INET6 else 4, "big"))


class Entry:
    """Number i of its kind."""

    def __init__(self, kind, i):
        start, block_bits, _, is_range = kind
        self.family = socket.AF_INET6 if ":" in start else socket.AF_INET
        self.block = int.from_bytes(socket.inet_pton(self.family, start), "big") + (i << block_bits)
        self.block_end = self.block + (1 << block_bits)
        # Ranges are at most half of the block; single addresses are anywhere in it.
        self.bits = block_bits - 1 - i % 3 if is_range else 0
        self.first = self.block if is_range else self.block + 1 + i * 7919 % 30
        self.last = self.first + (1 << self.bits) - 1

    def __str__(self):
        length = (128 if self.family == socket.AF_INET6 else 32) - self.bits
        return text(self.family, self.first) + (f"/{length}" if self.bits else "")

    def inside(self):
        """First and last address of the entry."""
        return {text(self.family, self.first), text(self.family, self.last)}

    def outside(self):
        """The nearest neighbours that are in the block and not in the entry."""
        return {text(self.family, number) for number in (self.first - 1, self.last + 1)
                if self.block <= number < self.block_end}


def count(kind):
    return ENTRIES // kind[2]


class WideRecorder(Recorder):
    """Listens on every address that is routed to the server."""

    def _open(self):
        for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                server = socket.socket(family, kind)
                if family == socket.AF_INET6:
                    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.bind((address, PORT))
                server.setblocking(False)
                handler = self._datagrams
                if kind == socket.SOCK_STREAM:
                    server.listen(1024)
                    handler = self._accept
                self._sockets.append(server)
                self._selector.register(server, selectors.EVENT_READ, (handler,))


class Million(LabTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.lab.server.ip(*(f"route add local {network} dev lo" for network in ROUTED))
        cls.recorder = WideRecorder(cls.lab)
        cls.capture = Capture(cls.lab)
        cls.unconfined = Unconfined(cls.lab)
        cls.addClassCleanup(cls.unconfined.close)

    def attempt(self, agent, address, label):
        """TCP and UDP; returns [(token, result)]."""
        family = "6" if ":" in address else "4"
        results = []
        for protocol in ("tcp", "udp"):
            mark = token(label)
            agent(f"socket 0 {protocol}{family}")
            result = agent(f"connect 0 {address} {PORT}")
            if not result["errno"]:
                result = agent(f"send 0 {mark}")
            agent("close 0")
            results.append((mark, result))
        return results

    def assert_reaches(self, agent, address):
        for mark, result in self.attempt(agent, address, "in"):
            self.assertEqual(result["errno"], "", f"{address}: {result}")
            self.assertIsNotNone(self.recorder.wait(mark), address)

    def assert_denied(self, agent, address):
        for _, result in self.attempt(agent, address, "out"):
            self.assertEqual(result["errno"], "EPERM", f"{address}: {result}")
            self.assertLess(result["us"], EPERM_LIMIT_US, f"{address}: {result}")

    def test_sampled(self):
        entries = [str(Entry(kind, i)) for kind in KINDS for i in range(count(kind))]
        self.assertEqual(len(set(entries)), ENTRIES)
        draw = random.Random(ENTRIES)
        draw.shuffle(entries)
        samples = [Entry(kind, i) for kind in KINDS
                   for i in (0, count(kind) - 1, *draw.sample(range(count(kind)), SAMPLES))]
        inside = sorted(set().union(*(sample.inside() for sample in samples)))
        outside = sorted(set().union(*(sample.outside() for sample in samples)))

        # Without a policy both arrive. What ends these connections may come late, and proves nothing.
        control = outside[::40]
        for address in (*inside[::40], *control):
            self.assert_reaches(self.unconfined, address)
        self.capture.drain()

        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(policy(setup="no-network", run=allowlist(*entries)))
            file.flush()
            with Agent(self.lab, "--policy", file.name) as agent:
                for address in outside:
                    self.assert_denied(agent, address)
                # On the same way as the denied: what left before it has arrived.
                self.assert_reaches(agent, inside[0])
                seen = {packet.destination for packet in self.capture.drain()}
                self.assertIn(inside[0], seen)
                self.assertEqual(seen & (set(outside) - set(control)), set())
                for address in inside:
                    self.assert_reaches(agent, address)
                start = next(event for event in agent.events if event["event"] == "start")
        self.assertGreaterEqual(start["addresses"], ENTRIES)
        print(f"{len(inside)} addresses reached, {len(outside)} denied;", json.dumps(start))
        self.assertEqual(self.capture.lost, 0, "the capture lost packets, so it proves nothing")


if __name__ == "__main__":
    main()
