"""Side by side: machines key by key, results number by number."""

from pathlib import Path

import pytest

import narrows as nw


def test_machines() -> None:
    base = nw.machine("bxi-v2", nodes=16)
    other = base.set({"link.host.bandwidth": "22.2 GB/s", "network.routing": "adaptive", "software.post": "101 ns"})
    found = nw.compare(base, other)
    rows = {row["key"]: row for row in found.table.to_rows()}
    assert set(rows) == {"link.host.bandwidth", "network.routing", "software.post"}
    assert (rows["link.host.bandwidth"]["a"], rows["link.host.bandwidth"]["b"]) == ("11.1 GB/s", "22.2 GB/s")
    assert (rows["link.host.bandwidth"]["ratio"], rows["software.post"]["ratio"], rows["network.routing"]["ratio"]) == (2.0, 0.5, None)
    assert found.text.endswith(f"3 differences, {found.equal} equal\n") and "B / A" in found.text.splitlines()[2]
    whole = nw.compare(base, other, all=True)
    assert len(whole.table) == found.equal + 3
    assert nw.compare(base, base).text == f"no difference in {len(whole.table)} values\n"


def test_results_by_their_folders(tmp_path: Path, small: nw.Machine) -> None:
    for name, load in [("a", 0.2), ("b", 0.4)]:
        nw.traffic("uniform", machine=small, load=load, warmup="2us", time="10us").save(tmp_path / name)
    found = nw.compare(tmp_path / "a", tmp_path / "b")
    ratios = dict(zip(found.table["key"], found.table["ratio"], strict=True))
    assert ratios["points.0.load"] == 2.0
    # What depends on this computer says nothing of the network.
    assert not any(key.startswith(("wall_s", "peak_rss")) for key in ratios)
    with pytest.raises(nw.NarrowsError, match="one of each"):
        nw.compare(tmp_path / "a", "bxi-v2")
    with pytest.raises(nw.NarrowsError, match="summary.json"):
        nw.compare(tmp_path, tmp_path / "a")
