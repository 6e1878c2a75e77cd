# SPDX-License-Identifier: Apache-2.0
"""What a workload without any capability can do to make a way out look like an answer."""

import socket
import sys
import textwrap

from harness import NetTest, main, token
from lab import CLIENT4, D4
from phasegate import NO_NETWORK, PUBLIC, policy

UNPRIVILEGED = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
ASKED, ANSWERING = 7100, 7101

# In user and network namespaces of its own the workload plays the peer: "D spoke first".
FORGE = """
import ctypes, os, socket, struct, subprocess, sys
source, destination, mark = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
if os.fork() == 0:
    uid, gid = os.getuid(), os.getgid()
    CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET):
        os._exit(77)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    for line in ("link add name va type veth peer name vb", "link set va up", "link set vb up",
                 f"addr add {destination}/24 dev va"):
        subprocess.run(["ip", *line.split()], check=True)
    shown = subprocess.run(["ip", "-br", "link", "show", "va"], check=True, text=True,
                           capture_output=True).stdout
    mac = bytes.fromhex(shown.split()[2].replace(":", ""))
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind((destination, 5555))
    udp = struct.pack(">HHHH", 7000, 5555, 12, 0) + b"fake"
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0,
                       socket.inet_aton(source), socket.inet_aton(destination))
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xffff) + (total >> 16)
    total = (total & 0xffff) + (total >> 16)
    head = head[:10] + struct.pack(">H", 0xffff - total) + head[12:]
    peer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    peer.bind(("vb", 0))
    peer.send(mac + b"\\x02" * 6 + b"\\x08\\x00" + head + udp)
    receiver.settimeout(30)
    assert receiver.recv(100) == b"fake"
    os._exit(0)
status = os.waitstatus_to_exitcode(os.wait()[1])
if status:
    sys.exit(status)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
    plain.bind((destination, 5555))
    try:
        plain.sendto(mark.encode(), (source, 7000))
        print("sent")
    except PermissionError:
        print("EPERM")
"""

ASK = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
    asker.bind(("", 6100))
    asker.settimeout(30)
    asker.sendto(b"question", ({address!r}, {asked}))
    data, peer = asker.recvfrom(100)
    assert data == b"answer" and peer[1] == {answering}
"""

ABUSE = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.bind(("", 6100))
    for port in ({asked}, {answering}):
        try:
            sender.sendto({mark!r}, ({address!r}, port))
            print("sent")
        except PermissionError:
            print("EPERM")
"""


class Flows(NetTest):
    def forge(self, mode, mark):
        run = self.run_command("--policy", policy(run=mode), "--", *UNPRIVILEGED, sys.executable,
                               "-c", FORGE, D4, CLIENT4, mark)
        status, output = run.finish()
        if status == 77:
            self.skipTest("user namespaces are not to be had without privilege here")
        self.assertEqual(status, 0, run.stderr)
        return output.strip()

    def test_a_peer_played_in_another_namespace_opens_nothing(self):
        mark = token("played")
        self.assertEqual(self.forge(NO_NETWORK, mark), "EPERM")
        self.assert_silent(D4)
        mark = token("played")
        self.assertEqual(self.forge(PUBLIC, mark), "sent")
        self.assertIsNotNone(self.recorder.wait(mark))

    def answer_from_another_port(self):
        """A server that listens on one port and answers from another, as TFTP does."""
        def make():
            opened = []
            for port in (ASKED, ANSWERING):
                one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                one.bind((D4, port))
                one.settimeout(30)
                opened.append(one)
            return opened

        asked, answering = self.lab.server.call(make)
        self.addCleanup(asked.close)
        self.addCleanup(answering.close)
        return asked, answering

    def test_an_answer_from_another_port_opens_no_later_phase(self):
        asked, answering = self.answer_from_another_port()
        mark = token("late").encode()
        names = {"address": D4, "asked": ASKED, "answering": ANSWERING, "mark": mark}

        def script(text):
            code = textwrap.dedent(text.format(**names)).replace("'", '"')
            return " ".join((*UNPRIVILEGED, sys.executable, "-c", f"'{code}'"))

        run = self.run_command("--policy", policy(setup=PUBLIC, run=NO_NETWORK),
                               "--setup", script(ASK), "--run", script(ABUSE))
        question, peer = asked.recvfrom(100)
        self.assertEqual(question, b"question")
        answering.sendto(b"answer", peer)
        status, output = run.finish()
        self.assertEqual((status, output.split()), (0, ["EPERM", "EPERM"]), run.stderr)
        self.assertEqual([p for p in self.fence() if mark in p.payload], [])


if __name__ == "__main__":
    main()
