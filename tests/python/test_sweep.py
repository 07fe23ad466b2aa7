"""Sweeps: what is finished is kept, failures are rows, and little time goes elsewhere."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import narrows as nw

# A shell's background jobs ignore Ctrl-C, and so does what they start.
HEARS_SIGINT = ("env", "--default-signal=INT")

QUICK = {"warmup": "2us", "time": "10us"}
LOADS = [0.1, 0.2, 0.3, 0.4, 0.5]

# A sweep in a process of its own: it writes down which points it begins.
KILLED = """
import narrows as nw, os, sys
def point(load, machine, seed):
    with open("begun", "a") as file:
        file.write(f"{load} {machine.nodes} {seed}\\n")
    return nw.traffic("uniform", machine=machine, load=load, seed=seed, warmup="10us", time="200us", progress=False)
study = nw.sweep(point, machine="bxi-v2", grid={"load": [0.1, 0.2, 0.3, 0.4], "nodes": [8, 16]}, repeats=5, out=sys.argv[1])
study.run()
"""


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_grid_of_arguments_and_keys(tmp_path: Path) -> None:
    grid = {"load": LOADS[:2], "network.routing": ["d-mod-k", "adaptive"], "nodes": [4, 8]}
    study = nw.sweep(nw.traffic, "uniform", grid=grid, repeats=2, out=tmp_path, **QUICK)
    table = study.run()
    assert len(table) == len(study.points) == 16 and set(table["status"]) == {"done"}
    assert table.columns[:6] == ["point", "load", "network.routing", "nodes", "seed", "status"]
    # Each row is what the study alone gives.
    row = table.to_rows()[7]
    assert (row["load"], row["network.routing"], row["nodes"], row["seed"]) == (0.1, "adaptive", 8, 2)
    alone = nw.traffic("uniform", machine=nw.machine("bxi-v2", nodes=8).set("routing", "adaptive"), load=0.1, seed=2, **QUICK)
    assert row["digest"] == alone.digest and row["fct_p99_ns"] == alone.points["fct_p99_ns"][0]
    assert pyarrow.parquet.read_table(tmp_path / "study.parquet").equals(table.to_arrow())


def test_nothing_is_run_twice(tmp_path: Path) -> None:
    def count(load: float, seed: int) -> dict[str, Any]:
        with open(tmp_path / "begun", "a") as file:
            file.write(f"{load} {seed}\n")
        return {"double": 2 * load, "nothing": None}

    first = nw.sweep(count, grid={"load": LOADS[:3]}, out=tmp_path).run()
    # A sweep of more points shares those that are there.
    more = nw.sweep(count, grid={"load": LOADS}, repeats=2, out=tmp_path).run()
    assert sorted(lines(tmp_path / "begun")) == sorted(f"{load} {seed}" for load in LOADS for seed in (1, 2))
    assert (first["double"], more["double"]) == ([0.2, 0.4, 0.6], [2 * load for load in LOADS for _ in (1, 2)])
    # Another function of the same name is another sweep.
    assert nw.sweep(lambda load, seed: 3 * load, points=[{"load": 1.0}], out=tmp_path).run()["value"] == [3.0]


def test_a_failure_is_a_row(tmp_path: Path, halo: Path) -> None:
    # 8 ranks do not fit on the first machine; the second one has no such routing.
    points = [{"nodes": 1, "node.cores": 4}, {"network.routing": "ugal-l"}, {"nodes": 8}]
    study = nw.sweep(nw.replay, halo, points=points, out=tmp_path)
    table = study.run()
    assert table["status"] == ["failed", "failed", "done"] and len(study.failures) == 2
    with pytest.raises(nw.NarrowsError) as caught:
        nw.replay(halo, machine=nw.machine("bxi-v2", nodes=1).set("node.cores", 4))
    assert table["error"][0] == str(caught.value) and "ugal-l" in table["error"][1]
    assert table["finish_s"][2] > 0
    # It is not tried again, unless it is asked for.
    journal = tmp_path / "journal.jsonl"
    study.run()
    assert len(lines(journal)) == 3
    study.run(retry=True)
    assert len(lines(journal)) == 5
    # What is no result fails too, and an error that is not ours.
    odd = nw.sweep(lambda what: {"text": "a", "set": {1}, "none": None, "zero": 1 / what}[0], grid={"what": [0, 1]}, out=tmp_path).run()
    assert odd["error"] == ["ZeroDivisionError: division by zero", "KeyError: 0"]
    assert "gives a Result" in nw.sweep(lambda what: "text", grid={"what": [0]}, out=tmp_path).run()["error"][0]


def test_mistakes_are_said_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(nw.NarrowsError, match="network.ruting: neither an argument of traffic"):
        nw.sweep(nw.traffic, grid={"network.ruting": ["minimal"]}, out=tmp_path)
    with pytest.raises(nw.NarrowsError, match="one of the two"):
        nw.sweep(nw.traffic, out=tmp_path)
    with pytest.raises(nw.NarrowsError, match="takes no seed"):
        nw.sweep(lambda load: load, grid={"load": [1]}, repeats=2, out=tmp_path)


def test_a_point_is_known_by_all_that_it_depends_on(tmp_path: Path, halo: Path) -> None:
    def key(function: Any = nw.replay, *fixed: Any, **named: Any) -> str:
        (only,) = nw.sweep(function, *fixed, points=[{}], out=tmp_path, **named).keys
        return only

    mine = tmp_path / "mine.toml"
    mine.write_text('[machine]\nname = "mine"\nbase = "bxi-v2"\n')
    keys = [key(nw.replay, halo), key(nw.replay, halo, machine=mine), key(nw.replay, halo, machine=mine, mapping="node"), key(nw.traffic)]
    mine.write_text('[machine]\nname = "mine"\nbase = "bxi-v2"\n[nic]\nput_occupancy = "1 ns"\n')
    keys.append(key(nw.replay, halo, machine=mine))
    other = tmp_path / "halo.vef"
    other.write_bytes(halo.read_bytes() + b"\n")
    keys.append(key(nw.replay, other))
    assert len(set(keys)) == len(keys)
    assert keys[0] == key(nw.replay, halo, machine=nw.machine("bxi-v2")) == key(nw.replay, halo, machine="bxi-v2")


def test_killed_and_started_again_it_ends_with_the_same_table(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(KILLED)
    command = [sys.executable, str(script)]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    subprocess.run([*command, str(whole)], cwd=tmp_path, check=True)
    begun = tmp_path / "begun"
    assert len(lines(begun)) == 40
    begun.unlink()
    child = subprocess.Popen([*command, str(cut)], cwd=tmp_path)
    journal = cut / "journal.jsonl"
    while len(lines(journal)) < 13:
        assert child.poll() is None, "over before it was killed"
        time.sleep(0.001)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    # As if it had been killed in the middle of a line.
    kept = lines(journal)
    if not journal.read_bytes().endswith(b"\n"):
        kept.pop()
    with open(journal, "a") as file:
        file.write('{"key": "half')
    assert 13 <= len(kept) < 40
    begun.unlink()
    subprocess.run([*command, str(cut)], cwd=tmp_path, check=True)
    assert len(lines(begun)) == 40 - len(kept), "what was finished is not run again, and all else is"
    tables = [pyarrow.parquet.read_table(folder / "study.parquet") for folder in (whole, cut)]
    assert tables[0].num_rows == 40 and tables[0].equals(tables[1])
    assert len({json.loads(line)["key"] for line in lines(journal)}) == len(lines(journal)) == 40


def test_one_process_at_a_time(tmp_path: Path) -> None:
    def inner() -> float:
        nw.sweep(nw.traffic, points=[{}], out=tmp_path).run()
        return 0.0

    table = nw.sweep(inner, points=[{}], out=tmp_path).run()
    assert "another process works on this sweep" in table["error"][0]


def test_little_goes_elsewhere(tmp_path: Path) -> None:
    # CPU time, which does not depend on what else this computer does: of all, and of the threads that simulate.
    script = """
