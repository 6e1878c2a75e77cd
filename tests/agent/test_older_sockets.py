#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a process had open before it was attached."""

import os
import socket
import subprocess
import sys
import time

import cgroups
from agentcase import AgentTest
from harness import main, token
from lab import A4, CLIENT4, CLIENT6, D4, D6
from phasegate import NO_NETWORK, PUBLIC, allowlist
from recorder import PORT

# Raw ICMPv6 sockets in places that are hard to look into; it does as it is told.
WORKER = """
import array, ctypes, errno, os, queue, socket, sys, threading
CLONE_FILES = 0x400
libc = ctypes.CDLL(None, use_errno=True)
held, todo, done = [], queue.Queue(), queue.Queue()
pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

def make():
    held.append(socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6))

def queue_it():
    rights = array.array("i", [held[0].fileno()])
    pair[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    held.pop().close()

def take_it():
    _, ancillary, _, _ = pair[1].recvmsg(1, 64)
    held.append(socket.socket(fileno=array.array("i", ancillary[0][2])[0]))

def apart():
    if libc.unshare(CLONE_FILES):
        raise OSError(ctypes.get_errno())
    make()

def connect(address, port, kind):
    held.append(socket.socket(socket.AF_INET, getattr(socket, kind)))
    held[-1].connect((address, int(port)))

def send(index, mark):
    try:
        held[int(index)].send(mark.encode())
        return "sent"
    except OSError as error:
        return errno.errorcode[error.errno]

def serve(family, port, wanted):
    server = socket.socket(getattr(socket, family), socket.SOCK_DGRAM)
    server.bind(("", int(port)))
    held.append(server)
    threading.Thread(target=answer, args=(server, int(wanted)), daemon=True).start()

def answer(server, wanted):
    for _ in range(wanted):
        data, peer = server.recvfrom(100)
        try:
            server.sendto(data, peer)
        except PermissionError:
            pass

def solicit(address, mark):
    try:
        held[0].sendto(bytes([135, 0, 0, 0]) + mark.encode() * 3, (address, 0))
        return "sent"
    except PermissionError:
        return "EPERM"

def obey():
    while True:
        name, *words = todo.get()
        done.put(globals()[name](*words) or "done")

threading.Thread(target=obey, daemon=True).start()
print("ready", flush=True)
for line in sys.stdin:
    where, *words = line.split()
    if where == "thread":
        todo.put(words)
        print(done.get(), flush=True)
    else:
        print(globals()[words[0]](*words[1:]) or "done", flush=True)
"""


