# SPDX-License-Identifier: Apache-2.0
"""Starting and ending processes in an Environment's own cgroup. Needs the right to write there,
which is root's."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Iterator, List, Sequence

# The process moves itself before its first instruction; if it cannot, it does not start.
_ENTER = 'echo $$ >"$0/cgroup.procs" && exec "$@"'


def cgroup_mount() -> str:
    """Where cgroup version 2 is mounted."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if words[words.index("-") + 1] == "cgroup2":
                return words[4]
    raise FileNotFoundError("cgroup version 2 is not mounted")


def directory_of(cgroup: str) -> str:
    """Of a path as the API says it."""
    return cgroup_mount().rstrip("/") + cgroup


def command_in(directory: str, words: Sequence[str]) -> List[str]:
    """The command line that runs words in the cgroup of a directory."""
    return ["/bin/sh", "-c", _ENTER, directory, *words]


def _pids(directory: str) -> Iterator[int]:
    for folder, _, _ in os.walk(directory):
        with contextlib.suppress(OSError):
            with open(f"{folder}/cgroup.procs", encoding="ascii") as file:
                yield from [int(line) for line in file]


def kill_all(directory: str) -> None:
    """Every process of a cgroup and below. They may not have ended yet when this returns."""
    try:
        with open(f"{directory}/cgroup.kill", "w", encoding="ascii") as file:
            file.write("1")
        return
    except FileNotFoundError:
        # Before Linux 5.14, or the cgroup is gone.
        pass
    for _ in range(8):
        pids = [pid for pid in _pids(directory) if pid > 0]
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
