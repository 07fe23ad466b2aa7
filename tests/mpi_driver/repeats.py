"""Two runs of one program are the same: digest, simulated time and counts; with computing measured, times within 5 %."""

import json
import os
import re
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Callable

from .cases import Case
from .checks import Failure, Tests, tail
from .mpis import Mpi
from .processes import Outcome, run


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
                if summary["may_not_repeat"]:
                    raise Failure(f"{summary['may_not_repeat']}: nothing of this program is left to chance")
                seen.append({key: summary[key] for key in ("digest", "simulated_s", "messages", "bytes", "packets", "events", "per_rank")})
            finally:
                shutil.rmtree(outcome.folder, ignore_errors=True)
        if seen[0] != seen[1]:
            raise Failure(f"{seen[0]} and then {seen[1]}")

    return test


def same_on_threads(tests: Tests, mpi: Mpi, ranks: int, program: str, *options: str, arguments: tuple[str, ...] = ()) -> Callable[[], None]:
    """Whatever the threads of the simulator, everything is the same but the number of its events."""
    threads = [("--threads", str(count)) for count in (1, 2, 16)]
    return same_with(tests, mpi, ranks, program, threads, *options, arguments=arguments)


def same_with(
    tests: Tests, mpi: Mpi, ranks: int, program: str, variants: list[tuple[str, ...]], *options: str, arguments: tuple[str, ...] = ()
) -> Callable[[], None]:
    """With each of these options everything is the same but the number of events."""

    def test() -> None:
        seen = {}
        for variant in variants:
            case = Case(program, f"{program}.c", arguments, options=("--compute", "none", "--network", "packet", *variant, *options))
            outcome = run(tests.command("narrows", mpi, case, ranks), timeout=120 * tests.options.slow, environment=mpi.environment)
            try:
                if outcome.code != 0:
                    raise Failure(f"{variant}: exit code {outcome.code}: {tail(outcome)}")
                keys = ("digest", "simulated_s", "messages", "bytes", "packets", "packet_hops", "per_rank")
                seen[variant] = {key: outcome.summary[key] for key in keys}
            finally:
                shutil.rmtree(outcome.folder, ignore_errors=True)
        if any(result != seen[variants[0]] for result in seen.values()):
            raise Failure(f"by option: {seen}")

    return test


