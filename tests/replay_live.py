#!/usr/bin/env python3
"""A program live on a simulated machine, and the replay of its recording: simulated time, messages and bytes.

    tests/replay_live.py            Debian's Open MPI, and MPICH, on 16 ranks of bxi-v2, computing free; prints each pair

Then two programs on hosts and their DPUs (thor-bf2, bf3), which come to the same result wherever their parts are.

The bound is 1 %. A recording says which MPI library it was, and the replay takes that library's collectives.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from mpi_driver.mpis import PREFIXES, ROOT, Mpi

NARROWS = ROOT / "target/release/narrows"
# Stencil with an allreduce in each step, allreduce and all-to-all over all sizes.
PROGRAMS = [("halo2d", "256", "40"), ("allreduce", "65536", "5"), ("alltoall", "16384", "5")]
MPICH = Mpi("mpich", PREFIXES["mpich"])
# The compiler of each MPI, and which of the programs.
COMPILERS = [("mpicc.openmpi", PROGRAMS), (MPICH.tool("mpicc"), PROGRAMS[:1])]
BOUND = 0.01


def narrows(*words: object) -> str:
    line = [str(NARROWS), *map(str, words)]
    done = subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(line)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def dpus(folder: Path, source: str, preset: str, dpu: str, dpus: int, words: list[str]) -> bool:
    """A program of examples/ on two hosts, on as many DPUs, and on hosts with DPUs, live and as a replay. What it finds
    out, the second part of its line, must be the same; `words` come before its numbers on hosts with DPUs."""
    program, trace, places = folder / source, folder / f"{source}.jsonl", folder / "places.txt"
    subprocess.run(["mpicc.openmpi", "-O2", str(ROOT / f"examples/{source}.c"), "-o", str(program), "-lm"], check=True)
    places.write_text("".join(["0\n", "1\n", *(f"{node}:{dpu}\n" for node in range(dpus))]))
    machine = ["--machine", preset, "--compute", "none"]
    both = ["--on", "host", *machine, "--", program, *words, ":", "-n", dpus, "--on", dpu, "--", program, *words]
    both = ["--ppn", 1, *both]
    alone = [narrows("run", "-n", 2, "--ppn", 1, "--on", on, *machine, "--", program) for on in ("host", dpu)]
    together = narrows("run", "-n", 2, "--out", folder / "live", *both)
    narrows("record", "-n", 2, "-o", trace, *both)
    narrows("replay", trace, "--machine", preset, "--mapping", places, "--out", folder / "replay")
    found = {", ".join(text.split(", ")[1:-1]) for text in (*alone, together)}
    one, other = (json.loads((folder / which / "summary.json").read_text()) for which in ("live", "replay"))
    off = other["simulated_s"] / one["simulated_s"] - 1
    good = len(found) == 1 and abs(off) < BOUND and one["bytes"] == other["bytes"]
    print(f"{'ok  ' if good else 'FAIL'} {source} on hosts and DPUs: {'; '.join(sorted(found))}; replay {off * 100:+.3f} %, {one['bytes']} and {other['bytes']} bytes")
    return good


def main() -> int:
    right = wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for compiler, source, *words in [(compiler, *program) for compiler, programs in COMPILERS for program in programs]:
            if compiler == MPICH.tool("mpicc") and not MPICH.usable():
                print("left out: no MPICH")
                continue
            program, trace = folder / source, folder / f"{source}.jsonl"
            subprocess.run([compiler, "-O2", str(ROOT / "examples" / f"{source}.c"), "-o", str(program), "-lm"], check=True)
            for network in ("flow", "packet"):
                machine = ["--machine", "bxi-v2", "--network", network]
                live = ["-n", 16, *machine, "--compute", "none"]
                narrows("record", *live, "-o", trace, "--", program, *words)
                narrows("run", *live, "--out", folder / "live", "--", program, *words)
                narrows("replay", trace, *machine, "--out", folder / "replay")
                one, other = (json.loads((folder / which / "summary.json").read_text()) for which in ("live", "replay"))
                off = other["simulated_s"] / one["simulated_s"] - 1
                good = abs(off) < BOUND and one["bytes"] == other["bytes"]
                right, wrong = right + good, wrong + (not good)
                print(
                    f"{'ok  ' if good else 'FAIL'} {source:10} {network:7} live {one['simulated_s'] * 1e6:10.3f} us, replay {other['simulated_s'] * 1e6:10.3f} us ({off * 100:+.3f} %), "
                    f"{one['bytes']} and {other['bytes']} bytes"
                )
        for good in (
            dpus(folder, "minimd", "thor-bf2", "bf2", 2, ["with-dpu"]),
            dpus(folder, "miniem", "bf3", "bf3", 1, ["with-dpu", "2"]),
        ):
            right, wrong = right + good, wrong + (not good)
    print(f"{right} passed, {wrong} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
