# SPDX-License-Identifier: Apache-2.0
"""Members in network namespaces of their own, with addresses that a runtime has given to them, as
containers on a bridge have: they reach each other in every phase, both ways and by both families,
for as long as they have the addresses, and nobody else does."""

import subprocess

from harness import main
from keeper import isolate
from phasegate import NO_NETWORK, allowlist, policy
from test_adopt import AdoptTest

# Ends of one link: of the first member, of the second, of somebody else.
ADDRESSES = (("198.18.7.1", "2001:db8:77::1"), ("198.18.7.2", "2001:db8:77::2"))
OTHER = ("198.18.7.3", "2001:db8:77::3")
TEXT = policy(setup=NO_NETWORK, run=allowlist("203.0.113.99"), verifier=NO_NETWORK)


class MemberAddresses(AdoptTest):
    def setUp(self):
        super().setUp()
        self.cgroups = [self.make_cgroup(name) for name in ("first", "second")]
        self.clients = [self.inside({"member": cgroup}, "unshare", "--net", "sh", "-c",
                                    "ip link set lo up && exec \"$@\"", "sh")
                        for cgroup in self.cgroups]
        pids = [client("pid") for client in self.clients]
        self.ip("link", "add", "l0", "netns", str(pids[0]), "type", "veth", "peer", "name", "l1",
                "netns", str(pids[1]))
        for number, (pid, addresses) in enumerate(zip(pids, ADDRESSES)):
            for address in addresses + (OTHER if number else ()):
                self.ip_in(pid, "addr", "add", address + ("/64" if ":" in address else "/24"),
                           "dev", f"l{number}", *(["nodad"] if ":" in address else []))
            self.ip_in(pid, "link", "set", f"l{number}", "up")

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    def ip_in(self, pid, *words):
        subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", "ip", *words], check=True)

    def given(self):
        return ["@".join((cgroup, *addresses))
                for cgroup, addresses in zip(self.cgroups, ADDRESSES)]

    def reaches(self, client, server, address, label):
        """TCP with an octet each way."""
        port = server("listen", label, address)["port"]
        found = client("open_stream", label, address, port=port)["errno"]
        if not found:
            self.assertEqual(client("send", label, "there")["errno"], "")
            self.assertEqual(server("echo", label)["data"], "there")
            self.assertEqual(client("receive", label)["data"], "there")
        return found

    def assert_between(self, wanted, what):
        first, second = self.clients
        for number, (client, server) in enumerate(((first, second), (second, first))):
            for address in ADDRESSES[1 - number]:
                self.assertEqual(self.reaches(client, server, address, f"{what}-{address}"),
                                 wanted, (what, address))
                datagram = client("open_datagrams", f"{what}-u-{address}", address, port=9)
                self.assertEqual(datagram["errno"], wanted, (what, address))
                if not wanted:
                    sent = client("send", f"{what}-u-{address}", "octets")
                    self.assertIn(sent["errno"], ("", "ECONNREFUSED"), (what, address))
        for address in OTHER:
            self.assertEqual(first("open_stream", what, address)["errno"], "EPERM", address)

    def test_in_every_phase(self):
        """With the next owner, too; and what is open stays open over a switch."""
        keeper = self.keeper()
        self.create(keeper, *self.given(), text=TEXT, options="a")
        self.assert_between("", "setup")
        keeper("switch", "run")
        self.assert_between("", "run")
        for label in ("setup", "run"):
            self.assertEqual(self.clients[0]("send", f"{label}-{ADDRESSES[1][0]}", "x")["errno"],
                             "")
        keeper.kill()
        keeper = self.keeper()
        self.assert_between("", "kept")
        keeper("adopt", self.name)
        self.assert_between("", "adopted")
        keeper("deny")
        self.assertEqual(self.clients[0]("open_stream", "denied", ADDRESSES[1][0])["errno"],
                         "EPERM")

    def test_apart(self):
        keeper = self.keeper()
        self.create(keeper, *self.given(), text=TEXT, options="ap")
        self.assert_between("EPERM", "apart")

    def test_addresses_end_with_the_member(self):
        """Whoever gets them next is none: while the owner lives, and while nobody does."""
        keeper = self.keeper()
        self.create(keeper, *self.given(), text=TEXT, options="a")
        first, second = self.clients
        self.assertEqual(first("open_datagrams", "before", ADDRESSES[1][0], port=9)["errno"], "")
        second.finish()
        self.wait_for(lambda: self.denied(first), about="an address stays open")
        # One that both have stays; the others are forgotten for good.
        keeper.kill()
        keeper = self.keeper()
        keeper("adopt", self.name)
        self.assertTrue(self.denied(first))

    def denied(self, client):
        return all(client("open_datagrams", address, address, port=9)["errno"] == "EPERM"
                   for address in ADDRESSES[1])

    def test_the_end_between_two_owners(self):
        keeper = self.keeper()
        self.create(keeper, *self.given(), text=TEXT, options="a")
        first, second = self.clients
        keeper.kill()
        second.finish()
        keeper = self.keeper()
        keeper("adopt", self.name)
        self.assertTrue(self.denied(first))

    def test_shared(self):
        """Two members in one namespace have one address: it stays as long as one of them."""
        self.cgroups.append(self.make_cgroup("third"))
        second = self.clients[1]
        third = self.inside({"member": self.cgroups[2]}, "nsenter",
                            f"--net=/proc/{second('pid')}/ns/net")
        given = self.given() + ["@".join((self.cgroups[2], *ADDRESSES[1]))]
        keeper = self.keeper()
        self.create(keeper, *given, text=TEXT, options="a")
        second.finish()
        self.assertEqual(self.reaches(self.clients[0], third, ADDRESSES[1][0], "third"), "")
        third.finish()
        self.wait_for(lambda: self.denied(self.clients[0]), about="an address stays open")


if __name__ == "__main__":
    isolate()
    main()
