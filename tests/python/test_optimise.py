"""Optimisation: optima that are known, the same search every time, and a front of several objectives."""

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

import narrows as nw

BYTES = 4 << 20
# What a byte per second costs, in seconds: the best rate is its square root below.
PRICE = BYTES / (4e9 * 4e9)


@pytest.fixture(scope="module")
def message(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of one long message."""
    path = tmp_path_factory.mktemp("traces") / "message.jsonl"
    lines: list[dict[str, Any]] = [
        {"narrows_trace": 1, "ranks": 2, "order": "sequential"},
        {"rank": 0, "op": "send", "to": 1, "bytes": BYTES, "tag": 0},
        {"rank": 1, "op": "recv", "from": 0, "bytes": BYTES, "tag": 0},
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return path


def rate(row: dict[str, Any]) -> float:
    return float(row["link.host.bandwidth"].removesuffix(" GB/s")) * 1e9


def cost(row: dict[str, Any]) -> float:
    """Time and price: a + bytes / rate + PRICE rate is least where rate = sqrt(bytes / PRICE) = 4 GB/s."""
    return float(row["finish_s"]) + PRICE * rate(row)


def search(message: Path, out: Path, **options: Any) -> nw.Optimisation:
    machine = nw.machine("bxi-v2", nodes=2, network="flow")
    space = {"link.host.bandwidth": ("1 GB/s", "10 GB/s")}
    return nw.optimise(nw.replay, message, machine=machine, space=space, out=out, **options)


def test_the_best_rate_is_the_closed_form(message: Path, tmp_path: Path) -> None:
    found = search(message, tmp_path, minimise=cost, trials=40)
    best = rate(found.best[0])
    # Headers take some per cent of the rate, so the best rate is a little higher; the cost is flat around it.
    assert abs(best / 4e9 - 1) < 0.15, found.best
    least = 2 * math.sqrt(BYTES * PRICE)
    assert found.best[0]["cost"] == pytest.approx(least, rel=0.03)
    assert len(found.study.points) == 40 and set(found.study.table["status"]) == {"done"}
    # The same seed tries the same points, and what is finished is not run again.
    began = (tmp_path / "journal.jsonl").read_text()
    again = search(message, tmp_path, minimise=cost, trials=40)
    assert again.study.points == found.study.points and again.best == found.best
    assert (tmp_path / "journal.jsonl").read_text() == began
    assert search(message, tmp_path, minimise=cost, trials=3, seed=2).study.points != found.study.points[:3]


def test_of_two_objectives_the_front(message: Path, tmp_path: Path) -> None:
    # A higher rate is faster and dearer: no point beats another one.
    found = search(message, tmp_path, minimise=["finish_s", rate], trials=12, together=4)
    assert found.objectives == ["finish_s", "rate"] and len(found.best) == len(found.study.points) == 12
    front = sorted(found.best, key=rate)
    assert all(a["finish_s"] > b["finish_s"] for a, b in zip(front, front[1:], strict=False))


def test_choices_numbers_and_failures(tmp_path: Path) -> None:
    def parabola(x: int, y: float, kind: str) -> float:
        if kind == "broken":
            raise ValueError("no such kind")
        return -((x - 7) ** 2) - (y - 0.5) ** 2

    space = {"x": (0, 20), "y": (0.0, 1.0), "kind": ["whole", "broken"]}
    found = nw.optimise(parabola, space=space, maximise="value", trials=60, out=tmp_path)
    assert found.best[0]["x"] == 7 and abs(found.best[0]["y"] - 0.5) < 0.2 and found.best[0]["kind"] == "whole"
    assert any("no such kind" in error for _, error in found.study.failures)

    def of_half(row: dict[str, Any]) -> float | None:
        return None if row["x"] < 10 else float(row["x"])

    found = nw.optimise(parabola, space={**space, "kind": ["whole"]}, minimise=of_half, trials=20, out=tmp_path)
    assert 10 <= found.best[0]["x"] < 17
    with pytest.raises(nw.NarrowsError, match="none of 3 points gives an answer.*no such kind"):
        nw.optimise(parabola, space={**space, "kind": ["broken"]}, maximise="value", trials=3, out=tmp_path)


def test_what_cannot_be_searched_is_said(message: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"space": {"load": (0.1, 0.5)}}, "what to minimise"),
        ({"space": {"nonsense": (1, 2)}, "minimise": "finish_s"}, "nonsense: neither an argument"),
        ({"space": {"link.host.bandwidth": ("1 GB/s", "9000 MB/s")}, "minimise": "finish_s"}, "the same unit"),
        ({"space": {"nodes": [2, 4]}, "minimise": "speed", "trials": 1}, "speed: no column with a number"),
    ]
    for options, text in wrong:
        with pytest.raises(nw.NarrowsError, match=text):
            nw.optimise(nw.replay, message, out=tmp_path, **options)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(nw.NarrowsError, match=r"optimise\(\) needs the Python package optuna: pip install .narrows\[optimise\]"):
        search(message, tmp_path, minimise="finish_s")
