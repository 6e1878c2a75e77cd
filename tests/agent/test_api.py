#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The API call by call: what it answers, what it refuses and with which code."""

import os

import cgroups
import openapi
from agentcase import AgentTest
from daemon import directory_of, start_in
from harness import main
from lab import A4, B4, CLIENT4, D4
from phasegate import NO_NETWORK, PUBLIC, allowlist

POLICY = {"network_policy": PUBLIC, "run_network_policy": allowlist(A4, "10.0.0.0/8"),
          "verifier_network_policy": NO_NETWORK}


class Api(AgentTest):
    SETTINGS = {"never_allow": ["169.254.169.254", "fd00:ec2::254"], "host_ports": [443, 8443]}

    def test_capabilities(self):
        reply = self.daemon.call("GET", "/v1/capabilities")
        self.assertEqual(reply.status, 200)
        self.assertEqual(set(reply["modes"]), {PUBLIC, NO_NETWORK, "allowlist"})
        levels = reply["operator"].pop("exposures")
        self.assertEqual(reply["operator"], {"never_allow": ["169.254.169.254", "fd00:ec2::254"],
                                             "host_ports": [443, 8443]})
        self.assertEqual(set(levels), set(openapi.SCHEMAS["ExposureId"]["enum"]))
        self.assertEqual((levels["privileged"], levels["host_process"]), ("refuse", "warn"))

    def test_validate(self):
        reply = self.daemon.call("POST", "/v1/validate", {"policy": POLICY})
        self.assertTrue(reply["ok"])
        self.assertEqual(reply["phases"]["run"]["entries"][0], {"kind": "ip4", "value": A4})
        reply = self.daemon.call("POST", "/v1/validate", {"policy": {"run_network_polcy": PUBLIC}})
        self.assertFalse(reply["ok"])
        self.assertEqual(reply["errors"][0]["hint"], "run_network_policy")

    def test_validate_several_documents_forms_and_additions(self):
        reply = self.daemon.call("POST", "/v1/validate", {
            "policy": [POLICY, {"x": 1, "run_network_policy": allowlist(B4)}],
            "form": "env-params", "allow": {"run": ["example.com"]}})
        self.assertTrue(reply["ok"], reply)
        self.assertEqual([e["value"] for e in reply["phases"]["run"]["entries"]],
                         [B4, "example.com"])
        self.assertEqual(reply["phases"]["run"]["document"], "policy/1")
        for policy in ([], None, 3, "x", [1], [[]], [{}, ]):
            reply = self.daemon.call("POST", "/v1/validate", {"policy": policy})
            self.assertEqual(reply.status == 200 and reply["ok"], policy == [{}], reply)

    def test_life_of_an_environment(self):
        made = self.create(POLICY)
        name = made["name"]
        self.assertEqual(made["phase"], "setup")
        self.assertEqual(made["generation"], 1)
        self.assertEqual(made["modes"], {"setup": PUBLIC, "run": "allowlist",
                                         "verifier": NO_NETWORK})
        self.assertEqual(made["cgroup_parent"], made["members"][0]["cgroup"])
        self.assertEqual(os.stat(directory_of(made)).st_ino, made["id"])
        listed = self.daemon.call("GET", "/v1/environments")["environments"]
        self.assertIn(name, [e["name"] for e in listed])
        for generation, phase in enumerate(("run", "verifier", "setup", "run"), 2):
            reply = self.daemon.phase(name, phase)
            self.assertEqual((reply["phase"], reply["generation"], reply["changed"]),
                             (phase, generation, True))
        again = self.daemon.phase(name, "run")
        self.assertEqual((again["generation"], again["changed"]), (5, False))
        self.assertEqual(self.daemon.show(name)["phase"], "run")
        reply = self.daemon.destroy(name, "refuse")
        self.assertEqual(reply.body, {"name": name, "destroyed": True})
        self.assertCode(self.daemon.show(name), "environment_not_found")
        self.assertFalse(os.path.exists(directory_of(made)))

    def test_create_twice(self):
        made = self.create(POLICY)
        name = made["name"]
        self.daemon.phase(name, "run")
        same = self.daemon.create(name, policy=POLICY)
        self.assertEqual((same.status, same["id"], same["phase"]), (200, made["id"], "run"))
        for change in ({"phase": "run"}, {"verifier": "new"}, {"member_traffic": "deny"},
                       {"allow": {"run": [B4]}}, {"dns": {"grace_s": 1}}):
            other = self.daemon.create(name, policy=POLICY, **change)
            self.assertCode(other, "environment_exists")
        self.assertCode(self.daemon.create(name, policy={}), "environment_exists")

    def test_initial_phase(self):
        made = self.create(POLICY, phase="verifier")
        self.assertEqual((made["phase"], made["generation"]), ("verifier", 1))

    def test_policy_at_fault(self):
        name = self.name()
        reply = self.daemon.create(name, policy={
            "network_policy": allowlist("https://example.com/x", "a b"), "run": PUBLIC})
        self.assertCode(reply, "policy_invalid", "3 errors")
        pointers = {e["object"]: e for e in reply["errors"]}
        self.assertEqual(pointers["/policy/network_policy/allowed_hosts/0"]["hint"], "example.com")
        self.assertIn("/policy/run", pointers)
        self.assertCode(self.daemon.show(name), "environment_not_found")

    def test_expected_generation(self):
        name = self.create(POLICY)["name"]
        self.assertEqual(self.daemon.phase(name, "run", expected_generation=1).status, 200)
        reply = self.daemon.phase(name, "setup", expected_generation=1)
        self.assertCode(reply, "generation_mismatch")
        self.assertEqual((reply["phase"], reply["generation"]), ("run", 2))
        reply = self.daemon.call("PUT", f"/v1/environments/{name}/policy",
                                 {"policy": {}, "expected_generation": 1})
        self.assertCode(reply, "generation_mismatch")

    def test_update(self):
        name = self.create({"network_policy": allowlist(A4)})["name"]
        target = f"/v1/environments/{name}/policy"
        reply = self.daemon.call("PUT", target, {"policy": {"network_policy": allowlist(B4)}})
        self.assertEqual((reply["generation"], reply["changed"]), (2, True))
        entries = self.daemon.show(name)["policy"]["setup"]["entries"]
        self.assertEqual([e["value"] for e in entries], [B4])
        reply = self.daemon.call("PUT", target, {"policy": {"network_policy": "allowlist"}})
        self.assertCode(reply, "policy_invalid")
        self.assertEqual(self.daemon.show(name)["generation"], 2)

    def test_explain(self):
        name = self.create({"network_policy": NO_NETWORK, "run_network_policy":
                            allowlist("10.0.0.0/8", "*.example.com", "host.example")})["name"]
        target = f"/v1/environments/{name}/explain?host="
        for host, entry in (("10.1.2.3", "10.0.0.0/8"), ("a.example.com", "*.example.com"),
                            ("A.B.Example.COM.", "*.example.com"), ("example.com", None),
                            ("host.example", "host.example"), ("11.0.0.1", None),
                            ("notexample.com", None), ("2001:db8::1", None)):
            reply = self.daemon.call("GET", target + host + "&phase=run")
            self.assertEqual((reply["entry"], reply["allowed"]), (entry, entry is not None), host)
            self.assertFalse(reply["phases"]["setup"]["allowed"])
        name = self.create()["name"]
        reply = self.daemon.call("GET", f"/v1/environments/{name}/explain?host=169.254.169.254")
        self.assertFalse(reply["allowed"])
        self.assertIn("operator", reply["reason"])
        for host in ("", "http://x", "a b", "x" * 300):
            reply = self.daemon.call("GET", f"/v1/environments/{name}/explain?host="
                                     + host.replace(" ", "%20"))
            self.assertCode(reply, "request_invalid")

    def test_warnings(self):
        made = self.create({"verifier_network_policy": NO_NETWORK,
                            "run_network_policy": allowlist(f"{CLIENT4}/24".replace(".2/", ".0/")),
                            "network_policy": allowlist()}, verifier="host")
        codes = {w["code"] for w in made["warnings"]}
        self.assertEqual(codes, {"verifier_on_host", "opens_host", "empty_allowlist"})
        self.assertEqual(self.daemon.show(made["name"])["warnings"], made["warnings"])
        self.assertCode(self.daemon.phase(made["name"], "verifier"), "verifier_on_host")
        self.assertCode(self.daemon.create(self.name(), policy={}, verifier="host",
                                           phase="verifier"), "verifier_on_host")

    def test_events(self):
        start = self.daemon.call("GET", "/v1/events?cursor=now").body[-1]["cursor"]
        name = self.create(POLICY)["name"]
        self.daemon.phase(name, "run")
        self.daemon.destroy(name)
        self.create(POLICY)
        lines = self.daemon.call("GET", f"/v1/events?cursor={start}&environment={name}").body
        self.assertEqual([e["event"] for e in lines], ["created", "phase", "destroyed", "cursor"])
        rest = self.daemon.call("GET", f"/v1/events?cursor={lines[1]['cursor']}"
                                f"&environment={name}").body
        self.assertEqual(rest, lines[1:])
        self.assertCode(self.daemon.call("GET", "/v1/events?cursor=7"), "cursor_expired")
        self.assertCode(self.daemon.call("GET", f"/v1/events?cursor={start + 10 ** 9}"),
                        "cursor_expired")
        for query in ("cursor=x", "cursor=-1", "follow=yes", "cursr=1", "cursor=1&cursor=1"):
            self.assertCode(self.daemon.call("GET", "/v1/events?" + query), "request_invalid")

    def test_events_of_a_name(self):
        """Of the Environment that has it, and of earlier ones if they are asked for."""
        name = self.name()

        def kinds(cursor=""):
            body = self.daemon.call("GET", f"/v1/events?environment={name}{cursor}").body
            return [line["event"] for line in body[:-1]]

        self.create(name=name)
        self.assertEqual(kinds(), ["created"])
        self.daemon.destroy(name)
        self.assertEqual(kinds(), ["created", "destroyed"])
        self.create(name=name)
        self.daemon.phase(name, "run")
        self.assertEqual(kinds(), ["created", "phase"])
        self.assertEqual(kinds("&cursor=oldest"), ["created", "destroyed", "created", "phase"])

    def test_denials_are_events(self):
        start = self.daemon.call("GET", "/v1/events?cursor=now").body[-1]["cursor"]
        made = self.create({"network_policy": allowlist(A4)})
        script = f"exec 3<>/dev/tcp/{D4}/7000"
        process = self.start_in(directory_of(made),
                                *self.lab.client.command("bash", "-c", script))
        self.assertNotEqual(process.wait(), 0)
        # None of those by which the agent has tried it; what is said of links is no denial.
        denials = []
        while not denials:
            lines = self.daemon.call("GET", f"/v1/events?cursor={start}&follow=1"
                                     f"&environment={made['name']}").body
            start = lines[-1]["cursor"]
            denials = [e for e in lines
                       if e["event"] not in ("created", "cursor", "link_unguarded", "exposure")]
        self.assertEqual([(e["event"], e.get("remote"), e.get("port"), e.get("reason"))
                          for e in denials[:1]], [("denied", D4, 7000, "not-allowed")])


