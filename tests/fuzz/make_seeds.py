#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of a fuzz target, one a file: make_seeds.py TOPIC TESTDATA SEEDS."""

import json
import pathlib
import re
import struct
import sys


def policy(data):
    """The documents of the vectors, and each entry of the vectors inside a document."""
    for line in (data / "policy/policy_documents.jsonl").read_text().splitlines():
        yield json.loads(line)["doc"].encode()
    for line in (data / "policy/policy_entries.tsv").read_text().splitlines():
        if not line.startswith("#"):
            entry = line.split("\t")[0]
            yield (
                '{"network_policy":{"network_mode":"allowlist","allowed_hosts":[%s]}}' % entry
            ).encode()


def request(data):
    """Bodies of requests, with the policies of the vectors in them, and paths."""
    for line in (data / "policy/policy_documents.jsonl").read_text().splitlines()[:40]:
        document = json.loads(line)["doc"]
        yield ('{"name":"a","policy":%s}' % document).encode()
        yield ('{"policy":[{},%s],"form":"env-params","name":"a"}' % document).encode()
    yield json.dumps({
        "name": "a", "policy": {"network_policy": "public"}, "allow": {"run": ["example.com"]},
        "members": [{"cgroup": "/a/b"}, {"pid": 1}], "attach": True, "phase": "run",
        "verifier": "new", "member_traffic": "deny", "report_denials": False,
        "dns": {"floor_s": 1, "grace_s": 2, "denied": "refused", "forbid_private": True}}).encode()
    yield b'{"flag":true,"number":1,"decimal":"18446744073709551615","text":"a","list":[1],' \
          b'"object":{},"any":null,"policy":0}'
    yield b"/v1/environments/a/phase"


def state(data):
    """States of kept Environments: whole, of another version, cut off, with values that differ."""
    headers = (data / "../../include/phasegate/abi").resolve()
    abi = next(int(found[1]) for path in sorted(headers.glob("*.h")) for found in
               [re.search(r"define PG_ABI_VERSION\s+(\d+)", path.read_text())] if found)
    slot = {"compiled": 1, "mode": 2, "set": 5, "tables": 1, "learned": 3, "set_id": 7,
            "learned_id": 8, "flags": 1}
    whole = {
        "version": 1, "abi": abi, "intent": "none", "pins": "/sys/fs/bpf/phasegate/+agent",
        "state": 17, "flags": 133, "members": ["18446744073709551615", "2"],
        "listener": ["127.77.1.2:61000", "[::1]:61000"], "banks": [[slot] * 3, None],
        "apart": True, "report_denials": False, "floor_s": 1, "grace_s": 2,
        "wildcard_per_minute": 3, "forbid_private": True, "denial": 1, "addresses_max": 4,
        "resolvers": ["192.0.2.53:53"], "own_resolvers": ["[2001:db8::1]:53"],
        "told_resolvers": 1,
        "hosts": ["db", "192.0.2.1"], "owner": 1000, "note": "{}"}
    yield json.dumps(whole).encode()
    yield json.dumps(whole).encode()[:-20]
    values = (None, True, -1, 0, 2 ** 32, 10 ** 40, 1.5, "x", "", [], {}, ["1"] * 70, [[]] * 3)
    for field in whole:
        yield json.dumps({name: value for name, value in whole.items() if name != field}).encode()
        for value in values:
            yield json.dumps({**whole, field: value}).encode()
    for field in slot:
        for value in values:
            yield json.dumps({**whole, "banks": [[{**slot, field: value}] * 3, None]}).encode()


def config(_):
    """Settings, and notes behind an n."""
    whole = {
        "socket": "/run/phasegate/agent.sock", "pins": "/sys/fs/bpf/phasegate/+agent",
        "cgroup_parent": "phasegate", "group": "root", "log_level": "debug",
        "docker_socket": "/a", "podman_socket": "/b", "containerd_state": "/c",
        "never_allow": ["169.254.169.254", "10.0.0.0/8", "fd00::/8"], "host_ports": [443, 65535],
        "resolvers": ["192.0.2.1", "[2001:db8::1]:5353"], "clients_per_user": 1,
        "environments_per_user": 4095, "members_per_user": 1, "entries_per_user": 0}
    yield b"c" + json.dumps(whole).encode()
    for field, value in whole.items():
        yield b"c" + json.dumps({field: value}).encode()
    yield b"n" + json.dumps({
        "digest": "18446744073709551615", "verifier": "new", "apart": True,
        "members": "\"cgroup\":\"/a\"", "warnings": "", "run_since": "12", "frozen": False,
        "lease_phase": "run", "lease_then": "setup", "lease_deadline": "99"}).encode()


