#!/usr/bin/env python3
"""`--compute cycles`: times of loops against sums by hand, and digests that repeat on a busy computer.

    tests/cycles.py                 x86-64 programs under qemu, with MPICH and Debian's Open MPI
    tests/cycles.py --runs 20       digests of so many runs each (default 5)

tests/foreign.py does the same with programs for ARM64 and RISC-V. One line per case, then "N passed, N failed".
"""

import argparse
import contextlib
import functools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NARROWS = ROOT / "target/release/narrows"
BUILD = ROOT / "target/cycles-tests"
# mpirun of Open MPI.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

# A core of 1 GHz, so that a cycle is 1,000 ps: one instruction a cycle, in order, and caches of its own.
CORE = (
    "node.core.model=cva6",
    "node.core.clock=1 GHz",
    'node.core.pipeline=["line 64", "taken 0", "mispredict 0", "misses 4", "divide 40/40", "fp-multiply 6/1"]',
    "node.core.l1=32 KiB, 8 ways, 3 cycles",
    "node.core.l2=1 MiB, 16 ways, 20 cycles",
    "node.core.llc=8 MiB, 16 ways, 50 cycles",
    "node.core.memory_latency=200 ns",
    "node.core.memory_bandwidth=500 MB/s",
)
# What each loop takes a step at least, ps, and at most: instructions around a chain take slots of this core, too.
EXPECTED = {
    "adds": (1_000, 1_600),
    "divides": (40_000, 48_000),
    "multiplies": (6_000, 7_000),
    "first": (3_000, 3_600),
    "second": (20_000, 20_600),
    "last": (50_000, 50_600),
    "memory": (200_000, 202_000),
    # 8 bytes at 500 MB/s: more than what its misses take, four at a time.
    "stream": (16_000, 16_200),
}
# Another value of a key, and the loop that takes another time with it.
CHANGES = {
    "model": ("cortex-a53", "adds"),
    "clock": ("500 MHz", "adds"),
    "pipeline": ('["divide 9/9"]', "divides"),
    "l1": ("4 KiB, 2 ways, 3 cycles", "first"),
    "l2": ("64 KiB, 4 ways, 20 cycles", "second"),
    "llc": ("none", "last"),
    "memory_latency": ("100 ns", "memory"),
    "memory_bandwidth": ("200 MB/s", "stream"),
}
# Of the host, of a group of nodes, and of another processor; and how ranks come to be there.
KEYS = (
    "node.core.model", "node.core.clock", "node.core.pipeline", "node.core.l1", "node.core.l2", "node.core.llc",
    "node.core.memory_latency", "node.core.memory_bandwidth",
    "group.NAME.core.model", "group.NAME.core.clock", "group.NAME.core.pipeline", "group.NAME.core.l1", "group.NAME.core.l2",
    "group.NAME.core.llc", "group.NAME.core.memory_latency", "group.NAME.core.memory_bandwidth",
    "processor.NAME.core.model", "processor.NAME.core.clock", "processor.NAME.core.pipeline", "processor.NAME.core.l1",
    "processor.NAME.core.l2", "processor.NAME.core.llc", "processor.NAME.core.memory_latency", "processor.NAME.core.memory_bandwidth",
)  # fmt: skip
THERE = {
    "node": (),
    "group": ('machine.groups=["NAME"]', "group.NAME.count=2"),
    "processor": ('node.processors=["NAME"]', "processor.NAME.cores=4"),
}


class Failure(Exception):
    """What went wrong."""


@dataclass(frozen=True)
class Setup:
    """A compiled program and how it is started."""

    program: Path
    arguments: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    def run(self, ranks: int, *options: str) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as folder:
            words = [str(NARROWS), "run", "-n", str(ranks), "--compute", "cycles", "--timeout", "500", "--out", f"{folder}/out"]
            command = [*words, *self.launcher, *options, "--", str(self.program), *self.arguments]
            environment = {**os.environ, **AS_ROOT, **dict(self.environment)}
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment)
        if done.returncode:
            raise Failure(f"code {done.returncode}: {' | '.join(done.stderr.splitlines()[-3:])}")
        return done

    def digest(self, ranks: int, *options: str) -> str:
        done = self.run(ranks, *options)
        if "may not repeat" in done.stderr:
            raise Failure(next(line for line in done.stderr.splitlines() if "may not repeat" in line))
        found = re.search(r"digest (\w+)", done.stderr)
        simulated = re.search(r"simulated time ([\d.]+ \w+)", done.stderr)
        if not found or not simulated:
            raise Failure("no digest")
        return f"{found[1]}, {simulated[1]}"