class Refused(AgentTest):
    def post(self, body):
        return self.daemon.call("POST", "/v1/environments", body)

    def test_requests_that_are_not_as_they_should_be(self):
        good = {"name": self.name(), "policy": {}}
        for change, pointer in (
                ({"nme": "x"}, "/nme"), ({"name": 3}, "/name"), ({"attach": 1}, "/attach"),
                ({"phase": "running"}, "/phase"), ({"verifier": "x"}, "/verifier"),
                ({"member_traffic": "x"}, "/member_traffic"), ({"dns": []}, "/dns"),
                ({"dns": {"floor": 1}}, "/dns/floor"), ({"dns": {"floor_s": 1.5}}, "/dns/floor_s"),
                ({"dns": {"floor_s": 10 ** 9}}, "/dns/floor_s"),
                ({"dns": {"denied": "x"}}, "/dns/denied"), ({"dns": {"addresses_max": 0}}, "/dns"),
                ({"members": {}}, "/members"), ({"members": [3]}, "/members/0"),
                ({"members": [{}]}, "/members/0"), ({"members": [{"pid": -1}]}, "/members/0/pid"),
                ({"members": [{"pid": 1, "cgroup": "/x"}]}, "/members/0"),
                ({"members": [{"cgroup": "/x/../y"}]}, "/members/0"),
                ({"members": [{"cgroup": "x"}]}, "/members/0"),
                ({"members": [{"cgroup": "/x"}] * 65}, "/members"),
                ({"form": "x"}, "/form"), ({"allow": {"rn": []}}, "/allow/rn"),
                ({"allow": {"run": [1]}}, "/allow")):
            reply = self.post({**good, **change})
            self.assertCode(reply, "request_invalid")
            self.assertEqual(reply["object"], pointer, reply)
        self.assertCode(self.post({"policy": {}}), "request_invalid", "missing")
        self.assertCode(self.post({"name": "x"}), "request_invalid", "missing")
        for text in ("", "{", "[]", "3", '{"name":"x","name":"y","policy":{}}', '{"a":"\\ud800"}',
                     "{}" * 2, "[" * 100000, '{"poli\\u0063y":{},"name":"x"}', b"\xff", b"\0"):
            self.assertCode(self.post(text), "request_invalid")
        self.assertIn("write \"name\"", self.post({"nme": "x", "policy": {}})["next_step"])

    def test_names(self):
        for name in ("", ".x", "a/b", "a b", "x" * 65, "ä", "x\n"):
            self.assertCode(self.post({"name": name, "policy": {}}), "name_invalid")
        self.assertCode(self.daemon.show(".x"), "name_invalid")
        self.assertCode(self.daemon.show("x" * 100), "name_invalid")
        self.assertCode(self.daemon.show("no-such"), "environment_not_found")

    def test_paths_and_methods(self):
        for path in ("/", "/v1", "/v1/", "/v1/environment", "/v1/environments/", "/v2/events",
                     "/v1/environments/a/b", "/v1/environments/a/phase/", "/v1/events/x",
                     "/%00", "/v1/environments/a%2Fb"):
            self.assertCode(self.daemon.call("GET", path), "route_not_found")
        for method, path in (("POST", "/v1/capabilities"), ("DELETE", "/v1/environments"),
                             ("POST", "/v1/environments/a"), ("GET", "/v1/environments/a/phase"),
                             ("BREW", "/v1/events"), ("HEADER", "/v1/validate")):
            self.assertCode(self.daemon.call(method, path, ""), "method_not_allowed")
        self.assertIn("GET, HEAD, DELETE",
                      self.daemon.call("POST", "/v1/environments/a", "")["message"])

    def test_phase_requests(self):
        name = self.create()["name"]
        for body, pointer in (({}, "/phase"), ({"phase": "x"}, "/phase"),
                              ({"phase": "run", "survivors": "x"}, "/survivors"),
                              ({"phase": "run", "expected_generation": "1"},
                               "/expected_generation"),
                              ({"phase": "run", "lease": 3}, "/lease"),
                              ({"phase": "run", "lease": {}}, "/lease/seconds"),
                              ({"phase": "run", "lease": {"seconds": 0}}, "/lease/seconds"),
                              ({"phase": "run", "lease": {"seconds": 1, "then": "x"}},
                               "/lease/then"),
                              ({"phase": "run", "lease": {"secs": 1}}, "/lease/secs")):
            reply = self.daemon.call("PUT", f"/v1/environments/{name}/phase", body)
            self.assertCode(reply, "request_invalid")
            self.assertEqual(reply["object"], pointer)
        self.assertEqual(self.daemon.show(name)["generation"], 1)
        self.assertCode(self.daemon.phase("no-such", "run"), "environment_not_found")

    def test_destroy_what_is_populated(self):
        made = self.create()
        process = self.start_in(directory_of(made), "sleep", "1000")
        self.wait_in(directory_of(made), process.pid)
        self.assertTrue(self.daemon.show(made["name"])["populated"])
        self.assertCode(self.daemon.call("DELETE", f"/v1/environments/{made['name']}"),
                        "environment_populated")
        self.assertCode(self.daemon.destroy(made["name"], "x"), "request_invalid")
        # Below the parent nothing has a network without an Environment.
        self.assertCode(self.daemon.destroy(made["name"], "release"), "environment_populated")
        self.assertIsNone(process.poll())
        self.assertEqual(self.daemon.destroy(made["name"], "kill").status, 200)
        self.assertNotEqual(process.wait(), 0)

    def test_release(self):
        cgroup = self.make_cgroup("m")
        made = self.create(members=[{"cgroup": cgroup}])
        process = self.start_in(directory_of(made), "sleep", "1000")
        self.wait_in(directory_of(made), process.pid)
        reply = self.daemon.destroy(made["name"], "release")
        self.assertEqual(reply.status, 200, reply)
        self.assertIsNone(process.poll())