def computing_repeats(tests: Tests, mpi: Mpi, ranks: int, sleepers: int = 0) -> Callable[[], None]:
    """Equal work that a noisy host measures unequally takes its median; with the times of another run two runs are the same to the bit.

    So it is beside threads that sleep.
    """
    arguments = ("64", str(sleepers)) if sleepers else ("64",)

    def simulated(folder: str, ranks: int, *options: str, prefix: tuple[str, ...] = (), keeps: str | None = None) -> tuple[float, dict, str]:
        case = Case("compute_alike", "compute_alike.c", arguments, options=options)
        outcome = run([*prefix, *tests.command("narrows", mpi, case, ranks)], timeout=120 * tests.options.slow, environment=mpi.environment)
        try:
            found = re.search(r"^alike (\d+\.\d+)$", outcome.stdout, re.M)
            if outcome.code != 0 or not found:
                raise Failure(f"exit code {outcome.code}: {tail(outcome)}")
            kept = outcome.folder / "out" / "computing.json"
            if keeps is not None:
                shutil.copy(kept, keeps)
            elif kept.exists() and options == ("--compute", "measured"):
                raise Failure("measured times are kept, and short ones are not among them")
            return float(found[1]), outcome.summary, outcome.stderr
        finally:
            shutil.rmtree(outcome.folder, ignore_errors=True)

    def test() -> None:
        with tempfile.TemporaryDirectory() as folder:
            measured = simulated(folder, ranks, "--compute", "measured")
            file = os.path.join(folder, "computing.json")
            sampled = simulated(folder, ranks, "--compute", "sampled", keeps=file)
            # In four of seven steps one of four ranks is late by half a unit; the first two steps are measured.
            if not measured[0] > 1.17 > 1.1 > sampled[0] > 0.9:
                raise Failure(f"a step took {measured[0]} units as measured (1.23), {sampled[0]} by medians (1.01)")
            # Where there are threads, nothing is said of measured times.
            if sampled[1]["compute_alike"] < 0.7 or not sleepers and "--compute sampled" not in measured[2]:
                raise Failure(f"{measured[2]} and then {sampled[1]['compute_alike']}")
            if not sleepers:
                pooled = simulated(folder, ranks, "--compute", "pooled")
                if not 1.1 > pooled[0] > 0.9 or "on all ranks where theirs are near" not in pooled[2]:
                    raise Failure(f"a step took {pooled[0]} units by the medians of all ranks (1.01): {pooled[2]}")
                if sampled[1]["apart"] == 0:
                    raise Failure("no rank that computes for longer was set apart, so all others waited for it")
            one_core = ("taskset", "-c", str(min(os.sched_getaffinity(0))))
            same = [simulated(folder, ranks, "--compute", kept, prefix=prefix) for kept, prefix in ((file, ()), (folder, one_core))]
            for _, summary, said in same:
                if "computing: all from" not in said:
                    raise Failure(f"not all of computing was in the file: {said}")
            first, second = ({key: summary[key] for key in ("digest", "simulated_s", "per_rank")} for _, summary, _ in same)
            if first != second:
                raise Failure(f"{first} and then {second}")
            if "computing: all from" not in simulated(folder, ranks, "--compute", longer(file, folder))[2]:
                raise Failure("the share that the file gives hangs on what this computer measures")
            halved = simulated(folder, ranks, "--compute", file, "--compute-scale", one_rank(file, folder, 0.5))[1]
            times = [(a["computing_s"], b["computing_s"]) for a, b in zip(first["per_rank"], halved["per_rank"])]
            if halved["compute_alone"]["factor"] != 0.5 or any(abs(b / a - 0.5) > 1e-4 for a, b in times):
                raise Failure(f"times like those of a rank alone with half the work: {halved['compute_alone']}, per rank {times}")
            for like, wanted in ((file, f"has the times of {ranks} ranks, not of one"), (one_rank(file, folder, 4.0), "it must have the work of one of them")):
                case = Case("compute_alike", "compute_alike.c", arguments, options=("--compute", file, "--compute-scale", like))
                outcome = run(tests.command("narrows", mpi, case, ranks), timeout=120 * tests.options.slow, environment=mpi.environment)
                shutil.rmtree(outcome.folder, ignore_errors=True)
                said = [line for line in outcome.stderr.splitlines() if "--compute-scale" in line]
                if outcome.code == 0 or len(said) != 1 or wanted not in said[0] or "-n 1 --compute sampled --out DIR" not in said[0]:
                    raise Failure(f"a file of other work was taken: {tail(outcome)}")
            case = Case("compute_alike", "compute_alike.c", arguments, options=("--compute", file))
            outcome = run(tests.command("narrows", mpi, case, ranks + 1), timeout=120 * tests.options.slow, environment=mpi.environment)
            shutil.rmtree(outcome.folder, ignore_errors=True)
            if outcome.code == 0 or "one file for each number of ranks" not in outcome.stderr:
                raise Failure(f"times of {ranks} ranks were taken for {ranks + 1}: {tail(outcome)}")

    return test


def longer(file: str, folder: str) -> str:
    """The same work on a computer that takes three times as long."""
    ranks = json.loads(Path(file).read_text())["ranks"]
    path = Path(folder, "longer.json")
    slow = [[[kind, seen, 3 * time] for kind, seen, time in rank] for rank in ranks]
    path.write_text(json.dumps({"narrows_computing": 1, "ranks": slow}))
    return str(path)


