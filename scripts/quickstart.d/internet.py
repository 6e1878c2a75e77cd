#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: internet.py ADDRESS...

The servers of the demonstration: HTTP on port 80 and an echo of datagrams on port 7 of each
address. Prints a line for every packet that comes in from the client, whatever it is: the time at
which the kernel received it, destination, and "dns" or "other". Ends at SIGTERM, once all packets
that have arrived are printed.
"""
import http.server
import selectors
import signal
import socket
import socketserver
import struct
import sys
import threading

ETH_P_ALL = 3
SOL_PACKET, PACKET_STATISTICS = 263, 6
SO_TIMESTAMPNS = 35
IPV4, IPV6 = 0x0800, 0x86DD
TCP_OR_UDP = (6, 17)


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        """Nothing: the packets are the record."""


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        data, sock = self.request
        sock.sendto(data, self.client_address)


def serve(address):
    """Bound to the address: answers come from where the client sent to."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    kinds = ((http.server.HTTPServer, Hello, 80), (socketserver.UDPServer, Echo, 7))
    for base, handler, port in kinds:
        server = type("Server", (base,), {"address_family": family})((address, port), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()


def describe(protocol, packet):
    """Destination and kind. No header of the demonstration has options or extensions."""
    if protocol == IPV4:
        family, destination, transport, payload = socket.AF_INET, packet[16:20], packet[9], 20
    elif protocol == IPV6:
        family, destination, transport, payload = socket.AF_INET6, packet[24:40], packet[6], 40
    else:
        return None
    port = struct.unpack_from(">H", packet, payload + 2)[0] if transport in TCP_OR_UDP else 0
    return f"{socket.inet_ntop(family, destination)} {'dns' if port == 53 else 'other'}"


def print_packets(sock):
    """All that have arrived."""
    while True:
        try:
            packet, ancillary, _, sender = sock.recvmsg(65536, 64)
        except BlockingIOError:
            return
        text = describe(sender[1], packet)
        if text and sender[2] == socket.PACKET_HOST:
            seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
            print(seconds * 10**9 + nanoseconds, text, flush=True)


def main():
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    packets.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    packets.bind(("eth0", ETH_P_ALL))
    packets.setblocking(False)
    stop, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGTERM, lambda *_: None)
    for address in sys.argv[1:]:
        serve(address)
    print("ready", file=sys.stderr, flush=True)
    with selectors.DefaultSelector() as selector:
        selector.register(packets, selectors.EVENT_READ)
        selector.register(stop, selectors.EVENT_READ)
        while not any(key.fileobj is stop for key, _ in selector.select()):
            print_packets(packets)
    print_packets(packets)
    _, lost = struct.unpack("II", packets.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    if lost:
        sys.exit(f"{lost} packets were not seen")


main()
