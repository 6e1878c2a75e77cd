#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A harness on the Python client against the real agent: tasks of process trees in cgroups, judged
by what the servers have seen."""

import json
import os
import time

import cgroups
from harness import main, token
from harnesscase import HarnessTest
from lab import A4, B4, D4
from phasegate import LIMIT, NO_NETWORK, allowlist
from recorder import PORT

TASKS = 32
# Connects and says a token; prints "HOST open" or "HOST denied".
SEND = """
send() { if (exec 3<>/dev/tcp/$1/%d && printf %%s "$2" >&3) 2>/dev/null
         then echo "$1 open"; else echo "$1 denied"; fi; }
""" % PORT
# Sends to an address for as long as it lives, in a session of its own and without its parents. A
# file gets a line for each attempt: it may be killed between any two.
SENDER = """
(setsid bash -c 'while :; do printf %%s "%s" >/dev/udp/%s/%d; echo >>%s; sleep 0.01; done' \\
    </dev/null >/dev/null 2>&1 &)
"""


def shell(*lines):
    return ["bash", "-c", SEND + "\n".join(lines)]


def send(host, mark):
    return f'send {host} "{mark}"'


class Tasks(HarnessTest):
    def task(self, number):
        """Even and odd ones have opposite runs: what one is allowed the other is denied."""
        name = self.name(f"task{number}")
        near, far = (A4, D4) if number % 2 == 0 else (D4, A4)
        marks = {what: token(f"{number}-{what}") for what in (
            "setup", "setup-no", "run", "run-no", "tree", "late", "verify-no")}
        return {"near": near, "far": far, **marks}, {
            "name": name, "network_policy": allowlist(B4), "run_network_policy": allowlist(near),
            "verifier_network_policy": NO_NETWORK,
            "setup": shell(send(B4, marks["setup"]), send(near, marks["setup-no"])),
            "run": shell(send(near, marks["run"]), send(far, marks["run-no"]),
                         # It waits for the setup's host in a phase to come.
                         SENDER % (marks["late"], B4, PORT, os.devnull),
                         f"bash -c '{SEND}(send {near} {marks['tree']}) & wait'"),
            "verify": shell(send(near, marks["verify-no"]), send(B4, marks["verify-no"]))}

    def test_many_at_once(self):
        known, tasks = zip(*(self.task(number) for number in range(TASKS)))
        began = time.monotonic()
        results = self.run_tasks(*tasks)
        print(f"{TASKS} tasks in {time.monotonic() - began:.1f} s", flush=True)
        self.fence()
        for about, task in zip(known, tasks):
            result, near, far = results[task["name"]], about["near"], about["far"]
            with self.subTest(task=task["name"]):
                self.assertNotIn("error", result)
                outputs = [result[phase]["output"].split("\n")[:-1]
                           for phase in ("setup", "run", "verify")]
                self.assertEqual(outputs, [
                    [f"{B4} open", f"{near} denied"],
                    [f"{near} open", f"{far} denied", f"{near} open"],
                    [f"{near} denied", f"{B4} denied"]])
                self.assertSeen(B4, about["setup"])
                self.assertSeen(near, about["run"])
                self.assertSeen(near, about["tree"])
                for denied in ("setup-no", "run-no", "late", "verify-no"):
                    self.assertNotSeen(about[denied])
        self.assertNothingLeft()

    def test_time_out(self):
        """The run's tree ends with it, and the verification follows."""
        setup, late, run, verify = (token(x) for x in ("setup", "late", "run", "verify"))
        count = self.path("count")
        task = {"name": self.name("slow"), "network_policy": allowlist(B4),
                "run_network_policy": allowlist(A4), "verifier_network_policy": allowlist(D4),
                "run_timeout": 3, "setup": shell(send(B4, setup)),
                "run": shell(send(A4, run), SENDER % (late, D4, PORT, count), "sleep 1000"),
                "verify": shell(send(D4, verify), send(A4, verify))}
        result = self.run_tasks(task)[task["name"]]
        self.assertIsNone(result["run"]["status"])
        self.assertEqual(result["verify"], {"status": 0, "output": f"{D4} open\n{A4} denied\n"})
        self.fence()
        self.assertSeen(B4, setup)
        self.assertSeen(A4, run)
        self.assertSeen(D4, verify)
        # It was at work, and the verifier's host was open after it had to be gone.
        self.assertGreater(self.attempts(count), 10)
        self.assertNotSeen(late)
        self.assertNothingLeft()

    def test_separate_verifier(self):
        """Its Environment is another: nothing of the run's is in it, and both have their policy."""
        run, verify, late = token("run"), token("verify"), token("late")
        task = {"name": self.name("judged"), "network_policy": NO_NETWORK,
                "run_network_policy": allowlist(A4), "verifier_network_policy": allowlist(D4),
                "verifier": "new",
                "run": shell(send(A4, run), SENDER % (late, D4, PORT, os.devnull)),
                "verify": shell(send(D4, verify), send(A4, verify), "cat /proc/self/cgroup")}
        cursor = self.daemon.call("GET", "/v1/events?cursor=now").body[-1]["cursor"]
        result = self.run_tasks(task)[task["name"]]
        lines = result["verify"]["output"].splitlines()
        self.assertEqual(lines[:2], [f"{D4} open", f"{A4} denied"])
        self.assertIn(f"{task['name']}-verifier/", lines[-1])
        self.fence()
        self.assertSeen(A4, run)
        self.assertSeen(D4, verify)
        self.assertNotSeen(late)
        events = self.daemon.call("GET", f"/v1/events?cursor={cursor}").body
        created = [e["environment"] for e in events if e["event"] == "created"]
        self.assertIn(f"{task['name']}-verifier", created)
        self.assertNothingLeft()

    def test_cancelled_at_any_moment(self):
        """Whatever was under way, no Environment is left."""
        cursor = self.daemon.call("GET", "/v1/events?cursor=now").body[-1]["cursor"]
        process = self.harness("cancelled", self.name("cancelled"), "40")
        process.communicate(timeout=2 * LIMIT)
        self.assertEqual(process.returncode, 0)
        self.assertNothingLeft()
        kinds = [e["event"] for e in self.daemon.call("GET", f"/v1/events?cursor={cursor}").body]
        self.assertGreaterEqual(kinds.count("created"), 10)
        # The run, and the baseline after it.
        self.assertGreaterEqual(kinds.count("phase"), 20)
        self.assertEqual(kinds.count("created"), kinds.count("destroyed"))

    def test_policy_at_fault(self):
        task = {"name": self.name("wrong"), "run": ["true"],
                "run_network_policy": allowlist("https://example.com/")}
        self.assertIn("PolicyInvalidError", self.run_tasks(task)[task["name"]]["error"])
        self.assertNothingLeft()


