"""Sweeps: one study at many points, on the cores of this computer or those of a client of dask.distributed.

A folder keeps the sweep: ``journal.jsonl`` has a line for each finished point, written as soon as the point is known,
and ``study.parquet`` is the table of all points, written when the last one is done. A point's key is the hash of its
resolved configuration and of the version of Narrows, so a point that has been finished is never run again, whichever
sweep asks for it.
"""

import fcntl
import functools
import hashlib
import inspect
import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows import _native
from narrows._machine import Machine, as_machine
from narrows._native import NarrowsError
from narrows._progress import Progress, shown
from narrows._results import Result, Table
from narrows._studies import interrupt_runs

if TYPE_CHECKING:
    from distributed import Client
    from matplotlib.axes import Axes

# Points that are handed to a client together: one by one costs three times as much. The next ones follow when half are
# done.
_TOGETHER = 1000
# Numbers of a live run that depend on this computer.
_OF_THIS_COMPUTER = {
    "wall_s",
    "windows",
    "apart",
    "crossings",
    "crossings_per_blocking_call",
    "exit_code",
    "failure",
    "narrows",
    "compute_alike",
} | {"compute_spread"}


def sweep(
    function: Callable[..., Any],
    *fixed: Any,
    grid: Mapping[str, Sequence[Any]] | None = None,
    points: Sequence[Mapping[str, Any]] | None = None,
    repeats: int = 1,
    seeds: Sequence[int] | None = None,
    out: str | os.PathLike[str] = "narrows-study",
    **named: Any,
) -> "Study":
    """A study at many points; nothing runs before :meth:`Study.run`.

    function: :func:`traffic`, :func:`replay`, :func:`run`, or a function of yours that gives a Result, a number, a
    dictionary or a list of dictionaries. ``fixed`` and ``named`` are its arguments at every point.
    grid: values for each of several arguments; every combination is a point. A name that is no argument of the function
    is a key of its machine ("network.routing"), "nodes" the number of its nodes.
    points: the points themselves, in place of a grid (a random design, for example).
    repeats: each point so many times, with the seeds 1, 2, ...; or ``seeds``: these ones.
    out: the folder that keeps finished points and the table. Several sweeps may share it.

    Raises NarrowsError for a name that is neither an argument nor a key. A point that fails is a row of the table.

        >>> study = sweep(traffic, grid={"load": [0.1, 0.5], "network.routing": ["d-mod-k", "adaptive"]})
        >>> len(study.points)
        4
    """
    if (grid is None) == (points is None):
        raise NarrowsError("a sweep has a grid or a list of points: one of the two")
    if points is None:
        grid = {name: list(values) for name, values in (grid or {}).items()}
        points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    seeds = list(range(1, repeats + 1)) if seeds is None else list(seeds)
    takes = inspect.signature(function).parameters
    if "seed" not in takes and len(seeds) > 1:
        raise NarrowsError(f"{function.__name__}() takes no seed: its repeats would all be the same")
    asked = [{**point, **({"seed": seed} if "seed" in takes else {})} for point in points for seed in seeds]
    for name in dict.fromkeys(name for point in asked for name in point):
        _check_name(name, function)
    return Study(function, fixed, named, asked, Path(out))


