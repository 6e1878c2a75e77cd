#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/openapi.yaml says what the sources say: codes with their statuses, paths, query fields, and
fields of requests; and so does docs/bounds.md."""

import os
import re
import sys
import unittest

import openapi

SOURCES = sys.argv.pop(1)


def read(name):
    with open(f"{SOURCES}/user/agent/{name}", encoding="utf-8") as file:
        return file.read()


class Spec(unittest.TestCase):
    def test_codes(self):
        rows = re.findall(r'X\(\w+, (\d+), "(\w+)"', read("error_codes.h"))
        self.assertEqual([code for _, code in rows], openapi.CODES)
        self.assertEqual({code: int(status) for status, code in rows}, openapi.STATUS)

    def test_every_code_is_provoked(self):
        """By a test with a real agent. Two are not: 4,096 Environments take minutes, and no way
        to a fault of the agent's own is known."""
        tests = ""
        for layer in ("agent", "containers"):
            for name in os.listdir(f"{SOURCES}/tests/{layer}"):
                if name.startswith("test_") and name != "test_spec.py":
                    with open(f"{SOURCES}/tests/{layer}/{name}", encoding="utf-8") as file:
                        tests += file.read()
        missing = {code for code in openapi.CODES if f'"{code}"' not in tests}
        self.assertEqual(missing - {"internal"}, {"too_many_environments"})

    def test_paths(self):
        rows = re.findall(r'X\("(\w+)", "([^"]+)", \w+,\s+(?:\\\s+)?"([^"]*)"', read("request.h"))
        self.assertGreater(len(rows), 8)
        wanted = {(method, path.replace("*", "{name}")): set(query.split())
                  for method, path, query in rows}
        described = {}
        for path, item in openapi.SPEC["paths"].items():
            for method, operation in item.items():
                if method != "parameters":
                    query = {p["name"] for p in map(openapi.resolve,
                                                    operation.get("parameters", ()))
                             if p["in"] == "query"}
                    described[method.upper(), path] = query
        self.assertEqual(described, wanted)

    def test_every_reference_leads_somewhere(self):
        def walk(node):
            if isinstance(node, dict):
                if "$ref" in node:
                    openapi.resolve(node)
                for item in node.values():
                    walk(item)
            elif isinstance(node, list):
                for item in node:
                    walk(item)

        walk(openapi.SPEC)

    def fields(self, name, table):
        text = re.search(table + r"\[\] = \{(.*?)\n\};", read(name), re.S).group(1)
        fields = set(re.findall(r"PG_JSON_FIELD\([\w ]+,\s*(\w+),", text))
        if "PG_POLICY_INPUT_FIELDS" in text:
            fields |= {"policy", "form", "allow"}
        return fields

    def test_exposures(self):
        """One list of them, in all that has one."""
        with open(f"{SOURCES}/user/inspect/exposure.h", encoding="utf-8") as file:
            rows = re.findall(r'X\(\w+, "(\w+)", (\w+),', file.read().replace("\\\n", ""))
        self.assertGreater(len(rows), 20)
        ids = [name for name, _ in rows]
        self.assertEqual(openapi.SCHEMAS["ExposureId"]["enum"], ids)
        with open(f"{SOURCES}/docs/containers.md", encoding="utf-8") as file:
            table = re.search(r"\| id \|.*?\n\n", file.read(), re.S).group()
        described = {}
        for line in table.strip().splitlines()[2:]:
            names, *_, level = line.strip("| ").split(" | ")
            described |= dict.fromkeys(re.findall(r"`(\w+)`", names), level.strip().upper())
        self.assertEqual(described, dict(rows))
        with open(f"{SOURCES}/completions/phasegate.bash", encoding="utf-8") as file:
            words = re.search(r'--accept\)\s+echo "(.*?)"', file.read(), re.S).group(1)
        self.assertEqual(words.replace("\\\n", "").split(), ids)

    def test_fields_of_requests(self):
        for schema, name, table in (
                (openapi.SCHEMAS["Create"], "create.c", r"\bfields"),
                (openapi.SCHEMAS["DnsSettings"], "create.c", "dns_fields"),
                (openapi.SCHEMAS["MemberInput"], "members.c", r"\bfields"),
                (openapi.SCHEMAS["SetPhase"], "api_phase.c", r"\bfields"),
                (openapi.SCHEMAS["SetPhase"]["properties"]["lease"], "api_phase.c",
                 "lease_fields"),
                (openapi.SCHEMAS["SetPolicy"], "api_policy.c", r"\bfields"),
                (openapi.SCHEMAS["Verify"], "api_verify.c", r"\bfields")):
            self.assertEqual(self.fields(name, table), set(schema["properties"]), name)


class Bounds(unittest.TestCase):
    """The table of what a workload can make Phasegate remember."""

    def rows(self):
        with open(f"{SOURCES}/docs/bounds.md", encoding="utf-8") as file:
            return re.findall(r"^\|[^|]*\| ([\d,]+) \| `(\w+)` \|[^|]*\| (\S+) \|$",
                              file.read(), re.M)

    def constants(self):
        """Values of the macros that are numbers, or made of them."""
        found = {}
        macro = re.compile(r"^#define (PG_\w+)[ \t]+\(?([\w *+-]+?)\)?[ \t]*$", re.M)
        headers = [os.path.join(where, name) for folder in ("include", "user")
                   for where, _, names in os.walk(f"{SOURCES}/{folder}") for name in names
                   if name.endswith(".h")]
        for path in headers:
            with open(path, encoding="utf-8") as file:
                found.update(macro.findall(re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)))
        return found

    def value(self, constants, name):
        text = re.sub(r"PG_\w+", lambda match: str(self.value(constants, match[0])),
                      constants[name])
        return eval(re.sub(r"(\d)U?L*\b", r"\1", text), {"__builtins__": {}})

    def test_constants(self):
        constants = self.constants()
        self.assertGreater(len(self.rows()), 25)
        for number, name, _ in self.rows():
            self.assertEqual(self.value(constants, name), int(number.replace(",", "")), name)

    def test_tests(self):
        for _, name, path in self.rows():
            self.assertTrue(path == "none" or os.path.isfile(f"{SOURCES}/{path}"), name)

    def test_fuzzers(self):
        with open(f"{SOURCES}/docs/bounds.md", encoding="utf-8") as file:
            named = set(re.findall(r"tests/fuzz/(fuzz_\w+\.c)", file.read()))
        there = {name for name in os.listdir(f"{SOURCES}/tests/fuzz") if name.endswith(".c")}
        self.assertEqual(named, there)


if __name__ == "__main__":
    unittest.main()
