# SPDX-License-Identifier: Apache-2.0
"""What the figures are meant to be, beside what they are."""

CONNECT, CONNECT_MANY = "TCP connect", "TCP connect, 4,096 destinations"
# On two CPUs, how fast bulk is hangs on which of the two ends waits for the other.
REQUEST, BULK = "TCP request/response", "TCP bulk, one CPU"
UDP, UDP_MANY = "UDP connected", "UDP, 4,096 destinations"
HTTP = ("HTTP 1 KB, kept", "HTTP 1 KB, new")


def rows(results, table, prefix):
    """Names of the rows that begin like that."""
    found = results.tables.get(table)
    return [row for row in found.rows if row.startswith(prefix)] if found else []


def last(results, table, prefix):
    """The row of the largest set: rows go from small to large."""
    return (rows(results, table, prefix) or [""])[-1]


class Targets:
    def __init__(self, results):
        self.results, self.lines = results, []
        self.small = (rows(results, "ratios", "Phasegate, ") or [""])[0]
        self.large = last(results, "ratios", "Phasegate, ")
        self.guarded = last(results, "ratios", "Phasegate with veth guard")

    def add(self, measure, figure, limit, unit="", least=False):
        """figure: (median, low, high); the median is judged."""
        value = figure[0]
        if value is None:
            return
        met = value >= limit if least else value <= limit
        words = self.number(value, unit)
        if None not in figure:
            words += f" ({self.number(figure[1], unit)} to {self.number(figure[2], unit)})"
        self.lines.append((measure, f"{'at least' if least else 'at most'} {limit:,} {unit}".rstrip(),
                           f"{words} {unit}".rstrip(), "met" if met else "**missed**"))

    @staticmethod
    def number(value, unit):
        if not unit:
            return f"{value:.3f}"
        return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"

    def figure(self, table, row, column):
        return tuple(self.results.value(table, row, column, name) for name in ("median", "low", "high"))

    def quotient(self, table, above, below, column):
        """Of two rows' figures, at least and at most that of their quartiles; None if one is missing."""
        first, second = self.figure(table, above, column), self.figure(table, below, column)
        if None in first or None in second or min(second) <= 0:
            return (None, None, None)
        return (first[0] / second[0], first[1] / second[2], first[2] / second[1])

    def work(self):
        for row, limits in ((self.large, ((CONNECT, 0.98), (CONNECT_MANY, 0.98), (REQUEST, 0.98),
                                          (BULK, 0.98), (UDP, 0.92), (UDP_MANY, 0.92))),
                            (self.guarded, ((CONNECT, 0.95), (REQUEST, 0.95), (BULK, 0.95),
                                            (UDP, 0.90), (UDP_MANY, 0.90)))):
            for column, limit in limits:
                self.add(f"{column}: rate to no policy; {row}", self.figure("ratios", row, column),
                         limit, least=True)
        for column in (UDP, UDP_MANY):
            flat = self.quotient("cpu", self.large, self.small, column)
            self.add(f"{column}: CPU time, largest set to smallest", flat, 1.02)

    def others(self):
        for prefix, part in (("nftables set, 1", 5), ("nftables set, established", 5), ("ipset", 3)):
            other = last(self.results, "added", prefix)
            for column in (UDP, UDP_MANY):
                value = self.quotient("added", self.large, other, column)
                self.add(f"{column}: CPU time added, to that of {other}", value, round(1 / part, 3))
        for prefix in ("squid", "tinyproxy"):
            other = last(self.results, "rates", prefix)
            for column in HTTP:
                value = self.quotient("rates", self.large, other, column)
                self.add(f"{column}: rate to that of {prefix}", value, 2, least=True)

    def switches(self):
        flooded = [row for row in rows(self.results, "switches", "Phasegate, ")
                   if row.endswith("UDP flood") and "agent" not in row]
        for row in flooded:
            for column, limit in (("store, median", 10), ("store, worst", 1000)):
                self.add(f"switch, {column}; {row}", self.figure("switches", row, column),
                         limit, "us")
            column = "sent after the return, judged by the old phase"
            self.add(f"switch: packets {column}; {row}", self.figure("switches", row, column),
                     0, "packets")

    def cost(self):
        mixed = last(self.results, "loads", "1000000 mixed")
        self.add(f"compile and fill, {mixed}",
                 self.figure("loads", mixed, "compile + fill"), 100, "ms")
        lists = [self.results.value("loads", row, "compile + fill")
                 for row in self.results.tables["loads"].rows if row.endswith(".txt")] \
            if "loads" in self.results.tables else []
        if lists:
            self.add("compile and fill, the published lists together", (sum(lists), None, None), 10, "ms")
        for family, limit in (("IPv4", 40), ("IPv6", 80)):
            for row in rows(self.results, "loads", "1000000 of " + family):
                self.add(f"memory of an entry, {row}",
                         self.figure("loads", row, "of it an address"), limit, "octets")
        self.add("attach all hooks, median",
                 self.figure("fixed", "attach all hooks, beside another", "median"), 100, "us")
        self.add("kernel memory of an Environment that shares its policy",
                 self.figure("memory", "in all", "an Environment"), 8192, "octets")
        self.add("a server inside: the accept mark, a connection",
                 self.figure("accepts", "public, all hooks", "of it the accept mark"), 1.5, "us")
        for row in rows(self.results, "denials", "TCP connect()")[-2:-1]:
            for column in self.results.tables["denials"].columns:
                if column.startswith("denied, ") and not column.startswith("denied, 1 CPU"):
                    self.add(f"{column}; {row}", self.figure("denials", row, column), 1000,
                             "thousand/s", least=True)

    def crowds(self):
        crowd = last(self.results, "environments", "1024 Environments") or \
            last(self.results, "environments", "1,024 Environments")
        for column in ("one sends", "all send"):
            self.add(f"{crowd}: growth over the bare kernel's, {column}",
                     self.figure("environments", crowd, f"growth over the bare kernel's, {column}"),
                     1.05)


def render(results):
    targets = Targets(results)
    targets.work()
    targets.others()
    targets.switches()
    targets.cost()
    targets.crowds()
    if not targets.lines:
        return ""
    text = "## Against the targets\n\nMedians are judged. The range of a quotient is that of the " \
        "quartiles that it is made of: lower over upper to upper over lower.\n\n" \
        "| measure | target | measured | |\n|---|---|---|---|\n"
    for line in targets.lines:
        text += "| " + " | ".join(line) + " |\n"
    return text + "\n"
