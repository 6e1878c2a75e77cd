# SPDX-License-Identifier: Apache-2.0
"""Sends one datagram from a chosen source, inside: forge.py WAY SOURCE DESTINATION PORT PAYLOAD
[INTERFACE] prints "sent" or the errno's name. It waits for nothing and imports nothing of the lab."""

import errno
import ipaddress
import socket
import struct
import sys

IP_TRANSPARENT, IPV6_HDRINCL, IPV6_TRANSPARENT, IPV6_FREEBIND = 19, 36, 75, 78


def packet(source, destination, port, payload):
    source, destination = map(ipaddress.ip_address, (source, destination))
    datagram = struct.pack("!HHHH", 5555, port, 8 + len(payload), 0) + payload
    if source.version == 6:
        return struct.pack("!IHBB", 6 << 28, len(datagram), socket.IPPROTO_UDP, 64) + \
            source.packed + destination.packed + datagram
    return struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(datagram), 1, 0, 64, socket.IPPROTO_UDP,
                       0) + source.packed + destination.packed + datagram


def raw(family, source, destination, port, payload):
    with socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW) as forged:
        if family == socket.AF_INET6:
            forged.setsockopt(socket.IPPROTO_IPV6, IPV6_HDRINCL, 1)
        forged.sendto(packet(source, destination, port, payload), (destination, 0))


def bound(family, way, source, destination, port, payload, interface):
    with socket.socket(family, socket.SOCK_DGRAM) as forged:
        level = socket.IPPROTO_IPV6 if family == socket.AF_INET6 else socket.IPPROTO_IP
        option = {"transparent": IPV6_TRANSPARENT if family == socket.AF_INET6 else IP_TRANSPARENT,
                  "freebind": IPV6_FREEBIND}.get(way)
        if option:
            forged.setsockopt(level, option, 1)
        scope = (0, socket.if_nametoindex(interface)) if interface else ()
        forged.bind((source, 0, *scope))
        forged.sendto(payload, (destination, port, *scope))


def main(way, source, destination, port, payload, interface=None):
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    try:
        if way == "raw":
            raw(family, source, destination, int(port), payload.encode())
        else:
            bound(family, way, source, destination, int(port), payload.encode(), interface)
        print("sent")
    except OSError as error:
        print(errno.errorcode[error.errno])


main(*sys.argv[1:])
