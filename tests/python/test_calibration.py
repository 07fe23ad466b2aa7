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


def written(folder: Path, machine: nw.Machine, sizes: list[int] = SIZES) -> list[Path]:
    """osu_latency and osu_bw as they print."""
    points = [_Point(kind, kind, size, 1.0, 0.01, False) for kind in ("latency", "bandwidth") for size in sizes]
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


def files(folder: Path, latency: dict[int, float], bandwidth: dict[int, float] | None = None) -> list[Path]:
    """Tables of osu_latency and osu_bw."""
    found = []
    for title, rows in (("Latency Test v7.5\n# Size       Avg Latency(us)", latency), ("Bandwidth Test v7.5", bandwidth or {})):
        if rows:
            found.append(folder / f"osu{len(found)}.txt")
            found[-1].write_text(f"# OSU MPI {title}\n" + "".join(f"{size} {value:.2f}\n" for size, value in rows.items()))
    return found


# Of public outputs: Slingshot 11, InfiniBand with a step after 2 KiB, TCP over 1 Gb/s Ethernet.
SLINGSHOT = (
    {8: 3.07, 64: 3.01, 256: 4.43, 1024: 4.47, 4096: 4.79, 8192: 7.92, 32768: 9.48, 131072: 13.84, 524288: 30.05, 2097152: 94.94},
    {8: 7.07, 1024: 883.96, 4096: 3309.75, 16384: 12415.59, 524288: 23847.29, 1048576: 23940.59, 2097152: 23980.12},
)
STEP_AFTER_2KIB = {8: 3.26, 64: 3.21, 256: 3.3, 1024: 3.55, 2048: 3.75, 4096: 10.09, 8192: 11.12, 32768: 14.65, 131072: 29.5, 524288: 84.36}
ETHERNET = {1: 193.15, 64: 168.64, 1024: 234.99, 4096: 207.26, 16384: 383.89, 65536: 1204.28, 262144: 2974.59, 1048576: 9954.67}


def test_a_link_does_not_get_faster_than_its_lanes(tmp_path: Path) -> None:
    names = ["software.completion", "software.copy_bandwidth", "link.host.bandwidth", "node.pcie.data_bandwidth", "node.pcie.latency"]
    found = nw.calibrate("slingshot-11", files(tmp_path, *SLINGSHOT), constants=names)
    constants = {constant.name: constant for constant in found.constants}
    # The stream tends to 24.0 GB/s without headers.
    assert 23.5e9 < number(found.machine, "link.host.bandwidth") < 24.8e9, found.text
    assert constants["link.host.bandwidth"].high <= 25e9
    for name in ("software.copy_bandwidth", "node.pcie.data_bandwidth"):
        assert not constants[name].determined and constants[name].fitted == constants[name].base, found.text
        assert found.machine[name] == nw.machine("slingshot-11")[name] and f"{name} " in found.text
    assert "not determined: another stage is slower" in found.text
    assert found.error(held_back=False) < 0.1


def test_a_faster_link_than_the_base_has_is_for_the_user_to_say(tmp_path: Path) -> None:
    tables = files(tmp_path, *SLINGSHOT)
    names = ["software.completion", "link.host.bandwidth", "node.pcie.data_bandwidth"]
    pcie = ["node.pcie.bandwidth=31.5 GB/s", "node.pcie.data_bandwidth=28.8 GB/s"]
    slow = nw.calibrate("bxi-v2", tables, constants=names, fix=pcie)
    assert number(slow.machine, "link.host.bandwidth") <= 11.1e9
    assert any(note.startswith("link.host.bandwidth ends at the base's lanes (11.1 GB/s)") for note in slow.notes), slow.text
    given = nw.calibrate("bxi-v2", tables, constants=names, fix=[*pcie, "link.host.bandwidth=25GB/s"])
    assert given.machine["link.host.bandwidth"] == "25 GB/s" and [one.name for one in given.constants] == names[:1]
    assert given.error(held_back=False) < slow.error(held_back=False)
    with pytest.raises(nw.NarrowsError, match="fix: link.host.rate: no key of this machine"):
        nw.calibrate("bxi-v2", tables, fix=["link.host.rate=1"])


