"""Optimisation: which values of machine parameters and arguments are best, by Optuna.

Optuna's sampler proposes points; each runs as a point of a sweep, so finished points are kept and never run twice.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows._extras import need
from narrows._native import NarrowsError
from narrows._progress import Progress, shown
from narrows._sweep import Study, _check_name

if TYPE_CHECKING:
    import optuna

Objective = str | Callable[[dict[str, Any]], float | None]


@dataclass(frozen=True)
class Optimisation:
    """What :func:`optimise` has found."""

    study: Study
    """All points that were tried, as a sweep: ``study.table``, ``study.plot(...)``, ``study.report(...)``."""
    best: list[dict[str, Any]]
    """The point whose objective is best; of several objectives those points that no other one beats in all of them
    (the Pareto front). A point's values by name, then its objectives."""
    objectives: list[str]
    """Names of the objectives, as in ``best``."""
    optuna: "optuna.Study"
    """The study of Optuna: ``optuna.visualization`` takes it."""

    def __repr__(self) -> str:
        return f"<Optimisation of {', '.join(self.objectives)}: {len(self.study.points)} points, best {self.best}>"


def optimise(
    function: Callable[..., Any],
    *fixed: Any,
    space: Mapping[str, Any],
    minimise: Objective | Sequence[Objective] = (),
    maximise: Objective | Sequence[Objective] = (),
    trials: int = 50,
    seed: int = 1,
    together: int = 1,
    out: str | os.PathLike[str] = "narrows-optimisation",
    progress: bool | Progress | None = None,
    **named: Any,
) -> Optimisation:
    """Looks for the best point of a study; Optuna (``pip install 'narrows[optimise]'``) says where.

    function, ``fixed``, ``named``: as of :func:`sweep`.
    space: what may be changed: arguments of the function, and keys of its machine. A list has the values to choose from;
    a pair has the least and the greatest value: whole numbers, numbers, or quantities with one unit
    (``("100 Gbit/s", "400 Gbit/s")``), which are tried on a logarithmic scale.
    minimise, maximise: what is to be small or large: a column of the function's rows ("latency_mean_ns"), or a function
    of a dictionary with the values of the point and the columns of its row. Several objectives give a Pareto front.
    trials: points to try. seed: of the sampler; the same seed and ``together`` try the same points.
    together: so many points are proposed, and run on the cores of this computer, at a time.
    out: the folder that keeps finished points, as of a sweep.

    A point that fails, or has no value (None) for an objective, is no answer, and the search goes on. Raises NarrowsError
    where no point is an answer, for a name that is neither an argument nor a key, an objective that no row has, and
    without Optuna.
    """
    need("optimise()", "optuna")
    import optuna

    asked = [*_listed(minimise), *_listed(maximise)]
    directions = [optuna.study.StudyDirection.MINIMIZE for _ in _listed(minimise)]
    directions += [optuna.study.StudyDirection.MAXIMIZE for _ in _listed(maximise)]
    if not asked:
        raise NarrowsError("expected what to minimise or to maximise: a column of the table, or a function of a row")
    objectives = [one if isinstance(one, str) else one.__name__ for one in asked]
    for name in space:
        _check_name(name, function)
    ranges = {name: _range(name, values) for name, values in space.items()}

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        sampler = optuna.samplers.TPESampler(seed=seed)
        search = optuna.create_study(directions=directions, sampler=sampler)
        points: list[dict[str, Any]] = []
        last = None
        with shown(progress) as told:
            while len(points) < trials:
                batch = [search.ask() for _ in range(min(together, trials - len(points)))]
                proposed = [{name: ask(trial) for name, ask in ranges.items()} for trial in batch]
                points += proposed
                study = Study(function, fixed, named, proposed, Path(out))
                study.run(progress=False)
                rows = study.table.to_rows()
                for number, (trial, point) in enumerate(zip(batch, proposed, strict=True)):
                    own = [row for row in rows if row["point"] == number]
                    failed = next((row["error"] for row in own if row["status"] != "done"), None)
                    values = [] if failed else [_value(one, point, own) for one in asked]
                    known = [value for value in values if value is not None]
                    if len(known) < len(asked):
                        last = failed or f"{objectives[values.index(None)]} has no value at {point}"
                        search.tell(trial, state=optuna.trial.TrialState.FAIL)
                        continue
                    trial.set_user_attr("point", point)
                    search.tell(trial, known)
                if told is not None:
                    told(f"{len(points)} of {trials} points", len(points) / trials, "")
        found = [trial for trial in search.best_trials if trial.values is not None]
    except ValueError as error:
        raise NarrowsError(str(error)) from None
    finally:
        optuna.logging.set_verbosity(before)
    if not found:
        raise NarrowsError(f"none of {trials} points gives an answer; the last failure: {last}")
    best = [{**trial.user_attrs["point"], **dict(zip(objectives, trial.values, strict=True))} for trial in found]
    # One row for each point: what was proposed twice has been run once.
    unique = list({repr(point): point for point in points}.values())
    whole = Study(function, fixed, named, unique, Path(out))
    whole.run(progress=False)
    return Optimisation(whole, [dict(one) for one in {repr(one): one for one in best}.values()], objectives, search)


def _listed(given: Objective | Sequence[Objective]) -> list[Objective]:
    return [given] if isinstance(given, str) or callable(given) else list(given)


def _range(name: str, values: Any) -> "Callable[[optuna.Trial], Any]":
    """How a trial chooses a value."""
    if isinstance(values, list) and values:
        return lambda trial: trial.suggest_categorical(name, values)
    if isinstance(values, tuple) and len(values) == 2:
        low, high = values
        if isinstance(low, int) and isinstance(high, int) and low < high:
            return lambda trial: trial.suggest_int(name, low, high)
        if isinstance(low, int | float) and isinstance(high, int | float) and low < high:
            return lambda trial: trial.suggest_float(name, low, high)
        if isinstance(low, str) and isinstance(high, str):
            (least, unit), (greatest, other) = _quantity(low), _quantity(high)
            if unit and unit == other and 0 < least < greatest:
                return lambda trial: _text(trial.suggest_float(name, least, greatest, log=True), unit)
    raise NarrowsError(
        f"{name}: expected a list of values, or a pair, the smaller one first, of numbers or of quantities above 0 with the same unit; "
        f"found {values!r}"
    )


def _quantity(text: str) -> tuple[float, str]:
    number, _, unit = text.partition(" ")
    try:
        return float(number), unit
    except ValueError:
        return 0.0, ""


def _text(value: float, unit: str) -> str:
    # Bytes are whole numbers, times picoseconds, rates bytes per second: six digits are enough for each.
    return f"{value:.0f} {unit}" if unit == "B" else f"{float(f'{value:.6g}'):f}".rstrip("0").rstrip(".") + f" {unit}"


def _value(objective: Objective, point: dict[str, Any], rows: list[dict[str, Any]]) -> float | None:
    """None where there is none: the latency of a saturated network, for example."""
    if len(rows) != 1:
        raise NarrowsError(f"a point has {len(rows)} rows (classes, applications): give a function that returns one dictionary")
    row = {**point, **rows[0]}
    if isinstance(objective, str) and not isinstance(row.get(objective, ""), int | float | None):
        raise NarrowsError(f"{objective}: no column with a number; the columns are {', '.join(rows[0])}")
    value = row[objective] if isinstance(objective, str) else objective(row)
    return None if value is None or math.isnan(value) else float(value)
