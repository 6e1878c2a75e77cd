# SPDX-License-Identifier: Apache-2.0
"""Stopping `phasegate run` at a step of its start. Needs a build with PHASEGATE_TEST_HOOKS."""

import os
import re

AVAILABLE = os.environ.get("PHASEGATE_TEST_HOOKS", "").upper() in ("1", "ON", "TRUE", "YES")


def names(table="PG_STEPS"):
    """The steps in their order, from the list that the program itself is built with: those of
    every start, or of PG_KEPT_STEPS."""
    with open(os.environ["PHASEGATE_STEPS"], encoding="utf-8") as file:
        text = file.read().split(f"#define {table}(X)")[1].split("\n\n")[0]
    found = re.findall(r'^\s*X\(\w+,.*?"([a-z0-9-]+)"', text, re.MULTILINE)
    assert found, "no steps in " + os.environ["PHASEGATE_STEPS"]
    return found


def stop_at(step):
    return {"PHASEGATE_TEST_STOP_AT": step}
