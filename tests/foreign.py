#!/usr/bin/env python3
"""Programs of other processors, beside the same programs for this computer, under an MPI of one release on the simulated machine.

    tests/foreign.py                what `make test-foreign` runs
    tests/foreign.py -k rma -n 4    cases whose name matches, with so many ranks
    tests/foreign.py --all          all cases of tests/run_mpi.py that are in C, with 2 and 4 ranks

Computing takes no time (`--compute none`), so that both print the same, take the same simulated time and have the same digest. The
programs verify themselves too (tests/mpi/check.h). Then come Debian's LAMMPS, beside qemu without Narrows; cycles (`--compute cycles`,
tests/cycles.py), whose digests must be the same in twenty runs on a busy computer; and commands that must be refused, with what they
say. One line per case, then "N passed, N failed".
"""

import argparse
import concurrent.futures
import dataclasses
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cycles
from mpi_driver.applications import MELT, thermo
from mpi_driver.cases import Case, cases
from mpi_driver.mpis import ROOT, SOURCES

FOREIGN = ROOT / "target/foreign"
DEBIAN = FOREIGN / "aarch64/debian"
BUILD = ROOT / "target/foreign-tests"
NARROWS = ROOT / "target/release/narrows"
EXAMPLES = ROOT / "examples"
# mpirun of Open MPI.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

# Point to point, collectives, communicators, types, one-sided operations, threads, shared memory, files, sockets.
USUAL = (
    "p2p_(modes|sizes|any|random|mixed|probe|large)|coll_blocking|coll_nonblocking|comm$|dtype$|neighbor$|"
    "rma_(fence|lock|pscw|atomic|shared|spin|passive)|file_time$|sockets|threads_multiple|sessions"
)


@dataclasses.dataclass(frozen=True)
class Processor:
    """Another processor, with an MPI for it and one of the same release for this computer."""

    name: str
    architecture: str
    native: Path
    # Options of its C compiler.
    options: tuple[str, ...]
    sysroot: Path | None = None
    # Not another release of the MPI, which may number its communicators in another way.
    same_release: bool = True

    @property
    def compiler(self) -> str:
        return f"{self.architecture}-linux-gnu-gcc"

    @property
    def environment(self) -> dict[str, str]:
        return {"QEMU_LD_PREFIX": str(self.sysroot)} if self.sysroot else {}

    @property
    def launcher(self) -> tuple[str, str]:
        return ("--mpirun", str(self.native / "bin/mpiexec"))


MPICH = FOREIGN / "aarch64/mpich"
ARM64 = Processor(
    "ARM64", "aarch64", ROOT / "target/mpis/mpich", (f"-I{MPICH}/include", f"-L{MPICH}/lib", "-lmpi", f"-Wl,-rpath,{MPICH}/lib")
)
# Debian 13's Open MPI 5.0.7; the headers are those of 5.0.11.
OPENMPI = ROOT / "target/mpis/openmpi"
TRIXIE = FOREIGN / "riscv64/debian"
RISCV = Processor(
    "RISC-V",
    "riscv64",
    OPENMPI,
    (f"-I{OPENMPI}/include", f"{TRIXIE}/usr/lib/riscv64-linux-gnu/libmpi.so.40", "-Wl,--allow-shlib-undefined"),
    TRIXIE,
    same_release=False,
)
PROCESSORS = (ARM64, RISCV)


