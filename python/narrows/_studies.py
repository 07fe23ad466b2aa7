"""Traffic, replays and live runs."""

import importlib.metadata
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from narrows import _native
from narrows._machine import Machine, words
from narrows._native import NarrowsError
from narrows._progress import Progress, shown
from narrows._results import Result, StudyFailed, load, of_native

Where = Machine | str | os.PathLike[str]
PathText = str | os.PathLike[str]


def traffic(
    pattern: str = "uniform",
    *,
    machine: Where = "bxi-v2",
    fabric: str | None = None,
    load: float | Sequence[float] | str | None = None,
    file: PathText | None = None,
    injection: str | None = None,
    size: str | None = None,
    classes: Sequence[str] = (),
    warmup: str | None = None,
    time: str | None = None,
    period: str | None = None,
    seed: int = 1,
    threads: int = 1,
    progress: bool | Progress | None = None,
) -> Result:
    """Synthetic traffic, as ``narrows traffic`` (docs/traffic.md).

    pattern: "uniform", "permutation", "shift:K", "incast:N", ... ; "flows" and "mix" read ``file``.
    fabric: which network, on a machine that has several (the first one).
    load: a fraction of the injection bandwidth, several of them, or a sweep as text "0.1:1.0:0.1" (0.5).
    injection: how messages follow each other: "bernoulli" (default), "poisson", "on-off:8", "closed:4".
    size: of messages: "4KiB", "uniform:1KiB,64KiB", "web-search" (a full packet).
    classes: more classes of traffic, each "name=victim pattern=shift:8 load=0.2".
    warmup, time: simulated times before and of the measurement, such as "20us" (until steady; 100us).
    period: queues, links and hops are looked at this often, such as "1us"; they become tables.
    threads: of the simulator; results do not depend on them.
    progress: True or False; a function of (what, fraction, detail); or None: in terminals and notebooks.

    Tables: points, histograms; flows (of "flows"); with a period series, links, queues, hops, rates.

    Raises NarrowsError for arguments that mean nothing, StudyFailed where nothing was measured.

        >>> traffic("uniform", machine="bxi-v2", load=[0.2, 0.4], warmup="5us", time="20us").points["load"]
        [0.2, 0.4]
    """
    loads = load if load is None or isinstance(load, str) else ",".join(map(repr, [load] if isinstance(load, int | float) else list(load)))
    with shown(progress) as told:
        native = _native.traffic(
            words(machine),
            pattern,
            fabric=fabric,
            file=file,
            load=loads,
            injection=injection,
            size=size,
            classes=list(classes),
            warmup=warmup,
            time=time,
            period=period,
            seed=seed,
            threads=threads,
            progress=told,
        )
    options: dict[str, Any] = {
        "load": loads,
        "file": file,
        "fabric": fabric,
        "injection": injection,
        "size": size,
        "warmup": warmup,
        "time": time,
    }
    options |= {"period": period, "seed": seed, "class": list(classes)}
    return of_native("traffic", native, _repeat("traffic", [pattern], machine, options))


