"""What the package does from a shell: `narrows sweep`, `calibrate`, `compare`."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import narrows as nw

STUDY = """
study = "traffic"
arguments = ["uniform"]
machine = "bxi-v2"
nodes = 4
options = { warmup = "2us", time = "10us" }
set = { "link.host.bandwidth" = "10 GB/s" }
repeats = 2
[grid]
load = [0.1, 0.2]
"network.routing" = ["d-mod-k", "adaptive"]
"""


def narrows(*arguments: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """By the binary, which finds this interpreter first."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = [str(nw._studies.binary()), *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True)


def test_a_study_file_is_the_sweep(tmp_path: Path) -> None:
    (tmp_path / "routing.toml").write_text(STUDY)
    done = narrows("sweep", "routing.toml", "--columns", "accepted", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["load", "network.routing", "seed", "status", "accepted"] and len(lines) == 1 + 8 + 1
    assert lines[-1] == "8 of 8 points are done; the table is routing/study.parquet"
    machine = nw.machine("bxi-v2", nodes=4).set("link.host.bandwidth", "10 GB/s").set("network.routing", "adaptive")
    alone = nw.traffic("uniform", machine=machine, load=0.2, seed=2, warmup="2us", time="10us")
    said = narrows("sweep", "routing.toml", "--json", folder=tmp_path)
    value = json.loads(said.stdout)
    assert (value["points"], value["done"], value["failures"]) == (8, 8, [])
    assert value["rows"][-1]["digest"] == alone.digest


def test_mistakes_of_a_study_file(tmp_path: Path) -> None:
    for text, message in [
        ("study = 1", "expected study = one of traffic, replay, run"),
        (STUDY.replace("repeats", "repeat"), "no key repeat"),
        (STUDY.replace("repeats = 2", 'repeats = "2"'), "repeats: expected a int"),
        (STUDY.replace("load =", "weight ="), "weight: neither an argument"),
        (STUDY + "[", "Invalid"),
    ]:
        (tmp_path / "a.toml").write_text(text)
        done = narrows("sweep", tmp_path / "a.toml")
        assert done.returncode == 2 and done.stderr.startswith("narrows: error: ") and message in done.stderr, done.stderr
    (tmp_path / "a.toml").write_text(STUDY.replace("0.2]", "-1.0]"))
    done = narrows("sweep", tmp_path / "a.toml", "-o", tmp_path / "out")
    assert done.returncode == 1 and "4 of 8 points are done" in done.stdout and "load" in done.stderr


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(STUDY.replace("10us", "20ms").replace("[0.1, 0.2]", "[0.01, 0.9]"))
    command = ["env", "--default-signal=INT", str(nw._studies.binary()), "sweep", "a.toml"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    child = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "PATH": path}, stderr=subprocess.PIPE, text=True)
    # Under way: the journal is there before the first point begins.
    while child.poll() is None and not (tmp_path / "a/journal.jsonl").exists():
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=100)
    assert child.returncode == 130 and "interrupted; what is finished is kept" in said, said


def test_compare_and_calibrate_as_json(tmp_path: Path) -> None:
    done = narrows("compare", "bxi-v2", "bxi-v3", "--json")
    rows = {row["key"]: row for row in json.loads(done.stdout)["rows"]}
    assert rows["link.switch.bandwidth"]["b"] == "50 GB/s"
    assert "differences" in narrows("compare", "bxi-v2", "bxi-v3").stdout.splitlines()[-1]
    lines = ["# OSU MPI Latency Test v7.4", "# Size       Avg Latency(us)"]
    lines += ["1 1.50", "8 1.50", "64 1.51", "512 2.20", "1024 2.30", "4096 2.90"]
    (tmp_path / "osu.txt").write_text("\n".join(lines) + "\n")
    done = narrows("calibrate", tmp_path / "osu.txt", "--constant", "software.post", "-o", tmp_path / "m.toml", "--json")
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert value["constants"][0]["name"] == "software.post" and len(value["rows"]) == 6
    fitted = nw.machine("bxi-v2").set("software.post", value["constants"][0]["fitted"])
    assert nw.machine(tmp_path / "m.toml")["software.post"] == fitted["software.post"]
    # What is found is told, wherever its file is to go.
    done = narrows("calibrate", tmp_path / "osu.txt", "--constant", "software.post", "-o", "/dev/full")
    assert done.returncode == 3 and "software.post" in done.stdout, done.stdout
    assert done.stderr == "narrows: error: /dev/full: No space left on device\n"


@pytest.mark.parametrize("command", ["sweep", "calibrate", "compare"])
def test_the_binary_knows_the_options_of_the_package(command: str) -> None:
    of_binary = narrows(command, "--help")
    of_package = subprocess.run([sys.executable, "-m", "narrows", command, "--help"], capture_output=True, text=True)
    options = [set(re.findall(r"^ +(?:-\w, )?(?:-\w [A-Z]+, )?(--[\w-]+)", text.stdout, re.M)) for text in (of_binary, of_package)]
    assert options[0] - {"--version"} == options[1], options
    assert "Example" in of_binary.stdout
