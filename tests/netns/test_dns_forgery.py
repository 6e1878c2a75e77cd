# SPDX-License-Identifier: Apache-2.0
"""Sources that are not the sender's. In the nameserver's name a workload would tell Phasegate which
addresses to open; in another's name it would have Phasegate send its octets where it may not."""

import json
import os
import socket

from dnslab import NOBODY4, NOBODY6, PYTHON, DnsTest
from dnsserver import Reply, a
from harness import main
from lab import A4, CLIENT4, CLIENT6, D4, R4, R6, Namespace
from phasegate import PUBLIC, Run, allowlist, policy

NAME, LOCAL_SERVER = "slow.example.com", "127.0.0.53"
DELAY_S = 1.5
TRIES = 3  # a busy machine can take longer than that to forge
HERE = os.path.dirname(os.path.abspath(__file__))

# argv: the nameserver, and the port of a socket that is connected to it and not Phasegate's. Asks,
# and while the answer is awaited sends in the nameserver's name to the one that waits for it, and
# to the other socket. Prints errno for each form, and whether the answer was still awaited then.
# argv[4]: of whom to ask; "": somebody else does.
FORGE = """
import errno, json, socket, struct, sys, time
sys.path.insert(0, sys.argv[1])
import dnsmessage
server, other = sys.argv[2], int(sys.argv[3])
v6 = ":" in server
family = socket.AF_INET6 if v6 else socket.AF_INET
pack = lambda address: socket.inet_pton(family, address)

def waiting():
    for line in list(open("/proc/net/udp6" if v6 else "/proc/net/udp"))[1:]:
        local, remote = line.split()[1:3]
        unpack = lambda text: b"".join(struct.pack("=I", int(text[i:i + 8], 16))
                                       for i in range(0, len(text), 8))
        address, port = remote.split(":")
        if unpack(address) == pack(server) and int(port, 16) == 53:
            address, port = local.split(":")
            if int(port, 16) != other:
                return socket.inet_ntop(family, unpack(address)), int(port, 16)

def udp(to, port):
    data = struct.pack("!HHHH", 53, port, 8 + len(PAYLOAD), 0) + PAYLOAD
    if not v6:
        return data
    pseudo = pack(server) + pack(to) + struct.pack("!II", len(data), 17) + data
    total = sum(struct.unpack(f"!{len(pseudo) // 2}H", pseudo))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return data[:6] + struct.pack("!H", ~total & 0xffff) + data[8:]

def header(to, fragment=0, options=b""):
    return struct.pack("!BBHHHBBH4s4s", 0x45 + len(options) // 4, 0, 0, 77, fragment, 64, 17, 0,
                       pack(server), pack(to)) + options

def raw(to, packet):
    with socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW) as sender:
        sender.sendto(packet, (to, 0))

def whole(to, port):
    data = udp(to, port)
    raw(to, struct.pack("!IHBB16s16s", 6 << 28, len(data), 17, 64, pack(server), pack(to)) + data
        if v6 else header(to) + data)

def fragments(to, port):
    data = udp(to, port)
    raw(to, header(to, 0x2000) + data[:16])
    raw(to, header(to, 2) + data[16:])

def options(to, port):
    raw(to, header(to, 0, b"\\1\\1\\1\\0") + udp(to, port))

def chosen_source(to, port):
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.bind(("127.0.0.2", 53))
        sender.sendmsg([PAYLOAD], [(0, 8, struct.pack("=i4s4s", 0, pack(server), pack(server)))], 0,
                       (to, port))

PAYLOAD = b"forged in the nameserver's name."
forms = [whole] if v6 else [whole, fragments, options]
if server.startswith("127."):
    forms.append(chosen_source)

def attempt(form, *to):
    try:
        form(*to)
        return ""
    except OSError as error:
        return errno.errorcode[error.errno]

if sys.argv[4]:
    asking = socket.socket(family, socket.SOCK_DGRAM)
    asking.settimeout(8)
    asking.sendto(dnsmessage.query("%s", "A", 1), (sys.argv[4], 53))
end = time.monotonic() + 5
while not (found := waiting()) and time.monotonic() < end:
    pass
result = {"found": bool(found)}
if found:
    result["forged"] = {form.__name__: attempt(form, *found) for form in forms}
    result["other"] = {form.__name__: attempt(form, found[0], other) for form in forms}
    result["still"] = waiting() == found
if sys.argv[4]:
    result["addresses"] = [socket.inet_ntoa(record.data)
                           for record in dnsmessage.read_records(asking.recv(4096))[1]]
print(json.dumps(result), flush=True)
""" % NAME

