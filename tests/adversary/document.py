#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of docs/threat-model.md, from rows.py.

    document.py FILE [PROGRAM]    0 if the file has it as it is here, and the program all its vectors
    document.py --write FILE      puts it there
"""

import subprocess
import sys

import rows

BEGIN, END = "<!-- vectors: from tests/adversary/rows.py -->\n", "<!-- end of vectors -->\n"
NEEDS = {"": "nothing", "raw": "NET_RAW", "admin": "NET_ADMIN", "alone": "NET_ADMIN"}


def table():
    lines = []
    for title, members in rows.GROUPS:
        lines += [f"### {title}", "",
                  "| vector | what it tries | needs | no-network | allowlist, to D | to A |",
                  "|---|---|---|---|---|---|"]
        for row in members:
            word = {mode: "open" if mode in row.leak else "blocked" for mode in rows.CONFINED}
            to_allowed = row.to_allowed
            if row.name in rows.UNTRIED:
                word = dict.fromkeys(word, "not tried")
                to_allowed = to_allowed and "not tried"
            rare = f"; where there is {row.rare}" if row.rare else ""
            lines.append(f"| `{row.name}` | {row.text}{rare} | {NEEDS[row.needs]} | "
                         f"{word['no-network']} | {word['allowlist']} | {to_allowed or '-'} |")
        lines.append("")
    return "\n".join(lines)


def split(text):
    head, rest = text.split(BEGIN)
    return head, *rest.split(END)


def main(words):
    path = words[-1] if words[0] == "--write" else words[0]
    with open(path, encoding="utf-8") as file:
        head, found, tail = split(file.read())
    if words[0] == "--write":
        with open(path, "w", encoding="utf-8") as file:
            file.write(head + BEGIN + "\n" + table() + END + tail)
        return 0
    wrong = []
    if found != "\n" + table():
        wrong.append(f"{path} is not as rows.py: tests/adversary/document.py --write {path}")
    for row in rows.ROWS.values():
        if row.leak and f"`{row.name}`" not in tail:
            wrong.append(f"{path} does not say why {row.name} is open")
    for name in rows.UNTRIED:
        if not rows.ROWS[name].rare:
            wrong.append(f"{name} must be possible everywhere, so that it is tried")
    listed = subprocess.run([words[1], "list"], stdout=subprocess.PIPE, text=True, check=True)
    for name in set(listed.stdout.split()) ^ set(rows.ROWS):
        wrong.append(f"{name} is a vector of the program or of rows.py alone")
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
