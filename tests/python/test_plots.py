"""Pictures: what they show is what the tables say; axes have units, curves have names."""

import subprocess
from pathlib import Path

import matplotlib
import pytest

import narrows as nw

matplotlib.use("agg")
from matplotlib import pyplot  # noqa: E402

TORUS = {"topology.kind": "torus", "topology.lengths": [8, 8], "network.routing": "dimension-order", "network.virtual_channels": 2}
QUICK = {"warmup": "5us", "time": "20us"}


@pytest.fixture(scope="module")
def sweep() -> nw.Result:
    return nw.traffic("uniform", machine=nw.machine("8-ary-2-tree"), load=[0.2, 0.6, 1.0], **QUICK)


@pytest.fixture(scope="module")
def watched() -> nw.Result:
    machine = nw.machine("8-ary-2-tree")
    return nw.traffic(
        "incast:20", machine=machine, load=[0.02, 0.05], classes=["name=others pattern=uniform load=0.3"], period="2us", **QUICK
    )


@pytest.fixture(autouse=True)
def closed() -> object:
    yield
    pyplot.close("all")


def test_each_kind_has_its_pictures(tmp_path: Path, sweep: nw.Result, watched: nw.Result, halo: Path, pingpong: Path) -> None:
    replayed = nw.replay(halo, machine=nw.machine("bxi-v2", nodes=8))
    ran = nw.run([pingpong, "64"], ranks=2, machine=nw.machine("bxi-v2", nodes=2), quiet=True)
    expected = [
        (sweep, ["throughput", "latency", "completion"]),
        (watched, ["throughput", "latency", "completion", "queues", "queue_heatmap", "link_utilisation", "topology"]),
        (replayed, ["completion"]),
        (ran, ["ranks"]),
        (nw.analyse(halo), ["communication"]),
    ]
    for index, (result, names) in enumerate(expected):
        assert result.plot.names() == names
        files = result.plot.save(tmp_path / str(index))
        assert [file.stem for file in files] == names and all(file.stat().st_size > 5000 for file in files)
        for name in names:
            ax = getattr(result.plot, name)()
            # A drawn network has no axes.
            assert ax.get_title() and (name == "topology" or (ax.get_xlabel() and ax.get_ylabel()))
            # A quantity has its unit; numbers of ranks, switches and packets, and fractions, have none.
            texts = [ax.get_xlabel(), *(other.get_ylabel() for other in ax.figure.axes)]
            assert any("(" in text for text in texts), texts
            assert ax.get_legend() is not None or len(ax.figure.axes) == 2, "a legend, or a bar of colours"
    with pytest.raises(nw.NarrowsError, match='period="1us" gives it'):
        sweep.plot.queue_heatmap()
    with pytest.raises(nw.NarrowsError, match="a picture of run, and this is traffic"):
        sweep.plot.ranks()


def test_curves_are_those_of_the_table(sweep: nw.Result) -> None:
    curves = {line.get_label(): line for line in sweep.plot.throughput().get_lines()}
    assert curves["uniform"].get_xdata().tolist() == sweep.points["load"]
    assert curves["uniform"].get_ydata().tolist() == sweep.points["accepted"]
    # The saturated point, and no other, is marked.
    saturated = [load for load, full in zip(sweep.points["load"], sweep.points["saturated"], strict=True) if full]
    assert saturated == [1.0] == curves["saturated"].get_xdata().tolist()
    ax = sweep.plot.latency()
    assert ax.get_ylabel() == "packet latency (µs)"
    curves = {line.get_label(): line for line in ax.get_lines()}
    assert curves["mean"].get_ydata().tolist() == pytest.approx([ns / 1000 for ns in sweep.points["latency_mean_ns"][:2]])
    assert curves["saturated from 1 on"].get_xdata() == [1.0, 1.0]


def test_a_heat_map_holds_what_waits(watched: nw.Result) -> None:
    (image,) = watched.plot.queue_heatmap().get_images()
    rows = [row for row in watched.queues.to_rows() if row["load"] == 0.05]
    assert float(image.get_array().sum()) == pytest.approx(sum(row["mean_packets"] for row in rows))
    hottest = max(range(image.get_array().shape[0]), key=lambda line: float(image.get_array()[line].sum()))
    assert hottest == 0, "the incast goes to node 0, below the first switch"
    busy = watched.plot.link_utilisation()
    assert {label.get_text() for label in busy.get_yticklabels()} == set(watched.links["stage"])
    stacked = watched.plot.queues()
    assert stacked.get_ylim()[1] > 0 and len(stacked.get_legend().get_texts()) == len(set(watched.queues["stage"]))


def test_more_than_a_picture_can_show(tmp_path: Path) -> None:
    narrows = nw._studies.binary()
    trace = tmp_path / "many.vef"
    subprocess.run([narrows, "generate", "halo3d", "--ranks", "600", "--steps", "1", "-o", trace], check=True, capture_output=True)
    result = nw.analyse(trace)
    ax = result.plot.communication()
    cells = ax.get_images()[0].get_array()
    assert cells.shape == (200, 200) and "3 x 3 ranks per cell" in ax.figure.axes[1].get_ylabel()
    unit = {"MiB": 2**20, "KiB": 2**10}[ax.figure.axes[1].get_ylabel().removeprefix("sent (")[:3]]
    assert float(cells.sum()) * unit == pytest.approx(sum(result.pairs["bytes"]))


