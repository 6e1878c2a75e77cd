# SPDX-License-Identifier: Apache-2.0
"""What a command of `phasegate run` does not get unless --keep says so: capabilities and system
calls by which packets pass what judges them. Each refusal has its control, with --keep."""

import json
import os
import shutil
import socket
import struct
import sys
import tempfile

from harness import NetTest, main, token
from lab import A4, A6, D4, D6
from phasegate import allowlist, policy

NOT_EXECUTABLE = 126
ONLY_A = policy(run=allowlist(A4, A6))
# As ping does it where net.ipv4.ping_group_range lets it, as in the lab.
PING = """import errno, socket, sys
for address in sys.argv[1:]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as ping:
        ping.settimeout(10)
        try:
            ping.sendto(bytes((8, 0, 0, 0, 0, 0, 0, 1)) + b"ping", (address, 0))
            print("answered" if ping.recv(1500)[8:] == b"ping" else "garbled")
        except OSError as error:
            print(errno.errorcode[error.errno])
"""

# Sends a frame to each address by a packet socket, as far as there is one.
FRAMES = """import socket, sys
for frame in sys.argv[1:]:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as packets:
        packets.bind(("eth0", 0))
        packets.send(bytes.fromhex(frame))
print("sent")
"""

# Says what becomes of each socket and call, and what the process has, in JSON.
LOOK = """import ctypes, errno, json, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number):
    ctypes.set_errno(0)
    libc.syscall(number, 0, 0, 0, 0, 0, 0)
    return errno.errorcode.get(ctypes.get_errno(), "")
def make(family, kind, protocol=0):
    try:
        socket.socket(family, kind, protocol).close()
        return ""
    except OSError as error:
        return errno.errorcode[error.errno]
with open("/proc/self/status") as file:
    status = dict(line.split(":\\t", 1) for line in file if ":\\t" in line)
D, R, S = socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_STREAM
print(json.dumps({
    "families": {name: make(*of) for name, of in {
        "unix": (1, S), "inet": (2, S), "inet6": (10, D), "netlink": (16, R), "packet": (17, R),
        "packet-dgram": (17, D), "vsock": (40, S), "xdp": (44, R), "alg": (38, 5),
        "raw": (2, R, 1), "ping": (2, D, 1)}.items()},
    "calls": {str(n): call(n) for n in map(int, sys.argv[1:])},
    "sets": {k: int(status[k], 16) for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")},
    "no_new_privs": int(status["NoNewPrivs"])}))
"""
NET_ADMIN, NET_RAW = 1 << 12, 1 << 13
# The same numbers on every architecture but Alpha.
URING = ("425", "426", "427")


def frame(address, mark):
    """An Ethernet frame to everybody with a datagram to the address."""
    data = struct.pack("!HHHH", 40000, 40000, 8 + len(mark), 0) + mark
    if ":" in address:
        packet = struct.pack("!IHBB", 6 << 28, len(data), 17, 64) + socket.inet_pton(
            socket.AF_INET6, "2001:db8:1::2") + socket.inet_pton(socket.AF_INET6, address) + data
    else:
        packet = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(data), 1, 0, 64, 17, 0,
                             socket.inet_aton("192.0.2.2"), socket.inet_aton(address)) + data
    kind = 0x86DD if ":" in address else 0x0800
    return (b"\xff" * 6 + b"\x02" * 6 + struct.pack("!H", kind) + packet).hex()