class Failure(Exception):
    """What went wrong."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    stdout: str
    digest: str
    repeats: bool
    simulated: str
    wall: float


def built(source: Path, processor: Processor, foreign: bool) -> Path:
    target = BUILD / (processor.architecture if foreign else processor.native.name) / source.stem
    newest = max(path.stat().st_mtime for path in (source, *SOURCES.glob("*.h")))
    if target.exists() and target.stat().st_mtime > newest:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    compiler, options = (processor.compiler, processor.options) if foreign else (str(processor.native / "bin/mpicc"), ())
    openmp = ["-fopenmp"] if "#include <omp.h>" in source.read_text() else []
    command = [compiler, "-O1", "-g", "-w", *openmp, str(source), "-o", str(target), *options, "-lpthread", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"{' '.join(command)}: {done.stderr.strip()[-800:]}")
    return target


def narrows(words: list[str], environment: dict[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        command = [str(NARROWS), "run", "--out", f"{folder}/out", "--compute", "none", "--timeout", f"{timeout:.0f}", *words]
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, env={**os.environ, **environment}
        )


def outcome(case: Case, source: Path, processor: Processor, ranks: int, foreign: bool) -> Outcome:
    arguments = case.arguments if case.narrows_arguments is None else case.narrows_arguments
    machine = () if "--machine" in case.options else ("--machine", "bxi-v2")
    start = time.monotonic()
    environment = {**case.environment, **AS_ROOT, **(processor.environment if foreign else {}), "NARROWS_TESTS_WORD": "as it was"}
    program = str(built(source, processor, foreign))
    words = ["-n", str(ranks), *processor.launcher, *machine, *case.options, "--", program, *arguments]
    done = narrows(words, environment, case.timeout)
    wall = time.monotonic() - start
    last = " | ".join([line for line in done.stderr.splitlines() if line.strip()][-3:])[-500:]
    if done.returncode:
        raise Failure(f"{'foreign' if foreign else 'native'}: exit code {done.returncode}: {last}")
    digest = re.search(r"digest (\w+)", done.stderr)
    simulated = re.search(r"simulated time ([\d.]+ \w+)", done.stderr)
    if not digest or not simulated:
        raise Failure(f"no digest: {last}")
    if foreign and f"for {processor.name} under qemu" not in done.stderr:
        raise Failure(f"not under qemu: {last}")
    return Outcome(
        "\n".join(sorted(done.stdout.splitlines())), digest[1], "the digest may not repeat" not in done.stderr, simulated[1], wall
    )


def compare(case: Case, source: Path, processor: Processor, ranks: int) -> str:
    """Runs both; what is said of them. Raises Failure."""
    native, foreign = (outcome(case, source, processor, ranks, foreign) for foreign in (False, True))
    clean = case.clean or (lambda text: text)
    if clean(foreign.stdout) != clean(native.stdout):
        here, there = set(native.stdout.splitlines()), set(foreign.stdout.splitlines())
        raise Failure(f"other output: {sorted(there - here)[:2]}, natively {sorted(here - there)[:2]}")
    repeats = native.repeats and foreign.repeats
    if repeats and (foreign.simulated != native.simulated or processor.same_release and foreign.digest != native.digest):
        raise Failure(f"digest {foreign.digest} ({foreign.simulated}), natively {native.digest} ({native.simulated})")
    return f"{foreign.simulated}, wall {native.wall:.1f} s and {foreign.wall:.1f} s"


def lammps(ranks: int) -> str:
    """Debian's LAMMPS for ARM64 under Debian's Open MPI: the results of qemu without Narrows, and the same digest twice. Natively it
    rounds in other places (fused multiply-add), so atoms change their rank at other times."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "in.melt").write_text(MELT)
        environment = {**os.environ, **AS_ROOT}

        def run(command: list[str]) -> subprocess.CompletedProcess[str]:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment, timeout=300
            )
            if done.returncode:
                raise Failure(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr[-300:]}")
            return done

        words = ["-in", "in.melt", "-log", "none"]
        start = [str(NARROWS), "run", "-n", str(ranks), "--compute", "none", "--machine", "bxi-v2", "--out", f"{folder}/out", "--"]
        foreign, again = (run([*start, str(DEBIAN / "usr/bin/lmp"), *words]) for _ in range(2))
        # Its copies between processes need what qemu lacks.
        plain = ["/usr/bin/mpirun", "--oversubscribe", "--mca", "btl_vader_single_copy_mechanism", "none", "-n", str(ranks)]
        alone = run([*plain, "qemu-aarch64", "-L", str(DEBIAN), str(DEBIAN / "usr/bin/lmp"), *words])
    if "for ARM64 under qemu" not in foreign.stderr:
        raise Failure("not under qemu")
    if thermo(foreign.stdout) != thermo(alone.stdout) or "Step" not in thermo(foreign.stdout):
        raise Failure("other results than under qemu without Narrows")
    digests = [re.findall(r"simulated time [\d.]+ \w+|digest \w+", done.stderr) for done in (foreign, again)]
    if digests[0] != digests[1]:
        raise Failure(f"{digests[0]}, then {digests[1]}")
    return " ".join(digests[0])


