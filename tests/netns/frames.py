# SPDX-License-Identifier: Apache-2.0
"""frames.py DEVICE MAC SOURCE4 SOURCE6 TOKEN DESTINATION...: UDP frames by a packet socket."""

import ipaddress
import socket
import struct
import sys

PORT = 7000


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return struct.pack("!H", ~total & 0xffff)


def packet(source, destination, payload):
    ends = ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
    udp = struct.pack("!HHHH", 4000, PORT, 8 + len(payload), 0) + payload
    if len(ends) == 32:
        whole = ends + struct.pack("!II", len(udp), 17) + udp + b"\0" * (len(udp) % 2)
        udp = udp[:6] + checksum(whole) + udp[8:]
        return b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(udp), 17, 64) + ends + udp
    head = struct.pack("!BBHHHBBH", 69, 0, 20 + len(udp), 1, 0, 64, 17, 0) + ends
    return b"\x08\x00" + head[:10] + checksum(head) + head[12:] + udp


def main(device, mac, source4, source6, token, *destinations):
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    packets.bind((device, 0))
    link = bytes.fromhex(mac.replace(":", "")) + packets.getsockname()[4]
    for destination in destinations:
        source = source6 if ":" in destination else source4
        packets.send(link + packet(source, destination, f"{token}{destination}-".encode()))


if __name__ == "__main__":
    main(*sys.argv[1:])