def sets(keys: Sequence[str]) -> list[str]:
    return [word for key in keys for word in ("--set", key)]


def loops(setup: Setup, *options: str) -> dict[str, int]:
    """What each loop takes, ps a step."""
    done = setup.run(2, "--machine", "bxi-v2", "--ppn", "1", *options)
    return {name: int(ps) for name, ps in re.findall(r"^(\w+) (\d+)$", done.stdout, re.M)}


def closed_forms(setup: Setup) -> str:
    took = loops(setup, *sets(CORE))
    wrong = [
        f"{name} {took.get(name)} ps, expected {least} to {most}"
        for name, (least, most) in EXPECTED.items()
        if not least <= took.get(name, 0) <= most
    ]
    if wrong:
        raise Failure("; ".join(wrong))
    return ", ".join(f"{name} {ps / 1000:.2f}" for name, ps in took.items()) + " cycles"


def keys_count(setup: Setup) -> str:
    wrong = []
    for kind, there in THERE.items():
        options = [*sets(CORE), *sets(there), *(("--on", "NAME") if kind == "processor" else ())]
        before = loops(setup, *options)
        for key in (key for key in KEYS if key.startswith(kind)):
            value, loop = CHANGES[key.rsplit(".", 1)[1]]
            if loops(setup, *options, *sets([f"{key}={value}"]))[loop] == before[loop]:
                wrong.append(key)
    if wrong:
        raise Failure(f"change nothing: {', '.join(wrong)}")
    return f"{len(KEYS)} keys"


@contextlib.contextmanager
def load() -> Iterator[None]:
    """As many processes as this computer has cores, which compute."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def repeats(setup: Setup, ranks: int, runs: int, *options: str) -> str:
    digests = [setup.digest(ranks, *options)]
    with load():
        digests += [setup.digest(ranks, *options) for _ in range(runs - 1)]
    if len(set(digests)) != 1:
        raise Failure(f"{len(set(digests))} digests in {runs} runs: {sorted(set(digests))[:3]}")
    return f"{runs} runs: {digests[0]}"


def compiled(compiler: Sequence[str], source: Path, folder: Path, options: Sequence[str] = ()) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / source.stem
    subprocess.run([*compiler, "-O1", "-w", str(source), "-o", str(target), *options, "-lm"], check=True)
    return target


def run_all(jobs: Sequence[tuple[str, Callable[[], str]]]) -> int:
    passed = 0
    for title, job in jobs:
        try:
            said, good = job(), True
        except Failure as error:
            said, good = str(error), False
        print(f"{'ok  ' if good else 'FAIL'}  {title:38} {said}", flush=True)
        passed += good
    print(f"\n{passed} passed, {len(jobs) - passed} failed")
    return 0 if passed == len(jobs) and jobs else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("-k", default="", metavar="REGEX")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    jobs: list[tuple[str, Callable[[], str]]] = []
    for name, compiler in (("mpich", str(ROOT / "target/mpis/mpich/bin/mpicc")), ("debian", "/usr/bin/mpicc")):
        loops_of = compiled([compiler], ROOT / "tests/mpi/cycles.c", BUILD / name)
        cycles = Setup(loops_of)
        halo = Setup(compiled([compiler], ROOT / "examples/halo2d.c", BUILD / name), ("64", "10"))
        jobs.append((f"{name} closed_forms", functools.partial(closed_forms, cycles)))
        if name == "mpich":
            jobs.append((f"{name} keys", functools.partial(keys_count, Setup(loops_of, ("20000",)))))
        # Under Open MPI only without caches: docs/limits.md.
        caches = sets(["node.core.l1=none"] if name == "debian" else [])
        jobs.append((f"{name} repeats n=16", functools.partial(repeats, halo, 16, options.runs, "--machine", "exanest-mezz", *caches)))
    return run_all([job for job in jobs if re.search(options.k, job[0])])


if __name__ == "__main__":
    sys.exit(main())
