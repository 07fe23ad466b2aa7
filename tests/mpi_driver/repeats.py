"""Two runs of one program are the same: digest, simulated time and counts; with computing measured, times within 5 %."""

import os
import re
import shutil
import statistics
import tempfile
from typing import Callable

from .cases import Case
from .checks import Failure, Tests, tail
from .mpis import Mpi
from .processes import run


def repeats(
    tests: Tests, mpi: Mpi, ranks: int, program: str, *options: str, arguments: tuple[str, ...] = (), environment: dict[str, str] | None = None
) -> Callable[[], None]:
    """Two runs, the second on one core only, have the same digest and simulated time."""

    def test() -> None:
        seen = []
        for prefix in ([], ["taskset", "-c", str(min(os.sched_getaffinity(0)))]):
            case = Case(program, f"{program}.c", arguments, options=("--compute", "none", *options))
            command = [*prefix, *tests.command("narrows", mpi, case, ranks)]
            outcome = run(command, timeout=120 * tests.options.slow, environment={**mpi.environment, **(environment or {})})
            try:
                if outcome.code != 0:
                    raise Failure(f"exit code {outcome.code}: {tail(outcome)}")
                summary = outcome.summary
                seen.append({key: summary[key] for key in ("digest", "simulated_s", "messages", "bytes", "packets", "events", "per_rank")})
            finally:
                shutil.rmtree(outcome.folder, ignore_errors=True)
        if seen[0] != seen[1]:
            raise Failure(f"{seen[0]} and then {seen[1]}")

    return test


def computing_repeats(tests: Tests, mpi: Mpi, ranks: int) -> Callable[[], None]:
    """Equal work that a noisy host measures unequally takes its median; with the times of another run two runs are the same to the bit."""

    def simulated(folder: str, ranks: int, *options: str, prefix: tuple[str, ...] = ()) -> tuple[float, dict, str]:
        case = Case("compute_alike", "compute_alike.c", ("64",), options=options)
        outcome = run([*prefix, *tests.command("narrows", mpi, case, ranks)], timeout=120 * tests.options.slow, environment=mpi.environment)
        try:
            found = re.search(r"^alike (\d+\.\d+)$", outcome.stdout, re.M)
            if outcome.code != 0 or not found:
                raise Failure(f"exit code {outcome.code}: {tail(outcome)}")
            return float(found[1]), outcome.summary, outcome.stderr
        finally:
            shutil.rmtree(outcome.folder, ignore_errors=True)

    def test() -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "times.json")
            measured = simulated(folder, ranks, "--compute", "measured")
            sampled = simulated(folder, ranks, "--compute", "sampled", "--compute-out", file)
            # In four of seven steps one of four ranks is late by half a unit; the first two steps are measured.
            if not measured[0] > 1.17 > 1.1 > sampled[0] > 0.9:
                raise Failure(f"a step took {measured[0]} units as measured (1.23), {sampled[0]} by medians (1.01)")
            if "--compute sampled" not in measured[2] or sampled[1]["compute_alike"] < 0.7:
                raise Failure(f"{measured[2]} and then {sampled[1]['compute_alike']}")
            pooled = simulated(folder, ranks, "--compute", "pooled")
            if not 1.1 > pooled[0] > 0.9 or "on all ranks where theirs are near" not in pooled[2]:
                raise Failure(f"a step took {pooled[0]} units by the medians of all ranks (1.01): {pooled[2]}")
            if sampled[1]["apart"] == 0:
                raise Failure("no rank that computes for longer was set apart, so all others waited for it")
            one_core = ("taskset", "-c", str(min(os.sched_getaffinity(0))))
            same = [simulated(folder, ranks, "--compute-from", file, prefix=prefix) for prefix in ((), one_core)]
            for _, summary, said in same:
                if "computing: all from" not in said:
                    raise Failure(f"not all of computing was in the file: {said}")
            first, second = ({key: summary[key] for key in ("digest", "simulated_s", "per_rank")} for _, summary, _ in same)
            if first != second:
                raise Failure(f"{first} and then {second}")
            case = Case("compute_alike", "compute_alike.c", ("64",), options=("--compute-from", file))
            outcome = run(tests.command("narrows", mpi, case, ranks + 1), timeout=120 * tests.options.slow, environment=mpi.environment)
            shutil.rmtree(outcome.folder, ignore_errors=True)
            if outcome.code == 0 or "one file for each number of ranks" not in outcome.stderr:
                raise Failure(f"times of {ranks} ranks were taken for {ranks + 1}: {tail(outcome)}")

    return test


# Simulated times of threads on one host core and on two may differ by so much.
CORES_BOUND = 0.05
# The CPU time that the same work takes varies with what else the host does: the median of so many runs counts.
CORES_RUNS = 9


def cores_agree(tests: Tests, mpi: Mpi, parts: tuple[str, ...], environment: dict[str, str] | None = None) -> Callable[[], None]:
    """Each part of thread_time.c takes as long on one host core as on two."""

    def measure(cores: list[int], times: dict[str, list[float]]) -> None:
        case = Case("thread_time", "thread_time.c", parts)
        command = ["taskset", "-c", ",".join(map(str, cores)), *tests.command("narrows", mpi, case, 2)]
        outcome = run(command, timeout=120 * tests.options.slow, environment={**mpi.environment, **(environment or {})})
        shutil.rmtree(outcome.folder, ignore_errors=True)
        if outcome.code != 0:
            raise Failure(f"exit code {outcome.code}: {tail(outcome)}")
        for name, expected, time in re.findall(r"^(\w+) (\d+\.\d\d) (\d+\.\d+) \d+\.\d+$", outcome.stdout, re.M):
            times.setdefault(name, []).append(float(time) / float(expected))

    def test() -> None:
        cores = sorted(os.sched_getaffinity(0))[:2]
        on_one: dict[str, list[float]] = {}
        on_two: dict[str, list[float]] = {}
        # One after the other: a phase in which the host is busy is in both.
        for _ in range(CORES_RUNS):
            measure(cores[:1], on_one)
            measure(cores, on_two)
        one, two = ({name: statistics.median(ratios) for name, ratios in times.items()} for times in (on_one, on_two))
        print(f"{'part':14}{'one core':>10}{'two cores':>10}   (of what is expected; medians of {CORES_RUNS})")
        for name in parts:
            print(f"{name:14}{one[name]:10.3f}{two[name]:10.3f}")
        wrong = [f"{name}: {one[name]:.3f} and {two[name]:.3f}" for name in parts if abs(one[name] / two[name] - 1) > CORES_BOUND]
        if wrong:
            raise Failure("times on one core and on two, of what is expected: " + ", ".join(wrong))

    return test
