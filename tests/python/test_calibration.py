"""Calibration: tables that Narrows itself has made, with hidden constants, give them back, or it is said that they
cannot be told apart.
"""

import math
import subprocess
import sys
from pathlib import Path

import pytest

import narrows as nw
from narrows._calibration import EAGER, _Model, _Point

# Within a factor of two of the base machine's.
HIDDEN = {
    "software.post": "240 ns",
    "software.completion": "350 ns",
    "node.pcie.latency": "400 ns",
    "nic.dma_latency": "150 ns",
    "link.host.bandwidth": "9 GB/s",
    "link.host.latency": "260 ns",
    "node.pcie.data_bandwidth": "13 GB/s",
    "software.copy_bandwidth": "7 GB/s",
}
SIZES = [1, 8, 64, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 262144, 1 << 20]
BOUND = 0.02


def written(folder: Path, machine: nw.Machine) -> list[Path]:
    """osu_latency and osu_bw as they print."""
    points = [_Point(kind, kind, size, 1.0, 0.01, False) for kind in ("latency", "bandwidth") for size in SIZES]
    scratch = folder / "scratch"
    scratch.mkdir()
    values = [math.exp(value) for value in _Model(machine, points, scratch, None).log_values({})]
    files = []
    for kind, title in (
        ("latency", "# OSU MPI Latency Test v5.9\n# Size          Latency (us)"),
        ("bandwidth", "# OSU MPI Bandwidth Test v5.9"),
    ):
        lines = [f"{point.bytes:<10}{value:>16.2f}" for point, value in zip(points, values, strict=True) if point.kind == kind]
        files.append(folder / f"osu_{kind}.txt")
        files[-1].write_text("\n".join([title, *lines]) + "\n")
    return files


def as_imb(osu: Path) -> Path:
    """A table of osu_latency as IMB-MPI1 prints its PingPong, with another benchmark behind it."""
    rows = [line.split() for line in osu.read_text().splitlines() if not line.startswith("#")]
    head = "#---\n# Benchmarking {}\n# #processes = 2\n#---\n       #bytes #repetitions      t[usec]   Mbytes/sec\n"
    lines = [f"{size:>13} {1000:>12} {value:>12} {int(size) / float(value):>12.2f}\n" for size, value in rows]
    file = osu.with_name("imb.txt")
    file.write_text(
        "#    Intel(R) MPI Benchmarks 2021.3, MPI-1 part\n"
        + head.format("PingPong")
        + "".join(lines)
        + head.format("PingPing")
        + "0 1000 9.9 0.0\n"
    )
    return file


def give_back(found: nw.Calibration, hidden: nw.Machine) -> list[str]:
    """Checks constants; names of those that are told."""
    told = [constant.name for constant in found.constants if constant.told]
    apart = {name for group in found.inseparable for name in group}
    assert not apart & set(told) and apart | set(told) == {constant.name for constant in found.constants}
    for name in told:
        ratio = number(found.machine, name) / number(hidden, name)
        assert abs(ratio - 1) < BOUND, f"{name}: {found.machine[name]}, hidden {hidden[name]}\n{found.text}"
    return told


def number(machine: nw.Machine, name: str) -> float:
    return nw._calibration._number(name, str(machine[name]))


def test_hidden_constants_come_back(tmp_path: Path) -> None:
    hidden = nw.machine("bxi-v2").set(HIDDEN)
    found = nw.calibrate("bxi-v2", written(tmp_path, hidden))
    told = give_back(found, hidden)
    assert {"software.post", "software.completion", "software.copy_bandwidth", "link.host.bandwidth"} <= set(told), found.text
    # Every message crosses the link and PCIe once, and PCIe is the faster one: only the sum is in these data.
    assert any({"node.pcie.latency", "link.host.latency"} <= set(group) for group in found.inseparable), found.text
    assert found.error(held_back=False) < 0.005 and found.error(held_back=True) < 0.01
    held = [row for row in found.table.to_rows() if row["held_back"]]
    assert len(held) == 6 and {row["unit"] for row in held} == {"us", "MB/s"}
    assert found.machine["software.poll"] == hidden["software.poll"] and found.machine[EAGER] == "8 KiB"
    assert nw.machine(found.save(tmp_path / "mine.toml")) == found.machine


def test_the_eager_limit_is_found_by_its_step(tmp_path: Path) -> None:
    hidden = nw.machine("bxi-v2").set({EAGER: "32 KiB", "software.post": "220 ns"})
    found = nw.calibrate("bxi-v2", written(tmp_path, hidden), constants=["software.post"])
    assert found.machine[EAGER] == "32 KiB"
    assert give_back(found, hidden) == ["software.post"]


