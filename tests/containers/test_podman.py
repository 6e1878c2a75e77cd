#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Podman's containers: as members that are running, and in a cgroup made beforehand."""

import json
import os
import unittest

import cgroups
import podman
import vectors
from containercase import ContainerTest
from harness import main, token
from lab import A4, B4, D4
from phasegate import NO_NETWORK, allowlist
from recorder import PORT

WORDS = ("/bin/probe", "socket 0 tcp4", f"connect 0 {D4} {PORT}", "socket 1 tcp4",
         f"connect 1 {A4} {PORT}")


@unittest.skipUnless(podman.AVAILABLE, "needs podman, conmon, runc and busybox")
class Podman(ContainerTest):
    @classmethod
    def setUpClass(cls):
        cls.runtime = cls.podman = podman.Podman()
        cls.addClassCleanup(cls.podman.close)
        cls.SETTINGS = {"docker_socket": "/nonexistent", "podman_socket": cls.podman.socket,
                        "containerd_state": "/nonexistent", "resolvers": [B4]}
        super().setUpClass()
        cls.podman.start(cls.lab)

    def container(self, *options, **more):
        name, identity = self.podman.run(*options, **more)
        self.addCleanup(self.podman.remove, name)
        return name, identity

    def test_attach(self):
        """By name, id and the beginning of an id; what it had open is closed."""
        name, identity = self.container()
        for called in (name, identity, identity[:12]):
            agent = self.probe(name)
            agent("socket 0 tcp4")
            self.assertEqual(agent(f"connect 0 {D4} {PORT}")["errno"], "")
            self.capture.drain()
            made = self.attach(called)
            member = made["members"][0]
            self.assertEqual((member["runtime"], member["container_id"]), ("podman", identity))
            self.assertIn(identity, member["cgroup"])
            self.assertEqual((member["network"]["mode"], member["network"]["networks"]),
                             ("bridge", ["podman"]))
            self.assertIn(agent("send 0 late")["errno"], ("ECONNABORTED", "EPIPE", "EPERM"))
            # The end of what was open is a packet, too.
            self.fence()
            self.assert_confined(name)
            self.assertEqual(self.daemon.destroy(made["name"], "release").status, 200)

    def test_hosts_written_at_once(self):
        """By the container's first instruction, and what is left of that when it starts again."""
        code = f"echo {D4} forged.test >>/etc/hosts; exec sleep 1000"
        name, _ = self.container(words=("/bin/sh", "-c", code))
        for again in (False, True):
            if again:
                self.podman.call("restart", "--time", "0", name)
            made = self.attach(name, policy={"network_policy": allowlist("forged.test", A4)})
            self.assert_confined(name)
            self.daemon.destroy(made["name"], "release")

    def test_networks(self):
        """One that is the host's, one that is another container's, and none."""
        owner, _ = self.container()
        for network, code in (("host", "host_network"), ("container:" + owner, "shared_network")):
            with self.subTest(network=network):
                name, _ = self.container("--cap-drop", "NET_RAW", "--network", network)
                made = self.attach(name)
                self.assertEqual(len(self.warnings(made, code)), 1, made)
                self.assert_confined(name)
        name, _ = self.container("--network", "none")
        made = self.attach(name)
        self.assertEqual(len(self.warnings(made, "network_blocks")), 1, made)
        agent = self.probe(name)
        self.assertEqual(vectors.tcp(agent, D4, PORT, "x")["errno"], "EPERM")
        self.assertEqual(vectors.tcp(agent, A4, PORT, "x")["errno"], "ENETUNREACH")

    def test_parent_made_before(self):
        """The first thing that a container in it does is judged, after a restart, too."""
        made = self.create({"network_policy": allowlist(A4), "run_network_policy": NO_NETWORK})
        name, _ = self.container(parent=made["cgroup_parent"], words=WORDS)
        expected = ["", "EPERM", "", ""]
        for number in (1, 2):
            self.podman.call("wait", name)
            lines = self.podman.call("logs", name).stdout.decode().splitlines()
            self.assertEqual([json.loads(line)["errno"] for line in lines], expected * number)
            if number == 1:
                self.podman.call("start", name)
        self.assert_silent(D4)
        name, _ = self.container(parent=made["cgroup_parent"])
        agent = self.probe(name)
        self.assert_reaches(agent, vectors.tcp, A4, PORT)
        self.daemon.phase(made["name"], "run", survivors="allow")
        self.assert_denied(agent, vectors.tcp, A4, PORT)
        self.assertEqual(self.daemon.destroy(made["name"], "kill").status, 200)
        self.daemon.names.discard(made["name"])
        self.assertFalse(os.path.exists(cgroups.path_of(made["cgroup_parent"])))

    def test_neighbours(self):
        """Who is in the project, or in the same network namespace, and no member."""
        label = "io.podman.compose.project=" + token("project")
        web, _ = self.container("--label", label)
        side, _ = self.container("--label", label, "--network", "container:" + web)
        other, _ = self.container("--network", "container:" + web)
        made = self.attach(web)
        self.assertEqual(sorted(w.split()[2] for w in self.warnings(made, "unconfined_service")),
                         sorted([side, other]))


if __name__ == "__main__":
    main()
