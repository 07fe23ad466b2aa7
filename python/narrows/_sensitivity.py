"""Sensitivity: which keys of a machine a result depends on, and by how much.

Each key is changed a little, and the study runs once more. What has an effect is then changed by a factor of two. The
points are those of a sweep: they run in parallel, and what is finished is kept.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narrows._machine import Machine, as_machine
from narrows._native import NarrowsError
from narrows._optimise import _quantity, _text
from narrows._progress import Progress
from narrows._studies import PathText, Where, record, replay
from narrows._sweep import Study, _plain

# What no message meets, or what says how large the machine is.
_OTHER_SECTIONS = {"machine", "topology", "power", "ip", "storage", "phy"}
_SIZES_OF_MACHINES = {"node.count", "node.cores", "node.rails", "network.virtual_channels", "switch.radix"}
_TIMES = {"s", "ms", "us", "ns", "ps"}
# Below this share of the result a key has no effect. Our own choice: what other keys round away is less.
_LEAST = 0.0005
# Keys that are changed by a factor of two. Our own choice.
_DOUBLED = 16


@dataclass(frozen=True)
class Effect:
    """What one key does to the result."""

    key: str
    value: Any
    """The machine's."""
    nudged: Any
    """The value that was tried."""
    change: float
    """Of the result, relative: -0.02 is 2 % less."""
    elasticity: float
    """Relative change of the result over relative change of the key (of their logarithms). A key to which a share of the
    time is proportional has this share; a rate has it with a minus."""
    better: Any = None
    """Half or twice the value, whichever the small change says is better; None where that was not tried."""
    better_change: float | None = None
    """Of the result, with that value."""

    @property
    def strength(self) -> tuple[bool, float, float, str]:
        """Sorts the strongest first: by a factor of two, which says more than a small change where another key is near to
        binding, too."""
        return self.better_change is None, -abs(self.better_change or 0), -abs(self.elasticity), self.key


@dataclass(frozen=True)
class Sensitivity:
    """What :func:`sensitivity` has found."""

    machine: Machine
    objective: str
    base: float
    """The result on the machine as it is."""
    effects: list[Effect]
    """Of keys that have one; the strongest first."""
    without: list[str]
    """Keys without effect."""
    left_out: dict[str, str]
    """Keys whose other value makes no machine or no result, and why."""
    step: float

    @property
    def shares(self) -> float:
        """Sum of the shares of times and rates. Where all times of the machine get shorter by a part, the result does, too:
        so this is 1, but for what is not linear within the step, and for keys that were not asked for."""
        units = [(one, _unit(one.value)) for one in self.effects]
        return sum(one.elasticity for one, unit in units if unit in _TIMES) - sum(
            one.elasticity for one, unit in units if unit.endswith("/s") or one.key.endswith(".speed")
        )

    @property
    def text(self) -> str:
        """A table, and what it says in a sentence."""
        lines = [f"{self._what} {self._shown(self.base)} on {self.machine.name}; each key changed by {100 * self.step:g} %", ""]
        rows = [("key", "value", "twice as good", "effect of it", f"changed by {100 * self.step:g} %", f"effect of {100 * self.step:g} %")]
        for one in self.effects:
            doubled = ("", "") if one.better_change is None else (str(one.better), _percent(one.better_change))
            rows.append((one.key, str(one.value), *doubled, str(one.nudged), _percent(one.change)))
        widths = [max(len(row[column]) for row in rows) for column in range(6)]
        for row in rows if self.effects else []:
            cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
            lines.append("  ".join(cells).rstrip())
        lines += ["", self.verdict] if self.effects else [self.verdict]
        lines += [f"{len(self.without)} keys have no effect."] if self.without else []
        for key, why in self.left_out.items():
            lines.append(f"{key} was not changed: {'the new value ' if why.startswith('is ') else ''}{why}")
        return "\n".join(lines) + "\n"

    @property
    def verdict(self) -> str:
        """What binds, in a sentence."""
        what = self._what
        if not self.effects:
            return f"No key has an effect: the {what} does not depend on what was changed."
        first = self.effects[0]
        change = first.change if first.better_change is None else first.better_change
        value = first.nudged if first.better_change is None else first.better
        said = f"{first.key} matters most: {value} in place of {first.value} makes the {what} {100 * abs(change):.1f} % "
        said += "less." if change < 0 else "more."
        links = [key for key in self.without if key.startswith("link.") and key.endswith(".bandwidth")]
        if links and not any(one.key.startswith("link.") and one.key.endswith(".bandwidth") for one in self.effects):
            said += " Faster links change nothing."
        return said

    @property
    def _what(self) -> str:
        return {"simulated_s": "simulated time", "latency_mean_ns": "mean latency"}.get(self.objective, self.objective)

    def _shown(self, value: float) -> str:
        value *= {"simulated_s": 1.0, "latency_mean_ns": 1e-9}.get(self.objective, 0.0)
        if value == 0:
            return f"{self.base:.6g}"
        for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
            if value >= factor:
                return f"{value / factor:.4g} {unit}"
        return f"{value * 1e9:.4g} ns"

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        effects = [{name: getattr(one, name) for name in Effect.__dataclass_fields__} for one in self.effects]
        about = {"machine": self.machine.name, "objective": self.objective, "base": self.base, "step": self.step}
        return {
            **about,
            "shares": self.shares,
            "effects": effects,
            "without_effect": self.without,
            "left_out": self.left_out,
            "verdict": self.verdict,
        }

    def __repr__(self) -> str:
        return f"<Sensitivity of {self.objective}: {len(self.effects)} keys have an effect, {len(self.without)} have none>"


