# SPDX-License-Identifier: Apache-2.0
"""Base of the tests of containers that the agent attaches to."""

import vectors
from agentcase import AgentTest
from lab import A4, D4
from phasegate import allowlist
from recorder import PORT


class ContainerTest(AgentTest):
    """runtime: dockerd.Dockerd or podman.Podman."""

    runtime = None

    def probe(self, name):
        agent = self.runtime.probe(name)
        self.addCleanup(agent.close)
        return agent

    def attach(self, *names, policy=None, **body):
        return self.create(policy or {"network_policy": allowlist(A4)},
                           members=[{"container": name} for name in names], **body)

    def warnings(self, environment, code):
        return [w["message"] for w in environment["warnings"] if w["code"] == code]

    def assert_confined(self, name):
        agent = self.probe(name)
        self.assert_reaches(agent, vectors.tcp, A4, PORT)
        self.assert_denied(agent, vectors.tcp, D4, PORT)
        self.assert_denied(agent, vectors.udp_sendto, D4, PORT)
        self.assert_silent(D4)
