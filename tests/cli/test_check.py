#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""phasegate check: test_check.py BINARY VECTORS."""

import json
import os
import pathlib
import tempfile
import unittest

from cli import BINARY, VECTORS, main, phasegate

PHASES = ("setup", "run", "verifier")
ALLOWLIST = (
    '{"run_network_policy":{"network_mode":"allowlist","allowed_hosts":["a.example","10.0.0.0/8"]}}'
)


def check_json(text, *arguments):
    done = phasegate("check", "-", "--json", *arguments, stdin=text.encode())
    result = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1, "one object, one line"
    return done.returncode, result


class Vectors(unittest.TestCase):
    def test_documents(self):
        for line in (VECTORS / "policy_documents.jsonl").read_text().splitlines():
            vector = json.loads(line)
            with self.subTest(vector["name"]):
                self.check_document(vector)

    def check_document(self, vector):
        status, result = check_json(vector["doc"])
        if "ok" in vector:
            self.assertEqual(status, 0)
            self.assertIs(result["ok"], True)
            modes = {phase: result["phases"][phase]["network_mode"] for phase in PHASES}
            self.assertEqual(modes, vector["ok"])
            codes = [warning["code"] for warning in result["warnings"]]
            self.assertEqual(codes, [vector["warning"]] if "warning" in vector else [])
            if "entries" in vector:
                self.assertEqual(len(result["phases"]["run"]["entries"]), vector["entries"])
            return
        self.assertEqual(status, 2)
        self.assertIs(result["ok"], False)
        expected = vector.get("errors", [vector.get("error")])
        self.assertEqual(len(result["errors"]), len(expected))
        for found, wanted in zip(result["errors"], expected):
            self.assertLessEqual(wanted.items(), found.items())
            self.assertTrue(found["message"])

    def test_entries(self):
        for line in (VECTORS / "policy_entries.tsv").read_text().splitlines():
            if line.startswith("#"):
                continue
            text, verdict, kind_or_code, form_or_hint = line.split("\t")
            with self.subTest(text):
                self.check_entry(text, verdict, kind_or_code, form_or_hint)

    def check_entry(self, text, verdict, kind_or_code, form_or_hint):
        status, result = check_json(
            '{"network_policy":{"network_mode":"allowlist","allowed_hosts":[%s]}}' % text
        )
        if verdict == "ok":
            self.assertEqual(status, 0)
            entry = {"kind": kind_or_code, "value": form_or_hint}
            for phase in PHASES:
                self.assertEqual(result["phases"][phase]["entries"], [entry])
            return
        self.assertEqual(status, 2)
        (error,) = result["errors"]
        self.assertEqual(error["code"], kind_or_code)
        self.assertEqual(error["hint"] or "", form_or_hint)
        self.assertEqual(error["pointer"], "/network_policy/allowed_hosts/0")


class Human(unittest.TestCase):
    def test_lines(self):
        done = phasegate("check", "--policy", ALLOWLIST)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "")
        lines = done.stdout.splitlines()
        self.assertEqual(
            lines[:3],
            [
                "setup_network_mode=public",
                "run_network_mode=allowlist",
                "verifier_network_mode=public",
            ],
        )
        self.assertIn("setup: default", lines)
        self.assertIn("run: 2 entries (1 host, 1 cidr4), document --policy", lines)

    def test_errors(self):
        text = b'{"run_network_policy":{"network_mode":"allowlist","allowed_hosts":["10.0.0.1/8"]}}'
        done = phasegate("check", "-", stdin=text)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stdout, "")
        for part in (
            "/run_network_policy/allowed_hosts/0: cidr_host_bits",
            'read:  "10.0.0.1/8"',
            "why:   the address has bits set",
            'write: "10.0.0.0/8"',
        ):
            self.assertIn(part, done.stderr)

    def test_warnings(self):
        text = b'{"network_policy":{"network_mode":"allowlist","allowed_hosts":[]}}'
        done = phasegate("check", "-", stdin=text)
        self.assertEqual(done.returncode, 0)
        self.assertIn("empty_allowlist", done.stderr)

    def test_terminal_is_safe(self):
        done = phasegate("check", "-", stdin=b'{"\\u001b[31m":"\\u0007"}')
        self.assertEqual(done.returncode, 2)
        self.assertNotIn("\x1b", done.stderr)


