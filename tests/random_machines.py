#!/usr/bin/env python3
"""Random programs on random machines: what must hold on any machine.

    tests/random_machines.py                    twenty of them, in some seconds
    tests/random_machines.py --count 2000       a long hunt
    tests/random_machines.py --seed 17 --keep   one, and its files stay: the command is printed with what is wrong

A machine is a preset or a file of tests/mpi with other keys: networks, topologies, routing, buffers, congestion control, lost
packets, protocols, rails, gateways, and other times and rates; one that `narrows machine check` refuses is made again. A program
is a trace of messages and collectives in which nobody can wait for ever. For each:

* every message arrives once, and all bytes of them;
* threads, periods and a timeline change no digest and no time;
* no node takes its bytes faster than its links carry them;
* with all times doubled and all rates halved it takes twice as long, to 0.01 %: nothing hangs on a constant of ours. Congestion
  controls decide by comparisons that a rounding turns over; with them it is twice as long to a fifth.

Only the standard library of Python 3.11 is used. The last line is "N passed, N failed".
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NARROWS = ROOT / "target" / "release" / "narrows"
BASES = (
    *("acc-testbed", "bxi-v2", "bxi-v3", "bxi-v3-reliable", "deep", "dibona", "example-cluster", "exanest-mezz", "exanest-qfdb", "ib-ndr"),
    *("ib-qdr", "inti", "omni-path-100", "roce-400", "s4bxi-vix", "slingshot-11", "megafly-288", "dragonfly-342"),
    *(str(ROOT / "tests" / "mpi" / f"{name}.toml") for name in ("mailbox", "rails", "gateways", "gateways_pscom", "gateways_mpc", "tcp", "apenetx", "carvnet")),
)
# Keys that belong together: of each group one choice or none.
TOPOLOGIES = (
    ("topology.kind=k-ary-n-tree", "topology.k=2", "topology.n=3"),
    ("topology.kind=k-ary-n-tree", "topology.k=4", "topology.n=2", "network.routing=adaptive"),
    ("topology.kind=single-switch",),
    ("topology.kind=torus", "topology.lengths=[4, 2]", "network.routing=dimension-order", "network.virtual_channels=2"),
    ("topology.kind=torus", "topology.lengths=[3, 3]", "network.routing=adaptive", "network.virtual_channels=3"),
    ("topology.kind=mesh", "topology.lengths=[3, 3]", "network.routing=dimension-order"),
    ("topology.kind=hyperx", "topology.lengths=[3, 3]", "topology.hosts_per_switch=1", "network.routing=minimal", "network.virtual_channels=2"),
)
FLOWS = (
    ("network.reliability.delivery=ordered", "network.congestion=none"),
    ("network.reliability.delivery=unordered", "network.congestion=none"),
    ("network.reliability.delivery=ordered", 'network.faults=["loss=1e-2"]'),
    ("network.reliability.delivery=unordered", 'network.faults=["loss=1e-2"]'),
    ("network.reliability.delivery=unordered", 'network.faults=["loss=1e-3 corrupt=1e-2 duplicate=1e-2"]'),
    ("network.reliability.delivery=ordered", "network.congestion=acc"),
    ("network.reliability.delivery=unordered", "network.congestion=dcqcn", "switch.marking=ecn"),
    ("network.reliability.delivery=ordered", "network.congestion=dctcp", "switch.marking=ecn"),
    ("network.reliability.delivery=unordered", "network.congestion=swift"),
    ("network.reliability.delivery=unordered", "network.congestion=nscc", "switch.marking=ecn"),
    ("network.reliability.delivery=ordered", "network.congestion=hpcc", "switch.telemetry=int"),
    ("network.reliability.delivery=ordered", "network.congestion=s-perc"),
    ("network.reliability.delivery=ordered", "network.congestion=throttle"),
)
# Each is chosen for one machine in seven.
KEYS = {
    "network.kind": ("packet", "flow", "loggp"),
    "network.mtu": ("256 B", "1 KiB", "4 KiB"),
    "network.buffer": ("16 KiB", "64 KiB", "256 KiB"),
    "network.routing": ("adaptive", "minimal", "dimension-order", "valiant", "table"),
    "network.virtual_channels": (2, 4, 8),
    "network.read_window": (1, 4, 64),
    "switch.forwarding": ("cut-through", "store-and-forward"),
    "switch.queueing": ("virtual-output", "input"),
    "switch.arbitration": ("round-robin", "age"),
    "message.eager_limit": ("1 KiB", "8 KiB", "64 KiB"),
    "message.rendezvous": ("put", "get"),
    "message.inject_limit": ("0 B", "64 B", "1 KiB"),
    "message.protocol": ("openmpi", "pscom", "mpc"),
    "node.rails": (1, 2),
    "nic.transmit": ("interleaved", "sequential"),
    "nic.max_outstanding": (1, 16),
    "collectives.table": ("openmpi", "mpich"),
}
# GB/s: a byte takes a whole number of picoseconds, also at half the rate.
RATES = (1, 2, 4, 5, 10, 12.5, 20, 25, 50)
VARIANTS = {"two threads": ("--threads", "2"), "four threads": ("--threads", "4"), "periods": ("--period", "1us", "--out", "out"), "a timeline": ("--timeline", "t.json")}


class Wrong(Exception):
    """What does not hold."""


@dataclasses.dataclass
class Run:
    """What a replay has printed."""

    digest: str
    time: float
    messages: int
    bytes: int
    left: int


def narrows(folder: Path, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([NARROWS, *words], cwd=folder, capture_output=True, text=True, timeout=300)


def quantities(text: str, times, rates) -> str:
    """A resolved machine with other times (in ps) and rates (in B/s)."""

    def time(found: re.Match) -> str:
        ps = float(found[1]) * {"ps": 1, "ns": 1e3, "us": 1e6, "ms": 1e9, "s": 1e12}[found[2]]
        return f'"{times(round(ps))} ps"'

    def rate(found: re.Match) -> str:
        return f'"{rates(float(found[1]) * {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[found[2]]):.0f} B/s"'

    text = re.sub(r'"([\d.]+) (ps|ns|us|ms|s)"', time, text)
    return re.sub(r'"([\d.]+) ([KMGT]?)B/s"', rate, text)


def machine(chance: random.Random, folder: Path) -> tuple[str, str]:
    """A machine file that `machine check` takes, and what it is made from."""
    for _ in range(200):
        base = chance.choice(BASES)
        words = [word for group in (TOPOLOGIES, FLOWS) if chance.random() < 0.4 for word in chance.choice(group)]
        words += [f"{key}={chance.choice(values)}" for key, values in KEYS.items() if chance.random() < 0.15]
        arguments = [word for setting in words for word in ("--set", setting)]
        shown = narrows(folder, "machine", "show", base, *arguments)
        if shown.returncode == 2 and shown.stderr.startswith(("narrows: ", "error: ")):
            continue
        if shown.returncode:
            raise Wrong(f"machine show {base} {' '.join(words)}: {shown.stderr}")
        factor = chance.choice((1, 1, 0.5, 2))
        even = lambda ps: 2 * round(ps * factor / 2)  # noqa: E731
        text = quantities(shown.stdout, even, lambda rate: 1e9 * min(RATES, key=lambda near: abs(near - rate / 1e9)))
        (folder / "machine.toml").write_text(text)
        checked = narrows(folder, "machine", "check", "machine.toml")
        if checked.returncode == 0:
            return text, f"{base} {' '.join(words)}, times {factor}"
    raise Wrong("no machine of 200 is taken")


def program(chance: random.Random, ranks: int) -> tuple[list[dict], list[tuple[int, int, int]], bool]:
    """Operations, what goes from whom to whom, and whether there are collectives. Nobody can wait for ever: each rank has its
    part of one order of all messages, and waits for what comes before in it alone."""
    operations, sent, counts, together = [], [], [0] * ranks, False

    def add(rank: int, **words) -> None:
        after = [counts[rank] - 1] if counts[rank] and chance.random() < 0.3 else []
        started = [counts[rank] - 1] if counts[rank] and not after else []
        operations.append({"rank": rank, **words, "after": after, "after_start": started})
        counts[rank] += 1

    for _ in range(chance.randrange(1, 60)):
        choice = chance.random()
        if choice < 0.05:
            together = True
            size = chance.choice((8, 1000, 100_000))
            for rank in range(ranks):
                add(rank, op="allreduce", send=size, recv=size, element=8)
        elif choice < 0.15:
            add(chance.randrange(ranks), op="compute", ps=2 * chance.randrange(10_000_000))
        else:
            source, target = chance.sample(range(ranks), 2)
            size, tag = chance.choice((0, 1, 64, 1000, 4096, 5001, 70_000, 300_000)), chance.randrange(3)
            add(source, op="send", to=target, bytes=size, tag=tag)
            add(target, op="recv", **{"from": source}, bytes=size, tag=tag)
            sent.append((source, target, size))
    return operations, sent, together


def replay(folder: Path, machine: str, *words: str) -> Run:
    command = ["replay", "program.jsonl", "--machine", machine, "--ppn", "1", "--json", *words]
    done = narrows(folder, *command)
    if done.returncode:
        raise Wrong(f"narrows {' '.join(command)}: exit code {done.returncode}: {done.stderr[-500:]}")
    found = json.loads(done.stdout)
    application = found["applications"][0]
    return Run(found["digest"], application["finish_s"], found["messages"], found["bytes"], application["unfinished_ranks"])


def test(seed: int, folder: Path) -> str:
    """What a seed stands for; raises Wrong."""
    chance = random.Random(seed)
    text, name = machine(chance, folder)
    resolved = json.loads(narrows(folder, "machine", "show", "machine.toml", "--json").stdout)
    nodes = resolved["node"].get("count", 1)
    # Of groups, those that have ranks, at least.
    ranks = min(chance.randrange(2, 9), max(2, nodes)) if not resolved["machine"]["groups"] else 4
    operations, sent, together = program(chance, ranks)
    lines = [{"narrows_trace": 1, "ranks": ranks, "order": "sequential"}, *operations]
    (folder / "program.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    what = f"{ranks} ranks, {len(sent)} messages on {name}"
    try:
        first = replay(folder, "machine.toml")
        if first.left:
            raise Wrong(f"{first.left} ranks have not ended")
        if not together and (first.messages, first.bytes) != (len(sent), sum(size for *_, size in sent)):
            raise Wrong(f"{first.messages} messages of {first.bytes} bytes instead of {len(sent)} of {sum(size for *_, size in sent)}")
        several = resolved["machine"]["fabrics"] or resolved["node"]["rails"] > 1
        for variant, words in VARIANTS.items():
            if variant == "periods" and several:
                continue  # they look at machines of one network
            other = replay(folder, "machine.toml", *words)
            if (other.digest, other.time) != (first.digest, first.time):
                raise Wrong(f"with {variant} {other.time} s and digest {other.digest} instead of {first.time} s and {first.digest}")
        if not resolved["machine"]["groups"] and not resolved["machine"]["fabrics"]:
            rate = float(resolved["link"]["host"]["bandwidth"].split()[0]) * {"B/s": 1, "MB/s": 1e6, "GB/s": 1e9}[resolved["link"]["host"]["bandwidth"].split()[1]]
            for node in range(ranks):
                for end in (0, 1):
                    least = sum(message[2] for message in sent if message[end] == node) / (rate * resolved["node"]["rails"])
                    if first.time < least:
                        raise Wrong(f"{first.time} s, but the links of node {node} need {least} s for its bytes")
        twice = quantities(text, lambda ps: 2 * ps, lambda rate: rate / 2)
        twice = re.sub(r"^(packet_rate|messages_per_s) = (\d+)$", lambda found: f"{found[1]} = {int(found[2]) // 2}", twice, flags=re.M)
        (folder / "twice.toml").write_text(twice)
        slow = [{**line, "ps": 2 * line["ps"]} if "ps" in line else line for line in lines]
        (folder / "program.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in slow))
        double = replay(folder, "twice.toml")
        # Times are rounded to picoseconds. Congestion controls compare rates and queues: a rounding decides where they
        # are equal.
        far = 1e-4 if resolved["network"]["congestion"] == "none" else 0.2
        if abs(double.time - 2 * first.time) > far * first.time:
            raise Wrong(f"{double.time} s with all times doubled, {first.time} s without: {double.time / first.time:.6f} times")
    except Wrong as error:
        raise Wrong(f"{what}: {error}") from None
    return what


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog="see the head of this file")
    parser.add_argument("--count", type=int, default=20, help="how many; default: 20")
    parser.add_argument("--first", type=int, default=0, help="the first seed; default: 0")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--keep", action="store_true", help="files of what fails stay")
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="runs at once; default: cores")
    parser.add_argument("-v", "--verbose", action="store_true", help="says each machine")
    options = parser.parse_args()
    seeds = [options.seed] if options.seed is not None else range(options.first, options.first + options.count)
    failed = 0

    def one(seed: int) -> tuple[int, str, bool]:
        folder = Path(tempfile.mkdtemp(prefix=f"random-{seed}-"))
        try:
            return seed, test(seed, folder), True
        except Wrong as error:
            kept = f" (in {folder})" if options.keep else ""
            return seed, f"{error}{kept}", False
        finally:
            if not options.keep:
                shutil.rmtree(folder, ignore_errors=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for seed, what, right in pool.map(one, seeds):
            failed += not right
            if options.verbose or not right:
                print(f"{'ok   ' if right else 'FAIL '} seed {seed}: {what}", flush=True)
    print(f"{len(seeds) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