class Members(AgentTest):
    def refused(self, code, *members, **more):
        reply = self.daemon.create(self.name(), policy={}, members=list(members), **more)
        self.assertCode(reply, code)
        return reply

    def test_cgroups(self):
        made = self.create(members=[{"cgroup": self.make_cgroup("m1")},
                                    {"cgroup": self.make_cgroup("m2")}])
        self.assertEqual([m["kind"] for m in made["members"]], ["cgroup"] * 2)
        self.assertIsNone(made["cgroup_parent"])
        directory = directory_of(made)
        self.assertEqual(self.daemon.destroy(made["name"], "refuse").status, 200)
        self.assertTrue(os.path.isdir(directory))

    def test_refused(self):
        cgroup = self.make_cgroup("m")
        directory = cgroups.path_of(cgroup)
        self.refused("member_not_found", {"cgroup": "/no/such"})
        self.refused("member_not_found", {"pid": 4194304})
        self.refused("member_is_root", {"cgroup": "/"})
        self.refused("request_invalid", {"cgroup": cgroup}, {"cgroup": cgroup})
        process = self.start_in(directory, "sleep", "1000")
        self.wait_in(directory, process.pid)
        self.refused("member_populated", {"cgroup": cgroup})
        self.create(members=[{"cgroup": cgroup}], attach=True)
        self.refused("member_taken", {"cgroup": cgroup}, attach=True)
        os.mkdir(directory + "/below")
        self.refused("member_taken", {"cgroup": cgroup + "/below"})

    def test_threaded_and_frozen(self):
        cgroup = self.make_cgroup("m")
        with open(cgroups.path_of(cgroup) + "/cgroup.freeze", "w", encoding="ascii") as file:
            file.write("1")
        self.refused("member_unfit", {"cgroup": cgroup})

    def test_the_agents_and_the_callers_own(self):
        with open("/proc/self/cgroup", encoding="ascii") as file:
            own = next(line for line in file.read().splitlines() if line.startswith("0::"))[3:]
        if own == "/":
            self.refused("member_is_root", {"pid": os.getpid()}, attach=True)
        else:
            self.refused("member_holds_caller", {"cgroup": own}, attach=True)

    def test_pid(self):
        directory = cgroups.path_of(self.make_cgroup("m"))
        process = self.start_in(directory, "sh", "-c", "sleep 1000 & wait")
        self.wait_in(directory, process.pid)
        made = self.create(members=[{"pid": process.pid}])
        self.assertEqual(directory_of(made), directory)
        self.assertEqual((made["members"][0]["kind"], made["members"][0]["pid"]),
                         ("pid", process.pid))

    def test_pid_among_strangers(self):
        directory = cgroups.path_of(self.make_cgroup("m"))
        first = self.start_in(directory, "sleep", "1000")
        second = start_in(directory, "sleep", "1000")
        self.addCleanup(second.wait)
        self.addCleanup(second.kill)
        self.wait_in(directory, first.pid)
        self.wait_in(directory, second.pid)
        reply = self.refused("member_holds_others", {"pid": first.pid})
        self.assertIn(str(second.pid), reply["message"])


if __name__ == "__main__":
    main()
