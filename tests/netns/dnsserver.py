# SPDX-License-Identifier: Apache-2.0
"""A nameserver that does what a test tells it, honest or not, and remembers every query.

    server = DnsServer(self.lab)                       # R4 and R6, port 53, UDP and TCP
    server.host("a.test", A4, A6, ttl=2)
    server.records("www.test", cname("www.test", "cdn.test"))   # the chain in one answer
    server.rule("*.moving.test", lambda name, kind, count: [a(name, f"198.18.0.{count}")])
    server.rule("dead.test", lambda *_: Reply(silent=True))
    self.assertEqual(server.names(), [])               # and nothing is still on its way

A rule returns a list of records (answered as they are, whatever their owners), a Reply, or None:
the name does not exist. count says how often the same name and type were asked before. A name
that no rule has does not exist; one without a record of the type has no data; both with an SOA.
"""

import collections
import dataclasses
import heapq
import ipaddress
import itertools
import os
import selectors
import socket
import struct
import threading
import time

import dnsmessage
from dnsmessage import Record, a, cname  # noqa: F401: for the tests that import this module
from lab import R4, R6

SO_RCVBUFFORCE = 33
LIMIT = 20
CHAIN_MAX = 16
ROUNDS = 4
NXDOMAIN, SERVFAIL, REFUSED = 3, 2, 5

# source: the address that asked. message: the query as it came.
Query = collections.namedtuple("Query", "name type transport source message")


@dataclasses.dataclass
class Reply:
    """change turns the finished message into what is sent: octets, or a list of messages."""

    records: tuple = ()
    authority: tuple = ()
    additional: tuple = ()
    rcode: int = 0
    delay: float = 0
    truncated: bool = False  # over UDP: TC and no records
    silent: bool = False
    change: object = None


def wrong_id(message):
    return bytes([message[0] ^ 0xff]) + message[1:]


def wrong_question(message):
    """The first letter of the name is another one."""
    return message[:13] + (b"x" if message[13:14] != b"x" else b"y") + message[14:]


def cut(message):
    """The counts promise more than there is."""
    return message[:len(message) - 5]


def noise(message):
    """The right id, and then nothing that means anything."""
    return message[:2] + os.urandom(200)


