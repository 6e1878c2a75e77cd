# SPDX-License-Identifier: Apache-2.0
"""The very first lookup of an application in a new network namespace, as in a container that has
just been started. glibc wants to hear of errors (IP_RECVERR) and would hear that its question waits
for the listener."""

import os

from dnslab import NOBODY4, NOBODY6, PYTHON, DnsTest
from harness import main
from lab import A4, A6, D4
from phasegate import PROBE, allowlist, policy

NAME, SECRET = "allowed.example.com", "secret.example.net"
BUILT = os.path.dirname(PROBE)
TIMES = 20
# As container runtimes leave it: lo is up, and there is nothing else.
NEW_NAMESPACE = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "-")
LOOKUP = """import socket, sys
try:
    print(*sorted({found[4][0] for found in socket.getaddrinfo(sys.argv[1], 7000)}))
except OSError as error:
    sys.exit(str(error))"""
# Whether the option has an effect, for the socket options of IPv4 and IPv6.
RECVERR = """import socket
for family, level, name in ((socket.AF_INET, socket.IPPROTO_IP, 11),
                            (socket.AF_INET6, socket.IPPROTO_IPV6, 25)):
    with socket.socket(family, socket.SOCK_DGRAM) as made:
        made.setsockopt(level, name, 1)
        print(made.getsockopt(level, name))"""


class FirstLookup(DnsTest):
    def setUp(self):
        super().setUp()
        self.server.host(NAME, A4, A6)
        self.server.host(SECRET, D4)
        self.inside = self.client(policy(run=allowlist(NAME)))

    def run_new(self, *words):
        result = self.inside("run", *NEW_NAMESPACE, *words)
        return result["status"], result["output"]

    def check_lookups(self, *conf):
        self.resolv_conf(*conf)
        found = [self.run_new(PYTHON, "-c", LOOKUP, NAME) for _ in range(TIMES)]
        self.assertEqual(found, [(0, f"{A4} {A6}\n")] * TIMES)

    def test_glibc(self):
        self.check_lookups(f"nameserver {NOBODY4}")

    def test_glibc_by_ipv6(self):
        self.check_lookups(f"nameserver {NOBODY6}")

    def test_glibc_asks_one_after_the_other(self):
        self.check_lookups("nameserver 127.0.0.11", "options single-request-reopen edns0")

    def test_glibc_without_a_second_try(self):
        self.check_lookups(f"nameserver {NOBODY4}", "options attempts:1")

    def test_a_denied_name(self):
        self.server.queries()
        for _ in range(TIMES):
            status, output = self.run_new(PYTHON, "-c", LOOKUP, SECRET)
            self.assertEqual((status, "Name or service not known" in output), (1, True), output)
        self.assertEqual(self.server.names(), [])

    def check_program(self, *words):
        """It prints a line for each address, and there is no way to them."""
        for _ in range(TIMES):
            status, output = self.run_new(*words, NAME, "token")
            self.assertEqual(status, 0, output)
            self.assertEqual(sorted(line.split()[0] for line in output.splitlines()), [A4, A6])

    def test_musl(self):
        self.check_program(f"{BUILT}/resolve_musl")

    def test_go(self):
        self.check_program("env", "GODEBUG=netdns=go", f"{BUILT}/resolve_go")

    def test_the_option(self):
        """In the namespace where the command starts, sockets may hear of errors from the start. In
        another they may when it is served, which the first attempt brings about."""
        self.assertEqual(self.inside("run", PYTHON, "-c", RECVERR)["output"], "1\n1\n")
        again = f"{RECVERR}\n" + LOOKUP.replace("sys.argv[1]", f"'{NAME}'") + f"\n{RECVERR}"
        status, output = self.run_new(PYTHON, "-c", again)
        self.assertEqual(status, 0, output)
        self.assertRegex(output, rf"^0\n[01]\n{A4} {A6}\n1\n1\n$")


if __name__ == "__main__":
    main()
