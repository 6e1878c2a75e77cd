# SPDX-License-Identifier: Apache-2.0
"""A container that begins in a parent while its agent does not look, and all of whose processes
have left the network namespace that it was given when it does: the links of that one get the guard
even so, and nobody else's do."""

import glob
import json
import os
import signal
import socket
import subprocess
import sys
import time

import cgroups
import hide
from agentcase import ALL_LISTED, AgentTest
from daemon import BUSY_LIMIT, directory_of
from harness import main, token
from lab import Namespace
from phasegate import NO_NETWORK, PUBLIC

OUTSIDE, OWN = "198.51.100.77", "198.51.100.78"
STATION = "02:00:00:00:77:01"
GUARDED = [("boxed", "on")]

CONNECT = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 30) as stream:
    print(stream.recv(1).decode(), flush=True)
"""


class Hidden(AgentTest):
    # What the test has in the place of a container is not one otherwise.
    SETTINGS = {"exposures": ALL_LISTED}

    def setUp(self):
        super().setUp()
        self.made = self.create({"network_policy": NO_NETWORK, "run_network_policy": PUBLIC})
        self.heard = self.lab.client.call(
            lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
        self.addCleanup(self.heard.close)
        self.heard.settimeout(BUSY_LIMIT)

    def lay(self, name="boxed"):
        """The namespace of a container, and a link to it."""
        namespace = Namespace()
        self.addCleanup(namespace.close)
        self.lab.client.ip(f"link add {name} address {STATION} type veth"
                           f" peer name eth7 netns {namespace.path}")
        self.addCleanup(subprocess.run, self.lab.client.command("ip", "link", "del", name),
                        stderr=subprocess.DEVNULL)
        # What its kernel says of a new link by itself is none of the test's.
        self.lab.client.sysctl(**{f"ipv6__conf__{name}__disable_ipv6": 1})
        namespace.sysctl(ipv6__conf__eth7__disable_ipv6=1)
        self.lab.client.ip(f"addr add {OUTSIDE}/24 dev {name}", f"link set {name} up")
        namespace.ip("link set lo up", "link set eth7 up", f"addr add {OWN}/24 dev eth7",
                     # Nothing waits for it until more is allowed.
                     f"neigh add {OUTSIDE} lladdr {STATION} dev eth7")
        return namespace

    def begin(self, namespace, how):
        process = self.start_in(directory_of(self.made), sys.executable, hide.__file__, how,
                                OUTSIDE, OWN, namespace=namespace, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def end_all(self):
        """What the cgroup has."""
        directory = directory_of(self.made)
        for pid in cgroups.processes(directory):
            os.kill(pid, signal.SIGKILL)
        self.wait_for(lambda: not cgroups.processes(directory), "it lives")

    def links(self):
        return [(link["interface"], link["guard"])
                for link in self.daemon.show(self.made["name"])["links"]]

    def wait_for(self, condition, about):
        deadline = time.monotonic() + BUSY_LIMIT
        while not condition():
            self.assertLess(time.monotonic(), deadline, about)
            time.sleep(0.02)

    def noted(self):
        """So many host ends."""
        path, = glob.glob(f"{self.daemon.pins}/+maps-*/pg_host_ends")
        done = subprocess.run(["bpftool", "-j", "map", "dump", "pinned", path], check=True,
                              capture_output=True, text=True)
        return len(json.loads(done.stdout))

    def send(self, process):
        sent = token()
        process.stdin.write(f"{sent}\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "sent\n")
        return sent.encode()

    def assert_judged(self, process):
        """What its kernel answers gets out in public, and not before."""
        denied = self.send(process)
        reply = self.daemon.phase(self.made["name"], "run")
        self.assertEqual(reply.status, 200, reply)
        allowed = self.send(process)
        seen = []
        while sum(allowed in packet for packet in seen) < hide.COUNT:
            seen.append(self.heard.recv(2000))
        self.assertFalse([packet for packet in seen if denied in packet])

    def connect(self, namespace):
        """From a process that is seen there, after the switch to public."""
        with self.lab.client.call(socket.socket) as server:
            server.bind((OUTSIDE, 0))
            server.listen()
            process = self.start_in(directory_of(self.made), sys.executable, "-c", CONNECT,
                                    *map(str, server.getsockname()), namespace=namespace,
                                    stdout=subprocess.PIPE, text=True)
            server.settimeout(BUSY_LIMIT)
            stream, (source, _) = server.accept()
            with stream:
                stream.sendall(b"x")
                self.assertEqual(process.communicate(timeout=BUSY_LIMIT)[0], "x\n")
            self.assertEqual(source, OWN)

    def test_without_an_agent(self):
        """Whoever comes to it later finds the namespace as usual."""
        self.daemon.kill()
        namespace = self.lay()
        process = self.begin(namespace, "leave")
        self.daemon.start()
        self.assertEqual(self.links(), GUARDED)
        self.assert_judged(process)
        self.connect(namespace)
        self.assertEqual(self.links(), GUARDED)
        self.assertIsNone(process.poll())

    def test_while_the_agent_is_busy(self):
        self.daemon.process.send_signal(signal.SIGSTOP)
        process = self.begin(self.lay(), "leave")
        self.daemon.process.send_signal(signal.SIGCONT)
        self.wait_for(lambda: self.links() == GUARDED, "no guard")
        self.assert_judged(process)

    def test_before_another_agent(self):
        """The guard stays."""
        self.daemon.kill()
        process = self.begin(self.lay(), "leave")
        for _ in range(2):
            self.daemon.start()
            self.assertEqual(self.links(), GUARDED)
            self.daemon.kill()
        self.daemon.start()
        self.assert_judged(process)

    def test_with_its_link(self):
        """Which is known by the host's end, wherever the other one is and whatever its number."""
        self.daemon.kill()
        self.begin(self.lay(), "move")
        self.daemon.start()
        self.assertEqual(self.links(), GUARDED)

    def test_of_one_that_stays(self):
        """After another one that has ended; and a child that has left is no reason to look."""
        for how in ("stay", "child"):
            self.daemon.kill()
            self.begin(self.lay(), "stay")
            self.end_all()
            subprocess.run(self.lab.client.command("ip", "link", "del", "boxed"), check=True)
            namespace = self.lay()
            process = self.begin(namespace, how)
            self.daemon.start()
            self.assertEqual(self.links(), GUARDED)
            if how == "stay":
                self.assert_judged(process)
            self.connect(namespace)
            self.assertEqual(self.noted(), 1)
            self.end_all()
            subprocess.run(self.lab.client.command("ip", "link", "del", "boxed"), check=True)
            self.wait_for(lambda: not self.noted(), "it is noted for ever")

    def test_of_one_that_has_ended(self):
        """Its namespace is still there, and nobody's."""
        self.daemon.kill()
        self.begin(self.lay("old"), "leave")
        self.end_all()
        self.daemon.start()
        self.assertEqual((self.links(), self.noted()), ([], 0))
        self.begin(self.lay(), "stay")
        self.wait_for(lambda: self.links() == GUARDED, "no guard")


if __name__ == "__main__":
    main()
