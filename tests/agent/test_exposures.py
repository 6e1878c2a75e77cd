#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a member has that no policy can hold is found, whoever made the member; it is refused,
accepted, warned of or only shown, as the operator's settings say. A box is what a container is to
the kernel: a root directory of its own, fewer capabilities, a cgroup."""

import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap

import cgroups
from agentcase import AgentTest
from daemon import directory_of
from fakeruntime import FakeRuntime
from harness import main
from lab import in_root
from left import bpftool
from phasegate import LIMIT

# Less than Docker gives.
FEW = ("chown", "sys_chroot")
# What a container has of its own; without, a box is taken for the host's when it is executed.
CONTAINED = ("--mount", "--uts", "--net")
# What this host may have by itself, and what a box shares with it.
ALWAYS = {"vsock", "vsock_filtered", "host_pid", "link_unguarded"}
HAS_VSOCK = hasattr(socket, "AF_VSOCK") and os.path.exists("/dev/vsock")


class Exposures(AgentTest):
    @classmethod
    def setUpClass(cls):
        cls.runtime = FakeRuntime()
        cls.addClassCleanup(cls.runtime.close)
        cls.SETTINGS = {"docker_socket": cls.runtime.path, "podman_socket": "/no/such",
                        "containerd_state": "/no/such",
                        "exposures": {"privileged": "ask", "cap_sys_rawio": "ask",
                                      "cap_sys_module": "warn", "cap_dac_read_search": "list"}}
        super().setUpClass()
        cls.root = tempfile.mkdtemp(prefix="pgt-box-")
        cls.addClassCleanup(shutil.rmtree, cls.root, True)
        for name in ("bin", "dev", "proc", "x"):
            os.mkdir(f"{cls.root}/{name}")
        shutil.copy(shutil.which("busybox"), f"{cls.root}/bin/busybox")

    def box(self, *lines, capabilities=FEW, namespaces=("--mount",), cgroup=None, **more):
        """Starts one; returns its cgroup."""
        if cgroup is None:
            cgroup = cgroups.make(self.name("box"))
        process = self.start_box(cgroup, capabilities, namespaces, *lines, **more)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return cgroup

    def start_box(self, cgroup, capabilities, namespaces, *lines, prefix=(), more="", **popen):
        """lines are executed before, in its mount namespace and with the root directory $R."""
        script = "\n".join((
            "set -e", "mount --make-rprivate /", "mount --bind $R $R",
            "mount -t tmpfs -o mode=755 dev $R/dev", "mknod $R/dev/null c 1 3", *lines,
            "exec setpriv --inh-caps=-all --bounding-set=-all" +
            "".join(f",+{name}" for name in capabilities) +
            f" chroot $R /bin/busybox sh -c '{more} echo ready; exec /bin/busybox sleep 1000'"))
        return self.start_in(cgroups.path_of(cgroup), *prefix, "env", f"R={self.root}",
                             "unshare", *namespaces, "--propagation", "unchanged", "sh", "-c",
                             script, stdout=subprocess.PIPE, **popen)

    def try_create(self, cgroup, **body):
        return self.daemon.create(self.name(), policy={}, members=[{"cgroup": cgroup}],
                                  attach=True, **body)

    def assert_refused(self, cgroup, *ids, text="", **body):
        reply = self.try_create(cgroup, **body)
        self.assertCode(reply, "exposure_refused")
        self.assertEqual(reply["object"], "/members/0")
        self.assertEqual({one["id"] for one in reply["exposures"]} - ALWAYS, set(ids), reply)
        self.assertIn(text, " ".join(one["message"] for one in reply["exposures"]))
        return reply

    def assert_made(self, cgroup, *ids, **body):
        reply = self.try_create(cgroup, **body)
        self.assertEqual(reply.status, 201, reply)
        self.assertEqual({one["id"] for one in reply["exposures"]} - ALWAYS, set(ids), reply)
        return reply

    def warned(self, reply):
        return {one["code"] for one in reply["warnings"]} - ALWAYS

    def test_nothing(self):
        made = self.assert_made(self.box())
        self.assertEqual(self.warned(made), set())

    def test_levels(self):
        """refuse, ask, warn, list; what is not there may be accepted, too."""
        cgroup = self.box(capabilities=(*FEW, "sys_admin", "sys_rawio", "sys_module",
                                        "dac_read_search"))
        reply = self.assert_refused(cgroup, "cap_sys_admin", "cap_sys_rawio",
                                    accept=["cap_sys_admin"])
        self.assertEqual({one["id"]: one["acceptable"] for one in reply["exposures"]},
                         {"cap_sys_admin": False, "cap_sys_rawio": True})
        self.assertIn("2 more" if len(reply["exposures"]) > 2 else "1 more", reply["message"])
        self.assertIn("operator", reply["next_step"])
        cgroup = self.box(capabilities=(*FEW, "sys_rawio", "sys_module", "dac_read_search"))
        reply = self.assert_refused(cgroup, "cap_sys_rawio")
        self.assertIn('"cap_sys_rawio" in accept', reply["next_step"])
        made = self.assert_made(cgroup, "cap_sys_rawio", "cap_sys_module", "cap_dac_read_search",
                                accept=["cap_sys_rawio", "privileged"])
        self.assertEqual(self.warned(made), {"cap_sys_rawio", "cap_sys_module"})
        shown = self.daemon.show(made["name"])
        self.assertEqual(shown["exposures"], made["exposures"])

    def test_said_by_the_command(self):
        """All of them, with what to do about each."""
        cgroup = self.box(capabilities=(*FEW, "sys_admin", "sys_rawio"))
        done = subprocess.run(
            [os.environ["PHASEGATE_BINARY"], "env", "create", self.name(), "--policy", "{}",
             "--cgroup", cgroup, "--attach"], capture_output=True, text=True, check=False,
            env={**os.environ, "PHASEGATE_SOCKET": self.daemon.socket})
        self.assertEqual(done.returncode, 1, done)
        self.assertRegex(done.stderr, r"has CAP_SYS_ADMIN.*\n  -> .*--cap-drop SYS_ADMIN")
        self.assertRegex(done.stderr, r"has CAP_SYS_RAWIO.* \(cap_sys_rawio\)\n"
                                      "  -> .*--cap-drop SYS_RAWIO; or --accept cap_sys_rawio")

    def test_the_same_again(self):
        cgroup = self.box(capabilities=(*FEW, "sys_rawio"))
        name = self.name()
        body = {"policy": {}, "members": [{"cgroup": cgroup}], "attach": True,
                "accept": ["cap_sys_rawio"]}
        self.assertEqual([self.daemon.create(name, **body).status for _ in range(2)], [201, 200])
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon.start()
        self.assertEqual(self.daemon.create(name, **body).status, 200)
        self.assertIn("cap_sys_rawio",
                      {one["id"] for one in self.daemon.show(name)["exposures"]})
        self.assertCode(self.daemon.create(name, **{**body, "accept": []}), "environment_exists")

    def test_privileged(self):
        with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as file:
            count = int(file.read()) + 1
        everything = [f"cap_{number}" for number in range(count)]
        cgroup = self.box(capabilities=everything)
        with open("/proc/self/status", encoding="ascii") as file:
            bounding = int(next(line for line in file if line.startswith("CapBnd")).split()[1], 16)
        if bounding != (1 << count) - 1:
            self.skipTest("this machine grants not every capability")
        self.assert_refused(cgroup, "privileged", "host_pid_ptrace")

    def test_devices(self):
        """By what they are, and not by what they are called."""
        for line, exposure, text in (
                ("mknod $R/dev/kvm c 10 232", "device_kvm", "has /dev/kvm, as /dev/kvm"),
                ("mkdir -p $R/dev/a/b; mknod $R/dev/a/b/harmless c 10 200", "device_tun",
                 "has /dev/net/tun, as /dev/a/b/harmless"),
                ("mknod $R/dev/mem c 1 1", "device_host", "as /dev/mem"),
                ("mkdir $R/dev/infiniband; mknod $R/dev/infiniband/uverbs0 c 231 192",
                 "device_infiniband", "/dev/infiniband/uverbs0"),
                ("mknod $R/dev/disk b 254 0", "device_host", "as /dev/disk"),
                ("touch $R/x/tun; mount --bind /dev/net/tun $R/x/tun", "device_tun",
                 "mounted at /x/tun")):
            with self.subTest(line):
                if "--bind" in line and not os.path.exists("/dev/net/tun"):
                    continue
                self.assert_refused(self.box(line), exposure, text=text)

    def test_sockets_of_runtimes(self):
        directory = os.path.dirname(self.runtime.path)
        for line, exposure in (
                (f"touch $R/x/s; mount --bind {self.runtime.path} $R/x/s", "runtime_socket"),
                (f"mkdir -p $R/x/d; mount --bind {directory} $R/x/d", "runtime_socket"),
                (f"mkdir -p $R/x/d; mount --bind -o ro {directory} $R/x/d", "runtime_socket"),
                ("mkdir -p $R/x/h; mount --rbind / $R/x/h", None)):
            with self.subTest(line):
                cgroup = self.box(line)
                reply = self.try_create(cgroup)
                self.assertCode(reply, "exposure_refused")
                found = {one["id"] for one in reply["exposures"]}
                self.assertLessEqual({exposure} if exposure else {
                    "runtime_socket", "host_files", "cgroup_writable", "proc_writable"}, found)
        made = self.assert_made(self.box(f"mkdir -p $R/x/e; mount --bind {self.root}/bin $R/x/e"))
        self.assertEqual(self.warned(made), set())

    def test_what_hides(self):
        """A process that is connected to a runtime, whose socket is not mounted any more; one whose
        root directory is that of the host, which was mounted in it."""
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(self.runtime.path)
            self.assert_refused(self.box(pass_fds=(one.fileno(),)), "runtime_socket",
                                text="connected to " + self.runtime.path)
        cgroup = cgroups.make(self.name("root"))
        process = self.start_in(cgroups.path_of(cgroup), "unshare", "--mount", "--ipc", "chroot",
                                "/", "sh", "-c", "echo ready; exec sleep 1000",
                                stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        reply = self.try_create(cgroup)
        self.assertCode(reply, "exposure_refused")
        self.assertIn("host_files", {one["id"] for one in reply["exposures"]})

    def test_cgroups(self):
        mount = cgroups.mount2()
        lines = f"mkdir -p $R/x/c; mount --bind {mount} $R/x/c"
        self.assert_refused(self.box(lines), "cgroup_writable", text="/x/c")
        self.assert_made(self.box(lines, "mount -o remount,bind,ro $R/x/c"))
        # One of its own begins with the box.
        self.assert_made(self.box("mkdir -p $R/x/c; mount -t cgroup2 c $R/x/c",
                                  namespaces=("--mount", "--cgroup")))

    def test_kernel_settings(self):
        self.assert_refused(self.box("mount -t proc p $R/proc"), "proc_writable", text="/proc")
        self.assert_made(self.box("mount -t proc p $R/proc", "mount --bind $R/proc/sys $R/proc/sys",
                                  "mount -o remount,bind,ro $R/proc/sys"))

    def test_host_pids(self):
        self.assert_refused(self.box(capabilities=(*FEW, "sys_ptrace")), "host_pid_ptrace")
        made = self.assert_made(self.box())
        self.assertIn("host_pid", {one["id"] for one in made["exposures"]})

    def test_host_network(self):
        """That of the agent, on which nothing can be guarded."""
        prefix = self.lab.client.command()
        for name in ("net_raw", "net_admin"):
            self.assert_refused(self.box(capabilities=(*FEW, name), prefix=prefix),
                                "unguarded_link", text="host's network")
        self.assert_made(self.box(prefix=prefix))

    def test_sockets_of_elsewhere(self):
        """Descriptors that were handed in; those of the own namespace are judged."""
        for make, exposure in (
                (lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM), "foreign_socket"),
                (lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM), "foreign_socket"),
                (lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW), "packet_socket")):
            with self.lab.server.call(make) as one:
                self.assert_refused(self.box(pass_fds=(one.fileno(),)), exposure)
            # This test's is the namespace that the box is in.
            with make() as one:
                self.assert_made(self.box(pass_fds=(one.fileno(),)))
        with socket.socketpair()[0] as one:
            self.assert_made(self.box(pass_fds=(one.fileno(),)))
        if HAS_VSOCK:
            with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as one:
                self.assert_refused(self.box(pass_fds=(one.fileno(),)), "vsock_socket")

    def test_descriptors_of_a_thread(self):
        """One that has a table of its own, in which the socket stays."""
        code = textwrap.dedent("""
            import ctypes, os, sys, threading
            number, done = int(sys.argv[1]), threading.Event()
            def hold():
                ctypes.CDLL(None).unshare(0x400)
                done.set()
                threading.Event().wait()
            threading.Thread(target=hold, daemon=True).start()
            done.wait()
            os.close(number)
            print("ready", flush=True)
            sys.stdin.read()
        """)
        cgroup = cgroups.make(self.name("thread"))
        with self.lab.server.call(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as one:
            process = self.start_in(cgroups.path_of(cgroup), sys.executable, "-I", "-c", code,
                                    str(one.fileno()), pass_fds=(one.fileno(),),
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.assertEqual(process.stdout.readline(), b"ready\n")
        reply = self.try_create(cgroup)
        if reply.status == 201:
            # Linux before 6.9
            self.assertIn("not_inspected", {one["id"] for one in reply["exposures"]})
        else:
            self.assert_refused(cgroup, "packet_socket")

    def test_chain_of_processes(self):
        """Each starts the next and ends; the first one, which has dropped the right, has so many
        threads that looking at them takes longer than one of the chain lives."""
        code = textwrap.dedent("""
            import ctypes, os, signal, threading
            libc = ctypes.CDLL(None)
            # Nothing is left of those that have ended.
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            assert libc.prctl(36, 1, 0, 0, 0) == 0
            if os.fork() == 0:
                while True:
                    if os.fork():
                        os._exit(0)
            number = 12
            assert libc.prctl(24, number, 0, 0, 0) == 0
            head = (ctypes.c_uint * 2)(0x20080522, 0)
            data = (ctypes.c_uint * 6)()
            assert libc.capget(head, data) == 0
            for i in range(3):
                data[i] &= ~(1 << number)
            assert libc.capset(head, data) == 0
            threading.stack_size(65536)
            stay = threading.Event()
            for _ in range(8000):
                threading.Thread(target=stay.wait, daemon=True).start()
            print("ready", flush=True)
            stay.wait()
        """)
        cgroup = cgroups.make(self.name("chain"))
        process = self.start_in(
            cgroups.path_of(cgroup), *in_root(self.enterContext(tempfile.TemporaryDirectory())),
            "setpriv", "--inh-caps=-all", "--bounding-set=-all,+net_admin,+setpcap",
            sys.executable, "-I", "-c", code, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        reply = self.try_create(cgroup)
        self.assertIn("cap_net_admin", {one["id"] for one in reply["exposures"]}, reply)

    def test_processes_that_end(self):
        """They are no container's, though they have no root directory any more."""
        cgroup = cgroups.make(self.name("ending"))
        process = self.start_in(cgroups.path_of(cgroup), "sh", "-c",
                                "for i in 1 2 3 4 5 6; do while :; do /bin/true; done & done;"
                                "echo ready; wait", stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        for _ in range(10):
            name = self.assert_made(cgroup, "host_process")["name"]
            self.assertEqual(self.daemon.destroy(name, processes="release").status, 200)
            self.daemon.names.discard(name)

    def test_what_a_runtime_says(self):
        cgroup = self.box()
        pid = cgroups.processes(cgroups.path_of(cgroup))[0]
        host = {"NetworkMode": "none"}
        for name, more, exposure, text in (
                ("a", {"HostConfig": {**host, "Privileged": True}}, "privileged", "privileged"),
                ("b", {"HostConfig": {**host, "Runtime": "runsc"}}, "sandbox_runtime", "runsc"),
                ("c", {"OCIRuntime": "kata"}, "sandbox_runtime", "kata"),
                ("d", {"HostConfig": {**host, "Devices": [{"PathOnHost": "/dev/vhost-vsock"}]}},
                 "device_vhost", "/dev/vhost-vsock"),
                ("m", {"Mounts": [{"Source": os.path.dirname(self.runtime.path), "RW": False}]},
                 "runtime_socket", "was given"),
                ("e", {"HostConfig": {**host, "Runtime": "runc", "Devices": []}}, None, "")):
            with self.subTest(more):
                self.runtime.add_container(name, pid, **more)
                environment = self.name()
                reply = self.daemon.create(environment, policy={}, members=[{"container": name}])
                if not exposure:
                    self.assertEqual(reply.status, 201)
                    continue
                self.assertCode(reply, "exposure_refused", f"the container {name}")
                self.assertEqual([one["id"] for one in reply["exposures"]], [exposure])
                self.assertIn(text, reply["message"])

    def test_process_of_the_host(self):
        """Is nothing's prisoner: root is told of, others are not."""
        for words, warned in (((), {"host_process"}),
                              (("setpriv", "--reuid=4001", "--regid=4001", "--clear-groups"),
                               set())):
            cgroup = cgroups.make(self.name("plain"))
            process = self.start_in(cgroups.path_of(cgroup), *words, "sh", "-c",
                                    "echo ready; exec sleep 1000", stdout=subprocess.PIPE)
            self.assertEqual(process.stdout.readline(), b"ready\n")
            made = self.assert_made(cgroup, *warned)
            self.assertEqual(self.warned(made), warned)

    def told(self, name, cursor, exposure):
        """The events about it, up to the first one of this kind."""
        found = []
        for _ in range(20):
            reply = self.daemon.call("GET", f"/v1/events?cursor={cursor}&follow=1"
                                     f"&environment={name}")
            cursor = reply.body[-1]["cursor"]
            found += [line for line in reply.body if line["event"] == "exposure"]
            if exposure in {line["exposure"] for line in found}:
                break
        self.assertIn(exposure, {line["exposure"] for line in found}, self.daemon.output)
        return found

    def now(self):
        return self.daemon.call("GET", "/v1/events?cursor=now").body[-1]["cursor"]

    def below(self, made, name="box"):
        os.mkdir(f"{directory_of(made)}/{name}")
        return f"{made['members'][0]['cgroup']}/{name}"

    def shown(self, name):
        """Of each kind whether it was ended."""
        return {one["id"]: one.get("ended", False) for one in self.daemon.show(name)["exposures"]}

    def test_started_later(self):
        """In a cgroup that was made for it: it is told of once, by the next agent, too."""
        made = self.create({})
        name = made["name"]
        self.assertEqual(made["exposures"], [])
        cursor = self.now()
        self.box(capabilities=(*FEW, "sys_module"), cgroup=self.below(made))
        found = self.told(name, cursor, "cap_sys_module")
        self.assertIn("/box has CAP_SYS_MODULE", " ".join(line["message"] for line in found))
        shown = self.daemon.show(name)["exposures"]
        self.assertFalse(self.shown(name)["cap_sys_module"])
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon.start()
        self.assertEqual(self.daemon.show(name)["exposures"], shown)

    def start_ended(self, cgroup, *capabilities):
        """A box of which nothing is executed, since it may not have these."""
        process = self.start_box(cgroup, (*FEW, *capabilities), CONTAINED)
        self.assertEqual(process.stdout.readline(), b"")
        self.assertEqual(process.wait(), -signal.SIGKILL)

    def test_executed_later(self):
        """What is refused is ended before its first instruction, also while there is no agent."""
        made = self.create({})
        name = made["name"]
        box = self.below(made)
        cursor = self.now()
        self.box(cgroup=self.below(made, "other"), namespaces=CONTAINED)
        self.start_ended(box, "sys_admin")
        told = self.told(name, cursor, "cap_sys_admin")[-1]
        self.assertTrue(told["ended"])
        self.assertEqual(told["cgroup"], made["members"][0]["cgroup"])
        self.assertRegex(told["message"], '"busybox".* cgroup box, has CAP_SYS_ADMIN')
        self.assertTrue(self.shown(name)["cap_sys_admin"])
        cursor = self.now()
        self.start_ended(box, "net_admin", "sys_rawio")
        self.told(name, cursor, "cap_net_admin")
        self.assertTrue(self.shown(name)["cap_sys_rawio"])
        self.daemon.kill()
        self.start_ended(box, "sys_admin")
        self.daemon.start()
        self.start_ended(box, "sys_admin")
        self.assertEqual(self.daemon.stop(), 0)
        self.start_ended(box, "dac_read_search", "sys_admin")
        self.daemon.start()
        self.box(capabilities=(*FEW, "dac_read_search"), cgroup=box, namespaces=CONTAINED)

    def test_executed_and_accepted(self):
        """Only what may be; and who may have everything may give some of it up."""
        made = self.create({}, accept=["cap_sys_rawio", "cap_sys_admin", "device_kvm"])
        warned = [(one["code"], *re.findall("^[a-z_]+|what is executed", one["message"]))
                  for one in made["warnings"]]
        self.assertEqual([one for one in warned if one[0] == "accept_refused"],
                         [("accept_refused", "device_kvm"),
                          ("accept_refused", "cap_sys_admin", "what is executed")])
        box = self.below(made)
        self.box(capabilities=(*FEW, "sys_rawio"), cgroup=box, namespaces=CONTAINED)
        self.start_ended(box, "sys_rawio", "sys_admin")
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon.start()
        self.box(capabilities=(*FEW, "sys_rawio"), cgroup=box, namespaces=CONTAINED)
        made = self.create({}, accept=["privileged"])
        self.box(capabilities=(*FEW, "sys_admin"), cgroup=self.below(made), namespaces=CONTAINED)

    def test_executed_in_a_member(self):
        """As by docker exec --privileged; what the member had at the creation stays let."""
        cgroup = self.box(capabilities=(*FEW, "sys_rawio"), namespaces=CONTAINED)
        made = self.assert_made(cgroup, "cap_sys_rawio", accept=["cap_sys_rawio"])
        self.start_ended(cgroup, "sys_admin")
        self.box(capabilities=(*FEW, "sys_rawio"), cgroup=cgroup, namespaces=CONTAINED)
        self.assertTrue(self.shown(made["name"])["cap_sys_admin"])

    def make_anew(self, cgroup, name):
        """Until the agent has confined it again."""
        cursor = self.now()
        os.rmdir(cgroups.path_of(cgroup))
        os.mkdir(cgroups.path_of(cgroup))
        for _ in range(20):
            reply = self.daemon.call("GET", f"/v1/events?cursor={cursor}&follow=1"
                                     f"&environment={name}")
            cursor = reply.body[-1]["cursor"]
            if "confined" in [line.get("state") for line in reply.body]:
                return
        self.fail("nothing is told: " + self.daemon.output)

    def members(self):
        path, = glob.glob(f"{self.daemon.pins}/+maps-*/pg_members")
        return len(bpftool("map", "dump", "pinned", path))

    def test_executed_in_a_member_made_anew(self):
        """The only one, which has not the Environment's id any more."""
        before = self.members()
        cgroup = cgroups.make(self.name("anew"))
        made = self.create({}, members=[{"cgroup": cgroup}])
        for _ in range(2):
            self.make_anew(cgroup, made["name"])
            self.start_ended(cgroup, "sys_admin")
        self.daemon.destroy(made["name"])
        self.assertEqual(self.members(), before)

    def test_executed_elsewhere(self):
        """Nobody minds, nor after the Environment's end."""
        self.assertTrue(self.daemon.call("GET", "/v1/capabilities")["guards"]["exec"])
        cgroup = cgroups.make(self.name("free"))
        made = self.create({}, members=[{"cgroup": cgroup}])
        elsewhere = cgroups.make(self.name("elsewhere"))
        self.box(capabilities=(*FEW, "sys_admin"), cgroup=elsewhere, namespaces=CONTAINED)
        self.start_ended(cgroup, "sys_admin")
        self.daemon.destroy(made["name"])
        self.box(capabilities=(*FEW, "sys_admin"), cgroup=cgroup, namespaces=CONTAINED)

    def test_requests_and_settings(self):
        for accept, place in ((["x"], "/accept/0"), (["vsock", 1], "/accept/1"), ("vsock", "")):
            reply = self.daemon.create(self.name(), policy={}, accept=accept)
            self.assertCode(reply, "request_invalid")
            self.assertIn(place, reply["object"])
        for settings, text in (({"x": "warn"}, "/exposures/x"),
                               ({"vsock": "never"}, "/exposures/vsock"), ([], "/exposures")):
            path = f"{self.daemon.directory.name}/other.conf"
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"exposures": %s}' % str(settings).replace("'", '"'))
            done = subprocess.run([*self.lab.client.command(os.environ["PHASEGATED_BINARY"]),
                                   "--config", path], capture_output=True, text=True,
                                  timeout=LIMIT, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    main()
