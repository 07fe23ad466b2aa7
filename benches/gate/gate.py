#!/usr/bin/env python3
"""A gate for speed: the instructions of six workloads, against the numbers that are kept here.

    benches/gate/gate.py             counts and compares; a workload that takes over 3 % more than its number fails
    benches/gate/gate.py --update    keeps today's counts, after a change that is faster or whose price is wanted
    benches/gate/gate.py --self-test the comparison alone, with numbers that are made up

Instructions are those of user mode, counted by valgrind, so they do not depend on how busy the computer is. Each workload runs at two sizes, and
the difference counts: what a process does to begin and end cancels. Two runs differ by less than 0.01 %. Another compiler may give other counts:
counts.json names the one of its numbers.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = Path(__file__).with_name("counts.json")
RELEASE = ROOT / "target/release"
# More than that is worse.
PERCENT = 3.0
TRAFFIC = ["narrows", "traffic", "permutation", "--machine", "bxi-v3", "--nodes", "1024", "--load", "0.9", "--warmup", "5us", "--json"]
# What one operation is, the command without its size, and two sizes.
WORKLOADS = {
    "handover": ("hand-over of a rank's region", ["narrows-gate", "handover"], (100_000, 200_000)),
    "matching": ("message that matches one of 100 entries", ["narrows-gate", "matching"], (20_000, 40_000)),
    "packet-hop": ("packet-hop, routed by d-mod-k", [*TRAFFIC, "--set", "network.routing=d-mod-k", "--time"], ("15us", "20us")),
    "packet-hop-adaptive": ("packet-hop, routed adaptively", [*TRAFFIC, "--set", "network.routing=adaptive", "--time"], ("15us", "20us")),
    "loggp": ("message of a LogGP replay", ["narrows-gate", "loggp"], (4, 12)),
    "replay": ("message of a replay on bxi-v3", ["narrows-gate", "replay"], (4, 12)),
}


def count(command: list[str]) -> tuple[int, int]:
    """Instructions and operations of one run."""
    valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    try:
        done = subprocess.run([*valgrind, str(RELEASE / command[0]), *command[1:]], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        sys.exit("valgrind is not installed: make setup")
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if done.returncode != 0 or found is None:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    output = json.loads(done.stdout)
    return int(found[1].replace(",", "")), output if isinstance(output, int) else output["packet_hops"]


def measure(name: str) -> float:
    """Instructions per operation."""
    _, command, sizes = WORKLOADS[name]
    (few, small), (many, large) = (count([*command, str(size)]) for size in sizes)
    return (many - few) / (large - small)


def compiler() -> str:
    return subprocess.run(["rustc", "--version"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()[1]


def worse(now: float, kept: float) -> bool:
    return now > kept * (1 + PERCENT / 100)


def self_test() -> int:
    cases = [(100.0, 100.0, False), (102.9, 100.0, False), (103.1, 100.0, True), (50.0, 100.0, False)]
    wrong = [case for case in cases if worse(case[0], case[1]) != case[2]]
    print("\n".join(f"FAIL  {case}" for case in wrong), end="\n" if wrong else "")
    print(f"{len(cases) - len(wrong)} passed, {len(wrong)} failed")
    return bool(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="keep today's counts")
    parser.add_argument("--self-test", action="store_true", help="test the comparison, count nothing")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    rustc, kept = compiler(), json.loads(KEPT.read_text()) if KEPT.exists() else {}
    now = {name: round(measure(name), 1) for name in WORKLOADS}
    if options.update:
        KEPT.write_text(json.dumps({"rustc": rustc, "instructions": now}, indent=2) + "\n")
    before = now if options.update else kept["instructions"]
    failed = 0
    for name, (what, _, _) in WORKLOADS.items():
        change = 100 * (now[name] / before[name] - 1)
        fails = not options.update and worse(now[name], before[name])
        failed += fails
        print(f"{'FAIL' if fails else 'ok  '}  {now[name]:10.1f} instructions a {what} ({change:+.1f} %)")
    if failed and rustc != kept["rustc"]:
        print(f"The kept counts are of rustc {kept['rustc']}, and this is {rustc}: count the commit before the change with it, too")
    if failed:
        print(f"Over {PERCENT:.0f} % more than benches/gate/counts.json: make it faster, or say in the commit why and run benches/gate/gate.py --update")
    print(f"{len(WORKLOADS) - failed} passed, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
