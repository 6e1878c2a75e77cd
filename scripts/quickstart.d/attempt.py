#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: attempt.py ATTEMPTS RESULTS PHASE

The workload of the demonstration: makes each attempt of the table and appends to RESULTS one line
of JSON for each: when it began and ended, and what a program sees, an answer or an error.
"""
import errno
import http.client
import json
import socket
import struct
import sys
import threading
import time

LIMIT = 3  # seconds; none of the attempts takes that long, unless a denial were silent
NAME, ADDRESS = "api.example.com", "198.51.100.10"


def http_get(target):
    connection = http.client.HTTPConnection(target, 80, timeout=LIMIT)
    try:
        connection.request("GET", "/")
        response = connection.getresponse()
        response.read()
        return str(response.status)
    finally:
        connection.close()


def exchange(target, port, payload):
    """Sends a datagram from a socket that is not connected, and returns the answer to it."""
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(LIMIT)
        sock.sendto(payload, (target, port))
        return sock.recvfrom(512)[0]


def udp_echo(target):
    return "echo" if exchange(target, 7, b"hello") == b"hello" else "other data"


def make_query():
    labels = b"".join(bytes([len(label)]) + label.encode() for label in NAME.split("."))
    return struct.pack(">6H", 1, 0x0100, 1, 0, 0, 0) + labels + struct.pack(">BHH", 0, 1, 1)


def read_answer(message):
    return "answer" if socket.inet_aton(ADDRESS) in message else "no address"


def dns_query(target):
    """Asks this nameserver itself, whatever /etc/resolv.conf says."""
    return read_answer(exchange(target, 53, make_query()))


def dns_query_tcp(target):
    with socket.create_connection((target, 53), LIMIT) as sock, sock.makefile("rb") as file:
        query = make_query()
        sock.sendall(struct.pack(">H", len(query)) + query)
        (size,) = struct.unpack(">H", file.read(2))
        return read_answer(file.read(size))


def look_up(name):
    return "address" if socket.getaddrinfo(name, None) else "no address"


def serve_one(listener):
    peer, _ = listener.accept()
    with peer:
        peer.recv(4096)
        peer.sendall(b"HTTP/1.0 200 OK\r\n\r\n")


def http_inside(target):
    """To a server of the workload's own, as tools on localhost are used."""
    with socket.create_server((target, 80)) as listener:
        threading.Thread(target=serve_one, args=(listener,), daemon=True).start()
        return http_get(target)


def outcome(kind, target):
    """What the client sees, in one word."""
    inside = target == "127.0.0.1"
    attempt = {"http": http_inside if inside else http_get, "udp": udp_echo, "name": look_up,
               "dns": dns_query, "dns-tcp": dns_query_tcp}
    try:
        return attempt[kind](target)
    except socket.gaierror as error:
        return next(name for name in dir(socket)
                    if name.startswith("EAI_") and getattr(socket, name) == error.errno)
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return errno.errorcode.get(error.errno, "error")


def main():
    attempts, results, phase = sys.argv[1:]
    with open(attempts, encoding="ascii") as file:
        rows = [line.split("\t")[:2] for line in file if not line.startswith("#")]
    with open(results, "a", encoding="ascii") as file:
        for kind, target in rows:
            began = time.time_ns()
            saw = outcome(kind, target.replace("PHASE", phase))
            print(json.dumps({"phase": phase, "kind": kind, "target": target, "saw": saw,
                              "began": began, "ended": time.time_ns()}), file=file)


main()
