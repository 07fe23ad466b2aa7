"""Reports: one page, nothing from elsewhere, every picture in it."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import narrows as nw

QUICK = {"warmup": "5us", "time": "20us"}
# Elements without an end.
VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """Elements that are closed in their order, texts, and what is loaded."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.texts: list[str] = []
        self.pictures = 0
        self.feed(path.read_text())
        self.close()
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("link", "iframe"), "nothing is loaded"
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]
        self.pictures += tag == "svg"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def check(path: Path, pictures: int) -> str:
    page = Page(path)
    assert page.sources == [] and page.pictures == pictures, (page.sources, page.pictures)
    assert "@import" not in path.read_text() and not re.search(r"url\((?!#)", path.read_text())
    text = " ".join(page.texts)
    # Words, not keys; numbers of few digits.
    assert not re.search(r"\b(crossings|apart|packet_hops|simulated_s)\b", text.split("The machine:")[0]), text
    assert not re.search(r"\d\.\d{7}", re.sub(r"<script.*?</script>", "", text.split("The machine:")[0], flags=re.S)), text
    return text


def test_reports_of_all_kinds(tmp_path: Path, halo: Path, pingpong: Path) -> None:
    traffic = nw.traffic("incast:3", machine=nw.machine("bxi-v2", nodes=4), load=[0.1, 0.4], period="2us", seed=7, **QUICK)
    text = check(traffic.report(tmp_path / "traffic.html"), len(traffic.pictures))
    for part in ("Synthetic traffic: incast:3", "machine bxi-v2, seed 7", traffic.digest, "Packets times links", "Busiest links"):
        assert part in text, part
    # The command that gives the same, and the simulated time with its unit.
    assert "narrows traffic incast:3 --machine=bxi-v2 --nodes=4 --load=0.1,0.4" in text
    assert re.search(r"Simulated time\s+\d+(\.\d+)? us", text), text
    replay = nw.replay(halo, machine=nw.machine("bxi-v2", nodes=8))
    text = check(replay.report(tmp_path / "replay.html"), 2)
    assert "Replay:" in text and "narrows sensitivity --replay" in text
    run = nw.run([pingpong, "64"], ranks=2, machine=nw.machine("bxi-v2", nodes=2), quiet=True)
    text = check(run.report(tmp_path / "run.html", title="<Mine> & yours"), 1)
    assert "Open MPI" in text and "Time per MPI function" in text and re.search(r"MPI_Recv.*pingpong(\.c:\d|\+0x)", text, re.S), text
    functions = {(row["function"], row["ranks"]) for row in run.functions.to_rows()}
    assert ("MPI_Finalize", 2) in functions, functions
    # What the command line writes is the same page, but for where it comes from.
    run.save(tmp_path / "saved")
    again = nw.load(tmp_path / "saved").report(tmp_path / "again.html", title="<Mine> & yours").read_text()
    without = re.compile(r"<h2>The same again</h2>.*?(?=</body>)|<details><summary>What the command line prints.*?</details>\n?", re.S)
    assert without.sub("", again) == without.sub("", (tmp_path / "run.html").read_text())
    assert "<h1>&lt;Mine&gt; &amp; yours</h1>" in (tmp_path / "run.html").read_text()
    trace = nw.analyse(halo)
    assert "Trace:" in check(trace.report(tmp_path / "trace.html"), len(trace.pictures) + 1)


def test_the_report_of_a_failure(tmp_path: Path) -> None:
    study = nw.sweep(nw.traffic, "shift:1", grid={"nodes": [4, 1]}, out=tmp_path, **QUICK)
    study.run()
    text = check(study.report(tmp_path / "study.html"), 0)
    assert "2 points, 1 of them done, 1 failed" in text and study.failures[0][1].split("\n")[0] in text


def test_of_a_network_that_is_saturated(tmp_path: Path, small: nw.Machine) -> None:
    # There are no completion times to draw, and a page nevertheless.
    result = nw.traffic("incast:3", machine=small, load=0.9, **QUICK)
    assert result.points["saturated"] == [1] and "completion" not in result.plot.names()
    assert "saturated from load 0.9 on" in " ".join(Page(result.report(tmp_path / "out.html")).texts)


def test_curves_of_a_sweep(tmp_path: Path) -> None:
    grid = {"load": [0.1, 0.2], "network.routing": ["d-mod-k", "adaptive"]}
    study = nw.sweep(nw.traffic, "shift:1", machine=nw.machine("bxi-v2", nodes=4), grid=grid, out=tmp_path / "out", **QUICK)
    study.run()
    page = Page(study.report(tmp_path / "study.html"))
    text = " ".join(page.texts)
    assert page.pictures >= 3 and "accepted against load" in text and "routing adaptive" in text, text


def test_what_needs_another_package_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, small: nw.Machine) -> None:
    result = nw.traffic("incast:3", machine=small, load=0.2, **QUICK)
    for package, extra, use in [
        ("matplotlib", "plot", lambda: result.plot.latency()),
        ("polars", "frames", lambda: result.points.to_polars()),
        ("pandas", "frames", lambda: result.points.to_pandas()),
        ("scipy", "calibrate", lambda: nw.calibrate("bxi-v2", [])),
    ]:
        with monkeypatch.context() as patch:
            patch.setitem(__import__("sys").modules, package, None)
            with pytest.raises(nw.NarrowsError, match=rf"needs the Python package {package}: pip install 'narrows\[{extra}\]'"):
                use()
            # A report needs none of them.
            assert json.dumps(result.summary) and result.report(tmp_path / "page.html").exists()