def cycles_jobs(runs: int, folder: Path) -> list[tuple[str, Callable[[], str]]]:
    """Loops against sums on both processors, and digests with 16 ranks under MPICH and Open MPI."""

    def setup(processor: Processor, source: Path, *arguments: str) -> cycles.Setup:
        environment = tuple(processor.environment.items())
        return cycles.Setup(built(source, processor, True), arguments, processor.launcher, environment)

    (folder / "in.melt").write_text(MELT)
    words = ("-in", str(folder / "in.melt"), "-log", "none", "-screen", "none")
    debian = cycles.Setup(DEBIAN / "usr/bin/lmp", words)
    halo = setup(ARM64, EXAMPLES / "halo2d.c", "64", "10")
    machine = ("--machine", "exanest-mezz")
    return [
        ("aarch64 cycles", functools.partial(cycles.closed_forms, setup(ARM64, SOURCES / "cycles.c"))),
        ("riscv64 cycles", functools.partial(cycles.closed_forms, setup(RISCV, SOURCES / "cycles.c"))),
        ("aarch64 cycles repeat n=16 MPICH", functools.partial(cycles.repeats, halo, 16, runs, *machine)),
        ("aarch64 cycles repeat n=16 Open MPI", functools.partial(cycles.repeats, debian, 16, runs, *machine, "--set", "node.core.l1=none")),
    ]


def refusals(folder: Path) -> list[tuple[str, Callable[[], str]]]:
    """Commands that must say in one line what to do."""
    program = built(EXAMPLES / "pingpong.c", ARM64, True)
    launcher = ARM64.launcher

    def compiled(name: str, *flags: str) -> str:
        source, target = folder / "plain.c", folder / name
        source.write_text("int main(void) { return 0; }\n")
        subprocess.run([ARM64.compiler, *flags, str(source), "-o", str(target)], check=True)
        return str(target)

    def changed(name: str, at: int, byte: int) -> str:
        """A copy of the program with another byte in its ELF header."""
        target = folder / name
        content = bytearray(program.read_bytes())
        content[at] = byte
        target.write_bytes(content)
        target.chmod(0o755)
        return str(target)

    def empty(name: str) -> str:
        (folder / name).mkdir(exist_ok=True)
        return str(folder / name)

    def refused(words: list[str], says: str, environment: dict[str, str] | None = None, narrows: Path = NARROWS) -> Callable[[], str]:
        def test() -> str:
            command = [str(narrows), "run", "-n", "2", *words]
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})}
            )
            lines = [line for line in done.stderr.splitlines() if line]
            if done.returncode == 0 or len(lines) != 1 or not re.search(says, lines[0]):
                raise Failure(f"code {done.returncode}, {lines}, expected {says!r}")
            return lines[0][-90:]

        return test

    # The binary without the libraries for the other processor.
    alone = folder / "without" / "narrows"
    alone.parent.mkdir()
    alone.write_bytes(NARROWS.read_bytes())
    alone.chmod(0o755)
    shutil.copytree(NARROWS.parent / "lib", alone.parent / "lib", ignore=shutil.ignore_patterns("aarch64", "riscv64", "pkgconfig"))
    with_mpi = [*launcher, "--", str(program)]
    return [
        (
            "refuse_no_qemu",
            refused(with_mpi, "built for ARM64, and qemu-aarch64 is not in PATH; install qemu-user", {"PATH": empty("nothing")}),
        ),
        (
            "refuse_no_sysroot",
            refused(with_mpi, r"QEMU_LD_PREFIX=\S+ has no /lib/ld-linux-aarch64.so.1", {"QEMU_LD_PREFIX": empty("nothing")}),
        ),
        ("refuse_no_libraries", refused(with_mpi, "for ARM64 are not in .*: run `make foreign`", narrows=alone)),
        (
            "refuse_no_launcher",
            refused(["--", str(program)], "no MPICH for it is in PATH; name its mpiexec with --mpirun", {"PATH": qemu_alone(folder)}),
        ),
        ("refuse_no_mpi", refused([*launcher, "--", compiled("plain")], "uses no MPI library")),
        ("refuse_static", refused([*launcher, "--", compiled("static", "-static")], "statically linked; link it dynamically")),
        ("refuse_narrow", refused([*launcher, "--", changed("narrow", 4, 1)], "a program of 32 bits; build it for x86-64")),
        ("refuse_big_endian", refused([*launcher, "--", changed("big", 5, 2)], r"\(big-endian\); build it for x86-64")),
        ("refuse_other", refused([*launcher, "--", changed("power", 18, 21)], r"Narrows does not know \(number 21 in elf.h\)")),
        ("refuse_counter", refused(["--compute", "instructions", *with_mpi], "--compute instructions: programs for ARM64 run under qemu")),
        (
            "refuse_mixed",
            refused([*with_mpi, ":", "-n", "2", str(built(EXAMPLES / "pingpong.c", ARM64, False))], "built for different processors"),
        ),
    ]


