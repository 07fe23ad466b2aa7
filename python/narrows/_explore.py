"""An MPI program under many timings, on the cores of this computer or those of a client of dask.distributed."""

import contextlib
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows._machine import words
from narrows._native import NarrowsError
from narrows._studies import PathText, Where, _supervise, binary

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True)
class Exploration:
    """What many runs of a program showed. Made by :func:`explore`."""

    report: dict[str, Any]
    """As ``explore.json`` has it."""
    out: Path
    """The folder with the timings."""

    @property
    def classes(self) -> list[dict[str, Any]]:
        """Runs that ended alike: ``runs`` (how many), ``ended``, ``output``, ``findings``, ``compared``, ``timing`` (the
        least different one that shows it), ``file`` (that timing), ``repeat`` (the command), ``waits`` and ``picture`` (who
        waits for whom in a deadlock)."""
        return list(self.report["classes"])

    @property
    def is_clean(self) -> bool:
        """One class of outcomes, and no error in it."""
        remarks = ("leak", "conflict")
        [first, *others] = self.classes
        return not others and first["ended"] == "exit code 0" and all(one.startswith(remarks) for one in first["findings"])

    def __repr__(self) -> str:
        return f"<Exploration: {len(self.classes)} classes of outcomes in {self.report['runs']} runs>"


def explore(
    program: Sequence[PathText],
    *,
    ranks: int,
    runs: int = 200,
    seed: int = 1,
    machine: Where = "bxi-v2",
    ppn: int | None = None,
    compare: str | None = None,
    filter: str | None = None,
    tolerance: float | None = None,
    mpirun: PathText | None = None,
    timeout: int | None = None,
    jobs: int | None = None,
    client: "Client | None" = None,
    out: PathText = "narrows-explore",
) -> Exploration:
    """An MPI program under many legal timings, as ``narrows explore`` (docs/explore.md).

    program: the program and its arguments; workers find it at the same path.
    runs: how many; a few more look for the least timing of each class of outcomes.
    compare: a shell command behind each run, in the folder in which the program ran: what it prints is part of the outcome.
    filter: a shell command through which standard output goes before it is compared. tolerance: outputs that differ only in
    real numbers, by no more than this part of them, are the same.
    timeout: ends a run after so many seconds of wall time (120).
    jobs: runs side by side (the cores of this computer, or the threads of the client). The report does not depend on it.
    client: of dask.distributed: its workers make the runs; None: this computer.
    out: the folder that keeps a timing for each class, and explore.json.

    Raises NarrowsError where a run cannot be made.
    """
    name, nodes, changes = words(machine)
    if nodes is not None:
        changes = [f"node.count={nodes}", *changes]
    if jobs is None and client is not None:
        jobs = max(1, sum(client.nthreads().values()))
    options = {"runs": runs, "seed": seed, "machine": name, "ppn": ppn, "compare": compare, "mpirun": mpirun}
    options |= {"filter": filter, "tolerance": tolerance, "timeout": timeout, "jobs": jobs}
    command = [str(binary()), "explore", f"--ranks={ranks}", f"--out={os.fspath(out)}", "--json"]
    command += [f"--{option}={value}" for option, value in options.items() if value is not None]
    command += [f"--set={change}" for change in changes]
    if client is not None:
        command.append("--elsewhere")
    command += ["--", *(os.fspath(word) for word in program)]
    code, text, said = _supervise(command, quiet=True) if client is None else _on(client, command)
    # 1: several classes, or an error; the report says so.
    if code not in (0, 1) or not text:
        raise NarrowsError(said.replace("narrows: error: ", "").strip() or f"narrows ended with code {code}")
    return Exploration(json.loads(text), Path(out))


def _on(client: "Client", command: list[str]) -> tuple[int, str, str]:
    """The runs are made by workers: exit code, report and messages."""
    report, lock = "", threading.Lock()
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said)
        stdin, stdout = child.stdin, child.stdout
        assert stdin is not None and stdout is not None
        under_way: dict[int, Any] = {}

        def answer(run: int, future: Any) -> None:
            try:
                result = future.result()
            except Exception as error:  # noqa: BLE001 -- whatever it is: the run could not be made.
                result = {"error": f"{type(error).__name__}: {error}"}
            under_way.pop(run, None)
            # It may have ended already.
            with lock, contextlib.suppress(OSError, ValueError):
                stdin.write((json.dumps({"run": run, **result}) + "\n").encode())
                stdin.flush()

        try:
            for line in stdout:
                asked = json.loads(line)
                if "report" in asked:
                    report = asked["report"]
                    continue
                run = asked["run"]
                future = client.submit(_one, asked["command"], asked["program"], asked["timing"], asked["compare"], pure=False)
                under_way[run] = future
                future.add_done_callback(lambda future, run=run: answer(run, future))
        except BaseException:
            client.cancel(list(under_way.values()))
            child.kill()
            raise
        finally:
            with lock, contextlib.suppress(OSError):
                stdin.close()
            stdout.close()
            code = child.wait()
        said.seek(0)
        return code, report, said.read().decode(errors="replace")


def _one(command: list[str], program: list[str], timing: str, compare: str | None) -> dict[str, str]:
    """One run, on a worker."""
    with tempfile.TemporaryDirectory(prefix="narrows-") as scratch:
        file, out, work = Path(scratch, "timing.toml"), Path(scratch, "out"), Path(scratch, "work")
        file.write_text(timing)
        if compare is not None:
            work.mkdir()
        where = None if compare is None else work
        whole = [str(binary()), *command, f"--timing={file}", f"--out={out}", "--", *program]
        done = subprocess.run(whole, stdin=subprocess.DEVNULL, capture_output=True, cwd=where, check=False)
        summary = Path(out, "summary.json")
        if not summary.exists():
            return {"error": done.stderr.decode(errors="replace")}
        compared = ""
        if compare is not None:
            told = subprocess.run(["/bin/sh", "-c", compare], stdin=subprocess.DEVNULL, capture_output=True, cwd=work, check=False)
            compared = f"{told.stdout.decode(errors='replace')}exit status: {told.returncode}"
        return {"summary": summary.read_text(), "output": done.stdout.decode(errors="replace"), "compared": compared}
