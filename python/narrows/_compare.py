"""Two machines, or two results, side by side."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from narrows._machine import Machine, as_machine, quantity
from narrows._native import NarrowsError
from narrows._results import Result, Table, load

# Numbers of a result that depend on the computer and on the moment, not on what was simulated.
_OF_THIS_COMPUTER = {"wall_s", "reading_s", "replay_s", "peak_rss_bytes", "messages_per_s", "events_per_s", "command", "windows"} | {
    "compute_alike",
    "compute_spread",
    "compute_instructions",
    "may_not_repeat",
}


# Characters of a line of text at most.
WIDTH = 100


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` has found."""

    table: Table
    """``key``, ``a``, ``b`` (texts), ``ratio`` (b / a, of numbers other than 0)."""
    names: tuple[str, str]
    """What the two are called."""
    equal: int
    """Keys with the same value in both; the table has them where it was asked for all."""

    @property
    def text(self) -> str:
        """The table with aligned columns, 100 characters wide at most: what is longer goes on in the next line."""
        rows = self.table.to_rows()
        if not rows:
            return f"no difference in {self.equal} values\n"
        cells = [("", "A", "B", "B / A")]
        cells += [(row["key"], row["a"], row["b"], "" if row["ratio"] is None else f"{row['ratio']:.4g}") for row in rows]
        widths = _widths([max(len(row[column]) for row in cells) for column in range(4)])
        lines = [f"{letter} = {name}" for letter, name in zip("AB", self.names, strict=True)]
        for row in cells:
            parts = [_broken(cell, width) for cell, width in zip(row, widths, strict=True)]
            for part in zip_longest(*parts, fillvalue=""):
                key, *values = part
                columns = zip(values, widths[1:], strict=True)
                lines.append(f"{key:{widths[0]}}  {'  '.join(f'{value:>{width}}' for value, width in columns)}".rstrip())
        differences = sum(row["a"] != row["b"] for row in rows)
        lines.append(f"{differences} differences, {self.equal} equal")
        return "\n".join(lines) + "\n"

    def report(self, path: str | os.PathLike[str], title: str | None = None) -> Path:
        """Writes one HTML page with the table."""
        from narrows import _native
        from narrows._report import columns

        named = title or f"{self.names[0]} and {self.names[1]}"
        notes = [f"A is {self.names[0]}, B is {self.names[1]}. {len(self.table)} rows; {self.equal} values are the same in both."]
        page = Path(path)
        page.write_text(_native.study_page(f"Comparison: {named}", notes, [], [], columns(self.table), ""))
        return page

    def __repr__(self) -> str:
        return f"<Comparison of {self.names[0]} and {self.names[1]}: {len(self.table)} rows>"


def _widths(wanted: list[int]) -> list[int]:
    """Of the columns: the widest get narrower until all fit."""
    widths = list(wanted)
    while sum(widths) + 2 * (len(widths) - 1) > WIDTH:
        widest = max(range(len(widths)), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def _broken(text: str, width: int) -> list[str]:
    """A text in lines of this width, broken between words and parts of keys where that is possible."""
    lines = []
    while len(text) > width:
        place = max(text.rfind(mark, 0, width) for mark in (" ", ".", "/", ","))
        place = width if place < width // 2 else place + 1
        lines.append(text[:place].rstrip())
        text = text[place:].lstrip()
    return [*lines, text]


def compare(
    a: "Machine | Result | str | os.PathLike[str]", b: "Machine | Result | str | os.PathLike[str]", *, all: bool = False
) -> Comparison:
    """Two machines key by key, or two results number by number.

    a, b: machines (presets, machine files), or results (folders that ``--out`` has written). What a result says of the
    computer that has simulated it is left out. Lists of numbers (a value for each rank) are not compared.
    all: shows what is equal too.

    Raises NarrowsError where there is no such machine or result, and where one of each is given.

        >>> found = compare("bxi-v2", machine("bxi-v2").set("link.host.bandwidth", "22.2 GB/s"))
        >>> found.table["key"], found.table["ratio"]
        (['link.host.bandwidth'], [2.0])
    """
    import pyarrow

    first, second = _given(a), _given(b)
    if isinstance(first, Result) != isinstance(second, Result):
        raise NarrowsError("expected two machines or two results, found one of each")
    values = [dict(_flat(one.summary if isinstance(one, Result) else one.config)) for one in (first, second)]
    rows, equal = [], 0
    for key in dict.fromkeys([*values[0], *values[1]]):
        left, right = values[0].get(key), values[1].get(key)
        equal += left == right
        if left != right or all:
            rows.append({"key": key, "a": _shown(left), "b": _shown(right), "ratio": _ratio(left, right)})
    fields = [("key", pyarrow.string()), ("a", pyarrow.string()), ("b", pyarrow.string()), ("ratio", pyarrow.float64())]
    names = _name(a, first), _name(b, second)
    return Comparison(Table(pyarrow.Table.from_pylist(rows, pyarrow.schema(fields))), names, equal)


def _given(value: Any) -> Machine | Result:
    if isinstance(value, Machine | Result):
        return value
    return load(value) if Path(value).is_dir() else as_machine(value)


def _name(given: Any, value: Machine | Result) -> str:
    if isinstance(given, str | os.PathLike):
        return os.fspath(given)
    return value.name if isinstance(value, Machine) else value.kind


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Names with dots between them; parts of a list by their number."""
    if isinstance(value, dict):
        for name, one in value.items():
            if prefix or name not in _OF_THIS_COMPUTER:
                yield from _flat(one, f"{prefix}.{name}" if prefix else name)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            if isinstance(one, dict):
                yield from _flat(one, f"{prefix}.{number}")
        if value and not any(isinstance(one, int | float | dict) for one in value):
            yield prefix, ", ".join(map(str, value))
    else:
        yield prefix, value


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str):
        try:
            return quantity(value)
        except ValueError:
            return None
    return None


def _ratio(a: Any, b: Any) -> float | None:
    first, second = _number(a), _number(b)
    return second / first if first and second is not None else None
