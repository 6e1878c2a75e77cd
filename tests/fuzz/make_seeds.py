#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the policy vectors as one file a seed: make_seeds.py VECTORS SEEDS."""

import json
import pathlib
import sys

vectors, seeds = map(pathlib.Path, sys.argv[1:])
seeds.mkdir(parents=True, exist_ok=True)

documents = [
    json.loads(line)["doc"]
    for line in (vectors / "policy_documents.jsonl").read_text().splitlines()
]
for line in (vectors / "policy_entries.tsv").read_text().splitlines():
    if not line.startswith("#"):
        entry = line.split("\t")[0]
        documents.append(
            '{"network_policy":{"network_mode":"allowlist","allowed_hosts":[%s]}}' % entry
        )
for number, document in enumerate(documents):
    (seeds / f"{number:03}").write_text(document)