# argv: a source, the port of it, a nameserver. Prints whether there is an answer for who says that
# it is oneself, and errno for who says to be that source.
REFLECT = """
import errno, json, socket, struct, sys
sys.path.insert(0, sys.argv[1])
import dnsmessage
source, port, server, asks_first = sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5] == "1"
v6 = ":" in server
family = socket.AF_INET6 if v6 else socket.AF_INET
result = {}

def ask(sender, name, *control):
    sender.settimeout(5)
    try:
        sender.sendmsg([dnsmessage.query(name, "A", 7)], control, 0, (server, 53))
        return ""
    except OSError as error:
        return errno.errorcode[error.errno]

def ask_honestly():
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        ask(sender, "secret-honest.example.net")
        try:
            return len(sender.recv(4096)) > 12
        except OSError:
            return False

if asks_first:
    result["before"] = ask_honestly()
with socket.socket(family, socket.SOCK_DGRAM) as sender:
    sender.bind(("::1" if v6 else "127.0.0.3", port))
    address = socket.inet_pton(family, source)
    control = ((41, 50, address + struct.pack("=i", 0)) if v6 else
               (0, 8, struct.pack("=i4s4s", 0, address, address)))
    result["chosen"] = ask(sender, "secret-chosen.example.net", control)
with socket.socket(family, socket.SOCK_DGRAM) as sender:
    sender.setsockopt(*((41, 78, 1) if v6 else (0, 15, 1)))
    try:
        sender.bind((source, port))
        result["bound"] = ask(sender, "secret-bound.example.net")
    except OSError as error:
        result["bound"] = errno.errorcode[error.errno]
result["after"] = ask_honestly()
print(json.dumps(result), flush=True)
"""

# argv: the nameserver, the name that is forged, the address that it is said to have, own address.
# Reads the question on eth0 and puts the answer into lo, by packet sockets; to another socket, too.
# Prints how often, whether that came to the other socket, and what the name has for an address.
FRAMES = """
import json, socket, struct, sys, threading
sys.path.insert(0, sys.argv[1])
import dnsmessage
server, name, address, own = sys.argv[2:6]
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
tap.bind(("eth0", 3))
lo = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
lo.bind(("lo", 0))
other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
other.bind((own, 0))
other.settimeout(5)

def put(port, payload):
    head = struct.pack("!HHHH", 53, port, 8 + len(payload), 0)
    data = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + len(payload), 7, 0, 64, 17, 0,
                       socket.inet_aton(server), socket.inet_aton(own))
    total = sum(struct.unpack("!10H", data))
    total = (total & 0xffff) + (total >> 16)
    data = data[:10] + struct.pack("!H", ~total & 0xffff) + data[12:]
    lo.send(bytes(12) + b"\\x08\\0" + data + head + payload)

def answer():
    while True:
        frame = tap.recv(65536)
        if frame[12:14] == b"\\x08\\0" and frame[23] == 17 and frame[36:38] == b"\\0\\x35":
            question = frame[42:]
            end = question.index(b"\\0", 12) + 5
            put(int.from_bytes(frame[34:36], "big"),
                question[:2] + b"\\x81\\x80\\0\\1\\0\\1\\0\\0\\0\\0" + question[12:end] +
                b"\\xc0\\x0c\\0\\1\\0\\1" + struct.pack("!IH", 300, 4) + socket.inet_aton(address))
            put(other.getsockname()[1], b"forged")
            return

forger = threading.Thread(target=answer, daemon=True)
forger.start()
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
    asking.settimeout(8)
    asking.sendto(dnsmessage.query(name, "A", 1), ("%s", 53))
    reply = asking.recv(4096)
forger.join()
print(json.dumps({"came": other.recv(100).decode(),
                  "addresses": [socket.inet_ntoa(record.data)
                                for record in dnsmessage.read_records(reply)[1]]}), flush=True)
""" % NOBODY4


