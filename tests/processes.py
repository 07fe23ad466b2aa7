#!/usr/bin/env python3
"""Traffic and replays spread over processes of an MPI: the results are those of one, and an error in one ends all.

With Debian's Open MPI and MPICH of PyPI. `make test-processes` builds narrows for both, which takes minutes; this then
takes two. One case with one MPI:

    python3 tests/processes.py --mpi debian -k '^replays$'
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ALONE = ROOT / "target/release/narrows"
MPIS = {
    "debian": ["mpirun", "--oversubscribe"],
    "mpich": [str(ROOT / "target/mpis/mpich/bin/mpiexec")],
}
# Where the processes behind it start.
WHERE = {"debian": ["--wdir"], "mpich": ["-wdir"]}
# Open MPI's mpirun wants to be told that root means it.
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
TRAFFIC = ["uniform", "--nodes", "144", "--load", "0.2,0.6", "--warmup", "5us", "--time", "20us", "--period", "5us"]
TRAFFIC += ["--class", "name=victim pattern=shift:24 sources=24-31 load=0.2 priority=1"]
# Kind of trace, ranks, its options, those of the replay, processes and threads. Not all machines fall into four parts.
ALL = [(1, 1), (2, 2), (3, 1), (4, 1)]
RELIABLE = ["--machine", "bxi-v3-reliable", "--nodes", "144", "--fault", "loss=1e-4"]
REPLAYS = [
    ("halo3d", 216, ["--steps", "3"], ["--machine", "dragonfly-342"], ALL),
    ("lammps-like", 216, ["--steps", "3"], ["--machine", "bxi-v2", "--nodes", "144"], ALL),
    ("nest-like", 60, ["--steps", "1", "--compute", "9us"], [*RELIABLE, "--background", "pattern=uniform load=0.1"], ALL[:3]),
    ("allreduce-loop", 128, ["--bytes", "40KB", "--steps", "3"], ["--machine", "exanest", "--collectives", "mpich"], [(2, 1)]),
    ("fft3d", 64, ["--steps", "1"], ["--machine", "bxi-ib-gateway"], [(2, 1)]),
]
# What says how long it took and where, not what came out. How often an output that waits for credits looks for them
# depends on which region's news it hears first, also with threads.
OF_THIS_RUN = {"wall_s", "assembly_s", "packet_hops_per_s", "peak_rss_bytes", "peak_rss_bytes_of_processes", "processes", "threads"}
OF_THIS_RUN |= {"events", "windows", "reading_s", "replay_s", "messages_per_s"}


class Wrong(Exception):
    pass


def expect(holds: bool, what: object) -> None:
    if not holds:
        raise Wrong(str(what))


def run(command: list[str], seconds: int = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=ENVIRONMENT)


def spread(mpi: str, processes: int, narrows: Path | None = None, command: str = "traffic") -> list[str]:
    return [*MPIS[mpi], "-n", str(processes), str(narrows or ROOT / f"target/mpi-{mpi}/narrows"), command]


def result(folder: Path) -> dict[str, Any]:
    def what_came_out(values: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in values.items() if key not in OF_THIS_RUN}

    return json.loads((folder / "summary.json").read_text(), object_hook=what_came_out)  # type: ignore[no-any-return]


def told(text: str) -> list[str]:
    """Without wall times, which are in the last line or in that of the simulated time."""
    return [line for line in text.splitlines()[:-1] if not line.startswith("simulated time")]


def the_same(mpi: str, folder: Path, command: str, options: list[str], shared: list[tuple[int, int]]) -> None:
    """Everything that is written is the same, to the byte where it is a table; `shared`: processes and threads."""
    alone = run([str(ALONE), command, *options, "--out", str(folder / "alone")])
    expect(alone.returncode == 0, alone.stderr)
    for processes, threads in shared:
        out = folder / f"{processes}-{threads}"
        done = run([*spread(mpi, processes, command=command), *options, "--threads", str(threads), "--out", str(out)])
        expect(done.returncode == 0, done.stderr)
        expect(told(done.stdout) == told(alone.stdout), f"{done.stdout}\ninstead of\n{alone.stdout}")
        summary = json.loads((out / "summary.json").read_text())
        expect(summary["processes"] == processes == len(summary["peak_rss_bytes_of_processes"]), summary["processes"])
        expect(result(out) == result(folder / "alone"), f"another summary with {processes} processes: {options}")
        for table in sorted((folder / "alone").glob("*.parquet")):
            expect((out / table.name).read_bytes() == table.read_bytes(), f"another {table.name} with {processes} processes")


def traffic(mpi: str, folder: Path) -> None:
    the_same(mpi, folder, "traffic", TRAFFIC, [(1, 1), (2, 1), (2, 2), (4, 1)])


def replays(mpi: str, folder: Path) -> None:
    for kind, ranks, of_trace, options, shared in REPLAYS:
        inner = folder / kind
        inner.mkdir()
        trace = inner / "trace.vef"
        made = run([str(ALONE), "generate", kind, "--ranks", str(ranks), *of_trace, "--output", str(trace)])
        expect(made.returncode == 0, made.stderr)
        the_same(mpi, inner, "replay", [str(trace), *options], shared)


def ends_of_replays(mpi: str, folder: Path) -> None:
    """One line and the code of one process: a deadlock, a mistake in a trace, no trace, what is refused."""
    far = ["--machine", "bxi-v2", "--nodes", "144", "--mapping", str(folder / "far")]
    (folder / "far").write_text("0\n100\n")
    stuck = "num_ranks 2\nrank 0 {\nl1: recv 8b from 1 tag 0\n}\nrank 1 {\nl1: recv 8b from 0 tag 0\n}\n"
    short = "num_ranks 2\nrank 0 {\nl1: send 9b to 1 tag 0\n}\nrank 1 {\nl1: recv 8b from 0 tag 0\n}\n"
    for name, text in [("stuck", stuck), ("short", short)]:
        (folder / f"{name}.goal").write_text(text)
    trace = str(folder / "stuck.goal")
    for options, code, line in [
        ([trace, *far], 1, "deadlock: nothing can happen any more, 2 ranks have not ended"),
        ([str(folder / "short.goal"), *far], 2, "process 1: rank 1, operation 0: a message of 9 B"),
        ([str(folder / "none.vef"), *far], 2, "none.vef"),
        ([trace, *far, "--out", trace], 3, "stuck.goal"),
        ([trace, *far, "--network", "flow"], 2, "2 processes, but this network falls into 1 part"),
        ([trace, *far, "--timeline", str(folder / "t.pftrace")], 2, "--timeline looks at a machine in one process"),
        ([trace, *far, "--period", "1us", "--out", str(folder / "out")], 2, "--period looks at a machine in one process"),
        ([trace, "--network", "loggp", "--loggp", "L=1us"], 2, "a replay with --loggp has no machine"),
    ]:
        done = run([*spread(mpi, 2, command="replay"), *options])
        lines = [found for found in done.stderr.splitlines() if found.startswith("narrows: ")]
        expect(done.returncode == code and len(lines) == 1 and line in lines[0], (options, done.returncode, done.stderr))
    # One process has another trace under the same name, or none.
    folders = [folder / "one", folder / "other"]
    for inner, text in zip(folders, [stuck, short + "\n"], strict=True):
        inner.mkdir()
        (inner / "trace.goal").write_text(text)
    command = [*spread(mpi, 1, command="replay")[-4:], "trace.goal", *far]
    one, other = ([*WHERE[mpi], str(inner), *command] for inner in folders)
    done = run([*MPIS[mpi], *one, ":", *other])
    expect(done.returncode == 2 and "process 1 simulates something else than process 0" in done.stderr, (done.returncode, done.stderr))
    (folders[1] / "trace.goal").unlink()
    done = run([*MPIS[mpi], *one, ":", *other])
    lines = [found for found in done.stderr.splitlines() if found.startswith("narrows: ")]
    expect(done.returncode == 2 and len(lines) == 1 and "process 1: " in lines[0], (done.returncode, done.stderr))


def errors(mpi: str, folder: Path) -> None:
    """One line, whoever has the error, and its code."""
    taken = folder / "taken"
    taken.write_text("")
    for options, code, line in [
        (["uniform", "--load", "2"], 2, "above 0 and at most 1"),
        (["uniform", "--no-such"], 2, "unexpected argument"),
        (["uniform", "--nodes", "64", "--network", "flow"], 2, "2 processes, but this network falls into 1 part"),
        (["ping:56"], 2, "narrows traffic ping:56 runs in one: start it without mpirun"),
        (["uniform", "--nodes", "64", "--time", "5us", "--out", str(taken)], 3, "taken"),
    ]:
        done = run([*spread(mpi, 2), *options])
        told = [found for found in done.stderr.splitlines() if found.startswith(("narrows: error", "error:"))]
        expect(done.returncode == code and len(told) == 1 and line in done.stderr, (options, done.returncode, done.stderr))
    # The machine file that one of them finds is another one.
    machines = []
    for nodes in (48, 144):
        machine = run([str(ALONE), "machine", "show", "bxi-v2", "--nodes", str(nodes)])
        machines.append(folder / f"{nodes}.toml")
        machines[-1].write_text(machine.stdout)
    one, other = ([*spread(mpi, 1)[-4:], "uniform", "--load", "0.5", "--time", "5us", "--machine", str(machine)] for machine in machines)
    done = run([*MPIS[mpi], *one, ":", *other])
    expect(done.returncode == 2 and "process 1 simulates something else than process 0" in done.stderr, (done.returncode, done.stderr))


def wrong_mpi(mpi: str, _: Path) -> None:
    """A narrows that cannot share the work says so, and does not do it several times."""
    cases = [(ALONE, "this narrows is built without MPI")]
    if mpi == "mpich":
        cases.append((ROOT / "target/mpi-debian/narrows", "this narrows is built for another MPI"))
    for narrows, line in cases:
        done = run([*spread(mpi, 2, narrows), "uniform", "--nodes", "64", "--time", "5us"])
        told = [found for found in done.stderr.splitlines() if found.startswith("narrows: error")]
        expect(done.returncode == 2 and len(told) == 1 and line in told[0] and not done.stdout, (done.returncode, done.stderr))
    if mpi == "debian":
        # MPICH itself does not begin there.
        done = run([*spread(mpi, 2, ROOT / "target/mpi-mpich/narrows"), "uniform", "--nodes", "64", "--time", "5us"])
        expect(done.returncode != 0 and "unsupported PMI version" in done.stderr and not done.stdout, (done.returncode, done.stderr))


def killed(mpi: str, _: Path) -> None:
    """A process that is killed takes all with it."""
    command = [*spread(mpi, 2), "uniform", "--nodes", "144", "--load", "0.5", "--time", "100s"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT) as running:
        children: list[int] = []
        until = time.monotonic() + 60
        while len(children) < 2 and time.monotonic() < until:
            found = run(["pgrep", "-f", f"target/mpi-{mpi}/narrows traffic uniform --nodes 144 --load 0.5 --time 100s"]).stdout.split()
            children = [int(pid) for pid in found if int(pid) != running.pid and Path(f"/proc/{pid}/exe").resolve().name == "narrows"]
            time.sleep(0.1)
        expect(len(children) == 2, children)
        os.kill(children[1], signal.SIGKILL)
        expect(running.wait(60) != 0, "mpirun says that all is well")


CASES: list[Callable[[str, Path], None]] = [traffic, errors, wrong_mpi, killed, replays, ends_of_replays]


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ", ".join(case.__name__ for case in CASES)
    parser.add_argument("-k", default="", metavar="REGEX", help=f"cases whose name matches, of {names}; default: all")
    parser.add_argument("--mpi", default=",".join(MPIS), help=f"comma separated, of {', '.join(MPIS)}; default: all")
    return parser


def main() -> None:
    parser = arguments()
    options = parser.parse_args()
    mpis = options.mpi.split(",")
    cases = [case for case in CASES if re.search(options.k, case.__name__)]
    if not cases:
        parser.error(f"no case matches {options.k!r}")
    if unknown := [mpi for mpi in mpis if mpi not in MPIS]:
        parser.error(f"--mpi: {unknown[0]!r} is none of {', '.join(MPIS)}")
    failed = 0
    for mpi in mpis:
        for case in cases:
            start = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                try:
                    case(mpi, Path(folder))
                    print(f"ok    {mpi} {case.__name__} ({time.monotonic() - start:.1f} s)")
                except (Wrong, subprocess.TimeoutExpired) as wrong:
                    failed += 1
                    print(f"FAIL  {mpi} {case.__name__}: {wrong}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