def one_rank(file: str, folder: str, factor: float) -> str:
    """A file as a run keeps it, of one rank that has computed so many times as long as those of another file on average."""
    ranks = json.loads(Path(file).read_text())["ranks"]
    seconds = factor * sum(seen * time for rank in ranks for _, seen, time in rank) / len(ranks)
    path = Path(folder, f"one-{factor}.json")
    path.write_text(json.dumps({"narrows_computing": 1, "ranks": [[["000000000000002a", 4, seconds / 4]]]}))
    return str(path)


# Two runs that count instructions may differ by so much.
COUNTER_BOUND = 0.01
# CPU time was 4 to 12 % less than the clock of a task in perf at a load of 7: perhaps interrupts and what the host of a
# virtual machine gives to others, which only the latter has.
CLOCK_BOUNDS = (0.95, 1.4)


def instructions_count(tests: Tests, mpi: Mpi, ranks: int) -> Callable[[], None]:
    """Instructions are counted, or one line says why not. Where a clock of the kernel takes their place times are known."""

    def counted(rate: str, event: str = "") -> tuple[Outcome, dict]:
        case = Case("instructions", "instructions.c", ("64",), options=("--compute", f"instructions{rate}"))
        environment = {**mpi.environment, **({"NARROWS_TEST_COUNTER": event} if event else {})}
        outcome = run(tests.command("narrows", mpi, case, ranks), timeout=120 * tests.options.slow, environment=environment)
        summary = outcome.summary if outcome.code == 0 else {}
        shutil.rmtree(outcome.folder, ignore_errors=True)
        return outcome, summary

    def by_clock(rate: str, per_ns: float, runs: int = 1) -> None:
        ratios, rates = [], []
        for _ in range(runs):
            outcome, summary = counted(rate, "task-clock")
            found = re.search(r"^instructions cpu (\d+\.\d+) simulated (\d+\.\d+)$", outcome.stdout, re.M)
            if outcome.code != 0 or not found:
                raise Failure(f"exit code {outcome.code}: {tail(outcome)}")
            said = summary["compute_instructions"]
            ratios.append(float(found[2]) / float(found[1]) * per_ns)
            rates.append(said["per_s"] / 1e9)
            # Of what is counted there is one in a nanosecond of CPU time.
            if not CLOCK_BOUNDS[0] < said["measured_per_s"] / 1e9 < CLOCK_BOUNDS[1] or said["uncounted_threads"] != 0:
                raise Failure(f"instructions{rate}: {said}")
            if rate and said["per_s"] != float(rate[1:]):
                raise Failure(f"instructions{rate}: not the rate that was given: {said}")
            if "instructions take a second" not in outcome.stderr:
                raise Failure(f"the rate was not said: {tail(outcome)}")
        near = [ratios] if rate else [ratios, rates]
        if not all(CLOCK_BOUNDS[0] < statistics.median(one) < CLOCK_BOUNDS[1] for one in near):
            raise Failure(f"instructions{rate}: simulated by CPU time {ratios}, counted in a nanosecond {rates}")

    def test() -> None:
        first, summary = counted(":2e9")
        if first.code != 0:
            said = [line for line in first.stderr.splitlines() if "--compute instructions" in line]
            if len(said) != 1 or not re.search("no hardware counters|kernel forbids|perf_event_open", said[0]) or "--compute sampled" not in said[0]:
                raise Failure(f"no line says why: {tail(first)}")
            if "instructions cpu" in first.stdout:
                raise Failure(f"the program was started nevertheless: {tail(first)}")
        else:
            times = [[rank["computing_s"] for rank in run["per_rank"]] for run in (summary, counted(":2e9")[1])]
            if any(abs(a / b - 1) > COUNTER_BOUND for a, b in zip(*times)):
                raise Failure(f"computing took {times[0]} s, and then {times[1]} s")
        by_clock(":1e9", 1.0)
        by_clock(":4e9", 4.0)
        # The rate is that of the first 20 ms, of which a host may take a part: 40 % were seen. The median counts.
        by_clock("", 1.0, runs=3)

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
