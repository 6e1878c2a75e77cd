#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Docker's containers as members: found by name, confined as they run, in each network mode; what
their own network and their neighbours mean for the policy is said."""

import grp
import json
import os
import subprocess
import time
import unittest

import cgroups
import vectors
from containercase import ContainerTest
from dnsserver import DnsServer
from dockerd import AVAILABLE, GATEWAY, Dockerd
from harness import main
from lab import A4, B4, D4, R4
from phasegate import BINARY, LIMIT, NO_NETWORK, PUBLIC, allowlist
from recorder import PORT


GROUP = next(g for g in grp.getgrall() if g.gr_gid not in (0, 65534) and not g.gr_mem)
MEMBER, DOCKERS = 4001, 4100


def project(service, name="pgt-shop"):
    return ("--label", f"com.docker.compose.project={name}",
            "--label", f"com.docker.compose.service={service}")


@unittest.skipUnless(AVAILABLE, "needs dockerd, docker, containerd, runc and busybox")
class Docker(ContainerTest):
    @classmethod
    def setUpClass(cls):
        cls.runtime = cls.docker = Dockerd()
        cls.addClassCleanup(cls.docker.close)
        cls.SETTINGS = {"docker_socket": cls.docker.socket, "podman_socket": "/nonexistent",
                        "containerd_state": cls.docker.containerd, "resolvers": [B4],
                        "group": GROUP.gr_name,
                        "exposures": {"privileged": "ask", "cgroup_writable": "ask",
                                      "cap_net_admin": "list"}}
        super().setUpClass()
        cls.docker.start(cls.lab)

    def container(self, *options, **more):
        name, identity = self.docker.run(*options, **more)
        self.addCleanup(self.docker.remove, name)
        return name, identity

    def network(self, name, *options):
        name = f"pgt-{name}-{os.getpid()}"
        self.docker.call("network", "create", *options, name)
        self.addCleanup(self.docker.call, "network", "rm", name, check=False)
        return name

    def refused(self, code, text, **member):
        name = self.name()
        reply = self.daemon.create(name, policy={}, members=[member])
        self.assertCode(reply, code, text)
        self.daemon.names.discard(name)

    def test_by_name_id_and_beginning_of_an_id(self):
        name, identity = self.container()
        for called, more in ((name, {}), (identity, {"runtime": "docker"}), (identity[:12], {}),
                             (identity, {"runtime": "containerd"})):
            with self.subTest(called=called, **more):
                made = self.create({"network_policy": allowlist(A4)},
                                   members=[{"container": called, **more}])
                member = made["members"][0]
                self.assertEqual((member["kind"], member["container_id"]),
                                 ("container", identity))
                self.assertEqual(member["runtime"], more.get("runtime", "docker"))
                self.assertEqual(os.path.basename(member["cgroup"]), identity)
                self.assert_confined(name)
                self.assertEqual(self.daemon.destroy(made["name"], "release").status, 200)

    def test_verify(self):
        """From inside of one with Docker's default capabilities, behind its guarded link."""
        name, _ = self.container()
        made = self.attach(name)
        reply = self.daemon.call("POST", f"/v1/environments/{made['name']}/verify",
                                 {"allowed": f"{A4}:{PORT}", "blocked": f"{D4}:{PORT}"})
        rows = {row["name"]: row for row in reply["vectors"]}
        # Docker's filter of system calls may let it pass, or not.
        vsock = rows.pop("vsock")
        self.assertIn(vsock["result"], ("inconclusive", "not_possible"), vsock)
        self.assertEqual([row for row in rows.values() if row["wrong"]
                          or row["result"] == "inconclusive"], [], reply)
        # Docker gives no IPv6 unless it is told to.
        self.assertIn(rows["mld"]["result"], ("blocked", "not_possible"))
        self.assertEqual(rows["igmp"]["result"], "blocked")
        self.assertEqual((reply["allowed"]["result"], reply["blocked"]["result"]),
                         ("reached", "blocked"))
        self.assert_silent(D4)

    def test_what_cannot_be_found(self):
        name, _ = self.container()
        self.docker.call("stop", "--time", "0", name)
        self.refused("container_not_running", name, container=name)
        self.refused("container_not_found", "pgt-none", container="pgt-none")
        self.refused("runtime_unavailable", "/nonexistent", container=name, runtime="podman")
        self.refused("request_invalid", "docker", container=name, runtime="rocket")
        self.refused("request_invalid", "name", container="../..")

    def test_caller_who_may_not_use_docker(self):
        """Whoever may use the agent, but not Docker, has no say in Docker's containers."""
        container, _ = self.container()
        os.chmod(self.daemon.directory.name, 0o711)
        os.chown(self.docker.socket, 0, DOCKERS)
        for groups, status in (([GROUP.gr_gid], 403), ([GROUP.gr_gid, DOCKERS], 201)):
            name = self.name()
            self.daemon.names.add(name)
            done = subprocess.run(
                ["setpriv", f"--reuid={MEMBER}", f"--regid={MEMBER}",
                 "--groups=" + ",".join(map(str, groups)), "curl", "--silent", "--write-out",
                 "\\n%{http_code}", "--unix-socket", self.daemon.socket, "--data",
                 json.dumps({"name": name, "policy": {}, "members": [{"container": container}]}),
                 "http://localhost/v1/environments"], capture_output=True, text=True, check=True)
            body, code = done.stdout.rsplit("\n", 1)
            self.assertEqual(int(code), status, body)
            self.assertEqual(json.loads(body).get("code"),
                             "member_not_yours" if status == 403 else None)

    def test_twice_is_the_same(self):
        name, _ = self.container()
        environment = self.name()
        body = {"policy": {}, "members": [{"container": name}]}
        self.assertEqual(self.daemon.create(environment, **body).status, 201)
        self.assertEqual(self.daemon.create(environment, **body).status, 200)
        self.refused("member_taken", "", container=name)

    def test_bridge(self):
        name, _ = self.container()
        made = self.attach(name)
        network = made["members"][0]["network"]
        self.assertEqual((network["mode"], network["networks"]), ("bridge", ["bridge"]))
        self.assertEqual([b["message"] for b in network["blocks"]],
                         ["the container has no IPv6 address: it reaches no IPv6 address"])
        self.assertEqual(made["warnings"], [])
        self.assert_confined(name)

    def test_host(self):
        name, _ = self.container("--network", "host", "--cap-drop", "NET_RAW")
        made = self.attach(name)
        self.assertEqual(made["members"][0]["network"]["mode"], "host")
        self.assertEqual(made["members"][0]["network"]["blocks"], [])
        self.assertEqual(len(self.warnings(made, "host_network")), 1)
        self.assert_confined(name)

    def test_none(self):
        name, _ = self.container("--network", "none")
        made = self.attach(name)
        self.assertEqual(len(self.warnings(made, "network_blocks")), 1)
        agent = self.probe(name)
        self.assertEqual(vectors.tcp(agent, D4, PORT, "x")["errno"], "EPERM")
        self.assertEqual(vectors.tcp(agent, A4, PORT, "x")["errno"], "ENETUNREACH")

    def test_internal(self):
        name, _ = self.container("--network", self.network("in", "--internal"))
        made = self.attach(name)
        self.assertEqual(len(self.warnings(made, "network_blocks")), 1)
        self.assertIn("internal", made["members"][0]["network"]["blocks"][0]["message"])
        made = self.daemon.destroy(made["name"], "release")
        made = self.attach(name, policy={"network_policy": NO_NETWORK})
        self.assertEqual(self.warnings(made, "network_blocks"), [])

    def test_network_of_another_container(self):
        owner, identity = self.container()
        name, _ = self.container("--network", "container:" + owner)
        made = self.attach(name)
        network = made["members"][0]["network"]
        self.assertEqual(network["mode"], "container:" + identity)
        self.assertEqual((network["owner"], network["networks"]), (owner, ["bridge"]))
        self.assertIn(owner, self.warnings(made, "shared_network")[0])
        self.assertIn(owner, self.warnings(made, "unconfined_service")[0])
        self.assert_confined(name)
        self.assert_reaches(self.probe(owner), vectors.tcp, B4, PORT)
        self.daemon.destroy(made["name"], "release")
        made = self.attach(name, owner)
        self.assertEqual(made["warnings"], [])
        self.assertEqual(made["members"][1]["network"]["owner"], None)
        for one in (name, owner):
            self.assert_confined(one)

    def test_neighbours_of_containerd(self):
        """Its state says nothing of who shares a network: the processes do."""
        owner, identity = self.container()
        name, _ = self.container("--network", "container:" + owner)
        made = self.create({"network_policy": allowlist(A4)},
                           members=[{"container": self.identity(name), "runtime": "containerd"}])
        self.assertIn(identity, self.warnings(made, "unconfined_service")[0])
        self.assert_confined(name)

    def identity(self, name):
        return self.docker.call("inspect", "--format", "{{.Id}}", name).stdout.decode().strip()

    def test_address_of_the_host(self):
        """An entry that covers it opens the host's ports to the container."""
        name, _ = self.container("--cgroupns", "host")
        made = self.attach(name, policy={"network_policy": allowlist(A4, GATEWAY)})
        self.assertEqual(len(self.warnings(made, "opens_host")), 1)
        self.assert_confined(name)

    def test_project(self):
        """Three services, one in the network of another; "db" is an entry by its name."""
        network = self.network("shop")
        web, _ = self.container("--network", network, *project("web"))
        side, _ = self.container("--network", "container:" + web, *project("side"))
        db, _ = self.container("--network", network, "--network-alias", "db", *project("db"),
                               words=("/bin/busybox", "nc", "-l", "-p", "5000", "-e",
                                      "/bin/sleep", "1000"))
        other, _ = self.container(*project("web", "pgt-other"))
        policy = {"network_policy": allowlist("db", A4)}
        made = self.attach(web, policy=policy)
        self.assertEqual(sorted(w.split()[2] for w in self.warnings(made, "unconfined_service")),
                         sorted([side, db]))
        self.assertFalse(any(other in w["message"] for w in made["warnings"]))
        self.daemon.destroy(made["name"], "release")
        made = self.attach(web, side, db, policy=policy)
        # Docker's own resolver is asked for the service, where it is.
        self.assertEqual(made["warnings"], [])
        for name in (web, side):
            done = self.docker.call("exec", name, "/bin/busybox", "nslookup", "-type=a", "db",
                                    check=False)
            self.assertIn("172.31.", done.stdout.decode().split("Name:")[-1], done)
            self.assert_confined(name)
        address = done.stdout.decode().split("Address:")[-1].strip()
        self.assertEqual(self.probe(web)("socket 0 tcp4")["errno"], "")
        agent = self.probe(side)
        agent("socket 0 tcp4")
        self.assertEqual(agent(f"connect 0 {address} 5000")["errno"], "")

    def test_names_of_its_own_nameserver(self):
        """Nobody has named it to the agent, and the container can answer in its place before it is
        confined: what it says opens only what is on the container's network."""
        near, _ = self.container()
        name, _ = self.container("--dns", R4)
        address = self.address(near, "bridge")
        nameserver = DnsServer(self.lab)
        nameserver.host("near", address)
        nameserver.host("far", D4)
        made = self.attach(name, policy={"network_policy": PUBLIC,
                                         "run_network_policy": allowlist("near", "far", A4)})
        self.assertEqual([w["message"].split()[0] for w in made["warnings"]
                          if w["code"] == "unresolved"], ["far"])
        for phase in ("setup", "run"):
            self.daemon.phase(made["name"], phase, survivors="allow")
            answers = [self.docker.call("exec", name, "/bin/busybox", "nslookup", "-type=a", one,
                                        check=False).stdout.decode() for one in ("near", "far")]
            self.assertIn(address, answers[0])
            self.assertNotIn(D4, answers[1])
        self.assertIn("far", nameserver.names())
        self.assert_denied(self.probe(name), vectors.tcp, D4, PORT)
        # Of one that the request names all is believed.
        self.daemon.destroy(made["name"], "release")
        made = self.attach(name, policy={"network_policy": allowlist("far")},
                           dns={"own_resolvers": [R4]})
        self.assert_reaches(self.probe(name), vectors.tcp, D4, PORT)

    def address(self, name, network):
        done = self.docker.call("inspect", "--format",
                                "{{(index .NetworkSettings.Networks \"%s\").IPAddress}}" % network,
                                name)
        return done.stdout.decode().strip()

    def test_between_members(self):
        """By the addresses that Docker has given them, both ways, though the policy has none; a
        refusal comes from the other end."""
        network = self.network("between")
        names = [self.container("--network", network)[0] for _ in range(3)]
        addresses = [self.address(name, network) for name in names]
        agents = [self.probe(name) for name in names[:2]]
        # They know their neighbours from before the guard.
        for agent, to in zip(agents, reversed(addresses[:2])):
            self.assertEqual(self.connect(agent, to), "ECONNREFUSED")
        for traffic, wanted in (("allow", "ECONNREFUSED"), ("deny", "EPERM")):
            made = self.attach(*names[:2], policy={"network_policy": NO_NETWORK},
                               member_traffic=traffic)
            for one, (agent, to) in enumerate(zip(agents, reversed(addresses[:2]))):
                self.assertEqual(self.connect(agent, to), wanted, (traffic, one))
                self.assertEqual(self.connect(agent, addresses[2]), "EPERM", (traffic, one))
            self.daemon.destroy(made["name"], "release")

    @staticmethod
    def connect(agent, address):
        agent("socket 0 tcp4")
        found = agent(f"connect 0 {address} 5001")["errno"]
        agent("close 0")
        return found

    def test_hosts(self):
        policy = {"network_policy": allowlist("given.test")}
        name, _ = self.container("--add-host", "given.test:" + A4)
        made = self.attach(name, policy=policy)
        self.assert_confined(name)
        self.daemon.destroy(made["name"], "release")
        # What a container writes into its file opens nothing.
        self.docker.call("exec", name, "/bin/sh", "-c", f"echo {D4} given.test >>/etc/hosts")
        made = self.attach(name, policy=policy)
        self.assert_confined(name)

    def test_hosts_written_at_once(self):
        """By the container's first instruction: before the runtime says when it was started."""
        write = f"echo {D4} forged.test >>/etc/hosts; exec sleep 1000"
        for network in ("bridge", self.network("hosts")):
            name, _ = self.container("--network", network, words=("/bin/sh", "-c", write))
            self.attach(name, policy={"network_policy": allowlist("forged.test", A4)})
            self.assert_confined(name)

    def test_hosts_of_the_gateway(self):
        """Its address is known from the file alone, which is used as long as it is unchanged."""
        policy = {"network_policy": allowlist("host.test")}
        name, _ = self.container("--add-host", "host.test:host-gateway")
        made = self.attach(name, policy=policy)
        self.assertEqual(self.warnings(made, "hosts_changed"), [])
        agent = self.probe(name)
        agent("socket 0 tcp4")
        self.assertEqual(agent(f"connect 0 {GATEWAY} 9")["errno"], "ECONNREFUSED")
        self.daemon.destroy(made["name"], "release")
        self.docker.call("exec", name, "/bin/sh", "-c", f"echo {D4} host.test >>/etc/hosts")
        made = self.attach(name, policy=policy)
        self.assertIn("host.test", self.warnings(made, "hosts_changed")[0])
        self.assert_denied(agent, vectors.tcp, D4, PORT)

    def test_rights_and_proxies(self):
        name, _ = self.container("--cap-add", "NET_ADMIN", "--env",
                                 "https_proxy=http://me:secret@proxy.test:3128")
        made = self.attach(name, policy={"network_policy": allowlist("example.com")})
        self.assertEqual(self.warnings(made, "privileged"), [])
        self.assertEqual(len(self.warnings(made, "container_net_admin")), 1)
        self.assertIn("HTTPS_PROXY=http://proxy.test:3128",
                      self.warnings(made, "proxy_resolves_names")[0])
        self.assertEqual(made["members"][0]["network"]["proxies"],
                         [{"variable": "HTTPS_PROXY", "value": "http://proxy.test:3128"}])
        shown = subprocess.run([BINARY, "env", "show", made["name"], "--socket",
                                self.daemon.socket], capture_output=True, text=True, check=True)
        for text in ("  network       bridge\n", "  blocks        the container has no IPv6",
                     "  proxy         HTTPS_PROXY=http://proxy.test:3128"):
            self.assertIn(text, shown.stdout)
        self.assertIn("proxy_resolves_names", shown.stderr)
        self.assertNotIn("secret", str(made))
        self.assertNotIn("secret", self.daemon.output)

    def test_as_docker_starts_them(self):
        """With its default capabilities, CAP_NET_RAW too: accepted as they are, by each of its
        networks."""
        for options in (("--network", self.network("plain")), ("--network", "none"),
                        ("--cap-drop", "ALL", "--read-only", "--init", "--user", "7:7"),
                        ("--cap-add", "NET_ADMIN", "--tmpfs", "/t", "--pid", "host", "--ipc",
                         "host", "--volume", f"{self.docker.directory}/vol:/v")):
            with self.subTest(options):
                name, _ = self.docker.run(*options)
                self.addCleanup(self.docker.remove, name)
                made = self.attach(name)
                self.assertLessEqual({one["id"] for one in made["exposures"]},
                                     {"vsock", "vsock_filtered", "host_pid", "cap_net_admin"})
                self.daemon.destroy(made["name"], "release")

    def test_what_policies_cannot_hold(self):
        """Refused, and nothing is changed: the container goes on as before."""
        socket = f"{self.docker.socket}:/run/docker.sock"
        devices = [words for path, words in (
            ("/dev/net/tun", ("device_tun", "--device", "/dev/net/tun")),
            ("/dev/kvm", ("device_kvm", "--device", "/dev/kvm:/dev/other")))
            if os.path.exists(path)]
        for options, wanted in (
                (("--volume", socket, "--cap-add", "SYS_ADMIN",
                  *(word for words in devices for word in words[1:])),
                 {"runtime_socket", "cap_sys_admin", *(words[0] for words in devices)}),
                (("--pid", "host", "--cap-add", "SYS_PTRACE", "--network", "host",
                  "--security-opt", "systempaths=unconfined"),
                 {"host_pid_ptrace", "unguarded_link", "proc_writable"}),
                # With the daemon's own directory it has all that is mounted below, too.
                (("--volume", f"{self.docker.directory}:/d:ro"),
                 {"runtime_socket", "proc_writable"})):
            with self.subTest(options):
                name, _ = self.docker.run(*options)
                self.addCleanup(self.docker.remove, name)
                environment = self.name()
                reply = self.daemon.create(environment, policy={}, members=[{"container": name}])
                self.assertCode(reply, "exposure_refused")
                self.assertEqual({one["id"] for one in reply["exposures"]}, wanted, reply)
                self.daemon.names.discard(environment)
                self.assert_reaches(self.probe(name), vectors.tcp, D4, PORT)
                self.docker.remove(name)

    def test_what_policies_cannot_hold_in_a_parent(self):
        """It runs already when it is seen, so it is told of."""
        made = self.create({"network_policy": allowlist(A4)})
        cursor = self.daemon.call("GET", "/v1/events?cursor=now").body[-1]["cursor"]
        for options, wanted in (((), set()), (("--pid", "host"), {"host_pid"})):
            name, _ = self.docker.run("--cgroup-parent", made["cgroup_parent"], *options)
            self.addCleanup(self.docker.remove, name)
        found = set()
        for _ in range(20):
            reply = self.daemon.call("GET", f"/v1/events?cursor={cursor}&follow=1"
                                     f"&environment={made['name']}")
            cursor = reply.body[-1]["cursor"]
            found |= {line["exposure"] for line in reply.body if line["event"] == "exposure"}
            if wanted <= found:
                break
        self.assertEqual(found - {"vsock"}, wanted)
        self.assertEqual({one["id"] for one in self.daemon.show(made["name"])["exposures"]} -
                         {"vsock", "vsock_filtered"}, wanted)

    def test_privileged(self):
        try:
            name, _ = self.container("--privileged")
        except AssertionError as error:
            if "unable to apply caps" not in str(error):
                raise
            self.skipTest("this machine grants no privileged containers")
        self.refused("exposure_refused", "privileged", container=name)
        made = self.attach(name, accept=["privileged"])
        self.assertEqual(len(self.warnings(made, "privileged")), 1)

    def test_open_connection_is_closed(self):
        name, _ = self.container()
        agent = self.probe(name)
        agent("socket 0 tcp4")
        self.assertEqual(agent(f"connect 0 {D4} {PORT}")["errno"], "")
        self.attach(name)
        self.assertIn(agent("send 0 late")["errno"], ("ECONNABORTED", "EPIPE", "EPERM"))

    def test_phases(self):
        name, _ = self.container()
        made = self.attach(name, policy={"network_policy": PUBLIC,
                                         "run_network_policy": NO_NETWORK})
        agent = self.probe(name)
        self.assert_reaches(agent, vectors.tcp, D4, PORT)
        self.daemon.phase(made["name"], "run")
        self.assert_denied(agent, vectors.tcp, A4, PORT)
        self.daemon.phase(made["name"], "setup", survivors="allow")
        self.assert_reaches(agent, vectors.tcp, D4, PORT)
        self.daemon.phase(made["name"], "run")
        self.assertEqual(self.daemon.destroy(made["name"], "release").status, 200)
        self.daemon.names.discard(made["name"])
        self.assert_reaches(agent, vectors.tcp, D4, PORT)
        self.assertFalse(os.path.exists(f"/run/phasegate/{made['name']}"))
        attached = subprocess.run(["bpftool", "--json", "cgroup", "show",
                                   cgroups.path_of(made["members"][0]["cgroup"])],
                                  capture_output=True, text=True, check=True)
        self.assertEqual([one for one in json.loads(attached.stdout.strip() or "[]")
                          if one["attach_type"] != "device"], [])

    def cursor(self):
        return self.daemon.call("GET", "/v1/events?cursor=now").body[-1]["cursor"]

    def wait_confined_again(self, made, cursor):
        """Until the agent has told of the cgroup that Docker has made anew."""
        began = time.monotonic()
        while time.monotonic() - began < LIMIT:
            reply = self.daemon.call("GET", f"/v1/events?cursor={cursor}&follow=1"
                                     f"&environment={made['name']}")
            if reply.status == 410:
                cursor = reply["object"]
                continue
            lines = reply.body
            cursor = lines[-1]["cursor"]
            states = [line["state"] for line in lines if line["event"] == "member_anew"]
            if states:
                self.assertEqual(states, ["confined"])
                return
        self.fail("nothing is told of the restart: " + self.daemon.output)

    def test_restart(self):
        """Attached ones are confined again; by the next agent, too. What is open by then is closed,
        and names are still answered."""
        first, _ = self.container("--add-host", "given.test:" + A4)
        second, _ = self.container()
        made = self.attach(first, second, policy={"network_policy": allowlist("given.test")})
        for name, dead in ((first, False), (second, False), (first, True)):
            with self.subTest(name=name, dead=dead):
                cursor = self.cursor()
                if dead:
                    self.daemon.kill()
                self.docker.call("restart", "--time", "0", name)
                if dead:
                    self.daemon.start()
                self.wait_confined_again(made, cursor)
                for one in (first, second):
                    self.assert_confined(one)
                    done = self.docker.call("exec", one, "nslookup", "-type=a", "given.test")
                    self.assertIn(A4, done.stdout.decode())
        self.assertEqual(self.daemon.phase(made["name"], "run").status, 200)

    def test_members_reach_who_was_restarted(self):
        """At the address that it has again. Where it was, nobody else is reached."""
        network = self.network("again")
        first, _ = self.container("--network", network)
        second, _ = self.container("--network", network)
        address = self.address(second, network)
        made = self.attach(first, second, policy={"network_policy": NO_NETWORK})
        self.assertEqual(self.connect(self.probe(first), address), "ECONNREFUSED")
        self.docker.call("stop", "--time", "0", second)
        stranger, _ = self.container("--network", network)
        self.assertEqual(self.address(stranger, network), address)
        self.wait_connect(first, address, "EPERM")
        cursor = self.cursor()
        self.docker.call("start", second)
        self.wait_confined_again(made, cursor)
        self.wait_connect(second, self.address(first, network), "ECONNREFUSED")
        self.assertEqual(self.connect(self.probe(first), address), "EPERM")
        self.docker.call("stop", "--time", "0", second)
        self.docker.remove(stranger)
        for dead in (False, True):
            with self.subTest(dead=dead):
                cursor = self.cursor()
                if dead:
                    self.daemon.kill()
                self.docker.call("restart", "--time", "0", second)
                self.assertEqual(self.address(second, network), address)
                if dead:
                    self.daemon.start()
                self.wait_confined_again(made, cursor)
                self.wait_connect(first, address, "ECONNREFUSED")

    def wait_connect(self, name, address, errno):
        agent = self.probe(name)
        began = time.monotonic()
        while self.connect(agent, address) != errno:
            self.assertLess(time.monotonic() - began, LIMIT, (name, address, errno))
            time.sleep(0.05)

    def test_init_further_down(self):
        """A container that moves itself into a cgroup below its own is confined as a whole."""
        name, identity = self.container("--volume", f"{cgroups.mount2()}:/c2")
        accept = {"accept": ["cgroup_writable"]}
        self.refused("exposure_refused", "/c2", container=name)
        made = self.attach(name, **accept)
        path = made["members"][0]["cgroup"]
        self.daemon.destroy(made["name"], "release")
        self.docker.call("exec", name, "/bin/busybox", "mkdir", f"/c2{path}/init.scope")
        self.docker.call("exec", name, "/bin/sh", "-c",
                         f"echo 1 >/c2{path}/init.scope/cgroup.procs")
        made = self.attach(name, **accept)
        self.assertEqual(os.path.basename(made["members"][0]["cgroup"]), identity)
        self.assert_confined(name)


if __name__ == "__main__":
    main()
