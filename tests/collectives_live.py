#!/usr/bin/env python3
"""Collectives live on a simulated machine, and the replay of their recording, call by call: the simulated time of each.

    tests/collectives_live.py                 the short list, as `make test-collectives` runs it
    tests/collectives_live.py --points 400    as many random points, as `make test-collectives TURN=all` does
    tests/collectives_live.py --points 60 --mpi mpich --seed 7 --worst 20

A point is an MPI, a network, a collective, ranks, ranks per node, a size and an element. One live run of tests/mpi/collective_times.c
has twenty points of one MPI, network and number of ranks. Its recording is cut into one trace for each point, and each is replayed.
The table has the worst first. Wanted are 3 % at 95 of 100 points, and 10 % at all.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from mpi_driver.mpis import PREFIXES, ROOT, SOURCES, USUAL, Mpi

NARROWS = ROOT / "target/release/narrows"
COLLECTIVES = ("barrier", "bcast", "reduce", "allreduce", "gather", "scatter", "allgather", "alltoall", "reduce_scatter", "reduce_scatter_block", "scan", "exscan")
# Those whose size is that of one rank's block.
BLOCKS = ("gather", "scatter", "allgather", "alltoall", "reduce_scatter_block")
ROOTED = ("bcast", "reduce", "gather", "scatter")
REPEATS = 2
POINTS_OF_A_RUN = 20
LARGEST = 4 << 20
USUAL_BOUND, BOUND, SHARE = 0.03, 0.10, 0.95
TABLES = {"debian": "openmpi", "openmpi": "openmpi", "mpich": "mpich"}

# Operation, elements, bytes of an element, root.
Point = tuple[str, int, int, int]
# Replay beside live, title, microseconds live and replayed.
Row = tuple[float, str, float, float]

# What users found: MPI, machine, ranks, points.
FOUND: list[tuple[str, str, int, list[Point]]] = [
    ("debian", "bxi-v2", 32, [("allreduce", 4, 8, 0)]),
    ("debian", "bxi-v2", 24, [("allreduce", 4, 8, 0), ("allgather", 16000, 1, 0)]),
    ("debian", "bxi-v2", 16, [("scatter", 16384, 1, 0), ("bcast", 1 << 20, 1, 0), ("reduce_scatter", 512 << 7, 8, 0)]),
    ("mpich", "bxi-v2", 16, [("bcast", 16384, 1, 0)]),
    ("mpich", "bxi-v2", 6, [("bcast", 16384, 1, 0)]),
    ("mpich", "bxi-v2", 4, [("allreduce", 5, 8, 0)]),
    ("mpich", "exanest", 16, [("bcast", 4096, 1, 0)]),
    ("mpich", "exanest", 4, [("bcast", 512 << 10, 1, 0)]),
]


def narrows(*words: object) -> str:
    line = [str(NARROWS), *map(str, words)]
    done = subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(line)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def draw(source: random.Random, ranks: int) -> Point:
    operation = source.choice(COLLECTIVES)
    element = source.choice((1, 4, 8))
    largest = LARGEST // ranks if operation in BLOCKS else LARGEST
    # Three of ten have few elements: there the libraries turn to other algorithms.
    few = source.random() < 0.3
    size = element * source.randint(1, ranks + 2) if few else int(2 ** source.uniform(0, largest.bit_length() - 1))
    elements = max(1, size // element)
    root = source.choice((0, 0, source.randrange(ranks))) if operation in ROOTED else 0
    return ("barrier", 0, 1, 0) if operation == "barrier" else (operation, elements, element, root)


def cut(trace: Path, points: list[Point], folder: Path) -> list[Path]:
    """One trace for each point: the calls between the agreement on the start and the collection of times."""
    lines = trace.read_text().splitlines()
    header = json.loads(lines[0])
    calls: list[list[dict[str, object]]] = [[] for _ in range(header["ranks"])]
    for line in lines[1:]:
        record = json.loads(line)
        if "op" in record and record["op"] != "compute":
            calls[record["rank"]].append(record)
    del header["closed"]
    traces = []
    for index in range(len(points)):
        first = 1 + index * REPEATS
        chosen = [json.dumps(record) for of_rank in calls for record in of_rank[first : first + REPEATS]]
        traces.append(folder / f"{index}.jsonl")
        traces[-1].write_text("\n".join([json.dumps(header), *chosen]) + "\n")
    return traces


def run(folder: Path, mpi: str, name: str, network: str, ranks: int, ppn: int, points: list[Point]) -> list[Row]:
    program, trace, listed = folder / mpi, folder / "trace.jsonl", folder / "points"
    listed.write_text("".join(f"{' '.join(map(str, point))}\n" for point in points))
    machine = ["--machine", name, "--network", network, "--ppn", ppn]
    live = narrows("record", "-n", ranks, *machine, "--compute", "none", "-o", trace, "--", program, listed, REPEATS).split()
    rows = []
    for point, one, piece in zip(points, live, cut(trace, points, folder), strict=True):
        done = json.loads(narrows("replay", piece, *machine, "--collectives", TABLES[mpi], "--json"))
        operation, elements, element, root = point
        title = f"{mpi:8} {name:7} {network:6} {operation:20} {ranks:2} ranks ppn {ppn} root {root:2} {elements:8} x {element} B"
        one_us, other_us = float(one) / REPEATS * 1e6, done["simulated_s"] / REPEATS * 1e6
        rows.append((other_us / one_us - 1, title, one_us, other_us))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog="see the head of this file")
    parser.add_argument("--points", type=int, default=120, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the choice (default: %(default)s)")
    parser.add_argument("--mpi", default=USUAL, help=f"comma separated (default: {USUAL})")
    parser.add_argument("--network", default="packet,flow", help="comma separated (default: %(default)s)")
    parser.add_argument("-k", default="", help="this collective alone")
    parser.add_argument("--ranks", type=int, help="as many ranks")
    parser.add_argument("--worst", type=int, default=25, help="rows of the table (default: %(default)s)")
    options = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mpis = [name for name in options.mpi.split(",") if Mpi(name, PREFIXES[name]).usable()]
        for name in set(options.mpi.split(",")) - set(mpis):
            print(f"left out: {name}, which is not installed: scripts/setup.sh test")
        for mpi in mpis:
            compiler = "/usr/bin/mpicc.openmpi" if mpi == "debian" else Mpi(mpi, PREFIXES[mpi]).tool("mpicc")
            subprocess.run([compiler, "-O2", str(SOURCES / "collective_times.c"), "-o", str(folder / mpi)], check=True)
        for mpi, machine, ranks, points in FOUND if options.seed == 1 else []:
            if mpi in mpis and not options.k and not options.ranks:
                rows += run(folder, mpi, machine, "packet", ranks, 1, points)
        found = len(rows)
        source = random.Random(options.seed)
        turns = [(mpi, network) for network in options.network.split(",") for mpi in mpis]
        while len(rows) - found < options.points:
            mpi, network = turns[(len(rows) - found) // POINTS_OF_A_RUN % len(turns)]
            # Few ranks more often than many.
            ranks = options.ranks or int(2 ** source.uniform(1, 6.02))
            ppn = source.choice([ppn for ppn in (1, 1, 2, 4) if ppn <= ranks])
            points = []
            while len(points) < min(POINTS_OF_A_RUN, options.points - len(rows) + found):
                point = draw(source, ranks)
                if options.k in ("", point[0]):
                    points.append(point)
            rows += run(folder, mpi, "bxi-v2", network, ranks, ppn, points)
    rows.sort(key=lambda row: -abs(row[0]))
    for off, title, one, other in rows[: options.worst]:
        print(f"{title}  live {one:11.3f} us, replay {other:11.3f} us ({off * 100:+.2f} %)")
    usual, worst = sum(abs(off) <= USUAL_BOUND for off, *_ in rows), sum(abs(off) > BOUND for off, *_ in rows)
    exact = sum(abs(off) < 1e-4 for off, *_ in rows)
    print(f"{usual} of {len(rows)} points within 3 % ({exact} within 0.01 %), {worst} beyond 10 %")
    good = worst == 0 and usual >= SHARE * len(rows)
    print(f"{int(good)} passed, {int(not good)} failed")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
