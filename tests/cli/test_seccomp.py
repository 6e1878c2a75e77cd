#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""phasegate seccomp: profiles for containers, judged by verdict.py: test_seccomp.py BINARY VECTORS."""

import errno
import itertools
import json
import os
import unittest

import verdict
from cli import main, phasegate

FAMILIES = {1: "unix", 2: "inet", 10: "inet6", 16: "netlink"}
DENIED = ("bpf", "io_uring_setup", "io_uring_enter", "io_uring_register", "request_key",
          "socketcall")
# Of AF_INET the kernel takes it for AF_PACKET.
SOCK_PACKET = 10
TOUCHED = {*DENIED, "socket", "socketpair"}
CAPABILITIES = (frozenset(), frozenset({"CAP_SYS_ADMIN", "CAP_AUDIT_WRITE", "CAP_BPF"}))
INSTALLED = "/usr/share/containers/seccomp.json"
ALLOW, ERRNO, KILL = "SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO", "SCMP_ACT_KILL_PROCESS"


def argument(index, op, value, second=0):
    return {"index": index, "op": "SCMP_CMP_" + op, "value": value, "valueTwo": second}


def rule(action, *names, args=(), **more):
    return {"names": list(names), "action": action, "args": list(args), **more}


def denying(*rules, **more):
    return {"defaultAction": ERRNO, "defaultErrnoRet": 38, "syscalls": list(rules), **more}


def allowing(*rules, **more):
    return {"defaultAction": ALLOW, "syscalls": list(rules), **more}


AUDIT = [rule(ERRNO, "socket", args=[argument(0, "EQ", 16), argument(2, "EQ", 9)], errnoRet=22,
              excludes={"caps": ["CAP_AUDIT_WRITE"]}),
         rule(ALLOW, "socket", args=[argument(2, "NE", 9)],
              excludes={"caps": ["CAP_AUDIT_WRITE"]}),
         rule(ALLOW, "socket", args=[argument(0, "NE", 16)],
              excludes={"caps": ["CAP_AUDIT_WRITE"]}),
         rule(ALLOW, "socket", includes={"caps": ["CAP_AUDIT_WRITE"]})]
BASES = {
    "all calls": denying(rule(ALLOW, "read", "socket", "socketpair", *DENIED)),
    "some calls": denying(rule(ALLOW, "read", "write")),
    "by capability": denying(rule(ALLOW, "bpf", "mount", includes={"caps": ["CAP_SYS_ADMIN"]}),
                             rule(ERRNO, "bpf", "mount", errnoRet=1,
                                  excludes={"caps": ["CAP_SYS_ADMIN"]}), *AUDIT),
    "but one family": denying(rule(ALLOW, "socket", args=[argument(0, "NE", 40)])),
    "one family": denying(rule(ALLOW, "socket", args=[argument(0, "EQ", 2)])),
    "few families": denying(rule(ALLOW, "socket", args=[argument(0, "LE", 2)]),
                            rule(ALLOW, "socketpair", args=[argument(0, "MASKED_EQ", 0xFE, 0)])),
    "alternatives": denying(rule(ALLOW, "socket", args=[
        argument(0, "EQ", 1), argument(0, "EQ", 40), argument(2, "EQ", 9)])),
    "few types": denying(rule(ALLOW, "socket", args=[argument(0, "EQ", 2), argument(1, "EQ", 1)]),
                         rule(ALLOW, "socket", args=[argument(0, "EQ", 10),
                                                     argument(1, "NE", 3)])),
    "denied types": allowing(rule(ERRNO, "socket", args=[argument(0, "EQ", 2),
                                                         argument(1, "EQ", 3)], errnoRet=1)),
    "old names": denying({"name": "socket", "action": ALLOW, "args": None},
                         {"name": "read", "action": ALLOW}),
    "all but some": allowing(rule(ERRNO, "mount", errnoRet=1)),
    "all, logged": allowing(rule("SCMP_ACT_LOG", "socket", "bpf")),
    "killing": denying(rule(ALLOW, "read", "socket"), rule(KILL, "bpf", "ptrace")),
    "killing some": allowing(rule(KILL, "bpf", args=[argument(0, "EQ", 5)])),
    "nothing": denying(),
    "no list": {"defaultAction": ALLOW},
}


