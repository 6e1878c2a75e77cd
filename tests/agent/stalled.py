# SPDX-License-Identifier: Apache-2.0
"""A process in user, network and mount namespaces of its own whose root directory is a file system
that it has made (FUSE), which answers no more. Says when it is so. argv: an empty directory."""

import ctypes
import errno
import os
import struct
import sys
import threading
import time

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
GETATTR, INIT = 3, 26
libc = ctypes.CDLL(None, use_errno=True)
stalled = threading.Event()


def check(result):
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def answer(fuse):
    while True:
        opcode, unique = struct.unpack_from("=IQ", os.read(fuse, 1 << 17), 4)
        if stalled.is_set():
            continue
        body, error = b"", 0
        if opcode == INIT:
            body = struct.pack("=IIIIHHI40x", 7, 31, 0, 0, 0, 0, 4096)
        elif opcode == GETATTR:
            body = struct.pack("=QIIQ40x12xIIIIIII", 0, 0, 0, 1, 0o40755, 2, 0, 0, 0, 4096, 0)
        else:
            error = -errno.ENOSYS
        os.write(fuse, struct.pack("=IiQ", 16 + len(body), error, unique) + body)


check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS))
write("/proc/self/setgroups", "deny")
write("/proc/self/uid_map", "0 0 1\n")
write("/proc/self/gid_map", "0 0 1\n")
check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
device = os.open("/dev/fuse", os.O_RDWR)
check(libc.mount(b"stalled", sys.argv[1].encode(), b"fuse", 0,
                 f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()))
threading.Thread(target=answer, args=(device,), daemon=True).start()
os.chdir(sys.argv[1])
os.chroot(".")
stalled.set()
print("ready", flush=True)
time.sleep(1000)
