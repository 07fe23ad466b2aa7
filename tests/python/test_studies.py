"""Machines, traffic, replays, live runs: what they give, and how they fail."""

import doctest
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow
import pytest

import narrows as nw

# A shell's background jobs ignore Ctrl-C, and so does what they start.
HEARS_SIGINT = ("env", "--default-signal=INT")

QUICK = {"warmup": "5us", "time": "20us"}


def said(*words: object) -> str:
    """What the command line says on standard error, without its name."""
    done = subprocess.run([str(nw._studies.binary()), *map(str, words)], capture_output=True, text=True)
    assert done.returncode != 0, words
    return done.stderr.replace("narrows: error: ", "").strip()


def test_examples_of_docstrings() -> None:
    modules = [nw, nw._machine, nw._studies, nw._results, nw._sweep]
    names = {name: getattr(nw, name) for name in nw.__all__ if not name.startswith("_")}
    results = [doctest.testmod(module, extraglobs=names) for module in modules]
    assert sum(result.attempted for result in results) >= 10
    assert not any(result.failed for result in results)


def test_the_wheel_brings_all_that_linux_does_not_have() -> None:
    (wheel,) = (Path(__file__).parents[2] / "target/wheels/here").glob("narrows-*.whl")
    auditwheel = Path(sys.executable).with_name("auditwheel")
    done = subprocess.run([auditwheel, "show", wheel], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # Of this computer's C library or an older one; a library that is not everywhere would make it linux_x86_64.
    assert re.search(r'following platform tag:\s+"manylinux_2_\d+_x86_64"', done.stdout), done.stdout


def test_a_machine_is_changed_in_a_copy() -> None:
    machine = nw.machine("bxi-v2", nodes=64)
    faster = machine.set("link.host.bandwidth", "400 Gbit/s")
    assert (machine["link.host.bandwidth"], faster["link.host.bandwidth"]) == ("11.1 GB/s", "50 GB/s")
    assert (faster.nodes, machine == faster, machine == nw.machine("bxi-v2", nodes=64)) == (64, False, True)
    # Keys that make sense together only.
    tree = nw.machine("bxi-v2", nodes=16).set({"topology.kind": "k-ary-n-tree", "topology.k": 4, "topology.n": 2, "nic.quick_ack": True})
    assert (tree["topology.k"], tree["nic.quick_ack"]) == (4, True)
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert nw.machine("bxi-v2", network="flow")["network.kind"] == "flow"


def test_warnings_are_said_where_the_simulation_is_asked_for(tmp_path: Path) -> None:
    leaky = nw.machine("bxi-v2", nodes=4).set({"flow_control": "pfc", "network.buffer": "32 KiB", "network.pfc.xoff": "30 KiB"})
    (text,) = leaky.warnings
    assert "packets can be lost" in text and nw.machine("bxi-v2").warnings == []
    with pytest.warns(nw.NarrowsWarning, match="packets can be lost") as heard:
        assert nw.traffic(machine=leaky, load=0.2, **QUICK).warnings == [text]
    assert [warning.filename for warning in heard] == [__file__]
    # In a sweep they go into the journal.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nw.sweep(nw.traffic, machine=leaky, points=[{"load": 0.2}], out=tmp_path, **QUICK).run()
    assert json.loads((tmp_path / "journal.jsonl").read_text())["warnings"] == [text]


def test_a_machine_file_is_read_back(tmp_path: Path) -> None:
    machine = nw.machine("dragonfly-342").set("routing", "minimal")
    assert nw.machine(machine.save(tmp_path / "mine.toml")) == machine


def test_mistakes_have_the_words_of_the_command_line(tmp_path: Path, halo: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('[machine]\nname = "mine"\nbase = "bxi-v2"\n[nic]\nput_ocupancy = "1 ns"\n')
    absent = tmp_path / "absent.vef"
    pairs = [
        (lambda: nw.machine("bxi-v1"), ["machine", "show", "bxi-v1"]),
        (lambda: nw.machine(mine), ["machine", "show", mine]),
        (lambda: nw.machine("bxi-v2", nodes=10**6), ["machine", "show", "bxi-v2", "--nodes", 10**6]),
        (lambda: nw.traffic("unform"), ["traffic", "unform"]),
        (lambda: nw.traffic("uniform", load="0.1:x"), ["traffic", "uniform", "--load", "0.1:x"]),
        (lambda: nw.traffic("uniform", time="5 parsec"), ["traffic", "uniform", "--time", "5 parsec"]),
        (lambda: nw.traffic("flows", file=absent), ["traffic", "flows", absent]),
        (lambda: nw.traffic("flows"), ["traffic", "flows"]),
        (lambda: nw.replay(absent), ["replay", absent]),
        (lambda: nw.replay(halo, machine=nw.machine("bxi-v2", nodes=1).set("node.cores", 1)), None),
        (lambda: nw.replay(halo, mapping="ring"), ["replay", halo, "--mapping", "ring"]),
        (lambda: nw.run([tmp_path / "absent"], ranks=2), ["run", "-n", 2, "--", tmp_path / "absent"]),
        (lambda: nw.run(["/bin/true"], ranks=2, compute="some"), ["run", "-n", 2, "--compute", "some", "--", "/bin/true"]),
    ]
    for call, command in pairs:
        with pytest.raises(nw.NarrowsError) as caught:
            call()
        text = str(caught.value)
        assert text and not text.startswith("error")
        if command is not None:
            # The command line's reader of options has a beginning of its own.
            assert text.removeprefix("error: ").split("\n")[0] in said(*command), command


def test_tables_are_the_same_for_every_reader(small: nw.Machine) -> None:
    # Three nodes send more than the fourth takes: queues.
    result = nw.traffic("incast:3", machine=small, load=[0.2, 0.4], period="1us", **QUICK)
    points = result.points
    assert points["load"] == [0.2, 0.4]
    assert isinstance(points.to_arrow(), pyarrow.Table)
    assert isinstance(points.to_polars(), polars.DataFrame)
    assert isinstance(points.to_pandas(), pandas.DataFrame)
    assert points.to_polars().to_dicts() == points.to_rows()
    assert points.to_pandas()["accepted"].tolist() == points["accepted"]
    queues = result.queues.to_arrow()
    assert duckdb.sql("select count(*) from queues").fetchall() == [(len(result.queues),)] != [(0,)]
    assert list(result.tables) == ["points", "histograms", "series", "links", "switches", "queues", "hops", "rates"]
    # No copy: two readers have the same memory.
    other = result.queues.to_arrow()
    assert queues["link"].chunk(0).buffers()[1].address == other["link"].chunk(0).buffers()[1].address
    with pytest.raises(AttributeError, match="period="):
        nw.traffic("shift:1", machine=small, load=0.2, **QUICK).queues  # noqa: B018


def test_gaps_are_none(small: nw.Machine) -> None:
    # Times of a saturated point only say how long one has looked.
    points = nw.traffic("incast:3", machine=small, load=0.9, **QUICK).points
    assert (points["saturated"], points["fct_mean_ns"]) == ([1], [None])


def test_the_command_line_gives_the_same(tmp_path: Path, small: nw.Machine, halo: Path) -> None:
    narrows = str(nw._studies.binary())
    options = ["--nodes", "4", "--load", "0.3", "--warmup", "5us", "--time", "20us", "--out", tmp_path / "t"]
    subprocess.run([narrows, "traffic", "uniform", *options], check=True, capture_output=True)
    subprocess.run([narrows, "replay", halo, "--nodes", "8", "--period", "1us", "--out", tmp_path / "r"], check=True, capture_output=True)
    ours = {
        "t": nw.traffic("uniform", machine=small, load=0.3, **QUICK),
        "r": nw.replay(halo, machine=nw.machine("bxi-v2", nodes=8), period="1us"),
    }
    for name, result in ours.items():
        theirs = nw.load(tmp_path / name)
        assert (theirs.digest, theirs.kind, theirs.simulated_s) == (result.digest, result.kind, result.simulated_s)
        for name, table in result.tables.items():
            assert theirs.tables[name].to_rows() == table.to_rows(), name


def test_traffic_on_one_network_of_several(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(
        '[machine]\nname = "two"\nbase = "bxi-v2"\nfabrics = ["slow", "fast"]\n[node]\ncount = 4\n'
        '[fabric.slow.link.host]\nbandwidth = "1 GB/s"\n[fabric.fast.link.host]\nbandwidth = "10 GB/s"\n'
    )
    first, slow, fast = (nw.traffic("shift:1", machine=file, load=0.5, fabric=name, **QUICK) for name in (None, "slow", "fast"))
    assert first.digest == slow.digest != fast.digest
    with pytest.raises(nw.NarrowsError, match="--fabric no: no such network; the machine has slow, fast"):
        nw.traffic("shift:1", machine=file, fabric="no", **QUICK)


def test_results_are_saved_pickled_and_read_back(tmp_path: Path, small: nw.Machine) -> None:
    result = nw.traffic("shift:1", machine=small, load=0.2, **QUICK)
    copy = pickle.loads(pickle.dumps(result))
    for index, one in enumerate((result, copy)):
        back = nw.load(one.save(tmp_path / str(index)))
        # The summary of a process that goes on has another peak of memory each time.
        assert {**back.summary, "peak_rss_bytes": 0} == {**result.summary, "peak_rss_bytes": 0}
        assert back.points.to_rows() == result.points.to_rows()
    with pytest.raises(nw.NarrowsError, match="expected a folder"):
        nw.load(tmp_path)


def test_a_replay_under_loggp(halo: Path) -> None:
    result = nw.replay(halo, loggp="L=2500ns,o=1500ns,g=1000ns,G=6ns/B,S=65535")
    assert result.summary["network"] == "loggp" and result.applications["ranks"] == [8]
    with pytest.raises(nw.NarrowsError, match="--loggp takes the place"):
        nw.replay(halo, machine="bxi-v2", loggp="L=1us")


def test_a_replay_that_stands_still_has_its_result(tmp_path: Path) -> None:
    # Both ranks wait for the other one first.
    goal = tmp_path / "still.goal"
    rank = "rank {me} {{\nl1: recv 8b from {other}\nl2: send 8b to {other}\nl2 requires l1\n}}\n"
    goal.write_text("num_ranks 2\n" + rank.format(me=0, other=1) + rank.format(me=1, other=0))
    with pytest.raises(nw.StudyFailed) as caught:
        nw.replay(goal, machine=nw.machine("bxi-v2", nodes=2))
    assert caught.value.result is not None and caught.value.result.applications["unfinished_ranks"] == [2]
    assert str(caught.value) == caught.value.result.summary["failure"] and caught.value.exit_code == 1


def test_a_live_run(tmp_path: Path, pingpong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = nw.run([pingpong], ranks=2, machine=nw.machine("bxi-v2", nodes=2), compute="none", out=tmp_path / "out")
    assert "half trip us" in result.stdout and "simulated time" in result.text
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (result.stdout, result.text)
    assert len(result.ranks) == 2 and result.ranks["node"] == [0, 1]
    again = nw.run([pingpong], ranks=2, machine=nw.machine("bxi-v2", nodes=2), compute="none", quiet=True)
    assert again.digest == result.digest == nw.load(tmp_path / "out").digest
    assert capsys.readouterr() == ("", "")


def test_a_live_run_that_fails(compiled: Callable[[str, str], Path]) -> None:
    aborts = "#include <mpi.h>\nint main(void) { MPI_Init(0, 0); MPI_Abort(MPI_COMM_WORLD, 7); }"
    with pytest.raises(nw.StudyFailed, match="MPI_Abort") as caught:
        nw.run([compiled("aborts", aborts)], ranks=2, machine=nw.machine("bxi-v2", nodes=2), compute="none", quiet=True)
    assert caught.value.exit_code == 7 and caught.value.result is not None and len(caught.value.result.ranks) == 2
    with pytest.raises(nw.NarrowsError, match="uses no MPI library"):
        nw.run(["/bin/true"], ranks=2, quiet=True)


def test_other_threads_run_while_it_simulates(small: nw.Machine) -> None:
    class Enough(Exception):
        pass

    counted, over, seen = [0], threading.Event(), []

    def count() -> None:
        while not over.wait(0.001):
            counted[0] += 1

    def told(what: str, fraction: float | None, detail: str) -> None:
        seen.append((what, fraction, counted[0]))
        if counted[0] > seen[0][2] + 10:
            raise Enough

    thread = threading.Thread(target=count)
    thread.start()
    # It would go on for days.
    with pytest.raises(Enough):
        nw.traffic("uniform", machine=small, load=0.5, warmup="1us", time="100s", progress=told)
    over.set()
    thread.join()
    assert all(what == "simulating" and 0 <= fraction < 1 for what, fraction, _ in seen if fraction is not None)


ENDLESS = """
import narrows as nw, sys
def told(*_): print("simulating", flush=True)
nw.traffic("uniform", machine=nw.machine("bxi-v2", nodes=4), load=0.5, warmup="1us", time="100s", progress=told)
"""


def test_ctrl_c_ends_a_simulation() -> None:
    child = subprocess.Popen([*HEARS_SIGINT, sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "simulating\n"
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors and child.returncode == -signal.SIGINT


def test_ctrl_c_ends_a_live_run(compiled: Callable[[str, str], Path]) -> None:
    ranks = compiled("endless", "#include <mpi.h>\n#include <unistd.h>\nint main(void) { MPI_Init(0, 0); for (;;) sleep(1000); }")
    program = f"import narrows as nw\nnw.run([{str(ranks)!r}], ranks=2, machine=nw.machine('bxi-v2', nodes=2), quiet=True)"
    child = subprocess.Popen([*HEARS_SIGINT, sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, start_new_session=True)
    # The binary is there when the interpreter has a child.
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    while not children.read_text().split():
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors, errors
    # Nothing stays behind. A launcher that is asked for its version at that moment ends a little later.
    deadline = time.monotonic() + 60
    while left := [pid for pid in os.listdir("/proc") if pid.isdigit() and _session(pid) == child.pid]:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def _session(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3])
    except OSError:
        return -1


def test_a_progress_function_that_raises_ends_it(small: nw.Machine) -> None:
    def told(what: str, fraction: float | None, detail: str) -> None:
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        nw.traffic("uniform", machine=small, load=0.5, warmup="1us", time="100s", progress=told)


def test_figures_and_headers_are_installed() -> None:
    narrows = str(nw._studies.binary())
    flags = subprocess.run([narrows, "config", "--cflags"], capture_output=True, text=True, check=True).stdout
    assert Path(flags.strip().removeprefix("-I"), "portals4.h").exists()
    listed = subprocess.run([narrows, "reproduce", "--list"], capture_output=True, text=True, check=True, cwd="/")
    assert "dragonfly-routing" in listed.stdout


def test_a_trace_at_more_ranks(tmp_path: Path) -> None:
    recordings = [nw.generate("lulesh-like", tmp_path / f"a{ranks}.jsonl", ranks=ranks, steps=2) for ranks in (8, 27, 64)]
    known = nw.generate("lulesh-like", tmp_path / "known.jsonl", ranks=125, steps=2)
    made = nw.extrapolate(recordings, tmp_path / "made.jsonl", ranks=125)
    assert made.read_bytes() == known.read_bytes()
    with pytest.raises(nw.NarrowsError) as refused:
        nw.extrapolate(recordings[:1], tmp_path / "no.jsonl", ranks=125)
    assert str(refused.value) == said("extrapolate", str(recordings[0]), "--ranks=125", f"--output={tmp_path / 'no.jsonl'}")


def test_traces_are_made_up_and_recorded(tmp_path: Path, pingpong: Path) -> None:
    made = nw.generate("allreduce-loop", tmp_path / "loop.jsonl", ranks=4, steps=3, bytes="1KiB")
    assert nw.analyse(made).summary["ranks"] == 4
    with pytest.raises(nw.NarrowsError) as refused:
        nw.generate("halo4d", tmp_path / "no.vef", ranks=4)
    assert str(refused.value) == said("generate", "halo4d", "--ranks=4", f"--output={tmp_path / 'no.vef'}")
    machine = nw.machine("bxi-v2", nodes=2)
    recorded = nw.record([pingpong, "64"], tmp_path / "pingpong.jsonl", ranks=2, machine=machine, compute="none", quiet=True)
    live = nw.run([pingpong, "64"], ranks=2, machine=machine, compute="none", quiet=True)
    assert nw.replay(recorded, machine=machine).simulated_s == pytest.approx(live.simulated_s, rel=0.02)


@pytest.mark.parametrize(("buffer", "latency"), [("4128 B", "200 ns"), ("12384 B", "500 ns")])
def test_what_credits_let_a_link_carry_is_what_the_warning_says(buffer: str, latency: str) -> None:
    roomy = nw.machine("bxi-v2", nodes=64).set({"link.host.latency": latency, "link.switch.latency": latency})
    narrow = roomy.set("network.buffer", buffer)
    assert not roomy.warnings
    said = re.search(r"network.buffer .* carry (\d+) % of their rate", narrow.warnings[0])
    assert said is not None

    def accepted(machine: nw.Machine) -> float:
        result = nw.traffic("shift:30", machine=machine, load=0.99, warmup="20us", time="50us", progress=False)
        return float(result.points["accepted"][0])

    with pytest.warns(nw.NarrowsWarning, match="keeps links waiting for credits"):
        share = accepted(narrow) / accepted(roomy)
    assert 100 * share == pytest.approx(int(said[1]), abs=2)
