#!/usr/bin/env python3
"""Runs the MPI test programs under plain launchers or under Narrows and compares what they print.

    tests/run_mpi.py --runner plain                     every program, every MPI found, 2, 16 and 64 ranks
    tests/run_mpi.py --runner narrows -k coll -n 16     what matches "coll", on the simulated machine
    tests/run_mpi.py -n 2,4,16,64 --turn commit         what `make test` runs for this commit
    tests/run_mpi.py --list

The programs verify themselves (tests/mpi/check.h). On top of that the standard output of every run is compared, line by line
after sorting, with the output of a plain run of the reference MPI (the first one found), which is made once and kept in the
build folder. One line per case, then "N passed, N failed"; the exit code is 0 if nothing failed. The streams of each run stay in
BUILD/log.

Only the standard library of Python 3.11 is used. The parts are in tests/mpi_driver.
"""

import argparse
import concurrent.futures
import itertools
import os
import re
import signal
import sys
import threading
import time
from typing import Callable

from mpi_driver.cases import OPENMP_PARTS, RANKS, THREAD_PARTS, cases
from mpi_driver.checks import Failure, Tests
from mpi_driver.mpis import MPI_NAMES, ROOT, USUAL
from mpi_driver.processes import stop_everything, temporary_files, unused
from mpi_driver.refusals import STARTS, TROUBLES, refusals, starts, troubles
from mpi_driver.repeats import computing_repeats, cores_agree, instructions_count, repeats, same_on_threads, same_with
from mpi_driver.rotation import due, turn, with_one_mpi

# Name of the case, MPI, ranks, whether it must run alone, what it does.
Job = tuple[str, str, int, bool, Callable[[], float | None]]


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog="see the head of this file")
    parser.add_argument("--runner", choices=("plain", "narrows"), default="narrows")
    parser.add_argument("-k", action="append", default=[], metavar="REGEX", help="cases whose name matches (several: any)")
    parser.add_argument("--mpi", default=USUAL, help=f"comma separated, of {', '.join(MPI_NAMES)}; default: {USUAL}")
    parser.add_argument("-n", default=",".join(map(str, RANKS)), help="numbers of ranks, comma separated: those of cases without numbers of their own, and which of those are run")
    parser.add_argument("--prefix", action="append", default=[], metavar="MPI=DIR", help="where an MPI is installed")
    parser.add_argument("--require", default="", help="MPIs that must be there, comma separated; else missing ones are left out")
    parser.add_argument("--build", default=str(ROOT / "target" / "mpi-tests"), help="folder for binaries, references and logs")
    parser.add_argument("--narrows", default=str(ROOT / "target" / "release" / "narrows"))
    parser.add_argument("--machine", default="bxi-v2")
    parser.add_argument("--programs", type=int, default=400, help="random programs of p2p_programs in each run")
    parser.add_argument("--slow", type=float, default=1.0, help="factor for all time limits")
    parser.add_argument("-j", "--jobs", type=int, default=2 * len(os.sched_getaffinity(0)), help="runs at once, for launchers sleep much of their time; default: twice the cores")
    parser.add_argument("--turn", type=turn, default="all", help="what one of ten commits in a row runs: a number, or commit for that of this one; 4 ranks are in each, of 2, 16 and 64 a tenth; default: all")
    parser.add_argument("--one-mpi", action="store_true", help="a turn is each case under one MPI, instead of a tenth of what has 2, 16 and 64 ranks")
    parser.add_argument("--list", action="store_true")
    return parser


# Programs, and their arguments, whose threads run one at a time.
ONE_THREAD = (
    *[("threads_chance", (way,)) for way in ("queue", "clock", "progress", "apart", "futex")],
    *[("threads_multiple", ("20", how)) for how in ("pingpong", "wait", "sleep")],
    *[("naps", (level, "exact")) for level in ("funneled", "multiple")],
    *[("threads_sockets", (level, "1e-3")) for level in ("funneled", "multiple")],
    ("allocator", ()),
    ("allocator", ("looks",)),
    ("threads_asleep", ()),
    ("threads_calls", ()),
    ("threads_joined", ()),
    ("threads_locks", ()),
    ("threads_signals", ()),
    ("threads_timeouts", ("0.1",)),
    ("thread_workers", ()),
    ("omp_between", ()),
    ("omp_dynamic", ()),
)