class Sources(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def test_file(self):
        path = self.write("a.json", ALLOWLIST)
        done = phasegate("check", path, "--json")
        self.assertEqual(done.returncode, 0)
        run = json.loads(done.stdout)["phases"]["run"]
        self.assertEqual((run["origin"], run["document"]), ("document", path))

    def test_later_document_replaces_a_field(self):
        first = self.write("a.json", '{"network_policy":"no-network","run_network_policy":"public"}')
        second = self.write("b.json", ALLOWLIST)
        done = phasegate("check", first, "--policy", second, "--json")
        phases = json.loads(done.stdout)["phases"]
        self.assertEqual(phases["setup"]["document"], first)
        self.assertEqual(phases["run"]["document"], second)
        self.assertEqual(phases["verifier"]["origin"], "inherited")
        done = phasegate("check", "--policy", second, first, "--json")
        self.assertEqual(json.loads(done.stdout)["phases"]["run"]["network_mode"], "public")

    def test_allow(self):
        done = phasegate("check", "--policy", ALLOWLIST, "--allow", "run=B.example", "--json")
        run = json.loads(done.stdout)["phases"]["run"]
        self.assertEqual(run["added"], 1)
        self.assertEqual(run["entries"][-1], {"kind": "host", "value": "b.example"})
        done = phasegate("check", "--policy", ALLOWLIST, "--allow", "setup=b.example", "--json")
        self.assertEqual(done.returncode, 2)
        (error,) = json.loads(done.stdout)["errors"]
        self.assertEqual((error["code"], error["document"]), ("allow_needs_allowlist", "--allow"))
        for wrong in ("b.example", "agent=b.example", "=b"):
            done = phasegate("check", "--policy", ALLOWLIST, "--allow", wrong)
            self.assertEqual(done.returncode, 2)
            self.assertIn("PHASE=ENTRY", done.stderr)

    def test_env_params(self):
        text = '{"image":"x","cpus":2,"run_network_policy":"no-network"}'
        self.assertEqual(check_json(text)[0], 2)
        status, result = check_json(text, "--env-params")
        self.assertEqual(status, 0)
        self.assertEqual(result["phases"]["run"]["network_mode"], "no-network")
        status, result = check_json('{"run_network_polcy":"no-network"}', "--env-params")
        self.assertEqual((status, result["errors"][0]["hint"]), (2, "run_network_policy"))

    def test_env_params_without_a_policy(self):
        for text in ('{"image":"x"}', '{"env":{"run_network_policy":"no-network"}}', "{}"):
            status, result = check_json(text, "--env-params")
            self.assertEqual(status, 0)
            (warning,) = result["warnings"]
            self.assertEqual(warning["code"], "no_policy_field")
            self.assertEqual(warning["message"], "no policy field found: every phase is public")
        for text in ('{"image":"x","run_network_policy":"public"}', '{"network_policy":null}'):
            self.assertEqual(check_json(text, "--env-params")[1]["warnings"], [])
        done = phasegate("check", "--env-params", "--policy", "{}", "--policy", ALLOWLIST, "--json")
        self.assertEqual(json.loads(done.stdout)["warnings"], [])
        self.assertEqual(check_json("{}")[1]["warnings"], [])

    def test_fields_in_another_spelling(self):
        for key, field in (
            ("runNetworkPolicy", "run_network_policy"),
            ("RUN_NETWORK_POLICY", "run_network_policy"),
            ("RUN-NETWORK-POLICY", "run_network_policy"),
            ("run network policy", "run_network_policy"),
            ("NetworkPolicy", "network_policy"),
            ("verifier.network.policy", "verifier_network_policy"),
        ):
            for arguments in ((), ("--env-params",)):
                status, result = check_json(json.dumps({key: "no-network"}), *arguments)
                self.assertEqual(status, 2, key)
                (error,) = result["errors"]
                self.assertEqual((error["code"], error["hint"]), ("unknown_field", field))
        for key in ("docker_network_policy", "policy", "network", "allow_internet"):
            self.assertEqual(check_json(json.dumps({key: 1}), "--env-params")[0], 0, key)

    def test_standard_input_twice(self):
        done = phasegate("check", "-", "--policy", "-", stdin=b"{}")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("standard input was read already", done.stderr)

    def test_unreadable(self):
        for path in (str(self.folder / "missing"), str(self.folder)):
            done = phasegate("check", path)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stdout, "")
            self.assertIn(path, done.stderr)

    def test_not_json(self):
        for text in (b"", b"\xff\xfe", b"{", b"{}{}", b"public"):
            done = phasegate("check", "-", stdin=text)
            self.assertEqual(done.returncode, 2)
            self.assertIn("json_syntax", done.stderr)

    def test_too_large(self):
        path = self.folder / "large"
        with open(path, "wb") as file:
            file.write(b"{}")
            file.truncate(64 * 1024 * 1024 + 1)
        done = phasegate("check", str(path), "--json")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(json.loads(done.stdout)["errors"][0]["code"], "document_too_large")
        with open(path, "rb") as file:
            done = phasegate("check", "-", "--json", stdin=file.read())
        self.assertEqual(json.loads(done.stdout)["errors"][0]["code"], "document_too_large")

    def test_log_file(self):
        log = self.folder / "log"
        done = phasegate(
            "check", "--policy", ALLOWLIST, "--log-file", str(log), "--file-log-level", "debug"
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = log.read_text().splitlines()
        self.assertEqual(sum(" info run_network_mode=allowlist" in line for line in lines), 1)
        (policy,) = [line for line in lines if " debug run policy " in line]
        self.assertEqual(len(json.loads(policy.split(" policy ")[1])["entries"]), 2)
        done = phasegate("check", "--policy", "{}", "--log-level", "info")
        self.assertIn("setup_network_mode=public", done.stderr)
        done = phasegate("check", "--policy", "{}", "--log-file", str(log / "x"))
        self.assertEqual(done.returncode, 2)

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_output_that_cannot_be_written(self):
        path = self.write("a.json", ALLOWLIST)
        self.assertEqual(os.waitstatus_to_exitcode(spawn_to_full(path)), 1)


def spawn_to_full(path):
    full = os.open("/dev/full", os.O_WRONLY)
    null = os.open(os.devnull, os.O_WRONLY)
    child = os.posix_spawn(
        BINARY,
        [BINARY, "check", path],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, full, 1), (os.POSIX_SPAWN_DUP2, null, 2)],
    )
    os.close(full)
    os.close(null)
    return os.waitpid(child, 0)[1]


if __name__ == "__main__":
    main()
