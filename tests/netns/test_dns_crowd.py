# SPDX-License-Identifier: Apache-2.0
"""More than Phasegate takes: of namespaces, and of questions that wait for a listener."""

from dnslab import PYTHON, DnsTest
from harness import main
from lab import A4, R4
from phasegate import allowlist, policy

NAME = "allowed.example.com"
# Fills the namespaces that are served (user/environment/dns.h; one is that of `phasegate run`),
# asks from one more without a pause, then ends one of the others: "served" is what comes of it.
PROGRAM = """
import ctypes, os, signal, socket, sys, time
from dnsclient import question

SITES_MAX, LIMIT_S = 64, 15

def ask(pause):
    ctypes.CDLL(None).unshare(0x40000000)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setblocking(False)
    query = question("allowed.example.com")
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        try:
            sock.sendto(query, ("203.0.113.53", 53))
            time.sleep(pause)
            sock.recv(512)
            return
        except OSError:
            pass
    os._exit(1)

def place():
    ready, done = os.pipe()
    pid = os.fork()
    if pid == 0:
        ask(0.05)
        os.write(done, b".")
        signal.pause()
    os.close(done)
    assert os.read(ready, 1) == b"."
    return pid

places = [place() for _ in range(SITES_MAX - 1)]
crowd = os.fork()
if crowd == 0:
    ask(0.0005)
    os._exit(0)
time.sleep(1.5)
assert os.waitpid(crowd, os.WNOHANG) == (0, 0), "served already"
os.kill(places[0], signal.SIGKILL)
os.waitpid(places[0], 0)
print("served" if os.waitpid(crowd, 0)[1] == 0 else "not served", flush=True)
for pid in places[1:]:
    os.kill(pid, signal.SIGKILL)
"""

# Asks in a new namespace while Phasegate does nothing: how many answers come, and whether one comes
# to a question that is asked after that.
BURST = """
import ctypes, os, signal, socket, subprocess
from dnsclient import question

ctypes.CDLL(None).unshare(0x40000000)
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.settimeout(1)
server = ("203.0.113.53", 53)
os.kill(os.getppid(), signal.SIGSTOP)
for _ in range(100):
    sock.sendto(question("allowed.example.com"), server)
os.kill(os.getppid(), signal.SIGCONT)
count = 0
try:
    while sock.recv(512):
        count += 1
except TimeoutError:
    pass
sock.sendto(question("allowed.example.com"), server)
print(count, len(sock.recv(512)) > 12, flush=True)
"""
# user/environment/dns.h
PARKED_MAX = 64


class Crowd(DnsTest):
    def output(self, program):
        self.server.host(NAME, A4)
        run = self.run_command("--policy", policy(run=allowlist(NAME)), "--resolver", R4, "--",
                               PYTHON, "-c", program)
        status, output = run.finish()
        self.assertEqual(status, 0, (output, run.stderr))
        return output.split()

    def test_room_is_made_while_others_ask(self):
        """A namespace that is not served does not keep Phasegate from its other work."""
        self.assertEqual(self.output(PROGRAM), ["served"])

    def test_more_first_questions_than_are_kept(self):
        self.assertEqual(self.output(BURST), [str(PARKED_MAX), "True"])


if __name__ == "__main__":
    main()
