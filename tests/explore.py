#!/usr/bin/env python3
"""What `narrows run --check` and `narrows explore` say of wrong programs (examples/wrong) and of right ones (tests/mpi).

    tests/explore.py                    everything, with every MPI that is there
    tests/explore.py --mpi mpich -k race
    tests/explore.py --turn commit      each case under one MPI, the next one at the next commit: what `make test` runs

The last line is "N passed, N failed". Only the standard library of Python 3.11 is used.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mpi_driver.mpis import MPI_NAMES, PREFIXES, ROOT, USUAL, Mpi
from mpi_driver.rotation import turn, with_one_mpi

WRONG = ROOT / "examples" / "wrong"
RIGHT = ROOT / "tests" / "mpi"
NARROWS = str(ROOT / "target" / "release" / "narrows")

# Program and argument: what a check must find in one run, and nothing else.
CHECKS = {
    ("two_roots", ""): ["collective: MPI_Bcast at two_roots.c:9"],
    ("missing_wait", ""): ["changed: MPI_Isend at missing_wait.c:14", "request: MPI_Isend at missing_wait.c:12"],
    ("no_fence", ""): ["epoch: MPI_Put at no_fence.c:14"],
    ("race", ""): [],
    ("head_to_head", ""): [],
    ("absent", "bcast"): ["collective: MPI_Bcast at absent.c:13"],
    ("absent", "reduce"): ["collective: MPI_Reduce at absent.c:15"],
    ("absent", "igather"): ["collective: MPI_Igather at absent.c:17"],
    ("absent", "barrier"): ["collective: MPI_Barrier at absent.c:21"],
    ("mix", "operations"): ["collective: MPI_Allreduce at mix.c:20"],
    ("mix", "order"): ["collective: MPI_Iallreduce at mix.c:31 and MPI_Ibarrier at mix.c:28"],
    ("mix", "counts"): ["collective: MPI_Allreduce at mix.c:38"],
    ("mix", "gather"): ["collective: MPI_Gather at mix.c:41"],
    ("mix", "short"): ["truncated: MPI_Send at mix.c:45 and MPI_Irecv at mix.c:44"],
    ("mix", "types"): ["signature: MPI_Send at mix.c:49 and MPI_Irecv at mix.c:48"],
    ("mix", "overlap"): ["overlap: MPI_Irecv at mix.c:52 and MPI_Irecv at mix.c:53"],
    ("mix", "changed"): ["changed: MPI_Isend at mix.c:58"],
    ("mix", "unreceived"): ["unreceived: MPI_Send at mix.c:63"],
    ("mix", "leak"): ["leak: MPI_Comm_dup at mix.c:67", "leak: MPI_Type_contiguous at mix.c:68"],
    ("mix", "objects"): [
        "leak: MPI_Comm_group at mix.c:84",
        "leak: MPI_Info_create at mix.c:89",
        "leak: MPI_Op_create at mix.c:88",
    ],
    ("mix", "unfenced"): ["open-epoch: MPI_Put at mix.c:76 and MPI_Win_free"],
    ("windows", "puts"): ["conflict: MPI_Put at windows.c:21 and MPI_Put at windows.c:21"],
    ("windows", "get"): ["conflict: MPI_Get at windows.c:29 and MPI_Put at windows.c:27"],
    ("windows", "operations"): ["conflict: MPI_Accumulate at windows.c:33 and MPI_Accumulate at windows.c:33"],
    ("windows", "posted"): ["conflict: MPI_Put at windows.c:46 and MPI_Put at windows.c:46"],
    ("windows", "stored"): ["conflict: MPI_Put at windows.c:55 and MPI_Sendrecv at windows.c:56"],
    ("windows", "unlocked"): ["epoch: MPI_Win_unlock at windows.c:59"],
    ("windows", "flushed"): ["epoch: MPI_Win_flush at windows.c:61"],
    ("windows", "mixed"): ["epoch: MPI_Win_lock at windows.c:66"],
    ("windows", "fine"): [],
    ("origins", "gets"): ["overlap: MPI_Get at origins.c:18 and MPI_Get at origins.c:19"],
    ("origins", "put"): ["overlap: MPI_Get at origins.c:22 and MPI_Put at origins.c:23"],
    ("origins", "fetch"): ["overlap: MPI_Put at origins.c:25 and MPI_Fetch_and_op at origins.c:26"],
    ("origins", "message"): ["overlap: MPI_Get at origins.c:28 and MPI_Sendrecv at origins.c:29"],
    ("origins", "request"): ["overlap: MPI_Irecv at origins.c:31 and MPI_Put at origins.c:32"],
    ("origins", "one_call"): ["overlap: MPI_Sendrecv at origins.c:36"],
    ("origins", "fine"): [],
    ("alone", "alone"): ["buffering: MPI_Send at alone.c:16"],
    ("alone", "posted"): [],
    ("alone", "lock"): ["epoch: MPI_Win_lock at alone.c:25 and MPI_Win_fence at alone.c:28"],
    ("alone", "between"): [],
    ("locks", "shared"): ["conflict: MPI_Put at locks.c:8 and MPI_Put at locks.c:8"],
    ("locks", "exclusive"): [],
    ("locks", "message"): [],
    ("locks", "barrier"): [],
    ("locks", "unflushed"): ["conflict: MPI_Put at locks.c:8 and MPI_Put at locks.c:8"],
    ("locks", "target"): ["conflict: MPI_Put at locks.c:8 and a store at locks.c:52"],
    ("loads", "receive"): ["overlap: MPI_Irecv at loads.c:27 and a load at loads.c:30"],
    ("loads", "send"): ["overlap: MPI_Isend at loads.c:37 and a store at loads.c:38"],
    ("loads", "collective"): ["overlap: MPI_Ibcast at loads.c:42 and a load at loads.c:44"],
    ("loads", "copied"): ["overlap: MPI_Irecv at loads.c:49 and a load at loads.c:51"],
    ("loads", "get"): ["overlap: MPI_Get at loads.c:56 and a load at loads.c:57"],
    ("loads", "target"): ["conflict: MPI_Put at loads.c:63 and a load at loads.c:65"],
    ("loads", "posted"): ["conflict: MPI_Get at loads.c:71 and a store at loads.c:75"],
    ("loads", "fine"): [],
    ("buffers", "written"): ["written: MPI_Send at buffers.c:25 and MPI_Irecv at buffers.c:24"],
    ("buffers", "gaps"): ["changed: MPI_Isend at buffers.c:31"],
    ("buffers", "between"): [],
    ("buffers", "column"): ["overlap: MPI_Isend at buffers.c:43 and MPI_Recv at buffers.c:44", "changed: MPI_Isend at buffers.c:43"],
    ("buffers", "middle"): ["changed: MPI_Isend at buffers.c:47"],
    ("buffers", "moved"): ["changed: MPI_Isend at buffers.c:57"],
    ("buffers", "other"): [],
    ("sizes", "types"): ["collective: MPI_Alltoallw at sizes.c:24"],
    ("sizes", "neighbors"): ["collective: MPI_Neighbor_allgather at sizes.c:30"],
    ("sizes", "groups"): ["collective: MPI_Allgather at sizes.c:38"],
    ("sizes", "scatter"): ["collective: MPI_Reduce_scatter_block at sizes.c:47"],
    ("sizes", "fine"): [],
    ("threads", "funneled"): ["thread: MPI_Send at threads.c:15"],
    ("threads", "serialized"): [],
    ("threads", "together"): ["thread: MPI_Recv at threads.c:22 and MPI_Send at threads.c:41"],
    ("threads", "multiple"): ["signature: MPI_Send at threads.c:56 and MPI_Irecv at threads.c:55"],
    ("probe", ""): [],
    ("sessions", "operations"): ["collective: MPI_Allreduce at sessions.c:24"],
    ("sessions", "short"): ["truncated: MPI_Send at sessions.c:28 and MPI_Irecv at sessions.c:27"],
    ("sessions", "leak"): ["leak: MPI_Comm_create_from_group at sessions.c:11"],
    ("sessions", "fine"): [],
}
# Open MPI 4.1 has none.
WITHOUT_SESSIONS = ("debian",)
# What unmet.c does: what of the deadlock must be said, of ranks and lines.
UNMET = {
    "tag": [r"MPI_Recv at unmet\.c:18 from rank 0, tag 6: no message fits; rank 0 has sent tag 5 \(MPI_Send at unmet\.c:16\)"],
    "communicator": [r"MPI_Irecv at unmet\.c:23 from rank 0, tag 5: no message fits; rank 0 has sent one on a communicator of ranks 0-3 \(MPI_Send at unmet\.c:21\)"],
    "rank": [r"MPI_Irecv at unmet\.c:30 from rank 0, tag 5: no message fits; rank 2 has sent to rank 1 \(MPI_Send at unmet\.c:28\)"],
    "nothing": [r"MPI_Irecv at unmet\.c:34 from rank 0, tag 5: no message fits\n", r"MPI_Irecv at unmet\.c:35 from any rank, any tag, on a communicator of ranks 0-3: no message fits\n"],
}
# Two ranks are enough for these, the others have four.
TWO = ("mix", "buffers")
# These are about loads and stores of the program.
LOADS = ("loads", "locks")
# Programs without a mistake.
RIGHT_PROGRAMS = (
    "p2p_any p2p_modes p2p_probe p2p_sendrecv p2p_waits p2p_unexpected p2p_self p2p_synchronous p2p_cancel coll_blocking coll_nonblocking "
    "coll_ops coll_persistent comm comm_shared dtype neighbor rma_fence rma_lock rma_pscw rma_atomic rma_shared rma_windows "
    "rma_passive rma_self rma_random p2p_random p2p_mixed p2p_programs threads threads_calls threads_locks threads_multiple threads_self"
).split()
# ... whose loads and stores are looked at, too.
RIGHT_MEMORY = "p2p_random p2p_any p2p_waits coll_nonblocking rma_fence rma_lock rma_pscw rma_passive rma_random".split()
# ... and with arguments: messages of three threads.
RIGHT_ARGUMENTS = {"threads_mixed": ("p2p_mixed", "1", "3")}
# Programs with one class of outcomes; few of their runs fit into seconds.
STABLE = ("p2p_any", "p2p_waits", "coll_nonblocking")


class Failure(Exception):
    """What was expected, and what came."""


def build(mpi: Mpi, source: Path, folder: Path) -> str:
    target = folder / f"{mpi.name}-{source.stem}"
    command = [mpi.tool("mpicc"), "-O1", "-g", "-Wno-unused-function", str(source), "-o", str(target), "-lm", "-lpthread"]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **mpi.environment})
    return str(target)


def narrows(mpi: Mpi, *arguments: str) -> subprocess.CompletedProcess:
    # The variable: see docs/limits.md, MPI_Get_accumulate of Open MPI 4.1.
    environment = {**os.environ, **mpi.environment, "OMPI_MCA_osc_rdma_network_max_amo": "0"}
    return subprocess.run([NARROWS, *arguments], capture_output=True, text=True, timeout=600, env=environment)


def expect(what: str, wanted: object, got: object) -> None:
    if wanted != got:
        raise Failure(f"{what}: expected {wanted}, got {got}")


def findings(summary: dict) -> list[str]:
    return [f"{finding['kind']}: {' and '.join(finding['calls'])}" for finding in summary["findings"]]


def check(mpi: Mpi, folder: Path, program: str, argument: str, wanted: list[str]) -> None:
    binary = build(mpi, WRONG / f"{program}.c", folder / mpi.name / f"{program}-{argument}")
    with tempfile.TemporaryDirectory() as out:
        ranks = "2" if program in TWO else "4"
        what = "strict,memory" if program in LOADS else "strict"
        done = narrows(mpi, "run", "-n", ranks, "--compute", "none", f"--check={what}", "--out", out, "--", binary, *argument.split())
        summary = json.loads(Path(out, "summary.json").read_text())
    got = findings(summary)
    if argument == "order" or program == "sizes":
        # What becomes of the requests, and of ranks that wait for what does not come, is the library's affair.
        got = [finding for finding in got if not finding.startswith(("request", "leak"))]
    expect("findings", wanted, got)
    if summary["failure"] is None:
        errors = [finding for finding in wanted if not finding.startswith(("leak", "conflict", "buffering"))]
        expect("exit code", 4 if errors else 0, done.returncode)
    for finding in summary["findings"]:
        if not re.search(r"\(MPI 4\.1, \d", finding["text"]):
            raise Failure(f"no section: {finding['text']}")


def unmet(mpi: Mpi, folder: Path, argument: str) -> None:
    """A deadlock names the messages that are missing."""
    binary = build(mpi, WRONG / "unmet.c", folder / mpi.name / f"unmet-{argument}")
    done = narrows(mpi, "run", "-n", "4", "--compute", "none", "--check", "--", binary, argument)
    for pattern in ["deadlock", *UNMET[argument]]:
        if not re.search(pattern, done.stderr):
            raise Failure(f"no line matches {pattern}: {done.stderr}")
    if "fit each other" in done.stderr:
        raise Failure(f"the calls do not fit: {done.stderr}")


def right(mpi: Mpi, folder: Path, program: str, what: str = "strict") -> None:
    source, *arguments = RIGHT_ARGUMENTS.get(program, (program,))
    name = f"{program}-memory" if "memory" in what else program
    binary = build(mpi, RIGHT / f"{source}.c", folder / mpi.name / name)
    done = narrows(mpi, "run", "-n", "4", "--compute", "none", f"--check={what}", "--", binary, *arguments)
    expect("exit code", 0, done.returncode)
    if "check: the MPI calls fit each other" not in done.stderr:
        raise Failure(done.stderr)


def silent(mpi: Mpi, folder: Path) -> None:
    """A check changes nothing: the digest is the same, of a program that polls too."""
    for program in ("p2p_waits", "p2p_stealing"):
        binary = build(mpi, RIGHT / f"{program}.c", folder / mpi.name / "silent")
        digests = set()
        for options in ([], ["--check"], ["--check=memory"]):
            done = narrows(mpi, "run", "-n", "4", "--compute", "none", *options, "--", binary)
            digests.add(re.search(r"digest (\w+)", done.stderr).group(1))
        expect(f"digests of {program}", 1, len(digests))


def explored(mpi: Mpi, out: Path, binary: str, runs: int, jobs: int, ranks: int = 4) -> dict:
    done = narrows(mpi, "explore", "-n", str(ranks), "--runs", str(runs), "-j", str(jobs), "--out", str(out), "--json", "--", binary)
    if done.returncode not in (0, 1):
        raise Failure(done.stderr)
    return json.loads(done.stdout)


def race(mpi: Mpi, folder: Path, program: str) -> None:
    """Each message comes first in some run, and each class is repeated by its timing."""
    binary = build(mpi, WRONG / f"{program}.c", folder / mpi.name / f"explore-{program}")
    out = folder / mpi.name / f"{program}-out"
    report = explored(mpi, out, binary, 12, 2)
    expect("classes", {"first 1", "first 2", "first 3"}, {" ".join(cls["output"]) for cls in report["classes"]})
    again = explored(mpi, out, binary, 12, 1)
    expect("the report on one job", report, again)
    for cls in report["classes"]:
        digests = set()
        for _ in range(2):
            done = narrows(mpi, "run", "-n", "4", "--compute", "none", "--timing", cls["file"], "--", binary)
            expect("output", cls["output"], done.stdout.split("\n")[:-1])
            digests.add(re.search(r"digest (\w+)", done.stderr).group(1))
        expect("digests", 1, len(digests))


def head_to_head(mpi: Mpi, folder: Path) -> None:
    """It stands still when no message is eager."""
    binary = build(mpi, WRONG / "head_to_head.c", folder / mpi.name / "explore-head")
    report = explored(mpi, folder / mpi.name / "head-out", binary, 4, 2)
    expect("classes", ["exit code 0", "deadlock"], [cls["ended"] for cls in report["classes"]])
    deadlock = report["classes"][1]
    expect("timing", "eager limit 0 B", deadlock["timing"])
    expect("who waits for whom", [(0, [1]), (1, [0])], [(wait["rank"], wait["whom"]) for wait in deadlock["waits"]][:2])
    if not re.search(r"MPI_Send to 1 tag 0 at head_to_head\.c:\d+", deadlock["waits"][0]["call"]):
        raise Failure(str(deadlock["waits"]))
    picture = Path(deadlock["picture"]).read_text()
    if "MPI_Send to 1" not in picture or picture.count("url(#circle)") != 2 or "eager limit 0 B" not in picture:
        raise Failure(picture)


def shrunk(mpi: Mpi, folder: Path) -> None:
    """Nothing can be left out of the timing of a class: one message that is late is enough."""
    binary = build(mpi, WRONG / "race.c", folder / mpi.name / "explore-shrunk")
    report = explored(mpi, folder / mpi.name / "shrunk-out", binary, 12, 2)
    for cls in report["classes"][1:]:
        text = Path(cls["file"]).read_text()
        if "latency" in text or "start" in text or "slow" in text or text.count("[[delay]]") > 2:
            raise Failure(text)


def stable(mpi: Mpi, folder: Path, program: str) -> None:
    """A right program has one outcome."""
    binary = build(mpi, RIGHT / f"{program}.c", folder / mpi.name / f"explore-{program}")
    report = explored(mpi, folder / mpi.name / f"{program}-out", binary, 10, 2)
    expect("classes", 1, len(report["classes"]))
    expect("how it ended", ("exit code 0", []), (report["classes"][0]["ended"], report["classes"][0]["findings"]))


# A melt of 864 atoms.
MELT = """units lj
lattice fcc 0.8442
region box block 0 6 0 6 0 6
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
thermo 10
run 20
"""
# What LAMMPS prints of its own speed.
TIMES = "grep -v -E 'time|CPU|Performance|Pair|Neigh|Comm|Output|Modify|Other|Total wall|%'"


def lammps(mpi: Mpi, folder: Path) -> None:
    """Debian's LAMMPS, up to 16 ranks: no finding, and one class but for the times that it prints."""
    (folder / "in.melt").write_text(MELT)
    for ranks in ("4", "16"):
        command = ["run", "-n", ranks, "--compute", "none", "--check=strict", "--", "lmp", "-log", "none"]
        done = narrows(mpi, *command, "-in", str(folder / "in.melt"))
        expect("exit code", 0, done.returncode)
        expect("check", True, "check: the MPI calls fit each other" in done.stderr)
    command = ["explore", "-n", "4", "--runs", "10", "-j", "2", "--json", "--filter", TIMES, "--out", str(folder / "lammps-out")]
    done = narrows(mpi, *command, "--", "lmp", "-log", "none", "-in", str(folder / "in.melt"))
    report = json.loads(done.stdout)
    expect("classes", ["exit code 0"], [cls["ended"] for cls in report["classes"]])


