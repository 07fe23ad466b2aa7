#!/usr/bin/env python3
"""Programs of another processor, beside the same programs for this computer: both under MPICH of one release, on the simulated machine.

    tests/foreign.py                what `make test-foreign` runs
    tests/foreign.py -k rma -n 4    cases whose name matches, with so many ranks
    tests/foreign.py --all          all cases of tests/run_mpi.py that are in C, with 2 and 4 ranks

Computing takes no time (`--compute none`), so that both print the same, take the same simulated time and have the same digest. One
case is run twice. The programs verify themselves too (tests/mpi/check.h). Then come commands that must be refused, with what they
say. One line per case, then "N passed, N failed".
"""

import argparse
import concurrent.futures
import dataclasses
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mpi_driver.cases import Case, cases
from mpi_driver.mpis import ROOT, SOURCES

ARCHITECTURE = "aarch64"
PREFIX = ROOT / "target/foreign" / ARCHITECTURE / "mpich"
NATIVE = ROOT / "target/mpis/mpich"
BUILD = ROOT / "target/foreign-tests"
NARROWS = ROOT / "target/release/narrows"
EXAMPLES = ROOT / "examples"

# Point to point, collectives, communicators, types, one-sided operations, threads, memory that ranks share, files, sockets.
USUAL = (
    "p2p_(modes|sizes|any|random|mixed|probe|large)|coll_blocking|coll_nonblocking|comm$|dtype$|neighbor$|"
    "rma_(fence|lock|pscw|atomic|shared|spin|passive)|file_time$|sockets|threads_multiple|sessions"
)


class Failure(Exception):
    """What went wrong."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    stdout: str
    digest: str
    repeats: bool
    simulated: str
    wall: float


def built(source: Path, foreign: bool) -> Path:
    target = BUILD / (ARCHITECTURE if foreign else "native") / source.stem
    newest = max(path.stat().st_mtime for path in (source, *SOURCES.glob("*.h")))
    if target.exists() and target.stat().st_mtime > newest:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    prefix = PREFIX if foreign else NATIVE
    compiler = f"{ARCHITECTURE}-linux-gnu-gcc" if foreign else "gcc"
    command = [str(prefix / "bin/mpicc"), "-O1", "-g", "-w", str(source), "-o", str(target), "-lpthread", "-lm", f"-Wl,-rpath,{prefix / 'lib'}"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "MPICH_CC": compiler})
    if done.returncode:
        raise Failure(f"{' '.join(command)}: {done.stderr.strip()[-800:]}")
    return target


def narrows(program: list[str], ranks: int, options: tuple[str, ...], environment: dict[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        command = [str(NARROWS), "run", "-n", str(ranks), "--mpirun", str(NATIVE / "bin/mpiexec"), "--out", f"{folder}/out", "--compute", "none"]
        command += ["--timeout", f"{timeout:.0f}", *options, "--", *program]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, env={**os.environ, **environment})


def outcome(case: Case, source: Path, ranks: int, foreign: bool) -> Outcome:
    arguments = case.arguments if case.narrows_arguments is None else case.narrows_arguments
    machine = () if "--machine" in case.options else ("--machine", "bxi-v2")
    start = time.monotonic()
    environment = {**case.environment, "NARROWS_TESTS_WORD": "as it was"}
    done = narrows([str(built(source, foreign)), *arguments], ranks, (*machine, *case.options), environment, case.timeout)
    wall = time.monotonic() - start
    last = " | ".join([line for line in done.stderr.splitlines() if line.strip()][-3:])[-500:]
    if done.returncode:
        raise Failure(f"{'foreign' if foreign else 'native'}: exit code {done.returncode}: {last}")
    digest = re.search(r"digest (\w+)", done.stderr)
    simulated = re.search(r"simulated time ([\d.]+ \w+)", done.stderr)
    if not digest or not simulated:
        raise Failure(f"no digest: {last}")
    if foreign and "for ARM64 under qemu" not in done.stderr:
        raise Failure(f"not under qemu: {last}")
    return Outcome("\n".join(sorted(done.stdout.splitlines())), digest[1], "the digest may not repeat" not in done.stderr, simulated[1], wall)


def compare(case: Case, source: Path, ranks: int) -> str:
    """Runs both; what is said of them. Raises Failure."""
    native, foreign = outcome(case, source, ranks, False), outcome(case, source, ranks, True)
    clean = case.clean or (lambda text: text)
    if clean(foreign.stdout) != clean(native.stdout):
        here, there = set(native.stdout.splitlines()), set(foreign.stdout.splitlines())
        raise Failure(f"other output: {sorted(there - here)[:2]}, natively {sorted(here - there)[:2]}")
    if foreign.digest != native.digest and native.repeats and foreign.repeats:
        raise Failure(f"digest {foreign.digest} ({foreign.simulated}), natively {native.digest} ({native.simulated})")
    return f"{foreign.simulated}, wall {native.wall:.1f} s and {foreign.wall:.1f} s"


def usual(chosen: str, every: bool) -> list[tuple[Case, Path]]:
    own = [(Case("example_" + name, name + ".c", timeout=60), EXAMPLES / f"{name}.c") for name in ("pingpong", "halo2d")]
    others = [
        (case, SOURCES / case.program)
        for case in cases(40)
        if case.program.endswith(".c") and "narrows" in case.runners and not case.fails and not case.stdin and "--compute" not in case.options
        # It looks at how long computing takes.
        and case.name != "groups_speed"
    ]
    wanted = chosen or ("" if every else f"^example|^({USUAL})")
    return [(case, source) for case, source in own + others if re.search(wanted, case.name)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("-k", default="", metavar="REGEX")
    parser.add_argument("-n", default="2,4")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("-j", type=int, default=2)
    options = parser.parse_args()
    if not (PREFIX / "bin/mpicc").exists():
        parser.error(f"no MPICH in {PREFIX}: run scripts/setup.sh foreign")

    jobs = []
    for case, source in usual(options.k, options.all):
        for ranks in map(int, options.n.split(",")):
            if len(case.ranks) != 1 or ranks in case.ranks:
                jobs.append((f"{case.name} n={ranks}", lambda case=case, source=source, ranks=ranks: compare(case, source, ranks)))
    passed, failed = 0, 0

    def run(job) -> bool:
        title, test = job
        try:
            said, good = test(), True
        except Failure as error:
            said, good = str(error), False
        print(f"{'ok  ' if good else 'FAIL'}  {title:32} {said}", flush=True)
        return good

    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for good in pool.map(run, jobs):
            passed, failed = passed + good, failed + (not good)
    print(f"\n{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
