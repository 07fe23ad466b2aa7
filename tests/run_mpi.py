#!/usr/bin/env python3
"""Runs the MPI test programs under plain launchers or under Narrows and compares what they print.

    tests/run_mpi.py --runner plain                     every program, every MPI found, 2, 16 and 64 ranks
    tests/run_mpi.py --runner narrows -k coll -n 16     what matches "coll", on the simulated machine
    tests/run_mpi.py --list

The programs verify themselves (tests/mpi/check.h). On top of that the standard output of every run is compared, line by line
after sorting, with the output of a plain run of the reference MPI (the first one found), which is made once and kept in the
build folder. One line per case, then "N passed, N failed"; the exit code is 0 if nothing failed. The streams of each run stay in
BUILD/log.

Only the standard library of Python 3.11 is used.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import hashlib
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "tests" / "mpi"
RANKS = (2, 16, 64)


# --- What there is to run with -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Mpi:
    """One MPI installation: where its compilers and its launcher are."""

    name: str
    prefix: Path

    def tool(self, name: str) -> str:
        return str(self.prefix / "bin" / name)

    def usable(self) -> bool:
        return Path(self.tool("mpicc")).exists()

    def plain(self, ranks: int, command: list[str]) -> list[str]:
        """The command line of the launcher of this MPI, many ranks on few cores."""
        match self.name:
            case "debian":
                # osc/rdma of Open MPI 4.1.4 crashes in a compare-and-swap between ranks of one node; osc/sm and pt2pt do not.
                return [self.tool("mpirun"), "--oversubscribe", "--mca", "osc", "sm,pt2pt", "-n", str(ranks), *command]
            case "openmpi":
                return [self.tool("mpirun"), "--map-by", ":OVERSUBSCRIBE", "--mca", "osc", "^ucx", "-n", str(ranks), *command]
            case _:
                return [self.tool("mpiexec"), "-n", str(ranks), *command]

    @property
    def environment(self) -> dict[str, str]:
        if self.name == "mpich":
            return {}
        return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


MPI_NAMES = ("debian", "openmpi", "mpich")


# --- Running one command -------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Outcome:
    """What a command did."""

    command: list[str]
    code: int | None  # None: it had to be stopped
    stdout: str
    stderr: str
    seconds: float
    after_marker: float | None  # seconds from the marker line on stderr or stdout to the end
    leftovers: list[str]
    folder: Path  # where it ran; holds out/ with Narrows' results

    @property
    def summary(self) -> dict:
        """Narrows' summary.json."""
        return json.loads((self.folder / "out" / "summary.json").read_text())