def with_cycles(job: Callable[[], str]) -> Callable[[], str]:
    """The same, with what it raises as a failure of these tests."""

    def test() -> str:
        try:
            return job()
        except cycles.Failure as error:
            raise Failure(str(error)) from error

    return test


def qemu_alone(folder: Path) -> str:
    """A folder for PATH that has qemu and no launcher."""
    place = folder / "qemu"
    place.mkdir()
    (place / "qemu-aarch64").symlink_to(shutil.which("qemu-aarch64") or "/usr/bin")
    return str(place)


def usual(chosen: str, every: bool, mpi: str) -> list[tuple[Case, Path]]:
    own = [(Case("example_" + name, name + ".c", timeout=60), EXAMPLES / f"{name}.c") for name in ("pingpong", "halo2d")]
    others = [
        (case, SOURCES / case.program)
        for case in cases(40)
        if case.program.endswith(".c")
        and "narrows" in case.runners
        and mpi in case.mpis
        and not case.fails
        and not case.stdin
        and "--compute" not in case.options
        # How long computing takes; another place for what it says; a script that preloads (docs/limits.md); chance.
        and case.name not in ("groups_speed", "job", "preload_replaced")
        and "MPIR_CVAR_ASYNC_PROGRESS" not in case.environment
    ]
    wanted = chosen or ("" if every else f"^example|^({USUAL})")
    return [(case, source) for case, source in own + others if re.search(wanted, case.name)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("-k", default="", metavar="REGEX")
    parser.add_argument("-n", default="2,4")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("-j", type=int, default=2)
    options = parser.parse_args()
    numbers = options.n.split(",")
    for folder in (MPICH, DEBIAN, TRIXIE):
        if not folder.exists():
            parser.error(f"no {folder}: run scripts/setup.sh foreign")

    jobs = []
    for processor in PROCESSORS:
        for case, source in usual(options.k, options.all, processor.native.name):
            # RISC-V with four ranks, and others where a case wants them.
            for ranks in case.ranks if len(case.ranks) == 1 else (4,) if processor is RISCV and "4" in numbers else map(int, numbers):
                # Windows of Open MPI 5.0.7: docs/limits.md.
                if str(ranks) in numbers and not (processor is RISCV and case.name.startswith("rma_")):
                    test = functools.partial(compare, case, source, processor, ranks)
                    jobs.append((f"{processor.architecture} {case.name} n={ranks}", test))
    scratch = tempfile.TemporaryDirectory()
    jobs += [(f"lammps n={n}", functools.partial(lammps, n)) for n in map(int, numbers) if re.search(options.k, "lammps")]
    jobs += [(title, with_cycles(job)) for title, job in cycles_jobs(20, Path(scratch.name)) if re.search(options.k, title)]
    jobs += [job for job in refusals(Path(scratch.name)) if re.search(options.k, job[0])]
    passed, failed = 0, 0

    def run(job) -> bool:
        title, test = job
        try:
            said, good = test(), True
        except Failure as error:
            said, good = str(error), False
        print(f"{'ok  ' if good else 'FAIL'}  {title:38} {said}", flush=True)
        return good

    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        for good in pool.map(run, jobs):
            passed, failed = passed + good, failed + (not good)
    print(f"\n{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
