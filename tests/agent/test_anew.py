#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A member whose cgroup is removed and made anew, as when a container restarts, is confined again,
by the agent that runs or by the next one; as long as it is not, no phase can be set."""

import os

import cgroups
import vectors
from agentcase import AgentTest
from harness import main
from lab import A4, D4
from left import bpftool
from phasegate import PROBE, Agent, allowlist
from recorder import PORT

POLICY = {"network_policy": allowlist(A4), "run_network_policy": "no-network"}


def attached(directory):
    return sorted(program["name"] for program in bpftool("cgroup", "show", directory))


class Inside(Agent):
    """The probe in a cgroup."""

    def __init__(self, lab, directory):
        script = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
        super(Agent, self).__init__(lab, command=["sh", "-c", script, directory, PROBE])
        self("print ready")


class Anew(AgentTest):
    def setUp(self):
        super().setUp()
        self.cgroups = [self.make_cgroup(name) for name in (self.name("one"), self.name("two"))]
        self.made = self.create(POLICY, members=[{"cgroup": path} for path in self.cgroups])
        self.cursor = self.daemon.call("GET", "/v1/events?cursor=now").body[-1]["cursor"]

    def make_anew(self, cgroup):
        directory = cgroups.path_of(cgroup)
        os.rmdir(directory)
        os.mkdir(directory)
        return directory

    def assert_told(self, state):
        for _ in range(20):
            reply = self.daemon.call("GET", f"/v1/events?cursor={self.cursor}&follow=1"
                                     f"&environment={self.made['name']}")
            if reply.status == 410:
                self.cursor = reply["object"]
                continue
            self.cursor = reply.body[-1]["cursor"]
            states = [line["state"] for line in reply.body if line["event"] == "member_anew"]
            if states:
                self.assertEqual(states, [state])
                return
        self.fail("nothing is told: " + self.daemon.output)

    def assert_confined(self):
        for cgroup in self.cgroups:
            with Inside(self.lab, cgroups.path_of(cgroup)) as inside:
                self.assert_reaches(inside, vectors.tcp, A4, PORT)
                self.assert_denied(inside, vectors.tcp, D4, PORT)
        self.assert_silent(D4)

    def test_with_the_agent(self):
        """Whichever member, also the first, whose id is that of the Environment."""
        for cgroup in self.cgroups:
            self.make_anew(cgroup)
            self.assert_told("confined")
            self.assert_confined()
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon.start()
        self.assert_confined()
        self.daemon.phase(self.made["name"], "run")
        with Inside(self.lab, cgroups.path_of(self.cgroups[0])) as inside:
            self.assert_denied(inside, vectors.tcp, A4, PORT)

    def test_without_the_agent(self):
        """All of them, while no agent runs."""
        self.daemon.kill()
        for cgroup in self.cgroups:
            self.make_anew(cgroup)
        self.daemon.start()
        self.assertEqual(self.daemon.phase(self.made["name"], "setup").status, 200)
        self.assert_confined()

    def test_gone_while_the_agent_starts(self):
        """As containers that are stopped then and started later: all members, or one of two. The
        Environment waits for them, in the phase that is set meanwhile."""
        for gone in ((0, 1), (1,)):
            self.daemon.kill()
            for number in gone:
                os.rmdir(cgroups.path_of(self.cgroups[number]))
            self.daemon.start()
            shown = self.daemon.show(self.made["name"])
            self.assertEqual([bool(member.get("gone")) for member in shown["members"]],
                             [number in gone for number in (0, 1)])
            self.assertEqual(self.daemon.phase(self.made["name"], "run").status, 200)
            for number in gone:
                os.mkdir(cgroups.path_of(self.cgroups[number]))
                self.assert_told("confined")
            for cgroup in self.cgroups:
                with Inside(self.lab, cgroups.path_of(cgroup)) as inside:
                    self.assert_denied(inside, vectors.tcp, A4, PORT)
            self.assertEqual(self.daemon.phase(self.made["name"], "setup").status, 200)
            self.assert_confined()

    def test_open_connections_are_closed(self):
        self.daemon.kill()
        inside = Inside(self.lab, self.make_anew(self.cgroups[0]))
        self.addCleanup(inside.close)
        inside("socket 0 tcp4")
        self.assertEqual(inside(f"connect 0 {D4} {PORT}")["errno"], "")
        self.daemon.start()
        self.assert_told("confined")
        self.assertIn(inside("send 0 late")["errno"], ("ECONNABORTED", "EPIPE", "EPERM"))

    def test_that_cannot_be_confined(self):
        self.daemon.kill()
        freeze = self.make_anew(self.cgroups[1]) + "/cgroup.freeze"
        with open(freeze, "w", encoding="ascii") as file:
            file.write("1")
        self.daemon.start()
        self.assert_told("unconfined")
        reply = self.daemon.phase(self.made["name"], "run")
        self.assertCode(reply, "enforcement_failed", self.cgroups[1])
        reply = self.daemon.call("PUT", f"/v1/environments/{self.made['name']}/policy",
                                 {"policy": POLICY})
        self.assertCode(reply, "enforcement_failed", self.cgroups[1])
        shown = self.daemon.show(self.made["name"])
        self.assertEqual((shown["phase"], shown["generation"]), ("setup", 1))
        with open(freeze, "w", encoding="ascii") as file:
            file.write("0")
        self.assert_told("confined")
        self.assert_confined()
        self.assertEqual(self.daemon.phase(self.made["name"], "run").status, 200)

    def test_that_a_killed_agent_has_begun_with(self):
        """It has attached all but what is for names."""
        cgroup = self.make_cgroup(self.name("named"))
        self.made = self.create({"network_policy": allowlist("*.example.com")},
                                members=[{"cgroup": cgroup}])
        directory = cgroups.path_of(cgroup)
        wanted = attached(directory)
        self.daemon.kill()
        self.make_anew(cgroup)
        # Those of an Environment without names.
        begun = bpftool("cgroup", "show", cgroups.path_of(self.cgroups[0]))
        for program in begun:
            bpftool("cgroup", "attach", directory, program["attach_type"], "id",
                    str(program["id"]), "multi")
        self.assertLess(len(begun), len(wanted))
        self.daemon.start()
        self.assert_told("confined")
        self.assertEqual(attached(directory), wanted)

    def test_one_that_is_gone(self):
        """It is no reason to refuse anything, and seen."""
        name = self.made["name"]
        os.rmdir(cgroups.path_of(self.cgroups[1]))
        self.assertEqual(self.daemon.phase(name, "run").status, 200)
        self.assertEqual([member.get("gone") for member in self.daemon.show(name)["members"]],
                         [None, True])
        os.rmdir(cgroups.path_of(self.cgroups[0]))
        reply = self.daemon.call("POST", f"/v1/environments/{name}/verify", {})
        self.assertCode(reply, "member_not_found", self.cgroups[0])
        self.assertEqual(reply["object"], name)
        os.mkdir(cgroups.path_of(self.cgroups[0]))
        self.assert_told("confined")
        self.assertEqual([member.get("gone") for member in self.daemon.show(name)["members"]],
                         [None, True])


if __name__ == "__main__":
    main()
