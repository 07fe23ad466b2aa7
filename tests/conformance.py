#!/usr/bin/env python3
"""Runs built tests of MPICH's own suite (test/mpi) under the plain launchers and under Narrows, and compares.

    tests/conformance.py DIR                       DIR/debian, DIR/openmpi and DIR/mpich: test/mpi as built with each MPI
    tests/conformance.py DIR --mpi intel           DIR/intel
    tests/conformance.py DIR --mpi mpich -k rma/   what matches "rma/", with one MPI
    tests/conformance.py DIR --list

Which programs there are, with how many ranks, arguments and results, is read from the files `testlist` of the suite. A test passes when it
says so under Narrows. One that fails under its plain launcher too is counted apart. One that fails under Narrows alone must stand in the
exclude file with a reason (tests/conformance/exclude.txt), or the exit code is 1; so it is when one that stands there passes.

The suite is fetched and built by who runs this: github.com/pmodels/mpich at a release, in test/mpi `./autogen.sh`, then for each MPI
`./configure CC=.../mpicc --enable-strictmpi && make -k` in a copy of that folder. With Intel MPI I_MPI_ROOT is to be set, LD_LIBRARY_PATH to
its lib, and for Fortran MPIFC=.../mpif90 FCFLAGS=-I.../include/mpi/gfortran/VERSION. Only the standard library of Python 3.11 is used.
"""

import argparse
import concurrent.futures
import dataclasses
import fnmatch
import os
import re
import shutil
import sys
import threading
from pathlib import Path

from mpi_driver.checks import Tests
from mpi_driver.mpis import MPI_NAMES, ROOT, USUAL, Mpi
from mpi_driver.processes import Outcome, run

EXCLUDE = Path(__file__).resolve().parent / "conformance" / "exclude.txt"


@dataclasses.dataclass(frozen=True)
class Test:
    """One line of a testlist."""

    folder: Path  # where it was built
    name: str  # folder/program, its arguments and the number of ranks: "rma/mutex_bench 4"
    program: str
    ranks: int
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    result: str
    seconds: float
    memory: float  # of all ranks together, GiB


# The suite's own programs need another patience on few cores.
DEFAULT_SECONDS = 180.0


def read_list(root: Path, folder: Path, file: Path) -> list[Test]:
    """The tests of a testlist and of the folders that it names."""
    found = []
    for line in file.read_text().splitlines():
        words = line.split("#")[0].split()
        if not words or words[0].startswith(("!", "@")):
            continue
        below = folder / words[0]
        if below.is_dir():
            if (below / "testlist").exists():
                found += read_list(root, below, below / "testlist")
            continue
        ranks, arguments, environment, result, seconds, memory = 2, [], [], "", DEFAULT_SECONDS, 0.0
        for word in words[1:]:
            key, _, value = word.partition("=")
            match key:
                case "arg":
                    arguments.append(value.strip('"'))
                case "env":
                    name, _, text = value.partition("=")
                    environment.append((name, text))
                case "resultTest":
                    result = value
                case "timeLimit":
                    seconds = float(value)
                case "mem":
                    memory = float(value)
                case _ if word.isdigit():
                    ranks = int(word)
        # Names that the suite gives to one program with several sets of arguments are the same: the arguments tell them
        # apart.
        place = (folder.relative_to(root) / words[0]).as_posix()
        name = " ".join([place, *arguments, *("=".join(pair) for pair in environment), str(ranks)])
        seconds = max(seconds, DEFAULT_SECONDS)
        found.append(Test(folder, name, words[0], ranks, tuple(arguments), tuple(environment), result, seconds, memory))
    return found


def passed(test: Test, outcome: Outcome) -> bool:
    """As the suite's own script decides (`runtests`)."""
    if outcome.code is None:
        return False
    match test.result:
        case "TestStatus":
            return outcome.code != 0
        case "TestErrFatal":
            return outcome.code != 0 and "Error" in outcome.stdout + outcome.stderr
        case "TestStatusNoErrors":
            return outcome.code != 0 and "No Errors" in outcome.stdout
        case _:
            lines = [line.strip() for line in outcome.stdout.splitlines() if line.strip()]
            return outcome.code == 0 and bool(lines) and all(line in ("No Errors", "Test passed") for line in lines)


@dataclasses.dataclass(frozen=True)
class Excluded:
    """A line of the exclude file: `MPIS PATTERN: REASON`."""

    mpis: tuple[str, ...]
    pattern: str
    reason: str

    def covers(self, mpi: Mpi, test: Test) -> bool:
        return mpi.name in self.mpis and fnmatch.fnmatchcase(test.name, self.pattern)


