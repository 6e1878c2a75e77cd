#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""phasegate env, events, explain and verify, with an agent at the other end."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time

import cgroups
from agentcase import AgentTest
from daemon import directory_of
from harness import main
from lab import A4, B4, D4, R4
from nameserver import NAME, Nameserver
from phasegate import NO_NETWORK, PUBLIC, allowlist
from recorder import PORT

BINARY = os.environ["PHASEGATE_BINARY"]
OK, FAILURE, USAGE, NO, INCONCLUSIVE, UNREACHABLE = range(6)
# What no hook of a cgroup sees: here is no veth, and there may be a hypervisor (tests/agent).
OPEN = [word for name in ("mld", "igmp", "vsock") for word in ("--without", name)]
POLICY = json.dumps({"network_policy": PUBLIC, "run_network_policy": allowlist(A4),
                     "verifier_network_policy": NO_NETWORK})


class Env(AgentTest):
    SETTINGS = {"never_allow": [D4], "resolvers": [R4]}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        Nameserver(cls.lab)

    def run_cli(self, *words, status=OK, socket=None, stdin=None):
        if words[0] == "verify" and status != USAGE:
            words = (*words, *OPEN)
        done = subprocess.run(
            [BINARY, *words], input=stdin, capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "PHASEGATE_SOCKET": socket or self.daemon.socket})
        self.assertEqual(done.returncode, status, f"{words}: {done.stdout}{done.stderr}")
        return done

    def json(self, *words, status=OK, **more):
        return json.loads(self.run_cli(*words, "--json", status=status, **more).stdout)

    def make(self, *words):
        name = self.name()
        self.daemon.names.add(name)
        return self.json("env", "create", name, "--policy", POLICY, *words)

    def test_life(self):
        made = self.make()
        name = made["name"]
        self.assertEqual((made["phase"], made["generation"]), ("setup", 1))
        self.assertEqual(self.json("env", "show", name)["id"], made["id"])
        self.assertIn(name, [e["name"] for e in self.json("env", "list")["environments"]])
        change = self.json("env", "phase", name, "run", "--expect-generation", "1")
        self.assertEqual((change["phase"], change["generation"]), ("run", 2))
        change = self.json("env", "update", name, "--policy", "-", "--allow", f"run={B4}",
                           stdin=POLICY)
        self.assertEqual((change["phase"], change["generation"]), ("run", 3))
        entries = self.json("env", "show", name)["policy"]["run"]["entries"]
        self.assertEqual([e["value"] for e in entries], [A4, B4])
        self.assertEqual(self.json("env", "destroy", name),
                         {"name": name, "destroyed": True})
        refused = self.json("env", "show", name, status=FAILURE)
        self.assertEqual((refused["code"], refused["object"]), ("environment_not_found", name))

    def test_for_people(self):
        name = self.make()["name"]
        lines = self.run_cli("env", "list").stdout.splitlines()
        self.assertEqual(lines[0].split(), ["NAME", "PHASE", "MODE", "GENERATION", "MEMBERS",
                                            "OWNER", "POPULATED", "LEASE"])
        row = next(line for line in lines if line.startswith(name)).split()
        self.assertEqual(row[1:], ["setup", "public", "1", "1", "0", "false", "-"])
        self.assertRegex(
            self.run_cli("env", "phase", name, "run", "--lease", "60", "--then", "verifier").stdout,
            r"^phase run, generation 2, .*, lease (59|60) s, then verifier\n$")
        self.assertRegex(self.run_cli("env", "list").stdout, rf"{name} .*run .*(59|60) s, then ver")
        shown = self.run_cli("env", "show", name).stdout
        for text in (name, A4, "kind=new", "no-network", "connects"):
            self.assertIn(text, shown)
        self.assertRegex(self.run_cli("env", "phase", name, "run").stdout,
                         r"\(as before\), .* connections closed\n$")

    def test_lease_that_is_over(self):
        name = self.make()["name"]
        self.assertNotIn("since a lease", self.run_cli("env", "show", name).stdout)
        change = self.json("env", "phase", name, "run", "--lease", "1", "--then", "deny")
        self.assertEqual(change["lease"]["then"], "deny")
        cursor = 0
        while not self.json("env", "show", name)["denied"]:
            page = self.daemon.call("GET", f"/v1/events?environment={name}&follow=1"
                                    + (f"&cursor={cursor}" if cursor else "")).body
            cursor = page[-1]["cursor"]
        self.assertIn("denied          everything, since a lease is over",
                      self.run_cli("env", "show", name).stdout)
        self.assertRegex(self.run_cli("env", "list").stdout, rf"(?m)^{name} +run +denied ")
        self.assertIn("a lease is over", self.run_cli("explain", name, A4, status=NO).stdout)

    def test_one_line_of_json(self):
        name = self.make()["name"]
        for words in (("env", "list"), ("env", "show", name), ("explain", name, A4),
                      ("env", "phase", name, "run")):
            self.assertRegex(self.run_cli(*words, "--json").stdout, r"^\{.*\}\n$")
        self.assertRegex(self.run_cli("env", "show", "nobody", "--json", status=FAILURE).stdout,
                         r"^\{.*\}\n$")

    def test_what_to_do_next(self):
        """In words of the command line."""
        name = self.make("--phase", "run")["name"]
        process = self.start_in(directory_of(self.daemon.show(name).body), "sleep", "62")
        self.wait_in(directory_of(self.daemon.show(name).body), process.pid)
        cgroup = self.make_cgroup(self.name("full"))
        other = self.start_in(cgroups.path_of(cgroup), "sleep", "63")
        self.wait_in(cgroups.path_of(cgroup), other.pid)
        for words, said in (
                (("env", "show", "nobody"), "-> phasegate env list"),
                (("env", "destroy", name), "give --kill or --release"),
                (("env", "create", self.name(), "--policy", "{}", "--cgroup", cgroup), "--attach"),
                (("env", "phase", name, "setup", "--expect-generation", "9"),
                 "phasegate env show"),
                (("env", "phase", name, "setup", "--survivors", "refuse"), "--survivors kill"),
                (("env", "phase", name, "run", "--lease", "5", "--then", "setup"), "let --then be"),
                (("events", "--cursor", "1"), "--cursor")):
            self.assertIn(said, self.run_cli(*words, status=FAILURE).stderr)

    def test_no_agent(self):
        """Nobody there, nobody listening, no right: what to do differs."""
        dead = f"{self.daemon.directory.name}/dead.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(dead)
        listener.close()
        for path in ("/nowhere/agent.sock", dead):
            done = self.run_cli("env", "list", status=UNREACHABLE, socket=path)
            self.assertIn(path, done.stderr)
            self.assertIn("systemctl start phasegated", done.stderr)
        os.chmod(self.daemon.directory.name, 0o711)
        self.addCleanup(os.chmod, self.daemon.directory.name, 0o700)
        # The build may be where nobody else may look.
        binary = shutil.copy(BINARY, self.daemon.directory.name)
        done = subprocess.run(
            ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--reuid", "65534", "--regid",
             "65534", "--clear-groups", binary, "env", "list", "--socket", self.daemon.socket],
            capture_output=True, text=True, timeout=60, check=False, cwd="/")
        self.assertEqual(done.returncode, UNREACHABLE, done.stderr)
        self.assertIn("Permission denied (agent_unreachable)\n  -> call as root, or as a member",
                      done.stderr)

    def test_errors(self):
        name = self.make()["name"]
        done = self.run_cli("env", "phase", name, "run", "--expect-generation", "9", status=FAILURE)
        self.assertIn("(generation_mismatch)", done.stderr)
        self.assertIn("\n  -> ", done.stderr)
        bad = json.dumps({"network_policy": allowlist("https://a.example/x")})
        done = self.run_cli("env", "update", name, "--policy", bad, status=USAGE)
        self.assertIn('write: "a.example"', done.stderr)
        self.assertIn("the policy has 1 error, so nothing was changed", done.stderr)
        self.run_cli("env", "create", self.name(), "--policy", "{", status=USAGE)
        self.run_cli("env", "create", self.name(), "--policy", "{},\"members\":[]", status=USAGE)
        refused = self.json("env", "list", status=UNREACHABLE, socket="/nowhere/agent.sock")
        self.assertEqual(refused["code"], "agent_unreachable")

    def test_usage(self):
        for words, said in (
                (("env",), "usage:"), (("env", "shwo"), 'did you mean "show"?'),
                (("env", "show"), "usage: phasegate env show NAME"),
                (("env", "show", "a", "b"), "usage:"),
                (("env", "phase", "a", "never"), "setup, run or verifier"),
                (("env", "phase", "a", "run", "--then", "deny"), "--then needs --lease"),
                (("env", "create", "a"), "--policy FILE|JSON"),
                (("env", "create", "a", "--policy", "{}", "--pid", "x"), "--pid is a number"),
                (("env", "create", "a", "--policy", "{}", "--pid", "0"), "number from 1"),
                (("env", "phase", "a", "run", "--lease", "0"), "--lease is a number from 1"),
                (("env", "phase", "a", "run", "--lease", "2678401"), "from 1 to 2678400"),
                (("env", "create", "a/b", "--policy", "{}"), "(name_invalid)"),
                (("env", "create", "a", "--policy", "{}", "--dns-settings", '{"flor_s": 1}'),
                 "/dns/flor_s"),
                (("events", "--cursor", "x"), "a number from an earlier reply"),
                (("env", "phase", "a", "run", "--expect-generation", "0"), "number from 1"),
                (("env", "destroy", "a", "--kill", "--release"), "either --kill or --release"),
                (("explain", "a"), "usage:"), (("verify", "a", "--bogus"), "no option --bogus")):
            self.assertIn(said, self.run_cli(*words, status=USAGE).stderr)

    def test_members_and_destroy(self):
        cgroup = self.make_cgroup(self.name("member"))
        made = self.make("--cgroup", cgroup, "--phase", "run", "--verifier", "new",
                         "--member-traffic", "deny", "--dns-settings", '{"grace_s": 1}')
        self.assertEqual(made["members"][0]["cgroup"], cgroup)
        self.assertEqual((made["phase"], made["verifier"], made["member_traffic"]),
                         ("run", "new", "deny"))
        process = self.start_in(directory_of(made), "sleep", "60")
        self.wait_in(directory_of(made), process.pid)
        refused = self.json("env", "destroy", made["name"], status=FAILURE)
        self.assertEqual(refused["code"], "environment_populated")
        self.run_cli("env", "destroy", made["name"], "--kill")
        self.assertEqual(process.wait(), -signal.SIGKILL)

    def test_survivors_are_shown(self):
        made = self.make("--phase", "run")
        process = self.start_in(directory_of(made), "sleep", "61")
        self.wait_in(directory_of(made), process.pid)
        done = self.run_cli("env", "phase", made["name"], "setup", "--survivors", "refuse",
                            status=FAILURE)
        self.assertIn(f"process {process.pid} (sleep)", done.stderr)
        self.assertIn(f"killed: process {process.pid} (sleep)",
                      self.run_cli("env", "phase", made["name"], "setup").stdout)

    def test_members_that_cannot_be(self):
        """The message says which, by the name that was given."""
        taken = self.make("--cgroup", self.make_cgroup(self.name("taken")))
        path = taken["members"][0]["cgroup"]
        cases = [(("--cgroup", "/nowhere"), "there is no cgroup /nowhere ("),
                 (("--cgroup", path), f"the cgroup {path} is in the Environment {taken['name']};")]
        with open("/proc/1/cgroup", encoding="ascii") as file:
            if "0::/\n" in file.read():
                cases.append((("--pid", "1"), "process 1 is in the root cgroup"))
        for words, said in cases:
            self.assertIn(said, self.run_cli("env", "create", self.name(), "--policy", POLICY,
                                             *words, status=FAILURE).stderr)

    def test_explain(self):
        name = self.make("--phase", "run")["name"]
        self.assertTrue(self.json("explain", name, A4)["allowed"])
        self.assertIn(f"{B4} is denied in phase run",
                      self.run_cli("explain", name, B4, status=NO).stdout)
        self.run_cli("explain", name, B4, "--phase", "setup")
        self.run_cli("explain", name, "a b", status=USAGE)

    def test_events(self):
        name = self.make()["name"]
        self.run_cli("env", "phase", name, "run")
        lines = [json.loads(line) for line in
                 self.run_cli("events", "--env", name, "--json").stdout.splitlines()]
        self.assertEqual([e["event"] for e in lines], ["created", "phase", "cursor"])
        self.assertRegex(self.run_cli("events", "--env", name).stdout,
                         rf"(?m)^20\S+Z {name} phase .*phase=run")
        self.run_cli("verify", name, "--blocked", f"{B4}:{PORT}", status=INCONCLUSIVE)
        self.assertRegex(self.run_cli("events", "--env", name).stdout,
                         rf"(?m)^20\S+Z {name} denied .*reason=not-allowed remote={B4} "
                         rf"port={PORT} protocol=tcp$")
        cursor = self.run_cli("events", "--env", name, "--json").stdout.splitlines()[-1]
        cursor = str(json.loads(cursor)["cursor"])
        after = self.run_cli("events", "--env", name, "--cursor", cursor).stdout
        self.assertEqual(after, "")
        follow = subprocess.Popen(
            [BINARY, "events", "--follow", "--json", "--env", name, "--cursor", cursor,
             "--socket", self.daemon.socket], stdout=subprocess.PIPE, text=True)
        try:
            self.run_cli("env", "phase", name, "verifier")
            self.assertEqual(json.loads(follow.stdout.readline())["phase"], "verifier")
        finally:
            follow.kill()
            follow.wait()
            follow.stdout.close()

    def test_events_of_an_agent_that_is_started_again(self):
        name = self.make()["name"]
        follow = subprocess.Popen(
            [BINARY, "events", "--follow", "--json", "--env", name, "--socket",
             self.daemon.socket], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            self.assertEqual(json.loads(follow.stdout.readline())["event"], "created")
            self.daemon.kill()
            self.daemon.start()
            self.assertIn("events are lost", follow.stderr.readline())
            self.run_cli("env", "phase", name, "run")
            self.assertEqual(json.loads(follow.stdout.readline())["phase"], "run")
        finally:
            follow.kill()
            follow.communicate()

    def test_verify(self):
        name = self.make("--phase", "run")["name"]
        verify = ("verify", name, "--allowed", f"{A4}:{PORT}", "--blocked")
        done = self.json(*verify, f"{B4}:{PORT}")
        self.assertEqual((done["result"], done["allowed"]["result"], done["blocked"]["result"]),
                         ("enforced", "reached", "blocked"), done)
        # Allowed where it should be blocked, and the other way round.
        self.assertEqual(self.json(*verify, f"{A4}:{PORT}", status=NO)["result"], "not_enforced")
        done = self.run_cli("verify", name, "--allowed", f"{B4}:{PORT}", status=NO).stdout
        self.assertRegex(done, r"allowed +\S+ +blocked +denied")
        # Nobody listens: no proof.
        done = self.json("verify", name, "--allowed", f"{A4}:1", status=INCONCLUSIVE)
        self.assertEqual(done["allowed"]["result"], "inconclusive")
        self.assertEqual(done["blocked"]["result"], "blocked", done)
        self.assertIn("inconclusive: not everything is proved", self.run_cli(
            "verify", name, "--allowed", f"{A4}:1", status=INCONCLUSIVE).stdout)
        refused = self.json("verify", name, "--blocked", "name.example:80", status=USAGE)
        self.assertEqual(refused["object"], "/blocked")

    def test_nothing_of_what_is_blocked_is_seen(self):
        name = self.make("--phase", "run")["name"]
        self.capture.drain()
        done = self.json("verify", name, "--allowed", f"{A4}:{PORT}", "--blocked", f"{D4}:{PORT}")
        self.assertEqual(done["result"], "enforced", done)
        self.assert_silent(D4)

    def test_verify_in_other_phases(self):
        name = self.make()["name"]
        done = self.json("verify", name, "--allowed", f"{A4}:{PORT}")
        self.assertEqual((done["result"], done["blocked"]["target"]), ("enforced", f"{D4}:443"))
        self.run_cli("env", "phase", name, "verifier")
        done = self.json("verify", name)
        self.assertEqual((done["result"], done["allowed"]), ("enforced", None))
        self.assertRegex(self.run_cli("verify", name).stdout, r"allowed +- +there is nothing")

    def test_verify_by_name(self):
        name = self.make("--phase", "run", "--allow", f"run={NAME}")["name"]
        done = self.json("verify", name, "--allowed", f"{NAME}:{PORT}")
        self.assertEqual((done["result"], done["allowed"]["address"]), ("enforced", A4), done)
        done = self.json("verify", name, "--allowed", f"other.example.com:{PORT}",
                         status=INCONCLUSIVE)
        self.assertIn("no address", done["allowed"]["reason"])

    def test_verify_where_the_processes_are(self):
        """In their network namespace nothing is there: the address is not reached."""
        made = self.make("--phase", "run")
        process = self.start_in(
            directory_of(made), "unshare", "--net", "sh", "-c",
            "ip link set lo up && echo ready && exec sleep 60", stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        done = self.json("verify", made["name"], "--allowed", f"{A4}:{PORT}", status=INCONCLUSIVE)
        self.assertEqual((done["allowed"]["result"], done["allowed"]["reason"]),
                         ("inconclusive", "Network is unreachable"))
        self.assertEqual(done["blocked"]["result"], "blocked", done)

    def test_verify_believes_no_errno_alone(self):
        name = self.make("--phase", "run", "--no-denial-events")["name"]
        done = self.json("verify", name, "--allowed", f"{A4}:{PORT}", "--blocked", f"{B4}:{PORT}",
                         status=INCONCLUSIVE)
        self.assertEqual((done["allowed"]["result"], done["blocked"]["result"]),
                         ("reached", "inconclusive"))

    def test_verify_leaves_nothing_and_keeps_others_served(self):
        made = self.make("--phase", "run")
        silent = "198.51.100.99"  # nobody answers
        self.run_cli("env", "update", made["name"], "--policy",
                     json.dumps({"network_policy": allowlist(A4, "198.51.100.0/24")}))
        waits = subprocess.Popen([BINARY, "verify", made["name"], "--allowed", f"{silent}:{PORT}",
                                  *OPEN, "--socket", self.daemon.socket],
                                 stdout=subprocess.DEVNULL)
        began = time.monotonic()
        self.run_cli("env", "list")
        self.assertLess(time.monotonic() - began, 2.5)
        self.assertEqual(waits.wait(30), INCONCLUSIVE)
        left = [e for e in os.listdir(directory_of(made)) if e.startswith("verify")]
        self.assertEqual(left, [])


if __name__ == "__main__":
    main()
