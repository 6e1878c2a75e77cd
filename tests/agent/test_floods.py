#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""UDP flows of many, of which one floods: others are reached and answered as before."""

import json
import socket
import subprocess
import sys

from agentcase import AgentTest
from daemon import directory_of
from harness import main
from lab import CLIENT4, D4
from phasegate import NO_NETWORK, PUBLIC

# In public every tuple that it sends is recorded; table and share are those of abi/limits.h.
FLOOD = """
import socket, sys
target, sent = sys.argv[1], 0
for number in range(4):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for port in range(20000, 30000):
            try:
                one.sendto(b"", (target, port))
                sent += 1
            except ConnectionRefusedError:
                pass
print(sent)
"""
SERVE = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
    server.bind(("", 6200))
    print("ready", flush=True)
    while True:
        data, peer = server.recvfrom(100)
        server.sendto(data, peer)
"""


class Floods(AgentTest):
    def inside(self, environment, script, *words):
        return self.start_in(directory_of(environment), *self.lab.client.command(
            sys.executable, "-c", script, *words), stdout=subprocess.PIPE, text=True)

    def ask(self, asker, data):
        asker.sendto(data, (CLIENT4, 6200))
        self.assertEqual(asker.recv(100), data)

    def test_one_floods(self):
        self.daemon.stop()
        self.daemon.start(environment={"PHASEGATE_TEST_AGING_MS": "200"})
        quiet = self.create({"network_policy": NO_NETWORK})
        server = self.inside(quiet, SERVE)
        self.assertEqual(server.stdout.readline(), "ready\n")
        askers = []
        for _ in range(2):
            asker = self.lab.server.call(
                lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            self.addCleanup(asker.close)
            asker.settimeout(10)
            askers.append(asker)
        self.ask(askers[0], b"before")
        loud = self.create({"network_policy": PUBLIC})
        cursor = self.daemon.call("GET", "/v1/events?cursor=now").body[-1]["cursor"]
        flood = self.inside(loud, FLOOD, D4)
        self.assertGreater(int(flood.stdout.readline()), 39000)
        self.ask(askers[0], b"open before the flood")
        self.ask(askers[1], b"new")
        self.assertEqual(self.told(cursor, loud["name"]), {loud["name"]})
        self.assertEqual(self.daemon.show(quiet["name"])["counters"]["flows_refused"], 0)

    def told(self, cursor, name):
        """Of whose flows it was told that they found no room."""
        while True:
            reply = self.daemon.call("GET", f"/v1/events?cursor={cursor}&follow=1")
            self.assertEqual(reply.status, 200, reply)
            cursor = reply.body[-1]["cursor"]
            events = [e for e in reply.body if e["event"] == "flows_refused"]
            if any(e["environment"] == name for e in events):
                self.assertTrue(all(e["count"] > 0 for e in events), json.dumps(events))
                return {e["environment"] for e in events}


if __name__ == "__main__":
    main()
