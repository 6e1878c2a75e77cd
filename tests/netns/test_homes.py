# SPDX-License-Identifier: Apache-2.0
"""Own addresses of containers: network namespaces behind a veth, whose host end is in the client's
namespace, which forwards. What an address there sends to an allowed host arrives for as long as the
namespace has the address; a forged one never does, by whatever way."""

import ipaddress
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from harness import main, token
from keeper import isolate
from lab import A4, A6, CLIENT4, CLIENT6, D4, D6, in_root
from phasegate import NO_NETWORK, allowlist, policy
from recorder import PORT
from test_adopt import AdoptTest

FORGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "forge.py")
PYTHON = "/usr/bin/python3"
NET4, NET6, SLAAC = "10.77.0", "2001:db8:77::", "2001:db8:78::"
OWN4, OWN6 = f"{NET4}.2", f"{NET6}2"
NEW4, NEW6 = f"{NET4}.3", f"{NET6}3"
HOST_LINK = "fe80::77:1"
WAYS = ("transparent", "raw")
TEXT = policy(setup=NO_NETWORK, run=allowlist(A4, A6, HOST_LINK, "10.99.0.2"))
# As of a container that may change nothing.
WITHOUT_ADMIN = ("setpriv", "--bounding-set", "-net_admin")
# What the issue promises.
LIMIT_S = 1


def advertisement(prefix):
    """A router's (RFC 4861, 4.2), with the prefix for addresses that a host makes itself."""
    option = struct.pack("!BBBBIII16s", 3, 4, 64, 0xc0, 600, 600, 0,
                         ipaddress.ip_address(prefix).packed)
    return struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 600, 0, 0) + option


