"""What studies leave behind."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows._extras import need
from narrows._native import NarrowsError, NativeOutcome

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from narrows._plots import Plots


class NarrowsWarning(UserWarning):
    """Something to check before the results are trusted."""


class StudyFailed(NarrowsError):
    """A study came to an end that is not the one asked for: a deadlock, nothing measured, a program that failed.

    ``result`` is what there is nevertheless, ``exit_code`` the code that the command line ends with.
    """

    def __init__(self, text: str, result: "Result | None" = None, exit_code: int = 1) -> None:
        super().__init__(text)
        self.result = result
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[Any, ...]:
        return StudyFailed, (str(self), self.result, self.exit_code)


class Table:
    """Named columns. polars, pandas, pyarrow and DuckDB read it without a copy, through Arrow's C stream interface.

    ``table["accepted"]`` is a column as a list; a gap is None.
    """

    def __init__(self, source: Any) -> None:
        # A native table, or one of pyarrow: whatever speaks Arrow.
        self._source = source

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self._source.__arrow_c_stream__(requested_schema)

    @property
    def columns(self) -> list[str]:
        """Names of the columns; they end with the unit."""
        return list(getattr(self._source, "names", None) or self._source.column_names)

    def to_arrow(self) -> "pyarrow.Table":
        """As a table of pyarrow, without a copy."""
        import pyarrow

        return pyarrow.table(self._source)

    def to_polars(self) -> "polars.DataFrame":
        """As a data frame of polars (``pip install 'narrows[frames]'``)."""
        need("to_polars()", "polars")
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """As a data frame of pandas (``pip install 'narrows[frames]'``)."""
        need("to_pandas()", "pandas")
        return self.to_arrow().to_pandas()

    def to_rows(self) -> list[dict[str, Any]]:
        """As a list with a dictionary for each row."""
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

    def __getitem__(self, column: str) -> list[Any]:
        if column not in self.columns:
            raise KeyError(f"{column}: the columns are {', '.join(self.columns)}")
        values: list[Any] = self.to_arrow().column(column).to_pylist()
        return values

    def __len__(self) -> int:
        return len(self._source)

    def __reduce__(self) -> tuple[Any, ...]:
        return Table, (self.to_arrow(),)

    def __repr__(self) -> str:
        return f"<Table: {len(self)} rows of {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        import html

        def cell(value: Any) -> str:
            return "" if value is None else html.escape(f"{value:.6g}" if isinstance(value, float) else str(value))

        rows = self.to_arrow().slice(0, 20).to_pylist()
        body = "".join(f"<tr>{''.join(f'<td>{cell(value)}</td>' for value in row.values())}</tr>" for row in rows)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        more = f"<p>{len(self)} rows</p>" if len(self) > len(rows) else ""
        return f"<table><tr>{head}</tr>{body}</table>{more}"


# Tables that come only when they are asked for.
_OVER_TIME = {"series", "links", "queues", "hops", "rates"}


class Result:
    """What came out of a study.

    ``summary`` has all its numbers as summary.json has them, with SI units: ``simulated_s``, ``latency_ns``, ``bytes``.
    ``tables`` has its tables by name, the most important one first; ``result.queues`` is ``result.tables["queues"]``.
    docs/python.md lists tables and columns.
    """

    def __init__(
        self,
        kind: str,
        summary: Mapping[str, Any],
        tables: Mapping[str, Table],
        *,
        text: str = "",
        stdout: str = "",
        warnings: Sequence[str] = (),
        native: NativeOutcome | None = None,
        command: Sequence[str] | None = None,
        pictures: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = kind
        """ "traffic", "replay", "run" or "analysis"."""
        self.summary: dict[str, Any] = dict(summary)
        self.tables: dict[str, Table] = dict(tables)
        self.text = text
        """The lines that the command line prints."""
        self.stdout = stdout
        """What the program printed (``run``)."""
        self.warnings = list(warnings)
        """What to check before these results are trusted."""
        self.command = None if command is None else list(command)
        """The command line that gives the same, where there is one."""
        self._native = native
        self._pictures = None if pictures is None else dict(pictures)

    @property
    def simulated_s(self) -> float:
        """Simulated time, in seconds."""
        return float(self.summary["simulated_s"])

    @property
    def wall_s(self) -> float:
        """Wall time that the simulation took, in seconds."""
        return float(self.summary["wall_s"])

    @property
    def digest(self) -> str:
        """Of all events: two runs with the same digest are the same."""
        return str(self.summary["digest"])

    def __getattr__(self, name: str) -> Table:
        tables: dict[str, Table] = self.__dict__.get("tables", {})
        if name in tables:
            return tables[name]
        if name in _OVER_TIME:
            raise AttributeError(f'no table {name}: period="1us" in traffic() or replay() asks for what happens over time')
        raise AttributeError(f"no {name}; the tables are {', '.join(tables)}")

    def __dir__(self) -> Iterator[str]:
        return iter([*super().__dir__(), *self.tables])

    @property
    def plot(self) -> "Plots":
        """Pictures, by matplotlib: ``result.plot.latency()``."""
        need("plot", "matplotlib")
        from narrows._plots import Plots

        return Plots(self)

    @property
    def pictures(self) -> dict[str, str]:
        """The pictures of the command line, by name, as SVG: those that :meth:`report` has."""
        if self._pictures is None:
            self._pictures = {} if self._native is None else dict(self._native.pictures())
        return self._pictures

    def critical_path(self) -> Table:
        """What the end of a run or a replay had to wait for, back to its beginning: parts without a gap, in the order of
        time, of the kinds "computing", "MPI software" and "message" (from ``rank`` to ``to_rank``).

        Raises NarrowsError where there is no complete timeline (``timeline="FILE"`` of run() and replay()).
        """
        from narrows import _native
        from narrows._report import tables

        needed = {name: table for name, table in self.tables.items() if name in ("calls", "transfers")}
        return Table(_native.critical_path(self.kind, json.dumps(self.summary), tables(needed)))

    def otf2(self, folder: str | os.PathLike[str]) -> Path:
        """Writes the timeline as an OTF2 archive, for Vampir, Scalasca and their like: a location for each rank (another
        one for what overlaps), a region for each call or operation, and the puts, gets, atomics and replies of the NICs
        as messages of a communicator of their own, each with its own tag. Times are in picoseconds. Returns the anchor
        file, ``folder/traces.otf2``.

        Raises NarrowsError where there is no timeline (``timeline="FILE"`` of run() and replay()), where the folder is
        not empty, or where OTF2's package is missing (``pip install otf2``).
        """
        from narrows import _otf2

        return _otf2.write(self, folder)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Writes summary.json and the tables as Parquet files into a folder (with the resolved machine and the pictures
        of the command line, where this process has simulated it); :func:`load` reads it back.

        Raises NarrowsError where the folder cannot be written.
        """
        folder = Path(folder)
        if self._native is not None:
            self._native.save(folder)
            return folder
        import pyarrow.parquet

        folder.mkdir(parents=True, exist_ok=True)
        for name, table in self.tables.items():
            pyarrow.parquet.write_table(table.to_arrow(), folder / f"{name}.parquet")
        for name, picture in self.pictures.items():
            (folder / f"{name}.svg").write_text(picture)
        (folder / "summary.json").write_text(json.dumps(self.summary, indent=2) + "\n")
        return folder

    def report(self, path: str | os.PathLike[str], title: str | None = None) -> Path:
        """Writes one HTML page with everything in it: what was run, the numbers, the pictures, the machine. It is the page
        that ``--out`` of the command line writes."""
        from narrows import _report

        return _report.of_result(self, path, title)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_native": None, "_pictures": self.pictures}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        tables = ", ".join(f"{name} ({len(table)})" for name, table in self.tables.items())
        simulated = f"simulated {self.simulated_s * 1e6:.3f} us; " if "simulated_s" in self.summary else ""
        return f"<Result of {self.kind}: {simulated}tables: {tables}>"


