#!/usr/bin/env python3
"""Synthetic traffic spread over processes of an MPI: the results are those of one process, and an error in one ends all.

With Debian's Open MPI and MPICH of PyPI. `make test-processes` builds narrows for both, which takes minutes; this then
takes one.
"""

import json
import os
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
# Open MPI's mpirun wants to be told that root means it.
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
TRAFFIC = ["uniform", "--nodes", "144", "--load", "0.2,0.6", "--warmup", "5us", "--time", "20us", "--period", "5us"]
TRAFFIC += ["--class", "name=victim pattern=shift:24 sources=24-31 load=0.2 priority=1"]
# What says how long it took and where, not what came out. How often an output that waits for credits looks for them
# depends on which region's news it hears first, also with threads.
OF_THIS_RUN = {"wall_s", "assembly_s", "packet_hops_per_s", "peak_rss_bytes", "peak_rss_bytes_of_processes", "processes", "threads"}
OF_THIS_RUN |= {"events", "windows"}


class Wrong(Exception):
    pass


def expect(holds: bool, what: object) -> None:
    if not holds:
        raise Wrong(str(what))


def run(command: list[str], seconds: int = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=ENVIRONMENT)


def spread(mpi: str, processes: int, narrows: Path | None = None) -> list[str]:
    return [*MPIS[mpi], "-n", str(processes), str(narrows or ROOT / f"target/mpi-{mpi}/narrows"), "traffic"]


def result(folder: Path) -> dict[str, Any]:
    def what_came_out(values: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in values.items() if key not in OF_THIS_RUN}

    return json.loads((folder / "summary.json").read_text(), object_hook=what_came_out)  # type: ignore[no-any-return]


def the_same(mpi: str, folder: Path) -> None:
    """Everything that is written is the same, to the byte where it is a table."""
    alone = run([str(ALONE), "traffic", *TRAFFIC, "--out", str(folder / "alone")])
    expect(alone.returncode == 0, alone.stderr)
    for processes, threads in [(1, 1), (2, 1), (2, 2), (4, 1)]:
        out = folder / f"{processes}-{threads}"
        done = run([*spread(mpi, processes), *TRAFFIC, "--threads", str(threads), "--out", str(out)])
        expect(done.returncode == 0, done.stderr)
        expect(done.stdout.splitlines()[:-1] == alone.stdout.splitlines()[:-1], f"{done.stdout}\ninstead of\n{alone.stdout}")
        summary = json.loads((out / "summary.json").read_text())
        expect(summary["processes"] == processes == len(summary["peak_rss_bytes_of_processes"]), summary["processes"])
        expect(result(out) == result(folder / "alone"), f"another summary with {processes} processes")
        for table in sorted((folder / "alone").glob("*.parquet")):
            expect((out / table.name).read_bytes() == table.read_bytes(), f"another {table.name} with {processes} processes")


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


def main() -> None:
    failed = 0
    cases: list[Callable[[str, Path], None]] = [the_same, errors, wrong_mpi, killed]
    for mpi in MPIS:
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