def sensitivity(
    function: Callable[..., Any],
    *fixed: Any,
    machine: Where = "bxi-v2",
    keys: Sequence[str] | None = None,
    step: float = 0.1,
    objective: str | None = None,
    out: PathText = "narrows-sensitivity",
    progress: bool | Progress | None = None,
    **named: Any,
) -> Sensitivity:
    """Which keys of a machine a study depends on: each is changed a little, and the study runs again.

    function, ``fixed``, ``named``: as of :func:`sweep`: :func:`replay` and a trace, :func:`traffic` and a pattern, or a
    function of yours that takes a machine. Use :func:`record` first for a program: then computing times are the same
    each time.
    keys: these ones, or sections ("node.pcie"); None: all numbers that the machine uses, but for its size.
    step: times get shorter by this part, rates higher, all else larger; the other way where the machine refuses that.
    objective: a column of the function's rows: "simulated_s", for traffic "latency_mean_ns".
    out: the folder that keeps finished points, as of a sweep: the same call goes on where an earlier one was ended.

    The sixteen keys with most effect are halved or doubled too, whichever is better, and sorted by that: a key that
    another one is about to take over from has an effect of a small change, and none of a large one.

    Raises NarrowsError for an unknown key or column, and where the study fails on the machine as it is.

        >>> found = sensitivity(traffic, "shift:1", machine=machine("bxi-v2", nodes=4), keys=["link.host"], load=0.2)
        >>> [one.key for one in found.effects]
        ['link.host.latency']
    """
    if not 0 < step < 1:
        raise NarrowsError(f"step = {step}: expected a part of a value between 0 and 1, such as 0.1")
    base = as_machine(machine)
    objective = objective or ("latency_mean_ns" if function.__name__ == "traffic" else "simulated_s")
    found = list(_keys(base, keys))
    nudged = {key: _nudged(base, key, value, step) for key, value in found}

    def results(points: list[dict[str, Any]]) -> list[float | str]:
        """Of each point, the objective, or why there is none."""
        study = Study(function, fixed, {**named, "machine": base}, points, Path(out))
        rows = study.run(progress=progress).to_rows()
        return [_objective([row for row in rows if row["point"] == number], objective) for number in range(len(points))]

    tried = {key: value for key, value in nudged.items() if value is not None}
    first, *others = results([{}, *({key: value} for key, value in tried.items())])
    if isinstance(first, str):
        raise NarrowsError(f"on the machine as it is: {first}")
    if first <= 0:
        raise NarrowsError(f"{objective} is {first:g} on the machine as it is: nothing can be said of its changes")
    values = dict(found)
    effects, without, left_out = [], [], {}
    for (key, value), result in zip(tried.items(), others, strict=True):
        if isinstance(result, str) or result <= 0:
            left_out[key] = str(result).split("\n")[0].replace("`", "").removeprefix(f"{key} ")
            continue
        elasticity = math.log(result / first) / math.log(_number(value) / _number(values[key]))
        if abs(elasticity) < _LEAST:
            without.append(key)
        else:
            effects.append(Effect(key, values[key], value, result / first - 1, elasticity))
    effects.sort(key=lambda one: (-abs(one.elasticity), one.key))
    doubled = [(one, _scaled(base, one.key, one.value, 0.5 if one.elasticity > 0 else 2.0)) for one in effects[:_DOUBLED]]
    for index, ((one, value), result) in enumerate(zip(doubled, results([{one.key: value} for one, value in doubled]), strict=True)):
        if not isinstance(result, str):
            effects[index] = Effect(**{**one.__dict__, "better": value, "better_change": result / first - 1})
    effects.sort(key=lambda one: one.strength)
    return Sensitivity(base, objective, first, effects, without, left_out, step)


