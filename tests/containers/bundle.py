# SPDX-License-Identifier: Apache-2.0
"""An OCI bundle of busybox and the probe, for a container in the client's namespace."""

import json
import os
import shutil
import subprocess

from phasegate import PROBE

CAPABILITIES = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_MKNOD",
                "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID",
                "CAP_SYS_CHROOT", "CAP_SETPCAP", "CAP_SETFCAP", "CAP_AUDIT_WRITE", "CAP_FSETID")


# In the host's network, where nothing judges packet sockets.
WITHOUT_RAW = tuple(name for name in CAPABILITIES if name != "CAP_NET_RAW")


def make(folder, namespace, cgroup, arguments, capabilities=CAPABILITIES):
    """Fills folder; arguments are executed with Docker's default capabilities, or these."""
    root = os.path.join(folder, "rootfs")
    for name in ("bin", "proc", "dev", "sys", "tmp"):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    shutil.copy(shutil.which("busybox"), os.path.join(root, "bin/busybox"))
    os.symlink("busybox", os.path.join(root, "bin/sh"))
    shutil.copy(PROBE, os.path.join(root, "bin/probe"))
    subprocess.run(["runc", "spec"], cwd=folder, check=True)
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    process = config["process"]
    process["terminal"] = False
    process["args"] = list(arguments)
    for kind in ("bounding", "effective", "permitted"):
        process["capabilities"][kind] = list(capabilities)
    config["linux"]["cgroupsPath"] = cgroup
    for one in config["linux"]["namespaces"]:
        if one["type"] == "network":
            one["path"] = namespace.path
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