def jobs_of(options: argparse.Namespace, tests: Tests, mpis: list[str]) -> list[Job]:
    """What the options select, in order. The cases of `refusals` and `troubles` are not in the list that --list prints."""
    ranks = [int(n) for n in options.n.split(",")]
    selected = lambda name: not options.k or any(re.search(pattern, name) for pattern in options.k)  # noqa: E731

    jobs: list[Job] = []
    for case in cases(options.programs):
        if options.runner not in case.runners or not selected(case.name):
            continue
        for name in mpis:
            if name not in case.mpis:
                continue
            for n in ranks if case.ranks is RANKS else case.ranks:
                if n in ranks or n not in RANKS:
                    jobs.append((case.name, name, n, False, lambda case=case, name=name, n=n: tests.check(options.runner, tests.mpis[name], case, n)))
    if options.runner == "narrows":
        for name in mpis:
            for program, network in itertools.product(("p2p_random", "coll_nonblocking", "comm", "rma_atomic"), ("packet", "flow", "loggp")):
                if selected(f"repeat_{program}_{network}") and 16 in ranks:
                    test = repeats(tests, tests.mpis[name], 16, program, "--network", network)
                    jobs.append((f"repeat_{program}_{network}", name, 16, False, test))
            # Ports that hear early and late of packets, and two ranks on a node. All have several groups of switches.
            for title, machine in (
                ("fat_tree", ("--machine", "bxi-v2", "--nodes", "64", "--set", "switch.radix=8", "--set", "network.routing=adaptive")),
                ("dragonfly", ("--machine", "dragonfly-342", "--ppn", "2", "--placement", "random:1")),
                ("pauses", ("--machine", "roce-400", "--nodes", "64", "--set", "switch.radix=8", "--placement", "random:1")),
            ):
                for program, words in (("p2p_mixed", ("5",)), ("coll_nonblocking", ())):
                    case = f"switches_apart_{title}_{program}"
                    if 16 in ranks and selected(case):
                        jobs.append((case, name, 16, False, same_on_threads(tests, tests.mpis[name], 16, program, *machine, arguments=words)))
            # What ranks tell each other in MPI_Init is acknowledged, and its timers are of no account.
            if 16 in ranks and selected("timeouts_before_the_start"):
                timeouts = [("--set", f"network.reliability.timeout={timeout}") for timeout in ("20 ms", "500 ms")]
                test = same_with(tests, tests.mpis[name], 16, "comm", timeouts, "--machine", "acc-testbed")
                jobs.append(("timeouts_before_the_start", name, 16, False, test))
            # Nothing is lost before simulated time starts, and ways chosen then decide nothing later.
            for case, machine in (
                ("repeat_losses", ("--machine", "bxi-v3-reliable", "--fault", "loss=0.01")),
                ("repeat_adaptive", ("--machine", "bxi-v3", "--nodes", "64", "--set", "switch.radix=8", "--placement", "random:5")),
            ):
                if 16 in ranks and selected(case):
                    jobs.append((case, name, 16, False, same_on_threads(tests, tests.mpis[name], 16, "comm", *machine)))
            # The number of events tells of what the order of messages in MPI_Init has left behind.
            if 16 in ranks and selected("repeat_reliable"):
                jobs.append(("repeat_reliable", name, 16, False, repeats(tests, tests.mpis[name], 16, "comm", "--machine", "bxi-v3-reliable")))
            for n in (2, 16):
                if n in ranks and selected("repeat_sockets"):
                    jobs.append(("repeat_sockets", name, n, False, repeats(tests, tests.mpis[name], n, "sockets")))
            # Who has a lock of a file first.
            if selected("repeat_file_locked"):
                jobs.append(("repeat_file_locked", name, 5, False, repeats(tests, tests.mpis[name], 5, "file_locked")))
            if selected("repeat_computing"):
                jobs.append(("repeat_computing", name, 4, False, computing_repeats(tests, tests.mpis[name], 4)))
            if selected("repeat_computing_threads"):
                jobs.append(("repeat_computing_threads", name, 4, False, computing_repeats(tests, tests.mpis[name], 4, sleepers=3)))
            if selected("instructions"):
                jobs.append(("instructions", name, 2, False, instructions_count(tests, tests.mpis[name], 2)))
            # One after another: what else runs takes part in the measurement.
            if name == mpis[0] and 2 in ranks and selected("thread_cores"):
                jobs.append(("thread_cores", name, 2, True, cores_agree(tests, tests.mpis[name], (*THREAD_PARTS, *OPENMP_PARTS))))
            if name == mpis[0] and 2 in ranks and selected("thread_cores_llvm"):
                llvm = {"LD_PRELOAD": "libomp.so.5"}
                jobs.append(("thread_cores_llvm", name, 2, True, cores_agree(tests, tests.mpis[name], OPENMP_PARTS, llvm)))
            # Three threads a rank: some end before others, and some sleep while others ask the launcher for an address.
            for seed in ("858", "517"):
                if 16 in ranks and selected(case := f"repeat_threads_mixed_{seed}"):
                    machine = ("--machine", "dragonfly-342", "--ppn", "2", "--placement", "random:3")
                    test = repeats(tests, tests.mpis[name], 16, "p2p_mixed", *machine, arguments=(seed, "3"))
                    jobs.append((case, name, 16, False, test))
            for n in (2, 4):
                if selected("repeat_threads_joined"):
                    jobs.append(("repeat_threads_joined", name, n, False, repeats(tests, tests.mpis[name], n, "threads_joined")))
                if selected("repeat_threads_multiple"):
                    jobs.append(("repeat_threads_multiple", name, n, False, repeats(tests, tests.mpis[name], n, "threads_multiple")))
                for way in ("apart", "futex"):
                    if selected(title := f"repeat_threads_chance_{way}"):
                        jobs.append((title, name, n, False, repeats(tests, tests.mpis[name], n, "threads_chance", arguments=(way,))))
                for level in ("funneled", "multiple"):
                    if selected(title := f"repeat_threads_sockets_{level}"):
                        jobs.append((title, name, n, False, repeats(tests, tests.mpis[name], n, "threads_sockets", arguments=(level,))))
            # Of many of these something is left to chance otherwise: see `chance` in cases.py.
            for program, words in ONE_THREAD:
                title = "_".join(("repeat_one_thread", program, *words))
                if 2 in ranks and selected(title):
                    test = repeats(tests, tests.mpis[name], 2, program, arguments=words, environment={"NARROWS_ONE_THREAD": "1", "OMP_NUM_THREADS": "4"})
                    jobs.append((title, name, 2, False, test))
            # Ranks that look into each other's memory. What Open MPI 4.1 keeps registered depends on addresses: see
            # docs/limits.md. 64 of them on few cores take minutes without Narrows, where each spins for its turn: no
            # comparison with that.
            for program, n in (("rma_shared", 16), ("rma_shared", 64), ("rma_spin", 16)):
                if n in ranks and selected(f"repeat_{program}"):
                    test = repeats(tests, tests.mpis[name], n, program, "--ppn", "4", environment={"OMPI_MCA_mpi_leave_pinned": "0"})
                    jobs.append((f"repeat_{program}", name, n, False, test))
        if options.turn is not None:
            jobs = (with_one_mpi if options.one_mpi else due)(jobs, options.turn)
        if mpis and not options.list:
            for name in mpis if any(map(selected, TROUBLES)) else ():
                jobs += [(title, name, 4, False, test) for title, test in troubles(tests, tests.mpis[name]) if selected(title)]
            for name in mpis if any(map(selected, STARTS)) else ():
                jobs += [(title, name, 4, False, test) for title, test in starts(tests, tests.mpis[name]) if selected(title)]
            jobs += [(title, mpis[0], 2, False, test) for title, test in refusals(tests, tests.mpis[mpis[0]]) if selected(title)]
    return jobs


