"""Calibration: constants of a machine from what benchmarks have measured on a real one.

The model is the simulator itself: every size of a benchmark is a small trace of two ranks, and one replay on one big
switch gives the times of all of them, because each pair has nodes of its own. Constants are fitted by least squares of
relative errors (scipy), on a logarithmic scale.
"""

import json
import math
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows._machine import Machine, as_machine
from narrows._native import NarrowsError
from narrows._progress import Progress, shown
from narrows._results import Table
from narrows._studies import replay

if TYPE_CHECKING:
    import numpy

# What a ping-pong and a stream of messages depend on most, on the way of a message: software, PCIe, NIC, links.
CONSTANTS = (
    "software.post",
    "software.completion",
    "software.copy_bandwidth",
    "node.pcie.latency",
    "node.pcie.data_bandwidth",
    "nic.dma_latency",
    "nic.put_occupancy",
    "nic.get_occupancy",
    "link.host.latency",
    "link.host.bandwidth",
    "switch.latency",
)
EAGER = "message.eager_limit"

# A constant is told when its standard error is at most this.
TOLERANCE = 0.01
# Relative error that a model of so few constants has anyway.
MODEL_ERROR = 0.001
# How far a constant may be from the base machine's: a factor, and a standard deviation in the logarithm. The latter
# weighs nothing beside the data; it keeps the constants of which the data say nothing where they were.
FARTHEST, PRIOR = 30.0, 3.0
# Relative step of derivatives: well above the picosecond to which times are rounded.
STEP = 0.01
# The optimiser's steps are relative to the value, which therefore is the logarithm plus this: far from 0.
AWAY = 10.0

# osu_bw sends so many messages before it waits for an answer.
WINDOW = 64
# Beyond this size the last of those messages follow from the first, whose times grow in a line.
WHOLE_WINDOW_MAX = 256 << 10

_UNITS = {"ps": 1e-12, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12}


@dataclass(frozen=True)
class Constant:
    """A constant of the machine, before and after."""

    name: str
    base: str
    fitted: str
    error: float
    """Relative standard error; infinite where the data say nothing."""

    @property
    def told(self) -> bool:
        """Whether the data determine it."""
        return self.error <= TOLERANCE


