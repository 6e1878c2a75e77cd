# SPDX-License-Identifier: Apache-2.0
"""What the API says of the ways out of an Environment's network namespaces."""

import glob
import json
import os
import signal
import socket
import subprocess
import sys
import time

import cgroups
import dnsmessage
import frames
from agentcase import AgentTest
from dnsserver import DnsServer
from harness import main
from lab import A4, D4, Namespace
from phasegate import NO_NETWORK, PUBLIC, allowlist, dying_with_us, started


# Connects, and keeps the connection.
CONNECT = """
import socket, sys, time
stream = socket.create_connection((sys.argv[1], int(sys.argv[2])))
stream.send(b"x")
time.sleep(1000)
"""

# Leaves its namespace, and keeps it by a packet socket that no process has open.
HIDE = """
import ctypes, socket, time
held, other = socket.socketpair()
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as packets:
    socket.send_fds(other, [b"x"], [packets.fileno()])
if ctypes.CDLL(None).unshare(0x10000000 | 0x40000000) == 0:
    print("ready", flush=True)
time.sleep(1000)
"""

HEADLESS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "headless.py")

# argv: a question for an address, in hexadecimal.
ASK = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
    asking.settimeout(30)
    asking.sendto(bytes.fromhex(sys.argv[1]), ("203.0.113.53", 53))
    print(socket.inet_ntoa(asking.recv(4096)[-4:]))
