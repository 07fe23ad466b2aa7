"""Builds the program of a case, runs it, and compares: with the output of a plain run, or with the failure that is wanted."""

import argparse
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from .cases import Case
from .mpis import MPI_NAMES, PREFIXES, ROOT, SOURCES, Mpi, oneccl
from .outputs import sorted_lines
from .processes import Outcome, run


class Failure(Exception):
    """A case that did not go as expected; the text says why."""


class Tests:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.build_folder = Path(options.build).resolve()
        self.lock = threading.Lock()
        self.building: dict[tuple[str, str], threading.Lock] = {}
        self.referencing: dict[str, threading.Lock] = {}
        prefixes = dict(PREFIXES)
        for text in options.prefix:
            name, _, path = text.partition("=")
            if name not in prefixes or not path:
                sys.exit(f"run_mpi.py: --prefix {text}: expected {', '.join(f'{name}=DIR' for name in MPI_NAMES)}")
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
            libraries: list[str] = []
            flags = ["-O1", "-g", "-Wall", "-Wno-unused-function", "-Wno-stringop-overread"]
            match path.suffix:
                case ".c":
                    openmp = ["-fopenmp"] if "#include <omp.h>" in path.read_text() else []
                    command = [mpi.tool("mpicc"), *flags, *openmp]
                case ".cpp":
                    libraries = oneccl() if "#include <oneapi/ccl.hpp>" in path.read_text() else []
                    command = [mpi.tool("mpicxx"), "-std=c++17", *flags]
                case ".f90":
                    command = [*mpi.fortran(), "-O1", "-g", "-J", str(target.parent)]
            temporary = target.with_suffix(".new")
            done = subprocess.run([*command, str(path), "-o", str(temporary), *libraries, "-lpthread", "-lm"], capture_output=True, text=True, env={**os.environ, **mpi.environment})
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
        machine = [] if "--machine" in case.options else ["--machine", self.options.machine]
        host = ["taskset", "-c", str(min(os.sched_getaffinity(0)))] if case.one_core else []
        return [*host, str(self.narrows), "run", "-n", str(ranks), *machine, "--out", "{folder}/out", *case.options, "--", *program, *arguments]

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
            outside=self.options.jobs == 1 or case.fails or bool(case.stop_by),
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
                self.check_failure(runner, mpi, case, outcome)
            else:
                if outcome.code != 0:
                    raise Failure(f"exit code {outcome.code}: {tail(outcome)}")
                clean = case.clean or sorted_lines
                if clean(outcome.stdout) != clean(wanted):
                    raise Failure(f"another output than under the plain launcher: {difference(clean(outcome.stdout), clean(wanted))}")
                if case.verify and (wrong := case.verify(outcome, runner)):
                    raise Failure(wrong)
            for pattern in case.says if runner == "narrows" else ():
                if not re.search(pattern, outcome.stderr):
                    raise Failure(f"no line matches {pattern!r}: {tail(outcome)}")
            if runner == "narrows" and outcome.leftovers:
                raise Failure(f"left behind: {'; '.join(outcome.leftovers)[:500]}")
        finally:
            shutil.rmtree(outcome.folder, ignore_errors=True)
        return outcome.seconds

    def check_failure(self, runner: str, mpi: Mpi, case: Case, outcome: Outcome) -> None:
        if outcome.code == 0:
            raise Failure(f"exit code 0: {tail(outcome)}")
        if runner == "plain":
            return
        wanted = case.code[mpi.name] if isinstance(case.code, dict) else (case.code,)
        if case.code is not None and outcome.code not in wanted:
            raise Failure(f"exit code {outcome.code}, expected {wanted}: {tail(outcome)}")
        if "narrows: simulated time" in outcome.stderr:
            raise Failure(f"the summary of a success: {tail(outcome)}")
        if case.marker:
            if outcome.after_marker is None:
                raise Failure(f"the program's line {case.marker!r} did not come through: {tail(outcome)}")
            if case.within is not None and outcome.after_marker > case.within * max(1.0, self.options.slow):
                raise Failure(f"ended {outcome.after_marker:.1f} s after the failure, allowed {case.within} s")


def tail(outcome: Outcome) -> str:
    text = [line for line in (outcome.stderr + "\n" + outcome.stdout).splitlines() if line.strip() and not line.startswith("fail: ")]
    found = [line for line in text if "FAIL" in line or "panicked" in line or line.startswith("narrows")]
    return " | ".join((found or text)[-3:])[-600:] or "(no output)"


def difference(got: str, wanted: str) -> str:
    a, b = set(got.splitlines()), set(wanted.splitlines())
    extra, missing = sorted(a - b)[:2], sorted(b - a)[:2]
    return f"got {extra or 'fewer or other lines'}, expected {missing or 'nothing more'}"
