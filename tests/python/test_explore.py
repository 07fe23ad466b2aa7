"""Programs under many timings: the same report here and on workers of dask."""

from collections.abc import Callable
from pathlib import Path

import pytest

import narrows as nw

ROOT = Path(__file__).resolve().parent.parent.parent
Compile = Callable[[str, str], Path]


def test_each_sender_may_be_the_first(compiled: Compile, tmp_path: Path) -> None:
    race = compiled("race", (ROOT / "examples/wrong/race.c").read_text())
    explored = nw.explore([race], ranks=3, runs=8, out=tmp_path)
    assert [one["output"] for one in explored.classes] == [["first 1"], ["first 2"]] and not explored.is_clean
    assert "2 classes" in repr(explored) and Path(explored.classes[1]["file"]).exists()


def test_on_a_client_of_dask(compiled: Compile, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    program = compiled("head_to_head", (ROOT / "examples/wrong/head_to_head.c").read_text())
    options = {"ranks": 2, "runs": 5, "compare": "ls", "timeout": 60}
    here = nw.explore([program], out=tmp_path / "a", **options)
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster, distributed.Client(cluster) as client:
        there = nw.explore([program], out=tmp_path / "b", client=client, **options)

    def rest(explored: nw.Exploration) -> list[dict[str, object]]:
        return [{name: value for name, value in one.items() if name not in ("file", "picture", "repeat")} for one in explored.classes]

    assert rest(here) == rest(there)
    assert [one["ended"] for one in there.classes] == ["exit code 0", "deadlock"]
    assert there.classes[1]["waits"][0]["whom"] == [1] and Path(there.classes[1]["picture"]).exists()


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(nw.NarrowsError, match="no-such-program"):
        nw.explore(["./no-such-program"], ranks=2, out=tmp_path)


def test_one_class(pingpong: Path, tmp_path: Path) -> None:
    explored = nw.explore([pingpong, "8"], ranks=2, runs=3, out=tmp_path, compare="ls")
    assert explored.report["runs"] == 3 and explored.classes[0]["ended"] == "exit code 0"
