#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent as a service: what systemd gives it and is told, and the privileges that it keeps."""

import contextlib
import errno
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from agentcase import AgentTest
from daemon import DAEMON, Daemon, connect, directory_of
from harness import main
from lab import A4
from phasegate import NO_NETWORK, dying_with_us, started

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
LIMIT = 30
# Bits of the sets in /proc/PID/status, by number.
CAPABILITIES = """chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap
    linux_immutable net_bind_service net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module
    sys_rawio sys_chroot sys_ptrace sys_pacct sys_admin sys_boot sys_nice sys_resource sys_time
    sys_tty_config mknod lease audit_write audit_control setfcap mac_override mac_admin syslog
    wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore""".split()


class Service(AgentTest):
    """Each test starts an agent of its own in the directory and with the settings of the class's,
    which is stopped meanwhile."""

    def setUp(self):
        super().setUp()
        self.assertEqual(self.daemon.stop(), 0)
        self.addCleanup(self.daemon.start)
        self.path = f"{self.daemon.directory.name}/notified"
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notified.bind(self.path)
        self.notified.settimeout(LIMIT)
        self.addCleanup(os.unlink, self.path)
        self.addCleanup(self.notified.close)

    def activate(self, sockets, **environment):
        """Starts it as systemd does, with these descriptors from 3 on."""
        moves = " ".join(f"{3 + i}<&{s.fileno()}" for i, s in enumerate(sockets))
        script = f'export LISTEN_PID=$$ WATCHDOG_PID=$$; exec "$@" {moves}'
        words = self.daemon.lab.client.command(DAEMON, "--config", self.daemon.config)
        if not sockets:
            script = script.replace("LISTEN_PID=$$", "")
        else:
            environment["LISTEN_FDS"] = str(len(sockets))
        process = subprocess.Popen(
            dying_with_us("bash", "-c", script, "bash", *words), stderr=subprocess.PIPE, text=True,
            pass_fds=[s.fileno() for s in sockets],
            env={**os.environ, "NOTIFY_SOCKET": self.path, **environment})
        started.add(process.pid)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    def wait_for(self, word):
        """Until systemd would have been told; returns all that it was told until then."""
        told = []
        while word not in told:
            told += self.notified.recv(4096).decode().split("\n")
        return told

    def listening(self, kind=socket.SOCK_STREAM):
        made = socket.socket(socket.AF_UNIX, kind)
        self.addCleanup(made.close)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.daemon.socket)
        made.bind(self.daemon.socket)
        if kind == socket.SOCK_STREAM:
            made.listen(16)
        self.addCleanup(lambda: os.path.exists(self.daemon.socket) and
                        os.unlink(self.daemon.socket))
        return made

    def test_socket_activation(self):
        """Who connects before the agent is there is served when it is."""
        listening = self.listening()
        os.chmod(self.daemon.socket, 0o600)
        with contextlib.closing(connect(self.daemon.socket, LIMIT)) as early:
            early.sendall(b"GET /v1/capabilities HTTP/1.1\r\nHost: x\r\n\r\n")
            process = self.activate([listening])
            self.wait_for("READY=1")
            self.assertIn(b" 200 ", early.recv(4096))
        process.send_signal(signal.SIGTERM)
        self.wait_for("STOPPING=1")
        self.assertEqual(process.wait(LIMIT), 0)
        # It is systemd's: the next agent gets it again.
        self.assertEqual(os.stat(self.daemon.socket).st_mode & 0o777, 0o600)
        self.activate([listening])
        self.wait_for("READY=1")
        self.assertEqual(self.daemon.call("GET", "/v1/environments").status, 200)

    def test_sockets_that_are_not_its_own(self):
        one, two = socket.socketpair()
        with contextlib.closing(one), contextlib.closing(two):
            for sockets in ([one, two], [self.listening(socket.SOCK_DGRAM)], [one]):
                process = self.activate(sockets)
                _, said = process.communicate(timeout=LIMIT)
                self.assertEqual(process.returncode, 1, said)
                self.assertIn("systemd passes", said)

    def test_what_systemd_is_told(self):
        process = self.activate([], WATCHDOG_USEC="1000000")
        told = self.wait_for("READY=1")
        for _ in range(3):
            told += self.wait_for("WATCHDOG=1")
        self.assertNotIn("STOPPING=1", told)
        process.send_signal(signal.SIGTERM)
        self.wait_for("STOPPING=1")
        self.assertEqual(process.wait(LIMIT), 0)

    def test_watchdog_of_an_agent_that_hangs(self):
        """It is the loop itself that feeds it: systemd would start another."""
        process = self.activate([], WATCHDOG_USEC="500000")
        self.wait_for("WATCHDOG=1")
        process.send_signal(signal.SIGSTOP)
        self.notified.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.notified.recv(4096)
        self.assertEqual(select.select([self.notified], [], [], 1), ([], [], []))
        process.send_signal(signal.SIGCONT)

    @staticmethod
    def status(process):
        with open(f"/proc/{process}/status", encoding="ascii") as file:
            return dict(line.split(":\t", 1) for line in file.read().splitlines())

    def test_privileges(self):
        process = self.activate([])
        self.wait_for("READY=1")
        with open(f"{SOURCES}/user/agent/privileges.h", encoding="utf-8") as file:
            kept = re.findall(r"X\(CAP_(\w+), ", file.read())
        status = self.status("self")
        had = {name for number, name in enumerate(CAPABILITIES)
               if int(status["CapPrm"], 16) >> number & 1}
        bits = sum(1 << CAPABILITIES.index(name.lower()) for name in kept if name.lower() in had)
        status = self.status(process.pid)
        sets = {name: int(status[f"Cap{name}"], 16) for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")}
        self.assertEqual(sets, {"Inh": 0, "Prm": bits, "Eff": bits, "Bnd": bits, "Amb": 0})
        self.assertEqual(status["NoNewPrivs"], "1")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=LIMIT)
        with open(f"{SOURCES}/docs/phasegated.8.md", encoding="utf-8") as file:
            manual = file.read()
        for name in kept:
            word = "keeps" if name.lower() in had else "was not given"
            self.assertIn(f"{word} CAP_{name}: ", said)
            self.assertIn(f"CAP_{name}", manual)


