# SPDX-License-Identifier: Apache-2.0
"""The veth guard is there with its Environment: on every link of its namespaces, bridged and
routed, before a phase is in force, on those that come later, wherever their other ends are moved
to, with the next owner, and not a moment longer."""

import socket
import subprocess
import time
import unittest

import cgroups
import steps
from dnslab import PYTHON
from harness import main
from keeper import PARENT, PINS, isolate
from lab import A4, A6, D4, D6
from linklab import Container, LinkTest
from phasegate import NO_NETWORK, PUBLIC, allowlist, dying_with_us, policy, started

# argv: address and port. Waits for as long as the kernel asks for the neighbour.
CONNECT = """
import socket, sys
open("/proc/sys/net/ipv4/neigh/eth0/mcast_solicit", "w").write("60")
with socket.socket() as stream:
    stream.connect((sys.argv[1], int(sys.argv[2])))
print("connected")
"""
LATE, LATE_PORT = "198.18.1.9", 7009

TEXT = policy(setup=allowlist(A4, A6), run=NO_NETWORK, verifier=PUBLIC)


class Links(LinkTest):
    def attach(self, keeper, *containers, **more):
        return self.create(keeper, *(one.cgroup for one in containers), text=TEXT, options="a",
                           **more)

    def assert_works(self, container):
        """What the policy allows gets through the guard."""
        found = container.inside("attempt", A4, A6, D4, D6)
        self.assertEqual(found, {A4: "ok", A6: "ok", D4: "EPERM", D6: "EPERM"})
        self.assert_guarded(container)

    def test_with_the_environment(self):
        """In no phase but public; another's filter stays and is asked, too."""
        container = self.container()
        self.assert_unguarded(container)
        tc = self.lab.client.command("tc")
        subprocess.run([*tc, "qdisc", "add", "dev", "v1", "clsact"], check=True)
        subprocess.run([*tc, "filter", "add", "dev", "v1", "ingress", "pref", "7", "bpf",
                        "bytecode", "1,6 0 0 0"], check=True)
        keeper = self.keeper()
        self.attach(keeper, container)
        self.assert_link(keeper, "v1")
        self.assertEqual(sorted(self.filters("v1")), ["1", "1", "7"])
        self.assert_works(container)
        keeper("switch", "run")
        self.assert_guarded(container)
        keeper("switch", "verifier")
        self.assert_unguarded(container)
        keeper("deny")
        self.assert_guarded(container)
        keeper("destroy", "release")
        self.assertEqual(self.filters("v1"), ["7"])
        self.assert_unguarded(container)

    def test_while_a_neighbour_is_asked_for(self):
        """What waits for the answer does not fail when the guard comes."""
        container, host = self.container(), self.lab.client
        connecting = subprocess.Popen(dying_with_us(
            "nsenter", f"--net=/proc/{container.pid}/ns/net", "sh", "-c",
            'echo $$ >"$0" && exec "$@"', f"{cgroups.path_of(container.cgroup)}/cgroup.procs",
            PYTHON, "-c", CONNECT, LATE, str(LATE_PORT)), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        started.add(connecting.pid)
        for clean in (connecting.stdout.close, connecting.wait, connecting.kill):
            self.addCleanup(clean)
        shown = ("ip", "neigh", "show", LATE)
        self.wait_for(lambda: "INCOMPLETE" in subprocess.run(
            ["nsenter", f"--net=/proc/{container.pid}/ns/net", *shown], check=True,
            stdout=subprocess.PIPE, text=True).stdout, about="the neighbour is not asked for")
        keeper = self.keeper()
        self.create(keeper, container.cgroup, text=TEXT, options="a", phase="verifier")
        self.assert_link(keeper, "v1")
        host.ip(f"addr add {LATE}/24 dev b1")
        self.addCleanup(host.ip, f"addr del {LATE}/24 dev b1")
        with host.call(lambda: socket.create_server((LATE, LATE_PORT))):
            self.assertEqual(connecting.stdout.read(), "connected\n")

    def test_two_interfaces_on_two_bridges(self):
        container = self.container()
        container.join(2, device="eth1")
        keeper = self.keeper()
        self.attach(keeper, container)
        for number, device in ((1, "eth0"), (2, "eth1")):
            container.number = number
            self.assert_link(keeper, f"v{number}", device=device)
            self.assert_guarded(container, device=device, gateway=f"b{number}")
        self.assert_works(container)

    def test_routed(self):
        """One address, by proxy ARP and a link-local router."""
        container = self.container(number=3, bridge=False)
        self.assert_unguarded(container)
        keeper = self.keeper()
        self.attach(keeper, container)
        self.assert_link(keeper, "v3")
        self.assert_works(container)

    def test_made_anew(self):
        """A link that goes and comes again under another name, and one that comes later."""
        container = self.container()
        keeper = self.keeper()
        self.attach(keeper, container)
        self.lab.client.ip("link del v1")
        self.wait_for(lambda: not keeper("links")["links"], about="a link stays")
        made = time.monotonic()
        self.lab.client.ip(f"link add v1 type veth peer name eth0 netns {container.pid}")
        self.wait_for(lambda: keeper("links")["links"], about="no guard comes")
        passed = (time.monotonic() - made) * 1000
        print(f"a new link is guarded within {passed:.1f} ms, the making included", flush=True)
        self.lab.client.ip("link del v1")
        self.wait_for(lambda: not keeper("links")["links"], about="a link stays")
        container.join(1)
        self.assert_link(keeper, "v1")
        self.lab.client.ip("link set v1 down", "link set v1 name v1new", "link set v1new up")
        self.wait_for(lambda: keeper("links")["links"][0]["interface"] == "v1new")
        self.assert_guarded(container)
        container.ip("link set eth0 down", "link set eth0 name lan0", "link set lan0 up",
                     f"addr add {container.address6}/64 dev lan0 nodad",
                     f"route replace default via {container.host4}",
                     f"route replace default via {container.host6}")
        self.assert_guarded(container, device="lan0")

    def test_made_at_the_host_and_moved(self):
        """As Docker does it; the end that stays says nothing of that."""
        container = self.container()
        keeper = self.keeper()
        self.attach(keeper, container)
        self.lab.client.ip("link add v2 type veth peer name v2peer", "link set v2 master b2",
                           "link set v2 up", f"link set v2peer netns {container.pid}")
        self.wait_for(lambda: len(keeper("links")["links"]) == 2, about="no guard comes")
        container.number = 2
        container.ip("link set v2peer up", f"addr add {container.address4}/24 dev v2peer")
        self.assertEqual(self.frames_pass(container, D4, device="v2peer", gateway="b2"), set())

    def test_moved_by_the_workload(self):
        """Into a namespace that it has made; then nobody is where the link was at first."""
        container = self.container()
        keeper = self.keeper()
        self.attach(keeper, container)
        nested = int(container.enter("sh", "-c", "unshare --net sleep 1000 >/dev/null & echo $!"))
        self.wait_for(lambda: container.namespace(nested) != container.namespace(container.pid))
        container.ip(f"link set eth0 netns {nested}")
        container.inside.finish()
        container.pid = nested
        container.ip("link set eth0 up", f"addr add {container.address4}/24 dev eth0")
        self.assertEqual(self.frames_pass(container, A4, D4), set())
        self.assertEqual(len(self.filters("v1")), 2)

    def test_ways_without_a_guard(self):
        """They are named: at the creation and as they appear."""
        container = self.container()
        host = self.lab.client
        host.ip(f"link add mac0 link b2 netns {container.pid} type macvlan mode bridge")
        keeper = self.keeper()
        self.attach(keeper, container)
        self.assert_link(keeper, "v1")
        self.assert_link(keeper, "", guard="none", device="mac0", reason="no-veth")

    def test_anothers_link(self):
        """Of no Environment: whoever is there goes on as before, and nothing stays."""
        container, stranger = self.container(), self.container("stranger", 2)
        keeper = self.keeper()
        self.assertFalse(self.is_held("v2"))
        self.attach(keeper, container)
        self.assertEqual((self.is_held("v1"), self.is_held("v2")), (False, True))
        self.assertEqual(self.frames_pass(stranger, A4, D4, gateway="b2"), {A4, D4})
        stranger.join(3, device="eth1", bridge=False)
        self.wait_for(lambda: self.is_held("v3"), about="a new link is not held")
        # As if another process had a guard there, which that one would take off. Nobody is behind
        # it, so it does not become this one's.
        self.lab.client.ip("link add v4 type veth peer name v4peer")
        self.wait_for(lambda: self.is_held("v4"), about="a new link is not held")
        self.add_filter("v4", "0x5047")
        # A member's process there is the Environment's; its packet sockets have no guard yet.
        member = Container(self, "member", ("nsenter", f"--net=/proc/{stranger.pid}/ns/net"))
        member.cgroup, member.number, member.gateway = container.cgroup, 2, "b2"
        self.assertEqual(self.frames_pass(member, A4, D4), set())
        keeper("destroy", "release")
        self.assertEqual(keeper.finish()[0], 0)
        self.assertEqual([self.all_filters(end) for end in ("v1", "v2", "v3", "v4")],
                         [[], [], [], [("1", "0x5047")]])

    def test_held_by_a_killed_one(self):
        """After its last Environment had ended; the next one, which has none, leaves nothing."""
        container, _ = self.container(), self.container("stranger", 2)
        keeper = self.keeper()
        self.attach(keeper, container)
        keeper("destroy", "release")
        self.assertTrue(self.is_held("v2"))
        keeper.kill()
        keeper = self.keeper()
        self.assertEqual(keeper.finish()[0], 0)
        self.assertEqual([self.all_filters(end) for end in ("v1", "v2")], [[], []])

    def test_held_by_two(self):
        """Agents: each has a filter of its own, and takes no other away."""
        container, stranger = self.container(), self.container("stranger", 2)
        self.lab.client.ip("link add v5 type veth peer name v5peer")
        self.addCleanup(self.lab.client.ip, "link del v5")
        first = self.keeper()
        other = self.keeper(pins=PINS + "-other", parent=PARENT + "-other")
        self.attach(first, container)
        own = self.held_by("v5")
        other("create", "other", TEXT, "setup", "a", stranger.cgroup)
        self.assertEqual([len(self.held_by(end)) for end in ("v1", "v2", "v5")], [1, 1, 2])
        other("destroy", "release")
        self.assertEqual(other.finish()[0], 0)
        self.assertEqual([self.held_by(end) for end in ("v1", "v2", "v5")], [[], own, own])
        self.assert_guarded(container)
        first("destroy", "release")
        self.assertEqual(first.finish()[0], 0)
        self.assertEqual([self.all_filters(end) for end in ("v1", "v2", "v5")], [[], [], []])

    def test_shared(self):
        """Whoever is not of the Environment goes on as before; and what is the Environment's own
        is guarded as before."""
        first = self.container()
        second = self.inside({"member": self.make_cgroup("second")}, "nsenter",
                             f"--net=/proc/{first.pid}/ns/net")
        keeper = self.keeper()
        self.attach(keeper, first)
        self.assert_link(keeper, "v1", guard="shared")
        self.assertEqual(second("attempt", A4, D4, D6), {A4: "ok", D4: "ok", D6: "ok"})
        self.assert_works(first)
        second.finish()
        self.wait_for(lambda: keeper("links")["links"][0]["guard"] == "on",
                      about="it stays shared")
        self.assert_works(first)

    def test_two_environments_in_one_namespace(self):
        """The second one's is the first one's guard, and its own when that one has gone."""
        first = self.container()
        second = Container(self, "second", ("nsenter", f"--net=/proc/{first.pid}/ns/net"))
        second.number, second.gateway = first.number, first.gateway
        keeper = self.keeper()
        self.attach(keeper, first)
        keeper("more", "second", TEXT, "setup", "a", second.cgroup)
        self.assert_link(keeper, "v1", guard="none", reason="anothers")
        self.assert_works(second)
        keeper("swap")
        self.assert_link(keeper, "v1", guard="shared")
        keeper("destroy", "release")
        keeper("swap")
        self.assert_works(second)
        self.assertEqual(keeper("links")["links"][0]["interface"], "v1")
        keeper("destroy", "release")
        self.assertEqual(self.filters("v1"), [])
        self.assert_unguarded(second)


@unittest.skipUnless(steps.AVAILABLE, "built without PHASEGATE_TEST_HOOKS")
class Killed(LinkTest):
    """The owner is killed in between; the next one ends what was not in force, and takes over what
    was."""

    def setUp(self):
        super().setUp()
        self.box = self.container()

    def create_stopped(self, step):
        keeper = self.keeper(step)
        self.assertTrue(self.stop(keeper, "create", self.name, TEXT, "setup", "a",
                                  self.box.cgroup), step)
        return keeper

    def test_create(self):
        for step in ("link-recorded", "link-written", "link-attached", "header"):
            with self.subTest(step=step):
                self.create_stopped(step).kill()
                heir = self.keeper()
                self.assertEqual(heir("kept")["names"], [])
                self.assertEqual(self.filters("v1"), [])
                self.assertEqual(heir.finish()[0], 0)
                self.assert_unguarded(self.box)

    def begin(self, step=None):
        keeper = self.keeper(step)
        self.create(keeper, self.box.cgroup, text=TEXT, options="a")
        return keeper

    def test_destroy(self):
        for step in ("end-saved", "link-detached", "end-detached"):
            with self.subTest(step=step):
                keeper = self.begin(step)
                self.assertTrue(self.stop(keeper, "destroy", "release"), step)
                if step == "link-detached":
                    self.assertTrue(self.is_held("v1"), "there is a moment without any filter")
                keeper.kill()
                heir = self.keeper()
                self.assertEqual(heir("kept")["names"], [])
                self.assertEqual(self.filters("v1"), [])
                self.assertEqual(heir.finish()[0], 0)
                self.assert_unguarded(self.box)

    def test_adopt(self):
        """Not a frame in between."""
        keeper = self.begin()
        self.assert_guarded(self.box)
        keeper.kill()
        # As if it had been killed when the guard was just on.
        self.lab.client.ip("link add v5 type veth peer name v5peer")
        heir = self.keeper()
        heir("adopt", self.name)
        handle, = self.held_by("v5")
        heir.kill()
        self.lab.client.ip("link del v5")
        self.add_filter("v1", handle)
        self.assert_guarded(self.box)
        for step in ("adopt-opened", "adopt-linked", "adopt-written"):
            with self.subTest(step=step):
                heir = self.keeper(step)
                self.assertTrue(self.stop(heir, "adopt", self.name), step)
                self.assert_guarded(self.box)
                heir.kill()
                self.assert_guarded(self.box)
        # One that came and one that went while nobody looked.
        self.box.join(2, device="eth1")
        heir = self.keeper()
        heir("adopt", self.name)
        self.assert_link(heir, "v1")
        self.assert_link(heir, "v2", device="eth1")
        self.assert_guarded(self.box, device="eth1", gateway="b2")
        heir.kill()
        self.lab.client.ip("link del v2")
        heir = self.keeper()
        heir("adopt", self.name)
        self.box.number, self.box.gateway = 1, "b1"
        self.assertEqual([one["interface"] for one in heir("links")["links"]], ["v1"])
        self.assertFalse(self.is_held("v1"))
        self.assert_guarded(self.box)
        heir("switch", "verifier")
        self.assert_unguarded(self.box)


if __name__ == "__main__":
    isolate()
    main()