def replay(
    *traces: PathText,
    machine: Where | None = None,
    loggp: str | None = None,
    ppn: int | None = None,
    mapping: str = "linear",
    compute_scale: float | str | Sequence[str] = (),
    collectives: str | None = None,
    period: str | None = None,
    timeline: PathText | None = None,
    timeline_from: str | None = None,
    timeline_to: str | None = None,
    timeline_limit: int | None = None,
    seed: int = 1,
    threads: int = 1,
    progress: bool | Progress | None = None,
) -> Result:
    """Traces on a simulated machine, as ``narrows replay`` (docs/replay.md). Several run at the same time.

    machine: "bxi-v2" unless ``loggp`` has LogGOPSim's parameters instead: "L=2500ns,o=1500ns,g=1000ns,G=6ns/B,S=65535".
    ppn: ranks per processor (1, or as many as are needed).
    mapping: where each trace runs: "linear", "switch", "node", "processor", "random:SEED" or a file (docs/replay.md).
    compute_scale: factor of computing time: 0.5, or "0.5@0-31" for some nodes; several as a list.
    collectives: "openmpi", "mpich", "mpich3" or a file of rules (the machine's).
    period: applications, queues and links are looked at this often, such as "1us"; they become tables.
    timeline: a file for https://ui.perfetto.dev: operations, messages and NICs (docs/timeline.md). timeline_from,
    timeline_to: of this part of simulated time, such as "20us"; timeline_limit: slices at most (1,000,000).

    Tables: applications, fct (completion times of messages); with a period series, links, queues; with a timeline calls
    (operations), transfers.

    Raises NarrowsError where a trace cannot be read or does not fit, StudyFailed where the replay stands still.
    """
    if not traces:
        raise TypeError("replay() takes at least one trace")
    if loggp is not None and machine is not None:
        raise NarrowsError("--machine is about a machine, and --loggp takes the place of one: leave out one of the two")
    with shown(progress) as told:
        native = _native.replay(
            None if loggp is not None else words("bxi-v2" if machine is None else machine),
            list(traces),
            loggp=loggp,
            ppn=ppn,
            mapping=mapping,
            compute_scale=_scales(compute_scale),
            collectives=collectives,
            period=period,
            timeline=None if timeline is None else (timeline, timeline_from, timeline_to, timeline_limit),
            seed=seed,
            threads=threads,
            progress=told,
        )
    options: dict[str, Any] = {
        "loggp": loggp,
        "network": None if loggp is None else "loggp",
        "ppn": ppn,
        "mapping": mapping,
        "collectives": collectives,
    }
    options |= {"period": period, "seed": seed, "compute-scale": _scales(compute_scale)}
    if loggp is not None:
        options |= {"mapping": None}
    where = None if loggp is not None else "bxi-v2" if machine is None else machine
    return of_native("replay", native, _repeat("replay", list(traces), where, options))


def _repeat(command: str, first: Sequence[PathText], machine: Where | None, options: dict[str, Any]) -> list[str]:
    """The command line that asks for the same."""
    line = ["narrows", command, *(os.fspath(word) for word in first)]
    if machine is not None:
        name, nodes, changes = words(machine)
        line += [f"--machine={name}", *([] if nodes is None else [f"--nodes={nodes}"]), *(f"--set={change}" for change in changes)]
    for name, value in options.items():
        values = value if isinstance(value, list) else [] if value is None else [value]
        line += [f"--{name}={one}" for one in values]
    return line


def _scales(scale: float | PathText | Sequence[str]) -> list[str]:
    return [str(scale)] if isinstance(scale, str | int | float | os.PathLike) else [str(one) for one in scale]


def run(
    program: Sequence[PathText],
    *,
    ranks: int,
    machine: Where = "bxi-v2",
    ppn: int | None = None,
    placement: str = "linear",
    on: str | None = None,
    compute: PathText = "measured",
    compute_scale: float | PathText | Sequence[str] = (),
    transport: str = "ofi",
    mpirun: PathText | None = None,
    seed: int = 1,
    threads: int = 1,
    timeout: int | None = None,
    timeline: PathText | None = None,
    timeline_from: str | None = None,
    timeline_to: str | None = None,
    timeline_limit: int | None = None,
    out: PathText | None = None,
    quiet: bool = False,
) -> Result:
    """An MPI program on a simulated machine, as ``narrows run``.

    program: the program and its arguments: any MPI binary, or a script that starts one.
    ppn: ranks per processor (1, or as many as are needed). placement: "linear", "random:SEED" or a file
    (docs/machine-files.md). on: the processors of the nodes that ranks are on, such as "bf2"; behind ":" in the
    program's words stand other programs, each with its own (["./a", ":", "-n", "2", "--on", "bf2", "--", "./b"]).
    compute: "measured", "sampled" (medians), "pooled" (medians over ranks), "instructions" with or without ":RATE" per
    second (hardware counters), "cycles" of the simulated core (under qemu), "none": then two runs are identical to the
    bit, or the folder of an earlier run: then two runs differ by the machine only.
    compute_scale: factor of computing times: 0.5, or "0.5@0-31" for some nodes; several as a list. With the times of an
    earlier run also the folder of a run of one rank with the work of one of these.
    mpirun: another launcher than the one that belongs to the program's MPI.
    threads: of the simulator, for the switches of packet networks; results do not depend on them.
    timeout: wall time after which the run is ended, in seconds.
    timeline: a file for https://ui.perfetto.dev: MPI calls, messages and NICs (docs/timeline.md). timeline_from,
    timeline_to: of this part of simulated time, such as "2ms"; timeline_limit: slices at most (1,000,000).
    out: a folder that keeps summary.json, the resolved machine, a picture and computing times for ``compute``.
    quiet: what the program and Narrows say goes to ``result.stdout`` and ``result.text`` only, not to the screen too.

    The program reads no standard input. Tables: ranks (where each rank's time went); with a timeline calls, transfers.

    Raises NarrowsError where the program cannot be started, StudyFailed where it fails: ``exit_code`` is its own.
    """
    name, nodes, changes = words(machine)
    command = [str(binary()), "run", f"--ranks={ranks}", f"--machine={name}", f"--placement={placement}"]
    command += [f"--compute={os.fspath(compute)}", *(f"--compute-scale={scale}" for scale in _scales(compute_scale))]
    command += [f"--transport={transport}", f"--seed={seed}", f"--threads={threads}"]
    options = {"nodes": nodes, "ppn": ppn, "on": on, "mpirun": mpirun, "timeout": timeout, "timeline": timeline}
    options |= {"timeline-from": timeline_from, "timeline-to": timeline_to, "timeline-limit": timeline_limit}
    command += [f"--{option}={value}" for option, value in options.items() if value is not None]
    command += [f"--set={change}" for change in changes]
    with tempfile.TemporaryDirectory(prefix="narrows-") as scratch:
        # summary.json of an earlier run in the folder of the user would pass for this one's.
        command += [f"--out={scratch}", "--", *(os.fspath(word) for word in program)]
        code, stdout, said = _supervise(command, quiet)
        done = Path(scratch, "summary.json").exists()
        result = load(scratch) if done else None
        if done and out is not None:
            shutil.copytree(scratch, out, dirs_exist_ok=True)
    if result is not None:
        result.stdout, result.text = stdout, said
        result.command = ["narrows", *command[1 : command.index(f"--out={scratch}")], "--", *(os.fspath(word) for word in program)]
    if code != 0 or result is None:
        marker = "narrows: error: "
        text = said[said.index(marker) + len(marker) :] if marker in said else said
        # Without results nothing has run: wrong arguments, no such program.
        if result is None:
            raise NarrowsError(text.strip() or f"narrows ended with code {code}")
        raise StudyFailed(result.summary.get("failure") or f"the program ended with code {code}", result, code)
    return result