class Study:
    """A sweep: its points, and how to run it. Made by :func:`sweep`."""

    def __init__(
        self, function: Callable[..., Any], fixed: tuple[Any, ...], named: dict[str, Any], points: list[dict[str, Any]], out: Path
    ) -> None:
        self._function, self._fixed, self._named = function, fixed, named
        self.points = points
        """What differs from point to point, in the order of the table."""
        self.out = out
        self._done: dict[str, dict[str, Any]] = {}

    @functools.cached_property
    def _arguments(self) -> list[dict[str, Any] | NarrowsError]:
        """The named arguments of each point; the error where they make no machine."""
        resolved: dict[str, Machine | NarrowsError] = {}
        return [_arguments(self._function, self._named, point, resolved) for point in self.points]

    @functools.cached_property
    def keys(self) -> list[str]:
        """A hash for each point of all that its result depends on."""
        about = {"narrows": _build(), "function": _identity(self._function), "fixed": [_plain(value) for value in self._fixed]}
        return [_hash({**about, "named": str(one) if isinstance(one, NarrowsError) else _plain(one)}) for one in self._arguments]

    def run(self, client: "Client | None" = None, *, retry: bool = False, progress: bool | Progress | None = None) -> Table:
        """Runs the points that are not finished yet; the table of all of them.

        client: of dask.distributed: a Slurm cluster (dask-jobqueue), Kubernetes, ...; None: the cores of this computer.
        retry: points that have failed are run once more.
        progress: as in :func:`traffic`.

        The table has a row for each point (and class of traffic, or application): ``point``, what differs between the
        points, ``status`` ("done" or "failed"), ``error``, and the columns of the result.

        Ctrl-C, or kill -9: finished points stay; the same call goes on with the others.
        """
        self.out.mkdir(parents=True, exist_ok=True)
        with _locked(self.out / "journal.jsonl") as journal:
            self._done = {line["key"]: line for line in _read(journal)}
            left = {}
            for key, arguments in zip(self.keys, self._arguments, strict=True):
                status = self._done.get(key, {}).get("status")
                if status != "done" and (status != "failed" or retry):
                    left[key] = arguments
            if left:
                with shown(progress) as told:
                    self._work(client, left, journal, told)
        table = self.table
        _write(table, self.out / "study.parquet")
        return table

    def _work(self, client: "Client | None", left: dict[str, Any], journal: int, told: Progress | None) -> None:
        begin, failed, finished = time.monotonic(), 0, 0

        def note(line: dict[str, Any]) -> None:
            nonlocal failed, finished
            if line["status"] != "lost":
                _append(journal, line)
            self._done[line["key"]] = line
            finished += 1
            failed += line["status"] != "done"
            if told is not None:
                seconds = time.monotonic() - begin
                told(f"{finished} of {len(left)} points", finished / len(left), f"{failed} failed, {seconds / finished:.2f} s each")

        runnable = {}
        for key, arguments in left.items():
            if isinstance(arguments, NarrowsError):
                note(_failure(key, arguments))
            else:
                runnable[key] = arguments
        one = functools.partial(_execute, self._function, self._fixed)
        points = list(runnable.items())
        for line in _here(one, points) if client is None else _on(client, one, points):
            note(line)

    @property
    def table(self) -> Table:
        """A row for each point that is finished; see :meth:`run`."""
        rows: list[dict[str, Any]] = []
        for index, (point, key) in enumerate(zip(self.points, self.keys, strict=True)):
            line = self._done.get(key)
            if line is None:
                continue
            about = {
                "point": index,
                **{name: _shown(value) for name, value in point.items()},
                "status": line["status"],
                "error": line["error"],
            }
            rows += [{**about, **row} for row in line["rows"] or [{}]]
        return Table(_columns(rows))

    @property
    def failures(self) -> list[tuple[dict[str, Any], str]]:
        """The points that have failed, and why."""
        lines = [(point, self._done.get(key)) for point, key in zip(self.points, self.keys, strict=True)]
        return [(point, line["error"]) for point, line in lines if line is not None and line["status"] != "done"]

    def plot(self, x: str, y: str, by: str | None = None, ax: "Axes | None" = None) -> "Axes":
        """A picture of two columns of the table: means over repeats, and a band from the least to the most; a curve for
        each value of the column ``by``.

        Raises NarrowsError where there is no such column.
        """
        from narrows import _plots

        return _plots.of_study(self.table.to_rows(), x, y, by, ax)

    def plot_speedup(
        self, x: str = "ranks", y: str = "simulated_s", by: str | None = None, *, efficiency: bool = False, ax: "Axes | None" = None
    ) -> "Axes":
        """How many times faster more of ``x`` are, by the times ``y`` (means over repeats), a curve for each value of
        ``by``: n0 * T(n0) / T(n), with n0 the fewest of each curve. ``efficiency``: that divided by n.

        Raises NarrowsError where there is no such column.
        """
        from narrows import _plots

        return _plots.speedup(self.table.to_rows(), x, y, by, efficiency, ax)

    def report(self, path: str | os.PathLike[str], title: str | None = None) -> Path:
        """Writes one HTML page with curves, the table and the failures."""
        from narrows import _report

        return _report.of_study(self, path, title)

    @property
    def function_name(self) -> str:
        """What runs at each point."""
        return self._function.__name__

    def __repr__(self) -> str:
        return f"<Study of {self.function_name}: {len(self.points)} points in {self.out}>"


