# SPDX-License-Identifier: Apache-2.0
"""The client inside an Environment that knows DNS: one JSON array a line, [function, arguments,
keyword arguments], each answered by one line of JSON. lookup() is glibc's resolver, ask() none."""

import concurrent.futures
import errno
import ipaddress
import itertools
import json
import os
import random
import socket
import struct
import subprocess
import sys
import time

import dnsmessage

DNS_PORT, PORT = 53, 7000
LIMIT_S = 15
RCODES = {0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}
OPTION_EDE = 15
_ids = itertools.count(random.randrange(1 << 16))


def question(name, kind="A", edns=None, number=None, klass=1):
    number = next(_ids) & 0xffff if number is None else number
    message = dnsmessage.query(name, kind, number, edns)
    end = dnsmessage.parse(message).end
    return message[:end - 2] + struct.pack("!H", klass) + message[end:]


def _errors(opt):
    """The extended DNS errors (RFC 8914) of an OPT record, as [code, text]."""
    found, data = [], opt[11:]
    while len(data) >= 4:
        code, size = struct.unpack_from("!HH", data)
        if code == OPTION_EDE:
            found.append([struct.unpack_from("!H", data, 4)[0],
                          data[6:4 + size].decode(errors="replace")])
        data = data[4 + size:]
    return found


def _readable(record):
    data = record.data
    if record.type in ("A", "AAAA"):
        data = str(ipaddress.ip_address(data))
    return [record.name, record.type, record.ttl, data if isinstance(data, str) else data.hex()]


def decode(message):
    if len(message) >= 6 and message[4:6] == b"\0\0":
        return {"rcode": RCODES[message[3] & 15], "answer": [], "addresses": []}
    asked = dnsmessage.parse(message)
    rcode, records = dnsmessage.read_records(message)
    records = [_readable(record) for record in records]
    answers, authorities = struct.unpack_from("!HH", message, 6)
    return {"id": int.from_bytes(message[:2], "big"), "rcode": RCODES.get(rcode, str(rcode)),
            "size": len(message), "tc": bool(message[2] & 2), "opt": bool(asked.edns),
            "question": message[12:asked.end].hex(), "answer": records[:answers],
            "authority": records[answers:answers + authorities],
            "additional": records[answers + authorities:], "ede": _errors(asked.edns),
            "addresses": sorted(r[3] for r in records[:answers] if r[1] in ("A", "AAAA"))}


# ---- sockets

def _failure(error):
    return {"errno": errno.errorcode.get(error.errno, type(error).__name__)}


def _socket(address, kind):
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
    made.settimeout(LIMIT_S)
    return made


def _read_message(stream):
    """One message of a TCP connection; None at its end."""
    def read(count):
        data = b""
        while len(data) < count:
            part = stream.recv(count - len(data))
            if not part:
                return None
            data += part
        return data

    head = read(2)
    return read(struct.unpack(">H", head)[0]) if head else None


def _same_question(message, query):
    """To the letter, with the same id."""
    end = dnsmessage.parse(query).end
    return message[:2] + message[12:end] == query[:2] + query[12:end]