def read_exclude(path: Path) -> list[Excluded]:
    """The exclude file; one reason for each line."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        head, _, reason = line.partition(": ")
        mpis, _, pattern = head.strip().partition(" ")
        names = MPI_NAMES if mpis == "all" else tuple(mpis.split(","))
        if not pattern.strip() or not reason.strip() or not {name.split("@")[0] for name in names} <= set(MPI_NAMES):
            sys.exit(f"{path}:{number}: expected MPIS PATTERN: REASON, with all or some of {','.join(MPI_NAMES)}")
        found.append(Excluded(names, pattern.strip(), reason.strip()))
    return found


def narrows_command(options: argparse.Namespace, mpi: Mpi, ranks: int, program: list[str]) -> list[str]:
    """The command line that runs a program under Narrows."""
    narrows, launcher = str(Path(options.narrows).resolve()), mpi.tool("mpiexec" if mpi.name in ("mpich", "intel") else "mpirun")
    more = options.option or ["--compute", "none"]
    return [narrows, "run", "-n", str(ranks), "--machine", options.machine, "--mpirun", launcher, *more, "--", *program]


class Suite:
    """Runs tests and keeps what they said."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.logs = Path(options.build) / "conformance"
        self.logs.mkdir(parents=True, exist_ok=True)

    def command(self, runner: str, mpi: Mpi, test: Test) -> list[str]:
        program = [str(test.folder / test.program), *test.arguments]
        if runner == "plain":
            return mpi.plain(test.ranks, program)
        return narrows_command(self.options, mpi, test.ranks, program)

    def run(self, runner: str, mpi: Mpi, test: Test) -> bool:
        environment = {**mpi.environment, **dict(test.environment)}
        # Some read files of their folder.
        files = {path.name: path.read_text() for path in test.folder.glob("*.txt")}
        outcome = run(self.command(runner, mpi, test), test.seconds * self.options.slow, environment, files=files, alone=False)
        shutil.rmtree(outcome.folder, ignore_errors=True)
        log = self.logs / f"{mpi.name}-{runner}-{re.sub(r'[^A-Za-z0-9_.=-]', '_', test.name)[:150]}.txt"
        log.write_text(f"$ {outcome.command}\n[{outcome.code} after {outcome.seconds:.1f} s]\n{outcome.stdout[-20000:]}\n--- stderr\n{outcome.stderr[-20000:]}\n")
        return passed(test, outcome)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog="see the head of this file")
    parser.add_argument("folder", metavar="DIR", help="holds debian, openmpi, mpich, intel: test/mpi as built with each")
    parser.add_argument("-k", action="append", default=[], metavar="REGEX", help="tests whose name matches (several: any)")
    parser.add_argument("--mpi", default=USUAL, help=f"comma separated, of {', '.join(MPI_NAMES)}; default: {USUAL}")
    parser.add_argument("--prefix", action="append", default=[], metavar="MPI=DIR", help="where an MPI is installed")
    parser.add_argument("--exclude", default=str(EXCLUDE), metavar="FILE", help="tests that are known to fail, with a reason per line")
    parser.add_argument("--no-plain", action="store_true", help="does not ask the plain launcher about what fails")
    parser.add_argument("--option", action="append", default=[], metavar="OPTION", help="of narrows run; default: --compute none")
    parser.add_argument("--build", default=str(ROOT / "target" / "mpi-tests"), help="folder for logs")
    parser.add_argument("--narrows", default=str(ROOT / "target" / "release" / "narrows"))
    parser.add_argument("--machine", default="bxi-v2")
    parser.add_argument("--slow", type=float, default=1.0, help="factor for all time limits")
    parser.add_argument("--memory", type=float, default=4.0, metavar="GIB", help="leaves out tests that need more, as the suite says; default: 4")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("--list", action="store_true")
    return parser


def main() -> int:
    options = arguments().parse_args()
    root, excluded = Path(options.folder).resolve(), read_exclude(Path(options.exclude))
    mpis = Tests(options).mpis
    suite, lock = Suite(options), threading.Lock()
    unexpected: list[str] = []
    for name in options.mpi.split(","):
        built = root / name
        if name not in mpis or not (built / "testlist").exists():
            print(f"left out: no {built}/testlist")
            continue
        mpi = mpis[name]
        tests = list(dict.fromkeys(read_list(built, built, built / "testlist")))
        tests = [test for test in tests if not options.k or any(re.search(pattern, test.name) for pattern in options.k)]
        absent = [test for test in tests if not os.access(test.folder / test.program, os.X_OK)]
        large = [test for test in tests if test.memory > options.memory]
        tests = [test for test in tests if test not in absent and test not in large]
        if options.list:
            print("\n".join(f"{name:8} {test.name}" for test in tests))
            continue
        count = {"pass": 0, "excluded": 0, "fails plainly too": 0, "FAIL": 0}

        def one(test: Test) -> None:
            known = next((line for line in excluded if line.covers(mpi, test)), None)
            if suite.run("narrows", mpi, test):
                verdict = "pass"
                if known and "now and then" not in known.reason:
                    verdict = "FAIL"
                    known = dataclasses.replace(known, reason="passes, and stands in the exclude file")
            elif known:
                verdict = "excluded"
            else:
                verdict = "FAIL" if options.no_plain or suite.run("plain", mpi, test) else "fails plainly too"
            with lock:
                count[verdict] += 1
                if verdict != "pass":
                    print(f"{verdict:18} {name:8} {test.name}  {known.reason if known else ''}".rstrip(), flush=True)
                if verdict == "FAIL":
                    unexpected.append(f"{name} {test.name}")

        with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
            list(pool.map(one, tests))
        print(f"{name}: {', '.join(f'{number} {what}' for what, number in count.items())}, {len(absent)} not built, {len(large)} too large", flush=True)
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
