#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dataclasses and the requests have the fields that docs/openapi.yaml describes, and the
package needs nothing but Python 3.9."""

import ast
import dataclasses
import glob
import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
import typing
import unittest

import openapi
from phasegate import model, wire

SOURCES = os.environ["PHASEGATE_SOURCE"]
PACKAGE = f"{SOURCES}/python/phasegate"
SCHEMAS = openapi.SCHEMAS
NETWORK = SCHEMAS["ContainerNetwork"]["properties"]
NESTED = {"Block": NETWORK["blocks"]["items"], "Proxy": NETWORK["proxies"]["items"],
          "Modes": SCHEMAS["Environment"]["properties"]["modes"],
          "Member": SCHEMAS["Environment"]["properties"]["members"]["items"],
          "Entry": SCHEMAS["ResolvedPhase"]["properties"]["entries"]["items"],
          "PhaseVerdict": SCHEMAS["Explanation"]["properties"]["phases"]["additionalProperties"],
          "Operator": SCHEMAS["Capabilities"]["properties"]["operator"]}
# Not schemas of their own: lists of others.
WITHOUT = {"Destroyed", "EnvironmentList", "Event", "EventPage"}


def classes():
    return {name: value for name, value in vars(model).items() if dataclasses.is_dataclass(value)}


class Model(unittest.TestCase):
    def test_fields(self):
        for name, cls in classes().items():
            if name in WITHOUT:
                continue
            schema = NESTED.get(name) or SCHEMAS[name]
            fields = {field.name: field for field in dataclasses.fields(cls)}
            properties = dict(schema["properties"])
            # YAML's merge key, which not every reader resolves.
            properties.update(properties.pop("<<", {}))
            self.assertEqual(set(fields), set(properties), name)
            required = {n for n, f in fields.items() if f.default is dataclasses.MISSING}
            self.assertEqual(required, set(schema["required"]), name)

    def test_null_where_it_may_be(self):
        for name, cls in classes().items():
            if name in WITHOUT:
                continue
            schema = NESTED.get(name) or SCHEMAS[name]
            for field, hint in typing.get_type_hints(cls).items():
                described = openapi.resolve(schema["properties"][field])
                if described.get("nullable"):
                    self.assertIn(type(None), typing.get_args(hint), f"{name}.{field}")

    def test_fields_of_requests(self):
        for function, schema in ((wire.create, "Create"), (wire.update_policy, "SetPolicy"),
                                 (wire.validate, "PolicyInput"), (wire.verify, "Verify")):
            names = set(inspect.signature(function).parameters)
            self.assertEqual(names - {"name"}, set(SCHEMAS[schema]["properties"]) - {"name"})
        names = set(inspect.signature(wire.set_phase).parameters) - {"name", "then"}
        self.assertEqual(names, set(SCHEMAS["SetPhase"]["properties"]))

    def test_every_route(self):
        requests = (wire.capabilities(), wire.validate({}), wire.create("e", {}),
                    wire.environments(), wire.show("e"), wire.set_phase("e", "run"),
                    wire.update_policy("e", {}), wire.explain("e", "h"), wire.events(),
                    wire.verify("e"), wire.destroy("e"))
        ours = {(r.method, r.target.split("?")[0].replace("/e/", "/{name}/"))
                for r in requests if not r.target.endswith("/e")}
        ours |= {(r.method, "/v1/environments/{name}") for r in requests
                 if r.target.endswith("/e")}
        described = {(method.upper(), path) for path, item in openapi.SPEC["paths"].items()
                     for method in item if method != "parameters"}
        self.assertEqual(ours, described)

    def test_words(self):
        self.assertEqual(list(model.PHASES), SCHEMAS["Phase"]["enum"])
        self.assertEqual(list(model.SURVIVOR_CHOICES), SCHEMAS["SurvivorChoice"]["enum"])

    def test_capabilities(self):
        given = {"version": "1", "abi": 1, "kernel": "6", "modes": ["public"], "phases": [],
                 "hostnames": True, "wildcards": False, "addresses": {"ipv6": True},
                 "phase_switching": True, "policy_update": True, "connection_closing": True,
                 "leases": True, "events": True, "survivors": [], "verifier": [], "members": [],
                 "runtimes": ["docker"], "guards": {}, "limits": {},
                 "operator": {"never_allow": ["::1"], "host_ports": None,
                              "exposures": {"vsock": "warn"}}}
        found = model.decode(model.Capabilities, given)
        self.assertEqual(found.operator.never_allow, ("::1",))
        self.assertEqual(found.missing("hostnames", "wildcards", "modes:public", "runtimes:podman",
                                       "addresses:ipv6", "addresses:ipv4", "no_such"),
                         ("wildcards", "runtimes:podman", "addresses:ipv4", "no_such"))


class Package(unittest.TestCase):
    def files(self):
        files = glob.glob(f"{PACKAGE}/*.py")
        self.assertGreater(len(files), 5)
        for path in files:
            with open(path, encoding="utf-8") as file:
                yield path, file.read()

    def test_oldest_python(self):
        for path, text in self.files():
            ast.parse(text, path, feature_version=(3, 9))

    def test_standard_library_only(self):
        for path, text in self.files():
            for node in ast.walk(ast.parse(text)):
                names = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    names = [node.module]
                for name in names:
                    if hasattr(sys, "stdlib_module_names"):
                        self.assertIn(name.split(".")[0], sys.stdlib_module_names, path)

    def test_typed(self):
        """And whoever follows the README has no more to tell their type checker."""
        self.assertTrue(os.path.exists(f"{PACKAGE}/py.typed"))
        if not shutil.which("mypy"):
            self.skipTest("needs mypy")
        with open(f"{SOURCES}/README.md", encoding="utf-8") as file:
            blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)
        with tempfile.NamedTemporaryFile("w", suffix=".py", encoding="utf-8") as file:
            file.write("\n".join(blocks))
            file.flush()
            done = subprocess.run(
                ["mypy", "--strict", "--python-version", "3.9", "--cache-dir", os.devnull, PACKAGE,
                 file.name], capture_output=True, text=True, check=False,
                env={**os.environ, "MYPYPATH": os.path.dirname(PACKAGE)})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