class Log(AgentTest):
    def test_what_an_operator_asks(self):
        """Which version with which settings; who made what, and how it ended. No line for each
        call of a harness."""
        name = self.create({"run_network_policy": NO_NETWORK})["name"]
        began = len(self.daemon.output)
        for phase in ("run", "setup", "run"):
            self.daemon.phase(name, phase, lease={"seconds": 3600})
        self.daemon.show(name)
        self.assertEqual(self.daemon.output[began:], "")
        self.daemon.destroy(name)
        said = self.daemon.output
        self.assertRegex(said, rf"info: version \d+\.\d+\.\d+, settings: {self.daemon.config}\n")
        self.assertIn(f"info: {name}: created by user 0, in phase setup\n", said)
        self.assertIn(f"info: {name}: destroyed, processes: kill\n", said)

    def test_lease_that_is_over(self):
        name = self.create({"run_network_policy": NO_NETWORK})["name"]
        self.daemon.phase(name, "run", lease={"seconds": 1})
        cursor = 0
        while not self.daemon.show(name)["denied"]:
            page = self.daemon.call("GET", f"/v1/events?environment={name}&follow=1"
                                    + (f"&cursor={cursor}" if cursor else "")).body
            cursor = page[-1]["cursor"]
        self.assertIn(f"info: {name}: the lease is over: everything is denied\n",
                      self.daemon.output)

    def test_second_agent(self):
        done = subprocess.run(
            self.daemon.lab.client.command(DAEMON, "--config", self.daemon.config),
            capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"in {self.daemon.pins}: end that one first", done.stderr)


