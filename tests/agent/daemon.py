# SPDX-License-Identifier: Apache-2.0
"""The agent of a test: its own socket, settings and pins. Every reply is checked against
docs/openapi.yaml."""

import contextlib
import http.client
import itertools
import json
import os
import select
import signal
import socket
import struct
import subprocess
import tempfile
import time

import cgroups
import openapi
from phasegate import dying_with_us, started

DAEMON = os.environ.get("PHASEGATED_BINARY", "phasegated")
PINS = "/sys/fs/bpf/phasegate"
# Sanitizers on a busy machine; not what is promised.
START_LIMIT = 60
BUSY_LIMIT = 60
_numbers = itertools.count(1)


def connect(path, timeout=60):
    """Waits in line where the backlog is full; a time-out of Python's makes it fail at once."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        limit = struct.pack("@ll", int(timeout), 0)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        made.connect(path)
    except OSError:
        made.close()
        raise
    made.settimeout(timeout)
    return made


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=60):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = connect(self.path, self.timeout)


class Reply:
    def __init__(self, status, body):
        self.status = status
        self.body = body
        self.code = body.get("code") if isinstance(body, dict) else None

    def __getitem__(self, key):
        return self.body[key]

    def __repr__(self):
        return f"{self.status} {json.dumps(self.body)}"


def call(path, method, target, body=None, timeout=60):
    """One request on a connection of its own."""
    connection = UnixConnection(path, timeout)
    with contextlib.closing(connection):
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        # What is refused before it has all been received is refused in the middle of it.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, target, body)
        return read_reply(connection, method, target)


def read_reply(connection, method, target):
    response = connection.getresponse()
    text = response.read().decode()
    kind = response.headers["Content-Type"]
    if kind == "application/x-ndjson":
        parsed = [json.loads(line) for line in text.splitlines()]
    else:
        parsed = json.loads(text)
    openapi.check_reply(method, target, response.status, kind, parsed)
    return Reply(response.status, parsed)


def sweep(lab):
    """Ends what tests that were killed have left: their agents' Environments are kept."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(PINS):
            pid = name.removeprefix("+test-").split("-")[0]
            if name.startswith("+test-") and not os.path.exists(f"/proc/{pid}"):
                try:
                    Daemon(lab, pins=f"{PINS}/{name}").close()
                except AssertionError as error:
                    print(f"{PINS}/{name} is left of an earlier test: {error}", flush=True)


class Daemon:
    swept = False

    def __init__(self, lab, **settings):
        if not Daemon.swept:
            Daemon.swept = True
            sweep(lab)
        self.directory = tempfile.TemporaryDirectory(prefix="pgt-agent-")
        self.lab = lab
        self.socket = f"{self.directory.name}/agent.sock"
        self.pins = f"{PINS}/+test-{os.getpid()}-{next(_numbers)}"
        self.config = f"{self.directory.name}/phasegated.conf"
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump({"socket": self.socket, "pins": self.pins,
                       "cgroup_parent": f"{cgroups.PREFIX}{os.getpid()}-parent-{next(_numbers)}",
                       **settings}, file)
        self.log = open(f"{self.directory.name}/log", "w+", encoding="utf-8")
        self.names = set()
        self.start()

    def start(self, *words, environment=None, wait=True):
        """Starts it, and waits until it serves (READY=1)."""
        path = f"{self.directory.name}/notify"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(path)
        began = time.monotonic()
        self.process = subprocess.Popen(
            dying_with_us(*self.lab.client.command(DAEMON, "--config", self.config, *words)),
            stderr=self.log, env={**os.environ, "NOTIFY_SOCKET": path, **(environment or {})})
        started.add(self.process.pid)
        with contextlib.closing(notify):
            while wait:
                ready, _, _ = select.select([notify], [], [], 0.2)
                if ready and b"READY=1" in notify.recv(4096).split(b"\n"):
                    break
                if self.process.poll() is not None:
                    raise AssertionError(f"ended with {self.process.returncode}: {self.output}")
                if time.monotonic() - began > START_LIMIT:
                    self.kill()
                    raise AssertionError(f"does not serve: {self.output}")
        return time.monotonic() - began

    @property
    def output(self):
        with open(self.log.name, encoding="utf-8") as file:
            return file.read()

    def call(self, method, target, body=None, **more):
        return call(self.socket, method, target, body, **more)

    def call_until_done(self, *words):
        """As clients do: once more where the agent has said that it was too busy to do anything, as
        it is while others of this machine start and end at the same time, or has not seen yet that
        connections were closed."""
        deadline = time.monotonic() + BUSY_LIMIT
        while True:
            reply = self.call(*words)
            if reply.code not in ("busy", "too_many_clients") or time.monotonic() > deadline:
                return reply

    def create(self, name, **body):
        self.names.add(name)
        return self.call_until_done("POST", "/v1/environments", {"name": name, **body})

    def show(self, name):
        return self.call("GET", f"/v1/environments/{name}")

    def phase(self, name, phase, **more):
        return self.call("PUT", f"/v1/environments/{name}/phase", {"phase": phase, **more})

    def destroy(self, name, processes="kill"):
        return self.call_until_done("DELETE",
                                    f"/v1/environments/{name}?processes={processes}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """As systemd does; returns its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(START_LIMIT)

    def close(self):
        """Destroys what is left, and ends it, which has to go well."""
        try:
            ended = self.process.poll()
            if ended not in (None, -signal.SIGKILL):
                raise AssertionError(f"has ended with {ended}: {self.output}")
            if ended is not None:
                self.start()
            for environment in self.call("GET", "/v1/environments")["environments"]:
                self.destroy(environment["name"])
            status = self.stop()
            if status:
                raise AssertionError(f"ends with {status}: {self.output}")
            if "none that the agent makes" in self.output:
                raise AssertionError(f"a system call is missing in syscalls.h: {self.output}")
        finally:
            if self.process.poll() is None:
                self.kill()
            self.log.close()
            self.directory.cleanup()


def directory_of(environment):
    """Of the first member, in the file system."""
    return cgroups.path_of(environment["members"][0]["cgroup"])


def start_in(cgroup_directory, *words, namespace=None, **more):
    """Runs words in the cgroup: there before the first instruction, and in the network namespace
    before that, so that nobody sees it in another one."""
    script = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
    words = ["sh", "-c", script, cgroup_directory, *words]
    if namespace:
        words = namespace.command(*words)
    process = subprocess.Popen(dying_with_us(*words), **more)
    started.add(process.pid)
    if namespace:
        wait_in(cgroup_directory, process.pid)
    return process


def wait_in(directory, pid):
    """Until the process is in the cgroup."""
    began = time.monotonic()
    while pid not in cgroups.processes(directory):
        if time.monotonic() - began > START_LIMIT:
            raise AssertionError(f"{pid} does not come to {directory}")
        os.sched_yield()
