#!/usr/bin/env python3
"""Runs mpi4py's own suite under the plain launchers and under Narrows, and compares.

    tests/conformance_mpi4py.py DIR                         with the three MPIs, 1, 2 and 4 ranks
    tests/conformance_mpi4py.py DIR --mpi mpich --ranks 2   with one MPI
    tests/conformance_mpi4py.py DIR -k test_rma             modules whose names match

DIR/test is that of mpi4py's sources. DIR/debian, DIR/openmpi and DIR/mpich (DIR/intel for --mpi intel) are virtual environments of Python with mpi4py (and NumPy) in
the same version, for each MPI: `python3 -m venv DIR/mpich && DIR/mpich/bin/pip install mpi4py==4.1.2 numpy`. Who runs this fetches them.

Each module (test_rma.py) is one run. A test that does not pass under Narrows and passes under the plain launcher is a failure, unless it
stands in the exclude file (tests/conformance/exclude_mpi4py.txt) with a reason; those are left out. Only the standard library of Python
3.11 is used.
"""

import argparse
import fnmatch
import re
import shutil
import sys
from pathlib import Path

from conformance import Excluded, narrows_command, read_exclude
from mpi_driver.checks import Tests
from mpi_driver.mpis import MPI_NAMES, ROOT, USUAL, Mpi
from mpi_driver.processes import Outcome, run

EXCLUDE = Path(__file__).resolve().parent / "conformance" / "exclude_mpi4py.txt"
# `testName (module.Class.testName) ... ok` of --verbose; other ranks write between the parts.
BEGUN = re.compile(r"^(?:\w+ )?\((test_\w+\.\w+\.\w+)\)|\w+ \((test_\w+\.\w+\.\w+)\)", re.M)
FAILED = re.compile(r"^(?:FAIL|ERROR): \w+ \(([\w.]+)\)", re.M)


def library(mpi: Mpi) -> str:
    """The MPI library that mpi4py is to load: installations have it in one of these places."""
    for folder in ("lib", "lib64", "lib/x86_64-linux-gnu"):
        found = sorted((mpi.prefix / folder).glob("libmpi.so.[0-9]*"))
        if found:
            return str(found[0])
    sys.exit(f"no libmpi.so below {mpi.prefix}")