def run_jobs(options: argparse.Namespace, jobs: list[Job], mpis: list[str]) -> int:
    """Runs all, first those that need not be alone; the exit code."""
    failed: list[str] = []
    passed = 0
    print_lock = threading.Lock()

    def one(job) -> None:
        nonlocal passed
        title, name, n, _, test = job
        start = time.monotonic()
        try:
            test()
            with print_lock:
                passed += 1
                print(f"ok    {name:8} n={n:<3} {title:28} {time.monotonic() - start:6.1f} s", flush=True)
        except Exception as error:
            reason = str(error) if isinstance(error, Failure) else f"{type(error).__name__}: {error}"
            with print_lock:
                failed.append(f"{name} n={n} {title}")
                print(f"FAIL  {name:8} n={n:<3} {title:28} {time.monotonic() - start:6.1f} s  {reason}", flush=True)

    together = [job for job in jobs if not job[3]]
    alone = [job for job in jobs if job[3]]
    before = {name: temporary_files(name) for name in mpis}
    with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
        list(pool.map(one, together))

    def nothing_left() -> None:
        left = sorted(unused({path for name in mpis for path in temporary_files(name) - before[name]}))
        if left:
            raise Failure(f"left behind: {'; '.join(left)[:500]}")

    if together and options.runner == "narrows":
        one(("nothing_left_behind", "all", 0, True, nothing_left))
    for job in alone:
        one(job)
    if failed:
        print("\nfailed:\n  " + "\n  ".join(failed))
    print(f"\n{passed} passed, {len(failed)} failed")
    return 1 if failed else 0


def main() -> int:
    parser = arguments()
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop_everything)

    tests = Tests(options)
    wanted_mpis = [name for name in options.mpi.split(",") if name]
    for name in wanted_mpis:
        if name not in tests.mpis:
            parser.error(f"--mpi {name}: expected {', '.join(MPI_NAMES)}")
        if not tests.mpis[name].usable():
            if name in options.require.split(","):
                parser.error(f"no {name} MPI in {tests.mpis[name].prefix}: run make setup, or give --prefix {name}=DIR")
            print(f"left out: no {name} MPI in {tests.mpis[name].prefix}")
    mpis = [name for name in wanted_mpis if tests.mpis[name].usable()]
    if options.runner == "narrows" and not tests.narrows.exists() and not options.list:
        parser.error(f"no {tests.narrows}: run make build")
    jobs = jobs_of(options, tests, mpis)
    if options.list:
        for title, name, n, _, _ in jobs:
            print(f"{name:8} n={n:<3} {title}")
        print(f"{len(jobs)} cases")
        return 0
    return run_jobs(options, jobs, mpis)


if __name__ == "__main__":
    sys.exit(main())
