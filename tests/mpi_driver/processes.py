"""One command: runs it with a time limit, stops it with all its processes, and finds what it leaves behind."""

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Callable


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


def unused(paths: set[str]) -> set[str]:
    """Those of the paths that are there, and that no living process has open."""
    used = open_files() if paths else set()
    return {path for path in paths if os.path.lexists(path) and not any(name == path or name.startswith(path + "/") for name in used)}


# Names that Narrows and the launchers give to files in /dev/shm and /tmp. (Open MPI's shared-memory transports are
# off.)
FILE_NAMES = {
    "debian": r"narrows|ompi|openmpi|pmix",
    "openmpi": r"narrows|ompi|openmpi|prte|pmix",
    "mpich": r"narrows|mpich|hydra",
    "intel": r"narrows|mpich|hydra|impi|intel",
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
    outside: bool = True,
) -> Outcome:
    """Runs a command in a fresh folder, with a private TMPDIR, and waits until it and its whole session are gone. Then it looks
    for what this MPI has left behind: in TMPDIR, and in /dev/shm and /tmp if `outside` is set. There other runs have files, too,
    but those are open, or soon gone."""
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
    before = temporary_files(leftovers_of) if leftovers_of and outside else set()
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

        def still_there() -> set[str]:
            found = {*processes_with(mark), *(str(path.relative_to(folder)) for path in scratch.iterdir())}
            return found | (unused(temporary_files(leftovers_of) - before) if outside else set())

        # The kernel may take a moment to reap what was killed, and a rank that sleeps looks once a second whether its
        # simulator lives.
        left = still_there()
        for pause in (0.2, 0.4, 0.8, 1.6, 3.2):
            if not left:
                break
            time.sleep(pause)
            left &= still_there()
        leftovers = sorted(left)
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