def test_imb_tells_the_same(tmp_path: Path) -> None:
    hidden = nw.machine("bxi-v2").set({"software.post": "220 ns"})
    latency, _ = written(tmp_path, hidden)
    found = [nw.calibrate("bxi-v2", [file], constants=["software.post"], eager_limit=False) for file in (latency, as_imb(latency))]
    assert give_back(found[1], hidden) == ["software.post"]
    assert found[0].machine == found[1].machine


def test_a_live_run_comes_back(tmp_path: Path, pingpong: Path) -> None:
    # The model replays traces; here the program runs.
    names = ["software.post", "software.completion", "link.host.bandwidth", "software.copy_bandwidth"]
    hidden = nw.machine("bxi-v2", nodes=2).set({name: HIDDEN[name] for name in names})
    (tmp_path / "pingpong.txt").write_text(nw.run([pingpong], ranks=2, machine=hidden, compute="none", quiet=True).stdout)
    found = nw.calibrate("bxi-v2", [tmp_path / "pingpong.txt"], constants=names, eager_limit=False)
    told = give_back(found, hidden)
    assert {"link.host.bandwidth", "software.copy_bandwidth"} <= set(told), found.text
    assert found.error(held_back=True) < 0.02


def test_what_cannot_be_fitted_is_said(tmp_path: Path) -> None:
    odd = tmp_path / "odd.txt"
    odd.write_text("# OSU MPI Bi-Directional Bandwidth Test\n1 2.0\n")
    other = tmp_path / "other.txt"
    other.write_text("# Something\n1 2.0\n")
    pings = tmp_path / "pings.txt"
    pings.write_text("# Benchmarking PingPing\n0 1000 9.9 0.0\n")
    few = tmp_path / "few.txt"
    few.write_text("# OSU MPI Latency Test v7.4\n# Size       Avg Latency(us)\n1    1.72\n")
    broken = []
    for number, row in enumerate(["64 nan", "64 fast", "-64 1.8", "64 -1.8", "64", "1e23 1.8", f"{10**23} 1.8", "64 1e23"]):
        broken.append((tmp_path / f"broken{number}.txt", row))
        broken[-1][0].write_text(f"# OSU MPI Latency Test v7.4\n# Size       Avg Latency(us)\n1    1.72\n{row}\n")
    imb = tmp_path / "imb.txt"
    imb.write_text("# Benchmarking PingPong\n#bytes #repetitions\n0 1000 1.9 0.0\n8 1000 nan 0.0\n# Benchmarking PingPing\n0 x\n")
    for files, options, message in [
        *(([file], {}, rf"{file}:4: found `{row}`; expected a size in bytes") for file, row in broken),
        ([imb], {}, r"imb.txt:4: found `8 nan`"),
        ([few], {"constants": ["nic.no_such_key"]}, "nic.no_such_key is 0 .not of this machine"),
        ([odd], {}, "osu_bibw is not fitted"),
        ([tmp_path / "absent"], {}, "No such file"),
        ([other], {}, "neither an output of osu_latency"),
        ([pings], {}, "no PingPong in this output of IMB"),
        ([few], {}, "too few for 10 constants"),
        ([few], {"constants": ["nic.match_base"]}, "nic.match_base is 0 ns"),
        ([few], {"constants": ["network.mtu"]}, "a time or a rate"),
    ]:
        with pytest.raises(nw.NarrowsError, match=message):
            nw.calibrate("bxi-v2", files, **options)
    done = subprocess.run([sys.executable, "-m", "narrows", "calibrate", str(odd)], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith(f"narrows: error: {odd}: osu_bibw")


def test_values_of_another_network_are_refused(tmp_path: Path) -> None:
    ethernet, machine = tmp_path / "ethernet.txt", tmp_path / "mine.toml"
    rows = "".join(f"{size} {170 + size / 1000:.2f}\n" for size in SIZES)
    ethernet.write_text(f"# OSU MPI Latency Test v7.5\n# Size       Avg Latency(us)\n{rows}")
    command = [sys.executable, "-m", "narrows", "calibrate", str(ethernet), "--constant", "link.host.latency", "-o", str(machine)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "explain these values (error " in done.stderr, done.stderr
    assert "held back" in done.stdout and not machine.exists()


def test_every_preset_is_a_base(tmp_path: Path) -> None:
    few = tmp_path / "few.txt"
    few.write_text("# OSU MPI Latency Test v7.4\n# Size       Avg Latency(us)\n1    1.72\n")
    point = _Point("latency", "latency", 8, 1.0, 0.01, False)
    for name in nw.presets():
        folder = tmp_path / name
        folder.mkdir()
        machine = nw.machine(name)
        if machine["machine.groups"]:
            with pytest.raises(nw.NarrowsError, match="give a machine of such nodes alone"):
                _Model(machine, [point], folder, None)
            continue
        assert math.exp(_Model(machine, [point], folder, None).log_values({})[0]) < 100
        with pytest.raises(nw.NarrowsError, match="too few for"):
            nw.calibrate(name, [few])
