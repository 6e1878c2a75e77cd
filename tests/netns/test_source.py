# SPDX-License-Identifier: Apache-2.0
"""A forged source on loopback: what the kernel answers to it goes to the forged address, and no
hook judges that. Needs no privilege with IPv6 (IPV6_FREEBIND), CAP_NET_RAW with IPv4."""

import sys

from harness import NetTest, main, token
from lab import A6, CLIENT4, CLIENT6, D4, D6
from phasegate import NO_NETWORK, PUBLIC, allowlist, policy

# Sends TOKEN to a port of DESTINATION from SOURCE, and prints the errno's name. With a fourth argument
# the port is open, which lets the send past its fast denial whatever the destination is.
FORGE = """
import errno, socket, sys
source, destination, payload = sys.argv[1:4]
family = socket.AF_INET6 if ":" in source else socket.AF_INET
if sys.argv[4:]:
    receiver = socket.socket(family, socket.SOCK_DGRAM)
    receiver.bind((destination, 8999))
with socket.socket(family, socket.SOCK_DGRAM) as forged:
    if family == socket.AF_INET6:
        IPV6_FREEBIND = 78
        forged.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
    else:
        IP_TRANSPARENT = 19
        forged.setsockopt(socket.IPPROTO_IP, IP_TRANSPARENT, 1)
    forged.bind((source, 5555))
    try:
        forged.sendto(payload.encode(), (destination, 8999))
        print("sent")
    except OSError as error:
        print(errno.errorcode[error.errno])
"""

WAYS = ((D6, "::1"), (D6, CLIENT6), (D4, "127.0.0.1"), (D4, CLIENT4))


class Source(NetTest):
    def forge(self, modes, source, destination, mark):
        status, output = self.run_command("--policy", policy(run=modes), "--", sys.executable,
                                          "-c", FORGE, source, destination, mark).finish()
        self.assertEqual(status, 0)
        return output.strip()

    def arrived(self, mark):
        return [p for p in self.fence() if mark.encode() in p.payload]

    def test_public_shows_that_the_way_exists(self):
        """Otherwise the denials below would prove nothing."""
        mark = token("forged")
        self.assertEqual(self.forge(PUBLIC, D6, CLIENT6, mark), "sent")
        self.assertEqual([p.destination for p in self.arrived(mark)], [D6])

    def test_nothing_is_reflected(self):
        for mode in (NO_NETWORK, allowlist(A6)):
            for source, destination in WAYS:
                with self.subTest(mode=mode, source=source, destination=destination):
                    mark = token("forged")
                    self.assertEqual(self.forge(mode, source, destination, mark), "EPERM")
                    self.assertEqual(self.arrived(mark), [])

    def test_own_sources_pass(self):
        for mode in (NO_NETWORK, allowlist(A6)):
            for address in ("127.0.0.1", "::1", CLIENT4, CLIENT6):
                with self.subTest(mode=mode, address=address):
                    self.assertEqual(self.forge(mode, address, address, token()), "sent")

    def test_the_hosts_addresses_are_not_a_containers(self):
        """In a namespace of its own a workload may not use the addresses of the namespace that
        Phasegate runs in: they are others' there."""
        for source, verdict in ((CLIENT6, "EPERM"), ("2001:db8:7::7", "sent")):
            inner = ("unshare", "-n", "sh", "-c",
                     f"ip link set lo up; ip addr add 2001:db8:7::7/128 dev lo nodad;"
                     f" exec '{sys.executable}' -c '{FORGE}' {source} 2001:db8:7::7 x open")
            run = self.run_command("--policy", policy(run=NO_NETWORK), "--", *inner)
            status, output = run.finish()
            self.assertEqual((status, output.strip()), (0, verdict), run.stderr)


if __name__ == "__main__":
    main()