"""


class Links(AgentTest):
    def container(self):
        """A process in a cgroup and a namespace of its own; returns the cgroup, and the latter."""
        namespace = Namespace()
        self.addCleanup(namespace.close)
        return self.start(namespace), namespace

    def start(self, namespace):
        """In a cgroup of its own, which it returns, and in the namespace."""
        cgroup = self.make_cgroup(self.name("box"))
        process = self.start_there(cgroup, namespace, "sleep", "1000")
        self.wait_for(lambda: process.pid in cgroups.processes(cgroups.path_of(cgroup)),
                      "it does not come to its cgroup")
        return cgroup

    def start_there(self, cgroup, namespace, *words):
        """In the namespace before it is in the cgroup: each that a member is in counts."""
        script = 'echo $$ >"$0/cgroup.procs" && exec "$@"'
        process = subprocess.Popen(dying_with_us(*namespace.command(
            "sh", "-c", script, cgroups.path_of(cgroup), *words)))
        started.add(process.pid)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def attach(self, cgroup):
        return self.create({"network_policy": NO_NETWORK}, members=[{"cgroup": cgroup}],
                           attach=True)["name"]

    def links(self, name):
        return [(link["interface"], link["device"], link["guard"], link.get("reason"))
                for link in self.daemon.show(name)["links"]]

    def wait_for(self, condition, about):
        deadline = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), deadline, about)
            time.sleep(0.02)

    def unguarded(self, name):
        reply = self.daemon.call("GET", f"/v1/events?environment={name}")
        return [(event["device"], event["reason"]) for event in reply.body
                if event["event"] == "link_unguarded"]

    def send_frame(self, cgroup, namespace, interface, device):
        """By a packet socket."""
        self.lab.client.sysctl(**{f"ipv6__conf__{interface}__disable_ipv6": 1})
        namespace.sysctl(**{f"ipv6__conf__{device}__disable_ipv6": 1})
        self.lab.client.ip(f"link set {interface} up")
        namespace.ip(f"link set {device} up")
        sender = self.start_there(cgroup, namespace, sys.executable, frames.__file__, device,
                                  "ff:ff:ff:ff:ff:ff", "192.0.2.77", "::1", "x", D4)
        self.assertEqual(sender.wait(10), 0)

    def test_of_a_process_without_its_first_thread(self):
        """It is where its other threads are."""
        cgroup, namespace = self.container()
        self.lab.client.ip(f"link add boxed type veth peer name eth7 netns {namespace.path}")
        self.addCleanup(subprocess.run, self.lab.client.command("ip", "link", "del", "boxed"))
        namespace.ip("link set lo up")
        with namespace.call(socket.socket) as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            process = self.start_in(cgroups.path_of(cgroup), *namespace.command(
                sys.executable, HEADLESS, *map(str, server.getsockname())),
                stdout=subprocess.PIPE, text=True)
            self.assertEqual(process.stdout.readline(), "ready\n")
            for pid in cgroups.processes(cgroups.path_of(cgroup)):
                if pid != process.pid:
                    os.kill(pid, signal.SIGKILL)
            self.assertEqual(self.links(self.attach(cgroup)), [("boxed", "eth7", "on", None)])

    def hide(self, cgroup, namespace):
        process = self.start_in(cgroups.path_of(cgroup), *namespace.command(
            sys.executable, "-I", "-c", HIDE), stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")

    def test_of_a_namespace_that_all_have_left(self):
        """Nothing would guard its links. One who is left there is enough to find it."""
        namespace = Namespace()
        self.addCleanup(namespace.close)
        self.lab.client.ip(f"link add boxed type veth peer name eth7 netns {namespace.path}")
        self.addCleanup(subprocess.run, self.lab.client.command("ip", "link", "del", "boxed"))
        cgroup = self.make_cgroup(self.name("box"))
        self.hide(cgroup, namespace)
        reply = self.daemon.create(self.name(), policy={"network_policy": NO_NETWORK},
                                   members=[{"cgroup": cgroup}], attach=True)
        self.assertCode(reply, "member_unfit", "network namespace that it was given")
        cgroup = self.start(namespace)
        self.hide(cgroup, namespace)
        self.assertEqual(self.links(self.attach(cgroup)), [("boxed", "eth7", "on", None)])

    def test_of_a_container_in_a_user_namespace(self):
        """All that it was given belongs to that; here there are no links."""
        cgroup = self.make_cgroup(self.name("box"))
        outside = subprocess.Popen(dying_with_us(
            "unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "sh", "-c",
            "echo ready && exec sleep 1000"), stdout=subprocess.PIPE, text=True)
        started.add(outside.pid)
        self.addCleanup(outside.stdout.close)
        self.addCleanup(outside.wait)
        self.addCleanup(outside.kill)
        self.assertEqual(outside.stdout.readline(), "ready\n")
        with open(f"/proc/{outside.pid}/task/{outside.pid}/children", encoding="ascii") as file:
            inside = file.read()
        with open(f"{cgroups.path_of(cgroup)}/cgroup.procs", "w", encoding="ascii") as file:
            file.write(inside)
        self.assertEqual(self.links(self.attach(cgroup)), [])

    def test_names_by_a_guarded_link(self):
        """The agent asks from inside; the first question after the start, too."""
        cgroup, namespace = self.container()
        self.lab.client.ip(f"link add boxed type veth peer name eth7 netns {namespace.path}",
                           "addr add 10.7.0.1/24 dev boxed", "link set boxed up")
        self.addCleanup(subprocess.run, self.lab.client.command("ip", "link", "del", "boxed"))
        # What its kernel says of a new link may be denied.
        namespace.sysctl(ipv6__conf__eth7__disable_ipv6=1)
        namespace.ip("link set lo up", "link set eth7 up", "addr add 10.7.0.2/24 dev eth7")
        nameserver = DnsServer(self.lab, ("10.7.0.1",), namespace=self.lab.client)
        nameserver.host("db", A4, ttl=0)
        made = self.create({"network_policy": allowlist("db")}, attach=True,
                           members=[{"cgroup": cgroup}], dns={"own_resolvers": ["10.7.0.1"]})
        self.assertEqual(self.links(made["name"]), [("boxed", "eth7", "on", None)])
        nameserver.queries()
        process = self.start_in(cgroups.path_of(cgroup), *namespace.command(
            sys.executable, "-c", ASK, dnsmessage.query("db", "A").hex()),
            stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.communicate(timeout=60)[0], f"{A4}\n")
        self.assertIn("db", nameserver.names())
        self.assertEqual(self.daemon.show(made["name"])["counters"]["links"]["denied"], 0)

    def test_guards(self):
        self.assertTrue(self.daemon.call("GET", "/v1/capabilities")["guards"]["veth"])
        cgroup, namespace = self.container()
        self.lab.client.ip(f"link add boxed type veth peer name eth7 netns {namespace.path}")
        self.addCleanup(subprocess.run, self.lab.client.command("ip", "link", "del", "boxed"))
        name = self.attach(cgroup)
        self.assertEqual(self.links(name), [("boxed", "eth7", "on", None)])
        self.daemon.kill()
        self.daemon.start()
        self.wait_for(lambda: self.links(name) == [("boxed", "eth7", "on", None)], "no guard")
        self.assertEqual(self.daemon.show(name)["counters"]["links"]["denied"], 0)
        self.send_frame(cgroup, namespace, "boxed", "eth7")
        self.assertEqual(self.daemon.show(name)["counters"]["links"]["denied"], 1)
        # One that comes later, and one that cannot have a guard.
        self.lab.client.ip(f"link add second type veth peer name eth8 netns {namespace.path}")
        self.wait_for(lambda: len(self.links(name)) == 2, "the second link has no guard")
        self.assertEqual(self.unguarded(name), [])
        self.lab.client.ip(f"link add macv0 link eth0 netns {namespace.path} type macvlan",
                           "link del second")
        self.lab.client.ip(f"link add third type veth peer name eth9 netns {namespace.path}")
        self.wait_for(lambda: self.unguarded(name) == [("macv0", "no-veth")], "no event")
        self.assertIn((None, "macv0", "none", "no-veth"), self.links(name))

    def station(self):
        """That which the guard of the only link lets frames come from: behind header and flags."""
        path, = glob.glob(f"{self.daemon.pins}/+maps-*/pg_links")
        done = subprocess.run(["bpftool", "-j", "map", "dump", "pinned", path], check=True,
                              capture_output=True, text=True)
        (element,) = json.loads(done.stdout)
        return ":".join(f"{int(octet, 16):02x}" for octet in element["value"][208:214])

    def test_device_that_is_set_up_later(self):
        """A runtime is at work in the namespace while the guard is put on."""
        cgroup, namespace = self.container()
        self.lab.client.ip(f"link add boxed type veth peer name eth7 netns {namespace.path}")
        self.addCleanup(subprocess.run, self.lab.client.command("ip", "link", "del", "boxed"))
        name = self.attach(cgroup)
        self.assertEqual(self.links(name), [("boxed", "eth7", "on", None)])
        namespace.ip("link set eth7 address 02:00:00:00:77:01")
        self.wait_for(lambda: self.station() == "02:00:00:00:77:01", "soon after the guard")
        # Whenever it comes: what a runtime does takes a busy machine seconds.
        namespace.ip("link set eth7 address 02:00:00:00:77:02", "addr add 192.0.2.77/24 dev eth7")
        self.wait_for(lambda: self.station() == "02:00:00:00:77:02", "with an address")

    def test_a_switch_is_told(self):
        """To the other end of what it cuts off, past the guard."""
        cgroup, namespace = self.container()
        self.lab.client.ip(f"link add boxed type veth peer name eth7 netns {namespace.path}",
                           "addr add 198.51.100.77/24 dev boxed", "link set boxed up")
        self.addCleanup(subprocess.run, self.lab.client.command("ip", "link", "del", "boxed"))
        namespace.ip("addr add 198.51.100.78/24 dev eth7", "link set eth7 up")
        name = self.create({"network_policy": PUBLIC, "run_network_policy": NO_NETWORK},
                           members=[{"cgroup": cgroup}], attach=True)["name"]
        self.assertEqual(self.links(name), [("boxed", "eth7", "on", None)])
        server = self.lab.client.call(lambda: socket.create_server(("198.51.100.77", 0)))
        self.addCleanup(server.close)
        server.settimeout(30)
        self.start_there(cgroup, namespace, sys.executable, "-c", CONNECT,
                         *map(str, server.getsockname()))
        stream, _ = server.accept()
        self.addCleanup(stream.close)
        stream.settimeout(30)
        self.assertEqual(stream.recv(1), b"x")
        self.assertEqual(self.daemon.phase(name, "run")["closed"], 1)
        with self.assertRaises(ConnectionResetError):
            stream.recv(1)

    def test_the_hosts_network(self):
        self.assertEqual(self.links(self.attach(self.start(self.lab.client))),
                         [(None, None, "none", "host-network")])


if __name__ == "__main__":
    main()