def compression_loop(message):
    """One answer whose owner is a pointer to itself."""
    question = dnsmessage.parse(message).end
    return (message[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + message[12:question] +
            struct.pack("!HHHIH4s", 0xc000 | question, 1, 1, 60, 4, b"\xc6\x33\x64\x0a"))


def forged_first(change):
    """What change makes of the message, and then the message itself."""
    return lambda message: [change(message), message]


class DnsServer:
    def __init__(self, lab, addresses=(R4, R6), port=53, namespace=None):
        self._lab, self._port, self._addresses = lab, port, addresses
        self._rules, self._counts = {}, collections.Counter()
        self._condition = threading.Condition()
        self._queries, self._fences, self._numbers = [], set(), itertools.count(1)
        self._timers = []
        self._rounds_wanted = self._rounds_done = 0
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ, (self._drain_wake,))
        self._sockets = [self._woken]
        self._closing = False
        (namespace or lab.server).call(self._open)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        lab.stack.callback(self.close)

    # What is answered.

    def host(self, name, *addresses, ttl=60):
        self.records(name, *(a(name, address, ttl) for address in addresses))

    def records(self, name, *records, split=False):
        """Those of the type asked. A CNAME is followed to the names that also have records here,
        all in one answer; split: the answer ends with it."""
        self._rules[name] = (tuple(records), split)

    def rule(self, name, function):
        """function(name, type, count), called in the server's thread. "*.name": all below."""
        self._rules[name] = function

    def fresh(self, name, network="198.18.0.0/15"):
        """n1.NAME, n2.NAME and so on: each has an address of its own of the network."""
        network = ipaddress.ip_network(network)

        def one(asked, kind, _):
            number = int(asked.split(".")[0][1:])
            return [a(asked, str(network[number]))] if kind == "A" else []

        self.rule("*." + name, one)

    def forget(self, name):
        del self._rules[name]

    def forget_all(self):
        self._rules.clear()

    # What was asked.

    def queries(self):
        """Since the last call; all that was sent before this one is among them."""
        for address in self._addresses:
            self._fence(address)
        with self._condition:
            self._rounds_wanted += 1
            self._wake.send(b"x")
            if not self._condition.wait_for(
                    lambda: self._rounds_done == self._rounds_wanted, LIMIT):
                raise AssertionError("the nameserver hangs")
            queries, self._queries = self._queries, []
        return queries

    def names(self):
        return [query.name for query in self.queries()]

    def _fence(self, address):
        """A query on the same way as all others, but not by a confined process."""
        name = f"fence{next(self._numbers)}.invalid"
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with self._lab.client.call(lambda: socket.socket(family, socket.SOCK_DGRAM)) as asker:
            asker.sendto(dnsmessage.query(name, "A"), (address, self._port))
            with self._condition:
                if not self._condition.wait_for(lambda: name in self._fences, LIMIT):
                    raise AssertionError(f"the fence does not arrive at {address}")

    # The thread.

    def _open(self):
        for address in self._addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            for kind, handler in ((socket.SOCK_DGRAM, self._datagrams),
                                  (socket.SOCK_STREAM, self._accept)):
                server = socket.socket(family, kind)
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if kind == socket.SOCK_DGRAM:
                    server.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
                server.bind((address, self._port))
                server.setblocking(False)
                if kind == socket.SOCK_STREAM:
                    server.listen(1024)
                self._sockets.append(server)
                self._selector.register(server, selectors.EVENT_READ, (handler,))

    def _serve(self):
        rounds = 0
        while not self._closing:
            wanted = self._rounds_wanted
            ready = self._ready(0 if self._rounds_done != wanted else None)
            for key, _ in ready:
                key.data[0](key.fileobj, *key.data[1:])
            while self._timers and self._timers[0][0] <= time.monotonic():
                heapq.heappop(self._timers)[2]()
            # A stream is accepted in one round and read in the next; the third may be idle.
            rounds = rounds + 1 if self._rounds_done != wanted else 0
            if rounds and (not ready or rounds >= ROUNDS):
                rounds = 0
                with self._condition:
                    self._rounds_done = wanted
                    self._condition.notify_all()

    def _ready(self, timeout):
        if timeout is None and self._timers:
            timeout = max(0, self._timers[0][0] - time.monotonic())
        return self._selector.select(timeout)

    def _drain_wake(self, woken):
        woken.recv(4096)

    def _datagrams(self, server):
        while True:
            try:
                message, peer = server.recvfrom(65536)
            except OSError:
                return
            self._answer(message, "udp", peer[0], lambda reply, to=peer: server.sendto(reply, to))

    def _accept(self, server):
        while True:
            try:
                stream, peer = server.accept()
            except OSError:
                return
            stream.setblocking(False)
            self._sockets.append(stream)
            self._selector.register(stream, selectors.EVENT_READ,
                                    (self._stream, peer[0], bytearray()))

    def _stream(self, stream, source, data):
        try:
            received = stream.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self._selector.unregister(stream)
            self._sockets.remove(stream)
            stream.close()
            return
        data += received
        while len(data) >= 2:
            size = int.from_bytes(data[:2], "big")
            if len(data) < 2 + size:
                return
            message = bytes(data[2:2 + size])
            del data[:2 + size]
            self._answer(message, "tcp", source,
                         lambda reply: stream.sendall(struct.pack("!H", len(reply)) + reply))

    def _answer(self, message, transport, source, send):
        try:
            asked = dnsmessage.parse(message)
        except (ValueError, IndexError, struct.error, UnicodeDecodeError):
            # Not a query, and yet something that has left.
            asked = dnsmessage.Question("?", "?", 0, 0)
        query = Query(asked.name, asked.type, transport, source, message)
        if self._is_fence(query.name):
            return
        with self._condition:
            self._queries.append(query)
        if query.name == "?":
            return
        reply = self._reply(query)
        if reply.silent:
            return
        messages = self._messages(query, asked, reply)
        if not reply.delay:
            self._send(send, messages)
        else:
            heapq.heappush(self._timers, (time.monotonic() + reply.delay, next(self._numbers),
                                          lambda: self._send(send, messages)))

    def _is_fence(self, name):
        if not (name.startswith("fence") and name.endswith(".invalid")):
            return False
        with self._condition:
            self._fences.add(name)
            self._condition.notify_all()
        return True

    @staticmethod
    def _send(send, messages):
        for message in messages:
            try:
                send(message)
            except OSError:  # the asker is gone
                return

    @staticmethod
    def _messages(query, asked, reply):
        """As they are sent: cut to the size that the asker can take, and changed."""
        def build(records, truncated):
            return dnsmessage.reply(query.message, asked, reply.rcode, records, reply.authority,
                                    reply.additional, truncated)

        message = build(reply.records, False)
        if query.transport == "udp" and (reply.truncated or len(message) > asked.limit):
            message = build((), True)
        changed = reply.change(message) if reply.change else message
        return changed if isinstance(changed, list) else [changed]

    def _rule_for(self, name):
        rule, rest = self._rules.get(name), name
        while rule is None and "." in rest:
            rest = rest.split(".", 1)[1]
            rule = self._rules.get("*." + rest)
        return rule

    def _reply(self, query):
        count = self._counts[query.name, query.type]
        self._counts[query.name, query.type] += 1
        rule = self._rule_for(query.name)
        if callable(rule):
            reply = rule(query.name, query.type, count)
        else:
            reply = self._stored(query.name, query.type)
        if reply is None:
            reply = Reply(rcode=NXDOMAIN)
        elif not isinstance(reply, Reply):
            reply = Reply(records=tuple(reply))
        if not reply.records and not reply.authority and reply.rcode in (0, NXDOMAIN):
            reply.authority = (dnsmessage.soa(query.name.split(".", 1)[-1] or "test", ttl=5),)
        return reply

    def _stored(self, name, kind):
        if not isinstance(self._rule_for(name), tuple):
            return None
        answer = []
        for _ in range(CHAIN_MAX):
            rule = self._rules.get(name)
            if not isinstance(rule, tuple):
                break
            records, split = rule
            answer += [record for record in records if record.type == kind]
            alias = next((record for record in records if record.type == "CNAME"), None)
            if alias is None or kind == "CNAME":
                break
            answer.append(alias)
            if split:
                break
            name = alias.data
        return answer

    def close(self):
        self._closing = True
        self._wake.send(b"x")
        self._thread.join()
        for one in self._sockets:
            one.close()
        self._wake.close()
        self._selector.close()
