"""One HTML page of a result or a sweep. What makes the page is the same as for the command line (`crates/study`,
`report`); this gathers what it is made of.
"""

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows import _native

if TYPE_CHECKING:
    from narrows._results import Result, Table
    from narrows._sweep import Study

# Pictures of a sweep at most, and curves of one.
_PICTURES, _CURVES = 6, 7
# Columns of a sweep's table that say nothing of what was simulated.
_OF_SWEEP = {"point", "status", "error", "seed", "digest", "wall_s", "exit_code", "saturated", "partial", "steady", "too_short"}


def of_result(result: "Result", path: str | os.PathLike[str], title: str | None) -> Path:
    page = _native.result_page(
        result.kind,
        title,
        json.dumps(result.summary),
        tables(result.tables),
        list(result.pictures.items()),
        result.text,
        _command(result),
    )
    return _write(path, page)


def of_study(study: "Study", path: str | os.PathLike[str], title: str | None) -> Path:
    done = len(study.points) - len(study.failures)
    notes = [f"{len(study.points)} points, {done} of them done, {len(study.failures)} failed."]
    alarms = [f"{', '.join(f'{name} {value}' for name, value in point.items())}: {text}" for point, text in study.failures]
    curves = _curves(study)
    page = _native.study_page(title or f"Sweep: {study.function_name}", notes, alarms, curves, columns(study.table), "")
    return _write(path, page)


def tables(named: Mapping[str, "Table"]) -> list[tuple[str, list[tuple[str, list[Any]]]]]:
    """Tables as the library takes them."""
    return [(name, columns(table)) for name, table in named.items()]


def columns(table: "Table") -> list[tuple[str, list[Any]]]:
    arrow = table.to_arrow()
    return [(name, _values(column.to_pylist())) for name, column in zip(arrow.column_names, arrow.columns, strict=True)]


def _values(values: list[Any]) -> list[Any]:
    """Numbers and gaps, or texts."""
    if all(value is None or isinstance(value, bool | int | float) for value in values):
        return values
    return [None if value is None else str(value) for value in values]


def _curves(study: "Study") -> list[tuple[str, str, str, list[tuple[str, list[tuple[float, float | None]]]]]]:
    """Pictures of what comes out against what was changed: means over repeats, a curve for each value of the others."""
    rows = study.table.to_rows()
    changed = [name for name in dict.fromkeys(name for point in study.points for name in point) if name != "seed"]
    changed = [name for name in changed if len({str(row.get(name)) for row in rows}) > 1]
    along = next((name for name in changed if _numeric(row.get(name) for row in rows)), None)
    if along is None:
        return []
    others = [name for name in changed if name != along]
    outcomes = [name for name in study.table.columns if name not in {*changed, *_OF_SWEEP} and _numeric(row[name] for row in rows)]
    outcomes = [name for name in outcomes if len({row[name] for row in rows if row[name] is not None}) > 1]
    pictures = []
    for outcome in outcomes[:_PICTURES]:
        curves: dict[str, dict[float, list[float]]] = {}
        for row in rows:
            if row[outcome] is not None and row.get(along) is not None:
                name = ", ".join(f"{other.rpartition('.')[2]} {row.get(other)}" for other in others) or _words(outcome)
                curves.setdefault(name, {}).setdefault(row[along], []).append(row[outcome])
        drawn: list[tuple[str, list[tuple[float, float | None]]]] = [
            (name, [(float(place), sum(values) / len(values)) for place, values in sorted(points.items())])
            for name, points in list(curves.items())[:_CURVES]
        ]
        left_out = f" (the first {_CURVES} of {len(curves)} curves)" if len(curves) > _CURVES else ""
        pictures.append((f"{_words(outcome)} against {_words(along)}{left_out}", _words(along), _words(outcome), drawn))
    return pictures


def _numeric(values: Iterable[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in known)


def _words(name: str) -> str:
    """A column in words, with its unit."""
    for suffix, unit in (("_per_s", "per second"), ("_ns", "ns"), ("_us", "us"), ("_ms", "ms"), ("_s", "s"), ("_bytes", "bytes")):
        if name.endswith(suffix):
            return f"{name.removesuffix(suffix).replace('_', ' ')} ({unit})"
    return name.replace("_", " ")


def _command(result: "Result") -> str:
    """What gives the same result from a shell, where that is one command."""
    machine = result.summary.get("machine", {}).get("machine", {}).get("name")
    words: Sequence[Any]
    if result.kind == "analysis" and "trace" in result.summary:
        words = ["narrows", "analyse", result.summary["trace"], "--report", "out/"]
    elif machine is None or result.command is None:
        return ""
    else:
        words = result.command
    return shlex.join(str(word) for word in words)


def _write(path: str | os.PathLike[str], page: str) -> Path:
    path = Path(path)
    path.write_text(page)
    return path