def name(text):
    return b"".join(bytes([len(label)]) + label.encode() for label in text.split(".")) + b"\0"


def record(owner, kind, data):
    return owner + struct.pack(">HHIH", kind, 1, 60, len(data)) + data


def soa(owner):
    names = b"\x02ns" + owner + b"\x04root" + owner
    return record(owner, 6, names + struct.pack(">IIIII", 1, 2, 3, 4, 30))


def response(owner, kind, records, authority=(), rcode=0):
    counts = struct.pack(">HHHHHH", 1, 0x8180 | rcode, 1, len(records), len(authority), 0)
    question = name(owner) + struct.pack(">HH", kind, 1)
    return counts + question + b"".join(records) + b"".join(authority)


def answer(_):
    """
    Responses: addresses, every layout of data, chains whole and dangling, absences; behind a
    dangling one the sections of the response about its end.
    """
    question = b"\xc0\x0c"
    zone = b"\xc0\x10"
    target = name("www.example.net")
    params = b"\0\0\0\6\0\1\0\4\0\5\0\1\0\3\2h2\0\3\0\2\1\xbb\0\4\0\4\xcb\0\x71\1"
    params += b"\0\5\0\2xx\0\6\0\x10" + bytes(range(16)) + b"\0\7\0\0"
    chain = [record(question, 5, target)]
    seeds = []
    for kind, value in (
        (1, bytes([203, 0, 113, 10])),
        (28, bytes(range(16))),
        (2, question),
        (5, zone),
        (6, question + zone + bytes(20)),
        (12, b"\1a" + zone),
        (15, b"\0\x0a" + question),
        (16, b"\4text"),
        (17, question + b"\0"),
        (26, b"\0\1" + question + zone),
        (33, b"\0\1\0\2\1\xbb" + question),
        (64, b"\0\0" + target),
        (65, b"\0\1\0" + params),
        (257, b"\0\5issueca.test"),
        (65280, b"\xc0\x0c"),
    ):
        for records in (
            [],
            [record(question, kind, value)] * 2,
            [record(question, kind, value), record(name("evil.test"), kind, value)],
            chain + [record(target, kind, value)],
        ):
            seeds.append((response("api.example.com", kind, records), b""))
    for rcode in (0, 3):
        for records in ([], chain):
            for authority in ([], [soa(zone)], [soa(name("example.net"))], [soa(b"\0")]):
                whole = response("api.example.com", 1, records, authority, rcode)
                seeds.append((whole, struct.pack(">HHB", 0, 0, rcode)))
    dangling = response("api.example.com", 1, chain)
    address = record(question, 1, bytes([203, 0, 113, 10]))
    back = record(question, 5, name("api.example.com"))
    further = record(question, 5, name("b.example.net"))
    end = record(name("b.example.net"), 1, bytes([203, 0, 113, 10]))
    for records in ([address], [back], [further], [further, end]):
        rest = struct.pack(">HHB", len(records), 0, 0) + b"".join(records)
        seeds.append((dangling, rest))
    for first, rest in seeds:
        yield struct.pack(">H", len(first)) + first + rest


def query(_):
    """Queries: plain, with EDNS right and wrong, with what does not belong there."""
    opt = b"\0" + struct.pack(">HHIH", 41, 1232, 0x8000, 12) + b"\0\x0a\0\x08" + bytes(8)
    version = b"\0" + struct.pack(">HHIH", 41, 1232, 0x10000, 0)
    tsig = record(name("key.test"), 250, b"")
    address = record(b"\xc0\x0c", 1, bytes(4))
    reverse = ".".join(["0"] * 32) + ".ip6.arpa"
    for owner, kind in (
        ("Api.Example.com", 1),
        ("_443._tcp.example.com", 65),
        ("4.3.2.1.in-addr.arpa", 12),
        (reverse, 12),
    ):
        for flags, counts, rest in (
            (0x0100, (1, 0, 0, 0), b""),
            (0x0100, (1, 0, 0, 1), opt),
            (0x0100, (1, 0, 0, 1), version),
            (0x0100, (1, 0, 0, 1), tsig),
            (0x0100, (1, 0, 0, 2), opt + opt),
            (0x0100, (1, 1, 0, 0), address),
            (0x0100, (2, 0, 0, 0), b"\0\0\1\0\1"),
            (0x0100, (1, 0, 0, 0), b"x"),
            (0x2900, (1, 0, 0, 0), b""),
            (0x8180, (1, 0, 0, 0), b""),
        ):
            head = struct.pack(">HHHHHH", 1, flags, *counts)
            yield head + name(owner) + struct.pack(">HH", kind, 1) + rest
    yield struct.pack(">HHHHHH", 1, 0x0100, 1, 0, 0, 0) + b"\xc0\x06\0\1\0\1"


