# SPDX-License-Identifier: Apache-2.0
"""DNS messages: what a scripted nameserver and a test's own client need to read and write."""

import collections
import ipaddress
import struct

TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28,
         "SRV": 33, "OPT": 41, "SVCB": 64, "HTTPS": 65, "IXFR": 251, "AXFR": 252, "ANY": 255,
         "CAA": 257}
_NAMES = {number: name for name, number in TYPES.items()}
UDP_LIMIT, EDNS_LIMIT = 512, 1232
QUERY_RECURSIVE, REPLY, TRUNCATED = 0x0100, 0x8180, 0x0200

# data: a name (CNAME, NS, PTR), or octets that are written as they are.
Record = collections.namedtuple("Record", "name type ttl data")

# end: where the question section ends. limit: what fits over UDP. edns: a copy of the OPT record.
Question = collections.namedtuple("Question", "name type end limit edns", defaults=(b"",))


def a(name, address, ttl=60):
    """A or AAAA, whichever the address is."""
    value = ipaddress.ip_address(address)
    return Record(name, "A" if value.version == 4 else "AAAA", ttl, value.packed)


def cname(name, target, ttl=60):
    return Record(name, "CNAME", ttl, target)


def ns(name, target, ttl=60):
    return Record(name, "NS", ttl, target)


def ptr(name, target, ttl=60):
    return Record(name, "PTR", ttl, target)


def mx(name, target, preference=10, ttl=60):
    return Record(name, "MX", ttl, struct.pack("!H", preference) + labels(target))


def txt(name, *texts, ttl=60):
    return Record(name, "TXT", ttl, b"".join(bytes([len(t)]) + t.encode() for t in texts))


def srv(name, target, port, ttl=60):
    return Record(name, "SRV", ttl, struct.pack("!HHH", 0, 0, port) + labels(target))


def caa(name, tag, value, ttl=60):
    return Record(name, "CAA", ttl, bytes([0, len(tag)]) + tag.encode() + value.encode())


def soa(name, ttl=60, minimum=None):
    return Record(name, "SOA", ttl, labels("ns." + name) + labels("root." + name) + struct.pack(
        "!IIIII", 1, 3600, 600, 86400, ttl if minimum is None else minimum))


def https(name, *parameters, target="", priority=1, ttl=60, kind="HTTPS"):
    """parameters: (key, octets), as hints: (4, four octets for each address)."""
    return Record(name, kind, ttl, struct.pack("!H", priority) + labels(target) + b"".join(
        struct.pack("!HH", key, len(value)) + value for key, value in parameters))


def labels(name):
    """The wire form, without compression."""
    return b"".join(bytes([len(label)]) + label.encode("latin-1")
                    for label in name.rstrip(".").split(".") if label) + b"\0"


def type_number(kind):
    return TYPES[kind] if kind in TYPES else int(kind.removeprefix("TYPE"))


def type_name(number):
    return _NAMES.get(number, f"TYPE{number}")


def query(name, kind, number=0x4e51, edns=None, options=b""):
    """A message. edns: the size of UDP replies that the OPT record offers."""
    extra = b"" if edns is None else struct.pack("!BHHIH", 0, TYPES["OPT"], edns, 0,
                                                 len(options)) + options
    return struct.pack("!HHHHHH", number, QUERY_RECURSIVE, 1, 0, 0, int(edns is not None)) + \
        labels(name) + struct.pack("!HH", type_number(kind), 1) + extra


def read_name(message, at):
    """The name at that place in lower case, and where what follows it begins."""
    words, end = [], None
    for _ in range(128):
        size = message[at]
        if size >= 0xc0:
            end = at + 2 if end is None else end
            at = (size & 0x3f) << 8 | message[at + 1]
        elif size == 0:
            return ".".join(words), at + 1 if end is None else end
        else:
            words.append(message[at + 1:at + 1 + size].decode("latin-1").lower())
            at += 1 + size
    raise ValueError("a name without end")


def parse(message):
    """The question of a message. ValueError, IndexError, struct.error: there is none."""
    _, _, questions, answers, authorities, additionals = struct.unpack("!HHHHHH", message[:12])
    if questions != 1:
        raise ValueError(f"{questions} questions")
    name, at = read_name(message, 12)
    kind, _ = struct.unpack("!HH", message[at:at + 4])
    end = at = at + 4
    limit, edns = UDP_LIMIT, b""
    for _ in range(answers + authorities + additionals):
        start = at
        _, at = read_name(message, at)
        rtype, rclass, _, size = struct.unpack("!HHIH", message[at:at + 10])
        at += 10 + size
        if rtype == TYPES["OPT"]:
            limit, edns = max(UDP_LIMIT, rclass), message[start:at]
    return Question(name, type_name(kind), end, limit, edns)


def read_records(message):
    """(rcode, all records but OPT) of a reply; names in data only for CNAME, NS and PTR."""
    question, records = parse(message), []
    at = question.end
    counts = struct.unpack("!HHH", message[6:12])
    for _ in range(sum(counts)):
        name, at = read_name(message, at)
        rtype, _, ttl, size = struct.unpack("!HHIH", message[at:at + 10])
        at += 10
        data = message[at:at + size]
        if type_name(rtype) in ("CNAME", "NS", "PTR"):
            data, _ = read_name(message, at)
        at += size
        if rtype != TYPES["OPT"]:
            records.append(Record(name, type_name(rtype), ttl, data))
    return message[3] & 15, records


class _Writer:
    def __init__(self, head):
        self.out, self._places = bytearray(head), {}

    def name(self, name):
        name = name.rstrip(".")
        while name:
            place = self._places.get(name)
            if place is not None:
                self.out += struct.pack("!H", 0xc000 | place)
                return
            if len(self.out) < 0x4000:
                self._places[name] = len(self.out)
            label, _, name = name.partition(".")
            self.out += bytes([len(label)]) + label.encode("latin-1")
        self.out += b"\0"

    def known(self, name, place):
        """The name stands there already, in whatever case."""
        self._places[name] = place

    def record(self, record):
        self.name(record.name)
        self.out += struct.pack("!HHIH", type_number(record.type), 1, record.ttl, 0)
        start = len(self.out)
        if isinstance(record.data, str):
            self.name(record.data)
        else:
            self.out += record.data
        struct.pack_into("!H", self.out, start - 2, len(self.out) - start)


def reply(message, question, rcode=0, answer=(), authority=(), additional=(), truncated=False):
    """The reply to the message, whose question it repeats to the letter."""
    if truncated:
        answer = authority = additional = ()
    writer = _Writer(message[:2] + struct.pack(
        "!HHHHH", REPLY | rcode | (TRUNCATED if truncated else 0), 1, len(answer), len(authority),
        len(additional) + bool(question.edns)) + message[12:question.end])
    if question.name:
        writer.known(question.name, 12)
    for record in (*answer, *authority, *additional):
        writer.record(record)
    if question.edns:
        writer.out += struct.pack("!BHHIH", 0, TYPES["OPT"], EDNS_LIMIT, 0, 0)
    return bytes(writer.out)
