# SPDX-License-Identifier: Apache-2.0
"""Tables of what the vectors did, for people.

    report.py FILE    the table of each runtime, of the results that a run has written
"""

import collections
import json
import sys

import rows
from phasegate import NO_NETWORK, PUBLIC
from suite import LIST, Result, judge

MODES = (PUBLIC, NO_NETWORK, LIST, "to A")
HEADS = ("in public", "no-network", "allowlist, to D", "allowlist, to A")


def grouped(results):
    groups = collections.defaultdict(list)
    for result in results:
        groups[result.vector, result.family, result.privileges].append(result)
    return groups


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


def tried(results):
    """The vectors of which something came in public, so that the rest of them says something."""
    return {result.vector for result in results if result.mode == PUBLIC and result.seen}


def main(path):
    runtimes = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for line in file:
            result = Result(**json.loads(line))
            runtimes[result.runtime].append(result)
    for runtime, results in runtimes.items():
        print(f"\n{runtime}: {len(results)} attempts")
        print(table(grouped(results)))
        possible = tried(results)
        for what, names in (
                ("Not possible here, so that nothing is known of them",
                 {result.vector for result in results} - possible),
                ("Tried for the first time (UNTRIED in tests/adversary/rows.py)",
                 possible & rows.UNTRIED)):
            if names:
                print(f"{what}: {', '.join(sorted(names))}")


if __name__ == "__main__":
    main(sys.argv[1])