def ask(server, name, kind="A", tcp=False, connected=False, port=DNS_PORT, limit=LIMIT_S, **more):
    """Asks the nameserver; the reply, or the errno, and whom the socket says it came from."""
    query = question(name, kind, **more)
    started = time.monotonic()
    try:
        with _socket(server, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as asking:
            asking.settimeout(limit)
            if tcp or connected:
                asking.connect((server, port))
                peer = asking.getpeername()[:2]
            if tcp:
                asking.sendall(struct.pack(">H", len(query)) + query)
                message, source = _read_message(asking), peer
                if message is None:
                    return {"errno": "EOF"}
            else:
                if connected:
                    asking.send(query)
                else:
                    asking.sendto(query, (server, port))
                message, source = asking.recvfrom(65535)
                peer = source[:2]
    except OSError as error:
        return {**_failure(error), "ms": (time.monotonic() - started) * 1000}
    return {"errno": "", **decode(message), "from": list(source[:2]), "peer": list(peer),
            "same": _same_question(message, query), "ms": (time.monotonic() - started) * 1000}


def send_question(label, name, kind="A"):
    """On a kept socket, without waiting."""
    _kept[label].send(question(name, kind))
    return {"errno": ""}


def receive_answer(label):
    try:
        return {"errno": "", **decode(_kept[label].recv(65535))}
    except OSError as error:
        return _failure(error)


def ask_many(servers, names, kind="A", limit=LIMIT_S):
    """All the questions, each to each server, from one unconnected socket before any reply is read.
    The replies, with the source as recvfrom shows it and the question's number."""
    queries = [(server, name) for name in names for server in servers]
    family = socket.AF_INET6 if any(":" in server for server in servers) else socket.AF_INET
    replies = []
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.settimeout(limit)
        for number, (server, name) in enumerate(queries):
            asking.sendto(question(name, kind, number=number), (server, DNS_PORT))
        for _ in queries:
            message, source = asking.recvfrom(65535)
            reply = decode(message)
            replies.append({**reply, "from": list(source[:2]), "server": queries[reply["id"]][0],
                            "name": queries[reply["id"]][1]})
    return replies


def ask_another(connected_to, server, name):
    """sendmsg with an address on a socket that is connected to another one."""
    try:
        with _socket(server, socket.SOCK_DGRAM) as asking:
            asking.connect((connected_to, DNS_PORT))
            before = asking.getpeername()
            asking.sendmsg([question(name)], [], 0, (server, DNS_PORT))
            message, source = asking.recvfrom(65535)
            return {"errno": "", **decode(message), "from": list(source[:2]),
                    "peer": list(before[:2]), "peer_after": list(asking.getpeername()[:2])}
    except OSError as error:
        return _failure(error)


def ask_pipelined(server, names, kind="A"):
    """The questions on one TCP connection at once; their replies in the order of the questions."""
    with _socket(server, socket.SOCK_STREAM) as stream:
        stream.connect((server, DNS_PORT))
        queries = [question(name, kind, number=number) for number, name in enumerate(names)]
        stream.sendall(b"".join(struct.pack(">H", len(query)) + query for query in queries))
        replies = [decode(_read_message(stream)) for _ in queries]
    return sorted(replies, key=lambda reply: reply["id"])


def send_datagram(server, data, port=DNS_PORT):
    """Octets as they are; what comes back within a moment, or the errno."""
    try:
        with _socket(server, socket.SOCK_DGRAM) as asking:
            asking.settimeout(0.2)
            asking.sendto(bytes.fromhex(data), (server, port))
            return {"errno": "", **decode(asking.recvfrom(65535)[0])}
    except OSError as error:
        return _failure(error)


def _checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data[:len(data) // 2 * 2]))
    total += data[-1] << 8 if len(data) % 2 else 0
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff


def send_raw(server, payload, protocol=socket.IPPROTO_UDP, port=DNS_PORT):
    """A UDP datagram or a TCP SYN to the port that a raw socket builds."""
    payload = payload.encode()
    if protocol == socket.IPPROTO_TCP:
        packet = struct.pack(">HHIIBBHHH", 40000, port, 1, 0, 5 << 4, 2, 512, 0, 0) + payload
    else:
        packet = struct.pack(">HHHH", 40000, port, 8 + len(payload), 0) + payload
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_RAW, protocol) as raw:
            raw.settimeout(LIMIT_S)
            raw.sendto(packet, (server, 0))
    except OSError as error:
        return _failure(error)
    return {"errno": ""}


_kept = {}


def open_stream(label, address, port=PORT):
    """Connects; the connection is kept under its label."""
    stream = _socket(address, socket.SOCK_STREAM)
    started = time.monotonic()
    try:
        stream.connect((address, port))
    except OSError as error:
        stream.close()
        return {**_failure(error), "us": (time.monotonic() - started) * 1e6}
    _kept[label] = stream
    return {"errno": "", "us": (time.monotonic() - started) * 1e6}


def open_raw6(label):
    _kept[label] = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)


def send_neighbour_solicitation(label, address, token):
    """Or what has its type."""
    try:
        _kept[label].sendto(struct.pack(">BBHI", 135, 0, 0, 0) + token.encode(), (address, 0))
    except OSError as error:
        return _failure(error)
    return {"errno": ""}


