#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may drive the agent: never from inside of an Environment or a container, whatever the user."""

import grp
import json
import os
import socket
import stat
import subprocess
import sys
import textwrap
import time

import openapi
from agentcase import AgentTest
from daemon import directory_of
from harness import main, patient
from phasegate import NO_NETWORK, started

GROUP = next(g for g in grp.getgrall() if g.gr_gid not in (0, 65534) and not g.gr_mem)
MEMBER, OTHER, STRANGER = 4001, 4002, 4003
SECOND_GROUP = 4100

# Does each request of its arguments, a line of JSON each; it has no other module than these.
CLIENT = textwrap.dedent("""
    import json, socket, sys
    for line in sys.argv[2:]:
        method, target, body = json.loads(line)
        body = json.dumps(body) if body is not None else ""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(sys.argv[1])
            connection.sendall((f"{method} {target} HTTP/1.1\\r\\nHost: x\\r\\n"
                                f"Connection: close\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n"
                                f"{body}").encode())
            reply = b""
            try:
                while part := connection.recv(65536):
                    reply += part
            except ConnectionResetError:
                pass  # refused before all of it was read
        head, _, text = reply.partition(b"\\r\\n\\r\\n")
        print(json.dumps([int(head.split()[1]), json.loads(text.splitlines()[0])]), flush=True)
""")


