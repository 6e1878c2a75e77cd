# SPDX-License-Identifier: Apache-2.0
"""Two network namespaces joined by a veth pair: the Environment's side and an "internet".

    client eth0 192.0.2.2, 2001:db8:1::2  ---  eth0 192.0.2.1, 2001:db8:1::1 server

The server's loopback device holds the addresses A (allowed), B (allowed by the second policy), D
(denied) and R (a resolver). The namespaces have no names: they exist as long as a process of the
test or a descriptor of it does, so that nothing is left behind by any way of ending.
"""

import contextlib
import ctypes
import os
import subprocess
import threading

CLIENT4, CLIENT6 = "192.0.2.2", "2001:db8:1::2"
GATEWAY4, GATEWAY6 = "192.0.2.1", "2001:db8:1::1"
A4, A6 = "198.51.100.10", "2001:db8:a::10"
B4, B6 = "198.51.100.20", "2001:db8:a::20"
D4, D6 = "203.0.113.10", "2001:db8:d::10"
R4, R6 = "198.51.100.53", "2001:db8:a::53"
SERVED = (A4, A6, B4, B6, D4, D6)

# Makes $0 a root directory of its own, with all that is in the host's.
_ROOT = """
mount -t tmpfs tmpfs "$0"
for entry in /*; do
    if [ -L "$entry" ]; then cp -a "$entry" "$0"
    elif [ -d "$entry" ]; then mkdir "$0$entry" && mount --rbind "$entry" "$0$entry"; fi
done
exec chroot "$0" "$@"
"""

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def mapped(address):
    """The IPv4-mapped form, which makes the probe use an AF_INET6 socket."""
    return address if ":" in address else "::ffff:" + address


def in_root(directory):
    """Words that execute those behind them as a container would, in another root directory than the
    host's; it is mounted on the empty directory."""
    return ["unshare", "--mount", "sh", "-c", _ROOT, directory]


def _check(result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _in_thread(function):
    """Runs function in a thread of its own, whose namespace may change, and returns its result."""
    box = {}

    def body():
        try:
            box["result"] = function()
        except BaseException as error:
            box["error"] = error

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if "error" in box:
        raise box["error"]
    return box["result"]


class Namespace:
    def __init__(self, fd=None):
        """A new one, or the one that the descriptor refers to."""
        def make():
            _check(_libc.unshare(CLONE_NEWNET))
            return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

        self.fd = _in_thread(make) if fd is None else fd

    @property
    def path(self):
        """For other processes, as long as this one lives."""
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    def call(self, function):
        """Runs function inside the namespace; sockets that it makes stay there."""

        def enter():
            _check(_libc.setns(self.fd, CLONE_NEWNET))
            return function()

        return _in_thread(enter)

    def command(self, *words):
        """The command line that executes words inside, in the same process."""
        return ["nsenter", f"--net={self.path}", *words]

    def ip(self, *lines):
        subprocess.run(self.command("ip", "-batch", "-"), input="\n".join(lines) + "\n",
                       text=True, check=True, stdout=subprocess.DEVNULL)

    def sysctl(self, **values):
        def write():
            for name, value in values.items():
                path = "/proc/sys/net/" + name.replace("__", "/")
                with open(path, "w", encoding="ascii") as file:
                    file.write(str(value))

        self.call(write)

    def close(self):
        os.close(self.fd)


class Lab:
    """The two namespaces, configured."""

    def __init__(self, client=None):
        self.stack = contextlib.ExitStack()
        self.client = client or Namespace()
        self.stack.callback(self.client.close)
        self.server = Namespace()
        self.stack.callback(self.server.close)
        self._join()

    def _join(self):
        for side in (self.client, self.server):
            # No duplicate address detection: an address is usable as soon as it is set. Payload
            # in the SYN without a cookie: the first TCP Fast Open already carries data.
            side.sysctl(ipv6__conf__all__accept_dad=0, ipv6__conf__default__accept_dad=0,
                        ipv6__conf__default__accept_ra=0, ipv4__tcp_fastopen=0x207,
                        ipv4__ping_group_range="0 2147483647")
        self.client.ip(f"link add eth0 type veth peer name eth0 netns {self.server.path}")
        self.client.ip("link set lo up", "link set eth0 up",
                       f"addr add {CLIENT4}/24 dev eth0",
                       f"addr add {CLIENT6}/64 dev eth0 nodad")
        self.server.ip("link set lo up", "link set eth0 up",
                       f"addr add {GATEWAY4}/24 dev eth0",
                       f"addr add {GATEWAY6}/64 dev eth0 nodad",
                       *(f"addr add {a} dev lo" + (" nodad" if ":" in a else "")
                         for a in (*SERVED, R4, R6)))
        self.client.ip(f"route add default via {GATEWAY4}",
                       f"route add default via {GATEWAY6}")

    def close(self):
        self.stack.close()
