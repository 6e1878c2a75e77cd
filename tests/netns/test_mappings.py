# SPDX-License-Identifier: Apache-2.0
"""What the host's address translation has noted of an earlier phase, or of whoever had the address
before, lets in nobody whom the phase does not allow."""

import socket
import subprocess

import cgroups
from dnslab import PYTHON
from harness import main
from keeper import isolate
from lab import A4, A6, CLIENT4, CLIENT6, D4, D6
from linklab import Container, LinkTest
from phasegate import NO_NETWORK, PUBLIC, allowlist, dying_with_us, policy, started

PORT, FAR = 5555, 7333
POLICY = policy(setup=PUBLIC, run=NO_NETWORK, verifier=allowlist(A4, A6))

# argv: own address, port. Answers each datagram with what it is.
SERVE = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
with socket.socket(family, socket.SOCK_DGRAM) as server:
    server.bind((sys.argv[1], int(sys.argv[2])))
    print("ready", flush=True)
    while True:
        what, who = server.recvfrom(100)
        try:
            server.sendto(what, who)
        except PermissionError:
            pass
"""

# argv: own address, port, the addresses to send to, the port there
SEND = """
import socket, sys
own, port, *to, far = sys.argv[1:]
family = socket.AF_INET6 if ":" in own else socket.AF_INET
with socket.socket(family, socket.SOCK_DGRAM) as sender:
    sender.bind((own, int(port)))
    for address in to:
        sender.sendto(b"hello", (address, int(far)))
"""

# argv: own address, port, address and port to which a SYN goes. Then, once it is told to, a server.
OPEN = """
import socket, sys
own, port, to, far = sys.argv[1:]
family = socket.AF_INET6 if ":" in own else socket.AF_INET
with socket.socket(family) as opening:
    opening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opening.setblocking(False)
    opening.bind((own, int(port)))
    opening.connect_ex((to, int(far)))
print("sent", flush=True)
sys.stdin.readline()
with socket.socket(family) as server:
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((own, int(port)))
    server.listen()
    print("ready", flush=True)
    while True:
        with server.accept()[0] as stream:
            stream.send(b"came")
