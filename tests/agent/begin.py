# SPDX-License-Identifier: Apache-2.0
"""begin.py CGROUP ROOT: what a container runtime does last, in the network namespace that it
has made: a child of it, in the cgroup, has the root directory ROOT, and executes nothing until told
by a line; then sleep(1). Prints "ready" before, and "begun" when the child executes."""

import fcntl
import os
import subprocess
import sys

BASE = ("bin", "lib", "lib64", "usr")


def make_root(root):
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", root], check=True)
    for name in BASE:
        if os.path.islink("/" + name):
            os.symlink(os.readlink("/" + name), f"{root}/{name}")
        elif os.path.isdir("/" + name):
            os.mkdir(f"{root}/{name}")
            subprocess.run(["mount", "--rbind", "/" + name, f"{root}/{name}"], check=True)


def main(cgroup, root):
    make_root(root)
    executed, executing = os.pipe()
    child = os.fork()
    if not child:
        with open(f"{cgroup}/cgroup.procs", "w", encoding="ascii") as file:
            file.write("0")
        os.chroot(root)
        os.chdir("/")
        fcntl.fcntl(executing, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
        print("ready", flush=True)
        sys.stdin.readline()
        os.execv("/bin/sleep", ["sleep", "1000"])
    os.close(executing)
    os.read(executed, 1)  # Until it is closed.
    print("begun", flush=True)
    os.waitpid(child, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