def listen(label, address="127.0.0.1"):
    """Listens at a port of the kernel's choice."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    _kept[label] = socket.create_server((address, 0), family=family)
    return {"port": _kept[label].getsockname()[1]}


def echo(label):
    """Takes a connection to what listens, and sends back what comes first."""
    listener = _kept[label]
    listener.settimeout(LIMIT_S)
    stream = listener.accept()[0]
    stream.settimeout(LIMIT_S)
    listener.close()
    _kept[label] = stream
    data = stream.recv(65536)
    stream.sendall(data)
    return {"data": data.decode(errors="replace")}


def open_datagrams(label, address, port=PORT):
    made = _socket(address, socket.SOCK_DGRAM)
    _kept[label] = made
    try:
        made.connect((address, port))
    except OSError as error:
        return _failure(error)
    return {"errno": ""}


def send(label, token):
    try:
        return {"errno": "", "sent": _kept[label].send(token.encode())}
    except OSError as error:
        return _failure(error)


def receive(label):
    try:
        return {"errno": "", "data": _kept[label].recv(65536).decode(errors="replace")}
    except OSError as error:
        return _failure(error)


def close(label):
    _kept.pop(label).close()
    return {"errno": ""}


def connect(address, token="", port=PORT):
    """Connects, sends the token and reads it back."""
    result = open_stream("connect", address, port)
    if result["errno"]:
        return result
    with _kept.pop("connect") as stream:
        try:
            stream.sendall(token.encode())
            stream.shutdown(socket.SHUT_WR)
            result["data"] = stream.recv(65536).decode(errors="replace")
        except OSError as error:
            return _failure(error)
    return result


def lookup(name, family=0):
    """What getaddrinfo says: addresses, or the name of its error."""
    started = time.monotonic()
    try:
        found = socket.getaddrinfo(name, PORT, family, socket.SOCK_STREAM)
    except socket.gaierror as error:
        names = {value: name for name, value in vars(socket).items() if name.startswith("EAI_")}
        return {"error": names.get(error.errno, str(error)), "addresses": [],
                "ms": (time.monotonic() - started) * 1000}
    return {"error": "", "addresses": sorted({entry[4][0] for entry in found}),
            "ms": (time.monotonic() - started) * 1000}


def lookup_many(names):
    """Eight threads, as a busy application would."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return list(pool.map(lookup, names))


def visit(name, token=""):
    """Resolves the name and connects to each of its addresses."""
    found = lookup(name)
    if found["error"]:
        return found
    return {**found, "connects": {address: connect(address, token)
                                  for address in found["addresses"]}}


def ask_and_connect(server, pattern, count, first=0):
    """Asks for `count` names, each once, and connects to all that the answer has without waiting
    for the connection: what is refused by policy is refused by connect() itself."""
    outcomes = {}
    connects = 0
    with _socket(server, socket.SOCK_DGRAM) as asking:
        asking.connect((server, DNS_PORT))
        for number in range(first, first + count):
            query = question(pattern.format(number))
            asking.send(query)
            message = asking.recv(65535)
            while message[:2] != query[:2]:
                message = asking.recv(65535)
            addresses = decode(message)["addresses"]
            if not addresses:
                outcomes["no address"] = outcomes.get("no address", 0) + 1
            for address in addresses:
                outcome = _try_connect(address)
                outcomes[outcome] = outcomes.get(outcome, 0) + 1
                connects += 1
    return {"connects": connects, "outcomes": outcomes}


def _try_connect(address):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as stream:
        stream.setblocking(False)
        number = stream.connect_ex((address, PORT))
    return "ok" if number in (0, errno.EINPROGRESS) else errno.errorcode[number]


def flood(server, pattern, rate, seconds):
    """Questions at a rate, whose answers nobody reads."""
    started = time.monotonic()
    sent = failed = 0
    with _socket(server, socket.SOCK_DGRAM) as asking:
        asking.setblocking(False)
        asking.connect((server, DNS_PORT))
        while (now := time.monotonic() - started) < seconds:
            while sent < now * rate:
                try:
                    asking.send(question(pattern.format(sent)))
                except OSError:
                    failed += 1
                sent += 1
            time.sleep(0.001)
    return {"sent": sent, "failed": failed, "rate": sent / (time.monotonic() - started)}


def attempt(*addresses):
    """What connect() without waiting says for each."""
    return {address: _try_connect(address) for address in addresses}


def run(*words, limit=30):
    """Another program, in the same Environment."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=limit, check=False)
    return {"status": done.returncode, "output": done.stdout.decode(errors="replace")}


def open_idle(server, count):
    """Connections to the nameserver on which nothing is asked; how many could be made."""
    for number in range(count):
        result = open_stream(f"idle{number}", server, DNS_PORT)
        if result["errno"]:
            return {"open": number, **result}
    return {"open": count, "errno": ""}


def pid():
    return os.getpid()


def main():
    """Arguments are lines, too: then standard input is not read."""
    functions = {name: function for name, function in globals().items() if callable(function)}
    for line in sys.argv[1:] or sys.stdin:
        name, args, more = json.loads(line)
        print(json.dumps(functions[name](*args, **more)), flush=True)


if __name__ == "__main__":
    main()
