"""Presets beside what has been measured on such machines."""

import math
from pathlib import Path

import pytest

import narrows as nw
from narrows._calibration import _Model, _Point


def test_slingshot_beside_alps(tmp_path: Path) -> None:
    """What CSCS expects of osu_latency and osu_bw between two nodes of Alps, in host memory (github.com/eth-cscs/
    cscs-reframe-tests, checks/microbenchmarks/mpi/osu/osu_run.py): 2.3 us, 180 us, 24,000 MB/s. Nothing is fitted; CSCS
    itself takes up to 60 % and 15 % more time, and 15 % less bandwidth.
    """
    measured = [("latency", 256, 2.3), ("latency", 4 << 20, 180.0), ("bandwidth", 4 << 20, 24000.0)]
    points = [_Point(kind, kind, size, value, 0.01, False) for kind, size, value in measured]
    simulated = _Model(nw.machine("slingshot-11"), points, tmp_path, None).log_values({})
    for (kind, size, value), found in zip(measured, map(math.exp, simulated), strict=True):
        assert found == pytest.approx(value, rel=0.08), f"{kind} of {size} B"


@pytest.mark.parametrize(
    ("name", "gigabytes"),
    [
        ("slingshot-11", 25.0),
        ("slingshot-10", 12.5),
        ("ib-ndr", 50.0),
        ("ib-hdr", 25.0),
        ("ib-edr", 12.5),
        ("roce-400", 50.0),
        ("omni-path-100", 12.12),
    ],
)
def test_long_messages_take_the_rate_of_the_link_less_headers(name: str, gigabytes: float, tmp_path: Path) -> None:
    machine = nw.machine(name)
    packet, header = (float(machine[key].split()[0]) for key in ("network.mtu", "network.header"))
    packet *= 1024
    size = 4 << 20
    simulated = _Model(machine, [_Point("bw", "bandwidth", size, 1.0, 0.01, False)], tmp_path, None).log_values({})
    expected = 1000 * gigabytes * packet / (packet + header)
    # The window's first message and its answer: 64 messages of 4 MiB hide them.
    assert math.exp(simulated[0]) == pytest.approx(expected, rel=0.01)
