# SPDX-License-Identifier: Apache-2.0
"""`phasegate doctor` on this machine: as root, without capabilities, in a cgroup namespace."""

import json
import os
import subprocess
import sys

BINARY = sys.argv[1]

# Those that `run` cannot do without and that doctor must therefore tell about.
EXPECTED = {
    "kernel", "architecture", "capabilities", "btf", "memlock", "cgroup2", "cgroup-namespace",
    "net_cls", "bpffs", "socket-diag.tcp", "socket-diag.udp", "map.hash", "map.inner_array",
    "map.array_of_maps", "map.cgroup_storage", "map.percpu_cgroup_storage", "map.sk_storage",
    "map.ringbuf", "hook.pg_egress", "hook.pg_connect4", "hook.pg_sendmsg6",
    "clone-into-cgroup", "enforcement", "veth-guard", "exec",
}


def cgroup2_mount():
    with open("/proc/self/mountinfo") as mounts:
        for line in mounts:
            fields = line.split()
            if fields[fields.index("-") + 1] == "cgroup2":
                return fields[4]
    return None


def traces():
    """What doctor could leave behind: cgroups and pins."""
    found = set(os.listdir(cgroup2_mount()))
    if os.path.ismount("/sys/fs/bpf"):
        found |= set(os.listdir("/sys/fs/bpf"))
    return {name for name in found if name.startswith("phasegate-probe")}


def doctor(*options, wrapper=()):
    return subprocess.run([*wrapper, BINARY, "doctor", *options], capture_output=True, text=True)


def rows_of(process):
    report = json.loads(process.stdout)
    assert set(report) == {"ok", "checks"}, report
    for row in report["checks"]:
        assert set(row) == {"name", "result", "detail", "advice"}, row
        assert row["result"] in ("ok", "warning", "failed"), row
        assert row["detail"], row
        assert bool(row["advice"]) == (row["result"] != "ok"), row
    assert report["ok"] == all(row["result"] != "failed" for row in report["checks"]), report
    return {row["name"]: row for row in report["checks"]}


def test_as_root():
    process = doctor("--json")
    rows = rows_of(process)
    assert EXPECTED <= set(rows), EXPECTED - set(rows)
    lacks = [row for row in rows.values() if row["result"] != "ok"]
    assert not lacks, lacks
    assert process.returncode == 0 and process.stderr == "", process


def test_table():
    process = doctor()
    assert process.returncode == 0, process
    for name in EXPECTED:
        assert f" {name} " in process.stdout, name
    assert "Enforcement is possible" in process.stdout


def test_without_capabilities():
    wrapper = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--reuid=65534", "--clear-groups")
    process = doctor("--json", wrapper=wrapper)
    rows = rows_of(process)
    assert process.returncode == 1 and process.stderr == "", process
    assert rows["capabilities"]["result"] == "failed", rows["capabilities"]
    assert "root" in rows["capabilities"]["advice"]
    assert rows["hook.pg_egress"]["result"] == "failed"
    assert rows["map.hash"]["result"] == "failed"
    assert rows["memlock"]["result"] == "ok", rows["memlock"]
    assert "Enforcement is not possible" in doctor(wrapper=wrapper).stdout


def test_in_namespaces():
    rows = rows_of(doctor("--json", wrapper=("unshare", "--cgroup")))
    assert rows["cgroup-namespace"]["result"] == "failed"
    assert "--cgroupns=host" in rows["cgroup-namespace"]["advice"]
    user = ("unshare", "--user", "--map-root-user")
    # Not to be had in a chroot, nor where the administrator does not allow it.
    if subprocess.run([*user, "true"], capture_output=True, check=False).returncode == 0:
        rows = rows_of(doctor("--json", wrapper=user))
        assert rows["capabilities"]["result"] == "failed", rows["capabilities"]
    hidden = ("unshare", "--mount", "sh", "-c", f'umount -l "{cgroup2_mount()}" && exec "$@"', "-")
    rows = rows_of(doctor("--json", wrapper=hidden))
    assert rows["cgroup2"]["result"] == "failed", rows["cgroup2"]
    assert "mount -t cgroup2" in rows["cgroup2"]["advice"]
    assert "nsenter --net=" in rows["cgroup2"]["advice"]


def test_usage():
    for bad in (["--nonsense"], ["argument"]):
        process = doctor(*bad)
        assert process.returncode == 2 and process.stdout == "", process
        assert bad[0] in process.stderr, process
    process = doctor("--help")
    assert process.returncode == 0 and process.stdout.startswith("usage: phasegate doctor")


def main():
    if os.geteuid() != 0:
        print("skipped: needs root, to compare with what doctor says without it")
        sys.exit(77)
    if not cgroup2_mount():
        print("skipped: cgroup2 is not mounted")
        sys.exit(77)
    before = traces()
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"{name}: ok")
    assert traces() <= before, traces() - before


main()
