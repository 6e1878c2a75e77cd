# SPDX-License-Identifier: Apache-2.0
"""A runc container whose cgroup lies below a cgroup that was made beforehand is confined like any
process of the Environment."""

import os
import shutil
import tempfile
import unittest

import bundle
import cgroups
import vectors
from harness import NetTest, main
from lab import A4, A6, D4, D6, R4, Namespace, mapped
from nameserver import NAME, OTHER, Nameserver
from phasegate import NO_NETWORK, PUBLIC, Agent, Run, allowlist, policy
from recorder import PORT


class ContainerAgent(Agent):
    """The probe in a container that `phasegate run` starts by way of runc."""

    def __init__(self, lab, folder, name, *options, **more):
        self.words = ("--", "runc", "--root", folder + "/state", "run", "--bundle", folder, name)
        super(Agent, self).__init__(lab, *options, *self.words, **more)
        self("print ready")


@unittest.skipUnless(shutil.which("runc") and shutil.which("busybox"), "needs runc and busybox")
class Runc(NetTest):
    def container(self, label, *options):
        folder = tempfile.mkdtemp(prefix="pgt-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        cgroup = self.make_cgroup(label)
        bundle.make(folder, self.lab.client, cgroup + "/container", ["/bin/probe"])
        name = cgroup[1:]
        agent = ContainerAgent(self.lab, folder, name, "--cgroup", cgroup, *options)
        self.addCleanup(agent.close)
        return agent, cgroup

    def test_allowlist(self):
        agent, cgroup = self.container("list", "--policy", policy(run=allowlist(A4, A6)))
        with agent:
            self.assertTrue(cgroups.processes(cgroups.path_of(cgroup + "/container")),
                            "the container is not where the test thinks it is")
            for vector in vectors.EVERY_FAMILY:
                for allowed, denied in ((A4, D4), (A6, D6), (mapped(A4), mapped(D4))):
                    with self.subTest(vector=vector.__name__, address=denied):
                        self.assert_reaches(agent, vector, allowed, PORT)
                        self.assert_denied(agent, vector, denied, PORT)
            self.raw_packets(agent)
            self.assert_silent(D4, D6)

    def raw_packets(self, agent):
        for family, address in (("4", D4), ("6", D6)):
            self.assertEqual(agent(f"socket 0 icmp{family}")["errno"], "")
            agent(f"echo 0 {address} raw")
            agent("close 0")

    def test_no_network_and_public(self):
        for value in (NO_NETWORK, PUBLIC):
            agent, _ = self.container(value, "--policy", policy(run=value))
            with self.subTest(value=value), agent:
                for vector in (vectors.tcp, vectors.udp_sendto):
                    for address in (D4, D6):
                        if value == PUBLIC:
                            self.assert_reaches(agent, vector, address, PORT)
                        else:
                            self.assert_denied(agent, vector, address, PORT)
                if value == NO_NETWORK:
                    self.assert_silent(D4, D6)

    def test_names(self):
        """In the namespace of `phasegate run` and in one of the container's own, with the
        resolv.conf that Docker gives to a container."""
        nameserver = Nameserver(self.lab)
        own = Namespace()
        self.addCleanup(own.close)
        own.ip("link set lo up")
        script = "".join(f"nslookup -type=a {name} 127.0.0.11 2>&1\n" for name in (NAME, OTHER))
        for label, namespace in (("host", self.lab.client), ("own", own)):
            folder = tempfile.mkdtemp(prefix="pgt-")
            self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
            cgroup = self.make_cgroup("names" + label)
            bundle.make(folder, namespace, cgroup + "/container", ["/bin/sh", "-c", script])
            run = Run(self.lab, "--policy", policy(run=allowlist(NAME)), "--resolver", R4,
                      "--cgroup", cgroup, "--", "runc", "--root", folder + "/state", "run",
                      "--bundle", folder, cgroup[1:])
            self.addCleanup(run.close)
            with self.subTest(namespace=label):
                _, output = run.finish()
                self.assertIn(A4, output, run.stderr)
                self.assertIn("NXDOMAIN", output)
                self.assertEqual(run.phase_report("run")["dns"]["denied"], 1, run.stderr)
        asked = nameserver.queries(lambda: self.ask_unconfined("fence.invalid"))
        self.assertEqual(set(asked), {NAME})

    def ask_unconfined(self, name):
        for line in ("socket 60 udp4", f"connect 60 {R4} 53", f"query 60 {name}", "recv 60",
                     "close 60"):
            self.unconfined(line)

    def test_the_cgroup_outlives_the_run(self):
        """It was there before; Phasegate leaves it as it was, without programs."""
        agent, cgroup = self.container("stay", "--policy", policy(run=NO_NETWORK))
        with agent:
            self.assert_denied(agent, vectors.tcp, D4, PORT)
        path = cgroups.path_of(cgroup)
        self.assertTrue(os.path.isdir(path))
        self.assertEqual([e.name for e in os.scandir(path) if e.is_dir()], [])


if __name__ == "__main__":
    main()
