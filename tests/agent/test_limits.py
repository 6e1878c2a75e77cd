#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that are too many, too slow, too large or malformed: refused, and others are served."""

import contextlib
import grp
import json
import os
import random
import resource
import select
import socket
import subprocess
import sys
import textwrap
import time

from agentcase import AgentTest
from daemon import UnixConnection, connect, directory_of, read_reply
from harness import main, patient
from honest import Honest
from phasegate import NO_NETWORK, PUBLIC, started

CLIENTS = 256
OF_ONE_USER = 128
BODY = 64 * 1024 * 1024 + 64 * 1024
# What a request that has nothing to wait for takes, sanitizers included.
PROMPT = 5
# The agent gives a request, and the reading of its reply, ten seconds.
GIVEN, TIME_UP = 10, 25
GROUP = next(g for g in grp.getgrall() if g.gr_gid not in (0, 65534) and not g.gr_mem)
HONEST = 4001
# More than the buffer of a socket holds when it is printed, and not much work.
POLICY_OF_MANY = json.dumps({"policy": {"network_policy": {
    "network_mode": "allowlist",
    "allowed_hosts": [f"10.0.{i >> 8}.{i & 255}" for i in range(30000)]}}})


def post(text, target="/v1/validate"):
    text = text if isinstance(text, bytes) else text.encode()
    return (f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n"
            ).encode() + text


