#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: table.py ATTEMPTS DIRECTORY

Shows what became of each attempt in each phase, as the client saw it ("attempts" in DIRECTORY) and
as the internet did ("packets", and of names "dnsmasq.log"), and how long the switches took
("report"). Exit status 1 if anything is not as ATTEMPTS says.
"""
import json
import sys

PHASES = ("setup", "run", "verifier")
# What the client sees.
ANSWERS = {"http": "200", "udp": "echo", "name": "address", "dns": "answer", "dns-tcp": "answer"}
ERRORS = {"denied": ["EPERM"], "no-name": ["EAI_NONAME"], "no-dns": ["EAI_AGAIN", "EAI_FAIL"]}
AT_ONCE_MS = 50  # a denial that takes longer is none that a program can work with
INSIDE = "127.0.0.1"


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file]


def read_expected(path):
    rows = [line.split("\t") for line in read_lines(path) if not line.startswith("#")]
    return {(kind, target): dict(zip(PHASES, verdicts)) for kind, target, *verdicts in rows}


def read_packet(line):
    time, destination, kind = line.split()
    return {"time": int(time), "destination": destination, "kind": kind}


def has_arrived(packet, attempt, expected):
    """Whether the packet counts. Looking up the name to reach is another matter than reaching it,
    and whom Phasegate asks for an answer another than whom the client has asked."""
    if expected == "reaches":
        return packet["kind"] == "other"
    return expected != "answered" or packet["destination"] == attempt["target"]


def count_arrivals(expected, attempts, packets, queries):
    """Attempts follow each other: a packet belongs to the last that began before it. Of "name" the
    queries that the nameserver wrote down count as well, whenever they came."""
    for index, attempt in enumerate(attempts):
        verdict = expected[attempt["kind"], attempt["target"]][attempt["phase"]]
        until = attempts[index + 1]["began"] if index + 1 < len(attempts) else float("inf")
        attempt["arrived"] = sum(attempt["began"] <= packet["time"] < until and
                                 has_arrived(packet, attempt, verdict) for packet in packets)
        if attempt["kind"] == "name":
            asked = attempt["target"].replace("PHASE", attempt["phase"])
            attempt["arrived"] += queries.count(asked)


def is_as_expected(attempt, expected):
    milliseconds = (attempt["ended"] - attempt["began"]) / 1e6
    if expected in ERRORS:
        return (attempt["saw"] in ERRORS[expected] and attempt["arrived"] == 0
                and milliseconds < AT_ONCE_MS)
    if attempt["saw"] != ANSWERS[attempt["kind"]]:
        return False
    return attempt["target"] == INSIDE or (attempt["arrived"] > 0) == (expected == "reaches")


def cell(attempt, fine):
    took = f"{(attempt['ended'] - attempt['began']) / 1e6:.1f} ms"
    arrived = "-" if attempt["target"] == INSIDE else str(attempt["arrived"])
    return f"{attempt['saw']:<10}{took:>8}{arrived:>8}{'  ' if fine else ' !'}"


def print_table(expected, attempts, reports):
    wrong = 0
    made = {(a["phase"], a["kind"], a["target"]): a for a in attempts}
    titles = [f"{phase}: {reports[phase]['network_mode']}" for phase in PHASES]
    print("\n" + " " * 34 + "".join(f"{title:<28}" for title in titles).rstrip())
    print(f"{'attempt':<34}" + f"{'client saw':<18}{'arrived':>8}  " * len(PHASES))
    for (kind, target), verdicts in expected.items():
        cells = []
        for phase in PHASES:
            attempt = made.get((phase, kind, target))
            fine = attempt is not None and is_as_expected(attempt, verdicts[phase])
            wrong += not fine
            cells.append(cell(attempt, fine) if attempt else f"{'not made':<26} !")
        print(f"{kind.upper():<8}{target:<26}" + "".join(cells).rstrip())
    print("\nArrived are the packets that came to the internet's namespace, lookups only where "
          "there must be\nnone; of NAME the queries in the nameserver's log. DNS asks that address "
          "for api.example.com.")
    return wrong


def print_switches(events):
    switches = [f"to {event['phase']} {event['switch_us']:.1f} us"
                for event in events if event["event"] == "switch"]
    print("\nSwitches: " + ", ".join(switches) + ".")
    for report in (event for event in events if event["event"] == "phase"):
        counts = ", ".join(f"{name} {report[name]['allowed']} and {report[name]['denied']}"
                           for name in ("connects", "sendmsgs", "packets"))
        names = report["dns"]
        print(f"Allowed and denied in {report['phase'] + ':':<9} {counts}, "
              f"names {names['answered']} and {names['denied']}")


def main():
    expected = read_expected(sys.argv[1])
    directory = sys.argv[2]
    attempts = [json.loads(line) for line in read_lines(directory + "/attempts")]
    packets = [read_packet(line) for line in read_lines(directory + "/packets")]
    # In lower case: what is asked upstream has the case of chance, which an answer must repeat.
    queries = [line.split("] ")[1].split()[0].lower()
               for line in read_lines(directory + "/dnsmasq.log") if "query[" in line]
    events = [json.loads(line) for line in read_lines(directory + "/report")
              if line.startswith("{")]
    reports = {event["phase"]: event for event in events if event["event"] == "phase"}
    missing = [phase for phase in PHASES if phase not in reports]
    if missing:
        sys.exit(f"no report of phase {', '.join(missing)}")
    count_arrivals(expected, attempts, packets, queries)
    wrong = print_table(expected, attempts, reports)
    print_switches(events)
    if wrong:
        sys.exit(f"\n{wrong} verdicts are not as they must be (marked with !)")
    print(f"\nAll {len(expected) * len(PHASES)} verdicts are as they must be.")


main()
