"""The iron law: closed forms of the fact sheet, and simulated programs beside it."""

import json
import math
import subprocess
from pathlib import Path

import pytest

import narrows as nw

MACHINE = {"peak": 42e12, "memory": 76.8e9, "fast_memory": 40e6, "network": 10e9}


def law(kernel: str, size: int, nodes: list[int], **changes: float) -> nw.IronLaw:
    return nw.iron_law(kernel, size, nodes=nodes, **{**MACHINE, **changes})


def test_penalties_are_those_of_the_slides() -> None:
    n, p = 16384, 64
    peak_of_node, z = MACHINE["peak"] / p, MACHINE["fast_memory"] / 8
    product = law("matmul-2d", n, [p]).points[0]
    # R0/B0 / sqrt Z, and R0/Bnet c sqrt P / (2 n) with c = 2.
    assert product.memory_penalty == pytest.approx(peak_of_node / (76.8e9 / 8) / math.sqrt(z))
    assert product.network_penalty == pytest.approx(peak_of_node / (10e9 / 8) * math.sqrt(p) / n)
    transform = law("fft-3d", 1024, [p]).points[0]
    assert transform.memory_penalty == pytest.approx(peak_of_node / (76.8e9 / 16) / (2.5 * math.log2(40e6 / 16)))
    assert transform.network_penalty == pytest.approx(peak_of_node / (10e9 / 16) * 2 / (5 * 30))


def test_where_the_penalties_cross() -> None:
    found = law("stencil", 256, [2**k for k in range(16)])
    at = found.crossing
    assert at is not None
    # 2 n^3 / (P B0) words over memory and 6 (n^3 / P)^(2/3) / Bnet over the network take as long.
    assert at == pytest.approx(256**3 * (10e9 / 76.8e9 / 3) ** 3, rel=0.01)
    assert law("stencil", 256, [1, 2]).crossing is None
    assert f"From {at:.3g} nodes on" in found.text


def simulated(pattern: str, ranks: int, folder: Path, **options: object) -> float:
    """Without computing."""
    trace = nw.generate(pattern, folder / "trace.jsonl", ranks=ranks, **options)
    return nw.replay(trace, machine=nw.machine("bxi-v2", nodes=64), compute_scale=0).simulated_s


def bound(kernel: str, size: int, ranks: int) -> float:
    point = nw.iron_law(kernel, size, nodes=[ranks], machine="bxi-v2", peak=1e18, memory=1e18, fast_memory=1e9).points[0]
    assert point.binds == "network"
    return point.time_s


def test_a_simulated_transform_beside_the_law(tmp_path: Path) -> None:
    # It transposes three times on a grid of 4 x 4 x 4 ranks, and a quarter stays each time: 1.125 times the bytes.
    taken = simulated("fft3d", 64, tmp_path, bytes=f"{256**3 * 16 // 64}B")
    assert 1.125 <= taken / bound("fft-3d", 256, 64) <= 1.5


def test_a_simulated_product_beside_the_law(tmp_path: Path) -> None:
    # By Cannon's algorithm, with words of 4 bytes in place of 8: of four steps the last one sends nothing.
    taken = simulated("matmul-like", 16, tmp_path, cells=1024)
    assert taken / (bound("matmul-2d", 4096, 16) * 4 / 8) == pytest.approx(0.75, rel=0.03)


def test_the_command(tmp_path: Path) -> None:
    words = [str(nw._studies.binary()), "model", "iron-law", "fft-3d", "1024", "--memory", "76.8GB/s", "--fast-memory", "40MB"]
    rest = ["--peak", "42T", "--network", "10GB/s", "--json", "--plot", str(tmp_path / "law.png")]
    shown = subprocess.run([*words, *rest], capture_output=True, text=True, check=True)
    points = json.loads(shown.stdout)["points"]
    assert points[3]["network_penalty"] == pytest.approx(law("fft-3d", 1024, [64]).points[0].network_penalty)
    assert (tmp_path / "law.png").stat().st_size > 1000
    for wrong, says in [
        (["--peak", "fast"], "--peak fast: expected a number"),
        (["--peak", "42T", "--nodes", "some"], "--nodes some: expected whole numbers"),
        (["--peak", "42T", "--nodes", "0"], "nodes = 0: expected a number above 0"),
    ]:
        refused = subprocess.run([*words, *wrong], capture_output=True, text=True, check=False)
        assert refused.returncode == 2 and says in refused.stderr, refused.stderr
    refused = subprocess.run(
        [words[0], "model", "iron-law", "sorting", "9", *words[5:], "--peak", "42T"], capture_output=True, text=True, check=False
    )
    assert "sorting: no such kernel; there are matmul-2d" in refused.stderr