class Privileges(NetTest):
    def command(self, *words, keep=(), **more):
        run = self.run_command("--policy", ONLY_A, "--", *words, keep=keep, **more)
        status, output = run.finish()
        return status, output, run

    def look(self, *words, keep=()):
        status, output, run = self.command(*words, sys.executable, "-c", LOOK, *URING, keep=keep)
        self.assertEqual(status, 0, run.stderr)
        return json.loads(output), run

    def assert_without(self, seen):
        families = seen["families"]
        for name in ("unix", "inet", "inet6", "netlink", "ping"):
            self.assertEqual(families[name], "", name)
        for name in ("packet", "packet-dgram", "vsock", "xdp", "alg"):
            self.assertEqual(families[name], "EAFNOSUPPORT", name)
        self.assertEqual(families["raw"], "EPERM")
        self.assertEqual(set(seen["calls"].values()), {"EPERM"})
        for name, value in seen["sets"].items():
            self.assertFalse(value & (NET_ADMIN | NET_RAW), name)

    def test_a_command_has_none(self):
        seen, run = self.look()
        self.assert_without(seen)
        # Set-uid programs go on as such.
        self.assertEqual(seen["no_new_privs"], 0)
        self.assertEqual([e for e in run.events if e["event"] == "warning"], [])

    def test_nor_have_its_children(self):
        """By way of a shell, as another user, in a user namespace with all capabilities."""
        for words in (["sh", "-c", '"$@"; exit $?', "-"], ["setpriv", "--reuid=65534"],
                      ["setpriv", "--reuid=65534", "setpriv", "--no-new-privs"]):
            with self.subTest(words=words):
                self.assert_without(self.look(*words)[0])
        seen, _ = self.look("unshare", "--user", "--map-root-user", "--net")
        self.assertEqual(seen["families"]["packet"], "EAFNOSUPPORT")
        self.assertEqual(seen["families"]["vsock"], "EAFNOSUPPORT")
        self.assertEqual(set(seen["calls"].values()), {"EPERM"})

    def test_keep(self):
        """Each kept thing alone, and a warning about it and no other."""
        for keep in ("net-raw", "net-admin", "syscalls"):
            with self.subTest(keep=keep):
                seen, run = self.look(keep=[keep])
                (warning,) = [e for e in run.events if e["event"] == "warning"]
                self.assertEqual(warning["code"], "kept")
                self.assertIn("--keep " + keep, warning["message"])
                for name in ("CapPrm", "CapEff", "CapBnd"):
                    value = seen["sets"][name]
                    self.assertEqual(bool(value & NET_RAW), keep == "net-raw")
                    self.assertEqual(bool(value & NET_ADMIN), keep == "net-admin")
                self.assertEqual(seen["families"]["raw"], "" if keep == "net-raw" else "EPERM")
                self.assertEqual(seen["families"]["packet"],
                                 "EPERM" if keep == "syscalls" else "EAFNOSUPPORT")
                self.assertNotEqual(seen["calls"]["425"], "" if keep == "syscalls" else "EFAULT")

    def test_keep_all(self):
        seen, run = self.look(keep=["all"])
        self.assertEqual(seen["families"]["packet"], "")
        self.assertEqual([e["code"] for e in run.events if e["event"] == "warning"], ["kept"] * 3)

    def test_packet_sockets(self):
        """No frame leaves. The control: with --keep they do, whatever the policy says."""
        for keep, leaves in (((), False), (("net-raw",), False), (("all",), True)):
            with self.subTest(keep=keep):
                marks = {address: token("frame").encode() for address in (A4, D4, A6, D6)}
                status, output, run = self.command(
                    sys.executable, "-c", FRAMES, *(frame(*of) for of in marks.items()), keep=keep)
                self.assertEqual(status == 0 and "sent" in output, leaves, run.stderr)
                arrived = [p.payload for p in self.fence()]
                for address, mark in marks.items():
                    self.assertEqual(any(mark in payload for payload in arrived), leaves, address)

    def test_ping(self):
        """By a ping socket, which is judged like all else."""
        status, output, run = self.command(sys.executable, "-c", PING, A4, D4)
        self.assertEqual((status, output), (0, "answered\nEPERM\n"), run.stderr)
        self.assert_silent(D4)

    def test_program_with_file_capabilities(self):
        """As ping often is: the kernel does not execute it, which is said with what to do."""
        with tempfile.TemporaryDirectory(prefix="pgt-") as folder:
            program = shutil.copy(shutil.which("true"), folder + "/program")
            value = struct.pack("<IIIII", 0x02000001, NET_RAW, 0, 0, 0)
            os.setxattr(program, "security.capability", value)
            status, _, run = self.command(program)
            self.assertEqual(status, NOT_EXECUTABLE, run.stderr)
            (error,) = [e for e in run.events if e["event"] == "error"]
            self.assertIn("--keep", error["message"])
            self.assertEqual(self.command(program, keep=["net-raw"])[0], 0)

    def test_set_uid_programs_work(self):
        with tempfile.TemporaryDirectory(prefix="pgt-") as folder:
            os.chmod(folder, 0o755)
            program = shutil.copy(shutil.which("id"), folder + "/id")
            os.chmod(program, 0o4755)
            status, output, run = self.command("setpriv", "--reuid=65534", program, "-u")
            self.assertEqual((status, output), (0, "0\n"), run.stderr)

    def test_unknown_keep(self):
        status, output, run = self.command("echo", "started", keep=["everything"])
        self.assertEqual((status, output), (2, ""))
        self.assertIn("net-raw", run.events[0]["message"])

    def test_scripts_have_none_either(self):
        run = self.run_command("--policy", ONLY_A, *(
            word for phase in ("setup", "run", "verify")
            for word in ("--" + phase, "grep -E 'CapEff|Seccomp:' /proc/self/status")), keep=())
        status, output = run.finish()
        self.assertEqual(status, 0, run.stderr)
        values = [line.split()[1] for line in output.splitlines()]
        self.assertEqual(len(values), 6, output)
        self.assertEqual(set(values[1::2]), {"2"})
        for value in values[::2]:
            self.assertFalse(int(value, 16) & (NET_ADMIN | NET_RAW))


if __name__ == "__main__":
    main()
