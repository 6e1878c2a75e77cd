# SPDX-License-Identifier: Apache-2.0
"""Cgroups that tests make, all named pgt-NAMESPACE-PID-..., and their removal by whatever is left
alive. A process id means something in its pid namespace only, so that is in the name too."""

import contextlib
import os
import select
import signal

PREFIX = f"pgt-{os.stat('/proc/self/ns/pid').st_ino}-"


def mounts():
    """(type, mount point) of every cgroup hierarchy in sight."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            words = line.split()
            kind = words[words.index("-") + 1]
            if kind in ("cgroup", "cgroup2"):
                yield kind, words[4]


def mount2():
    return next(point for kind, point in mounts() if kind == "cgroup2")


def path_of(cgroup):
    return mount2() + cgroup


def processes(directory):
    """Process ids in a cgroup directory and below."""
    found = []
    for folder, _, _ in os.walk(directory):
        with contextlib.suppress(OSError):
            with open(folder + "/cgroup.procs", encoding="ascii") as file:
                found += [int(line) for line in file]
    # 0 is a process of another pid namespace; to signal 0 would be to signal our own group.
    return [pid for pid in found if pid > 0]


def wait_empty(directory, limit=5):
    """Waits until a cgroup2 directory holds no process; returns whether it does not."""
    try:
        file = open(directory + "/cgroup.events", encoding="ascii")
    except FileNotFoundError:
        return True
    with file:
        poll = select.poll()
        poll.register(file, select.POLLPRI)
        for _ in range(64):
            file.seek(0)
            try:
                if "populated 0" in file.read():
                    return True
            except OSError:
                return True
            if not poll.poll(limit * 1000):
                return False
    return False


def remove(directory, version):
    for _ in range(3):
        for pid in processes(directory):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if version != "cgroup2" or wait_empty(directory):
            break
    for folder, _, _ in os.walk(directory, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def sweep(wanted):
    """Removes the cgroups of those test processes that wanted(pid) names, cgroup2 first."""
    for kind, point in sorted(mounts(), reverse=True):
        for name in os.listdir(point):
            pid = name[len(PREFIX):].split("-")[0] if name.startswith(PREFIX) else ""
            if pid.isdigit() and wanted(int(pid)):
                remove(f"{point}/{name}", kind)


def start_reaper():
    """Forks a process that sweeps up once this one has ended, in whatever way."""
    sweep(lambda pid: not os.path.exists(f"/proc/{pid}"))
    parent = os.getpid()
    reading, writing = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.close(writing)
        os.read(reading, 1)
        sweep(lambda pid: pid == parent)
        os._exit(0)
    os.close(reading)

    def finish():
        os.close(writing)
        os.waitpid(child, 0)

    return finish, child


def make(name):
    """A fresh cgroup2 group below the mount; returns its path as /proc/PID/cgroup shows it."""
    cgroup = f"/{PREFIX}{os.getpid()}-{name}"
    os.mkdir(path_of(cgroup))
    return cgroup