class NameserversName(DnsTest):
    def other(self, server, own):
        """A socket of somebody else that would take the nameserver's answer."""
        def make():
            made = socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET,
                                 socket.SOCK_DGRAM)
            made.bind((own, 0))
            made.connect((server, 53))
            made.settimeout(5)
            return made

        other = self.lab.client.call(make)
        self.addCleanup(other.close)
        return other

    def forge(self, text, server, own, asked):
        self.server.rule(NAME, lambda *_: Reply(records=(a(NAME, A4),), delay=DELAY_S))
        if server == LOCAL_SERVER:
            self.nameserver((server,)).rule(
                NAME, lambda *_: Reply(records=(a(NAME, A4),), delay=DELAY_S))
        other = self.other(server, own)
        for _ in range(TRIES):
            run = Run(self.lab, "--policy", text, "--resolver", server, "--", PYTHON, "-c", FORGE,
                      HERE, server, str(other.getsockname()[1]), asked)
            self.addCleanup(run.close)
            status, output = run.finish()
            self.assertEqual(status, 0, run.stderr)
            result = json.loads(output)
            self.assertTrue(result["found"], result)
            if result["still"]:
                break
        self.assertTrue(result["still"], "the answer came before all was forged")
        self.assertEqual(set(result["forged"].values()), {"EPERM"}, result)
        self.assertEqual(result["addresses"], [A4])
        return result["other"], other

    def test_frames(self):
        """Of a container's own nameservers, which are asked from inside: what a packet socket puts
        into lo comes to anybody else."""
        self.server.rule("db", lambda *_: Reply(records=(a("db", A4, ttl=0),), delay=DELAY_S))
        own = self.file("own.conf", f"nameserver {R4}\n")
        run = Run(self.lab, "--policy", policy(setup=PUBLIC, run=allowlist("db")), "--resolver",
                  NOBODY4, "--resolv-conf", own, "--", PYTHON, "-c", FRAMES, HERE, R4, "db", D4,
                  CLIENT4)
        self.addCleanup(run.close)
        status, output = run.finish()
        self.assertEqual(status, 0, run.stderr)
        self.assertEqual(json.loads(output), {"came": "forged", "addresses": [A4]})

    def test_public(self):
        for server, own, asked in ((R4, CLIENT4, NOBODY4), (R6, CLIENT6, NOBODY6),
                                   (LOCAL_SERVER, "127.0.0.1", NOBODY4)):
            with self.subTest(server=server):
                text = policy(run=PUBLIC, verifier=allowlist("*.example.com"))
                others, other = self.forge(text, server, own, asked)
                for form, error in others.items():
                    # Who receives these is not known, and it might be Phasegate.
                    hidden = form in ("fragments", "options")
                    self.assertEqual(error, "EPERM" if hidden else "", form)
                    if not hidden:
                        self.assertIn(b"forged", other.recv(4096), form)

    def test_an_entry_for_loopback(self):
        """To anybody else the entry lets it through."""
        text = policy(run=allowlist("*.example.com", "localhost"))
        others, other = self.forge(text, LOCAL_SERVER, "127.0.0.1", NOBODY4)
        self.assertEqual(others["chosen_source"], "")
        self.assertIn(b"forged", other.recv(4096))

    def test_without_names_in_the_policy(self):
        """A neighbour that has no names cannot forge either."""
        self.server.rule(NAME, lambda *_: Reply(records=(a(NAME, A4),), delay=2 * DELAY_S))
        neighbour = self.client(policy(run=allowlist("*.example.com")))
        other = self.other(R4, CLIENT4)
        run = Run(self.lab, "--policy", policy(run=PUBLIC), "--", PYTHON, "-c", FORGE, HERE, R4,
                  str(other.getsockname()[1]), "")
        self.addCleanup(run.close)
        neighbour.post("ask", NOBODY4, NAME)
        status, output = run.finish()
        self.assertEqual(status, 0, run.stderr)
        result = json.loads(output)
        self.assertEqual(set(result["forged"].values()), {"EPERM"}, result)
        self.assertIn(b"forged", other.recv(4096))
        self.assertEqual(neighbour.answer().get("addresses"), [A4])