# What a point is.


def _check_name(name: str, function: Callable[..., Any]) -> None:
    takes = inspect.signature(function).parameters
    if name in takes or any(parameter.kind == parameter.VAR_KEYWORD for parameter in takes.values()):
        return
    keys = _native.machine_keys()
    if "machine" in takes and (name == "nodes" or name in keys or any(key.endswith(f".{name}") for key in keys)):
        return
    raise NarrowsError(f"{name}: neither an argument of {function.__name__}() nor a key of a machine (docs/machine-files.md)")


def _arguments(
    function: Callable[..., Any], named: dict[str, Any], point: dict[str, Any], resolved: dict[str, Machine | NarrowsError]
) -> dict[str, Any] | NarrowsError:
    takes = inspect.signature(function).parameters
    # A function of anything takes everything as it is.
    direct = {name: value for name, value in point.items() if name in takes or "machine" not in takes}
    changes = {"node.count" if name == "nodes" else name: value for name, value in point.items() if name not in direct}
    arguments = {**named, **direct}
    if "machine" in takes:
        base = arguments.get("machine", takes["machine"].default)
        if base is inspect.Parameter.empty or (base is None and not changes and "loggp" in arguments):
            return arguments
        # Most points share a machine with others.
        words = repr((base._words if isinstance(base, Machine) else base, changes))
        if words not in resolved:
            resolved[words] = _resolve("bxi-v2" if base is None else base, changes)
        machine = resolved[words]
        if isinstance(machine, NarrowsError):
            return machine
        arguments["machine"] = machine
    for name, value in (("progress", False), ("quiet", True)):
        if name in takes:
            arguments.setdefault(name, value)
    return arguments


def _resolve(base: Any, changes: dict[str, Any]) -> Machine | NarrowsError:
    try:
        machine = as_machine(base)
        return machine.set(changes) if changes else machine
    except NarrowsError as error:
        return error


def _plain(value: Any) -> Any:
    """A value as JSON has it: all of it that a result depends on."""
    match value:
        case Machine():
            return {"machine": hashlib.sha256(value.to_toml().encode()).hexdigest()}
        case str() | os.PathLike() if os.path.isfile(value):
            return {"file": os.fspath(value), "content": _content(os.path.abspath(value), os.stat(value).st_mtime_ns)}
        case None | str() | int() | float():
            return value
        case os.PathLike():
            return os.fspath(value)
        case Mapping():
            return {str(name): _plain(one) for name, one in value.items()}
        case Sequence():
            return [_plain(one) for one in value]
        case _ if hasattr(value, "tolist"):
            # Of numpy.
            return _plain(value.tolist())
        case _:
            raise NarrowsError(f"{value!r}: a sweep takes numbers, texts, paths, machines, and lists and mappings of them")


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


