#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""systemd's descriptor store: queries that come while there is no agent wait for the next one."""

import fcntl
import os
import queue
import signal
import socket
import subprocess
import sys
import textwrap
import threading

from agentcase import AgentTest
from daemon import DAEMON, START_LIMIT, directory_of
from harness import main
from phasegate import allowlist, dying_with_us, started

# Asks for each name that it reads; says when it has asked, then the code of the reply.
ASK = textwrap.dedent("""
    import socket, sys
    for line in sys.stdin:
        labels = b"".join(bytes([len(one)]) + one for one in line.strip().encode().split(b"."))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(20)
            try:
                client.connect(("127.0.0.53", 53))
                client.send(b"ab\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + labels + b"\\0\\0\\1\\0\\1")
                print("asked", flush=True)
                print(client.recv(4096)[3] & 15, flush=True)
            except OSError as error:
                print(type(error).__name__, flush=True)
""")


class Manager:
    """What systemd does of it: keeps descriptors by name, and passes them to the next process."""

    def __init__(self, directory):
        self.path = f"{directory}/manager"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.stored = {}
        self.told = queue.Queue()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            text, fds, _, _ = socket.recv_fds(self.socket, 4096, 16)
            words = dict(line.split("=", 1) for line in text.decode().split("\n") if "=" in line)
            name = words.get("FDNAME")
            if "FDSTOREREMOVE" in words and name in self.stored:
                os.close(self.stored.pop(name))
            for fd in fds:
                if "FDSTORE" not in words or name in self.stored:
                    os.close(fd)
                else:
                    self.stored[name] = fd
            self.told.put(words)
            if "END" in words:
                return

    def wait_for(self, word):
        while word not in self.told.get(timeout=START_LIMIT):
            pass

    def fence(self, daemon):
        """Until everything that the agent has said before is heard."""
        daemon.call("GET", "/v1/capabilities")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.sendto(b"FENCE=1", self.path)
        self.wait_for("FENCE")

    def close(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.sendto(b"END=1", self.path)
        self.thread.join()
        self.socket.close()
        for fd in self.stored.values():
            os.close(fd)


class Store(AgentTest):
    def setUp(self):
        super().setUp()
        self.manager = Manager(self.daemon.directory.name)
        self.addCleanup(os.unlink, self.manager.path)
        self.addCleanup(self.manager.close)
        self.assertEqual(self.daemon.stop(), 0)
        self.start()
        # The class's agent goes on after the test.
        self.addCleanup(self.daemon.start)
        self.addCleanup(self.daemon.stop)

    def start(self):
        # Beyond those that it gets, so that no move covers one that is still to be moved.
        high = {name: fcntl.fcntl(fd, fcntl.F_DUPFD, 100)
                for name, fd in self.manager.stored.items()}
        moves = " ".join(f"{3 + i}<&{fd} {fd}<&-" for i, fd in enumerate(high.values()))
        environment = {**os.environ, "NOTIFY_SOCKET": self.manager.path}
        script = 'exec "$@"'
        if high:
            environment.update(LISTEN_FDS=str(len(high)), LISTEN_FDNAMES=":".join(high))
            script = f'export LISTEN_PID=$$; exec "$@" {moves}'
        self.daemon.process = subprocess.Popen(
            dying_with_us("bash", "-c", script, "bash", *self.lab.client.command(
                DAEMON, "--config", self.daemon.config)),
            stderr=self.daemon.log, env=environment, pass_fds=list(high.values()))
        started.add(self.daemon.process.pid)
        for fd in high.values():
            os.close(fd)
        self.manager.wait_for("READY")

    def asker(self, made):
        process = self.start_in(directory_of(made), *self.lab.client.command(
            sys.executable, "-I", "-c", ASK), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True)

        def ask(name):
            process.stdin.write(name + "\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        return process, ask

    def test_queries_wait_for_the_next_agent(self):
        made = self.create({"network_policy": allowlist("ok.example")})
        self.manager.fence(self.daemon)
        self.assertEqual(len(self.manager.stored), 4)
        process, ask = self.asker(made)
        self.assertEqual((ask("a.example"), process.stdout.readline()), ("asked", "3\n"))
        for end in (signal.SIGKILL, signal.SIGTERM):
            self.daemon.process.send_signal(end)
            self.daemon.process.wait()
            self.assertEqual(ask("b.example"), "asked")
            self.start()
            self.assertEqual(process.stdout.readline(), "3\n")
            self.manager.fence(self.daemon)
            self.assertEqual(len(self.manager.stored), 4)
        self.assertEqual(self.daemon.destroy(made["name"]).status, 200)
        self.manager.fence(self.daemon)
        self.assertEqual(self.manager.stored, {})

    def test_sockets_of_nobody(self):
        made = self.create({"network_policy": allowlist("ok.example")})
        self.manager.fence(self.daemon)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stray:
            self.manager.stored["dns-1-0-none"] = os.dup(stray.fileno())
            # One that is not what its name says.
            name = next(name for name in self.manager.stored if name.endswith(made["name"]))
            os.dup2(stray.fileno(), self.manager.stored[name])
        self.daemon.kill()
        self.start()
        self.manager.fence(self.daemon)
        self.assertNotIn("dns-1-0-none", self.manager.stored)
        process, ask = self.asker(made)
        self.assertEqual((ask("a.example"), process.stdout.readline()), ("asked", "3\n"))


if __name__ == "__main__":
    main()