def generate(pattern: str, out: PathText, *, ranks: int, **options: object) -> Path:
    """Makes up a trace of a well-known pattern, as ``narrows generate``: the file.

    pattern: "halo3d", "fft3d", "allreduce-loop", "bcast", "lammps-like", "minimd-like", "nest-like", "hpcg-like",
    "minife-like", "matmul-like", "lulesh-like", "miniem-like", "miniem-dpu", "transformer".
    options: those of the command line, with underscores: ``steps=10, bytes="64KiB", compute="100us"``; of a transformer
    ``tp=8, pp=2, layers=32, micro_batch=1`` and so on.

    Raises NarrowsError for options that mean nothing, and where the file cannot be written.
    """
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value is not None]
    code, _, said = _supervise([str(binary()), "generate", pattern, f"--ranks={ranks}", f"--output={os.fspath(out)}", *words], quiet=True)
    if code != 0:
        raise NarrowsError(said.replace("narrows: error: ", "").strip())
    return Path(out)


def extrapolate(recordings: Sequence[PathText], out: PathText, *, ranks: int, **options: object) -> Path:
    """Makes the trace of a program at a number of ranks that nobody ran, as ``narrows extrapolate``: the file.

    recordings: traces of one program with one input, at different numbers of ranks.
    options: those of the command line: ``scaling="strong", unexplained="1%"``.

    Raises NarrowsError where the recordings do not say enough, and where the file cannot be written.
    """
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value is not None]
    files = [os.fspath(file) for file in recordings]
    code, _, said = _supervise([str(binary()), "extrapolate", *files, f"--ranks={ranks}", f"--output={os.fspath(out)}", *words], quiet=True)
    if code != 0:
        raise NarrowsError(said.replace("narrows: error: ", "").strip())
    return Path(out)