@functools.lru_cache(maxsize=1024)
def _content(path: str, changed_ns: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _build() -> list[str]:
    """Version and build: results of another simulator are other results."""
    library = str(_native.__file__)
    return [_native.__version__, _content(library, os.stat(library).st_mtime_ns)]


def _identity(function: Callable[..., Any]) -> list[str]:
    name = f"{function.__module__}.{function.__qualname__}"
    try:
        return [name, "" if name.startswith("narrows.") else inspect.getsource(function)]
    except (OSError, TypeError):
        return [name, ""]


# How points run.

Point = tuple[str, dict[str, Any]]


def _here(one: Callable[..., dict[str, Any]], points: list[Point]) -> Iterator[dict[str, Any]]:
    """Runs points on this computer; a line for each, in the order in which they end.

    A pool of threads: the simulator leaves the interpreter's lock alone. A local cluster of dask costs 7 ms for each
    point and half a second at the start, the pool 1 ms.
    """
    interrupted = threading.Event()

    def told(what: str, fraction: float | None, detail: str) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt

    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    try:
        # Threads hear no Ctrl-C: a simulation is told as it shows its progress.
        work = [pool.submit(one, {**named, "progress": told} if named.get("progress") is False else named, key) for key, named in points]
        for future in as_completed(work):
            yield future.result()
    except BaseException:
        interrupted.set()
        interrupt_runs()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _on(client: "Client", one: Callable[..., dict[str, Any]], points: list[Point]) -> Iterator[dict[str, Any]]:
    """The same on the workers of a client."""
    from distributed import as_completed

    waiting = iter(points)
    under_way = 0

    def submit(count: int) -> list[Any]:
        nonlocal under_way
        batch = list(itertools.islice(waiting, count))
        under_way += len(batch)
        names = [f"narrows-{key}" for key, _ in batch]
        return list(client.map(one, [named for _, named in batch], [key for key, _ in batch], key=names, pure=False)) if batch else []

    running = as_completed(submit(_TOGETHER))
    for future in running:
        under_way -= 1
        if under_way == _TOGETHER // 2:
            running.update(submit(_TOGETHER - under_way))
        if future.status == "finished":
            yield future.result()
        else:
            # The worker died under it, more than once: nobody knows whether it would again.
            yield {**_failure(str(future.key).removeprefix("narrows-"), future.exception() or "cancelled"), "status": "lost"}
        future.release()


def _execute(function: Callable[..., Any], fixed: tuple[Any, ...], named: dict[str, Any], key: str) -> dict[str, Any]:
    """One point, on a worker; a line of the journal."""
    begin = time.monotonic()
    try:
        value = function(*fixed, **named)
        # What cannot be kept fails here, as a point, not in the journal.
        rows = json.loads(json.dumps(_rows(value), default=_number))
    except Exception as error:  # noqa: BLE001 -- whatever it is, the other points go on.
        return {**_failure(key, error), "wall_s": time.monotonic() - begin}
    said = value.warnings if isinstance(value, Result) else []
    return {"key": key, "status": "done", "error": None, "rows": rows, "warnings": said, "wall_s": time.monotonic() - begin}


def _failure(key: str, error: BaseException | str) -> dict[str, Any]:
    text = str(error) if isinstance(error, NarrowsError | str) else f"{type(error).__name__}: {error}"
    return {"key": key, "status": "failed", "error": text, "rows": None, "warnings": [], "wall_s": 0.0}


def _rows(value: Any) -> list[dict[str, Any]]:
    """The rows of a result in the table of the sweep."""
    match value:
        case Result(kind="run"):
            scalars = {name: one for name, one in value.summary.items() if isinstance(one, int | float | str)}
            return [{name: one for name, one in scalars.items() if name not in _OF_THIS_COMPUTER}]
        case Result():
            rows = next(iter(value.tables.values())).to_rows()
            return [{**row, "simulated_s": value.simulated_s, "digest": value.digest} for row in rows]
        case Mapping():
            return [dict(value)]
        case int() | float():
            return [{"value": value}]
        case list() if all(isinstance(row, Mapping) for row in value):
            return [dict(row) for row in value]
    raise TypeError(f"a point gives a Result, a number, a dictionary or a list of dictionaries, and this is {type(value).__name__}")


# What the folder keeps.


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The journal, for one process at a time."""
    journal = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        try:
            fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NarrowsError(f"{path}: another process works on this sweep; wait for it, or choose another folder") from None
        yield journal
    finally:
        os.close(journal)


def _read(journal: int) -> Iterator[dict[str, Any]]:
    """Its lines. What a process was writing when it was killed goes away."""
    with open(os.dup(journal), "rb") as file:
        file.seek(0)
        content = file.read()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        os.ftruncate(journal, len(whole))
    yield from map(json.loads, whole.splitlines())


def _append(journal: int, line: dict[str, Any]) -> None:
    rest = memoryview((json.dumps(line) + "\n").encode())
    while rest:
        rest = rest[os.write(journal, rest) :]


def _number(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} {value!r}: rows of a sweep hold numbers and texts")


def _shown(value: Any) -> Any:
    """A value of a point, in the table."""
    if isinstance(value, Machine):
        return value.name
    return value if value is None or isinstance(value, bool | int | float | str) else json.dumps(_plain(value))


def _columns(rows: list[dict[str, Any]]) -> Any:
    import pyarrow

    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pyarrow.array(values)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
            columns[name] = pyarrow.array([None if value is None else str(value) for value in values])
    return pyarrow.table(columns)


def _write(table: Table, path: Path) -> None:
    """As a whole or not at all."""
    import pyarrow.parquet

    partial = path.with_name(f".{path.name}.{os.getpid()}")
    pyarrow.parquet.write_table(table.to_arrow(), partial)
    partial.replace(path)
