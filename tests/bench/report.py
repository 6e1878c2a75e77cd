# SPDX-License-Identifier: Apache-2.0
"""Usage: report.py [--output FILE] [--directory DIR] RESULTS...

Tables, in Markdown, of what phasegate-bench wrote in one or more whole runs: of each figure the
median of the runs. With --directory also the plots and the results themselves.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import sys

import report_plots
import report_targets


METHOD = """## How

The client and the server are on one machine, in network namespaces that a veth pair joins, on the
last and on the first CPU. Everybody does the same work, in turns of a fraction of a second, so that
what else the machine does hits all alike. A turn is a process of its own, and nothing is left of the
UDP flows of the one before. Before it is timed, UDP to many destinations has been at each of them
twice: then there are flows, and records of Phasegate's that last 100 jiffies, longer than a turn
(`--slice` makes turns longer).

- "Empty programs" allow at once, at every hook that Phasegate has: what the kernel itself takes. With
  "veth too" they are on both directions of the veth's other end, where Phasegate's guard is.
- nftables, ipset and iptables have their rules on output, each in a client's network namespace of its
  own: the shortest way for them, and where the scripts of many sandboxes put them. Their sets have the
  same entries, IPv4 and IPv6, as Phasegate's. nftables: one interval set of each family, and the same
  behind "ct state established accept". ipset: hash:ip for addresses, looked at first, and hash:net for
  ranges. iptables: one rule an entry, with what is visited in the middle.
- squid and tinyproxy are beside the server, with an allowlist of ten and without a cache.

`sudo scripts/bench` makes this page anew, `sudo scripts/bench --short` prints the same tables in three
minutes. The figures of single runs are in results.jsonl; tests/bench/report.py renders them.

"""


class Cell:
    """One figure: its values in the runs, or why it is missing."""

    def __init__(self):
        self.unit = ""
        self.missing = ""
        self._values = {"low": [], "median": [], "high": []}

    def add(self, line):
        self.unit = line.get("unit", "")
        self.missing = line.get("missing", "")
        for name, values in self._values.items():
            if line.get(name) is not None:
                values.append(line[name])

    def value(self, name="median"):
        values = self._values[name]
        return statistics.median(values) if values else None

    def text(self):
        if self.value() is None:
            return "missing" if self.missing else ""
        text = number(self.value(), self.unit)
        if self.value("low") is not None:
            text += f" ({number(self.value('low'), self.unit)} to {number(self.value('high'), self.unit)})"
        return text


class Table:
    """Rows and columns in the order of their first cells."""

    def __init__(self, title="", text=""):
        self.title, self.text = title, text
        self.rows, self.columns, self.cells = [], [], {}

    def add(self, line):
        row, column = line["row"], line["column"]
        if row not in self.rows:
            self.rows.append(row)
        if column not in self.columns:
            self.columns.append(column)
        self.cells.setdefault((row, column), Cell()).add(line)

    def value(self, row, column, name="median"):
        cell = self.cells.get((row, column))
        return cell.value(name) if cell else None

    def missing(self):
        """{row: why} of rows without any figure."""
        found = {}
        for row in self.rows:
            cells = [cell for (of, _), cell in self.cells.items() if of == row]
            if all(cell.value() is None for cell in cells):
                found[row] = next((cell.missing for cell in cells if cell.missing), "")
        return found

    def units(self, column):
        return {cell.unit for (_, of), cell in self.cells.items() if of == column and not cell.missing}


class Results:
    def __init__(self, paths):
        self.machine, self.tables, self.runs = {}, {}, 0
        for path in paths:
            for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
                self._add(json.loads(line))

    def _add(self, line):
        if "machine" in line:
            # Each run begins with its date.
            self.runs += line["machine"] == "date"
            values = self.machine.setdefault(line["machine"], [])
            if line["value"] not in values:
                values.append(line["value"])
        elif "title" in line:
            self.tables.setdefault(line["table"], Table(line["title"], line["text"]))
        else:
            self.tables.setdefault(line["table"], Table(line["table"])).add(line)

    def value(self, table, row, column, name="median"):
        found = self.tables.get(table)
        return found.value(row, column, name) if found else None


def number(value, unit=""):
    if unit in ("", "ratio") and value == int(value) and abs(value) >= 2:
        return f"{int(value):,}"
    if unit in ("", "ratio"):
        return f"{value:.3f}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"


def escape(text):
    return text.replace("|", "\\|")


def markdown_row(cells):
    return "| " + " | ".join(escape(cell) for cell in cells) + " |\n"


def render_table(table):
    """The unit stands in the head of a column that has one, else behind the figure."""
    head = [""]
    for column in table.columns:
        units = table.units(column)
        unit = next(iter(units)) if len(units) == 1 else ""
        head.append(f"{column}, {unit}" if unit else column)
    text = f"## {table.title}\n\n"
    if table.text:
        text += table.text + "\n\n"
    text += markdown_row(head) + "|---" * len(head) + "|\n"
    missing = table.missing()
    for row in table.rows:
        cells = [row]
        for column in table.columns:
            cell = table.cells.get((row, column))
            words = cell.text() if cell else ""
            if words and cell.unit and not cell.missing and len(table.units(column)) > 1:
                words += f" {cell.unit}"
            cells.append(words)
        text += markdown_row(cells)
    for row, why in missing.items():
        text += f"\nMissing: {row}: {why}.\n"
    return text + "\n"


def render(results, plots):
    text = "<!-- Written by scripts/bench. -->\n# Figures\n\n"
    runs = "the medians of three whole runs" if results.runs == 3 else \
        "one whole run" if results.runs == 1 else f"the medians of {results.runs} whole runs"
    text += (f"Made by `scripts/bench`, which makes them anew on any machine: {runs}. Quartiles are"
             " in parentheses. It judges nothing; how each figure is made stands above its table.\n\n")
    text += "| | |\n|---|---|\n"
    for what, values in results.machine.items():
        text += markdown_row([what, "; ".join(values)])
    text += "\n" + report_targets.render(results)
    for title, name in plots:
        text += f"![{title}]({name})\n\n"
    text += METHOD
    for table in results.tables.values():
        text += render_table(table)
    return text.rstrip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output")
    parser.add_argument("--directory")
    parser.add_argument("results", nargs="+")
    arguments = parser.parse_args()
    results = Results(arguments.results)
    plots = []
    if arguments.directory:
        directory = pathlib.Path(arguments.directory)
        directory.mkdir(parents=True, exist_ok=True)
        plots = report_plots.draw(results, directory)
        with open(directory / "results.jsonl", "wb") as out:
            for path in arguments.results:
                with open(path, "rb") as file:
                    shutil.copyfileobj(file, out)
    text = render(results, plots)
    if arguments.directory:
        (directory / "README.md").write_text(text, encoding="utf-8")
    if arguments.output:
        pathlib.Path(arguments.output).write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
