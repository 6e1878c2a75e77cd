# SPDX-License-Identifier: Apache-2.0
"""hide.py stay|leave|child|move FROM OWN: a container's program, which may leave the network
namespace that it was given. It does not (stay), or all of it does, while a packet socket of it is on
its way from one process to another (leave), or a child of it does (child), or all of it, after its
link (move). Prints "ready"; then, for each line that it is told, puts requests for an echo with that
text into lo there, as if they came from FROM, so that the kernel answers to that one; and says
"sent"."""

import ctypes
import os
import signal
import socket
import struct
import subprocess
import sys

from frames import checksum

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
COUNT = 8


def request(number, source, own, text):
    payload = text.encode() + bytes(len(text) % 2)
    echo = struct.pack("!BBHHH", 8, 0, 0, 0x1234, number) + payload
    echo = echo[:2] + checksum(echo) + echo[4:]
    head = struct.pack("!BBHHHBBH4s4s", 69, 0, 20 + len(echo), number, 0, 64, 1, 0,
                       socket.inet_aton(source), socket.inet_aton(own))
    return bytes(12) + b"\x08\x00" + head[:10] + checksum(head) + head[12:] + echo


def leave():
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER | CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")


def leave_in_a_child():
    left, leaving = os.pipe()
    if not os.fork():
        leave()
        os.write(leaving, b"x")
        signal.pause()
    os.read(left, 1)


def move():
    """The link, into the namespace of a child, where its number is taken; that leaves it, too."""
    taken, taking = os.pipe()
    moved, moving = os.pipe()
    left, leaving = os.pipe()
    child = os.fork()
    if not child:
        leave()
        for name, text in (("uid_map", "0 0 1"), ("setgroups", "deny"), ("gid_map", "0 0 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
        # The first free ones, as that was.
        subprocess.run(["ip", "link", "add", "taken", "type", "veth", "peer", "name", "other"],
                       check=True)
        os.write(taking, b"x")
        os.read(moved, 1)
        _kept = send_away(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        leave()
        os.write(leaving, b"x")
        signal.pause()
    os.read(taken, 1)
    subprocess.run(["ip", "link", "set", "eth7", "netns", str(child)], check=True)
    os.write(moving, b"x")
    os.read(left, 1)


def send_away(packets):
    """To where no process has it open."""
    held, other = socket.socketpair()
    socket.send_fds(other, [b"x"], [packets.fileno()])
    packets.close()
    return held, other


def main(how, source, own):
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    if how == "leave":
        held, other = send_away(packets)
        leave()
    elif how == "move":
        move()
        packets.close()
        leave()
    elif how == "child":
        leave_in_a_child()
    print("ready", flush=True)
    for text in sys.stdin:
        if how == "leave":
            packets = socket.socket(fileno=socket.recv_fds(held, 1, 1)[1][0])
            socket.send_fds(other, [b"x"], [packets.fileno()])
        for number in range(COUNT):
            packets.sendto(request(number, source, own, text.strip()), ("lo", 0x800))
        print("sent", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