import json, sys, time
import narrows as nw
from narrows import _native
spent, real = [], _native.traffic
def counting(*words, **named):
    outcome = real(*words, **named)
    spent.append(outcome.cpu_s)
    return outcome
_native.traffic = counting
study = nw.sweep(nw.traffic, "uniform", machine=nw.machine("bxi-v2", nodes=64), warmup="20us", time="1200us",
                 grid={"load": [i / 50 for i in range(1, 41)]}, repeats=5, out=sys.argv[1])
table = study.run()
print(json.dumps([len(table), len(spent), sum(spent), time.process_time()]))
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    rows, points, simulating, everything = json.loads(done.stdout)
    assert rows == points == 200
    assert everything - simulating < 0.1 * everything, f"{simulating:.1f} of {everything:.1f} s simulate"


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path) -> None:
    script = """
import narrows as nw, sys
from narrows import _sweep
times = ["10us", "20us", "97s", "98s", "99s"]
study = nw.sweep(nw.traffic, "uniform", machine=nw.machine("bxi-v2", nodes=4), warmup="1us", grid={"time": times}, out=sys.argv[1])
study.run()
"""
    child = subprocess.Popen([*HEARS_SIGINT, sys.executable, "-c", script, str(tmp_path)], stderr=subprocess.PIPE, text=True)
    while len(lines(tmp_path / "journal.jsonl")) < 2:
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors and child.returncode == -signal.SIGINT
    assert [json.loads(line)["status"] for line in lines(tmp_path / "journal.jsonl")] == ["done", "done"]


def test_on_a_client_of_dask(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    study = {"grid": {"load": LOADS, "nodes": [1, 4]}, "repeats": 2, **QUICK}
    here = nw.sweep(nw.traffic, "shift:1", out=tmp_path / "here", **study).run()
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster, distributed.Client(cluster) as client:
        there = nw.sweep(nw.traffic, "shift:1", out=tmp_path / "there", **study).run(client)
    assert len(here) == 20 and here.to_rows() == there.to_rows()
    assert set(here["status"]) == {"done", "failed"}