def test_curves_are_told_apart_without_colours() -> None:
    from narrows import _plots

    styles = [_plots._style(index) for index in range(7)]
    assert len({style["color"] for style in styles}) == len({style["marker"] for style in styles}) == 7
    assert all(one["linestyle"] != other["linestyle"] for one, other in zip(styles, styles[1:], strict=False))


def test_curves_of_a_sweep(tmp_path: Path) -> None:
    grid = {"load": [0.2, 0.5], "network.routing": ["d-mod-k", "adaptive"]}
    study = nw.sweep(nw.traffic, "permutation", machine="8-ary-2-tree", grid=grid, repeats=3, out=tmp_path, **QUICK)
    table = study.run()
    ax = study.plot("load", "latency_mean_ns", by="network.routing")
    curves = {line.get_label(): line for line in ax.get_lines()}
    assert list(curves)[:2] == ["d-mod-k", "adaptive"] and len(ax.collections) == 2, "a curve and a band for each"
    # Two of three random permutations saturate d-mod-k at this load: their latency says nothing, and that is marked.
    full = [row for row in table.to_rows() if row["latency_mean_ns"] is None]
    assert {(row["network.routing"], row["load"]) for row in full} == {("d-mod-k", 0.5)} and 0 < len(full) < 3
    assert list(curves["not all repeats (saturated or failed)"].get_xdata()) == [0.5]
    rows = [row for row in table.to_rows() if row["network.routing"] == "adaptive" and row["load"] == 0.2]
    mean = sum(row["latency_mean_ns"] for row in rows) / 3
    assert ax.get_ylabel() == "latency mean (µs)" and curves["adaptive"].get_ydata()[0] == pytest.approx(mean / 1000)
    ax.figure.savefig(tmp_path / "sweep.png")
    with pytest.raises(nw.NarrowsError, match="latency: the columns are"):
        study.plot("load", "latency")


@pytest.mark.parametrize(("name", "nodes", "rows"), [("8-ary-2-tree", None, 2), ("dragonfly-342", None, None), ("torus", 64, 8)])
def test_a_network_is_drawn_as_it_is(name: str, nodes: int | None, rows: int | None) -> None:
    machine = nw.machine(name, nodes=nodes) if nodes is None else nw.machine("bxi-v2", nodes=nodes).set(TORUS)
    result = nw.traffic("uniform", machine=machine, load=0.3, period="5us", warmup="2us", time="10us")
    places = result.switches.to_rows()
    cables = {frozenset((row["from"], row["to"])) for row in result.links.to_rows() if row["stage"] not in ("from hosts", "to hosts")}
    ax = result.plot.topology()
    (lines,) = (one for one in ax.collections if type(one).__name__ == "LineCollection")
    assert len(lines.get_segments()) == len(cables) > 0
    # Cables that close the 16 rings of the torus do not hide behind the others.
    assert sum(len(line) > 2 for line in lines.get_segments()) == (16 if name == "torus" else 0)
    if rows is not None:
        assert len({row["y"] for row in places}) == rows
    else:
        # Groups stand on a circle, apart from each other.
        groups = {row["group"] for row in places}
        middles = [tuple(sum(row[of] for row in places if row["group"] == group) for of in "xy") for group in groups]
        assert len(set(middles)) == len(groups) == 19
    utilisation = {row["link"]: 0.0 for row in result.links.to_rows()}
    periods = len({row["time_ns"] for row in result.links.to_rows()})
    for row in result.links.to_rows():
        if row["stage"] not in ("from hosts", "to hosts"):
            utilisation[row["link"]] += 100 * row["utilisation"] / periods
    assert float(max(lines.get_array())) == pytest.approx(max(utilisation.values()))


def test_speed_up_is_that_of_the_times(tmp_path: Path) -> None:
    # Amdahl: a tenth does not get faster.
    study = nw.sweep(amdahl, grid={"ranks": [1, 2, 4, 8]}, out=tmp_path)
    study.run()
    (_, curve) = study.plot_speedup().get_lines()
    assert curve.get_ydata().tolist() == pytest.approx([1 / (0.1 + 0.9 / ranks) for ranks in (1, 2, 4, 8)])
    (_, curve) = study.plot_speedup(efficiency=True).get_lines()
    assert curve.get_ydata().tolist() == pytest.approx([1 / (0.1 * ranks + 0.9) for ranks in (1, 2, 4, 8)])
    with pytest.raises(nw.NarrowsError, match="nodes: the columns are"):
        study.plot_speedup("nodes")


def amdahl(ranks: int, seed: int = 1) -> dict[str, float]:
    return {"simulated_s": 0.1 + 0.9 / ranks}
