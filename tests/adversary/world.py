# SPDX-License-Identifier: Apache-2.0
"""The world of the vectors:

    container eth0 --- veth --- bridge, host, phasegated --- eth0 servers

The host is the client of the lab of tests/netns; each container has a network namespace of its own,
behind a port of the bridge. A is allowed; every attempt has a denied address of its own, and all of
them are the servers'. What is on the bridge has passed the host's end of the veth."""

import contextlib
import os
import selectors
import socket
import subprocess
import threading
import time

from lab import A4, A6, CLIENT4, CLIENT6, Lab, Namespace
from wire import Wire

PORT = 7000
FORGED_PORT = 40123  # As SOURCE in adversary.h.
BRIDGE, BRIDGE_MAC = "pgbr0", "02:00:00:00:30:01"
NETWORK4, NETWORK6 = "172.30", "fd00:30"
HOST4, HOST6 = f"{NETWORK4}.0.1", f"{NETWORK6}::1"
UNIX_NAME = "\0phasegate-adversary"
VSOCK_ANY = 0xffffffff
IPV6_FREEBIND = 78


class Servers:
    """Streams and datagrams at PORT of all addresses: they only take what comes, so that a stream
    is opened and its payload sent. On the host a vsock and an abstract Unix socket, which no
    capture sees."""

    def __init__(self, world):
        self.taken = set()
        self._selector = selectors.DefaultSelector()
        world.lab.server.call(self._open)
        world.host.call(self._open_host)
        self._ends = os.pipe()
        self._selector.register(self._ends[0], selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _add(self, one, handler):
        one.setblocking(False)
        self._selector.register(one, selectors.EVENT_READ, handler)

    def _open(self):
        for port in (PORT, 53):
            one = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 256)
            one.bind(("::", port))
            one.listen(256)
            self._add(one, self._accept)
            one = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("::", port))
            self._add(one, self._read)

    def _open_host(self):
        one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        one.bind(UNIX_NAME)
        self._add(one, self._read)
        with contextlib.suppress(OSError):
            one = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
            one.bind((VSOCK_ANY, PORT))
            one.listen(16)
            self._add(one, self._accept)

    def _accept(self, one):
        stream, _ = one.accept()
        self._add(stream, self._read)

    def _read(self, one):
        data = one.recv(1 << 16)
        if one.family in (socket.AF_UNIX, socket.AF_VSOCK) and data:
            self.taken.add(data)
        if not data and one.type == socket.SOCK_STREAM:
            self._selector.unregister(one)
            one.close()

    def _serve(self):
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    return
                try:
                    key.data(key.fileobj)
                except BlockingIOError:
                    pass
                except OSError:
                    self._selector.unregister(key.fileobj)
                    key.fileobj.close()

    def close(self):
        os.write(self._ends[1], b"x")
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            if key.data:
                key.fileobj.close()
        for end in self._ends:
            os.close(end)


class World:
    def __init__(self):
        self.stack = contextlib.ExitStack()
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self):
        self.lab = Lab()
        self.stack.callback(self.lab.close)
        self.host = self.lab.client
        self.host.sysctl(ipv4__ip_forward=1, ipv6__conf__all__forwarding=1)
        self.lab.server.ip("route add local 198.18.0.0/15 dev lo",
                           "route add local 2001:db8:d::/64 dev lo",
                           f"route add {NETWORK4}.0.0/16 via {CLIENT4}",
                           f"route add {NETWORK6}::/32 via {CLIENT6}")
        self.lab.server.sysctl(ipv4__conf__all__rp_filter=0, ipv4__conf__eth0__rp_filter=0)
        # Some vectors answer in the servers' name, who would say that they know nothing of it.
        subprocess.run(self.lab.server.command("nft", "-f", "-"), check=True, text=True, input=(
            "table inet pgt { chain c { type filter hook prerouting priority -300;"
            f" tcp dport {FORGED_PORT} drop; }}; }}\n"))
        self.servers = Servers(self)
        self.stack.callback(self.servers.close)
        self.wires = {}
        self.watch("servers", self.lab.server, "eth0")
        self.count = 0

    def make_bridge(self):
        self.host.ip(f"link add {BRIDGE} type bridge mcast_snooping 0 forward_delay 0",
                     f"link set {BRIDGE} address {BRIDGE_MAC} up promisc on",
                     f"addr add {HOST4}/16 dev {BRIDGE}",
                     f"addr add {HOST6}/32 dev {BRIDGE} nodad")

    def watch(self, name, namespace, device):
        self.wires[name] = Wire(namespace, device)
        self.stack.callback(self.wires[name].close)

    def next_addresses(self):
        """Those of the container that is attached next."""
        last = self.count + 2
        return {"own4": f"{NETWORK4}.0.{last}", "own6": f"{NETWORK6}::{last:x}",
                "gateway4": HOST4, "gateway6": HOST6, "mac": f"02:00:00:00:31:{last:02x}",
                "gwmac": BRIDGE_MAC, "network4": NETWORK4, "network6": NETWORK6}

    def attach(self, namespace):
        """Joins a container's namespace to the bridge; returns its addresses."""
        addresses = self.next_addresses()
        self.count += 1
        port = f"pgport{self.count}"
        namespace.sysctl(ipv6__conf__all__accept_dad=0, ipv6__conf__default__accept_dad=0,
                         ipv6__conf__default__accept_ra=0, ipv4__tcp_fastopen=0x207,
                         ipv4__ping_group_range="0 2147483647")
        self.host.ip(f"link add {port} type veth peer name eth0 netns {namespace.path}",
                     f"link set {port} master {BRIDGE} up")
        namespace.ip("link set lo up", f"link set eth0 address {addresses['mac']} up",
                     f"addr add {addresses['own4']}/16 dev eth0",
                     f"addr add {addresses['own6']}/32 dev eth0 nodad",
                     f"route add default via {HOST4}", f"route add default via {HOST6}")
        return addresses

    def send_from(self, address, to, port):
        """A datagram of a server's, from PORT."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET

        def send():
            with socket.socket(family, socket.SOCK_DGRAM) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    one.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
                one.bind((address, PORT))
                one.sendto(b"answer", (to, port))

        self.lab.server.call(send)

    def namespace(self):
        made = Namespace()
        self.stack.callback(made.close)
        return made

    def ping(self, address, limit=5):
        """An echo from the host, of each CPU: what the container has sent before is on the wire, or
        never will be. Packets wait in a queue of each CPU, so each has its own, and twice: a second
        one is behind the answers to what waited there."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        protocol = socket.IPPROTO_ICMPV6 if ":" in address else socket.IPPROTO_ICMP

        def once(one, mark):
            """Asks again where a device that has just been set up has dropped the question."""
            one.sendto(bytes([128 if ":" in address else 8]) + bytes(7) + mark, (address, 0))
            with contextlib.suppress(TimeoutError):
                while not one.recv(2048).endswith(mark):
                    pass
                return True
            return False

        def ask():
            with socket.socket(family, socket.SOCK_DGRAM, protocol) as one:
                one.settimeout(limit / 20)
                for cpu in 2 * sorted(os.sched_getaffinity(0)):
                    os.sched_setaffinity(threading.get_native_id(), {cpu})
                    mark = b"fence" + str(time.monotonic_ns()).encode()
                    if not any(once(one, mark) for _ in range(20)):
                        raise AssertionError(f"{address} does not answer")

        # A container may have said that another hardware address is its own.
        self.host.ip(f"neigh flush dev {BRIDGE}")
        self.host.call(ask)

    def close(self):
        self.stack.close()


ALLOWED = {"4": A4, "6": A6, "m": "::ffff:" + A4}
