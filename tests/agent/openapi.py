# SPDX-License-Identifier: Apache-2.0
"""Checks replies against docs/openapi.yaml: the part of JSON Schema that it uses."""

import os
import re

import yaml

PATH = os.environ.get(
    "PHASEGATE_OPENAPI",
    os.path.join(os.path.dirname(__file__), "../../docs/openapi.yaml"))

with open(PATH, encoding="utf-8") as _file:
    SPEC = yaml.safe_load(_file)

SCHEMAS = SPEC["components"]["schemas"]
CODES = SCHEMAS["ErrorCode"]["enum"]
STATUS = SCHEMAS["ErrorCode"]["x-status"]
# What has been seen in this process, for tests of completeness.
seen_codes = set()

_TYPES = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
}


def resolve(node):
    while "$ref" in node:
        target = SPEC
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def _check_object(value, schema, where):
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            raise AssertionError(f"{where}: {name} is missing")
    for name, item in value.items():
        more = schema.get("additionalProperties", True)
        if name in properties:
            check(item, properties[name], f"{where}/{name}")
        elif more is False:
            raise AssertionError(f"{where}: {name} is not described")
        elif isinstance(more, dict):
            check(item, more, f"{where}/{name}")


def check(value, schema, where=""):
    schema = resolve(schema)
    if value is None and schema.get("nullable"):
        return
    for part in schema.get("allOf", ()):
        check(value, part, where)
    kind = schema.get("type")
    if kind and not _TYPES[kind](value):
        raise AssertionError(f"{where}: {value!r} is not of type {kind}")
    if "enum" in schema and value not in schema["enum"]:
        raise AssertionError(f"{where}: {value!r} is none of {schema['enum']}")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        raise AssertionError(f"{where}: {value!r} does not match {schema['pattern']}")
    if kind == "object":
        _check_object(value, schema, where)
    elif kind == "array":
        for index, item in enumerate(value):
            check(item, schema.get("items", {}), f"{where}/{index}")


def _operation(method, target):
    path = target.split("?")[0]
    for pattern, item in SPEC["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path):
            return item.get(method.lower())
    return None


def check_reply(method, target, status, kind, body):
    where = f"{method} {target}: {status}"
    operation = _operation(method, target)
    if status < 400:
        content = operation["responses"][str(status)]["content"]
        for item in body if kind == "application/x-ndjson" else [body]:
            check(item, content[kind]["schema"], where)
        return
    check(body, SCHEMAS["Error"], where)
    if STATUS[body["code"]] != status:
        raise AssertionError(f"{where}: {body['code']} has status {STATUS[body['code']]}")
    seen_codes.add(body["code"])
