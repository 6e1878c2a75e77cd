# SPDX-License-Identifier: Apache-2.0
"""The judge at the far end: TCP and UDP servers that record what arrives, and a packet capture."""

import collections
import ipaddress
import selectors
import socket
import struct
import threading
import time

from lab import SERVED

PORT = 7000
DNS_PORT = 53
IP_RECVORIGDSTADDR = 20
SO_RCVBUFFORCE = 33
SOL_PACKET, PACKET_STATISTICS = 263, 6
ETH_P_ALL = 3
END, RESET = b"e", b"r"  # what the thread of a Recorder is told

Arrival = collections.namedtuple("Arrival", "protocol address port payload")
# port: where TCP and UDP go to; 0 for all else.
Packet = collections.namedtuple("Packet", "source destination protocol flags size payload port")

FIN, SYN, RST = 1, 2, 4
TCP, UDP, ICMP, ICMP6 = 6, 17, 1, 58


def _family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class Recorder:
    """TCP and UDP on PORT and port 53 of every served address. UDP is echoed; a TCP peer gets its
    payload back when it has shut down its side."""

    def __init__(self, lab):
        self._condition = threading.Condition()
        # In the order of the first of each kind, with how often it came: a flood stays small.
        self._order, self._counts = [], {}
        self._selector = selectors.DefaultSelector()
        self._wake, orders = socket.socketpair()
        self._selector.register(orders, selectors.EVENT_READ, None)
        self._sockets, self._streams = [orders], set()
        lab.server.call(self._open)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        lab.stack.callback(self.close)

    def _open(self):
        for address in SERVED:
            for port in (PORT, DNS_PORT):
                for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                    server = socket.socket(_family(address), kind)
                    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    if kind == socket.SOCK_DGRAM:
                        server.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
                    server.bind((address, port))
                    server.setblocking(False)
                    handler = self._datagrams
                    if kind == socket.SOCK_STREAM:
                        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 256)
                        server.listen(1024)
                        handler = self._accept
                    self._sockets.append(server)
                    self._selector.register(server, selectors.EVENT_READ, (handler,))

    def _serve(self):
        while True:
            for key, _ in self._selector.select():
                if key.data:
                    key.data[0](key.fileobj, *key.data[1:])
                elif key.fileobj.recv(1) == END:
                    return
                else:
                    self._reset()
                    key.fileobj.send(RESET)
                    # The other events that select() told of may be those of closed sockets.
                    break

    def _record(self, protocol, local, payload):
        arrival = Arrival(protocol, local[0], local[1], payload)
        with self._condition:
            known = arrival in self._counts
            self._counts[arrival] = self._counts.get(arrival, 0) + 1
            if not known:
                self._order.append(arrival)
                self._condition.notify_all()

    def _datagrams(self, server):
        while True:
            try:
                payload, peer = server.recvfrom(65536)
            except OSError:
                return
            self._record("udp", server.getsockname(), payload)
            try:
                server.sendto(payload, peer)
            except OSError:
                pass

    def _accept(self, server):
        while True:
            try:
                stream, _ = server.accept()
            except OSError:
                return
            stream.setblocking(False)
            state = {"data": b"", "local": stream.getsockname()}
            self._streams.add(stream)
            self._selector.register(stream, selectors.EVENT_READ, (self._stream, state))

    def _stream(self, stream, state):
        try:
            payload = stream.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            payload = None
        if payload:
            state["data"] += payload
            self._record("tcp", state["local"], state["data"])
            return
        self._selector.unregister(stream)
        self._streams.remove(stream)
        if payload is not None:
            try:
                stream.send(state["data"])
            except OSError:
                pass
        stream.close()

    def arrivals(self, token):
        """Those that hold token; one that came twice is there twice."""
        with self._condition:
            return [a for a in self._order if token.encode() in a.payload
                    for _ in range(self._counts[a])]

    def wait(self, token, limit=30):
        """The first arrival that holds token; None if it does not come within limit seconds."""
        deadline = time.monotonic() + limit
        looked_at = 0
        with self._condition:
            while True:
                for arrival in self._order[looked_at:]:
                    if token.encode() in arrival.payload:
                        return arrival
                looked_at = len(self._order)
                if not self._condition.wait(max(0, deadline - time.monotonic())):
                    return None

    def _reset(self):
        for stream in self._streams:
            self._selector.unregister(stream)
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            stream.close()
        self._streams.clear()

    def forget(self):
        """All that came, and the connections: their peers send no packet more."""
        self._wake.send(RESET)
        self._wake.recv(1)
        with self._condition:
            self._order.clear()
            self._counts.clear()

    def close(self):
        self._wake.send(END)
        self._thread.join()
        for one in (*self._sockets, *self._streams):
            one.close()
        self._wake.close()
        self._selector.close()


class Capture:
    """Every packet that came in through the server's eth0, whoever it was for."""

    def __init__(self, lab):
        def make():
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
            opened.bind(("eth0", ETH_P_ALL))
            opened.setblocking(False)
            return opened

        self._socket = lab.server.call(make)
        self.lost = 0
        lab.stack.callback(self._socket.close)

    def came(self):
        """How many frames can be read since the last call."""
        came, lost = struct.unpack(
            "II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        self.lost += lost
        return came - lost

    def drain(self):
        """Packets since the last call; those that come during this one are the next one's."""
        packets = []
        for _ in range(self.came()):
            frame, where = self._socket.recvfrom(65536)
            if where[2] != socket.PACKET_OUTGOING:
                packet = parse(frame)
                if packet:
                    packets.append(packet)
        return packets

    def to(self, *addresses):
        return [p for p in self.drain() if p.destination in addresses]


def parse(frame):
    kind = frame[12:14]
    if kind == b"\x08\x00":
        size = (frame[14] & 15) * 4
        protocol, source, destination = frame[23], frame[26:30], frame[30:34]
        rest = frame[14 + size:14 + int.from_bytes(frame[16:18], "big")]
    elif kind == b"\x86\xdd":
        protocol, source, destination = frame[20], frame[22:38], frame[38:54]
        rest = frame[54:54 + int.from_bytes(frame[18:20], "big")]
    else:
        return None
    flags, head = 0, 8
    if protocol == TCP and len(rest) >= 20:
        flags, head = rest[13], (rest[12] >> 4) * 4
    payload = rest[head:]
    port = int.from_bytes(rest[2:4], "big") if protocol in (TCP, UDP) else 0
    return Packet(str(ipaddress.ip_address(source)), str(ipaddress.ip_address(destination)),
                  protocol, flags, len(payload), payload, port)
