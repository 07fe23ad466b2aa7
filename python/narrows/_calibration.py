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

from narrows._extras import need
from narrows._machine import UNITS, Machine, as_machine, presets
from narrows._native import NarrowsError
from narrows._progress import Progress, shown
from narrows._results import Table
from narrows._studies import replay

if TYPE_CHECKING:
    import numpy

# What a ping-pong and a stream of messages depend on most, on the way of a message: software, PCIe, NIC, links. Where
# the data see only the sum of several, the last of them stay at the base's values: data sheets know those best.
CONSTANTS = (
    "software.post",
    "software.completion",
    "nic.tcp.message",
    "software.copy_bandwidth",
    "nic.tcp.rate",
    "link.host.bandwidth",
    "node.pcie.data_bandwidth",
    "node.pcie.latency",
    "nic.dma_latency",
    "nic.put_occupancy",
    "nic.get_occupancy",
    "nic.tcp.segment_time",
    "link.host.latency",
    "switch.latency",
)
LINK = "link.host.bandwidth"
EAGER, INJECT, RENDEZVOUS = "message.eager_limit", "message.inject_limit", "message.pscom.rendezvous"

# A constant is told when its standard error is at most this, all others being unknown.
TOLERANCE = 0.01
# Relative error that a model of so few constants has anyway, and what is assumed before the first fit.
MODEL_ERROR, FIRST_ERROR = 0.001, 0.03
# How far a constant may be from the base machine's: a factor, and a standard deviation in the logarithm. The latter
# weighs nothing beside the data; it keeps the constants of which the data say nothing where they were.
FARTHEST, PRIOR = 30.0, 3.0
# A constant is not determined when its standard error is larger (half as much again is within 95 %), and the base's
# value lies within two of them. Our own choice.
LOOSE, NEAR = 0.2, 2.0
# How many times its low end the high end of an interval may be before the command says that it is wide.
LOOSELY = 4.0
# Part of the confidence intervals.
CONFIDENCE = 0.95
# How much faster than the rate that the data tend to a fitted link may be, beside headers; from which size they do.
ABOVE_MEASURED, LONG = 1.01, 64 << 10
# By which factor the mean square of the errors may grow when constants are left at the base's values. Our own choice.
WORSE = 1.3
# Errors beyond which constants say nothing, so that none is told apart from the base's.
HOPELESS = 0.5
# A change of the protocol is found where it leaves so much less of the bends of the curves unexplained. Our own choice.
STEP_GAIN = 0.8
# Relative step of derivatives: well above the picosecond to which times are rounded.
STEP = 0.01
# The optimiser's steps are relative to the value, which therefore is the logarithm plus this: far from 0.
AWAY = 10.0

# osu_bw sends so many messages before it waits for an answer.
WINDOW = 64
# Beyond this size the last of those messages follow from the first, whose times grow in a line.
WHOLE_WINDOW_MAX = 256 << 10

# Bases beside the presets that are tried when another one is to be suggested: TCP over Ethernet, Gbit/s.
TCP_BASE, TCP_RATES = "example-cluster", (1, 10, 25, 100)

_UNITS = {unit: factor for unit, factor in UNITS.items() if unit.endswith("s")}


@dataclass(frozen=True)
class Constant:
    """A constant of the machine, before and after."""

    name: str
    base: str
    fitted: str
    """The base's value where the data do not determine it."""
    error: float
    """Relative standard error when all other constants are unknown too; infinite where the data say nothing."""
    low: float
    high: float
    """The 95 % confidence interval, in seconds or bytes per second, the constants that are not determined being as in
    the base; 0 and infinity for those."""
    why: str
    """Why the data do not determine it; empty where they do."""

    @property
    def determined(self) -> bool:
        """Whether it was fitted; otherwise it is the base's."""
        return not self.why

    @property
    def told(self) -> bool:
        """Whether the data determine it within 1 %, whatever the other constants are."""
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
    notes: list[str]
    """What else was found: changes of the protocol, constants that end at a bound and what that means."""
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
            if constant.determined:
                within = f"{_quantity(constant.name, constant.low)} to {_quantity(constant.name, constant.high)}"
                loosely = "  (loosely: the fit is worse without it)" if constant.high > LOOSELY * constant.low else ""
                lines.append(f"{constant.name:26} {constant.base:>14} -> {constant.fitted:>14}  {within}{loosely}")
            else:
                lines.append(f"{constant.name:26} {constant.base:>14}    not determined: {constant.why}")
        if any(constant.determined for constant in self.constants):
            lines.append("(after each fitted constant: its 95 % confidence interval, the others that are not determined as in the base)")
        lines += self.notes
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        count = sum(constant.determined for constant in self.constants)
        return f"<Calibration: {count} of {len(self.constants)} constants determined, held-back error {100 * self.error(True):.2f} %>"


