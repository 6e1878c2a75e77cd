#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of a fuzz target, one a file: make_seeds.py TOPIC TESTDATA SEEDS."""

import json
import pathlib
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


def name(text):
    return b"".join(bytes([len(label)]) + label.encode() for label in text.split(".")) + b"\0"


def record(owner, kind, data):
    return owner + struct.pack(">HHIH", kind, 1, 60, len(data)) + data


def answer(_):
    """Responses for the name that the target asks: addresses, a chain of CNAMEs, nothing."""
    question = b"\xc0\x0c"
    target = name("www.example.net")
    for kind, address in ((1, bytes([203, 0, 113, 10])), (28, bytes(range(16)))):
        head = name("api.example.com") + struct.pack(">HH", kind, 1)
        for records in (
            [],
            [record(question, kind, address)],
            [record(question, kind, address), record(name("evil.test"), kind, address)],
            [record(question, 5, target), record(target, kind, address)],
        ):
            counts = struct.pack(">HHHHHH", 1, 0x8180, 1, len(records), 0, 0)
            yield counts + head + b"".join(records)


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


topic, data, seeds = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
seeds.mkdir(parents=True, exist_ok=True)
for number, seed in enumerate({"policy": policy, "answer": answer, "listener": listener}[topic](data)):
    (seeds / f"{number:03}").write_bytes(seed)