def processes_with(mark: str) -> list[str]:
    """Living processes whose environment holds the mark: "PID command line"."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if mark.encode() in (entry / "environ").read_bytes():
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                if state != "Z":
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found.append(f"process {entry.name} {command.strip()[:80]}")
        except OSError:
            continue
    return found


def open_files() -> set[str]:
    """Every file under /dev/shm and /tmp that a living process has mapped or open."""
    names = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            for line in (entry / "maps").read_text(errors="replace").splitlines():
                path = line.partition("/")[1] + line.partition("/")[2]
                if path.startswith(("/dev/shm/", "/tmp/")):
                    names.add(path)
            for handle in (entry / "fd").iterdir():
                target = os.readlink(handle)
                if target.startswith(("/dev/shm/", "/tmp/")):
                    names.add(target)
        except OSError:
            continue
    return names


# Names that Narrows and the launchers give to files in /dev/shm and /tmp. (Open MPI's shared-memory transports are off.)
FILE_NAMES = {
    "debian": r"narrows|ompi|openmpi|pmix",
    "openmpi": r"narrows|ompi|openmpi|prte|pmix",
    "mpich": r"narrows|mpich|hydra",
}


def temporary_files(mpi: str) -> set[str]:
    """Entries of /dev/shm and /tmp with a name that Narrows or this MPI gives."""
    ours = re.compile(FILE_NAMES[mpi], re.I)
    found = set()
    for folder in ("/dev/shm", "/tmp"):
        try:
            found.update(f"{folder}/{name}" for name in os.listdir(folder) if ours.search(name))
        except OSError:
            continue
    return found


running: dict[int, str] = {}  # process groups of runs under way, with their marks


def stop_everything(number: int, _frame) -> None:
    """On SIGINT or SIGTERM nothing that was started stays behind."""
    for group, mark in list(running.items()):
        for line in processes_with(mark):
            try:
                os.kill(int(line.split()[1]), signal.SIGKILL)
            except OSError:
                pass
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            pass
    os._exit(128 + number)


def run(
    command: list[str],
    timeout: float,
    environment: dict[str, str] | None = None,
    stdin: str = "",
    files: dict[str, str] | None = None,
    marker: str | None = None,
    on_marker: Callable[[subprocess.Popen], None] | None = None,
    leftovers_of: str | None = None,
    alone: bool = True,
) -> Outcome:
    """Runs a command in a fresh folder, with a private TMPDIR, and waits until it and its whole session are gone. A run that is
    not alone cannot tell its files in /dev/shm and /tmp from those of others: see `main`."""
    mark = f"NARROWS_TEST_RUN={uuid.uuid4().hex}"
    # Short, and below /tmp: launchers put sockets below TMPDIR, whose paths are limited to 108 bytes.
    folder = Path(tempfile.mkdtemp(prefix="nt", dir="/tmp"))
    scratch = folder / "t"
    scratch.mkdir()
    for name, text in (files or {}).items():
        (folder / name).write_text(text)
    env = {**os.environ, **(environment or {}), "TMPDIR": str(scratch), "OMP_NUM_THREADS": "1"}
    name, _, value = mark.partition("=")
    env[name] = value
    before = temporary_files(leftovers_of) if leftovers_of and alone else set()
    start = time.monotonic()
    process = subprocess.Popen(
        [part.replace("{folder}", str(folder)) for part in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        cwd=folder,
        start_new_session=True,
    )
    running[process.pid] = mark
    texts: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
    marked: list[float] = []

    def pump(stream, into: list[bytes]) -> None:
        for line in stream:
            into.append(line)
            if marker and not marked and marker.encode() in line:
                marked.append(time.monotonic())
                if on_marker:
                    on_marker(process)

    def feed() -> None:
        try:
            process.stdin.write(stdin.encode())
            process.stdin.close()
        except BrokenPipeError:
            pass

    threads = [
        threading.Thread(target=pump, args=(process.stdout, texts["stdout"]), daemon=True),
        threading.Thread(target=pump, args=(process.stderr, texts["stderr"]), daemon=True),
        threading.Thread(target=feed, daemon=True),
    ]
    for thread in threads:
        thread.start()
    code: int | None
    try:
        code = process.wait(timeout)
    except subprocess.TimeoutExpired:
        code = None
        for stop, patience in ((signal.SIGTERM, 3), (signal.SIGKILL, 3)):
            try:
                os.killpg(process.pid, stop)
                process.wait(patience)
                break
            except (subprocess.TimeoutExpired, ProcessLookupError):
                continue
    end = time.monotonic()
    leftovers = []
    if leftovers_of:

        def still_there() -> list[str]:
            found = processes_with(mark) + [str(path.relative_to(folder)) for path in scratch.iterdir()]
            return found + (sorted(temporary_files(leftovers_of) - before) if alone else [])

        # The kernel may take a moment to reap what was killed; another run on this host may have files of its own.
        for pause in (0.2, 0.4, 0.8):
            if not (leftovers := still_there()):
                break
            time.sleep(pause)
        else:
            used = open_files()
            leftovers = [path for path in leftovers if not any(name == path or name.startswith(path + "/") for name in used)]
    for line in processes_with(mark):  # never leave anything behind for the next case
        try:
            os.kill(int(line.split()[1]), signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    for thread in threads:
        thread.join(2)
    del running[process.pid]
    shutil.rmtree(scratch, ignore_errors=True)
    return Outcome(
        command=command,
        code=code,
        stdout=b"".join(texts["stdout"]).decode(errors="replace"),
        stderr=b"".join(texts["stderr"]).decode(errors="replace"),
        seconds=end - start,
        after_marker=end - marked[0] if marked else None,
        leftovers=leftovers,
        folder=folder,
    )


# --- Cases ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Case:
    """One program with its arguments, and what is expected of it."""

    name: str
    program: str = ""  # source file in tests/mpi, or an absolute path, or a name to look up in PATH
    arguments: tuple[str, ...] = ()
    narrows_arguments: tuple[str, ...] | None = None  # instead of `arguments` under Narrows
    options: tuple[str, ...] = ()  # options of `narrows run`
    mpis: tuple[str, ...] = MPI_NAMES
    ranks: tuple[int, ...] = RANKS
    runners: tuple[str, ...] = ("plain", "narrows")
    timeout: float = 120
    stdin: str = ""
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    files: Callable[[int], dict[str, str]] | None = None
    expected: Callable[[int], str] | None = None  # the wanted stdout, by ranks; default: that of a plain run
    clean: Callable[[str], str] | None = None  # what of stdout is compared; default all lines, sorted
    verify: Callable[[Outcome, str], str | None] | None = None  # (outcome, runner) -> what is wrong
    # Failures.
    fails: bool = False
    code: int | None = None  # exact exit code wanted
    says: tuple[str, ...] = ()  # regular expressions that Narrows' stderr must match
    within: float | None = None  # seconds from the marker to the end
    stop_by: signal.Signals | None = None  # sent to the launcher at the marker
    marker: str | None = None


def sorted_lines(text: str) -> str:
    return "\n".join(sorted(line.rstrip() for line in text.splitlines() if line.strip()))


def thermo(text: str) -> str:
    """The thermodynamic table of LAMMPS."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.lstrip().startswith("Step ")), None)
    end = next((i for i, line in enumerate(lines) if line.startswith("Loop time")), None)
    return "no thermo table" if start is None or end is None else "\n".join(lines[start:end])


def characters(text: str) -> str:
    """How often each character occurs: launchers may cut lines of different ranks and splice them."""
    counts = collections.Counter(text)
    return "\n".join(f"{character!r} {counts[character]} times" for character in sorted(counts))


def no_lines(_: str) -> str:
    return ""


def netpipe(outcome: Outcome, _: str) -> str | None:
    rows = re.findall(r"^\s*\d+:\s+(\d+) bytes\s+\d+ times -->\s+([\d.]+) Mbps in\s+([\d.]+) usec", outcome.stdout + outcome.stderr, re.M)
    if len(rows) < 30:
        return f"only {len(rows)} sizes measured"
    bad = [size for size, rate, _ in rows if float(rate) <= 0]
    return f"no bandwidth for {bad[0]} bytes" if bad else None