class Access(AgentTest):
    SETTINGS = {"group": GROUP.gr_name}

    def setUp(self):
        super().setUp()
        os.chmod(self.daemon.directory.name, 0o711)

    def requests(self, prefix, *requests, socket_path=None):
        """Made by another process; prefix is what starts it. Returns [(status, body)...]."""
        lines = [json.dumps(request) for request in requests]
        words = [*prefix, sys.executable, "-I", "-c", CLIENT, socket_path or self.daemon.socket,
                 *lines]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        replies = [json.loads(line) for line in done.stdout.splitlines()]
        for (method, target, _), (status, body) in zip(requests, replies):
            kind = "application/json"
            if "cursor" in body:
                kind, body = "application/x-ndjson", [body]
            openapi.check_reply(method, target, status, kind, body)
        return replies

    def as_user(self, uid, *requests, groups=()):
        who = f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups"
        prefix = ["setpriv", f"--reuid={uid}", f"--regid={uid}", who]
        return self.requests(prefix, *requests)

    def assertRefused(self, replies, code):
        for status, body in replies:
            self.assertEqual((status, body.get("code")), (403, code), body)

    LIST = ("GET", "/v1/environments", None)

    def test_socket_is_closed_to_others(self):
        mode = os.stat(self.daemon.socket)
        self.assertEqual(stat.S_IMODE(mode.st_mode), 0o660)
        self.assertEqual((mode.st_uid, mode.st_gid), (0, GROUP.gr_gid))
        done = subprocess.run(
            ["setpriv", f"--reuid={STRANGER}", "--clear-groups", "--regid=4003", sys.executable,
             "-I", "-c", CLIENT, self.daemon.socket, json.dumps(self.LIST)],
            capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("PermissionError", done.stderr)

    def test_stranger_is_refused_even_with_an_open_socket(self):
        os.chmod(self.daemon.socket, 0o666)
        self.addCleanup(os.chmod, self.daemon.socket, 0o660)
        self.assertRefused(self.as_user(STRANGER, self.LIST), "not_permitted")
        self.assertRefused(self.as_user(STRANGER, self.LIST, groups=[SECOND_GROUP]),
                           "not_permitted")

    def test_environments_belong_to_their_user(self):
        group = [GROUP.gr_gid]
        name = self.name()
        create = ("POST", "/v1/environments", {"name": name, "policy": {}})
        self.daemon.names.add(name)
        (status, made), = self.as_user(MEMBER, create, groups=group)
        self.assertEqual((status, made["owner"]), (201, MEMBER), made)
        mine = self.create()
        target = f"/v1/environments/{name}"
        calls = [("GET", target, None), ("PUT", target + "/phase", {"phase": "run"}),
                 ("PUT", target + "/policy", {"policy": {}}),
                 ("GET", target + "/explain?host=1.1.1.1", None), ("DELETE", target, None)]
        for status, body in self.as_user(OTHER, *calls, groups=group):
            self.assertEqual((status, body["code"]), (404, "environment_not_found"))
        (status, body), = self.as_user(OTHER, create, groups=group)
        self.assertEqual((status, body["code"]), (409, "name_taken"))
        (_, listed), (_, event) = self.as_user(
            MEMBER, self.LIST, ("GET", "/v1/events", None), groups=group)
        self.assertEqual([e["name"] for e in listed["environments"]], [name])
        self.assertEqual(event["environment"], name)
        (_, listed), (_, event) = self.as_user(
            OTHER, self.LIST, ("GET", "/v1/events", None), groups=group)
        self.assertEqual(listed["environments"], [])
        self.assertEqual(event["event"], "cursor")
        replies = self.as_user(MEMBER, *calls, groups=group)
        self.assertEqual([status for status, _ in replies], [200] * len(calls), replies)
        self.assertEqual(self.daemon.show(mine["name"]).status, 200)

    def test_members_of_others(self):
        root = self.make_cgroup("r")
        own = self.make_cgroup("o")
        os.chown(directory_of({"members": [{"cgroup": own}]}), MEMBER, MEMBER)
        process = self.start_in(directory_of({"members": [{"cgroup": root}]}), "sleep", "1000")
        self.wait_in(directory_of({"members": [{"cgroup": root}]}), process.pid)

        def create(member):
            name = self.name()
            self.daemon.names.add(name)
            return ("POST", "/v1/environments", {"name": name, "policy": {}, "members": [member]})

        replies = self.as_user(MEMBER, create({"cgroup": root}), create({"pid": process.pid}),
                               create({"cgroup": own}), groups=[GROUP.gr_gid])
        self.assertEqual([body.get("code", status) for status, body in replies],
                         ["member_not_yours", "member_not_yours", 201])

    def inside(self, directory):
        return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', directory]

    def all_calls(self, name):
        target = f"/v1/environments/{name}"
        return [self.LIST, ("GET", "/v1/capabilities", None), ("GET", target, None),
                ("POST", "/v1/validate", {"policy": {}}),
                ("POST", "/v1/environments", {"name": self.name(), "policy": {}}),
                ("PUT", target + "/phase", {"phase": "setup"}),
                ("PUT", target + "/policy", {"policy": {}}), ("DELETE", target, None),
                ("GET", "/v1/events", None)]

    def test_inside_of_an_environment(self):
        made = self.create({"network_policy": NO_NETWORK})
        directory = directory_of(made)
        calls = self.all_calls(made["name"])
        self.assertRefused(self.requests(self.inside(directory), *calls), "peer_refused")
        os.mkdir(directory + "/below")
        self.assertRefused(self.requests(self.inside(directory + "/below"), *calls),
                           "peer_refused")
        # In namespaces of its own as a container is, with the socket mounted into it.
        containers = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc",
                      "--cgroup"]
        self.assertRefused(self.requests([*self.inside(directory), *containers], *calls),
                           "peer_refused")
        self.assertEqual(self.daemon.show(made["name"])["generation"], 1)

    def test_inside_of_what_outlives_an_environment(self):
        """It is denied everything, and does not make an Environment of itself."""
        made = self.create({"network_policy": NO_NETWORK})
        orphan = os.path.dirname(directory_of(made)) + "/orphan"
        os.mkdir(orphan)
        self.addCleanup(os.rmdir, orphan)
        self.assertRefused(self.requests(self.inside(orphan), *self.all_calls(made["name"])),
                           "peer_refused")

    def test_inside_of_a_member_that_was_there_before(self):
        cgroup = self.make_cgroup("m")
        made = self.create({"network_policy": NO_NETWORK}, members=[{"cgroup": cgroup}])
        self.assertRefused(self.requests(self.inside(directory_of(made)), self.LIST),
                           "peer_refused")

    def test_inside_of_phasegate_run(self):
        run = self.run_command("--policy", json.dumps({"network_policy": NO_NETWORK}), "--",
                               sys.executable, "-I", "-c", CLIENT, self.daemon.socket,
                               json.dumps(self.LIST))
        status, output = run.finish()
        self.assertEqual(status, 0, run.stderr)
        self.assertEqual(json.loads(output)[1]["code"], "peer_refused")

    def test_foreign_namespaces(self):
        for words in (["--pid", "--fork", "--mount-proc"], ["--user", "--map-root-user"],
                      ["--user", "--map-root-user", "--pid", "--fork"]):
            self.assertRefused(self.requests(["unshare", *words], self.LIST), "peer_refused")
        # Others make no difference.
        for words in (["--mount"], ["--net"], ["--uts", "--ipc"]):
            (status, _), = self.requests(["unshare", *words], self.LIST)
            self.assertEqual(status, 200, words)

    def test_moved_into_an_environment_after_connecting(self):
        made = self.create({"network_policy": NO_NETWORK})
        code = textwrap.dedent("""
            import os, socket, sys
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(sys.argv[1])
            def ask():
                connection.sendall(b"GET /v1/environments HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
                return connection.recv(65536).split()[1].decode()
            first = ask()
            with open(sys.argv[2] + "/cgroup.procs", "w") as file:
                file.write("0")
            print(first, ask())
        """)
        done = subprocess.run([sys.executable, "-I", "-c", code, self.daemon.socket,
                               directory_of(made)], capture_output=True, text=True, timeout=60,
                              check=True)
        self.assertEqual(done.stdout.split(), ["200", "403"])

    def test_connection_of_a_process_that_has_ended(self):
        """Whoever it left the descriptor to does not speak for it."""
        ours, theirs = socket.socketpair()
        code = textwrap.dedent("""
            import socket, sys
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(sys.argv[1])
            with socket.socket(fileno=int(sys.argv[2])) as other:
                socket.send_fds(other, [b"x"], [connection.fileno()])
        """)
        process = subprocess.Popen([sys.executable, "-I", "-c", code, self.daemon.socket,
                                    str(theirs.fileno())], pass_fds=[theirs.fileno()])
        started.add(process.pid)
        _, (descriptor,), _, _ = socket.recv_fds(ours, 1, 1)
        self.assertEqual(process.wait(), 0)
        ours.close()
        theirs.close()
        with socket.socket(fileno=descriptor) as connection:
            connection.settimeout(30)
            connection.sendall(b"GET /v1/environments HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertEqual(connection.recv(65536).split()[1], b"403")

    def test_refused_ones_keep_nobody_out(self):
        os.chmod(self.daemon.socket, 0o666)
        self.addCleanup(os.chmod, self.daemon.socket, 0o660)
        code = textwrap.dedent("""
            import socket, sys
            held = []
            for _ in range(500):
                held.append(socket.socket(socket.AF_UNIX))
                held[-1].settimeout(10)
                held[-1].connect(sys.argv[1])
            print("ready", flush=True)
            sys.stdin.read()
        """)
        process = subprocess.Popen(
            ["setpriv", f"--reuid={STRANGER}", "--clear-groups", "--regid=4003", sys.executable,
             "-I", "-c", code, self.daemon.socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.add(process.pid)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        began = time.monotonic()
        self.assertEqual(self.daemon.call("GET", "/v1/environments").status, 200)
        self.assertLess(time.monotonic() - began, patient(5))
        process.stdin.close()
        process.stdout.close()
        process.wait()


if __name__ == "__main__":
    main()
