# SPDX-License-Identifier: Apache-2.0
"""A lab in which the client's side is a host with containers: processes in cgroups and network
namespaces of their own, each joined to the host by veths as a runtime makes them, and the host
forwards. What a container sends is judged at the far end.

    container eth0 198.18.N.2, 2001:db8:77:N::2 --- vN [on a bridge] host --- server
"""

import os
import re
import subprocess

import cgroups
from dnslab import PYTHON
from harness import token
from lab import A4, A6, CLIENT4, CLIENT6, D4, D6
from test_adopt import AdoptTest

FRAMES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "frames.py")

NEW = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
HELD = "0x5048"  # As the upper half of PG_LINK_NEW in abi/link.h.
CONTAINERS4, CONTAINERS6 = "198.18.0.0/15", "2001:db8:77::/48"


class Container:
    def __init__(self, test, name, before=NEW, cgroup=None):
        self.test, self.cgroup = test, cgroup or test.make_cgroup(name)
        self.inside = test.inside({"member": self.cgroup}, *before)
        self.pid = self.inside("pid")
        self.number = None

    def enter(self, *words, **more):
        """Runs words in its namespace and then cgroup, as its root; the output."""
        done = subprocess.run(
            ["nsenter", f"--net=/proc/{self.pid}/ns/net", "sh", "-c",
             'echo $$ >"$0" && exec "$@"',
             f"{cgroups.path_of(self.cgroup)}/cgroup.procs", *words],
            stdout=subprocess.PIPE, text=True, check=True, **more)
        return done.stdout

    def ip(self, *lines):
        """By the host, as a runtime does."""
        subprocess.run(["nsenter", f"--net=/proc/{self.pid}/ns/net", "ip", "-batch", "-"],
                       input="\n".join(lines) + "\n", text=True, check=True)

    def send_frames(self, mark, *destinations, device="eth0", gateway=None):
        mac = self.test.mac_of(gateway or self.gateway)
        self.enter(PYTHON, FRAMES, device, mac, self.address4,
                   self.address6, mark, *destinations)

    address4 = property(lambda self: f"198.18.{self.number}.2")
    address6 = property(lambda self: f"2001:db8:77:{self.number}::2")
    host4 = property(lambda self: f"198.18.{self.number}.1")
    host6 = property(lambda self: f"2001:db8:77:{self.number}::1")

    def join(self, number, device="eth0", bridge=True):
        """A veth vNUMBER at the host, on a bridge bNUMBER; or routed, with one address each."""
        host, end = self.test.lab.client, f"v{number}"
        self.number, self.gateway = number, f"b{number}" if bridge else end
        # At once; the kernel takes a busy machine's namespaces away some time after their end.
        self.test.addCleanup(subprocess.run, host.command("ip", "link", "delete", end),
                             stderr=subprocess.DEVNULL, check=False)
        host.ip(f"link add {end} type veth peer name {device} netns {self.pid}",
                f"link set {end} up")
        size4, size6 = (24, 64) if bridge else (32, 128)
        self.ip(f"link set {device} up", f"addr add {self.address4}/{size4} dev {device}",
                f"addr add {self.address6}/{size6} dev {device} nodad")
        if bridge:
            host.ip(f"link set {end} master {self.gateway}")
            self.ip(f"route replace default via {self.host4}",
                    f"route replace default via {self.host6}")
            return
        host.sysctl(**{f"ipv4__conf__{end}__proxy_arp": 1})
        host.ip(f"route add {self.address4}/32 dev {end}", f"route add {self.address6} dev {end}",
                f"addr add fe80::1/64 dev {end} nodad")
        self.ip(f"route replace 169.254.1.1 dev {device} scope link",
                f"route replace default via 169.254.1.1 dev {device} onlink",
                f"route replace default via fe80::1 dev {device}")

    @staticmethod
    def namespace(pid):
        return os.readlink(f"/proc/{pid}/ns/net")


class LinkTest(AdoptTest):
    """Containers are on bridges b1 and b2."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        host = cls.lab.client
        host.sysctl(ipv4__ip_forward=1, ipv6__conf__all__forwarding=1)
        for number in (1, 2):
            host.ip(f"link add b{number} type bridge", f"link set b{number} up",
                    f"addr add 198.18.{number}.1/24 dev b{number}",
                    f"addr add 2001:db8:77:{number}::1/64 dev b{number} nodad")
        cls.lab.server.ip(f"route del local {CONTAINERS4} dev lo",
                          f"route add {CONTAINERS4} via {CLIENT4}",
                          f"route add {CONTAINERS6} via {CLIENT6}")

    def container(self, name="box", number=1, **more):
        container = Container(self, name)
        container.join(number, **more)
        return container

    def mac_of(self, device):
        shown = subprocess.run(self.lab.client.command("ip", "link", "show", device), check=True,
                               stdout=subprocess.PIPE, text=True).stdout
        return re.search("link/ether ([0-9a-f:]+)", shown)[1]

    def filters(self, device):
        """The priorities of the filters on an interface of the host's, but that of links without a
        guard."""
        return [priority for priority, handle in self.all_filters(device)
                if not re.fullmatch(HELD + "[0-9a-f]{4}", handle)]

    def held_by(self, device):
        """The handles of filters of links without a guard; each agent has its own."""
        return [handle for _, handle in self.all_filters(device)
                if re.fullmatch(HELD + "[0-9a-f]{4}", handle)]

    def is_held(self, device):
        return self.held_by(device) != []

    def add_filter(self, device, handle):
        """One that lets everything go on, in the place of another process's."""
        subprocess.run([*self.lab.client.command("tc"), "filter", "add", "dev", device, "ingress",
                        "pref", "1", "handle", handle, "bpf", "bytecode", "1,6 0 0 0"],
                       check=True)

    def all_filters(self, device):
        found = []
        for side in ("ingress", "egress"):
            shown = subprocess.run(
                self.lab.client.command("tc", "filter", "show", "dev", device, side), check=False,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
            found += re.findall(r"pref (\d+) bpf chain 0 handle (\w+)", shown)
        return found

    def frames_pass(self, container, *destinations, **more):
        """Which of the destinations frames of a packet socket come to."""
        mark = token("frame")
        self.capture.drain()
        container.send_frames(mark, *destinations, **more)
        came = {p.destination for p in self.fence() if mark.encode() in p.payload}
        self.assertLessEqual(came, set(destinations))
        return came

    def assert_guarded(self, container, **more):
        self.assertEqual(self.frames_pass(container, A4, A6, D4, D6, **more), set())

    def assert_unguarded(self, container, **more):
        self.assertEqual(self.frames_pass(container, A4, A6, D4, D6, **more), {A4, A6, D4, D6})

    def assert_link(self, keeper, interface, guard="on", device="eth0", reason=""):
        self.assertEqual(
            [link for link in keeper("links")["links"] if link["interface"] == interface],
            [{"interface": interface, "device": device, "guard": guard, "reason": reason}])