def hpcc_files(ranks: int) -> dict[str, str]:
    rows = {4: 2, 16: 4}[ranks]
    return {"hpccinf.txt": HPCC_INPUT.replace("@P@", str(rows)).replace("@Q@", str(ranks // rows))}


# HPL with N = 100 and PTRANS of the same size: every test of the suite runs and verifies, in a few seconds.
HPCC_INPUT = """HPLinpack benchmark input file
Narrows
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
100          Ns
1            # of NBs
20           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
@P@          Ps
@Q@          Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0            Number of additional problem sizes for PTRANS
1200         values of N
0            number of additional blocking sizes for PTRANS
40           values of NB
"""


def hpcc(outcome: Outcome, _: str) -> str | None:
    """Every test of hpcc must have run and verified itself."""
    try:
        text = (outcome.folder / "hpccoutf.txt").read_text()
    except OSError:
        return "no hpccoutf.txt"
    values = dict(re.findall(r"^(\w+)=(\S+)$", text, re.M))
    wrong = []
    if values.get("Success") != "1":
        wrong.append("no Success=1")
    if not re.search(r"\|\|Ax-b\|\|.*PASSED", text) or re.search(r"\|\|Ax-b\|\|.*FAILED", text):
        wrong.append("HPL")
    if set(re.findall(r"(\d+) tests completed and failed residual checks", text)) != {"0"}:
        wrong.append("residuals of HPL or PTRANS")
    if re.search(r"^(?:CPU|WALL)\s.*FAILED", text, re.M) or not re.search(r"^WALL\s.*PASSED", text, re.M):
        wrong.append("PTRANS")
    # The rules of RandomAccess allow 1 % of lost updates; a few do occur, with any MPI.
    for name in ("MPIRandomAccess_ErrorsFraction", "MPIRandomAccess_LCG_ErrorsFraction"):
        if not 0 <= float(values.get(name, "nan")) <= 0.01:
            wrong.append(f"{name}={values.get(name)}")
    if len(re.findall(r"Found 0 errors in \d+ locations \(passed\)", text)) < 2 or re.search(r"locations \(failed\)", text):
        wrong.append("RandomAccess")
    if re.findall(r"Node\(s\) with error (\d+)", text).count("0") < 10:
        wrong.append("Node(s) with error")
    if "Solution Validates" not in text or "Failed Validation" in text:
        wrong.append("STREAM")
    for name in ("MPIFFT_maxErr", "StarFFT_Gflops", "SingleFFT_Gflops", "RandomlyOrderedRingLatency_usec", "NaturallyOrderedRingLatency_usec"):
        if name.endswith("maxErr"):
            if not 0 <= float(values.get(name, "nan")) < 1e-12:
                wrong.append(f"{name}={values.get(name)}")
        elif float(values.get(name, "-1")) <= 0:
            wrong.append(f"{name}={values.get(name)}")
    return "did not verify: " + ", ".join(wrong) if wrong else None


MELT = """# A Lennard-Jones melt of 6,912 atoms
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 12 0 12 0 12
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo 10
run 50
"""


def counted_bytes(outcome: Outcome, runner: str) -> str | None:
    """The NICs must have seen at least the bytes that the program sent; and not many times as many."""
    if runner != "narrows":
        return None
    sent = re.search(r"payload=(\d+)", outcome.stdout)
    messages = re.search(r"messages=(\d+)", outcome.stdout)
    if not sent:
        return "the program did not print its payload"
    summary = outcome.summary
    if summary["bytes"] < int(sent[1]):
        return f"the program sent {sent[1]} bytes, the NICs saw {summary['bytes']}: something went around the network"
    # MPI_Init, MPI_Finalize and headers come on top; twice the payload and 1 MiB per rank are far above them.
    if summary["bytes"] > 2 * int(sent[1]) + summary["ranks"] * (1 << 20):
        return f"the program sent {sent[1]} bytes, the NICs saw {summary['bytes']}: counted more than once"
    if messages and summary["messages"] < int(messages[1]):
        return f"the program sent {messages[1]} messages, the NICs saw {summary['messages']}"
    return None


def time_is_simulated(outcome: Outcome, runner: str) -> str | None:
    if runner != "narrows":
        return None
    summary = outcome.summary
    for key in ("simulated_s", "wall_s", "ranks", "nodes", "mpi", "messages", "bytes", "packets", "events", "crossings", "digest", "network", "compute", "machine"):
        if key not in summary:
            return f"summary.json has no {key}"
    return None if summary["simulated_s"] > 0 else "simulated_s is not positive"


def spin_time(outcome: Outcome, runner: str) -> str | None:
    """Polling must not make time run away: the programs need 1.5 ms (five sleeps of 0.3 ms) to 10 ms (five waits of 2 ms)."""
    if runner != "narrows":
        return None
    simulated = outcome.summary["simulated_s"]
    return None if 0 < simulated < 0.05 else f"a program of some milliseconds took {simulated} s of simulated time"


def pass_through(outcome: Outcome, runner: str) -> str | None:
    if "this goes to stderr" not in outcome.stderr:
        return "the program's stderr was lost"
    return "the program's stderr went to stdout" if "this goes to stderr" in outcome.stdout else None


TIME = r"\d[\d.,]*\s*(?:ps|ns|us|µs|ms|s)\b"


def fail_case(how: str, says: tuple[str, ...] = (), **more) -> Case:
    defaults = dict(
        program="fail.c", arguments=tuple(how.split()), ranks=(4,), fails=True, within=2.0, marker="fail: ", timeout=30, clean=no_lines
    )
    return Case(**{"name": "fail_" + how.replace(" ", "_"), "says": says, **defaults, **more})


def cases() -> list[Case]:
    """All cases. The plain runner takes those that can end without Narrows."""
    both = ("plain", "narrows")
    narrows = ("narrows",)
    c = [
        Case("p2p_modes", "p2p_modes.c"),
        Case("p2p_synchronous", "p2p_synchronous.c"),
        Case("p2p_sizes", "p2p_sizes.c"),
        Case("p2p_large", "p2p_large.c", ranks=(2,)),
        Case("p2p_probe", "p2p_probe.c"),
        Case("p2p_any", "p2p_any.c"),
        Case("p2p_cancel", "p2p_cancel.c"),
        Case("p2p_truncate", "p2p_truncate.c", narrows_arguments=("strict",)),
        Case("p2p_self", "p2p_self.c"),
        Case("p2p_unexpected", "p2p_unexpected.c"),
        Case("p2p_sendrecv", "p2p_sendrecv.c"),
        Case("p2p_waits", "p2p_waits.c"),
        Case("p2p_random", "p2p_random.c"),
        Case("dtype", "dtype.c"),
        Case("coll_blocking", "coll_blocking.c"),
        Case("coll_nonblocking", "coll_nonblocking.c"),
        Case("coll_ops", "coll_ops.c"),
        # Open MPI 4.1 has no persistent collectives: its line would differ only in name.
        Case("coll_persistent", "coll_persistent.c"),
        Case("neighbor", "neighbor.c"),
        Case("comm", "comm.c"),
        Case("comm_steps", "comm_steps.c"),
        # Under their own launchers MPI libraries may end without the messages.
        Case("finalize", "finalize.c", runners=narrows, expected=lambda n: f"finalize: ranks={n} checks={n - 1} ok"),
        Case("comm_shared", "comm_shared.c", narrows_arguments=("1",)),
        Case("comm_shared_ppn4", "comm_shared.c", narrows_arguments=("4",), options=("--ppn", "4"), ranks=(16, 64), runners=narrows),
        Case("comm_shared_ppn3", "comm_shared.c", narrows_arguments=("3",), options=("--ppn", "3"), ranks=(16,), runners=narrows),
        Case("environment", "environment.c", verify=time_is_simulated),
        *[Case(f"threads_{level}", "threads.c", (str(level),), ranks=(2, 16) if level == 3 else (2,)) for level in (0, 1, 2, 3)],
        *[Case(name, f"{name}.c") for name in ("rma_fence", "rma_atomic", "rma_lock", "rma_pscw")],
        # Logical operations as atomics of the network end the process in btl/ofi of Open MPI 4.1.4: "Unknown or unsupported atomic op".
        Case("rma_types", "rma_types.c", environment={"OMPI_MCA_osc_rdma_acc_use_amo": "0"}),
        Case("rma_passive", "rma_passive.c", narrows_arguments=("strict",)),
        *[Case(f"{name}_ppn4", f"{name}.c", options=("--ppn", "4"), ranks=(16,), runners=narrows) for name in ("rma_fence", "rma_lock", "rma_atomic")],
        Case("rma_shared", "rma_shared.c", ranks=(2, 16), runners=both),
        *[Case(f"rma_shared_ppn{n}", "rma_shared.c", ranks=(4, 16), options=("--ppn", str(n)), runners=narrows) for n in (2, 4)],
        # Native MPI libraries need other processes' help for a put, or a core for each rank that spins.
        *[
            Case(f"rma_spin_ppn{n}", "rma_spin.c", ranks=(2, 16), options=("--ppn", str(n)), runners=narrows, expected=lambda n: f"rma_spin: ranks={n} checks={3 * n} ok")
            for n in (1, 4)
        ],
        Case("rma_shared_world", "rma_shared.c", ("world",), ranks=(4,), options=("--ppn", "2"), runners=narrows, fails=True, says=("MPI_Win_allocate_shared",)),
        # Open MPI 4.1.4 deadlocks by itself in MPI_Put on a dynamic window to another node, but not over messages.
        Case("rma_dynamic", "rma_dynamic.c", mpis=("openmpi", "mpich")),
        *[
            Case(f"{name}_messages", f"{name}.c", ranks=(2, 16), mpis=("debian",), runners=narrows, environment={"OMPI_MCA_osc": "pt2pt"})
            for name in ("rma_fence", "rma_lock", "rma_pscw", "rma_atomic", "rma_types", "rma_dynamic")
        ],
        *[
            Case(f"spin_{how}", "spin.c", (how,), ranks=(2, 16), verify=spin_time)
            for how in ("test", "iprobe", "testany", "clock", "wtime", "yield", "mutual", "steps")
        ],
        Case("bytes", "bytes.c", ("100000", "20"), verify=counted_bytes, ranks=(2, 16)),
        Case("bytes_short", "bytes.c", ("8", "2000"), verify=counted_bytes, ranks=(2, 16)),
        Case("bytes_ppn4", "bytes.c", ("10000", "50"), verify=counted_bytes, options=("--ppn", "4"), ranks=(16,)),
        *[
            Case(f"bytes_{how}", "bytes_paths.c", (how, "50000"), verify=counted_bytes, ranks=(16,))
            for how in ("collective", "window", "created", "accumulate")
        ],
        Case("stream_print", "stream.c", ("print", "2000"), ranks=(2, 16), clean=characters),
        # Below 64 KiB: MPICH's launcher gives up when a rank reads its input too slowly.
        Case("stream_stdin", "stream.c", ("stdin",), stdin="".join(f"{i}\n" for i in range(3000)) + "end\n", ranks=(2, 16)),
        # The launcher of Open MPI 5.0.11 does not tell rank 0 that its input has ended.
        Case("stream_empty_stdin", "stream.c", ("stdin",), ranks=(2,), mpis=("debian", "mpich")),
        Case("stream_args", "stream.c", ("args", "a b", "", "--", "-n", "$HOME", "*", "ü"), ranks=(2,)),
        Case("stream_stderr", "stream.c", ("stderr",), ranks=(2,), verify=pass_through),
        Case("stream_environment", "stream.c", ("environment", "NARROWS_TESTS_WORD"), ranks=(2,)),
        Case("hello_cpp", "hello.cpp"),
        Case("halo_f08", "halo_f08.f90", mpis=("debian",)),
        Case("coll_f90", "coll_mpi.f90", mpis=("debian",)),
        Case("objects_py", "objects.py", mpis=("debian",), ranks=(2, 16)),
        # Debian's own binaries.
        Case("netpipe", "NPopenmpi", ("-u", "65536", "-n", "5", "-o", "/dev/null"), mpis=("debian",), ranks=(2,), clean=no_lines, verify=netpipe),
        Case("hpcc", "hpcc", mpis=("debian",), ranks=(4, 16), files=hpcc_files, clean=no_lines, verify=hpcc, timeout=300),
        Case("lammps", "lmp", ("-in", "in.melt", "-log", "none"), mpis=("debian",), ranks=(2, 16), files=lambda _: {"in.melt": MELT}, clean=thermo),
        Case("mpi4py_hello", "/usr/bin/python3", ("-m", "mpi4py.bench", "helloworld"), mpis=("debian",), ranks=(2, 16),
             clean=lambda text: sorted_lines(re.sub(r" on \S+", "", text))),
        Case("mpi4py_ring", "/usr/bin/python3", ("-m", "mpi4py.bench", "ringtest", "-n", "1000", "-l", "10"), mpis=("debian",), ranks=(2, 16),
             clean=lambda text: re.sub(r"= \S+ seconds", "", text)),
    ]
    # The same programs on other networks, placements and cost models give the same results.
    for name, options in {
        "flow": ("--network", "flow"),
        "loggp": ("--network", "loggp"),
        "ppn4": ("--ppn", "4"),
        "random": ("--placement", "random:7"),
        "none": ("--compute", "none"),
        "measured": ("--compute", "measured:2.5"),
    }.items():
        for program in ("p2p_random", "coll_blocking"):
            c.append(Case(f"{program}_{name}", f"{program}.c", options=options, ranks=(16,), runners=narrows, mpis=("debian", "mpich")))

    # What goes wrong. The words that Narrows must say: rank, node, signal or code, last MPI call, simulated time.
    place = (r"rank 3\b", r"\bnode|\bhost", TIME)
    c += [
        fail_case("exit 7", code=7, marker=None, within=None, says=(r"rank 3\b", r"\b7\b"), runners=both),
        fail_case("before_init", marker=None, within=None, says=(r"\b4\b",), runners=both),
        fail_case("exit_early", says=(*place, r"(?:code|status)\D{0,8}3\b"), runners=both),
        fail_case("return_early", says=place, runners=narrows),
        fail_case("abort", says=(*place, r"MPI_Abort", r"\b5\b"), runners=both),
        fail_case("segv", says=(*place, r"SIGSEGV|signal 11|segmentation", r"MPI_Barrier"), runners=both),
        fail_case("kill", says=(*place, r"SIGKILL|signal 9|killed", r"MPI_Barrier"), runners=both),
        fail_case("c_abort", says=(*place, r"SIGABRT|signal 6|abort"), runners=both),
        fail_case("fpe", says=(*place, r"SIGFPE|signal 8|floating"), runners=both),
        fail_case("truncate", says=(r"rank 1\b", r"MPI_Recv"), runners=both),
        fail_case("both_receive", says=(r"(?i)deadlock", r"rank 0\b.*MPI_Recv.*1\b.*tag 7", r"rank 1\b.*MPI_Recv.*0\b.*tag 7", TIME), runners=narrows),
        fail_case("wrong_tag", says=(r"(?i)deadlock", r"rank 1\b.*MPI_Recv.*0\b.*tag 8"), runners=narrows),
        fail_case("missing", says=(r"(?i)deadlock", r"rank 0\b.*MPI_Allreduce", r"rank 3\b.*MPI_Recv.*tag 999"), runners=narrows),
        fail_case("both_send", says=(r"(?i)deadlock", r"rank 0\b.*MPI_Ssend.*1\b.*tag 7", r"rank 1\b.*MPI_Ssend.*0\b.*tag 7"), runners=narrows),
        fail_case("probe", says=(r"(?i)deadlock", r"rank 0\b.*MPI_Probe.*1\b.*tag 55"), runners=narrows),
        fail_case("probe_any", says=(r"(?i)deadlock", r"rank 0\b.*MPI_Probe.*any\b.*tag 55"), runners=narrows),
        fail_case("mprobe", says=(r"(?i)deadlock", r"rank 0\b.*MPI_Mprobe.*1\b.*tag 55"), runners=narrows),
        fail_case("wait", says=(r"(?i)deadlock", r"rank 0\b.*MPI_Waitall", r"rank 3\b.*MPI_Waitall"), runners=narrows),
        fail_case("busy", says=(r"rank 3\b",), options=("--timeout", "6"), within=9, runners=narrows),
        fail_case("test_forever", options=("--timeout", "4"), within=7, runners=narrows),
        fail_case("missing 17", name="fail_missing_n64", ranks=(64,), says=(r"(?i)deadlock", r"rank 17\b.*MPI_Recv.*tag 999"), runners=narrows),
        fail_case("kill 40", name="fail_kill_n64", ranks=(64,), says=(r"rank 40\b", r"SIGKILL|signal 9|killed"), runners=narrows),
    ]
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        for how in ("sleep", "compute"):
            c.append(fail_case(how, name=f"stop_{how}_{stop.name}", stop_by=stop, runners=narrows))
    return c


# --- Building ------------------------------------------------------------------------------------------------------


class Failure(Exception):
    """A case that did not go as expected; the text says why."""


class Tests:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.build_folder = Path(options.build).resolve()
        self.lock = threading.Lock()
        self.building: dict[tuple[str, str], threading.Lock] = {}
        self.referencing: dict[str, threading.Lock] = {}
        prefixes = {"debian": Path("/usr"), "openmpi": ROOT / "target/mpis/openmpi", "mpich": ROOT / "target/mpis/mpich"}
        for text in options.prefix:
            name, _, path = text.partition("=")
            if name not in prefixes or not path:
                sys.exit(f"run_mpi.py: --prefix {text}: expected debian=DIR, openmpi=DIR or mpich=DIR")
            prefixes[name] = Path(path)
        self.mpis = {name: Mpi(name, prefix) for name, prefix in prefixes.items()}
        self.narrows = Path(options.narrows).resolve()

    def built(self, mpi: Mpi, source: str) -> str:
        """Compiles a program with the compiler of an MPI unless that is done already; the path of the binary."""
        path = SOURCES / source
        target = self.build_folder / mpi.name / path.stem
        with self.lock:
            lock = self.building.setdefault((mpi.name, source), threading.Lock())
        with lock:
            newest = max(p.stat().st_mtime for p in (path, *SOURCES.glob("*.h")))
            if target.exists() and target.stat().st_mtime > newest:
                return str(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            flags = ["-O1", "-g", "-Wall", "-Wno-unused-function", "-Wno-stringop-overread"]
            match path.suffix:
                case ".c":
                    command = [mpi.tool("mpicc"), *flags]
                case ".cpp":
                    command = [mpi.tool("mpicxx"), "-std=c++17", *flags]
                case ".f90":
                    command = [mpi.tool("mpif90"), "-O1", "-g", "-J", str(target.parent)]
            temporary = target.with_suffix(".new")
            done = subprocess.run([*command, str(path), "-o", str(temporary), "-lpthread", "-lm"], capture_output=True, text=True)
            if done.returncode:
                raise Failure(f"{shlex.join(command)} {source}: {done.stderr.strip()[-1500:]}")
            temporary.rename(target)
        return str(target)

    def program(self, mpi: Mpi, case: Case) -> list[str]:
        if case.program.endswith((".c", ".cpp", ".f90")):
            return [self.built(mpi, case.program)]
        if case.program.endswith(".py"):
            return ["/usr/bin/python3", str(SOURCES / case.program)]
        found = shutil.which(case.program)
        if not found:
            raise Failure(f"{case.program} is not installed (make setup)")
        return [found]

    def command(self, runner: str, mpi: Mpi, case: Case, ranks: int) -> list[str]:
        program = self.program(mpi, case)
        if runner == "plain":
            return mpi.plain(ranks, [*program, *case.arguments])
        arguments = case.arguments if case.narrows_arguments is None else case.narrows_arguments
        machine = ["--machine", self.options.machine]
        return [str(self.narrows), "run", "-n", str(ranks), *machine, "--out", "{folder}/out", *case.options, "--", *program, *arguments]

    # --- One case

    def reference(self, case: Case, ranks: int) -> str:
        """What the plain run of the reference MPI prints, made once, or what the case itself says."""
        if case.expected:
            return case.expected(ranks)
        names = [name for name in case.mpis if self.mpis[name].usable()]
        mpi = self.mpis[names[0]]
        program = self.program(mpi, case)
        identity = [program[0], os.stat(program[0]).st_mtime_ns, case.arguments, case.stdin, case.files(ranks) if case.files else None, ranks]
        if len(program) > 1:
            identity.append(os.stat(program[1]).st_mtime_ns)
        key = hashlib.sha256(repr(identity).encode()).hexdigest()[:16]
        path = self.build_folder / "reference" / f"{case.program.replace('/', '_')}-{ranks}-{key}.txt"
        with self.lock:
            lock = self.referencing.setdefault(str(path), threading.Lock())
        with lock:
            if not path.exists():
                outcome = self.launch("plain", mpi, case, ranks)
                self.keep_log(f"reference-{case.name}-{mpi.name}-{ranks}", outcome)
                shutil.rmtree(outcome.folder, ignore_errors=True)
                if outcome.code != 0:
                    raise Failure(f"the plain run of {mpi.name} ended with {outcome.code}: {tail(outcome)}")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(outcome.stdout)
            return path.read_text()

    def launch(self, runner: str, mpi: Mpi, case: Case, ranks: int) -> Outcome:
        stop = None
        if case.stop_by:
            number = case.stop_by

            def stop(process: subprocess.Popen) -> None:
                process.send_signal(number)

        return run(
            self.command(runner, mpi, case, ranks),
            timeout=case.timeout * self.options.slow,
            environment={**mpi.environment, **(case.environment if runner == "narrows" else {}), "NARROWS_TESTS_WORD": "as it was"},
            stdin=case.stdin,
            files=case.files(ranks) if case.files else None,
            marker=case.marker,
            on_marker=stop,
            leftovers_of=mpi.name if runner == "narrows" else None,
            alone=self.options.jobs == 1 or case.fails or bool(case.stop_by),
        )

    def keep_log(self, name: str, outcome: Outcome) -> None:
        folder = self.build_folder / "log"
        folder.mkdir(parents=True, exist_ok=True)
        text = f"$ {shlex.join(outcome.command)}\n[{outcome.code} after {outcome.seconds:.2f} s]\n--- stdout\n{outcome.stdout[-200000:]}\n--- stderr\n{outcome.stderr[-200000:]}\n"
        (folder / f"{name}.txt").write_text(text)

    def check(self, runner: str, mpi: Mpi, case: Case, ranks: int) -> float:
        """Runs one case; its wall time. Raises Failure."""
        wanted = None if case.fails else self.reference(case, ranks)
        outcome = self.launch(runner, mpi, case, ranks)
        self.keep_log(f"{runner}-{case.name}-{mpi.name}-{ranks}", outcome)
        try:
            if outcome.code is None:
                raise Failure(f"stopped after {outcome.seconds:.0f} s: {tail(outcome)}")
            if re.search(r"panicked at", outcome.stderr):
                raise Failure(f"panic: {tail(outcome)}")
            if case.fails:
                self.check_failure(runner, case, outcome)
            else:
                if outcome.code != 0:
                    raise Failure(f"exit code {outcome.code}: {tail(outcome)}")
                clean = case.clean or sorted_lines
                if clean(outcome.stdout) != clean(wanted):
                    raise Failure(f"another output than under the plain launcher: {difference(clean(outcome.stdout), clean(wanted))}")
                if case.verify and (wrong := case.verify(outcome, runner)):
                    raise Failure(wrong)
            if runner == "narrows" and outcome.leftovers:
                raise Failure(f"left behind: {'; '.join(outcome.leftovers)[:500]}")
        finally:
            shutil.rmtree(outcome.folder, ignore_errors=True)
        return outcome.seconds

    def check_failure(self, runner: str, case: Case, outcome: Outcome) -> None:
        if outcome.code == 0:
            raise Failure(f"exit code 0: {tail(outcome)}")
        if runner == "plain":
            return
        if case.code is not None and outcome.code != case.code:
            raise Failure(f"exit code {outcome.code}, expected {case.code}: {tail(outcome)}")
        if case.marker:
            if outcome.after_marker is None:
                raise Failure(f"the program's line {case.marker!r} did not come through: {tail(outcome)}")
            if case.within is not None and outcome.after_marker > case.within * max(1.0, self.options.slow):
                raise Failure(f"ended {outcome.after_marker:.1f} s after the failure, allowed {case.within} s")
        for pattern in case.says:
            if not re.search(pattern, outcome.stderr):
                raise Failure(f"no line matches {pattern!r}: {tail(outcome)}")


def tail(outcome: Outcome) -> str:
    text = [line for line in (outcome.stderr + "\n" + outcome.stdout).splitlines() if line.strip() and not line.startswith("fail: ")]
    found = [line for line in text if "FAIL" in line or "panicked" in line or line.startswith("narrows")]
    return " | ".join((found or text)[-3:])[-600:] or "(no output)"


def difference(got: str, wanted: str) -> str:
    a, b = set(got.splitlines()), set(wanted.splitlines())
    extra, missing = sorted(a - b)[:2], sorted(b - a)[:2]
    return f"got {extra or 'fewer or other lines'}, expected {missing or 'nothing more'}"


# --- What Narrows must say before it starts anything, and that it repeats itself ----------------------------------------


def refusal(tests: Tests, mpi: Mpi, command: list[str], *says: str, lines: int = 12) -> Callable[[], None]:
    """A command that must fail and say why."""

    def test() -> None:
        outcome = run(command, timeout=30, environment=mpi.environment, leftovers_of=mpi.name)
        tests.keep_log("refusal-" + hashlib.sha256(repr(command).encode()).hexdigest()[:8], outcome)
        shutil.rmtree(outcome.folder, ignore_errors=True)
        if outcome.code == 0 or outcome.code is None:
            raise Failure(f"exit code {outcome.code}: {tail(outcome)}")
        if "panicked" in outcome.stderr:
            raise Failure(f"panic: {tail(outcome)}")
        for pattern in says:
            if not re.search(pattern, outcome.stderr):
                raise Failure(f"no line matches {pattern!r}: {tail(outcome)}")
        if len(outcome.stderr.splitlines()) > lines:
            raise Failure(f"{len(outcome.stderr.splitlines())} lines instead of a clear one")
        if outcome.leftovers:
            raise Failure(f"left behind: {outcome.leftovers}")

    return test


# Runs a command that may not call process_vm_readv and process_vm_writev, as in a container without CAP_SYS_PTRACE.
FORBID = """#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return 125;
    execv(argv[1], argv + 1);
    return 127;
}
"""
TROUBLES = ("trouble_provider", "trouble_process_vm", "trouble_shm_full")
NEW_SHM = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$@"', "sh"]


def troubles(tests: Tests, mpi: Mpi) -> list[tuple[str, Callable[[], None]]]:
    """Runs that cannot work on this host, with each MPI: one clear line that says what to do, below what the MPI says."""
    folder = tests.build_folder / "troubles"
    broken = folder / "lib"
    broken.mkdir(parents=True, exist_ok=True)
    forbid = folder / "forbid"
    (folder / "forbid.c").write_text(FORBID)
    subprocess.run(["gcc", "-O1", str(folder / "forbid.c"), "-o", str(forbid)], check=True)
    # An installation whose provider is no provider.
    shutil.copy2(tests.narrows, folder / "narrows")
    for name in ("libportals.so", "libnarrows-preload.so"):
        shutil.copy2(tests.narrows.parent / "lib" / name, broken / name)
    (folder / "nothing.c").write_text("int nothing;\n")
    subprocess.run(["gcc", "-shared", str(folder / "nothing.c"), "-o", str(broken / "libnarrows-fi.so")], check=True)

    options = ["run", "-n", "4", "--machine", tests.options.machine, "--"]
    hello, bytes_ = tests.built(mpi, "environment.c"), tests.built(mpi, "bytes.c")

    def trouble(command: list[str], *says: str) -> Callable[[], None]:
        return refusal(tests, mpi, command, *says, lines=200)

    found = [
        ("trouble_provider", trouble([str(folder / "narrows"), *options, hello], r"narrows: .*MPI_Init\b.*provider `narrows`.*FI_LOG_LEVEL")),
        ("trouble_process_vm", trouble([str(forbid), str(tests.narrows), *options, bytes_, "100000", "20"], r"process_vm_readv.* forbidden.*SYS_PTRACE")),
    ]
    if mpi.name == "mpich":  # the others put nothing there
        if subprocess.run([*NEW_SHM, "true"], capture_output=True).returncode == 0:
            found.append(("trouble_shm_full", trouble([*NEW_SHM, str(tests.narrows), *options, hello], r"SIGBUS.*/dev/shm is full.*larger")))
        else:
            print("left out: trouble_shm_full (no mount namespaces here)")
    return found


def refusals(tests: Tests, mpi: Mpi) -> list[tuple[str, Callable[[], None]]]:
    """Cases of Narrows alone: commands that it must refuse with one clear line."""
    narrows, folder = str(tests.narrows), tests.build_folder / "refusals"
    folder.mkdir(parents=True, exist_ok=True)

    def compile_plain(name: str, *flags: str) -> str:
        source, target = folder / "plain.c", folder / name
        source.write_text("int main(void) { return 0; }\n")
        subprocess.run(["gcc", *flags, str(source), "-o", str(target)], check=True)
        return str(target)

    def refused(command: list[str], *says: str) -> Callable[[], None]:
        return refusal(tests, mpi, command, *says)

    def machine_file(name: str, text: str) -> str:
        path = folder / name
        path.write_text(text)
        return str(path)

    hello = tests.built(mpi, "environment.c")
    start = [narrows, "run", "-n", "2", "--machine", tests.options.machine]
    return [
        ("refuse_no_mpi", refused([*start, "--", compile_plain("plain")], r"(?i)mpi")),
        ("refuse_static", refused([*start, "--", compile_plain("static", "-static")], r"(?i)static")),
        ("refuse_no_program", refused([*start, "--", "/no/such/program"], r"/no/such/program")),
        ("refuse_not_executable", refused([*start, "--", str(SOURCES / "check.h")], r"check\.h")),
        ("refuse_too_many_ranks", refused([narrows, "run", "-n", "100000", "--machine", tests.options.machine, "--", hello], r"100,?000", r"(?i)core|rank")),
        ("refuse_no_machine", refused([narrows, "run", "-n", "2", "--machine", "bxi-v3000", "--", hello], r"bxi-v3000", r"bxi-v2\b")),
        ("refuse_no_launcher", refused([*start, "--mpirun", "/no/such/mpirun", "--", hello], r"/no/such/mpirun")),
        ("refuse_bad_option", refused([*start, "--network", "pigeon", "--", hello], r"pigeon", r"packet")),
        ("refuse_file_limit", refused(["sh", "-c", 'ulimit -f 100; exec "$@"', "sh", *start, "--", hello], r"bytes of shared memory.*ulimit -f")),
        ("refuse_machine_syntax", refused([narrows, "run", "-n", "2", "--machine", machine_file("syntax.toml", "[node\ncores = 4\n"), "--", hello], r"syntax\.toml", r":1:|line 1")),
        ("refuse_machine_key", refused([narrows, "machine", "check", machine_file("key.toml", "[node]\ncorse = 4\n")], r"key\.toml", r":2:|line 2", r"cores")),
    ]


def repeats(tests: Tests, mpi: Mpi, ranks: int, program: str, *options: str, environment: dict[str, str] | None = None) -> Callable[[], None]:
    """Two runs, the second on one core only, have the same digest and simulated time."""

    def test() -> None:
        seen = []
        for prefix in ([], ["taskset", "-c", str(min(os.sched_getaffinity(0)))]):
            case = Case(program, f"{program}.c", options=("--compute", "none", *options))
            command = [*prefix, *tests.command("narrows", mpi, case, ranks)]
            outcome = run(command, timeout=120 * tests.options.slow, environment={**mpi.environment, **(environment or {})})
            try:
                if outcome.code != 0:
                    raise Failure(f"exit code {outcome.code}: {tail(outcome)}")
                summary = outcome.summary
                seen.append({key: summary[key] for key in ("digest", "simulated_s", "messages", "bytes", "packets", "events")})
            finally:
                shutil.rmtree(outcome.folder, ignore_errors=True)
        if seen[0] != seen[1]:
            raise Failure(f"{seen[0]} and then {seen[1]}")

    return test


# --- Main ----------------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog="see the head of this file")
    parser.add_argument("--runner", choices=("plain", "narrows"), default="narrows")
    parser.add_argument("-k", action="append", default=[], metavar="REGEX", help="cases whose name matches (several: any)")
    parser.add_argument("--mpi", default=",".join(MPI_NAMES), help="comma separated: debian,openmpi,mpich")
    parser.add_argument("-n", default=",".join(map(str, RANKS)), help="numbers of ranks, comma separated (cases with numbers of their own keep those)")
    parser.add_argument("--prefix", action="append", default=[], metavar="MPI=DIR", help="where an MPI is installed")
    parser.add_argument("--require", default="", help="MPIs that must be there, comma separated; else missing ones are left out")
    parser.add_argument("--build", default=str(ROOT / "target" / "mpi-tests"), help="folder for binaries, references and logs")
    parser.add_argument("--narrows", default=str(ROOT / "target" / "release" / "narrows"))
    parser.add_argument("--machine", default="bxi-v2")
    parser.add_argument("--slow", type=float, default=1.0, help="factor for all time limits")
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="runs at once (failures stay alone); default: cores")
    parser.add_argument("--list", action="store_true")
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
    ranks = [int(n) for n in options.n.split(",")]
    selected = lambda name: not options.k or any(re.search(pattern, name) for pattern in options.k)  # noqa: E731

    jobs: list[tuple[str, str, int, bool, Callable[[], float | None]]] = []
    for case in cases():
        if options.runner not in case.runners or not selected(case.name):
            continue
        for name in mpis:
            if name not in case.mpis:
                continue
            for n in case.ranks:
                if n in ranks or n not in RANKS:
                    alone = case.fails or bool(case.stop_by)
                    jobs.append((case.name, name, n, alone, lambda case=case, name=name, n=n: tests.check(options.runner, tests.mpis[name], case, n)))
    if options.runner == "narrows":
        if not tests.narrows.exists() and not options.list:
            parser.error(f"no {tests.narrows}: run make build")
        for name in mpis:
            for program, network in itertools.product(("p2p_random", "coll_nonblocking", "comm", "rma_atomic"), ("packet", "flow", "loggp")):
                if selected(f"repeat_{program}_{network}") and 16 in ranks:
                    test = repeats(tests, tests.mpis[name], 16, program, "--network", network)
                    jobs.append((f"repeat_{program}_{network}", name, 16, False, test))
            # Ranks that look into each other's memory. What Open MPI 4.1 keeps registered depends on addresses: see docs/limits.md.
            # 64 of them on few cores take minutes without Narrows, where each spins for its turn: no comparison with that.
            for program, n in (("rma_shared", 16), ("rma_shared", 64), ("rma_spin", 16)):
                if n in ranks and selected(f"repeat_{program}"):
                    test = repeats(tests, tests.mpis[name], n, program, "--ppn", "4", environment={"OMPI_MCA_mpi_leave_pinned": "0"})
                    jobs.append((f"repeat_{program}", name, n, False, test))
        if mpis and not options.list:
            for name in mpis if any(map(selected, TROUBLES)) else ():
                jobs += [(title, name, 4, True, test) for title, test in troubles(tests, tests.mpis[name]) if selected(title)]
            jobs += [(title, mpis[0], 2, True, test) for title, test in refusals(tests, tests.mpis[mpis[0]]) if selected(title)]

    if options.list:
        for title, name, n, _, _ in jobs:
            print(f"{name:8} n={n:<3} {title}")
        print(f"{len(jobs)} cases")
        return 0

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
        used = open_files()
        left = sorted(path for name in mpis for path in temporary_files(name) - before[name] if path not in used)
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


if __name__ == "__main__":
    sys.exit(main())
