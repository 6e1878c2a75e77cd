#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client that behaves, while others do not: one small request after the other, each on a
connection of its own, until standard input ends; then a line of JSON with what each one took.

    honest.py SOCKET [UID GID]"""

import contextlib
import json
import os
import select
import subprocess
import sys
import time

from daemon import UnixConnection

# Between two requests: a harness polls or switches now and then, it is not an attack itself.
PAUSE = 0.01


class Honest:
    """Runs it beside a with block; .times are seconds, sorted, and .failures texts."""

    def __init__(self, path, *who):
        self.words = [sys.executable, __file__, path, *map(str, who)]
        self.times = self.failures = ()

    def __enter__(self):
        self.process = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # It has been served once, so that what follows is measured under attack.
        if self.process.stdout.readline() != b"served\n":
            raise AssertionError("the honest client is not served")
        return self

    def __exit__(self, *unused):
        output, _ = self.process.communicate()
        if output:
            self.times, self.failures = json.loads(output)
            self.times.sort()

    def quantile(self, part):
        return self.times[min(int(len(self.times) * part), len(self.times) - 1)]


def measure(path):
    times, failures = [], []
    while True:
        began = time.perf_counter()
        connection = UnixConnection(path)
        with contextlib.closing(connection):
            try:
                connection.request("GET", "/v1/environments")
                reply = connection.getresponse()
                text = reply.read()
                if reply.status != 200:
                    failures.append(f"{reply.status} {text.decode()}")
            except OSError as error:
                failures.append(repr(error))
        times.append(time.perf_counter() - began)
        if len(times) == 1:
            print("served", flush=True)
        if select.select([sys.stdin], [], [], PAUSE)[0]:
            return times, failures


if __name__ == "__main__":
    if len(sys.argv) > 2:
        os.setgroups([int(sys.argv[3])])
        os.setresgid(*[int(sys.argv[3])] * 3)
        os.setresuid(*[int(sys.argv[2])] * 3)
    print(json.dumps(measure(sys.argv[1])))
