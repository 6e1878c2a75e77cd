#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: table.py ATTEMPTS DIRECTORY

Shows what became of each attempt in each phase, as the client saw it ("attempts" in DIRECTORY) and
as the internet did ("packets"), and how long the switches took ("report"). Exit status 1 if
anything is not as ATTEMPTS says.
"""
import json
import sys

PHASES = ("setup", "run", "verifier")
ANSWERS = {"http": "200", "udp": "echo", "dns": "answer"}
AT_ONCE_MS = 50  # a denial that takes longer is none that a program can work with
INSIDE = "127.0.0.1"


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def read_expected(path):
    rows = [line.split("\t") for line in read_lines(path) if not line.startswith("#")]
    return {(kind, target): dict(zip(PHASES, verdicts)) for kind, target, *verdicts in rows}


def count_packets(attempts, packets):
    """Attempts follow each other: a packet belongs to the last that began before it. Looking up
    a name is an attempt of its own, so its packets do not count for others."""
    for index, attempt in enumerate(attempts):
        until = attempts[index + 1]["began"] if index + 1 < len(attempts) else float("inf")
        attempt["packets"] = sum(
            attempt["began"] <= int(time) < until and (kind == "dns") == (attempt["kind"] == "dns")
            for time, _, kind in packets)


def is_as_expected(attempt, expected):
    milliseconds = (attempt["ended"] - attempt["began"]) / 1e6
    if expected == "reaches":
        return attempt["saw"] == ANSWERS[attempt["kind"]] and (
            attempt["packets"] > 0 or attempt["target"] == INSIDE)
    errors = {"denied": ["EPERM"], "no-name": ["EAI_AGAIN", "EAI_FAIL"]}
    return (attempt["saw"] in errors[expected] and attempt["packets"] == 0
            and milliseconds < AT_ONCE_MS)


def cell(attempt, fine):
    took = f"{(attempt['ended'] - attempt['began']) / 1e6:.1f} ms"
    packets = "-" if attempt["target"] == INSIDE else str(attempt["packets"])
    return f"{attempt['saw']:<9}{took:>7}{packets:>9}{'  ' if fine else ' !'}"


def print_table(expected, attempts, reports):
    wrong = 0
    made = {(a["phase"], a["kind"], a["target"]): a for a in attempts}
    titles = [f"{phase}: {reports[phase]['network_mode']}" for phase in PHASES]
    print("\n" + " " * 27 + "".join(f"{title:<27}" for title in titles).rstrip())
    print(f"{'attempt':<27}" + f"{'client saw':<16}{'packets':>9}  " * len(PHASES))
    for (kind, target), verdicts in expected.items():
        cells = []
        for phase in PHASES:
            attempt = made.get((phase, kind, target))
            fine = attempt is not None and is_as_expected(attempt, verdicts[phase])
            wrong += not fine
            cells.append(cell(attempt, fine) if attempt else f"{'not made':<25} !")
        print(f"{kind.upper():<5}{target:<22}" + "".join(cells).rstrip())
    print("\nPackets are those that arrived in the internet's namespace (for a name without its "
          "lookup).\nDNS is a query for api.example.com to that nameserver.")
    return wrong


def print_switches(events):
    switches = [f"to {event['phase']} {event['switch_us']:.1f} us"
                for event in events if event["event"] == "switch"]
    print("\nSwitches: " + ", ".join(switches) + ".")
    for report in (event for event in events if event["event"] == "phase"):
        counts = ", ".join(f"{name} {report[name]['allowed']} and {report[name]['denied']}"
                           for name in ("connects", "sendmsgs", "packets"))
        print(f"Allowed and denied in {report['phase'] + ':':<9} {counts}")


def main():
    expected = read_expected(sys.argv[1])
    directory = sys.argv[2]
    attempts = [json.loads(line) for line in read_lines(directory + "/attempts")]
    packets = [line.split() for line in read_lines(directory + "/packets")]
    events = [json.loads(line) for line in read_lines(directory + "/report")
              if line.startswith("{")]
    reports = {event["phase"]: event for event in events if event["event"] == "phase"}
    missing = [phase for phase in PHASES if phase not in reports]
    if missing:
        sys.exit(f"no report of phase {', '.join(missing)}")
    count_packets(attempts, packets)
    wrong = print_table(expected, attempts, reports)
    print_switches(events)
    if wrong:
        sys.exit(f"\n{wrong} verdicts are not as they must be (marked with !)")
    print(f"\nAll {len(expected) * len(PHASES)} verdicts are as they must be.")


main()
