"""Which keys a result depends on."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import narrows as nw


def narrows(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(nw._studies.binary()), *map(str, words)], capture_output=True, text=True, cwd=cwd, check=False)


def slow_links() -> nw.Machine:
    return nw.machine("bxi-v2", nodes=8).set({"link.host.bandwidth": "5 GB/s", "link.switch.bandwidth": "5 GB/s"})


@pytest.mark.parametrize("size", ["64B", "64KiB"])
def test_shares_of_times_and_rates_add_up(size: str, tmp_path: Path) -> None:
    # Euler's theorem: if all times are multiplied by a factor, and all rates divided by it, so is the result.
    trace = nw.generate("allreduce-loop", tmp_path / "allreduce.vef", ranks=8, bytes=size)
    found = nw.sensitivity(nw.replay, trace, machine=slow_links(), step=0.01, out=tmp_path)
    assert found.shares == pytest.approx(1, abs=0.02)
    strengths = [abs(one.better_change or 0) for one in found.effects]
    assert strengths == sorted(strengths, reverse=True) and strengths[0] > 0.05
    one = found.effects[0]
    changed = slow_links().set(one.key, one.better)
    assert nw.replay(trace, machine=changed).simulated_s / found.base - 1 == pytest.approx(one.better_change)


def test_the_narrower_of_two_pipes_binds(tmp_path: Path) -> None:
    trace = nw.generate("halo3d", tmp_path / "long.vef", ranks=8, steps=1, bytes="4MiB", compute="0us")
    narrow_bus = nw.machine("bxi-v2", nodes=8).set("link.host.bandwidth", "50 GB/s")
    keys = ["link.host.bandwidth", "node.pcie.data_bandwidth"]
    found = nw.sensitivity(nw.replay, trace, machine=narrow_bus, keys=keys, out=tmp_path / "a")
    assert [one.key for one in found.effects] == ["node.pcie.data_bandwidth"]
    assert found.effects[0].elasticity == pytest.approx(-1, abs=0.05)
    assert found.without == ["link.host.bandwidth"] and "Faster links change nothing" in found.verdict
    found = nw.sensitivity(nw.replay, trace, machine=slow_links(), keys=keys, out=tmp_path / "b")
    assert found.effects[0].key == "link.host.bandwidth" and found.effects[0].elasticity == pytest.approx(-1, abs=0.05)
    assert all(abs(one.elasticity) < 0.02 for one in found.effects[1:])


def test_traffic_and_whole_numbers(tmp_path: Path) -> None:
    machine = nw.machine("bxi-v2", nodes=4)
    found = nw.sensitivity(nw.traffic, "shift:1", machine=machine, keys=["link.host", "nic.max_outstanding"], load=0.2, out=tmp_path)
    assert found.without == ["nic.max_outstanding"]
    # A packet alone takes two links, at 200 ns each.
    latency = next(one for one in found.effects if one.key == "link.host.latency")
    assert latency.change * found.base == pytest.approx(-40, rel=0.01)


def test_every_key_that_takes_part_can_be_changed(tmp_path: Path) -> None:
    """Whole numbers stay whole, and a value at the bound that another key sets goes the other way."""
    machine = nw.machine("bxi-v2", nodes=4)
    assert machine["message.inject_limit"] == machine["message.eager_limit"]
    found = nw.sensitivity(nw.traffic, "shift:1", machine=machine, load=0.2, out=tmp_path)
    assert found.left_out == {} and "message.inject_limit" in found.without
    assert not any(key.startswith("nic.spin.") for key in found.without), "no handler runs"
    spin = nw.machine("bxi-v2-spin", nodes=4).set("nic.spin.rules", ["reduce"])
    found = nw.sensitivity(nw.traffic, "shift:1", machine=spin, keys=["nic.spin.budget"], load=0.2, out=tmp_path)
    assert (found.left_out, found.without) == ({}, ["nic.spin.budget"])


def test_what_is_finished_is_kept(tmp_path: Path, halo: Path) -> None:
    def once() -> nw.Sensitivity:
        return nw.sensitivity(nw.replay, halo, machine=nw.machine("bxi-v2", nodes=8), keys=["node.pcie"], out=tmp_path)

    first = once()
    journal = (tmp_path / "journal.jsonl").read_text()
    assert once() == first and (tmp_path / "journal.jsonl").read_text() == journal


def test_a_program_from_the_shell(tmp_path: Path, compiled: Callable[[str, str], Path]) -> None:
    program = compiled(
        "ring",
        """#include <mpi.h>
int main(int argc, char **argv) {
    int rank, size, token = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 20; i++) {
        if (rank == 0) MPI_Send(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(&token, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank) MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
}""",
    )
    options = ["-n", 4, "--nodes", 4, "--compute", "none", "--step", 1, "-o", "s"]
    words = ["sensitivity", *options, "--json", "--", program]
    found = narrows(*words, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    said = json.loads(found.stdout)
    # Eighty messages one after the other: each pays the latency of PCIe twice, and that of a link twice.
    effects = {one["key"]: one["elasticity"] for one in said["effects"]}
    assert effects["node.pcie.latency"] / effects["link.host.latency"] == pytest.approx(2 * 300 / (2 * 200), rel=0.02)
    assert "node.speed" not in effects and said["shares"] == pytest.approx(1, abs=0.02)
    again = narrows(*words, cwd=tmp_path)
    assert json.loads(again.stdout) == said and "records" not in again.stderr
    table = narrows(*(word for word in words if word != "--json"), cwd=tmp_path)
    assert "node.pcie.latency" in table.stdout and "matters most" in table.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "expected one of: -n RANKS -- PROGRAM, --replay TRACE, --traffic PATTERN"),
        (["--", "./app"], "-n: how many ranks"),
        (["--traffic", "uniform", "--keys", "nic.colour"], "nic.colour: no key of this machine"),
        (["--traffic", "uniform", "--step", "much"], "--step much: expected a percentage"),
        (["--traffic", "uniform", "--step", "100"], "between 0 and 1"),
        (["--traffic", "colourful"], "on the machine as it is: "),
        (["--replay", "missing.jsonl"], "missing.jsonl"),
        (["--set", "nodes", "--traffic", "uniform"], "--set nodes: expected KEY=VALUE"),
    ],
)
def test_wrong_arguments(words: list[str], says: str, tmp_path: Path) -> None:
    found = narrows("sensitivity", *words, cwd=tmp_path)
    assert found.returncode == 2 and says in found.stderr, found.stderr
