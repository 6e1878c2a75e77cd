# SPDX-License-Identifier: Apache-2.0
"""`phasegate debug` beside a real run: what it says of its programs and maps."""

import json
import os
import subprocess
import sys
import time

BINARY = sys.argv[1]
HOOKS = {
    "pg_egress": "cgroup_skb/egress", "pg_ingress": "cgroup_skb/ingress", "pg_sockops": "sockops",
    "pg_sock_create": "cgroup/sock_create", "pg_bind4": "cgroup/bind4", "pg_bind6": "cgroup/bind6",
    "pg_connect4": "cgroup/connect4", "pg_connect6": "cgroup/connect6",
    "pg_sendmsg4": "cgroup/sendmsg4", "pg_sendmsg6": "cgroup/sendmsg6",
}
POLICY = '{"network_policy":{"network_mode":"allowlist","allowed_hosts":["192.0.2.1"]}}'
# Ends with its standard input.
SENDER = """
import os, select, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print("sending", flush=True)
while not select.select([0], [], [], 0)[0]:
    s.sendto(b"", ("127.0.0.1", 9))
"""


def debug(*options, wrapper=()):
    return subprocess.run([*wrapper, BINARY, "debug", *options], capture_output=True, text=True,
                          timeout=60, check=False)


class Run:
    """A `phasegate run` whose command sends all the time."""

    def __enter__(self):
        self.process = subprocess.Popen(
            [BINARY, "run", "--policy", POLICY, "--", "/usr/bin/python3", "-c", SENDER],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.process.stdout.readline() == b"sending\n"
        return f"run-{self.process.pid}-"

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(60) == 0, self.process.returncode
        self.process.stdout.close()


def programs_of(report, environment):
    return {program["name"]: program for program in report["programs"]
            if any(name.startswith(environment) for name in program["environments"])}


def kernel_at_least(*version):
    return tuple(map(int, os.uname().release.split("-")[0].split(".")[:2])) >= version


def check_programs(report, environment):
    programs = programs_of(report, environment)
    assert {name: program["hook"] for name, program in programs.items()} == HOOKS, programs
    for program in programs.values():
        assert program["memory_bytes"] > 0 and program["translated_bytes"] > 0, program
        if kernel_at_least(5, 16):
            assert program["verified_instructions"] > 0, program
    for name in ("pg_egress", "pg_sendmsg4"):
        program = programs[name]
        assert program["runs"] > 100, program
        assert 1 < program["ns_per_run"] < 1e6, program
        # The reading of the clock is not at the very moment of that of the counts.
        rate = program["runs"] / report["seconds"]
        assert abs(program["runs_per_second"] - rate) <= rate / 100, (program, report["seconds"])
    assert programs["pg_connect4"]["runs"] == 0, programs["pg_connect4"]
    assert programs["pg_connect4"]["ns_per_run"] is None, programs["pg_connect4"]


def check_maps(report):
    maps = {one["name"]: one for one in report["maps"]}
    # Whole, though the kernel cuts names.
    assert {"pg_headers", "pg_states", "pg_set", "pg_event_budgets"} <= set(maps), set(maps)
    for one in maps.values():
        assert one["maps"] >= 1 and one["type"], one
    assert maps["pg_states"]["elements"] % maps["pg_states"]["maps"] == 0
    assert maps["pg_flow_bars"]["elements"] >= 1, maps["pg_flow_bars"]
    assert maps["pg_set"]["memory_bytes"] > 0, maps["pg_set"]


def test_run():
    with Run() as environment:
        started = time.monotonic()
        process = debug("--seconds", "1", "--json")
        assert time.monotonic() - started >= 1
        assert process.returncode == 0 and process.stderr == "", process
        report = json.loads(process.stdout)
        assert set(report) == {"seconds", "programs", "maps"}, set(report)
        assert report["seconds"] >= 1, report["seconds"]
        check_programs(report, environment)
        check_maps(report)
        table = debug("--seconds", "1")
        assert table.returncode == 0 and table.stderr == "", table
        lines = [line for line in table.stdout.splitlines() if environment in line]
        assert len(lines) == len(HOOKS), table.stdout
        egress = next(line for line in lines if " pg_egress " in line)
        assert "cgroup_skb/egress" in egress and int(egress.split()[3]) > 100, egress
    process = debug("--seconds", "1", "--json")
    assert process.returncode == 0, process
    assert not programs_of(json.loads(process.stdout), environment), process.stdout


def test_without_capabilities():
    wrapper = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--reuid=65534",
               "--clear-groups")
    process = debug("--seconds", "1", wrapper=wrapper)
    assert process.returncode == 1 and process.stdout == "", process
    assert "as root" in process.stderr, process.stderr


def test_usage():
    for bad in (["--nonsense"], ["argument"], ["--seconds", "0"], ["--seconds", "3601"],
                ["--seconds", "-1"], ["--seconds", "1x"], ["--seconds", ""], ["--seconds"]):
        process = debug(*bad)
        assert process.returncode == 2 and process.stdout == "", process
        assert bad[0] in process.stderr, process
    process = debug("--help")
    assert process.returncode == 0 and process.stdout.startswith("usage: phasegate debug")


def main():
    if os.geteuid() != 0:
        print("skipped: needs root")
        sys.exit(77)
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"{name}: ok")


main()