class Stop(AgentTest):
    def test_who_is_in_line_is_answered(self):
        """The agent has not even taken the connection when it is told to stop."""
        self.addCleanup(self.daemon.start)
        process = self.daemon.process
        process.send_signal(signal.SIGSTOP)
        line = [connect(self.daemon.socket, LIMIT) for _ in range(120)]
        for one in line:
            self.addCleanup(one.close)
            one.sendall(b"GET /v1/capabilities HTTP/1.1\r\nHost: x\r\n\r\n")
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.wait(LIMIT), 0)
        for one in line:
            self.assertRegex(one.recv(65536), rb"^HTTP/1.1 (200|503) ")


class Check(AgentTest):
    def test_what_is_missing(self):
        """Each without which nothing can be enforced, or the self-probe proves nothing."""
        for name in ("sys_admin", "net_admin", "net_raw"):
            done = subprocess.run(
                ["setpriv", f"--bounding-set=-{name}", f"--inh-caps=-{name}", DAEMON, "--config",
                 self.daemon.config, "--check"], capture_output=True, text=True, timeout=60,
                check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"missing: CAP_{name.upper()}", done.stderr)

    def test_pins_elsewhere(self):
        """Not on a BPF file system: said before anything is made, and by --check."""
        pins = f"{self.daemon.directory.name}/pins/below"
        for more in ((), ("--check",)):
            done = subprocess.run(
                self.daemon.lab.client.command(DAEMON, "--config", self.daemon.config, "--pins",
                                               pins, *more),
                capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"{pins} are not on a BPF file system", done.stderr)
        self.assertFalse(os.path.exists(os.path.dirname(pins)))


class Versions(AgentTest):
    def test_state_that_cannot_be_adopted(self):
        """Of another version, or damaged: the agent says so, changes nothing, and does not serve;
        what is confined stays so."""
        made = self.create({"network_policy": NO_NETWORK})
        record = f"/run/phasegate/{made['name']}"
        with open(f"{record}/state.json", encoding="utf-8") as file:
            good = file.read()
        self.daemon.kill()
        before = sorted(os.listdir(record))
        try:
            for text in (good.replace('"version":', '"version":9', 1), good[:len(good) // 2]):
                self.write(record, text)
                done = subprocess.run(
                    self.daemon.lab.client.command(DAEMON, "--config", self.daemon.config),
                    capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"{record}/state.json cannot be adopted", done.stderr)
                self.assertIn("nothing was changed", done.stderr)
                with open(f"{record}/state.json", encoding="utf-8") as file:
                    self.assertEqual(file.read(), text)
                self.assertEqual(sorted(os.listdir(record)), before)
                self.assertEqual(self.errno_inside(made), str(errno.EPERM))
                # An agent with other pins has nothing to do with it.
                Daemon(self.lab).close()
        finally:
            self.write(record, good)
            self.daemon.start()
        self.assertEqual(self.daemon.show(made["name"])["generation"], 1)

    @staticmethod
    def write(record, text):
        with open(f"{record}/state.json", "w", encoding="utf-8") as file:
            file.write(text)

    def errno_inside(self, made):
        code = ("import socket\n"
                "with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:\n"
                f"    print(made.connect_ex(('{A4}', 9)))")
        process = self.start_in(directory_of(made), *self.lab.client.command(
            sys.executable, "-I", "-c", code), stdout=subprocess.PIPE, text=True)
        return process.communicate(timeout=LIMIT)[0].strip()


class Units(unittest.TestCase):
    @unittest.skipUnless(shutil.which("systemd-analyze"), "needs systemd-analyze")
    def test_units(self):
        """As systemd reads them, but for where the program is."""
        with tempfile.TemporaryDirectory() as directory:
            for source in (os.environ["PHASEGATE_UNIT"], f"{SOURCES}/etc/phasegated.socket"):
                with open(source, encoding="utf-8") as file:
                    text = re.sub("^ExecStart=[^ \n]*", f"ExecStart={shutil.which(DAEMON)}",
                                  file.read(), flags=re.M)
                with open(f"{directory}/{os.path.basename(source)}", "w",
                          encoding="utf-8") as file:
                    file.write(text)
            done = subprocess.run(
                ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
                 f"{directory}/phasegated.service", f"{directory}/phasegated.socket"],
                capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    main()
