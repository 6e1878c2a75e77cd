# SPDX-License-Identifier: Apache-2.0
"""Tables of what the vectors did, for people."""

import collections

import rows
from phasegate import NO_NETWORK, PUBLIC
from suite import LIST, judge

MODES = (PUBLIC, NO_NETWORK, LIST, "to A")
HEADS = ("in public", "no-network", "allowlist, to D", "allowlist, to A")


def lines(groups):
    """groups: {(vector, family, privileges): results}. One line for all families and processes
    that fared alike: (vector, who, words, told)."""
    alike = collections.defaultdict(list)
    for (vector, family, privileges), results in groups.items():
        verdicts = judge(rows.ROWS[vector], results)
        words = tuple(verdicts[mode].word if mode in verdicts else "-" for mode in MODES)
        told = " ".join(verdicts[mode].text or "ok" for mode in MODES if mode in verdicts)
        alike[vector, words, told].append((family, privileges))
    for vector in rows.ROWS:
        for (name, words, told), who in alike.items():
            if name == vector:
                processes = collections.defaultdict(str)
                for family, privileges in sorted(who):
                    processes[privileges] += family
                by_families = collections.defaultdict(list)
                for privileges, families in processes.items():
                    by_families[families].append(privileges)
                text = "; ".join(f"{families}: {', '.join(names)}"
                                 for families, names in by_families.items())
                yield vector, text, words, told


def table(groups):
    out = [f"{'vector':22} " + " ".join(f"{head:17}" for head in HEADS) + " who, told"]
    for vector, who, words, told in lines(groups):
        out.append(f"{vector:22} " + " ".join(f"{word:17}" for word in words) +
                   f" {who} ({told})")
    return "\n".join(out)