def hpcc(mpi: Mpi, folder: Path) -> None:
    """Debian's HPCC to its end on 4 ranks, with small arrays."""
    here = folder / "hpcc"
    here.mkdir()
    text = Path("/usr/share/doc/hpcc/examples/_hpccinf.txt").read_text()
    (here / "hpccinf.txt").write_text(re.sub(r"^1000( +Ns)", r"64\1", re.sub(r"^80( +NBs)", r"16\1", text, flags=re.M), flags=re.M))
    command = [NARROWS, "run", "-n", "4", "--compute", "none", "--network", "flow", "--check=strict", "--", "hpcc"]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=900, env={**os.environ, **mpi.environment})
    expect("exit code", 0, done.returncode)
    expect("check", True, "check: the MPI calls fit each other" in done.stderr)
    expect("the end", True, "Success=1" in (here / "hpccoutf.txt").read_text())


# Programs of Debian, if they are installed.
APPLICATIONS = {"lmp": lammps, "hpcc": hpcc}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--mpi", default=USUAL, help=f"comma separated, of {', '.join(MPI_NAMES)}; default: {USUAL}")
    parser.add_argument("-k", default="", metavar="REGEX", help="cases whose name matches")
    parser.add_argument("-j", "--jobs", type=int, default=2 * len(os.sched_getaffinity(0)), help="runs at once, for launchers sleep much of their time; default: twice the cores")
    parser.add_argument("--turn", type=turn, default="all", help="each case under one MPI, which is another one at the next number; commit: the number of this one; default: all")
    options = parser.parse_args()
    mpis = [Mpi(name, PREFIXES[name]) for name in options.mpi.split(",")]
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="narrows-explore-") as name:
        folder = Path(name)
        jobs = []
        for mpi in mpis:
            if not mpi.usable():
                print(f"left out: no {mpi.name} MPI")
                continue
            for (program, argument), wanted in CHECKS.items():
                if program == "sessions" and mpi.name in WITHOUT_SESSIONS:
                    continue
                (folder / mpi.name / f"{program}-{argument}").mkdir(parents=True)
                jobs.append((f"check_{program}_{argument}", mpi, check, (program, argument, wanted)))
            for argument in UNMET:
                (folder / mpi.name / f"unmet-{argument}").mkdir(parents=True)
                jobs.append((f"unmet_{argument}", mpi, unmet, (argument,)))
            cases = ("race", "probe", "shrunk", "head", *STABLE)
            for program in (*RIGHT_PROGRAMS, *RIGHT_ARGUMENTS, *(f"{name}-memory" for name in RIGHT_MEMORY), "silent", *(f"explore-{case}" for case in cases)):
                (folder / mpi.name / program).mkdir(parents=True)
            jobs += [(f"right_{program}", mpi, right, (program,)) for program in (*RIGHT_PROGRAMS, *RIGHT_ARGUMENTS)]
            jobs += [(f"right_memory_{program}", mpi, right, (program, "memory,strict")) for program in RIGHT_MEMORY]
            jobs.append(("silent", mpi, silent, ()))
            jobs += [(f"explore_{program}", mpi, race, (program,)) for program in ("race", "probe")]
            jobs += [("explore_shrunk", mpi, shrunk, ()), ("explore_head_to_head", mpi, head_to_head, ())]
            jobs += [(f"explore_{program}", mpi, stable, (program,)) for program in STABLE]
        for command, application in APPLICATIONS.items():
            if not shutil.which(command):
                print(f"left out: no {command}")
                continue
            jobs += [(f"right_{application.__name__}", mpi, application, ()) for mpi in mpis if mpi.name == "debian"]
        jobs = [job for job in jobs if re.search(options.k, job[0])]
        if options.turn is not None:
            jobs = with_one_mpi(jobs, options.turn, case=lambda job: (job[0],))
        with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
            results = [(title, mpi, pool.submit(test, mpi, folder, *arguments)) for title, mpi, test, arguments in jobs]
            for title, mpi, result in results:
                try:
                    result.result()
                    passed += 1
                    print(f"ok    {mpi.name:8} {title}", flush=True)
                except Exception as error:
                    failed += 1
                    print(f"FAIL  {mpi.name:8} {title}: {error}", flush=True)
    print(f"\n{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