class Homes(AdoptTest):
    """What is in the client's namespace is the host, the server's the world."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.lab.client.sysctl(ipv4__ip_forward=1, ipv6__conf__all__forwarding=1)
        cls.lab.server.ip(f"route add {NET4}.0/24 via {CLIENT4}",
                          f"route add {NET6}/64 via {CLIENT6}",
                          f"route add {SLAAC}/64 via {CLIENT6}")

    def setUp(self):
        super().setUp()
        self.cgroup = self.make_cgroup("member")
        self.addCleanup(lambda: subprocess.run(
            self.lab.client.command("ip", "link", "del", "home0"), check=False,
            stderr=subprocess.DEVNULL))

    def container(self, *before):
        """A process in a namespace of its own, with nothing in it yet."""
        return self.inside({"member": self.cgroup}, "unshare", "--net", *before)

    def with_admin(self):
        """As of a container that may; what has the host's root directory is taken for a runtime."""
        directory = tempfile.mkdtemp(prefix="pgt-root-")
        self.addCleanup(os.rmdir, directory)
        return in_root(directory)

    @staticmethod
    def ip_of(pid, *lines):
        subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-batch", "-"],
                       input="\n".join(lines) + "\n", text=True, check=True)

    def ip_in(self, container, *lines):
        self.ip_of(container("pid"), *lines)

    def join(self, container, addresses=(OWN4, OWN6)):
        self.join_process(container("pid"), addresses)

    def join_process(self, pid, addresses):
        """As a runtime does."""
        self.lab.client.ip(f"link add home0 type veth peer name eth0 netns {pid}",
                           "link set home0 addrgenmode none", f"addr add {NET4}.1/24 dev home0",
                           f"addr add {NET6}1/64 dev home0 nodad",
                           f"addr add {HOST_LINK}/64 dev home0 nodad", "link set home0 up",
                           f"route add {SLAAC}/64 dev home0")
        subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", "sysctl", "-qw",
                        "net.ipv6.conf.eth0.accept_dad=0", "net.ipv6.conf.eth0.accept_ra=1",
                        "net.ipv6.conf.eth0.router_solicitations=0",
                        "net.ipv4.conf.eth0.promote_secondaries=1"], check=True)
        self.ip_of(pid, "link set lo up", *self.adding(*addresses), "link set eth0 up",
                   f"route add default via {NET4}.1", f"route add default via {NET6}1")

    @staticmethod
    def adding(*addresses, what="add"):
        return [f"addr {what} {a}/{64 if ':' in a else 24} dev eth0"
                + (" nodad" if ":" in a and what == "add" else "") for a in addresses]

    def attached(self, *before, keeper=None):
        container = self.container(*before)
        self.join(container)
        keeper = keeper or self.keeper()
        self.create(keeper, self.cgroup, text=TEXT, phase="run", options="a")
        return keeper, container

    def forge(self, container, way, source, mark=None, destination=None, **more):
        destination = destination or (A6 if ":" in source else A4)
        words = (PYTHON, FORGE, way, source, destination, str(PORT), mark or token(way),
                 *more.values())
        return container("run", *words)["output"].strip()

    def works(self, container, source, **more):
        return self.forge(container, "plain", source, **more) == "sent"

    def assert_arrives(self, container, source):
        mark = token("own")
        self.assertEqual(self.forge(container, "plain", source, mark), "sent", source)
        self.assertIsNotNone(self.recorder.wait(mark), source)
        self.assertEqual({p.source for p in self.fence() if mark.encode() in p.payload}, {source})

    def assert_forged(self, container, *sources):
        mark = token("forged")
        for source in sources:
            for way in (*WAYS, *(["freebind"] if ":" in source else [])):
                self.assertEqual(self.forge(container, way, source, mark), "EPERM", (way, source))
        self.assertEqual([p for p in self.fence() if mark.encode() in p.payload], [])

    def wait_for_address(self, container, source, **more):
        _, passed = self.wait_for(lambda: self.works(container, source, **more),
                                  about=f"{source} does not work")
        return passed

    def test_forged_sources(self):
        """To an allowed host; the same ways with an own source show that they lead there."""
        _, container = self.attached()
        for source in (OWN4, OWN6):
            self.assert_arrives(container, source)
            for way in WAYS:
                mark = token(way)
                self.assertEqual(self.forge(container, way, source, mark), "sent", way)
                self.assertTrue([p for p in self.fence() if mark.encode() in p.payload], way)
        # Denied hosts, neighbours, the host itself.
        self.assert_forged(container, D4, D6, NEW4, NEW6, CLIENT4, CLIENT6, f"{NET4}.1",
                           f"{NET6}1")

    def test_addresses_come_and_go(self):
        keeper, container = self.attached(*WITHOUT_ADMIN)
        for source in (NEW4, NEW6):
            self.assert_forged(container, source)
            self.ip_in(container, *self.adding(source))
            began = time.monotonic()
            self.wait_for_address(container, source)
            print(f"{source} works after {time.monotonic() - began:.3f} s, load"
                  f" {os.getloadavg()[0]:.1f}", flush=True)
            self.assert_arrives(container, source)
            self.ip_in(container, *self.adding(source, what="del"))
            self.wait_for(lambda s=source: self.forge(container, "raw", s) == "EPERM", LIMIT_S * 5)
            self.assert_forged(container, source)
        self.assertNotIn("own_address", keeper.stderr)
        self.assert_arrives(container, OWN4)

    def test_more_changes_than_the_socket_holds(self):
        """Afterwards what is there is known, and nothing else."""
        keeper, container = self.attached(*WITHOUT_ADMIN)
        os.kill(keeper.pid, 19)
        for _ in range(40):
            self.ip_in(container, *(line for n in range(100) for what in ("add", "del")
                                    for line in self.adding(f"10.77.1.{n}", what=what)))
        self.ip_in(container, *self.adding(NEW4), *self.adding(OWN4, what="del"))
        keeper.resume()
        self.wait_for_address(container, NEW4)
        self.wait_for(lambda: self.forge(container, "raw", OWN4) == "EPERM", LIMIT_S * 5)
        self.assert_forged(container, "10.77.1.99")
        self.assert_arrives(container, OWN6)

    def test_who_could_give_itself_any(self):
        """Has what it had; with the next owner too, which sees the address there."""
        keeper, container = self.attached(*self.with_admin())
        self.ip_in(container, *self.adding(NEW4, NEW6))
        self.wait_for(lambda: NEW6 in keeper.stderr, about="nothing is said")
        self.assertIn("own_address_refused", keeper.stderr)
        for mark in ("first", "adopted"):
            with self.subTest(mark):
                for source in (NEW4, NEW6):
                    self.assertEqual(self.forge(container, "plain", source), "EPERM", source)
                self.assert_forged(container, NEW4, NEW6)
                for source in (OWN4, OWN6):
                    self.assert_arrives(container, source)
                keeper.kill()
                keeper = self.keeper()
                keeper("adopt", self.name)

    def test_next_owner(self):
        """What was own stays so without an owner; what came meanwhile becomes so."""
        keeper, container = self.attached(*WITHOUT_ADMIN)
        keeper.kill()
        self.assert_arrives(container, OWN4)
        self.ip_in(container, *self.adding(NEW4), *self.adding(OWN6, what="del"))
        self.assert_forged(container, NEW6)
        keeper = self.keeper()
        keeper("adopt", self.name)
        for source in (OWN4, NEW4):
            self.assert_arrives(container, source)
        self.assert_forged(container, OWN6)
        self.ip_in(container, *self.adding(NEW6))
        self.wait_for_address(container, NEW6)

    def test_parent(self):
        """Containers that come after the Environment: the second while the first is there, and one
        that has its addresses before its first process."""
        keeper = self.keeper()
        self.create(keeper, self.cgroup, text=TEXT, phase="run")
        first = self.container(*WITHOUT_ADMIN)
        self.join(first)
        for source in (OWN4, OWN6):
            self.wait_for_address(first, source)
            self.assert_arrives(first, source)
        pid = first("pid")
        second = self.inside({"member": self.cgroup}, "nsenter", f"--net=/proc/{pid}/ns/net")
        first.finish()
        self.wait_for_address(second, OWN4)
        self.assert_forged(second, D4, D6, CLIENT4, CLIENT6)
        self.lab.client.ip("link del home0")
        third = self.container(*WITHOUT_ADMIN)
        self.join(third, (NEW4, NEW6))
        for source in (NEW4, NEW6):
            self.wait_for_address(third, source)
            self.assert_arrives(third, source)
        self.assertEqual(self.forge(third, "freebind", CLIENT6), "EPERM")

    def test_runtime_that_takes_its_time(self):
        """Its process has all capabilities, and the workload's root directory already. What becomes
        of the namespace's interface meanwhile is not the workload's doing."""
        directory = tempfile.mkdtemp(prefix="pgt-begin-")
        self.addCleanup(shutil.rmtree, directory)
        waits = (f"echo $$ > {directory}/new && mv {directory}/new {directory}/pid &&"
                 f" until [ -e {directory}/begin ]; do sleep 0.01; done; exec \"$@\"")

        def runtime():
            self.wait_for(lambda: os.path.exists(f"{directory}/pid"), about="it does not start")
            with open(f"{directory}/pid", encoding="utf-8") as file:
                pid = int(file.read())
            self.join_process(pid, (OWN4, OWN6))
            guard = self.lab.client.command("tc", "filter", "show", "dev", "home0", "ingress")
            self.wait_for(lambda: subprocess.run(guard, capture_output=True, check=True).stdout,
                          about="no guard is put on")
            self.ip_of(pid, "link set eth0 down", "link set eth0 address 02:00:00:00:77:02",
                       "link set eth0 up", f"route add default via {NET4}.1")
            # Longer than what is new is looked at again; that it takes long is the point.
            time.sleep(1)
            with open(f"{directory}/begin", "x", encoding="utf-8"):
                pass

        keeper = self.keeper()
        self.create(keeper, self.cgroup, text=TEXT, phase="run")
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(runtime)
            try:
                container = self.container(*self.with_admin(), "sh", "-c", waits, "sh",
                                           *WITHOUT_ADMIN)
            finally:
                done.result()
        mark = token("begun")

        def arrives():
            self.forge(container, "plain", OWN4, mark)
            return mark.encode() in b"".join(p.payload for p in self.fence())

        self.wait_for(arrives, about="what it sends does not arrive")

    def test_addresses_of_its_own_making(self):
        """Of the link, and by a router's advertisement (SLAAC)."""
        _, container = self.attached(*WITHOUT_ADMIN)
        pid = container("pid")

        def addresses():
            shown = subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-6", "-brief",
                                    "addr", "show", "dev", "eth0"], check=True, text=True,
                                   stdout=subprocess.PIPE).stdout
            return [word.split("/")[0] for word in shown.split()[2:]]

        link, = (a for a in addresses() if a.startswith("fe80"))
        self.wait_for_address(container, link, destination=HOST_LINK, interface="eth0")

        def advertise():
            with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as router:
                scope = socket.if_nametoindex("home0")
                router.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
                router.bind((HOST_LINK, 0, 0, scope))
                router.sendto(advertisement(SLAAC), ("ff02::1", 0, 0, scope))

        self.lab.client.call(advertise)
        made, _ = self.wait_for(lambda: [a for a in addresses() if a.startswith("2001:db8:78:")],
                                about="no address is made")
        self.wait_for_address(container, made[0])
        self.assert_arrives(container, made[0])

    def test_what_the_workload_makes_is_no_home(self):
        _, container = self.attached(*WITHOUT_ADMIN)
        inner = ("ip link add d0 type veth peer name d1; ip link set d1 up;"
                 " ip addr add 10.99.0.1/24 dev d0; ip link set d0 up;"
                 f" ip link set lo up; ip neigh add 10.99.0.2 lladdr 2:0:0:0:0:2 dev d0;"
                 f" exec {PYTHON} {FORGE} plain 10.99.0.1 10.99.0.2 {PORT} inner")
        self.assertEqual(container("run", "unshare", "--user", "--map-root-user", "--net", "sh",
                                   "-c", inner)["output"].strip(), "EPERM")


if __name__ == "__main__":
    isolate()
    main()
