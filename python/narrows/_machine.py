"""Machines."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from narrows import _native

Value = str | int | float | bool | Sequence[int] | Sequence[str]


class Machine:
    """A simulated machine: a preset or a machine file, and what is changed in it. It never changes itself.

    ``machine["nic.put_occupancy"]`` is the value of a key, a quantity as text with its unit. All keys stand in
    docs/machine-files.md.
    """

    def __init__(self, name: str | os.PathLike[str], nodes: int | None = None, changes: Sequence[str] = ()) -> None:
        self._words = (os.fspath(name), nodes, tuple(changes))
        self._toml, resolved, self._warnings = _native.resolve(self._words)
        self._config: dict[str, Any] = json.loads(resolved)

    @property
    def name(self) -> str:
        """The name that the machine gives itself."""
        return str(self["machine.name"])

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return int(self["node.count"])

    @property
    def config(self) -> dict[str, Any]:
        """Every key with its value, section by section."""
        copied: dict[str, Any] = json.loads(json.dumps(self._config))
        return copied

    @property
    def warnings(self) -> list[str]:
        """What to check before results on this machine are trusted; simulations say it too (NarrowsWarning)."""
        return list(self._warnings)

    def set(self, key: str | Mapping[str, Value], value: Value | None = None) -> "Machine":
        """The machine with another value for a key, or for several keys at once (a mapping).

        Raises NarrowsError where there is no such key, or its value does not fit.

            >>> machine("bxi-v2").set("link.host.bandwidth", "400 Gbit/s")["link.host.bandwidth"]
            '50 GB/s'
        """
        if isinstance(key, str):
            if value is None:
                raise TypeError("set() takes a key and its value, or a mapping of keys to values")
            key = {key: value}
        name, nodes, changes = self._words
        return Machine(name, nodes, (*changes, *(f"{path}={_text(value)}" for path, value in key.items())))

    def handlers(self, rules: str | os.PathLike[str]) -> "Machine":
        """The machine with the handlers of a file of rules on its NICs, as ``--handlers`` of the command line (docs/spin.md).

        Raises NarrowsError where the file has no rules, or its handlers do not fit.
        """
        name, nodes, changes = self._words
        return Machine(name, nodes, (*changes, _native.handlers_file(rules)))

    def to_toml(self) -> str:
        """A machine file with every key."""
        return self._toml

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes that file, for ``narrows run --machine PATH``. OSError names it where it cannot be written."""
        path = Path(path)
        try:
            path.write_text(self._toml)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None
        return path

    def __getitem__(self, key: str) -> Any:
        value: Any = self._config
        for part in key.split("."):
            if not isinstance(value, dict) or part not in value:
                raise KeyError(f"{key}: no key of a machine (docs/machine-files.md has them all)")
            value = value[part]
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Machine) and self._toml == other._toml

    def __hash__(self) -> int:
        return hash(self._toml)

    def __reduce__(self) -> tuple[Any, ...]:
        return Machine, self._words

    def __repr__(self) -> str:
        return f"<Machine {self.name}: {self.nodes} nodes, {self['topology.kind']}, {self['network.kind']} network>"


def machine(name: str | os.PathLike[str] = "bxi-v2", nodes: int | None = None, network: str | None = None) -> Machine:
    """A preset (:func:`presets`) or a machine file (docs/machine-files.md).

    nodes: instead of the machine's own number. network: "packet", "flow" or "loggp", instead of the machine's own.

    Raises NarrowsError where there is no such machine, or it has mistakes.

        >>> machine("bxi-v2", nodes=64)
        <Machine bxi-v2: 64 nodes, fat-tree, packet network>
    """
    found = Machine(name, nodes)
    return found if network is None else found.set("network.kind", network)


def as_machine(given: "Machine | str | os.PathLike[str]") -> Machine:
    """What a parameter ``machine`` takes."""
    return given if isinstance(given, Machine) else Machine(given)


def words(given: "Machine | str | os.PathLike[str]") -> tuple[str, int | None, Sequence[str]]:
    """Name, nodes and changes."""
    return as_machine(given)._words


# Units of machine files in terms of the first of their kind.
UNITS = (
    {"ps": 1e-12, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
    | {"B": 1.0, "KiB": 1024.0, "MiB": 1024.0**2, "GiB": 1024.0**3}
    | {"B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12}
)


def quantity(text: str) -> float:
    """A value of a machine, in seconds, bytes or bytes per second. Raises ValueError where it is no quantity."""
    number, _, unit = text.partition(" ")
    if unit not in UNITS:
        raise ValueError(f"{text}: no quantity")
    return float(number) * UNITS[unit]


def presets() -> dict[str, str]:
    """Names and descriptions of the machines that come with Narrows.

    >>> "bxi-v2" in presets()
    True
    """
    return dict(_native.presets())


def _text(value: Value) -> str:
    # Lists, texts and truth values are the same in JSON and in TOML.
    return json.dumps(list(value) if isinstance(value, tuple) else value)
