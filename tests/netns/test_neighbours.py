# SPDX-License-Identifier: Apache-2.0
"""A network namespace that was made inside the Environment's cgroup, as container runtimes do it:
the kernel's own neighbour discovery is then charged to the Environment, and must pass for IPv6 to
work at all, while the same packets from an application must not."""

import os
import socket
import subprocess

import cgroups
import vectors
from harness import NetTest, main
from lab import A6, CLIENT6, D6, GATEWAY6, Lab, Namespace
from phasegate import NO_NETWORK, allowlist, dying_with_us, policy
from recorder import ICMP6, PORT


class Neighbours(NetTest):
    @classmethod
    def make_lab(cls):
        cls.cgroup = cgroups.make("namespace")
        path = cgroups.path_of(cls.cgroup)
        cls.addClassCleanup(cgroups.remove, path, "cgroup2")
        script = f"echo $$ > {path}/cgroup.procs; exec unshare --net sh -c 'echo made; read end'"
        maker = subprocess.Popen(dying_with_us("sh", "-c", script), stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE)
        maker.stdout.readline()
        namespace = Namespace(os.open(f"/proc/{maker.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        maker.communicate(b"\n")
        return Lab(namespace)

    def forget_neighbours(self):
        """Every test begins with addresses that must be asked for."""
        for side in (self.lab.client, self.lab.server):
            side.ip("neigh flush dev eth0")
        self.capture.drain()

    def test_allowed_address_is_reached(self):
        with self.agent("--policy", policy(run=allowlist(A6)), "--cgroup", self.cgroup) as agent:
            self.forget_neighbours()
            self.assert_reaches(agent, vectors.tcp, A6, PORT)
            self.assert_denied(agent, vectors.tcp, D6, PORT)
            self.assert_silent(D6)

    def test_server_inside_is_reached_with_no_network(self):
        with self.agent("--policy", policy(run=NO_NETWORK), "--cgroup", self.cgroup) as agent:
            agent("socket 0 tcp6")
            agent("bind 0 :: 8500")
            agent("listen 0")
            self.forget_neighbours()
            outside = self.lab.server.call(self.connect_inside)
            self.addCleanup(outside.close)
            self.assertEqual(agent("accept 0 1")["errno"], "")

    @staticmethod
    def connect_inside():
        return socket.create_connection((CLIENT6, 8500), 5)

    def test_an_application_cannot_send_them(self):
        """Echo requests and neighbour solicitations by a raw socket, to an address on the link."""
        with self.agent("--policy", policy(run=NO_NETWORK), "--cgroup", self.cgroup) as agent:
            agent("socket 0 icmp6")
            for kind in (128, 133, 135, 136, 143):
                agent(f"echo 0 {GATEWAY6} forged{kind} {kind}")
            packets = self.capture.to(GATEWAY6)
            self.assertEqual([p for p in packets if p.protocol == ICMP6 and
                              b"forged" in p.payload], [])
        self.unconfined("socket 0 icmp6")
        self.unconfined(f"echo 0 {GATEWAY6} forged 135")
        packets = self.capture.to(GATEWAY6)
        self.assertTrue([p for p in packets if b"forged" in p.payload])


if __name__ == "__main__":
    main()
