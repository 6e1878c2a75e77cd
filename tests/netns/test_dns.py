# SPDX-License-Identifier: Apache-2.0
"""Host names: resolved at load, and DNS open to the trusted resolver only where names need it."""

import signal
import tempfile
import time

import vectors
from harness import NetTest, main, token
from lab import A4, A6, D4, D6, R4, R6, mapped
from nameserver import MISSING, NAME, OTHER, Nameserver
from phasegate import NO_NETWORK, PUBLIC, allowlist, policy
from recorder import DNS_PORT, PORT

NAMES = policy(setup=allowlist(A4), run=allowlist(NAME), verifier=NO_NETWORK)


class Dns(NetTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.nameserver = Nameserver(cls.lab)

    def setUp(self):
        super().setUp()
        self.queries()

    def queries(self):
        def fence():
            self.query(self.unconfined, R4, "fence.invalid")

        return self.nameserver.queries(fence)

    def query(self, agent, server, name):
        agent("socket 60 udp" + ("6" if ":" in server else "4"))
        result = agent(f"connect 60 {server} {DNS_PORT}")
        if not result["errno"]:
            agent(f"query 60 {name}")
            result = agent("recv 60")
        agent("close 60")
        return result

    def dns_is_denied(self, agent, addresses_open):
        self.capture.drain()
        for server in (R4, R6):
            self.assertEqual(self.query(agent, server, OTHER)["errno"], "EPERM")
        for server in (R4, R6, mapped(R4), A4, A6, D4):
            for vector in (vectors.udp_connected, vectors.udp_sendto, vectors.udp_sendmmsg,
                           vectors.tcp):
                if server in (A4, A6) and addresses_open:
                    continue
                self.assert_denied(agent, vector, server, DNS_PORT)
        self.assert_silent(R4, R6, D4)

    def test_denied_without_names(self):
        for value in (NO_NETWORK, allowlist(A4, A6)):
            with self.subTest(value=value), \
                    self.agent("--policy", policy(run=value), "--resolver", R4) as agent:
                self.dns_is_denied(agent, value != NO_NETWORK)
        self.assertEqual(self.queries(), [])

    def test_denied_in_the_phases_without_names(self):
        """Of a policy that has names in another phase."""
        for phase in ("setup", "verifier"):
            with self.subTest(phase=phase), \
                    self.agent("--policy", NAMES, "--resolver", R4, "--phase", phase) as agent:
                self.queries()
                self.dns_is_denied(agent, phase == "setup")
                self.assertNotIn(OTHER, self.queries())

    def test_name_resolves_and_connects(self):
        for resolver in (R4, R6, f"{R4}:53", f"[{R6}]:53"):
            with self.subTest(resolver=resolver), \
                    self.agent("--policy", NAMES, "--resolver", resolver) as agent:
                self.assertIn(NAME, self.queries())
                for address in (A4, A6, mapped(A4)):
                    self.assert_reaches(agent, vectors.tcp, address, PORT)
                    self.assert_reaches(agent, vectors.udp_sendto, address, PORT)
                for address in (D4, D6, mapped(D4)):
                    self.assert_denied(agent, vectors.tcp, address, PORT)
                self.assert_silent(D4, D6)

    def test_the_resolver_is_reached_on_port_53_only(self):
        with self.agent("--policy", NAMES, "--resolver", R4) as agent:
            self.queries()
            self.assertEqual(self.query(agent, R4, OTHER)["errno"], "")
            self.assertEqual(self.query(agent, mapped(R4), OTHER)["errno"], "")
            self.assertEqual(self.queries(), [OTHER, OTHER])
            for server, port in ((R4, PORT), (R4, 853), (R6, DNS_PORT), (D4, DNS_PORT)):
                self.assert_denied(agent, vectors.udp_sendto, server, port)
                self.assert_denied(agent, vectors.tcp, server, port)
            self.assert_silent(R6, D4)
            # TCP to the resolver: a connection, ended without a query.
            agent("socket 0 tcp4")
            self.assertEqual(agent(f"connect 0 {R4} {DNS_PORT}")["errno"], "")

    def test_public_needs_no_resolver(self):
        with self.agent("--policy", policy(run=PUBLIC)) as agent:
            self.assertEqual(self.query(agent, R4, OTHER)["errno"], "")
            self.assert_reaches(agent, vectors.udp_sendto, D4, DNS_PORT)

    def test_applications_resolve_names_themselves(self):
        """getaddrinfo and connect of an ordinary program, with its own resolv.conf."""
        program = ("import socket,sys; s=socket.create_connection((sys.argv[1], 7000), 5);"
                   "s.send(sys.argv[2].encode()); s.shutdown(1); print(s.recv(100).decode())")
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            conf.write(f"nameserver {R4}\n")
            conf.flush()
            mark = token("name")
            run = self.run_command(
                "--policy", NAMES, "--resolver", R4, "--", "unshare", "--mount", "sh", "-c",
                f"mount --bind {conf.name} /etc/resolv.conf && exec /usr/bin/python3 -c "
                f"'{program}' {NAME} {mark}")
            status, output = run.finish()
        self.assertEqual((status, output.strip()), (0, mark), run.stderr)
        self.assertIsNotNone(self.recorder.wait(mark))

    def test_a_name_that_does_not_resolve_is_a_warning(self):
        text = policy(run=allowlist(MISSING, NAME))
        with self.agent("--policy", text, "--resolver", R4) as agent:
            self.assert_reaches(agent, vectors.tcp, A4, PORT)
            self.assert_denied(agent, vectors.tcp, D4, PORT)
            status, _ = agent.finish()
            self.assertEqual(status, 0)
            self.assertIn(MISSING, agent.stderr)

    def warnings(self, code, *names, resolver=R4):
        run = self.run_command("--policy", policy(run=allowlist(*names)), "--resolver", resolver,
                               "--", "true")
        self.assertEqual(run.finish()[0], 0, run.stderr)
        return [e["message"] for e in run.events if e["event"] == "warning" and e["code"] == code]

    def test_few_warnings_for_many_names(self):
        for count in (10, 11, 30):
            names = [f"missing{i:02}.example.com" for i in range(count)]
            messages = self.warnings("unresolved", NAME, *names)
            self.assertEqual(len(messages), min(count, 11))
            for name, message in zip(names[:10], messages):
                self.assertIn(name, message)
            if count > 10:
                self.assertEqual(messages[10], f"{count - 10} more names have no address")

    def test_one_warning_for_a_name_whose_addresses_have_no_room(self):
        """4096 of them have; four names fit, the fifth in part, the sixth not at all."""
        with tempfile.NamedTemporaryFile("w", suffix=".hosts") as hosts:
            for name in range(6):
                for i in range(1000):
                    hosts.write(f"198.18.{name * 8 + i // 250}.{i % 250 + 1} many{name}.example.com\n")
            hosts.flush()
            Nameserver(self.lab, 5353, options=(f"--addn-hosts={hosts.name}",))
            messages = self.warnings("learned_full", *(f"many{i}.example.com" for i in range(6)),
                                     resolver=f"{R4}:5353")
        self.assertEqual(len(messages), 2, messages)
        self.assertEqual(len({message.split()[0] for message in messages}), 2)

    def test_a_silent_resolver_does_not_block_the_start(self):
        """No one has the resolver's address; loading takes at most 5 s."""
        started = time.monotonic()
        with self.agent("--policy", NAMES, "--resolver", "198.51.100.99") as agent:
            self.assertLess(time.monotonic() - started, 8)
            self.assertIn(NAME, agent.stderr)
            self.assert_denied(agent, vectors.tcp, A4, PORT)
            self.assert_reaches(self.unconfined, vectors.tcp, A4, PORT)

    def test_a_signal_ends_the_wait_for_names(self):
        started = time.monotonic()
        run = self.run_command("--policy", NAMES, "--resolver", "198.51.100.99", "--", "true")
        # The query is on its way: the wait for its answer, which never comes, has begun.
        while not self.capture.to("198.51.100.99"):
            self.assertIsNone(run.process.poll(), run.stderr)
        run.process.terminate()
        self.assertEqual(run.finish()[0], 128 + signal.SIGTERM, run.stderr)
        self.assertLess(time.monotonic() - started, 4)

    def test_wildcards_are_refused_by_name(self):
        run = self.run_command("--policy", policy(run=allowlist("*.example.com", A4)),
                               "--resolver", R4, "--", "echo", "started")
        status, output = run.finish()
        self.assertEqual(output, "")
        self.assertIn(status, (2, 125))
        self.assertIn("*.example.com", run.stderr)


if __name__ == "__main__":
    main()
