#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""128 Environments: how long each call takes; and that nothing grows, round after round.

PHASEGATE_MANY: how many a round (128 for a release); without it fewer, for a busy machine."""

import json
import os
import resource
import time

from agentcase import AgentTest
from daemon import UnixConnection, read_reply
from harness import main
from lab import A4, B4
from left import descriptors, left, settle
from phasegate import NO_NETWORK, PUBLIC, allowlist

COUNT = 128
ROUNDS, ROUND_COUNT = 10, int(os.environ.get("PHASEGATE_MANY", "16"))
# Events are kept, 16,384 of them, each in its place: those of a round are one for each change.
EVENTS_EACH, EVENT_SIZE = 6, 576
GROWTH_MAX = 1 << 20
# What is made once and kept, whatever the number of Environments.
KEPT_MAX = 8
POLICY = {"network_policy": PUBLIC, "run_network_policy": allowlist(A4, B4, "10.0.0.0/8"),
          "verifier_network_policy": NO_NETWORK}


class Many(AgentTest):
    def setUp(self):
        super().setUp()
        self.connection = UnixConnection(self.daemon.socket)
        self.addCleanup(self.connection.close)
        self.times = {}
        self.prefix = f"pgt-many-{os.getpid()}-"
        self.at_first = left(self.daemon, self.prefix)

    def timed(self, kind, method, target, body=None):
        text = json.dumps(body) if body is not None else None
        while True:
            began = time.perf_counter()
            self.connection.request(method, target, text)
            reply = read_reply(self.connection, method, target)
            if reply.code != "busy":
                break
        self.times.setdefault(kind, []).append(time.perf_counter() - began)
        self.assertLess(reply.status, 300, reply)
        return reply

    def resident(self):
        with open(f"/proc/{self.daemon.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def round(self, count):
        names = [self.name("many") for _ in range(count)]
        for name in names:
            self.daemon.names.add(name)
            self.timed("create", "POST", "/v1/environments", {"name": name, "policy": POLICY})
        for phase in ("run", "verifier", "setup", "run"):
            for name in names:
                reply = self.timed("switch", "PUT", f"/v1/environments/{name}/phase",
                                   {"phase": phase})
                self.times.setdefault("the write", []).append(reply["took_us"] / 1e6)
        self.timed("list", "GET", "/v1/environments")
        for name in names:
            self.timed("destroy", "DELETE", f"/v1/environments/{name}")
            self.daemon.names.discard(name)

    def settle(self, most):
        settle(self, self.daemon, self.prefix, self.at_first, most)

    def test_rounds(self):
        open_at_first = descriptors(self.daemon)
        self.round(COUNT)
        print(f"load {os.getloadavg()[0]:.1f}")
        for kind, times in self.times.items():
            times.sort()
            p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
            print(f"{kind}: p50 {p50 * 1e3:.3f} ms, p99 {p99 * 1e3:.3f} ms, worst"
                  f" {times[-1] * 1e3:.3f} ms of {len(times)}", flush=True)
        # What the first round has needed is enough for the others.
        self.settle(open_at_first + KEPT_MAX)
        open_now = descriptors(self.daemon)
        print(f"descriptors: {open_at_first} at first, {open_now} now", flush=True)
        memory = self.resident()
        print(f"left in the kernel and in the file system: {self.at_first}", flush=True)
        one = self.create(POLICY)
        there = left(self.daemon, self.prefix)
        # Only the allowlist needs a set.
        self.assertEqual((len(there["cgroups"]), there["pg_sets"]), (1, 1), there)
        self.daemon.destroy(one["name"])
        for _ in range(ROUNDS):
            self.round(ROUND_COUNT)
        growth = self.resident() - memory
        events = ROUNDS * ROUND_COUNT * EVENTS_EACH * EVENT_SIZE
        print(f"resident: {memory >> 10} KiB, {growth >> 10} KiB more after {ROUNDS} rounds,"
              f" {events >> 10} KiB of it for events", flush=True)
        with open(f"/proc/{self.daemon.process.pid}/maps", encoding="utf-8") as file:
            # It keeps what was freed for a while, to find uses of it.
            sanitized = "libasan" in file.read()
        if not sanitized:
            self.assertLess(growth - events, GROWTH_MAX)
        self.settle(open_now)
        self.assertEqual([self.at_first[kind] for kind in ("cgroups", "records", "pins")],
                         [[], [], []])


if __name__ == "__main__":
    main()
