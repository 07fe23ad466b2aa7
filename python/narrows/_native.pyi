from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

__version__: str
NETWORKS: list[str]

class NarrowsError(Exception):
    """Why Narrows cannot do what it was asked to; the command line says the same."""

class NativeTable:
    @property
    def names(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...

class NativeOutcome:
    @property
    def summary(self) -> str: ...
    @property
    def tables(self) -> list[tuple[str, NativeTable]]: ...
    @property
    def failure(self) -> str | None: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def cpu_s(self) -> float: ...
    def text(self) -> str: ...
    def pictures(self) -> list[tuple[str, str]]: ...
    def save(self, folder: str | PathLike[str]) -> None: ...

_Machine = tuple[str, int | None, Sequence[str]]
_Progress = Callable[[str, float | None, str], None]

_Columns = list[tuple[str, list[Any]]]
_Tables = list[tuple[str, _Columns]]
_Curves = list[tuple[str, str, str, list[tuple[str, list[tuple[float, float | None]]]]]]

def result_page(
    kind: str, title: str | None, summary: str, tables: _Tables, pictures: list[tuple[str, str]], text: str, command: str
) -> str: ...
def study_page(title: str, notes: list[str], alarms: list[str], curves: _Curves, table: _Columns, command: str) -> str: ...
def critical_path(kind: str, summary: str, tables: _Tables) -> NativeTable: ...
def colours() -> tuple[list[str], list[tuple[str, str]]]: ...
def resolve(words: _Machine) -> tuple[str, str, list[str]]: ...
def presets() -> list[tuple[str, str]]: ...
def handlers_file(path: str | PathLike[str]) -> str: ...
def machine_keys() -> list[str]: ...
def traffic(
    machine: _Machine,
    pattern: str,
    *,
    fabric: str | None,
    file: str | PathLike[str] | None,
    load: str | None,
    injection: str | None,
    size: str | None,
    classes: Sequence[str],
    warmup: str | None,
    time: str | None,
    period: str | None,
    seed: int,
    threads: int,
    progress: _Progress | None,
) -> NativeOutcome: ...
def replay(
    machine: _Machine | None,
    traces: Sequence[str | PathLike[str]],
    *,
    loggp: str | None,
    ppn: int | None,
    mapping: str,
    compute_scale: Sequence[str],
    collectives: str | None,
    period: str | None,
    timeline: tuple[str | PathLike[str], str | None, str | None, int | None] | None,
    seed: int,
    threads: int,
    progress: _Progress | None,
) -> NativeOutcome: ...