@dataclass(frozen=True)
class Calibration:
    """What :func:`calibrate` has found."""

    machine: Machine
    """The base machine with the fitted constants."""
    constants: list[Constant]
    inseparable: list[list[str]]
    """Constants that these data cannot tell apart: more of one and less of another gives the same times. One alone: the
    data do not tell it."""
    table: Table
    """``file``, ``bytes``, ``measured``, ``fitted`` (us or MB/s), ``error`` (relative), ``held_back`` (0 or 1)."""

    def error(self, held_back: bool) -> float:
        """Root mean square of the relative errors, of the sizes that were held back or of those that were fitted."""
        rows = [row["error"] for row in self.table.to_rows() if bool(row["held_back"]) == held_back]
        return math.sqrt(sum(error * error for error in rows) / max(1, len(rows)))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the machine file."""
        return self.machine.save(path)

    @property
    def text(self) -> str:
        """Measured and fitted values, errors, constants."""
        lines = [f"{'bytes':>10} {'measured':>12} {'fitted':>12} {'error':>8}"]
        file = None
        for row in self.table.to_rows():
            if row["file"] != file:
                file = row["file"]
                lines.append(f"{file} ({row['unit']})")
            kept = "  held back" if row["held_back"] else ""
            lines.append(f"{row['bytes']:>10} {row['measured']:>12.2f} {row['fitted']:>12.2f} {100 * row['error']:>+7.2f}%{kept}")
        lines.append(f"error (root mean square): {100 * self.error(False):.2f} % fitted, {100 * self.error(True):.2f} % held back")
        lines.append("")
        for constant in self.constants:
            about = f"+- {100 * constant.error:.2g} %" if constant.told else "not told by these data"
            lines.append(f"{constant.name:26} {constant.base:>14} -> {constant.fitted:>14}  {about}")
        for group in self.inseparable:
            apart = f"cannot tell apart: {', '.join(group)}" if len(group) > 1 else f"do not tell {group[0]}"
            lines.append(f"these data {apart}")
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        told = sum(constant.told for constant in self.constants)
        return f"<Calibration: {told} of {len(self.constants)} constants told, held-back error {100 * self.error(True):.2f} %>"


def calibrate(
    base: Machine | str | os.PathLike[str],
    files: Sequence[str | os.PathLike[str]],
    *,
    constants: Sequence[str] | None = None,
    eager_limit: bool = True,
    hold_back: int = 4,
    progress: bool | Progress | None = None,
) -> Calibration:
    """Fits constants of a machine to outputs of benchmarks between two nodes of one switch.

    base: the machine whose other constants are kept. files: outputs of osu_latency and osu_bw (OSU micro-benchmarks), of
    IMB-MPI1 (its PingPong), or of examples/pingpong.c; one of latency and one of bandwidth at least tell most.
    constants: keys of the machine, times and rates above 0 (those of software, PCIe, NIC and links on a message's way).
    eager_limit: finds the eager limit by its step too.
    hold_back: every so many-th size is not fitted, and shows how well the machine foretells what it has not seen.

    Constants that the data do not determine stay where the base has them, as far as their sums fit.

    Raises NarrowsError for a file that is none of these, a constant that is no time or rate, and a base with groups of
    nodes.
    """
    import numpy
    from scipy.optimize import least_squares

    machine = as_machine(base)
    if constants is None:
        # Those that this kind of NIC has, and that are not 0.
        constants = [name for name in CONSTANTS if not _text(machine, name).startswith("0 ")]
    start = {name: _number(name, _text(machine, name)) for name in constants}
    points = [point for path in files for point in _read(Path(path))]
    places: dict[str, int] = {}
    held = []
    for point in points:
        places[point.file] = places.get(point.file, -1) + 1
        held.append(places[point.file] % hold_back == hold_back // 2)
    fitted = numpy.array([not one for one in held])
    if fitted.sum() <= len(start):
        raise NarrowsError(f"{int(fitted.sum())} measured values are too few for {len(start)} constants: more files, or fewer constants")
    log_measured = numpy.log([point.measured for point in points])
    # What a printed number is rounded to, uniformly.
    weights = 1 / numpy.hypot(MODEL_ERROR, [point.rounded / math.sqrt(12) / point.measured for point in points])

    with tempfile.TemporaryDirectory(prefix="narrows-") as scratch, shown(progress) as told:
        model = _Model(machine, points, Path(scratch), told)
        limit = machine[EAGER]
        if eager_limit:
            limit = _eager_limit(model, log_measured, limit)

        def residuals(x: "numpy.ndarray[Any, Any]") -> "numpy.ndarray[Any, Any]":
            errors = (model.log_values(_settings(start, x, limit)) - log_measured) * weights
            return numpy.concatenate([errors[fitted], x / PRIOR])

        def fit(x: "numpy.ndarray[Any, Any]", evaluations: int) -> Any:
            bound = math.log(FARTHEST)
            return least_squares(
                lambda y: residuals(y - AWAY),
                x + AWAY,
                bounds=(AWAY - bound, AWAY + bound),
                diff_step=STEP / AWAY,
                x_scale=0.1,
                max_nfev=evaluations,
            )

        best = fit(numpy.zeros(len(start)), 40)
        changes = best.x - AWAY
        values = model.log_values(_settings(start, changes, limit))
        jacobian = best.jac[: -len(start)]

    errors = numpy.exp(values - log_measured) - 1
    noise = max(1.0, math.sqrt(float(numpy.mean(((values - log_measured) * weights)[fitted] ** 2))))
    names = list(start)
    uncertain, groups = _separate(names, jacobian, noise)
    found = _settings(start, changes, limit)
    listed = [Constant(name, str(machine[name]), found[name], error) for name, error in zip(names, uncertain, strict=True)]
    columns = {
        "file": [point.file for point in points],
        "unit": [point.unit for point in points],
        "bytes": [point.bytes for point in points],
        "measured": [point.measured for point in points],
        "fitted": numpy.exp(values).tolist(),
        "error": errors.tolist(),
        "held_back": [int(one) for one in held],
    }
    import pyarrow

    return Calibration(machine.set(found), listed, groups, Table(pyarrow.table(columns)))


# Measured values.


@dataclass(frozen=True)
class _Point:
    file: str
    kind: str
    bytes: int
    measured: float
    rounded: float
    # Of the benchmark itself in each trip: osu_latency looks at the clock in every iteration since its version 7.
    reads_clock: bool

    @property
    def unit(self) -> str:
        return "us" if self.kind == "latency" else "MB/s"


def _read(path: Path) -> list[_Point]:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise NarrowsError(f"{path}: {error}") from None
    if "# Benchmarking" in text:
        return _read_imb(path, text)
    head = " ".join(line for line in text.splitlines() if not re.match(r"\s*\d", line)).lower()
    if "bi-directional" in head or "bibw" in head:
        raise NarrowsError(f"{path}: osu_bibw is not fitted; leave it out")
    if "half trip us" in head or "latency" in head:
        kind = "latency"
    elif "bandwidth" in head:
        kind = "bandwidth"
    else:
        raise NarrowsError(f"{path}: neither an output of osu_latency or osu_bw, nor of IMB-MPI1 or examples/pingpong.c")
    reads_clock = "avg latency" in head
    points = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words and re.match(r"[-+.\d]", words[0]):
            points += _point(path, number, kind, words[:2], reads_clock)
    if not points:
        raise NarrowsError(f"{path}: no line with a size and a value")
    return points


def _point(path: Path, line: int, kind: str, words: list[str], reads_clock: bool) -> list[_Point]:
    """Of a size and a value; none where the value is rounded to 0."""
    size, value = (re.fullmatch(form, word) for form, word in zip((r"\d{1,13}", r"\d{1,9}(?:\.(\d+))?"), [*words, ""], strict=False))
    if size is None or value is None:
        unit = "a time in us" if kind == "latency" else "a rate in MB/s"
        raise NarrowsError(f"{path}:{line}: found `{' '.join(words)}`; expected a size in bytes below 1e13 and {unit} below 1e9")
    if float(value[0]) == 0:
        return []
    return [_Point(str(path), kind, int(size[0]), float(value[0]), 10.0 ** -len(value[1] or ""), reads_clock)]


def _read_imb(path: Path, text: str) -> list[_Point]:
    """PingPong of an output of IMB-MPI1: bytes, repetitions, t[usec], MB/s. Its loop reads the clock outside only."""
    points = []
    wanted = False
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words[:2] == ["#", "Benchmarking"]:
            wanted = words[2:3] == ["PingPong"]
        elif wanted and words and re.match(r"[-+.\d]", words[0]):
            points += _point(path, number, "latency", [words[0], *words[2:3]], False)
    if not points:
        raise NarrowsError(f"{path}: no PingPong in this output of IMB, which is what is fitted of it")
    return points


# The model.


def _operations(rank: int, kind: str, peer: int, size: int) -> dict[str, Any]:
    return {"rank": rank, "op": kind, "to" if kind == "send" else "from": peer, "tag": 0, "bytes": size}


def _ping_pong(size: int, trips: int) -> list[dict[str, Any]]:
    """osu_latency: each rank sends and receives by turns."""
    turns = {0: ("send", "recv"), 1: ("recv", "send")}
    return [_operations(rank, kind, 1 - rank, size) for rank in (0, 1) for _ in range(trips) for kind in turns[rank]]


def _stream(size: int, windows: int, messages: int) -> list[dict[str, Any]]:
    """osu_bw: a window of messages, all started one after the other, then an answer."""
    lines: list[dict[str, Any]] = []
    for rank, kind, answer in ((0, "send", "recv"), (1, "recv", "send")):
        number = 0
        for _ in range(windows):
            before = [number - 1] if number else []
            for index in range(messages):
                started = {"after_start": [number + index - 1]} if index else {}
                lines.append({**_operations(rank, kind, 1 - rank, size), "after": before, **started})
            lines.append({**_operations(rank, answer, 1 - rank, 4), "after": list(range(number, number + messages))})
            number += messages + 1
    return lines


class _Model:
    """The times of all measured sizes on a machine, by one replay."""

    def __init__(self, machine: Machine, points: Sequence[_Point], folder: Path, told: Progress | None) -> None:
        if machine["machine.groups"]:
            parts = ", ".join(machine["machine.groups"])
            raise NarrowsError(
                f"the machine has groups of nodes ({parts}), and times are those of one kind: give a machine of such nodes alone"
            )
        self._points, self._told, self._evaluations = points, told, 0
        self._traces: list[Path] = []
        for number, point in enumerate(points):
            # Two lengths of each: what the beginning takes falls out of their difference.
            for name, lines in zip(("short", "long"), self._programs(point), strict=True):
                path = folder / f"{number}-{name}.jsonl"
                head = {"narrows_trace": 1, "ranks": 2, "order": "sequential"}
                path.write_text("\n".join(map(json.dumps, [head, *lines])) + "\n")
                self._traces.append(path)
        nodes = 2 * len(self._traces)
        switch: dict[str, str | int] = {
            "topology.kind": "single-switch",
            "switch.radix": nodes,
            "node.count": nodes,
            "network.routing": "minimal",
        }
        self._machine = machine.set(switch)
        clock_read = str(machine["software.clock_read"])
        self._clock_read_s = 0.0 if clock_read.startswith("0 ") else _number("software.clock_read", clock_read)

    @staticmethod
    def _programs(point: _Point) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        if point.kind == "latency":
            return _ping_pong(point.bytes, 2), _ping_pong(point.bytes, 4)
        if point.bytes <= WHOLE_WINDOW_MAX:
            return _stream(point.bytes, 1, WINDOW), _stream(point.bytes, 3, WINDOW)
        return _stream(point.bytes, 1, 4), _stream(point.bytes, 1, 8)

    def log_values(self, settings: dict[str, Any]) -> "numpy.ndarray[Any, Any]":
        import numpy

        result = replay(*self._traces, machine=self._machine.set(settings), progress=False)
        ends = result.applications["finish_s"]
        self._evaluations += 1
        if self._told is not None:
            self._told("fitting", None, f"{self._evaluations} simulations")
        values = []
        for point, short, long in zip(self._points, ends[::2], ends[1::2], strict=True):
            if point.kind == "latency":
                values.append(1e6 * ((long - short) / 4 + (self._clock_read_s / 2 if point.reads_clock else 0.0)))
            elif point.bytes <= WHOLE_WINDOW_MAX:
                values.append(1e-6 * point.bytes * WINDOW / ((long - short) / 2))
            else:
                values.append(1e-6 * point.bytes * WINDOW / (long + (long - short) / 4 * (WINDOW - 8)))
        return numpy.log(values)


def _settings(start: dict[str, float], x: "numpy.ndarray[Any, Any]", limit: str) -> dict[str, Any]:
    found: dict[str, Any] = {EAGER: limit}
    for (name, value), change in zip(start.items(), x, strict=True):
        value *= math.exp(change)
        found[name] = f"{round(value / 1e6)} MB/s" if name.endswith("bandwidth") else f"{round(value * 1e12)} ps"
    return found


def _text(machine: Machine, name: str) -> str:
    """A constant of a machine; "0 " where its kind of NIC has none."""
    try:
        return str(machine[name])
    except KeyError:
        return "0 (not of this machine)"


def _number(name: str, text: str) -> float:
    number, _, unit = text.partition(" ")
    if unit not in _UNITS or float(number) <= 0:
        raise NarrowsError(f"{name} is {text}: a time or a rate above 0 can be fitted")
    return float(number) * _UNITS[unit]


def _eager_limit(model: _Model, log_measured: "numpy.ndarray[Any, Any]", limit: str) -> str:
    """The eager limit by its step: with which one the curves bend at the sizes where those of the machine bend."""
    import numpy

    kinds = {(point.file, point.kind) for point in model._points}
    indices = [[at for at, point in enumerate(model._points) if (point.file, point.kind) == kind] for kind in sorted(kinds)]
    sizes = sorted({point.bytes for point in model._points if 256 <= point.bytes <= 256 << 10})

    def bends(values: "numpy.ndarray[Any, Any]") -> "numpy.ndarray[Any, Any]":
        return numpy.concatenate([numpy.diff(values[of], 2) for of in indices])

    measured = bends(log_measured)
    best = (math.inf, limit)
    for text in dict.fromkeys([limit, *(f"{size} B" for size in sizes)]):
        try:
            apart = float(numpy.sum((bends(model.log_values({EAGER: text})) - measured) ** 2))
        except NarrowsError:
            # Below the machine's limit of messages that are copied at once.
            continue
        # The machine's own where others are no better.
        best = min(best, (apart * (0.999 if text == limit else 1.0), text))
    return best[1]


def _separate(names: list[str], jacobian: Any, noise: float) -> tuple[list[float], list[list[str]]]:
    """Standard errors, and groups of constants: a constant alone of which the data say nothing, several that cannot be
    told apart.

    Along a direction in which the weighted errors hardly change (a small singular value) constants may move together;
    those with a part in such directions are not told apart.
    """
    import numpy

    # Twice or half as much, and nothing would be seen.
    silent = numpy.linalg.norm(jacobian, axis=0) * math.log(2) < noise
    spoken = [index for index in range(len(names)) if not silent[index]]
    _, strengths, directions = numpy.linalg.svd(jacobian[:, spoken], full_matrices=False)
    lengths = noise / numpy.maximum(strengths, 1e-12)
    errors = [math.inf] * len(names)
    for place, index in enumerate(spoken):
        errors[index] = float(numpy.linalg.norm(directions[:, place] * lengths))
    groups: list[set[int]] = [{index} for index in range(len(names)) if silent[index]]
    for direction, length in zip(directions, lengths, strict=True):
        parts = zip(spoken, direction, strict=True)
        together = {index for index, part in parts if errors[index] > TOLERANCE and abs(part) * length > TOLERANCE / 2}
        if together:
            joined = [group for group in groups if group & together]
            groups = [group for group in groups if not group & together] + [together.union(*joined)]
    return errors, [[names[index] for index in sorted(group)] for group in groups]
