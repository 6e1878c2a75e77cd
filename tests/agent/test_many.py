#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""128 Environments: how long each call takes; and that nothing grows, round after round."""

import json
import os
import resource
import time

from agentcase import AgentTest
from daemon import UnixConnection, read_reply
from harness import main
from lab import A4, B4
from phasegate import NO_NETWORK, PUBLIC, allowlist

COUNT = 128
# Rounds of fewer, so that they do not take long on a busy machine.
ROUNDS, ROUND_COUNT = 10, 16
# There is what the events are, of which 16,384 are kept.
GROWTH_MAX = 2 << 20
POLICY = {"network_policy": PUBLIC, "run_network_policy": allowlist(A4, B4, "10.0.0.0/8"),
          "verifier_network_policy": NO_NETWORK}


class Many(AgentTest):
    def setUp(self):
        super().setUp()
        self.connection = UnixConnection(self.daemon.socket)
        self.addCleanup(self.connection.close)
        self.times = {}

    def timed(self, kind, method, target, body=None):
        text = json.dumps(body) if body is not None else None
        began = time.perf_counter()
        self.connection.request(method, target, text)
        reply = read_reply(self.connection, method, target)
        self.times.setdefault(kind, []).append(time.perf_counter() - began)
        self.assertLess(reply.status, 300, reply)
        return reply

    def resident(self):
        with open(f"/proc/{self.daemon.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.daemon.process.pid}/fd"))

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

    def test_rounds(self):
        self.round(COUNT)
        for kind, times in self.times.items():
            times.sort()
            p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
            print(f"{kind}: p50 {p50 * 1e3:.3f} ms, p99 {p99 * 1e3:.3f} ms, worst"
                  f" {times[-1] * 1e3:.3f} ms of {len(times)}", flush=True)
        # What 128 have needed is enough for 16.
        memory, descriptors = self.resident(), self.descriptors()
        for _ in range(ROUNDS):
            self.round(ROUND_COUNT)
        growth = self.resident() - memory
        print(f"resident: {memory >> 10} KiB, {growth >> 10} KiB more after {ROUNDS} rounds",
              flush=True)
        with open(f"/proc/{self.daemon.process.pid}/maps", encoding="utf-8") as file:
            # It keeps what was freed for a while, to find uses of it.
            sanitized = "libasan" in file.read()
        if not sanitized:
            self.assertLess(growth, GROWTH_MAX)
        self.assertEqual(self.descriptors(), descriptors)


if __name__ == "__main__":
    main()
