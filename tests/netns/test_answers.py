# SPDX-License-Identifier: Apache-2.0
"""Answers to datagrams that were sent in an earlier phase open nothing, however late they are: a
router on the way lets them in as long as they come, also while no socket receives them."""

import glob
import json
import socket
import subprocess

import cgroups
from dnslab import PYTHON
from harness import main, token
from keeper import PINS, isolate
from lab import A4, D4
from linklab import LinkTest
from phasegate import LIMIT, NO_NETWORK, PROBE, PUBLIC, dying_with_us, policy

INSIDE, OUTSIDE = 5555, 7333
# Inside: a datagram of SOURCE's comes in by a veth that leads nowhere.
FORGE = """
import socket, struct, subprocess, sys
source, own, outside, inside, data = sys.argv[1:]
subprocess.run(["ip", "-batch", "-"], text=True, check=True, input=(
    "link add forged0 type veth peer name forged1\\nlink set forged0 address 02:00:00:00:00:77\\n"
    "link set forged0 up\\nlink set forged1 up\\n"))
for name in ("all", "forged0"):
    with open(f"/proc/sys/net/ipv4/conf/{name}/rp_filter", "w") as file:
        file.write("0")
udp = struct.pack("!HHHH", int(outside), int(inside), 8 + len(data), 0) + data.encode()
head = struct.pack("!BBHHHBBH", 69, 0, 20 + len(udp), 1, 0, 64, 17, 0) + socket.inet_aton(
    source) + socket.inet_aton(own)
total = sum(struct.unpack("!10H", head))
total = (total & 0xffff) + (total >> 16)
head = head[:10] + struct.pack("!H", ~total & 0xffff) + head[12:]
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as packets:
    packets.bind(("forged1", 0))
    packets.send(bytes.fromhex("020000000077020000000078") + b"\\x08\\0" + head + udp)
"""
TUPLE, HINT = 0, 1  # enum pg_flow_kind
KIND = 53  # in struct pg_flow_key


class Answers(LinkTest):
    def setUp(self):
        super().setUp()
        self.box, self.keeper_ = self.container(), self.keeper()
        self.create(self.keeper_, self.box.cgroup, text=policy(setup=PUBLIC, run=NO_NETWORK),
                    options="a")
        self.assert_link(self.keeper_, "v1")
        self.peers = {address: self.outside(address) for address in (A4, D4)}
        self.process = subprocess.Popen(
            dying_with_us("nsenter", f"--net=/proc/{self.box.pid}/ns/net", "sh", "-c",
                          'echo $$ >"$0" && exec "$@"',
                          f"{cgroups.path_of(self.box.cgroup)}/cgroup.procs", PROBE),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end)

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def probe(self, line):
        print(line, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def outside(self, address):
        def make():
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            made.settimeout(LIMIT)
            made.bind((address, OUTSIDE))
            return made

        made = self.lab.server.call(make)
        self.addCleanup(made.close)
        return made

    @staticmethod
    def flows():
        path, = glob.glob(f"{PINS}/+maps-*/pg_flows")
        dump = subprocess.run(["bpftool", "-j", "map", "dump", "pinned", path], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        return path, [bytes(int(octet, 16) for octet in element["key"])
                      for element in json.loads(dump)]

    def forget(self):
        """As user space does when nothing has come to a socket inside for three minutes."""
        path, keys = self.flows()
        gone = [key for key in keys if key[KIND] in (TUPLE, HINT)]
        self.assertTrue(gone)
        for key in gone:
            subprocess.run(["bpftool", "map", "delete", "pinned", path, "key",
                            *map(str, key)], check=True)

    def send(self, address, data):
        self.peers[address].sendto(data, (self.box.address4, INSIDE))

    def bind(self):
        self.assertEqual(self.probe("socket 0 udp4")["errno"], "")
        self.assertEqual(self.probe(f"bind 0 0.0.0.0 {INSIDE}")["errno"], "")

    def answer(self, address):
        """What the Environment answers to a datagram of the address, as it arrives there."""
        mark = token("late")
        self.send(address, b"question")
        self.assertEqual(self.probe("recvfrom 0")["data"], "question")
        self.probe(f"reply 0 {mark}")
        return mark

    def ask(self):
        self.bind()
        mark = token("asked")
        self.assertEqual(self.probe(f"sendto 0 {D4} {OUTSIDE} {mark}")["errno"], "")
        self.assertEqual(self.peers[D4].recv(100), mark.encode())
        self.probe("close 0")

    def check(self):
        mark = self.answer(A4)  # which comes first, and is the fence behind what D would get
        self.assertEqual(self.peers[A4].recv(100), mark.encode())
        self.answer(D4)
        mark = self.answer(A4)
        self.assertEqual(self.peers[A4].recv(100), mark.encode())
        self.assert_silent(D4)

    def test_after_a_switch(self):
        self.ask()
        self.keeper_("switch", "run")
        self.capture.drain()
        self.forget()
        self.bind()
        self.check()

    def test_before_a_switch(self):
        self.ask()
        self.forget()
        self.keeper_("switch", "run")
        self.capture.drain()
        self.bind()
        self.check()

    def test_forged_question(self):
        """What was made inside is no question that what goes out could be the answer to."""
        self.bind()
        self.box.enter(PYTHON, "-c", FORGE, D4, self.box.address4, str(OUTSIDE), str(INSIDE),
                       "forged")
        self.assertEqual(self.probe("recvfrom 0")["data"], "forged")
        mark = token("public")
        self.probe(f"reply 0 {mark}")
        self.assertEqual(self.peers[D4].recv(100), mark.encode())
        self.keeper_("switch", "run")
        self.capture.drain()
        self.check()


if __name__ == "__main__":
    isolate()
    main()
