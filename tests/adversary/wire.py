# SPDX-License-Identifier: Apache-2.0
"""What is on the wire, and whose it is: every attempt has a number, and addresses and a token that
hold it, so that one frame tells which attempt it comes from, in whatever form it has left."""

import re
import socket
import struct

ETH_P_ALL = 3
SOL_PACKET, PACKET_STATISTICS, PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC = 263, 6, 1, 1
SO_RCVBUFFORCE = 33
FIRST, LAST = 1000, 0x7fff
TCP = 6


class Marks:
    """The addresses of attempt number N."""

    def __init__(self, number):
        assert FIRST <= number <= LAST
        high, low = number >> 8, number & 255
        self.number = number
        self.token = f"pgadv{number:06}."
        self.denied4 = f"198.18.{high}.{low}"
        self.denied6 = f"2001:db8:d::{number:x}"
        self.group4 = f"239.193.{high}.{low}"
        self.group6 = f"ff05::db8:0:{number:x}"
        self.mac = f"02:ad:be:00:{high:02x}:{low:02x}"

    def onlink(self, network4, network6):
        """An address of the container's network; the 16 leading bits of it are given."""
        return f"{network4}.{0x80 | self.number >> 8}.{self.number & 255}", \
            f"{network6}:0:0:0:ffff:0:{self.number:x}"


_TOKEN = re.compile(rb"pgadv(\d{6})")
_LONG = re.compile(rb"\x20\x01\x0d\xb8\x00\x0d" + 8 * rb"\x00" + rb"(..)"  # denied6
                   rb"|\xff\x05" + 8 * rb"\x00" + rb"\x0d\xb8\x00\x00(..)"  # group6
                   rb"|\xfd\x00\x00\x30" + 6 * rb"\x00" + rb"\xff\xff\x00\x00(..)"  # onlink6
                   rb"|\x02\xad\xbe\x00(..)"  # mac
                   rb"|\xff\x02" + 9 * rb"\x00" + rb"\x01\xff\x00(..)", re.DOTALL)  # solicited
_SHORT = re.compile(rb"\xc6\x12(..)|\xef\xc1(..)|\xac\x1e([\x80-\xff].)", re.DOTALL)


def numbers(frame):
    """Of the attempts that have left something in the frame."""
    found = {int(match.group(1)) for match in _TOKEN.finditer(frame)}
    for match in _LONG.finditer(frame):
        found.add(int.from_bytes(next(filter(None, match.groups())), "big"))
    # What TCP draws by lot is not taken for an address of four octets.
    end = 34 if frame[12:14] == b"\x08\x00" and frame[23:24] == bytes([TCP]) else None
    if frame[12:14] == b"\x86\xdd" and frame[20] == TCP:
        end = 0
    for match in _SHORT.finditer(frame[:end]):
        found.add(int.from_bytes(next(filter(None, match.groups())), "big") & 0x7fff)
    return {number for number in found if FIRST <= number <= LAST}


class Wire:
    """Frames that come in by a device; on a bridge all that its ports have sent."""

    def __init__(self, namespace, device):
        def make():
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
            opened.bind((device, ETH_P_ALL))
            opened.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, struct.pack(
                "iHH8s", socket.if_nametoindex(device), PACKET_MR_PROMISC, 0, b""))
            opened.setblocking(False)
            return opened

        self._socket = namespace.call(make)
        self.lost = 0

    def frames(self):
        """Those that have come since the last call."""
        while True:
            try:
                frame, where = self._socket.recvfrom(1 << 17)
            except BlockingIOError:
                break
            if where[2] != socket.PACKET_OUTGOING:
                yield frame
        _, lost = struct.unpack("II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        self.lost += lost

    def close(self):
        self._socket.close()