def resolv_conf(_):
    """Files as they are found, and lines that are none."""
    yield b"# by hand\nsearch example.com\noptions ndots:5\nnameserver 192.0.2.1 # first\r\n"
    yield b"nameserver 2001:db8::1\nnameserver fe80::1%eth0\nnameserver\n nameserver 192.0.2.2\n"
    yield b"127.0.0.1\tlocalhost\n::1 localhost ip6-localhost\n192.0.2.1 Db.Test. db # it\n"
    yield b"192.0.2.1 a..b . \\ fine\nfe80::1%eth0 a\n192.0.2.1\n"


def listener(_):
    """Streams of messages behind their length: short, long, too long, empty, cut off; in small and
    large pieces; answered at once, or after others."""
    streams = [
        [b"a query"],
        [b"%d" % number * number for number in range(1, 40)],
        [bytes(4096), b"between", bytes(4097), b"after"],
        [b"before", b"", b"after"],
    ]
    for messages in streams:
        stream = b"".join(struct.pack(">H", len(message)) + message for message in messages)
        for head in (b"\0\0", b"\xff\0", b"\x20\5"):
            yield head + stream
            yield head + stream[:-1]


def inside(_):
    """Texts of /proc, and what Docker says; the first octet is the kind."""
    yield b"\0" b"29 22 0:25 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw\n" \
          b"36 35 98:0 /a\\040b /mnt\\011\\134 ro,noatime master:1 - ext3 /dev/root ro,errors=x\n"
    yield b"\0" b"29 22 0:25 / / rw -\n29 22 0 / / rw - cgroup2\n\n1 2 3:4 \\04 \\999 ro - x y z\n"
    yield b"\1" b"12:devices:/docker/abc\n4:net_cls,net_prio:/\n1:name=systemd:/x\n0::/a:b/c\n"
    yield b"\1" b"0::/../x (deleted)\n0::\n:\n"
    yield b"\2" b"Name:\tx\nUid:\t0\t1\t2\t3\nCapBnd:\t000001ffffffffff\n"
    yield b"\2" b"a *:* rwm\nc 10:200 rwm\nb 8:* r\nc 1:3\n"
    container = {
        "Id": "ab" * 32, "Name": "/web", "State": {"Running": True, "Pid": 5,
                                                   "StartedAt": "2026-01-01T00:00:00.5Z"},
        "Config": {"Env": ["HTTP_PROXY=http://[::1]:1/", "A"], "Labels": {
            "com.docker.compose.project": "p", "com.docker.compose.service": "s"}},
        "HostConfig": {"NetworkMode": "bridge", "Privileged": False, "CapAdd": ["NET_ADMIN"],
                       "CapDrop": ["ALL"], "Dns": ["192.0.2.53"],
                       "ExtraHosts": ["db:192.0.2.1", "six:2001:db8::1", "x"],
                       "Devices": [{"PathOnHost": "/dev/net/tun"}], "PidMode": "host"},
        "HostsPath": "/h", "ResolvConfPath": "/r", "Mounts": [{"Source": "/run/docker.sock"}],
        "NetworkSettings": {"Networks": {"n": {"NetworkID": "x", "IPAddress": "172.17.0.2",
                                               "GlobalIPv6Address": "2001:db8::2"}}}}
    yield b"\3" + json.dumps(container).encode()
    for part in ("State", "Config", "HostConfig", "NetworkSettings", "Id"):
        for value in (None, [], {}, "", 1, [None], {"Pid": 2 ** 40}):
            yield b"\3" + json.dumps({**container, part: value}).encode()
    yield b"\4" + json.dumps([{"Id": "a", "Names": ["/x", "/y/z"], "Labels": {
        "com.docker.compose.project": "p"}, "HostConfig": {"NetworkMode": "host"}}, {}]).encode()


topics = {f.__name__: f for f in (policy, answer, query, resolv_conf, listener, request,
                                   state, config, inside)}
topic, data, seeds = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
seeds.mkdir(parents=True, exist_ok=True)
for number, seed in enumerate(topics[topic](data)):
    (seeds / f"{number:03}").write_bytes(seed)