def record(
    program: Sequence[PathText],
    out: PathText,
    *,
    ranks: int,
    machine: Where | None = None,
    ppn: int | None = None,
    compute: PathText | None = None,
    compute_scale: float | PathText | Sequence[str] = (),
    clock: str | None = None,
    mpirun: PathText | None = None,
    quiet: bool = False,
) -> Path:
    """Records the communication of an MPI program as a trace, as ``narrows record`` (docs/traces.md): the file.

    out: its ending says the format: .vef, .goal, .bin, .jsonl.
    machine: runs on a simulated machine, with its times; None: on this computer. ppn, compute,
    compute_scale: as in :func:`run`.
    clock: on this computer, what computing is: "real" or "cpu" time (cpu where there are more ranks than cores).

    Raises NarrowsError where the program cannot be started, or fails.
    """
    command = [str(binary()), "record", f"--ranks={ranks}", f"--output={os.fspath(out)}"]
    options = {"ppn": ppn, "compute": compute, "clock": clock, "mpirun": mpirun}
    if machine is not None:
        name, nodes, changes = words(machine)
        options |= {"machine": name, "nodes": nodes}
        command += [f"--set={change}" for change in changes]
    command += [f"--{option}={value}" for option, value in options.items() if value is not None]
    command += [f"--compute-scale={scale}" for scale in _scales(compute_scale)]
    code, _, said = _supervise([*command, "--", *(os.fspath(word) for word in program)], quiet)
    if code != 0:
        raise NarrowsError(said.replace("narrows: error: ", "").strip() or f"the program ended with code {code}")
    return Path(out)


def analyse(trace: PathText) -> Result:
    """What a trace holds, as ``narrows analyse`` (docs/traces.md): nothing is simulated.

    Tables: ranks, pairs (who sends what to whom), sizes, collectives, intervals.

    Raises NarrowsError where the trace cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="narrows-") as scratch:
        code, _, said = _supervise([str(binary()), "analyse", os.fspath(trace), "--report", scratch], quiet=True)
        if code != 0:
            raise NarrowsError(said.removeprefix("narrows: error: ").strip())
        return load(scratch)


def binary() -> Path:
    """The program ``narrows`` that belongs to this package."""
    # Where this interpreter puts programs; elsewhere with pip install --user, --prefix or --target.
    places = [Path(sysconfig.get_path("scripts"), "narrows")]
    try:
        listed = importlib.metadata.files("narrows") or []
        places += [Path(str(file.locate())) for file in listed if file.name == "narrows" and file.parent.name == "bin"]
    except importlib.metadata.PackageNotFoundError:
        pass
    for place in places:
        if os.access(place, os.X_OK):
            return place
    found = shutil.which("narrows")
    if found is None:
        raise NarrowsError(f"the program narrows is not in {places[0].parent}: pip install . puts it there")
    return Path(found)


# Live runs that go on.
_RUNNING: "set[subprocess.Popen[bytes]]" = set()


def interrupt_runs() -> None:
    """Ctrl-C for runs that were started from other threads: it comes to the first one only."""
    for child in list(_RUNNING):
        child.send_signal(signal.SIGINT)


@contextmanager
def _no_interruption() -> Iterator[Callable[[], None]]:
    """Ctrl-C waits until the function is called: a child that has been started is known by then."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))

    def again() -> None:
        signal.signal(signal.SIGINT, before)
        if heard:
            heard.clear()
            signal.raise_signal(signal.SIGINT)

    try:
        yield again
    finally:
        signal.signal(signal.SIGINT, before)


def _supervise(command: list[str], quiet: bool) -> tuple[int, str, str]:
    """Exit code, standard output and standard error; they are passed on as they come unless it is quiet."""
    parts: dict[str, list[str]] = {"stdout": [], "stderr": []}

    def read(pipe: IO[bytes], name: str) -> None:
        for line in pipe:
            text = line.decode(errors="replace")
            parts[name].append(text)
            if not quiet:
                # Looked up each time: notebooks and tests put others in their place.
                getattr(sys, name).write(text)

    with _no_interruption() as listen:
        # A group of its own: Ctrl-C of a terminal reaches it once, through us.
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0)
        assert child.stdout is not None and child.stderr is not None
        threads = [threading.Thread(target=read, args=pipe) for pipe in ((child.stdout, "stdout"), (child.stderr, "stderr"))]
        for thread in threads:
            thread.start()
        _RUNNING.add(child)
        try:
            listen()
            child.wait()
        except BaseException:
            # Narrows ends the ranks and their launcher itself.
            child.send_signal(signal.SIGINT)
            child.wait()
            raise
        finally:
            _RUNNING.discard(child)
            for thread in threads:
                thread.join()
    return child.returncode, "".join(parts["stdout"]), "".join(parts["stderr"])


__all__ = ["StudyFailed", "analyse", "binary", "extrapolate", "generate", "record", "replay", "run", "traffic"]