class OlderSockets(AgentTest):
    def setUp(self):
        super().setUp()
        self.cgroup = self.make_cgroup("older")
        self.worker = self.start_in(cgroups.path_of(self.cgroup), *self.lab.client.command(
            sys.executable, "-c", WORKER), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True)
        self.assertEqual(self.worker.stdout.readline(), "ready\n")

    def tell(self, *words, where="main"):
        self.worker.stdin.write(" ".join((where, *words)) + "\n")
        self.worker.stdin.flush()
        return self.worker.stdout.readline().strip()

    def attach(self, policy=None):
        return self.daemon.create(self.name(), policy=policy or {"network_policy": NO_NETWORK},
                                  members=[{"cgroup": self.cgroup}], attach=True)

    def solicits(self, where="main"):
        """Whether a neighbour solicitation that the worker makes goes out."""
        mark = token("nd")
        said = self.tell("solicit", D6, mark, where=where)
        came = any(mark.encode() in p.payload for p in self.fence())
        self.assertEqual(said, "sent" if came else "EPERM")
        return came

    def connect_all(self):
        for number, kind in enumerate(("SOCK_STREAM", "SOCK_DGRAM")):
            for address in (A4, D4):
                self.tell("connect", address, str(PORT), kind)
        for index in range(4):
            self.assertEqual(self.tell("send", str(index), token("before")), "sent")

    @staticmethod
    def listed(environment):
        found = environment["connections"]
        return {(c["protocol"], c["remote"], c["closed"]) for c in found["listed"]}

    def test_connections(self):
        """Those that the phase does not allow are closed, and all are listed."""
        allowed, denied = f"{A4}:{PORT}", f"{D4}:{PORT}"
        self.connect_all()
        cursor = self.daemon.call("GET", "/v1/events?cursor=now").body[-1]["cursor"]
        made = self.attach({"network_policy": allowlist(A4)})
        self.assertEqual(made.status, 201)
        self.assertEqual((made["connections"]["closed"], made["connections"]["kept"]), (2, 2))
        self.assertEqual(self.listed(made), {("tcp", allowed, False), ("udp", allowed, False),
                                             ("tcp", denied, True), ("udp", denied, True)})
        self.assertEqual([c["closed"] for c in made["connections"]["listed"]],
                         [True, True, False, False])
        self.fence()
        for index, closed in enumerate((False, True, False, True)):
            mark = token("after")
            said = self.tell("send", str(index), mark)
            # A UDP socket is not connected any more.
            self.assertIn(said, ("ECONNABORTED", "EDESTADDRREQ") if closed else ("sent",))
            if not closed:
                self.assertIsNotNone(self.recorder.wait(mark))
        self.assertEqual([p for p in self.fence() if p.destination == D4 and p.payload], [])
        events = self.daemon.call("GET", f"/v1/events?cursor={cursor}"
                                  f"&environment={made['name']}").body
        created, = [e for e in events if e["event"] == "created"]
        self.assertEqual((created["closed"], created["kept"]), (2, 2))
        shown = subprocess.run([os.environ["PHASEGATE_BINARY"], "env", "show", made["name"]],
                               env={**os.environ, "PHASEGATE_SOCKET": self.daemon.socket},
                               stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertIn("2 closed when it was attached, 2 stay", shown)
        self.assertRegex(shown, f"closed +tcp .* to {denied}")

    def test_connections_in_public(self):
        self.connect_all()
        made = self.attach({"network_policy": PUBLIC})
        self.assertEqual((made["connections"]["closed"], made["connections"]["kept"]), (0, 4))
        self.assertIsNone(self.create({}, name=self.name("new"))["connections"])

    def ask(self, ends, said):
        """Sends to each; returns the sockets that wait for the answers."""
        askers = []
        for number, (_, address, family) in enumerate(ends):
            asker = self.lab.server.call(
                lambda kind=family: socket.socket(kind, socket.SOCK_DGRAM))
            self.addCleanup(asker.close)
            asker.settimeout(5)
            asker.sendto(said.encode(), (address, 6300 + number))
            askers.append(asker)
        return askers

    def test_servers(self):
        """What comes to them may be the answer to what they have sent before, so for three minutes
        they answer nobody who is not allowed; then they do."""
        ends = (("AF_INET", CLIENT4, socket.AF_INET), ("AF_INET6", CLIENT6, socket.AF_INET6),
                ("AF_INET6", CLIENT4, socket.AF_INET))
        for number, (family, _, _) in enumerate(ends):
            self.tell("serve", family, str(6300 + number), "3")
        for asker in self.ask(ends, "before"):
            self.assertEqual(asker.recv(100), b"before")
        made = self.attach()
        self.assertEqual(made.status, 201, made)
        askers = self.ask(ends, "barred")
        deadline = time.monotonic() + 10
        while self.daemon.show(made["name"])["counters"]["flows_refused"] < len(ends):
            self.assertLess(time.monotonic(), deadline, "flows are not refused")
        maps, = (name for name in os.listdir(self.daemon.pins) if name.startswith("+maps-"))
        identity = made["members"][0]["id"].to_bytes(8, sys.byteorder)
        subprocess.run(["bpftool", "map", "update", "pinned",
                        f"{self.daemon.pins}/{maps}/pg_flow_bars",
                        "key", *map(str, identity), "value", *["0"] * 8], check=True)
        for asker in self.ask(ends, "later"):
            self.assertEqual(asker.recv(100), b"later")
        for asker in askers:
            asker.setblocking(False)
            self.assertRaises(BlockingIOError, asker.recv, 100)

    def test_of_a_process(self):
        self.tell("make")
        self.assertTrue(self.solicits())
        self.assertEqual(self.attach().status, 201)
        self.assertFalse(self.solicits())

    def test_of_a_thread(self):
        """With a table of descriptors of its own."""
        self.tell("apart", where="thread")
        self.assertTrue(self.solicits("thread"))
        reply = self.attach()
        if reply.status == 201:
            self.assertFalse(self.solicits("thread"))
        else:  # before Linux 6.9
            self.assertCode(reply, "member_unfit", "raw ICMPv6 socket")

    def test_on_its_way(self):
        self.tell("make")
        self.tell("queue_it")
        self.assertCode(self.attach(), "member_unfit", "raw ICMPv6 socket")
        self.tell("take_it")
        self.assertTrue(self.solicits(), "refused, and confined all the same")
        self.assertEqual(self.attach().status, 201)
        self.assertFalse(self.solicits())


if __name__ == "__main__":
    main()