def recorded(program: Sequence[PathText], *, ranks: int, machine: Machine, compute: str, out: Path, quiet: bool, **named: Any) -> Path:
    """A program's trace in the folder ``out``, made on the machine; that of an earlier call if it was the same."""
    trace, about = out / "program.jsonl", out / "program.json"
    words = {"program": [_plain(word) for word in program], "ranks": ranks, "compute": compute, "machine": _plain(machine)}
    words |= {name: _plain(value) for name, value in named.items()}
    try:
        if trace.exists() and json.loads(about.read_text()) == words:
            return trace
    except (OSError, ValueError):
        pass
    out.mkdir(parents=True, exist_ok=True)
    about.unlink(missing_ok=True)
    record(program, trace, ranks=ranks, machine=machine, compute=compute, quiet=quiet, **named)
    about.write_text(json.dumps(words))
    return trace


def of_program(
    program: Sequence[PathText],
    *,
    ranks: int,
    machine: Where = "bxi-v2",
    ppn: int | None = None,
    compute: str = "measured",
    out: PathText = "narrows-sensitivity",
    quiet: bool = False,
    **named: Any,
) -> Sensitivity:
    """:func:`sensitivity` of an MPI program: it runs once, on the machine as it is, and its trace is replayed."""
    trace = recorded(program, ranks=ranks, machine=as_machine(machine), compute=compute, out=Path(out), quiet=quiet, ppn=ppn)
    return sensitivity(replay, trace, machine=machine, ppn=ppn, out=out, **named)


def _keys(machine: Machine, asked: Sequence[str] | None) -> Iterator[tuple[str, Any]]:
    """The keys to change, with their values."""
    config = machine.config
    numbers = list(_leaves(config, ""))
    if asked is None:
        yield from ((key, value) for key, value in numbers if _takes_part(config, key))
        return
    for name in asked:
        own = [(key, value) for key, value in numbers if key == name or key.startswith(f"{name}.")]
        if not own:
            raise NarrowsError(f"{name}: no key of this machine with a number above 0, and no section with one (narrows machine show)")
        yield from own


def _leaves(section: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for name, value in section.items():
        key = f"{path}.{name}" if path else name
        if isinstance(value, Mapping):
            yield from _leaves(value, key)
        elif not isinstance(value, bool) and isinstance(value, str | int | float) and _number(value) > 0:
            yield key, value


def _takes_part(config: Mapping[str, Any], key: str) -> bool:
    """Something of the machine uses it."""
    parts = key.split(".")
    if parts[0] in _OTHER_SECTIONS or key in _SIZES_OF_MACHINES or parts[:2] == ["nic", "limits"]:
        return False
    if parts[:2] == ["nic", "spin"]:
        return bool(config["nic"]["spin"]["rules"])
    if parts[0] == "network" and len(parts) > 2:
        network = config["network"]
        chosen = {str(value).replace("-", "") for value in network.values() if isinstance(value, str)}
        return parts[1] in chosen or (parts[1] == "reliability" and network.get("delivery", network[parts[1]].get("delivery")) != "none")
    return True


def _number(value: Any) -> float:
    return _quantity(value)[0] if isinstance(value, str) else float(value)


def _unit(value: Any) -> str:
    return _quantity(value)[1] if isinstance(value, str) else ""


def _scaled(machine: Machine, key: str, value: Any, factor: float) -> Any:
    """A value of the same kind. Where only whole numbers make a machine, it changes by one at least."""
    if isinstance(value, str):
        number, unit = _quantity(value)
        return _text(number * factor, unit)
    scaled = value * factor
    if isinstance(value, float):
        return scaled
    if scaled == round(scaled):
        return round(scaled)
    if _accepts(machine, key, scaled):
        return scaled
    return max(round(scaled), value + 1) if factor > 1 else max(min(round(scaled), value - 1), 1)


def _accepts(machine: Machine, key: str, value: Any) -> bool:
    try:
        machine.set(key, value)
    except NarrowsError:
        return False
    return True


def _nudged(machine: Machine, key: str, value: Any, step: float) -> Any:
    """Times shorter, all else larger; the other way where the machine refuses that. None where it is the value itself."""
    factors = (1 - step, 1 + step) if _unit(value) in _TIMES else (1 + step, 1 - step)
    changed = [_scaled(machine, key, value, factor) for factor in factors]
    changed = [one for one in changed if _number(one) != _number(value) and _number(one) > 0]
    accepted = (one for one in changed if _accepts(machine, key, one))
    # What is refused either way is left to the study, which says why.
    return next(accepted, changed[0] if changed else None)


def _objective(rows: list[dict[str, Any]], name: str) -> float | str:
    if not rows or rows[0]["status"] != "done":
        return str(rows[0]["error"]) if rows else "it was not run"
    value = max((row.get(name) for row in rows), key=lambda one: one if isinstance(one, int | float) else -math.inf)
    if not isinstance(value, int | float) or math.isnan(value):
        return f"{name} is no number here; the columns are {', '.join(rows[0])}"
    return float(value)


def _percent(change: float) -> str:
    return f"{100 * change:+.1f} %" if abs(change) >= 0.0005 else f"{100 * change:+.2f} %"


__all__ = ["Effect", "Sensitivity", "sensitivity"]