def test_the_step_lies_below_the_inject_limit(tmp_path: Path) -> None:
    names = ["software.post", "link.host.bandwidth", "node.pcie.latency"]
    found = nw.calibrate("bxi-v2", files(tmp_path, STEP_AFTER_2KIB), constants=names)
    assert (found.machine[EAGER], found.machine["message.inject_limit"]) == ("2 KiB", "2 KiB"), found.text
    assert "the protocol changes beyond 2048 B: 3.75 us at 2048 B, 10.09 us at 4096 B" in found.text
    assert found.error(held_back=False) < 0.08, found.text
    kept = nw.calibrate("bxi-v2", files(tmp_path, STEP_AFTER_2KIB), constants=names, fix=[EAGER])
    assert kept.machine[EAGER] == "8 KiB" and kept.error(held_back=False) > 0.1
    kept = nw.calibrate("bxi-v2", files(tmp_path, STEP_AFTER_2KIB), constants=names[:1], fix=["message.inject_limit"])
    assert kept.machine[EAGER] == "8 KiB" and "changes beyond 2048 B, which is below message.inject_limit (8 KiB)" in kept.text


def test_a_fit_that_ends_at_bounds_names_them(tmp_path: Path) -> None:
    machine, tables = tmp_path / "mine.toml", files(tmp_path, ETHERNET)
    command = [sys.executable, "-m", "narrows", "calibrate", str(tables[0]), "-o", str(machine)]
    names = ["software.post", "link.host.bandwidth", "link.host.latency"]
    done = subprocess.run([*command, *(f"--constant={name}" for name in names)], capture_output=True, text=True)
    assert done.returncode == 1 and not machine.exists()
    [bounds] = [line for line in done.stdout.splitlines() if line.startswith("at the bounds of what is tried: ")]
    assert "link.host.latency (30 times the base's)" in bounds and "link.host.bandwidth (a 30th of the base's)" in bounds
    error = done.stderr.splitlines()[-1]
    assert 'nearest as it is comes TCP over Ethernet (base = "example-cluster", nic.kind = "tcp", link.host.bandwidth = "1 Gb' in error, (
        error
    )
    # And that base fits.
    base = tmp_path / "base.toml"
    base.write_text('[machine]\nname = "tcp"\nbase = "example-cluster"\n[nic]\nkind = "tcp"\n[link.host]\nbandwidth = "1 Gbit/s"\n')
    found = nw.calibrate(base, tables, constants=["nic.tcp.message", "link.host.bandwidth"])
    assert found.error(held_back=False) < 0.2 and not any("bounds" in note for note in found.notes), found.text


def test_a_round_trip_holds(tmp_path: Path) -> None:
    changed = {
        "link.host.bandwidth": "8 GB/s",
        "message.inject_limit": "2 KiB",
        EAGER: "2 KiB",
        "software.post": "300 ns",
        "software.completion": "350 ns",
    }
    hidden = nw.machine("bxi-v2").set(changed)
    names = ["software.post", "software.completion", "link.host.bandwidth", "link.host.latency", "node.pcie.latency", "nic.put_occupancy"]
    found = nw.calibrate("bxi-v2", written(tmp_path, hidden, [8, 256, 1024, 2048, 4096, 8192, 32768, 524288, 1 << 20]), constants=names)
    assert (found.machine[EAGER], found.machine["message.inject_limit"]) == ("2 KiB", "2 KiB"), found.text
    determined = {constant.name for constant in found.constants if constant.determined}
    assert determined >= {"software.post", "software.completion", "link.host.bandwidth"}, found.text
    for constant in found.constants:
        if constant.determined:
            true = number(hidden, constant.name)
            near = abs(number(found.machine, constant.name) / true - 1) < 0.03
            assert near or constant.low <= true <= constant.high, f"{constant}\n{found.text}"
        else:
            assert constant.why and found.machine[constant.name] == nw.machine("bxi-v2")[constant.name]


def test_the_link_stays_where_the_bus_is_the_slowest(tmp_path: Path) -> None:
    hidden = nw.machine("bxi-v2").set({"node.pcie.data_bandwidth": "8 GB/s", "software.post": "300 ns"})
    names = ["software.post", "link.host.bandwidth", "node.pcie.data_bandwidth", "nic.dma_latency"]
    found = nw.calibrate("bxi-v2", written(tmp_path, hidden, [8, 256, 2048, 8192, 32768, 524288, 1 << 20]), constants=names)
    constants = {constant.name: constant for constant in found.constants}
    assert constants["link.host.bandwidth"].why == "another stage explains the rate of long messages better", found.text
    for name in ("software.post", "node.pcie.data_bandwidth"):
        assert abs(number(found.machine, name) / number(hidden, name) - 1) < 0.03, found.text