"""


class Mappings(LinkTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for family in ("ip", "ip6"):
            subprocess.run(cls.lab.client.command("nft", "-f", "-"), text=True, check=True, input=(
                f"table {family} lab {{ chain out {{ type nat hook postrouting priority 100;"
                " oifname eth0 masquerade; }; }"))
        # Nobody answers there.
        subprocess.run(cls.lab.server.command("nft", "-f", "-"), text=True, check=True, input=(
            "table inet lab { chain in { type filter hook input priority 0;"
            f" tcp dport {FAR} tcp flags & (syn|ack) == syn drop; }}; }}"))

    def far_end(self, address):
        def make():
            far = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET,
                                socket.SOCK_DGRAM)
            far.bind((address, FAR))
            far.settimeout(0.2)
            return far

        far = self.lab.server.call(make)
        self.addCleanup(far.close)
        return far

    def run_in(self, box, *words):
        """Without waiting for its end."""
        process = subprocess.Popen(dying_with_us(
            "nsenter", f"--net=/proc/{box.pid}/ns/net", "sh", "-c", 'echo $$ >"$0" && exec "$@"',
            f"{cgroups.path_of(box.cgroup)}/cgroup.procs", PYTHON, "-c", *words),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.add(process.pid)
        for clean in (process.stdout.close, process.stdin.close, process.wait, process.kill):
            self.addCleanup(clean)
        return process

    def serve(self, box, own):
        server = self.run_in(box, SERVE, own, str(PORT))
        self.assertEqual(server.stdout.readline(), "ready\n")

    def is_answered(self, far, peer, mark):
        """Whether one of a few is."""
        for number in range(5):
            far.sendto(b"%s-%d" % (mark, number), peer)
        try:
            while not far.recv(100).startswith(mark):
                pass
        except TimeoutError:
            return False
        return True

    def assert_reached(self, far, own, peers, about):
        """By whom of the peers that it has, and by the own address in any case."""
        ways = [(name, peer) for name, (peer, reached) in peers.items() if reached]
        ways += [(name, (own, PORT)) for name in far]
        for name, peer in ways:
            # A new address is not taken for its own at once.
            self.wait_for(lambda end=far[name], peer=peer: self.is_answered(end, peer, b"wanted"),
                          about=(about, name, peer))
        for name, (peer, reached) in peers.items():
            self.assertEqual(self.is_answered(far[name], peer, name.encode()), reached,
                             (about, name))

    def start(self, name, own, cgroup=None):
        """A container that listens at the address that one before had."""
        box = Container(self, name, cgroup=cgroup)
        # It has another hardware address.
        self.lab.client.ip("neigh flush dev b1")
        box.join(1)
        self.serve(box, own)
        return box

    def end(self, box):
        box.inside.finish()
        subprocess.run(self.lab.client.command("ip", "link", "delete", "v1"), check=False,
                       stderr=subprocess.DEVNULL)

    def note(self, keeper, own, far, *to):
        """Has a container of an Environment that is over then leave a way in for each far end."""
        box = self.container("first")
        self.create(keeper, box.cgroup, options="a", text=POLICY, phase="setup")
        box.enter(PYTHON, "-c", SEND, own, str(PORT), *to, str(FAR))
        peers = {name: end.recvfrom(100)[1][:2] for name, end in far.items()}
        self.assertNotIn(own, [address for address, _ in peers.values()])
        keeper("destroy", "release")
        self.end(box)
        return peers

    def check_next(self, own, denied, allowed, phases):
        far = {"denied": self.far_end(denied), "allowed": self.far_end(allowed)}
        keeper = self.keeper()
        peers = self.note(keeper, own, far, denied, allowed)
        box = self.start("free", own)
        self.assert_reached(far, own, {name: (peer, True) for name, peer in peers.items()},
                            "without an Environment")
        self.end(box)

        cgroup = self.make_cgroup("second")
        self.create(keeper, cgroup, options="a", text=POLICY, phase=phases[0])
        self.start("second", own, cgroup)
        self.wait_for(lambda: [link["guard"] for link in keeper("links")["links"]
                               if link["interface"] == "v1"] == ["on"], about="no guard")
        for phase in phases:
            keeper("switch", phase)
            self.assert_reached(far, own, {"denied": (peers["denied"], phase == "setup"),
                                           "allowed": (peers["allowed"], phase != "run")}, phase)

    def connects(self, address, port, to):
        """Whether a server that says so is reached from there."""
        with self.lab.server.call(lambda: socket.socket(
                socket.AF_INET6 if ":" in address else socket.AF_INET)) as far:
            far.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            far.settimeout(1)
            far.bind((address, port))
            try:
                far.connect(to)
                return far.recv(100) == b"came"
            except TimeoutError:
                return False

    def check_stream(self, own, host, denied):
        """A SYN that is not answered lets one in that is sent the other way; at a host that does not
        mind the numbers of both."""
        self.lab.client.sysctl(netfilter__nf_conntrack_tcp_be_liberal=1)
        keeper, box = self.keeper(), self.container("first")
        self.create(keeper, box.cgroup, options="a", text=POLICY, phase="setup")
        self.assert_link(keeper, "v1")
        for port, phase in enumerate(("setup", "verifier", "run"), PORT):
            keeper("switch", "setup")
            opening = self.run_in(box, OPEN, own, str(port), denied, str(FAR))
            self.assertEqual(opening.stdout.readline(), "sent\n")
            keeper("switch", phase)
            print("now", file=opening.stdin, flush=True)
            self.assertEqual(opening.stdout.readline(), "ready\n")
            # The port stays the same behind the translation.
            self.assertEqual(self.connects(denied, FAR, (host, port)), phase == "setup", phase)
            self.assertTrue(self.connects(denied, FAR + 1, (own, port)), phase)

    def test_stream_ipv4(self):
        self.check_stream("198.18.1.2", CLIENT4, D4)

    def test_stream_ipv6(self):
        self.check_stream("2001:db8:77:1::2", CLIENT6, D6)

    def test_address_of_another_ipv4(self):
        self.check_next("198.18.1.2", D4, A4, ("verifier", "run"))

    def test_address_of_another_ipv6(self):
        self.check_next("2001:db8:77:1::2", D6, A6, ("verifier", "run"))

    def test_switch_ipv4(self):
        self.check_next("198.18.1.2", D4, A4, ("setup", "verifier", "run"))

    def test_switch_ipv6(self):
        self.check_next("2001:db8:77:1::2", D6, A6, ("setup", "verifier", "run"))


if __name__ == "__main__":
    isolate()
    main()