class Crash(HarnessTest):
    LEASE = 3
    POLICY = {"network_policy": allowlist(B4), "run_network_policy": allowlist(A4)}

    def make(self, label):
        """(name, what to create it with)"""
        name = self.name(label)
        self.daemon.names.add(name)
        return name, json.dumps({"name": name, "policy": self.POLICY})

    def test_killed_in_a_run(self):
        """What it has started goes on, and sends nothing more once the lease is over."""
        (name, create), mark = self.make("crash"), token("crash")
        count = self.path("count")
        sender = SENDER % (mark, A4, PORT, count)
        cursor = self.daemon.call("GET", "/v1/events?cursor=now").body[-1]["cursor"]
        process = self.harness("hold", create, str(self.LEASE), *shell(sender))
        directory = json.loads(process.stdout.readline())["directory"]
        self.assertSeen(A4, mark)
        # While it is alive its lease is renewed.
        deadline = time.monotonic() + 2 * self.LEASE
        while time.monotonic() < deadline:
            self.assertFalse(self.daemon.show(name)["denied"])
            time.sleep(0.2)
        process.kill()
        process.wait()
        self.assertEqual(self.daemon.show(name)["phase"], "run")
        over = self.event(cursor, "lease_over", name)
        self.assertTrue(over["denied"])
        self.fence()
        self.recorder.forget()
        self.wait_counted(count)
        self.fence()
        self.assertNotSeen(mark)
        self.assertTrue(cgroups.processes(directory))
        next_one = self.harness("take", create)
        self.assertEqual(json.loads(next_one.communicate(timeout=LIMIT)[0])["denied"], True)
        self.assertFalse(os.path.exists(directory))
        self.assertNothingLeft()

    def test_task_of_a_dead_harness_is_done_again(self):
        """By its name, from its start: in the phase of the setup, and with new commands."""
        task = {"name": self.name("again"), "network_policy": allowlist(B4),
                "run_network_policy": allowlist(A4), "verifier_network_policy": NO_NETWORK}
        mark, setup, run = token("first"), token("setup"), token("run")
        self.daemon.names.add(task["name"])
        process = self.harness("tasks", json.dumps(
            {**task, "run": shell(send(A4, mark), "sleep 1000")}))
        self.assertSeen(A4, mark)
        process.kill()
        process.wait()
        self.assertEqual(self.daemon.show(task["name"])["phase"], "run")
        result = self.run_tasks({**task, "setup": shell(send(B4, setup), send(A4, setup)),
                                 "run": shell(send(A4, run))})[task["name"]]
        self.assertEqual((result["setup"]["output"], result["run"]["output"]),
                         (f"{B4} open\n{A4} denied\n", f"{A4} open\n"))
        self.fence()
        self.assertSeen(B4, setup)
        self.assertSeen(A4, run)
        self.assertNothingLeft()

    def test_agent_is_killed_under_a_harness(self):
        """The phase stays in force without it, and the harness does not notice."""
        (name, create), mark, other = self.make("kill"), token("kill"), token("other")
        script = shell(SENDER % (mark, A4, PORT, self.path("a")),
                       SENDER % (other, D4, PORT, self.path("d")))
        process = self.harness("hold", create, "20", *script)
        directory = json.loads(process.stdout.readline())["directory"]
        self.assertSeen(A4, mark)
        self.daemon.kill()
        self.recorder.forget()
        self.wait_counted(self.path("d"))
        self.assertSeen(A4, mark)
        self.daemon.start()
        self.assertEqual(self.daemon.show(name)["phase"], "run")
        # Ends as on Ctrl-C: baseline, then destroyed with what runs in it.
        process.send_signal(2)
        process.wait(LIMIT)
        self.fence()
        self.assertNotSeen(other)
        self.assertFalse(os.path.exists(directory))
        self.assertNothingLeft()


if __name__ == "__main__":
    main()