class Limits(AgentTest):
    SETTINGS = {"group": GROUP.gr_name}

    @classmethod
    def setUpClass(cls):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        super().setUpClass()
        os.chmod(cls.daemon.directory.name, 0o711)
        cls.sockets = cls.count_sockets()
        with open(f"/proc/{cls.daemon.process.pid}/maps", encoding="utf-8") as file:
            # It keeps what was freed for a while, to find uses of it.
            cls.sanitized = "libasan" in file.read()

    def tearDown(self):
        """The agent notices that the connections of this test have ended, without which there is
        none left for what it destroys."""
        self.doCleanups()
        super().tearDown()
        deadline = time.monotonic() + TIME_UP
        while self.count_sockets() > self.sockets and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertLessEqual(self.count_sockets(), self.sockets)

    @classmethod
    def count_sockets(cls):
        directory, found = f"/proc/{cls.daemon.process.pid}/fd", 0
        for fd in os.listdir(directory):
            with contextlib.suppress(FileNotFoundError):
                found += os.readlink(f"{directory}/{fd}").startswith("socket:")
        return found

    def connect(self):
        connection = connect(self.daemon.socket, 30)
        self.addCleanup(connection.close)
        return connection

    @contextlib.contextmanager
    def others_served(self):
        """Another user's client meanwhile; this process is root's."""
        with Honest(self.daemon.socket, HONEST, GROUP.gr_gid) as honest:
            yield
        load, _, _ = os.getloadavg()
        print(f"{self.id()}: {len(honest.times)} requests of another user: p50"
              f" {honest.quantile(0.5) * 1e3:.1f} ms, p99 {honest.quantile(0.99) * 1e3:.1f} ms,"
              f" worst {honest.times[-1] * 1e3:.1f} ms; load {load:.1f}", flush=True)
        self.assertEqual(honest.failures, [])
        self.assertLess(honest.quantile(0.99), patient(PROMPT))

    def assertServed(self):
        began = time.monotonic()
        self.assertEqual(self.daemon.call("GET", "/v1/capabilities").status, 200)
        self.assertLess(time.monotonic() - began, patient(PROMPT))

    def assertEnded(self, connection):
        """By the agent, within the time that it gives. Returns what has come until then."""
        received = bytearray()
        connection.settimeout(TIME_UP)
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(1 << 20):
                received += part
        return bytes(received)

    def assertGrowth(self, before, most):
        if not self.sanitized:
            self.assertLess(self.resident() - before, most)

    def resident(self):
        with open(f"/proc/{self.daemon.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def test_nobody_attacks(self):
        with self.others_served():
            for _ in range(20):
                self.assertServed()

    def test_body_that_claims_too_much(self):
        with self.others_served():
            for _ in range(20):
                connection = self.connect()
                connection.sendall(b"POST /v1/validate HTTP/1.1\r\nHost: x\r\n"
                                   b"Content-Length: 1073741824\r\n\r\n" + bytes(1000))
                reply = connection.recv(65536)
                self.assertIn(b" 413 ", reply)
                self.assertIn(b"body_too_large", reply)

    def test_body_of_a_gibibyte(self):
        """In chunks, so that its size is not said before."""
        before = self.resident()
        connection = self.connect()
        part = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        sent = 0
        with self.others_served(), contextlib.suppress(OSError):
            connection.sendall(b"POST /v1/validate HTTP/1.1\r\nHost: x\r\n"
                               b"Transfer-Encoding: chunked\r\n\r\n")
            for _ in range(1024):
                connection.sendall(part)
                sent += 1
            connection.sendall(b"0\r\n\r\n")
        reply = b""
        with contextlib.suppress(OSError):
            reply = connection.recv(65536)
        # It was read to its end and refused, or its time was up before.
        self.assertTrue(b" 413 " in reply or sent < 1024, (sent, reply))
        self.assertGrowth(before, 300 << 20)

    def test_largest_body(self):
        head = b'{"policy":{"network_policy":{"network_mode":"allowlist","allowed_hosts":[' \
               b'"10.0.0.1"]}}'
        text = head + b" " * (64 * 1024 * 1024 + 64 * 1024 - len(head) - 1) + b"}"
        self.assertEqual(len(text), BODY)
        with self.others_served():
            reply = self.daemon.call("POST", "/v1/validate", text)
        self.assertEqual(reply.status, 200)
        self.assertCode(self.daemon.call("POST", "/v1/validate", text + b" "), "body_too_large")

    def test_memory_of_one_user(self):
        """Bodies that do not end: half of what there is for all is left."""
        before, began = self.resident(), time.monotonic()
        part = bytes(1 << 20)
        with self.others_served():
            held = []
            for _ in range(8):
                held.append(connection := self.connect())
                connection.sendall(b"POST /v1/validate HTTP/1.1\r\nHost: x\r\n"
                                   b"Content-Length: 67108864\r\n\r\n")
                for _ in range(40):
                    connection.sendall(part)
        self.assertGrowth(before, 300 << 20)
        # Who has finished and had no room is told so.
        last = held[-1]
        for _ in range(24):
            last.sendall(part)
        reply = last.recv(65536)
        if time.monotonic() - began < GIVEN:
            self.assertIn(b"out_of_memory", reply)
        else:
            # On a machine as slow as that the time of the first is up, and there is room again.
            self.assertRegex(reply, b"out_of_memory|not valid JSON")

    def test_client_that_never_reads(self):
        with self.others_served():
            deaf = [self.connect() for _ in range(8)]
            for connection in deaf:
                connection.sendall(post(POLICY_OF_MANY))
            # Its time is up at some point, and the connection ends in the middle of the reply.
            gone = select.poll()
            for connection in deaf:
                gone.register(connection, select.POLLHUP)
                self.assertTrue(gone.poll(TIME_UP * 1000))
                gone.unregister(connection)
        for connection in deaf:
            self.assertLess(len(self.assertEnded(connection)), len(POLICY_OF_MANY))

    def test_slow_requests(self):
        """An octet now and then, in the head and in the body, from as many as one user may be."""
        ended, open_ones = select.poll(), {}
        with self.others_served():
            began = time.monotonic()
            for number in range(OF_ONE_USER):
                connection = self.connect()
                connection.sendall(b"GET /v1/environments HTTP/1.1\r\nHo" if number % 2 else
                                   b"POST /v1/validate HTTP/1.1\r\nHost: x\r\n"
                                   b"Content-Length: 100\r\n\r\n{")
                ended.register(connection, select.POLLIN | select.POLLHUP)
                open_ones[connection.fileno()] = connection
            while open_ones and time.monotonic() - began < TIME_UP:
                for fd, _ in ended.poll(1000):
                    ended.unregister(fd)
                    del open_ones[fd]
                for connection in open_ones.values():
                    with contextlib.suppress(OSError):
                        connection.send(b" ")
        self.assertEqual(len(open_ones), 0)

    def test_requests_behind_each_other(self):
        """Many on each connection, whose replies nobody reads; and never the whole of the last."""
        name = self.create({"run_network_policy": NO_NETWORK})["name"]
        switches = b"".join(
            f"PUT /v1/environments/{name}/phase HTTP/1.1\r\nHost: x\r\nContent-Length:"
            f" {len(body)}\r\n\r\n{body}".encode()
            for body in ('{"phase":"run"}', '{"phase":"setup"}') * 50)
        with self.others_served():
            held = [self.connect() for _ in range(OF_ONE_USER)]
            for connection in held:
                connection.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    connection.send(switches + b"GET /v1/envi")
            for connection in held:
                connection.settimeout(TIME_UP)
                self.assertIn(b" 200 ", connection.recv(1000))
        for connection in held:
            connection.close()

    def test_costly_requests_at_once(self):
        """Each takes a while, and the others of that user have to wait; not those of others."""
        with self.others_served():
            held = [self.connect() for _ in range(10)]
            for connection in held:
                connection.sendall(post(POLICY_OF_MANY))
            for connection in held:
                self.assertIn(b" 200 ", connection.recv(1000))

    def test_replies_that_nobody_reads(self):
        """Of what is asked for after them nothing is done."""
        name = self.create(json.loads(POLICY_OF_MANY)["policy"])["name"]
        size = len(json.dumps(self.daemon.show(name).body))
        before = self.resident()
        with self.others_served():
            held = [self.connect() for _ in range(OF_ONE_USER)]
            for connection in held:
                connection.sendall(f"GET /v1/environments/{name} HTTP/1.1\r\nHost: x\r\n\r\n"
                                   .encode())
            for connection in held:
                self.assertRegex(connection.recv(1000), b"HTTP/1.1 (200|503) ")
        print(f"replies of {size} octets: {(self.resident() - before) >> 20} MiB more")
        self.assertGrowth(before, 300 << 20)
        for connection in held:
            connection.close()

    def test_more_connections_than_there_may_be(self):
        with self.others_served():
            held = [self.connect() for _ in range(CLIENTS)]
            self.assertServed()
            more = [self.connect() for _ in range(CLIENTS)]
            self.assertServed()
        del held, more

    def test_ten_thousand_connections(self):
        """As fast as they go, and all held; none of them ever asks anything."""
        held = []
        with self.others_served():
            for _ in range(10000):
                held.append(self.connect())
            self.assertServed()

    def test_clients_of_one_user(self):
        """All that one user may have are busy, and another's, root's among them, is served."""
        code = textwrap.dedent("""
            import socket, sys
            held = []
            for _ in range(int(sys.argv[2])):
                held.append(socket.socket(socket.AF_UNIX))
                held[-1].connect(sys.argv[1])
                held[-1].sendall(b"POST /v1/validate HTTP/1.1\\r\\nHost: x\\r\\n"
                                 b"Content-Length: 100\\r\\n\\r\\n{")
            with socket.socket(socket.AF_UNIX) as last:
                last.connect(sys.argv[1])
                last.sendall(b"GET /v1/capabilities HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
                print(last.recv(4096).split()[1].decode(), flush=True)
            sys.stdin.read()
        """)
        process = subprocess.Popen(
            ["setpriv", "--reuid=4002", f"--regid={GROUP.gr_gid}", "--clear-groups",
             sys.executable, "-I", "-c", code, self.daemon.socket, str(OF_ONE_USER)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.add(process.pid)
        self.addCleanup(process.communicate)
        with self.others_served():
            self.assertEqual(process.stdout.readline(), b"503\n")
            self.assertServed()

    def test_followers_do_not_block(self):
        cursor = self.daemon.call("GET", "/v1/events?cursor=now").body[-1]["cursor"]
        followers = []
        for _ in range(50):
            connection = UnixConnection(self.daemon.socket)
            self.addCleanup(connection.close)
            connection.request("GET", f"/v1/events?cursor={cursor}&follow=1")
            followers.append(connection)
        with self.others_served():
            self.assertServed()
            began = time.monotonic()
            name = self.create()["name"]
            for connection in followers:
                reply = read_reply(connection, "GET", "/v1/events")
                self.assertEqual(reply.body[0]["environment"], name)
            self.assertLess(time.monotonic() - began, patient(PROMPT))

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


class Namespaces(AgentTest):
    COUNT = 1200

    def test_many_network_namespaces(self):
        """Whoever may make them does not hold the agent up: connections elsewhere stay open."""
        made = self.create({"network_policy": PUBLIC, "run_network_policy": NO_NETWORK})
        code = ("import ctypes, os, signal, sys\n"
                "unshare = ctypes.CDLL(None).unshare\n"
                "for _ in range(int(sys.argv[1])):\n"
                "    if os.fork() == 0:\n"
                "        unshare(0x40000000)\n"
                "        os.write(1, b'.')\n"
                "        signal.pause()\n"
                "signal.pause()\n")
        flood = self.start_in(directory_of(made), sys.executable, "-I", "-c", code,
                              str(self.COUNT), stdout=subprocess.PIPE)
        for _ in range(self.COUNT):
            self.assertEqual(flood.stdout.read(1), b".")
        reply = self.daemon.phase(made["name"], "run", survivors="allow")
        self.assertEqual(reply.status, 200, reply)
        self.assertLess(reply["close_us"], 1.5e6)
        if reply["close_us"] > 1e6:
            self.assertEqual([w["code"] for w in reply["warnings"]], ["connections_open"])


class Quotas(AgentTest):
    SETTINGS = {"environments_per_user": 2, "members_per_user": 4, "entries_per_user": 100,
                "group": GROUP.gr_name}

    def test_environments(self):
        for _ in range(2):
            made = self.create()
        self.assertCode(self.daemon.create(self.name(), policy={}), "quota_exceeded", "user 0")
        self.daemon.destroy(made["name"])
        self.create()
        limits = self.daemon.call("GET", "/v1/capabilities")["limits"]
        self.assertEqual(limits["environments_per_user"], 2)

    def test_members(self):
        """Each costs descriptors, of which the others need some."""
        cgroups = [{"cgroup": self.make_cgroup(f"m{i}")} for i in range(4)]
        made = self.create(members=cgroups[:3])
        self.assertCode(self.daemon.create(self.name(), policy={}, members=cgroups[2:]),
                        "quota_exceeded", "5 members")
        self.create(members=cgroups[3:])
        self.daemon.destroy(made["name"])
        self.create(members=cgroups[:3])

    def test_entries(self):
        def policy(count):
            hosts = [f"10.0.0.{i}" for i in range(count)]
            return {"network_policy": {"network_mode": "allowlist", "allowed_hosts": hosts}}

        made = self.create(policy(60))
        self.assertCode(self.daemon.create(self.name(), policy=policy(41)), "quota_exceeded")
        target = f"/v1/environments/{made['name']}/policy"
        # What it has now does not count; the limit itself is allowed.
        reply = self.daemon.call("PUT", target, {"policy": policy(100)})
        self.assertEqual(reply.status, 200, reply)
        reply = self.daemon.call("PUT", target, {"policy": policy(101)})
        self.assertCode(reply, "quota_exceeded", "101")
        self.assertEqual(self.daemon.show(made["name"])["generation"], 2)


if __name__ == "__main__":
    main()