class OthersNames(DnsTest):
    def reflect(self, source, port, server, through=(), asks_first=True):
        run = Run(self.lab, "--policy", policy(setup=PUBLIC, run=allowlist("api.test")),
                  "--resolver", R4, "--", *through, PYTHON, "-c", REFLECT, HERE, source, str(port),
                  server, str(int(asks_first)))
        self.addCleanup(run.close)
        status, output = run.finish()
        self.assertEqual(status, 0, run.stderr)
        result = json.loads(output)
        self.assertTrue(result.get("before", True), result)
        self.assertTrue(result["after"], result)
        return result

    def test_a_server_on_loopback(self):
        """Its port, with its address as the source of a query: the answer would go to it."""
        for source, server in (("127.0.0.1", NOBODY4), (CLIENT4, NOBODY4), (CLIENT6, NOBODY6)):
            with self.subTest(source=source):
                def serve(source=source):
                    made = socket.socket(socket.AF_INET6 if ":" in source else socket.AF_INET,
                                         socket.SOCK_DGRAM)
                    made.bind((source, 0))
                    made.setblocking(False)
                    return made

                with self.lab.client.call(serve) as other:
                    result = self.reflect(source, other.getsockname()[1], server)
                    self.assertEqual(result["chosen"], "EPERM", result)
                    self.assertIn(result["bound"], ("EPERM", "EADDRINUSE"), result)
                    self.assertRaises(BlockingIOError, other.recv, 1)

    def test_out_of_another_namespace(self):
        """An address of the first namespace is none of the second: the answer would leave it."""
        inside = Namespace()
        self.addCleanup(inside.close)
        inside.sysctl(ipv6__conf__default__accept_dad=0)
        inside.ip(f"link add eth0 type veth peer name inside netns {self.lab.server.path}",
                  "link set lo up", "link set eth0 up", "addr add 10.9.0.2/24 dev eth0",
                  "addr add fd99::2/64 dev eth0 nodad")
        self.lab.server.ip("link set inside up", "addr add 10.9.0.1/24 dev inside",
                           "addr add fd99::1/64 dev inside nodad")
        self.addCleanup(self.lab.server.ip, "link del inside")
        inside.ip("route add default via 10.9.0.1", "route add default via fd99::1")
        for asks_first in (True, False):
            for source, server in ((CLIENT4, NOBODY4), (CLIENT6, NOBODY6)):
                with self.subTest(source=source, asks_first=asks_first):
                    capture = self.lab.server.call(lambda: socket.socket(
                        socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
                    with capture:
                        capture.bind(("inside", 3))
                        self.reflect(source, 9999, server, inside.command(), asks_first)
                        capture.setblocking(False)
                        self.assertEqual(self.secrets(capture), [])

    @staticmethod
    def secrets(capture):
        found = []
        while True:
            try:
                packet = capture.recv(65535)
            except BlockingIOError:
                return found
            if b"secret" in packet:
                found.append(packet)


if __name__ == "__main__":
    main()