def restrict(profile):
    done = phasegate("seccomp", "-", stdin=json.dumps(profile).encode())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Seccomp(unittest.TestCase):
    def samples(self, *profiles):
        """(call, arguments) for every call that is named, and one that is not."""
        calls = {name for profile in profiles for one in profile.get("syscalls") or []
                 for name in verdict.names(one)} | TOUCHED | {"getpid"}
        for call in sorted(calls):
            firsts, seconds, thirds = (0,), (1,), (0,)
            if call in ("socket", "socketpair"):
                firsts, thirds = (*range(20), 38, 40, 44, 45, 255), (0, 9)
                seconds = (1, 3 | 0x80800, SOCK_PACKET, SOCK_PACKET | 0x80800)
            elif call in TOUCHED:
                firsts = (0, 1, 5)
            for first, second, third in itertools.product(firsts, seconds, thirds):
                yield call, (first, second, third, 0, 0, 0)

    def assert_restricted(self, base, made):
        for capabilities in CAPABILITIES:
            for call, arguments in self.samples(base, made):
                about = (call, arguments, sorted(capabilities))
                before = verdict.verdicts(base, call, arguments, capabilities)
                after = verdict.verdicts(made, call, arguments, capabilities)
                permitted = verdict.permits(made, call, arguments, capabilities)
                if permitted:
                    self.assertTrue(verdict.permits(base, call, arguments, capabilities), about)
                if call not in TOUCHED:
                    self.assertEqual(after, before, about)
                elif call in DENIED or arguments[0] not in FAMILIES or \
                        arguments[0] == 2 and arguments[1] & 0xF == SOCK_PACKET:
                    self.assertFalse(permitted, about)
                else:
                    self.assertEqual(after, before, about)
                # Which of two libseccomp would take depends on their order.
                if call in TOUCHED and len(before) == 1:
                    permitting = {action in verdict.PERMITTING for action, _ in after}
                    self.assertEqual(len(permitting), 1, about)

    def test_bases(self):
        for name, base in BASES.items():
            with self.subTest(base=name):
                self.assert_restricted(base, restrict(base))

    def test_again_changes_nothing(self):
        for name, base in BASES.items():
            with self.subTest(base=name):
                once = restrict(base)
                self.assert_restricted(once, restrict(once))

    def test_errors_that_a_program_sees(self):
        made = restrict(BASES["all calls"])
        for call in DENIED:
            self.assertEqual(verdict.verdicts(made, call, (0,) * 6), {(ERRNO, errno.EPERM)})
        for call, family in itertools.product(("socket", "socketpair"), (17, 40, 44)):
            self.assertEqual(verdict.verdicts(made, call, (family, 0, 0, 0, 0, 0)),
                             {(ERRNO, errno.EAFNOSUPPORT)})

    def test_upper_half_of_the_register(self):
        """The kernel does not look at it."""
        for base in (BASES["but one family"], BASES["all but some"]):
            made = restrict(base)
            for family in (*range(64), 255):
                arguments = (family | 0xDEAD << 32, 1, 0, 0, 0, 0)
                self.assertEqual(verdict.permits(made, "socket", arguments), family in FAMILIES)

    @unittest.skipUnless(os.path.exists(INSTALLED), "needs Podman's profile")
    def test_installed_profile(self):
        with open(INSTALLED, encoding="utf-8") as file:
            base = json.load(file)
        done = phasegate("seccomp")
        self.assertEqual(done.returncode, 0, done.stderr)
        made = json.loads(done.stdout)
        self.assert_restricted(base, made)
        for family in FAMILIES:
            self.assertTrue(verdict.permits(made, "socket", (family, 1, 0, 0, 0, 0)))

    def test_architectures(self):
        """Those whose sockets no filter can tell apart are none of the profile's."""
        made = restrict(denying(archMap=[
            {"architecture": "SCMP_ARCH_X86_64",
             "subArchitectures": ["SCMP_ARCH_X86", "SCMP_ARCH_X32"]},
            {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_ARM"]},
            {"architecture": "SCMP_ARCH_S390X", "subArchitectures": ["SCMP_ARCH_S390"]}]))
        self.assertEqual(made["archMap"], [
            {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
            {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_ARM"]}])
        made = restrict(denying(architectures=["SCMP_ARCH_X86_64", "SCMP_ARCH_X86",
                                               "SCMP_ARCH_X32"]))
        self.assertEqual(made["architectures"], ["SCMP_ARCH_X86_64"])

    def test_profile_of_a_container(self):
        made = restrict({"linux": {"seccomp": BASES["all calls"]}, "process": {}})
        self.assertEqual(made, restrict(BASES["all calls"]))

    def test_refused(self):
        for text, word in ((b"", "JSON"), (b"[]", "no object"), (b"{}", "defaultAction"),
                           (b'{"linux": {}}', "the container has none"),
                           (b'{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": 1}', "no list"),
                           *((json.dumps(denying(one)).encode(), "/syscalls/0: ") for one in (
                               {}, {"names": ["socket"]}, {"action": ALLOW},
                               rule(ALLOW, 1), rule(ALLOW, "a", args=[{}]),
                               rule(ALLOW, "a", args=[{"index": 9, "op": "SCMP_CMP_EQ"}]),
                               rule(ALLOW, "a", args=[{"index": 0, "op": "EQ"}]))),
                           (json.dumps(denying(rule(ALLOW, "a", args=[
                               argument(1, "EQ", 2 ** 64 - 1)]))).encode(), "exactly"),
                           (json.dumps(denying(rule(ALLOW, "socket", args=[
                               argument(1, "NE", 3)]))).encode(), "types"),
                           (json.dumps(denying(architectures=["SCMP_ARCH_S390X"])).encode(),
                            "x86-64")):
            with self.subTest(text=text):
                done = phasegate("seccomp", "-", stdin=text)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(word, done.stderr)
        self.assertEqual(phasegate("seccomp", "/nonexistent").returncode, 2)
        self.assertEqual(phasegate("seccomp", "a", "b").returncode, 2)


if __name__ == "__main__":
    main()
