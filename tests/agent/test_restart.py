#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An agent that is stopped, killed or started twice: nothing opens, nothing is lost."""

import glob
import json
import os
import shutil
import subprocess
import time

import cgroups
from agentcase import AgentTest
from daemon import DAEMON, directory_of
from harness import main
from lab import A4, D4
from phasegate import NO_NETWORK, PROBE, PUBLIC, allowlist
from recorder import PORT

POLICY = {"network_policy": PUBLIC, "run_network_policy": allowlist(A4),
          "verifier_network_policy": NO_NETWORK}


class Restart(AgentTest):
    def restart(self, how):
        if how == "stop":
            self.assertEqual(self.daemon.stop(), 0, self.daemon.output)
        else:
            self.daemon.kill()
        self.daemon.start()

    def shown(self, name):
        """What must be the same afterwards."""
        kept = ("id", "owner", "phase", "denied", "generation", "modes", "members",
                "cgroup_parent", "verifier", "member_traffic", "frozen", "warnings")
        shown = self.daemon.show(name)
        return {key: shown[key] for key in kept}

    def probe(self, directory, address):
        """The errno's name of a connection from inside; "" if it was made."""
        process = self.start_in(directory, *self.lab.client.command(
            PROBE, "socket 1 tcp4", f"connect 1 {address} {PORT}"), stdout=subprocess.PIPE)
        output, _ = process.communicate()
        return json.loads(output.splitlines()[-1])["errno"]

    def test_everything_is_as_it_was(self):
        for how in ("stop", "kill"):
            one = self.create(POLICY, verifier="new", member_traffic="deny")
            two = self.create({"network_policy": allowlist()}, members=[
                {"cgroup": self.make_cgroup(f"a{how}")}, {"cgroup": self.make_cgroup(f"b{how}")}])
            self.daemon.phase(one["name"], "run")
            before = [self.shown(e["name"]) for e in (one, two)]
            self.restart(how)
            self.assertEqual([self.shown(e["name"]) for e in (one, two)], before)
            again = self.daemon.create(one["name"], policy=POLICY, verifier="new",
                                       member_traffic="deny")
            self.assertEqual(again.status, 200, again)
            reply = self.daemon.phase(one["name"], "verifier")
            self.assertEqual(reply["generation"], 3)
            reply = self.daemon.call("PUT", f"/v1/environments/{two['name']}/policy",
                                     {"policy": {"network_policy": allowlist(A4)}})
            self.assertEqual(reply["generation"], 2)
            self.assertEqual(self.probe(directory_of(two), A4), "")
            self.assertEqual(self.daemon.destroy(two["name"], "refuse").status, 200)

    def test_what_is_in_force_without_an_agent(self):
        made = self.create(POLICY, phase="run")
        directory = directory_of(made)
        self.daemon.kill()
        self.assertEqual(self.probe(directory, A4), "")
        self.assertEqual(self.probe(directory, D4), "EPERM")
        self.daemon.start()
        self.assertEqual(self.probe(directory, A4), "")
        self.assertEqual(self.probe(directory, D4), "EPERM")
        self.assertEqual(self.daemon.show(made["name"])["phase"], "run")

    def test_survivors_are_remembered(self):
        made = self.create(POLICY)
        self.daemon.phase(made["name"], "run")
        process = self.start_in(directory_of(made), "sleep", "1000")
        self.wait_in(directory_of(made), process.pid)
        self.restart("kill")
        reply = self.daemon.phase(made["name"], "setup")
        self.assertEqual([s["pid"] for s in reply["survivors"]], [process.pid])

    def test_lease_that_ends_meanwhile(self):
        made = self.create(POLICY)
        other = self.create(POLICY)
        self.daemon.phase(made["name"], "run", lease={"seconds": 1})
        self.daemon.phase(other["name"], "run", lease={"seconds": 1000})
        self.daemon.kill()
        time.sleep(1.1)
        self.daemon.start()
        self.assertTrue(self.daemon.show(made["name"])["denied"])
        shown = self.daemon.show(other["name"])
        self.assertEqual((shown["phase"], shown["denied"]), ("run", False))
        self.assertGreater(shown["lease"]["expires_in_ms"], 900_000)

    def test_cursor_of_an_earlier_agent(self):
        cursor = self.daemon.call("GET", "/v1/events").body[-1]["cursor"]
        self.restart("kill")
        self.assertCode(self.daemon.call("GET", f"/v1/events?cursor={cursor}"), "cursor_expired")

    def test_orphans_whose_cgroup_is_gone(self):
        made = self.create(POLICY)
        self.daemon.kill()
        cgroups.remove(directory_of(made), "cgroup2")
        self.daemon.start()
        self.assertCode(self.daemon.show(made["name"]), "environment_not_found")
        self.assertFalse(os.path.exists(f"/run/phasegate/{made['name']}"))

    def test_pinned_maps_that_are_gone(self):
        """What is in a given cgroup stays confined: its links have the old ones."""
        cgroup = self.make_cgroup("lost")
        self.create({"network_policy": allowlist(A4)}, members=[{"cgroup": cgroup}],
                    name=self.name("lost"))
        directory = cgroups.path_of(cgroup)
        process = self.start_in(directory, "sleep", "1000")
        self.wait_in(directory, process.pid)
        self.assertEqual(self.probe(directory, A4), "")
        self.daemon.kill()
        maps = [path for path in os.listdir(self.daemon.pins) if path.startswith("+maps-")]
        shutil.rmtree(f"{self.daemon.pins}/{maps[0]}")
        for _ in range(2):
            self.daemon.start()
            self.assertEqual(self.daemon.call("GET", "/v1/environments")["environments"], [])
            self.assertIn("stays confined as it is", self.daemon.output)
            self.assertEqual([self.probe(directory, a) for a in (A4, D4)], ["", "EPERM"])
            self.daemon.kill()
        process.kill()
        process.wait()
        cgroups.remove(directory, "cgroup2")
        self.daemon.start()
        self.assertEqual(glob.glob(f"/run/phasegate/pgt-lost-{os.getpid()}-*"), [])

    def test_two_at_once(self):
        self.create(POLICY)
        for words in ([], ["--socket", f"{self.daemon.directory.name}/other.sock"]):
            done = subprocess.run([DAEMON, "--config", self.daemon.config, *words], timeout=60,
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(len(self.daemon.call("GET", "/v1/environments")["environments"]), 1)

    def test_parent_of_another(self):
        """What one guard admits, the other one would not."""
        self.create(POLICY)
        done = subprocess.run([DAEMON, "--config", self.daemon.config, "--pins",
                               self.daemon.pins + "-other"], timeout=60, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("cgroup_parent of your own", done.stderr)
        self.assertFalse(os.path.exists(self.daemon.pins + "-other"))
        self.create(POLICY)

    def test_kill_in_the_middle(self):
        """At moments that differ; each call took effect or did not, and the next start knows."""
        name = self.create(POLICY)["name"]
        for round_number in range(6):
            phases = ["run", "verifier", "setup"] * 40
            killer = subprocess.Popen(["sh", "-c", f"sleep 0.{round_number + 1};"
                                       f" kill -9 {self.daemon.process.pid}"])
            done = self.daemon.show(name)["generation"]
            try:
                for phase in phases:
                    done = self.daemon.phase(name, phase, survivors="allow")["generation"]
            except (OSError, ValueError, subprocess.SubprocessError):
                pass
            except Exception as error:
                if "Remote" not in repr(error):
                    raise
            killer.wait()
            self.daemon.kill()
            self.daemon.start()
            shown = self.daemon.show(name)
            self.assertIn(shown["generation"] - done, (0, 1))


class Options(AgentTest):
    def run_daemon(self, *words):
        return subprocess.run([DAEMON, *words], capture_output=True, text=True, timeout=60,
                              check=False)

    def test_check(self):
        done = self.run_daemon("--config", self.daemon.config, "--check")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("can enforce", done.stdout)
        # As where the kernel has not the modules of the veth guard.
        done = subprocess.run(["setpriv", "--bounding-set=-net_admin", DAEMON, "--config",
                               self.daemon.config, "--check"], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertRegex(done.stderr, "warning: veth-guard: filters of traffic control cannot be"
                                      " attached: .+; ")

    def test_sample(self):
        sample = os.path.join(os.path.dirname(__file__), "../../etc/phasegated.conf")
        with open(sample, encoding="utf-8") as file:
            settings = json.load(file)
        self.assertIn("169.254.169.254", settings["never_allow"])
        # The group is made when the package is installed.
        del settings["group"]
        path = f"{self.daemon.directory.name}/sample.conf"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(settings, file)
        done = self.run_daemon("--config", path, "--check")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_wrong_settings(self):
        path = f"{self.daemon.directory.name}/wrong.conf"
        for text, said in (("{", "not valid JSON"), ('{"sockt":"/x"}', 'write "socket"'),
                           ('{"socket":"x"}', "absolute"), ('{"group":"no-such"}', "group"),
                           ('{"never_allow":["10.0.0.1/8"]}', "/never_allow/0"),
                           ('{"never_allow":["x"]}', "/never_allow/0"),
                           ('{"host_ports":[0]}', "/host_ports/0"),
                           ('{"host_ports":["80"]}', "/host_ports/0"),
                           ('{"resolvers":["x"]}', "/resolvers/0"),
                           ('{"resolvers":["1.1.1.1","1.1.1.1","1.1.1.1","1.1.1.1"]}', "at most"),
                           ('{"log_level":"x"}', "/log_level")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            done = self.run_daemon("--config", path, "--check")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertIn(path, done.stderr)

    def test_wrong_options(self):
        for words in (["--nope"], ["x"], ["--socket", "x"], ["--log-level", "x"],
                      ["--config", "/no/such"]):
            self.assertEqual(self.run_daemon(*words, "--check").returncode, 2, words)
        self.assertIn("usage", self.run_daemon("--help").stdout)
        self.assertRegex(self.run_daemon("--version").stdout, r"^phasegated \d")

    def test_capabilities_are_dropped(self):
        with open(f"/proc/{self.daemon.process.pid}/status", encoding="ascii") as file:
            status = dict(line.split(":\t", 1) for line in file.read().splitlines())
        kept = int(status["CapPrm"], 16)
        self.assertEqual(status["NoNewPrivs"], "1")
        for name, number in (("chown", 0), ("setuid", 7), ("sys_module", 16), ("sys_rawio", 17),
                             ("sys_boot", 22), ("mknod", 27)):
            self.assertFalse(kept >> number & 1, name)
            self.assertFalse(int(status["CapBnd"], 16) >> number & 1, name)
        self.assertTrue(kept >> 21 & 1)


if __name__ == "__main__":
    main()
