#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that are too many, too slow, too large or malformed: refused, and others are served."""

import contextlib
import json
import os
import random
import resource
import socket
import threading
import time

from agentcase import AgentTest
from daemon import UnixConnection, call, read_reply
from harness import main

CLIENTS = 256
BODY = 64 * 1024 * 1024 + 64 * 1024
# What a request that has nothing to wait for takes, sanitizers and a busy machine included.
PROMPT = 5


class Limits(AgentTest):
    def connect(self):
        connection = socket.socket(socket.AF_UNIX)
        self.addCleanup(connection.close)
        connection.settimeout(30)
        connection.connect(self.daemon.socket)
        return connection

    def assertServed(self):
        began = time.monotonic()
        self.assertEqual(self.daemon.call("GET", "/v1/capabilities").status, 200)
        self.assertLess(time.monotonic() - began, PROMPT)

    def resident(self):
        with open(f"/proc/{self.daemon.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def test_body_that_claims_too_much(self):
        connection = self.connect()
        connection.sendall(b"POST /v1/validate HTTP/1.1\r\nHost: x\r\nContent-Length: 1073741824"
                           b"\r\n\r\n" + bytes(1000))
        reply = connection.recv(65536)
        self.assertIn(b" 413 ", reply)
        self.assertIn(b"body_too_large", reply)
        self.assertServed()

    def test_body_of_a_gibibyte(self):
        """In chunks, so that its size is not said before."""
        before = self.resident()
        connection = self.connect()
        connection.sendall(b"POST /v1/validate HTTP/1.1\r\nHost: x\r\n"
                           b"Transfer-Encoding: chunked\r\n\r\n")
        part = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        sent = 0
        with contextlib.suppress(OSError):
            for _ in range(1024):
                connection.sendall(part)
                sent += 1
            connection.sendall(b"0\r\n\r\n")
        reply = b""
        with contextlib.suppress(OSError):
            reply = connection.recv(65536)
        # It was read to its end and refused, or its time was up before.
        self.assertTrue(b" 413 " in reply or sent < 1024, (sent, reply))
        self.assertServed()
        self.assertLess(self.resident() - before, 300 << 20)

    def test_largest_body(self):
        head = b'{"policy":{"network_policy":{"network_mode":"allowlist","allowed_hosts":[' \
               b'"10.0.0.1"]}}'
        text = head + b" " * (64 * 1024 * 1024 + 64 * 1024 - len(head) - 1) + b"}"
        self.assertEqual(len(text), BODY)
        reply = self.daemon.call("POST", "/v1/validate", text)
        self.assertEqual(reply.status, 200)
        self.assertCode(self.daemon.call("POST", "/v1/validate", text + b" "), "body_too_large")

    def test_client_that_never_reads(self):
        text = json.dumps({"policy": {"network_policy": {
            "network_mode": "allowlist",
            "allowed_hosts": [f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}" for i in range(100000)]}}})
        request = (f"POST /v1/validate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n"
                   f"{text}").encode()
        deaf = [self.connect() for _ in range(8)]
        for connection in deaf:
            connection.sendall(request)
        self.assertServed()
        # Its time is up at some point, and the connection ends in the middle of the reply.
        time.sleep(13)
        self.assertServed()
        for connection in deaf:
            with contextlib.suppress(OSError):
                size = 0
                while part := connection.recv(1 << 20):
                    size += len(part)
            self.assertLess(size, len(text))

    def test_slow_request(self):
        slow = self.connect()
        slow.sendall(b"GET /v1/environments HTTP/1.1\r\nHo")
        body = self.connect()
        body.sendall(b"POST /v1/validate HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        began = time.monotonic()
        for connection in (slow, body):
            while time.monotonic() - began < 25:
                try:
                    connection.send(b"x" if connection is slow else b" ")
                    connection.settimeout(0.5)
                    if connection.recv(65536) == b"":
                        break
                except TimeoutError:
                    continue
                except OSError:
                    break
            self.assertLess(time.monotonic() - began, 25)
        self.assertServed()

    def test_more_connections_than_there_may_be(self):
        held = [self.connect() for _ in range(CLIENTS)]
        self.assertServed()
        more = [self.connect() for _ in range(CLIENTS)]
        self.assertServed()
        del held, more

    def test_ten_thousand_connections(self):
        """As fast as they go, none of them ever asks anything."""
        failures = []

        def serve():
            for _ in range(20):
                try:
                    reply = call(self.daemon.socket, "GET", "/v1/capabilities")
                    if reply.status != 200:
                        failures.append(reply)
                except OSError as error:
                    failures.append(error)

        thread = threading.Thread(target=serve)
        thread.start()
        held = []
        for _ in range(10000):
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(30)
            try:
                connection.connect(self.daemon.socket)
                held.append(connection)
            except OSError:
                connection.close()
            if len(held) > 1500:
                held.pop(0).close()
        thread.join()
        for connection in held:
            connection.close()
        self.assertEqual(failures, [])
        self.assertServed()

    def test_followers_do_not_block(self):
        cursor = self.daemon.call("GET", "/v1/events?cursor=now").body[-1]["cursor"]
        followers = []
        for _ in range(50):
            connection = UnixConnection(self.daemon.socket)
            self.addCleanup(connection.close)
            connection.request("GET", f"/v1/events?cursor={cursor}&follow=1")
            followers.append(connection)
        self.assertServed()
        began = time.monotonic()
        name = self.create()["name"]
        for connection in followers:
            reply = read_reply(connection, "GET", "/v1/events")
            self.assertEqual(reply.body[0]["environment"], name)
        self.assertLess(time.monotonic() - began, PROMPT)

    def test_following_ends_by_itself(self):
        began = time.monotonic()
        reply = self.daemon.call("GET", "/v1/events?cursor=now&follow=1")
        self.assertEqual([e["event"] for e in reply.body], ["cursor"])
        self.assertGreater(time.monotonic() - began, 20)

    def test_keep_alive(self):
        connection = UnixConnection(self.daemon.socket)
        with contextlib.closing(connection):
            for _ in range(100):
                connection.request("GET", "/v1/environments")
                self.assertEqual(read_reply(connection, "GET", "/v1/environments").status, 200)

    def test_malformed_http(self):
        for text in (b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", bytes(1000),
                     b"\xff" * 1000, b"GET /v1/events HTTP/1.1\r\n\r\n",
                     b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
                     b"GET /v1/events HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 20000 + b"\r\n",
                     b"POST /v1/validate HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
                     b"POST /v1/validate HTTP/1.1\r\nHost: x\r\nContent-Length: 1x\r\n\r\n",
                     b"POST /v1/validate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                     b"zz\r\n\r\n",
                     b"GET /v1/events?" + b"a=b&" * 1000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"):
            connection = self.connect()
            with contextlib.suppress(OSError):
                connection.sendall(text)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
        self.assertServed()

    def test_noise(self):
        """Requests with some octets changed; seeded, and the seed is said."""
        seed = int(os.environ.get("PHASEGATE_SEED", "0")) or random.randrange(1 << 32)
        print(f"seed {seed}", flush=True)
        chance = random.Random(seed)
        body = json.dumps({"name": "pgt-noise", "policy": {"network_policy": "public"},
                           "members": [{"cgroup": "/no"}], "dns": {"floor_s": 3}})
        good = (f"POST /v1/environments HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
                f"\r\n{body}").encode()
        for _ in range(200):
            text = bytearray(good)
            for _ in range(chance.randrange(1, 8)):
                where = chance.randrange(len(text))
                if chance.random() < 0.3:
                    del text[where:where + chance.randrange(1, 20)]
                else:
                    text[where] = chance.randrange(256)
            connection = self.connect()
            # One that misses its end gets no reply, and does not wait for it either.
            connection.settimeout(0.2)
            with contextlib.suppress(OSError):
                connection.sendall(text)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
            connection.close()
        self.assertServed()
        for environment in self.daemon.call("GET", "/v1/environments")["environments"]:
            self.daemon.destroy(environment["name"])


if __name__ == "__main__":
    main()