class Module:
    """One module of the suite with one MPI and a number of ranks."""

    def __init__(self, options: argparse.Namespace, mpi: Mpi, name: str, ranks: int, excluded: list[Excluded]) -> None:
        self.options, self.mpi, self.name, self.ranks = options, mpi, name, ranks
        names = {mpi.name, f"{mpi.name}@{ranks}"}
        self.left_out = [line for line in excluded if names & set(line.mpis) and fnmatch.fnmatchcase(name, line.pattern.split(".")[0])]

    def run(self, runner: str) -> Outcome:
        suite = Path(self.options.folder).resolve()
        program = [str(suite / self.mpi.name / "bin" / "python"), str(suite / "test" / "main.py"), "--verbose", "-i", f"^{self.name}.py$"]
        for line in self.left_out:
            program += ["-x", line.pattern]
        command = self.mpi.plain(self.ranks, program) if runner == "plain" else narrows_command(self.options, self.mpi, self.ranks, program)
        environment = {**self.mpi.environment, "MPI4PY_LIBMPI": library(self.mpi)}
        if runner == "narrows" and self.mpi.name == "debian":
            # A message sent by MPI_Ssend and received by MPI_Mrecv is never acknowledged by Open MPI 4.1's mtl/ofi
            # (docs/limits.md); this is mpi4py's switch to receive objects by MPI_Recv.
            environment["MPI4PY_RC_RECV_MPROBE"] = "0"
        outcome = run(command, self.options.seconds, environment, alone=False)
        shutil.rmtree(outcome.folder, ignore_errors=True)
        log = Path(self.options.build) / "conformance" / f"mpi4py-{self.mpi.name}-{runner}-{self.name}-{self.ranks}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        head = f"$ {outcome.command}\n[{outcome.code} after {outcome.seconds:.1f} s]\n"
        log.write_text(f"{head}{outcome.stdout[-200000:]}\n--- stderr\n{outcome.stderr[-200000:]}\n")
        return outcome

    @staticmethod
    def failures(outcome: Outcome) -> set[str]:
        """What did not pass: tests that say so, or the last one that had begun when the run died or stood still."""
        found = set(FAILED.findall(outcome.stderr))
        if outcome.code != 0 and not found:
            begun = [first or second for first, second in BEGUN.findall(outcome.stderr)]
            found.add(f"{begun[-1]} (last to begin, exit code {outcome.code})" if begun else f"before the first test, exit code {outcome.code}")
        return found

    @staticmethod
    def count(outcome: Outcome) -> int:
        """The tests that were run, on the rank with the most."""
        return max((int(number) for number in re.findall(r"^Ran (\d+) tests?", outcome.stderr, re.M)), default=0)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog="see the head of this file")
    parser.add_argument("folder", metavar="DIR", help="holds test (mpi4py's), and the environments debian, openmpi, mpich")
    parser.add_argument("-k", action="append", default=[], metavar="REGEX", help="modules whose name matches (several: any)")
    parser.add_argument("--mpi", default=USUAL, help=f"comma separated, of {', '.join(MPI_NAMES)}; default: {USUAL}")
    parser.add_argument("--ranks", default="1,2,4", help="comma separated; default: 1,2,4")
    parser.add_argument("--prefix", action="append", default=[], metavar="MPI=DIR", help="where an MPI is installed")
    parser.add_argument("--exclude", default=str(EXCLUDE), metavar="FILE", help="tests to leave out, with a reason per line")
    parser.add_argument("--option", action="append", default=[], metavar="OPTION", help="of narrows run; default: --compute none")
    parser.add_argument("--build", default=str(ROOT / "target" / "mpi-tests"), help="folder for logs")
    parser.add_argument("--narrows", default=str(ROOT / "target" / "release" / "narrows"))
    parser.add_argument("--machine", default="bxi-v2")
    parser.add_argument("--seconds", type=float, default=600.0, help="time limit of one module; test_datatype and test_util_dtlib take minutes")
    return parser


def main() -> int:
    options = arguments().parse_args()
    excluded, mpis = read_exclude(Path(options.exclude)), Tests(options).mpis
    modules = sorted(path.stem for path in (Path(options.folder) / "test").glob("test_*.py"))
    modules = [name for name in modules if not options.k or any(re.search(pattern, name) for pattern in options.k)]
    if not modules:
        sys.exit(f"no module below {options.folder}/test")
    unexpected = 0
    for name in options.mpi.split(","):
        if not (Path(options.folder) / name / "bin" / "python").exists():
            print(f"left out: no {options.folder}/{name}/bin/python")
            continue
        for ranks in map(int, options.ranks.split(",")):
            tests, plainly, failed = 0, 0, 0
            for module in (Module(options, mpis[name], module, ranks, excluded) for module in modules):
                if any(line.pattern == f"{module.name}.*" for line in module.left_out):
                    continue
                outcome = module.run("narrows")
                tests += module.count(outcome)
                failures = module.failures(outcome)
                if not failures:
                    continue
                native = module.run("plain")
                plain = module.failures(native)
                for test in sorted(failures):
                    # Neither was through in time: where each was stopped says nothing.
                    both = test in plain or outcome.code is None and native.code is None
                    verdict = "fails plainly too" if both else "FAIL"
                    plainly, failed = plainly + both, failed + (not both)
                    print(f"{verdict:18} {name:8} {ranks} ranks  {test}", flush=True)
            print(f"{name}, {ranks} ranks: {tests} tests, {failed} FAIL, {plainly} fail plainly too", flush=True)
            unexpected += failed
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
