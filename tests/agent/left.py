# SPDX-License-Identifier: Apache-2.0
"""What an agent and its Environments have in the kernel and in the file system, all in all."""

import glob
import json
import os
import subprocess
import sys
import time

import cgroups
from daemon import PINS

RECORDS = "/run/phasegate"
SETTLED_MAX = 30


def descriptors(daemon):
    return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))


def left(daemon, prefix):
    """Of records and pins those of Environments whose names begin with the prefix."""
    with open(daemon.config, encoding="utf-8") as file:
        parent = cgroups.path_of("/" + json.load(file)["cgroup_parent"])
    found = {"cgroups": [name for name in (os.listdir(parent) if os.path.exists(parent) else [])
                         if not name.startswith("cgroup.")
                         and os.path.isdir(os.path.join(parent, name))]}
    for kind, root in (("records", RECORDS), ("pins", PINS)):
        found[kind] = [name for name in (os.listdir(root) if os.path.isdir(root) else [])
                       if name.startswith(prefix)]
    for path in sorted(glob.glob(f"{daemon.pins}/+maps-*/*")):
        shown = bpftool("map", "show", "pinned", path)
        # Of a plain array all elements are there at all times.
        if shown["type"] in ("hash", "array_of_maps"):
            elements = [e for e in bpftool("map", "dump", "pinned", path) if "error" not in e]
            if shown["type"] == "array_of_maps":
                elements = [e for e in elements if in_use(e)]
            found[os.path.basename(path)] = len(elements)
    return found


def in_use(element):
    """Not so a slot that was emptied together with others, where a map without an address stays, of
    one place. How many slots ever were in use at once is up to chance."""
    inner = int.from_bytes(bytes(int(byte, 16) for byte in element["value"]), sys.byteorder)
    try:
        return bpftool("map", "show", "id", str(inner))["max_entries"] > 1
    except AssertionError:
        return False  # it has gone meanwhile


def bpftool(*words):
    done = subprocess.run(["bpftool", "-j", *words], capture_output=True, text=True, timeout=60,
                          check=False)
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return json.loads(done.stdout)


def settle(test, daemon, prefix, at_first, descriptors_max):
    """Until nothing is left that was not there at first, and no more descriptors than that are
    open: slots are emptied together, some time after their Environments have gone."""
    deadline = time.monotonic() + SETTLED_MAX
    while time.monotonic() < deadline:
        if descriptors(daemon) <= descriptors_max and left(daemon, prefix) == at_first:
            return
        time.sleep(0.1)
    test.assertEqual(left(daemon, prefix), at_first)
    test.assertLessEqual(descriptors(daemon), descriptors_max)