def of_native(kind: str, native: NativeOutcome, command: Sequence[str]) -> Result:
    """What a study in this process gives; raises StudyFailed."""
    import warnings

    for text in native.warnings:
        warnings.warn(text, NarrowsWarning, stacklevel=3)
    tables = {name: Table(table) for name, table in native.tables}
    result = Result(kind, json.loads(native.summary), tables, text=native.text(), warnings=native.warnings, native=native, command=command)
    if native.failure is not None:
        raise StudyFailed(native.failure, result, int(result.summary["exit_code"]))
    return result


# The columns of the ranks of a live run.
_RANKS = [
    ("rank", "int64"),
    ("node", "int64"),
    ("processor", "string"),
    ("computing_s", "double"),
    ("mpi_s", "double"),
    ("waiting_s", "double"),
    ("finished_s", "double"),
    ("mpi_calls", "int64"),
]


def load(folder: str | os.PathLike[str]) -> Result:
    """The results that ``narrows run``, ``traffic`` or ``replay`` wrote with ``--out``, or :meth:`Result.save`.

    Raises NarrowsError where the folder has no summary.json.
    """
    import pyarrow
    import pyarrow.parquet

    folder = Path(folder)
    try:
        summary = json.loads((folder / "summary.json").read_text())
    except (OSError, ValueError) as error:
        raise NarrowsError(f"{folder / 'summary.json'}: {error}; expected a folder of narrows ... --out") from None
    marks = {"per_rank": "run", "applications": "replay", "points": "traffic"}
    kind = next((kind for mark, kind in marks.items() if mark in summary), "analysis")
    names = {path.stem for path in folder.glob("*.parquet")}
    tables = {}
    if kind == "run":
        schema = pyarrow.schema(_RANKS, metadata={"narrows.schema": str(summary["schema"])} if "schema" in summary else None)
        tables["ranks"] = Table(pyarrow.Table.from_pylist(summary["per_rank"], schema=schema))
    first = [name for name in ("points", "applications", "ranks") if name in names]
    for name in [*first, *sorted(names - set(first))]:
        tables[name] = Table(pyarrow.parquet.read_table(folder / f"{name}.parquet"))
    pictures = {path.stem: path.read_text() for path in sorted(folder.glob("*.svg"))}
    return Result(kind, summary, tables, pictures=pictures)
