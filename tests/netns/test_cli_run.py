# SPDX-License-Identifier: Apache-2.0
"""`phasegate run` as a command among commands: statuses, signals, streams, policies."""

import hashlib
import json
import os
import signal
import tempfile

import cgroups
import vectors
from harness import NetTest, main
from lab import A4, B4, D4
from phasegate import BINARY, NO_NETWORK, PROBE, PUBLIC, allowlist, policy
from recorder import PORT

ANY = policy(run=NO_NETWORK)
USAGE, REFUSED, NOT_EXECUTABLE, NOT_FOUND = 2, 125, 126, 127


class CliRun(NetTest):
    def status(self, *words, **more):
        run = self.run_command(*words, **more)
        status, output = run.finish()
        return status, output, run

    def test_exit_status_is_that_of_the_command(self):
        for wanted in (0, 1, 3, 42, 255):
            status, _, run = self.status("--policy", ANY, "--", "sh", "-c", f"exit {wanted}")
            self.assertEqual(status, wanted, run.stderr)

    def test_command_that_cannot_run(self):
        self.assertEqual(self.status("--policy", ANY, "--", "/nonexistent")[0], NOT_FOUND)
        self.assertEqual(self.status("--policy", ANY, "--", "no-such-command")[0], NOT_FOUND)
        with tempfile.NamedTemporaryFile("w") as file:
            status, _, run = self.status("--policy", ANY, "--", file.name)
            self.assertEqual(status, NOT_EXECUTABLE, run.stderr)
            self.assertIn(file.name, run.stderr)

    def test_command_ended_by_a_signal(self):
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
            status, _, run = self.status("--policy", ANY, "--", "sh", "-c", f"kill -{number} $$")
            self.assertEqual(status, 128 + number, run.stderr)

    def test_signals_are_passed_on(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            # Nothing but builtins: a shell between vfork and exec may take the signal otherwise.
            script = f"trap 'echo caught; exit 9' {number}; echo ready; while :; do :; done"
            run = self.run_command("--policy", ANY, "--", "sh", "-c", script)
            self.assertEqual(run.line(), "ready")
            os.kill(run.pid, number)
            status, output = run.finish()
            self.assertEqual((status, output), (9, "caught\n"), run.stderr)

    def test_sigchld_ignored_by_the_parent(self):
        words = ["env", "--ignore-signal=CHLD", BINARY, "run", "--policy", ANY, "--", "sh", "-c",
                 "exit 4"]
        run = self.run_command(command=words)
        self.assertEqual(run.finish()[0], 4, run.stderr)

    def test_streams_pass_through(self):
        data = bytes(range(256)) * 4096
        run = self.run_command("--policy", ANY, "--", "sha256sum")
        status, output = run.finish(data)
        self.assertEqual((status, output.split()[0]), (0, hashlib.sha256(data).hexdigest()))

    def test_bad_policy_starts_nothing(self):
        bad = ('{"network_policy": "publik"}', '{"run_netwrok_policy": "public"}', "{", "[]",
               '{"network_policy": {"network_mode": "allowlist"}}', "/nonexistent.json",
               policy(run=allowlist("http://example.com/")))
        for text in bad:
            with self.subTest(policy=text):
                status, output, run = self.status("--policy", text, "--", "echo", "started")
                self.assertEqual((status, output), (USAGE, ""), run.stderr)
                self.assertNotEqual(run.stderr.strip(), "")

    def test_bad_options_start_nothing(self):
        for words in (("--", "echo", "started"), ("--policy", ANY),
                      ("--policy", ANY, "--phase", "walk", "--", "echo", "started"),
                      ("--policy", ANY, "--bogus", "--", "echo", "started"),
                      ("--policy", ANY, "--resolver", "nonsense", "--", "echo", "started"),
                      ("--policy", ANY, "--allow", f"run={A4}", "--", "echo", "started"),
                      ("--policy", ANY, "--cgroup", "/pgt-no-such-cgroup", "--", "echo",
                       "started"),
                      ("--policy", ANY, "--cgroup", "/.", "--", "echo", "started"),
                      ("--policy", ANY, "--cgroup", self.make_cgroup("dot") + "/.", "--", "echo",
                       "started"),
                      ("--policy", ANY, "--run", "echo started", "--", "echo", "started")):
            with self.subTest(words=words):
                status, output, run = self.status(*words)
                self.assertNotEqual(status, 0)
                self.assertEqual(output, "", run.stderr)
                self.assertNotEqual(run.stderr.strip(), "")

    def test_json_says_everything(self):
        """Each line is an object, whatever is wrong."""
        missing = ("--policy", ANY, "--cgroup", "/pgt-no-such-cgroup", "--", "true")
        for words, status, code in (
                (("--policy", ANY, "--bogus"), USAGE, "usage"), (("--", "true"), USAGE, "usage"),
                (("--policy", "/nonexistent", "--", "true"), USAGE, "usage"),
                (missing, REFUSED, "refused"),
                (("--policy", ANY, "--", "no-such-command"), NOT_FOUND, "not_found"),
                (("--policy", ANY, "--", "/"), NOT_EXECUTABLE, "not_executable")):
            with self.subTest(words=words):
                result, _, run = self.status(*words, "--log-level", "debug") \
                    if "--" not in words else self.status("--log-level", "debug", *words)
                self.assertEqual(result, status, run.stderr)
                self.assertEqual(len(run.events), len(run.stderr.splitlines()), run.stderr)
                (error,) = [e for e in run.events if e["event"] == "error"]
                self.assertEqual(error["code"], code)
                self.assertTrue(error["message"])

    def test_json_says_what_is_wrong_with_a_policy(self):
        status, _, run = self.status("--policy", '{"network_policy":"publik"}', "--", "true")
        self.assertEqual(status, USAGE)
        (event,) = run.events
        self.assertEqual((event["event"], event["ok"], event["warnings"]), ("policy", False, []))
        (error,) = event["errors"]
        self.assertEqual((error["code"], error["hint"]), ("mode_unknown", "public"))
        status, _, run = self.status("--policy", policy(run=allowlist()), "--", "true")
        self.assertEqual(status, 0)
        self.assertEqual(run.events[0]["event"], "policy")
        self.assertEqual(run.events[0]["warnings"][0]["code"], "empty_allowlist")
        self.assertEqual(len(run.events), len(run.stderr.splitlines()))

    def test_path_of_the_cgroup(self):
        cgroup = self.make_cgroup("path")
        self.assertEqual(self.status("--policy", ANY, "--cgroup", cgroup + "/", "--", "true")[0], 0)
        status, _, run = self.status("--policy", ANY, "--cgroup", cgroups.path_of(cgroup), "--",
                                     "true")
        self.assertEqual(status, REFUSED)
        self.assertIn(f"give the path below the mount: {cgroup}", run.events[0]["message"])
        for root in ("/", "//", ""):
            self.assertEqual(self.status("--policy", ANY, "--cgroup", root, "--", "true")[0],
                             REFUSED)

    def hiding(self, preparation, *words):
        """Runs in a mount namespace of its own, after a shell script has changed that."""
        return self.status(command=["unshare", "--mount", "sh", "-c",
                                    preparation + ' && exec "$@"', "-", BINARY, "run", "--json",
                                    *words])

    def test_hidden_cgroups(self):
        status, _, run = self.hiding(f"umount -l {cgroups.mount2()}", "--policy", ANY, "--", "true")
        self.assertEqual(status, REFUSED, run.stderr)
        self.assertIn("nsenter --net=", run.stderr)

    def test_policy_from_a_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(policy(run=allowlist(A4)))
            file.flush()
            with self.agent("--policy", file.name) as agent:
                self.assert_reaches(agent, vectors.tcp, A4, PORT)
                self.assert_denied(agent, vectors.tcp, D4, PORT)

    def test_later_policy_replaces_whole_phases(self):
        with self.agent("--policy", policy(setup=PUBLIC, run=allowlist(A4)),
                        "--policy", policy(run=allowlist(B4))) as agent:
            self.assert_reaches(agent, vectors.tcp, B4, PORT)
            self.assert_denied(agent, vectors.tcp, A4, PORT)
            self.assert_silent(A4)

    def test_allow_adds_one_entry(self):
        with self.agent("--policy", policy(run=allowlist(A4)), "--allow", f"run={B4}") as agent:
            for address in (A4, B4):
                self.assert_reaches(agent, vectors.tcp, address, PORT)
            self.assert_denied(agent, vectors.tcp, D4, PORT)
            self.assert_silent(D4)

    def test_three_commands_in_their_phases(self):
        words = "{phase} $(cut -d: -f3 /proc/self/cgroup | tail -1)"
        probe = f"{PROBE} 'socket 0 tcp4' 'connect 0 {{}} {PORT}' | tail -1"
        run = self.run_command(
            "--policy", policy(setup=PUBLIC, run=allowlist(A4), verifier=NO_NETWORK),
            "--setup", f"echo {words.format(phase='setup')}; " + probe.format(D4),
            "--run", f"echo {words.format(phase='run')}; {probe.format(A4)}; {probe.format(D4)}",
            "--verify", f"echo {words.format(phase='verifier')}; " + probe.format(A4))
        status, output = run.finish()
        lines = output.splitlines()
        self.assertEqual(status, 0, run.stderr)
        errnos = [json.loads(line)["errno"] for line in lines if line.startswith("{")]
        self.assertEqual(errnos, ["", "", "EPERM", "EPERM"])
        groups = [line.split()[1] for line in lines if not line.startswith("{")]
        self.assertEqual(len(set(groups)), 3, "each command has a cgroup of its own")
        self.assertEqual(len({os.path.dirname(group) for group in groups}), 1)
        self.assertFalse(os.path.exists(cgroups.path_of(os.path.dirname(groups[0]))))
        self.reports(run)

    def reports(self, run):
        phases = [e for e in run.events if e["event"] == "phase"]
        self.assertEqual([e["phase"] for e in phases], ["setup", "run", "verifier"])
        self.assertEqual([e["network_mode"] for e in phases], [PUBLIC, "allowlist", NO_NETWORK])
        self.assertEqual(phases[1]["connects"], {"allowed": 1, "denied": 1})
        self.assertEqual(phases[2]["connects"], {"allowed": 0, "denied": 1})
        generations = [e["generation"] for e in run.events if e["event"] == "switch"]
        self.assertEqual(generations, sorted(set(generations)))
        # To run, back to the baseline, to verifier, back to the baseline.
        self.assertGreaterEqual(len(generations), 4)

    def test_the_failing_command_decides_the_status(self):
        for words, wanted in ((("--run", "exit 7", "--verify", "true"), 7),
                              (("--setup", "true", "--run", "true", "--verify", "exit 8"), 8)):
            status, _, run = self.status("--policy", ANY, *words)
            self.assertEqual(status, wanted, run.stderr)

    def test_summary_for_people(self):
        run = self.run_command("--policy", ANY, "--", "true", json_report=False)
        self.assertEqual(run.finish()[0], 0)
        self.assertIn("run", run.stderr)
        self.assertIn(NO_NETWORK, run.stderr)

    def test_without_ipv6_or_loopback(self):
        """What cannot be sent there needs no proof that it is denied; the rest is proven still."""
        for setting in ("sysctl -qw net.ipv6.conf.all.disable_ipv6=1", "ip link set lo down",
                        "ip link set lo up && sysctl -qw net.ipv6.conf.lo.disable_ipv6=1"):
            with self.subTest(setting=setting):
                words = ["unshare", "--net", "sh", "-c", 'ip link set lo up; eval "$0" && exec "$@"',
                         setting, BINARY, "run", "--policy", policy(setup=NO_NETWORK), "--",
                         PROBE, "socket 0 udp4", f"connect 0 {D4} {PORT}"]
                run = self.run_command(command=words)
                status, output = run.finish()
                self.assertEqual(status, 0, run.stderr)
                self.assertEqual(json.loads(output.splitlines()[-1])["errno"], "EPERM")

    def test_nothing_is_left(self):
        run = self.run_command("--policy", ANY, "--", "sh", "-c",
                               "tail -1 /proc/self/cgroup | cut -d: -f3")
        status, output = run.finish()
        self.assertEqual(status, 0, run.stderr)
        group = output.strip()
        self.assertRegex(group, r"^/phasegate/run-[^/]+/[^/]+$")
        self.assertFalse(os.path.exists(os.path.dirname(cgroups.path_of(group))))


if __name__ == "__main__":
    main()