def calibrate(
    base: Machine | str | os.PathLike[str],
    files: Sequence[str | os.PathLike[str]],
    *,
    constants: Sequence[str] | None = None,
    fix: Sequence[str] = (),
    eager_limit: bool = True,
    hold_back: int = 4,
    progress: bool | Progress | None = None,
) -> Calibration:
    """Fits constants of a machine to outputs of benchmarks between two nodes of one switch.

    base: the machine whose other constants are kept. files: outputs of osu_latency and osu_bw (OSU micro-benchmarks), of
    IMB-MPI1 (its PingPong), or of examples/pingpong.c; one of latency and one of bandwidth at least tell most.
    constants: keys of the machine, times and rates above 0 (those of software, PCIe, NIC and links on a message's way).
    fix: keys that keep the base's value (``"KEY"``) or get another one (``"KEY=VALUE"``).
    eager_limit: finds the size beyond which the protocol changes by the step of the curves there, and sets its key.
    hold_back: every so many-th size is not fitted, and shows how well the machine foretells what it has not seen.

    Constants that the data do not determine stay where the base has them. No link gets faster than the base's.

    Raises NarrowsError for a file that is none of these, a constant that is no time or rate, a key that does not exist,
    and a base with groups of nodes.
    """
    need("calibrate()", "numpy", "scipy")
    import numpy

    machine, kept = _fixed(as_machine(base), fix)
    if constants is None:
        # Those that this kind of NIC has, and that are not 0.
        constants = [name for name in CONSTANTS if not _text(machine, name).startswith("0 ")]
    start = {name: _number(name, _text(machine, name)) for name in constants if name not in kept}
    points = [point for path in files for point in _read(Path(path))]
    places: dict[str, int] = {}
    held = []
    for point in points:
        places[point.file] = places.get(point.file, -1) + 1
        held.append(places[point.file] % hold_back == hold_back // 2)
    fitted = numpy.array([not one for one in held])
    if fitted.sum() <= len(start):
        raise NarrowsError(f"{int(fitted.sum())} measured values are too few for {len(start)} constants: more files, or fewer constants")

    with tempfile.TemporaryDirectory(prefix="narrows-") as scratch, shown(progress) as told:
        model = _Model(machine, points, Path(scratch), told)
        limits: dict[str, str] = {}
        notes: list[str] = []
        if eager_limit and not kept & {EAGER, RENDEZVOUS}:
            limits, notes = _protocol_change(model, machine, kept)
        fit = _Fit(model, machine, start, limits, fitted)
        fit.search()
        values = fit.values(fit.x)
        listed, groups = fit.constants()
        notes += fit.at_bounds()

    errors = numpy.exp(values - model.log_measured) - 1
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

    return Calibration(machine.set(fit.settings(fit.x)), listed, groups, notes, Table(pyarrow.table(columns)))


def nearest_base(files: Sequence[str | os.PathLike[str]]) -> tuple[str, float]:
    """What comes nearest to measured values as it is: a preset, or TCP over Ethernet in words; the factor by which its
    values are off (root mean square)."""
    import numpy

    points = [point for path in files for point in _read(Path(path))]
    bases = {name: Machine(name) for name in presets()}
    for rate in TCP_RATES:
        words = f'TCP over Ethernet (base = "{TCP_BASE}", nic.kind = "tcp", link.host.bandwidth = "{rate} Gbit/s")'
        bases[words] = Machine(TCP_BASE).set({"nic.kind": "tcp", "link.host.bandwidth": f"{rate} Gbit/s"})
    off = {}
    with tempfile.TemporaryDirectory(prefix="narrows-") as scratch:
        for name, machine in bases.items():
            if not machine["machine.groups"]:
                model = _Model(machine, points, Path(scratch), None)
                off[name] = math.sqrt(float(numpy.mean((model.log_values({}) - model.log_measured) ** 2)))
    name = min(off, key=off.__getitem__)
    return name, math.exp(off[name])


def _fixed(machine: Machine, fix: Sequence[str]) -> tuple[Machine, set[str]]:
    """The machine with the values that are given, and the keys that are not to be fitted."""
    kept = set()
    for words in fix:
        key, given, value = (part.strip() for part in words.partition("="))
        try:
            machine[key]
        except KeyError:
            raise NarrowsError(f"fix: {key}: no key of this machine (`narrows machine show` prints them all)") from None
        if given:
            machine = machine.set(key, value)
        kept.add(key)
    return machine, kept


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
    def time_s(self) -> float:
        """Of one message."""
        return 1e-6 * (self.measured if self.kind == "latency" else self.bytes / self.measured)

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
        import numpy

        self.points, self._told, self._evaluations = points, told, 0
        self.log_measured = numpy.log([point.measured for point in points])
        self._traces: list[Path] = []
        for number, point in enumerate(points):
            # Two lengths of each: what the beginning takes falls out of their difference.
            for name, lines in zip(("short", "long"), self._programs(point), strict=True):
                path = folder / f"{number}-{name}.jsonl"
                head = {"narrows_trace": 1, "ranks": 2, "order": "sequential"}
                path.write_text("\n".join(map(json.dumps, [head, *lines])) + "\n")
                self._traces.append(path)
        nodes = 2 * len(self._traces)
        switch: dict[str, Any] = {
            "topology.kind": "single-switch",
            "switch.radix": nodes,
            "node.count": nodes,
            "network.routing": "minimal",
        }
        if machine["node.processors"]:
            # Hosts were measured; processors beside them would take ports of the switch.
            switch["node.processors"] = []
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
        for point, short, long in zip(self.points, ends[::2], ends[1::2], strict=True):
            if point.kind == "latency":
                values.append(1e6 * ((long - short) / 4 + (self._clock_read_s / 2 if point.reads_clock else 0.0)))
            elif point.bytes <= WHOLE_WINDOW_MAX:
                values.append(1e-6 * point.bytes * WINDOW / ((long - short) / 2))
            else:
                values.append(1e-6 * point.bytes * WINDOW / (long + (long - short) / 4 * (WINDOW - 8)))
        return numpy.log(values)


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


def _quantity(name: str, value: float) -> str:
    """A time to a picosecond, a rate to a MB/s."""
    if name.endswith(("bandwidth", "rate")):
        return f"{round(value / 1e6)} MB/s" if value < 1e9 else f"{round(value / 1e9, 3):.10g} GB/s"
    return f"{round(value * 1e9, 3):.10g} ns" if value < 1e-6 else f"{round(value * 1e6, 6):.10g} us"


def _bytes(text: str) -> int:
    number, _, unit = text.partition(" ")
    return round(float(number) * {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit])


def _protocol_change(model: _Model, machine: Machine, kept: set[str]) -> tuple[dict[str, str], list[str]]:
    """The longest eager message by its step: with which one the curves bend at the sizes where those of the machine
    bend. The keys that make the machine change its protocol there, and what the data say; nothing where the machine's
    own limit is as good."""
    import numpy

    kinds = {(point.file, point.kind) for point in model.points}
    indices = [[at for at, point in enumerate(model.points) if (point.file, point.kind) == kind] for kind in sorted(kinds)]
    sizes = sorted({point.bytes for point in model.points if 32 <= point.bytes <= 256 << 10})
    inject = _bytes(machine[INJECT])

    def limits(size: int) -> dict[str, str]:
        if machine["message.protocol"] == "pscom":
            return {RENDEZVOUS: f"{size + 1} B"}
        lowered = {INJECT: f"{size} B"} if size < inject else {}
        return {EAGER: f"{size} B", **lowered}

    def bends(values: "numpy.ndarray[Any, Any]") -> "numpy.ndarray[Any, Any]":
        return numpy.concatenate([numpy.diff(values[of], 2) for of in indices])

    def apart(settings: dict[str, str]) -> float:
        return float(numpy.sum((bends(model.log_values(settings)) - bends(model.log_measured)) ** 2))

    best: tuple[float, int, dict[str, str]] = (STEP_GAIN * apart({}), 0, {})
    for size in sizes:
        try:
            best = min(best, (apart(limits(size)), size, limits(size)), key=lambda found: found[0])
        except NarrowsError:
            # Beyond what this kind of NIC sends at once.
            continue
    _, size, found = best
    if INJECT in found and INJECT in kept:
        return {}, [f"the protocol changes beyond {size} B, which is below {INJECT} ({machine[INJECT]}): that is kept, and so is {EAGER}"]
    notes = []
    changed = {key: after for key, after in ((key, machine.set(found)[key]) for key in found) if after != machine[key]}
    if changed:
        keys = ", ".join(f"{key} = {after} (was {machine[key]})" for key, after in changed.items())
        jump = ""
        for at in (at for at, point in enumerate(model.points[:-1]) if point.kind == "latency" and point.bytes == size):
            here, there = model.points[at], model.points[at + 1]
            if here.file == there.file:
                jump = f": {here.measured:g} us at {here.bytes} B, {there.measured:g} us at {there.bytes} B"
        notes.append(f"the protocol changes beyond {size} B{jump}; set: {keys}")
    return found, notes


class _Fit:
    """Least squares of the logarithms of values, by the logarithms of constants relative to the base's."""

    def __init__(self, model: _Model, machine: Machine, start: dict[str, float], limits: dict[str, str], fitted: Any) -> None:
        import numpy

        self._model, self._machine, self._start, self._limits, self._fitted = model, machine, start, limits, fitted
        self._names = list(start)
        # What a printed number is rounded to, uniformly.
        self._rounded = numpy.array([point.rounded / math.sqrt(12) / point.measured for point in model.points])[fitted]
        # What one value is off by beyond that.
        self._sigma = FIRST_ERROR
        self._lowest = numpy.full(len(start), -math.log(FARTHEST))
        self._highest = numpy.array([math.log(self._faster(name)) for name in start])
        self.x = numpy.zeros(len(start))
        self.free = list(range(len(start)))
        self._errors: list[float] = []
        self._groups: list[list[str]] = []
        self._slower_elsewhere: set[int] = set()

    def _lanes(self, name: str) -> float:
        """Bytes per second that the base's lanes carry; infinite for what has none."""
        if name == "node.pcie.data_bandwidth":
            return max(self._start[name], _number(name, _text(self._machine, "node.pcie.bandwidth")))
        return self._start[name] if name.startswith("link.") and name.endswith(".bandwidth") else math.inf

    def _faster(self, name: str) -> float:
        """By which factor a constant may be above the base's: lanes are not faster than they are, and no fitted link is
        faster than what the data have shown."""
        most = self._lanes(name)
        if name == LINK:
            header, packet = (_bytes(self._machine[f"network.{key}"]) for key in ("header", "mtu"))
            most = min(most, ABOVE_MEASURED * self._asymptote() * (1 + header / packet))
        # Something is between the bounds.
        return max((1 + STEP) / FARTHEST, min(FARTHEST, most * (1 + 1e-9) / self._start[name]))

    def _asymptote(self) -> float:
        """Bytes per second that long messages tend to, by how much longer each next size takes; streams know it best."""
        rates: dict[str, list[float]] = {"bandwidth": [], "latency": []}
        for here, there in zip(self._model.points, self._model.points[1:], strict=False):
            longer = there.time_s - here.time_s
            if here.file == there.file and here.kind == there.kind and LONG <= here.bytes < there.bytes and longer > 0:
                rates[here.kind].append((there.bytes - here.bytes) / longer)
        return max(rates["bandwidth"] or rates["latency"], default=math.inf)

    def settings(self, x: Any) -> dict[str, Any]:
        """Keys of the machine."""
        changed = {name: _quantity(name, self._start[name] * math.exp(x[at])) for at, name in enumerate(self._names) if at in self.free}
        return {**self._limits, **changed}

    def values(self, x: Any) -> "numpy.ndarray[Any, Any]":
        """Logarithms of all values."""
        return self._model.log_values(self.settings(x))

    def _off(self, x: Any) -> Any:
        return (self.values(x) - self._model.log_measured)[self._fitted]

    def _weights(self) -> Any:
        import numpy

        return 1 / numpy.hypot(self._sigma, self._rounded)

    def _solve(self, evaluations: int) -> float:
        """Moves the free constants to the optimum; the sum of squares of weighted errors there."""
        import numpy
        from scipy.optimize import least_squares

        free, weights = self.free, self._weights()

        def whole(y: Any) -> Any:
            x = numpy.zeros(len(self._names))
            x[free] = y - AWAY
            return x

        def residuals(y: Any) -> Any:
            return numpy.concatenate([self._off(whole(y)) * weights, (y - AWAY) / PRIOR])

        if free:
            bounds = (AWAY + self._lowest[free], AWAY + self._highest[free])
            found = least_squares(
                residuals,
                numpy.clip(self.x[free] + AWAY, *bounds),
                bounds=bounds,
                diff_step=STEP / AWAY,
                x_scale=0.1,
                ftol=1e-3,
                max_nfev=evaluations,
            )
            self.x = whole(found.x)
        off = self._off(self.x)
        excess = off @ off / self._more_than(free) - float(numpy.mean(self._rounded**2))
        cost = float(((off * weights) ** 2).sum())
        self._sigma = math.sqrt(max(MODEL_ERROR**2, excess))
        return cost

    def _jacobian(self, columns: Sequence[int]) -> Any:
        """Derivatives of the weighted errors."""
        import numpy

        weights, here = self._weights(), self._off(self.x)
        free, derivatives = self.free, []
        self.free = list(range(len(self._names)))
        for at in columns:
            moved = self.x.copy()
            step = STEP if moved[at] + STEP <= self._highest[at] else -STEP
            moved[at] += step
            derivatives.append((self._off(moved) - here) * weights / step)
        self.free = free
        return numpy.array(derivatives).T.reshape(len(here), len(columns))

    def search(self) -> None:
        """The optimum, with the constants that the data do not determine at the base's values."""
        self._solve(8)
        self._solve(16)
        # Those that are free once more, or stay at the base's values whatever their column says.
        back: set[int] = set()
        if LINK in self._names and self.x[self._names.index(LINK)] < -STEP and self._sigma > MODEL_ERROR:
            self._slower_elsewhere = self._another_stage(self._names.index(LINK))
            back |= self._slower_elsewhere
        jacobian = self._jacobian(self.free)
        everything = jacobian if len(self.free) == len(self._names) else self._jacobian(range(len(self._names)))
        self._errors, self._groups = _separate(self._names, everything, 1.0)
        # Those without which the fit is worse.
        needed: set[int] = set()
        while self._sigma < HOPELESS:
            if dropped := self._undetermined(jacobian, needed | back):
                while not self._without(dropped):
                    if len(dropped) == 1:
                        needed.update(dropped)
                        break
                    dropped = dropped[: len(dropped) // 2]
                else:
                    jacobian = self._jacobian(self.free)
            elif found := self._determined_again(jacobian, back):
                back.update(found)
                self.free = sorted([*self.free, *found])
                self._solve(10)
                jacobian = self._jacobian(self.free)
            else:
                break

    def _another_stage(self, link: int) -> set[int]:
        """Looks whether another stage than the link explains the rate of long messages better: the link, which then stays
        at the base's value."""
        import numpy

        before, sigma = (self.free, self.x, self._sigma), self._sigma
        self.free = [at for at in self.free if at != link]
        self.x = numpy.zeros(len(self._names))
        self._solve(8)
        self._solve(8)
        if WORSE * self._sigma**2 > sigma**2:
            self.free, self.x, self._sigma = before
            return set()
        return {link}

    def _without(self, dropped: list[int]) -> bool:
        """Fits with these constants at the base's values; False, and nothing is changed, where that explains less."""
        before = self.free, self.x, self._sigma
        allowed = WORSE * max(1.0, self._cost() / self._more_than(self.free))
        self.free = [at for at in self.free if at not in dropped]
        self.x = self.x.copy()
        self.x[dropped] = 0.0
        if self._solve(10) / self._more_than(self.free) <= allowed:
            return True
        self.free, self.x, self._sigma = before
        return False

    def _determined_again(self, jacobian: Any, not_again: set[int]) -> list[int]:
        """A constant at the base's value that the data do determine, as others are there too."""
        import numpy

        for at in range(len(self._names)):
            if at in self.free or at in not_again:
                continue
            column = self._jacobian([at])[:, 0]
            rest = column - jacobian @ numpy.linalg.lstsq(jacobian, column, rcond=None)[0] if self.free else column
            if float(numpy.linalg.norm(rest)) * LOOSE > 1:
                return [at]
        return []

    def _more_than(self, free: list[int]) -> int:
        """How many values there are beyond those that free constants take up."""
        return max(1, int(self._fitted.sum()) - len(free))

    def _cost(self) -> float:
        return float(((self._off(self.x) * self._weights()) ** 2).sum())

    def _undetermined(self, jacobian: Any, needed: set[int]) -> list[int]:
        """Which of the free constants to leave at the base's values, by the Jacobian of those; none that is needed.

        One whose column says nothing: twice or half as much, and no value would change visibly. Then, one after the
        other, those whose standard error is large and whose estimate is near the base's: the others take over their part
        of a sum.
        """
        import numpy

        silent = numpy.linalg.norm(jacobian, axis=0) * math.log(2) < 1
        left = [place for place, at in enumerate(self.free) if at in needed or not silent[place]]
        dropped = [at for place, at in enumerate(self.free) if place not in left]
        x = self.x[self.free]
        while left:
            errors = _standard_errors(jacobian[:, left])
            unclear = [
                at
                for at, error in zip(left, errors, strict=True)
                if error > LOOSE and abs(x[at]) < NEAR * error and self.free[at] not in needed
            ]
            if not unclear:
                break
            last = unclear[-1]
            left.remove(last)
            dropped.append(self.free[last])
            x[left] += numpy.linalg.lstsq(jacobian[:, left], jacobian[:, last] * x[last], rcond=None)[0]
        return dropped

    def constants(self) -> tuple[list[Constant], list[list[str]]]:
        """All constants, and the groups of those that cannot be told apart."""
        from scipy import stats

        jacobian = self._jacobian(range(len(self._names)))
        free = self.free
        quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, self._more_than(free)))
        wide = dict(zip(free, quantile * _standard_errors(jacobian[:, free]), strict=True))
        found = self.settings(self.x)
        listed = []
        for at, name in enumerate(self._names):
            base = str(self._machine[name])
            if at in wide:
                low, high = (
                    self._start[name] * math.exp(min(max(self.x[at] + by, self._lowest[at]), self._highest[at]))
                    for by in (-wide[at], wide[at])
                )
                listed.append(Constant(name, base, found[name], self._errors[at], low, high, ""))
            else:
                listed.append(Constant(name, base, base, self._errors[at], 0.0, math.inf, self._why(at, jacobian)))
        return listed, self._groups

    def _why(self, at: int, jacobian: Any) -> str:
        """Why a constant is not determined."""
        import numpy

        if at in self._slower_elsewhere:
            return "another stage explains the rate of long messages better"
        column = jacobian[:, at]
        length = float(numpy.linalg.norm(column))
        if length * math.log(2) < 1:
            return "another stage is slower" if self._names[at].endswith(("bandwidth", "rate")) else "too short to show in these values"
        parts = numpy.linalg.lstsq(jacobian[:, self.free], column, rcond=None)[0] if self.free else numpy.zeros(0)
        with_others = [
            self._names[other]
            for other, part in zip(self.free, parts, strict=True)
            if abs(part) * float(numpy.linalg.norm(jacobian[:, other])) > 0.3 * length
        ]
        return f"these data see it only together with {', '.join(with_others)}" if with_others else "these data hardly show it"

    def at_bounds(self) -> list[str]:
        """Constants that end at a bound, and what that means."""
        import numpy

        notes, far = [], []
        off = self._off(self.x) * self._weights()
        for at, name in enumerate(self._names):
            up, down = self._highest[at] - self.x[at] < STEP, self.x[at] - self._lowest[at] < STEP
            if down or up and self._highest[at] == math.log(FARTHEST):
                far.append(f"{name} (a {FARTHEST:.0f}th of the base's)" if down else f"{name} ({FARTHEST:.0f} times the base's)")
            elif up and math.exp(self._highest[at]) * self._start[name] >= self._lanes(name):
                column = self._jacobian([at])[:, 0]
                # What the fit would gain beyond, by Gauss and Newton.
                if column @ off < 0 and (column @ off) ** 2 > NEAR**2 * float(numpy.sum(column**2)):
                    notes.append(
                        f"{name} ends at the base's lanes ({_quantity(name, self._lanes(name))}), and the data ask for more: start from a "
                        f"base with faster ones, or give the rate with --fix {name}=VALUE"
                    )
        if far:
            notes.append(f"at the bounds of what is tried: {', '.join(far)}: the data are of another kind of network or host than the base")
        return notes


def _standard_errors(jacobian: Any) -> Any:
    """Of constants, with what the fit itself assumes about them."""
    import numpy

    return numpy.sqrt(numpy.diag(numpy.linalg.inv(jacobian.T @ jacobian + numpy.eye(jacobian.shape[1]) / PRIOR**2)))


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
