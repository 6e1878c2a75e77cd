# SPDX-License-Identifier: Apache-2.0
"""The listener's port, when others in the namespace have taken what it could have had."""

from dnslab import DnsTest
from harness import main
from lab import A4, A6
from phasegate import LIMIT, allowlist, policy

NAME = "allowed.example.com"
# user/environment/dns_sites.c: PORT_FIRST, PORT_COUNT
PORTS = range(61000, 65000)
HOLDER = """import resource, socket, sys
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
held = []
for port in range(int(sys.argv[1]), int(sys.argv[2])):
    held.append(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
    try:
        held[-1].bind(("::1", port))
    except OSError:
        held.pop()
print(len(held), flush=True)
sys.stdin.read()
"""
# Listens on the listener's port in namespaces of its own, each before anybody asks there.
TAKE_IT = """for i in $(seq 14); do
	unshare --net sh -c 'ip link set lo up; exec "$@"' - "$@"
done"""
TAKER = """import socket, sys
port = int(sys.argv[1])
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind(("0.0.0.0", port))
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.settimeout(0.2)
asking.sendto(b"12" + b"\\1\\0\\0\\1" + bytes(6) + b"\\1x\\0\\0\\1\\0\\1", ("203.0.113.53", 53))
try:
    asking.recv(512)
except OSError:
    pass
"""


class Ports(DnsTest):
    def setUp(self):
        super().setUp()
        self.server.host(NAME, A4, A6)

    def test_the_usual_ports_are_taken(self):
        """By one who could: an unprivileged process in the same namespace."""
        holder = self.run_command(command=self.lab.client.command(
            "/usr/bin/python3", "-c", HOLDER, str(PORTS.start), str(PORTS.stop)))
        self.assertGreater(int(holder.line()), len(PORTS) - 10)
        inside = self.client(policy(run=allowlist(NAME)))
        self.assert_resolves(inside, NAME, A4, A6)
        self.assert_resolves(inside, NAME, A4, server="2001:db8:d::53")
        self.assert_connects(inside, A4)

    def listener_port(self, owner):
        """Of the UDP sockets that the process has, the one on the listeners' network."""
        def read():
            with open("/proc/thread-self/net/udp", encoding="ascii") as file:
                return [line.split()[1] for line in file if ":" in line]
        local = self.lab.client.call(read)
        ports = {int(name.split(":")[1], 16) for name in local
                 if name.endswith(f"4D7F:{name.split(':')[1]}")}
        self.assertEqual(len(ports), 1, local)
        return ports.pop()

    def test_taken_within_again_and_again(self):
        """It harms itself; what is said of it ends."""
        inside = self.client(policy(run=allowlist(NAME)))
        run = inside("run", "sh", "-c", TAKE_IT, "-", "/usr/bin/python3", "-c", TAKER,
                     str(self.listener_port(inside.pid)), limit=LIMIT)
        self.assertEqual(run["status"], 0, run)
        self.assert_resolves(inside, NAME, A4)
        inside.end()
        told = inside.warnings("listener_refused")
        self.assertGreater(len(told), 0)
        self.assertLessEqual(len(told), 10, told)


if __name__ == "__main__":
    main()
