# SPDX-License-Identifier: Apache-2.0
"""A process whose first thread has ended, and with it what /proc says under its number; another one
goes on. argv: where to connect to, and the port. Says when it is so, and what has become of it."""

import ctypes
import os
import platform
import socket
import sys
import threading

EXIT = {"x86_64": 60, "aarch64": 93}[platform.machine()]


def is_headless():
    with open(f"/proc/{os.getpid()}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0] == "Z"


def go_on():
    with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as stream:
        while not is_headless():
            pass
        print("ready", flush=True)
        try:
            print(stream.recv(1), flush=True)
        except OSError as error:
            print(error.errno, flush=True)


threading.Thread(target=go_on).start()
ctypes.CDLL(None).syscall(EXIT, 0)
