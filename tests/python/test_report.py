"""Reports: one page, nothing from elsewhere, every picture in it."""

import base64
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import matplotlib

import narrows as nw

matplotlib.use("agg")
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
        self.ids: list[str] = []
        self.feed(path.read_text())
        self.close()
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "iframe"), "nothing is run or loaded"
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def check(path: Path, pictures: list[str]) -> str:
    page = Page(path)
    assert page.ids == pictures and len(page.sources) == len(pictures)
    for source in page.sources:
        kind, content = source.split(",", 1)
        assert kind == "data:image/svg+xml;base64"
        picture = ElementTree.fromstring(base64.b64decode(content))
        assert picture.tag.endswith("svg") and len(list(picture.iter())) > 50, "it is drawn"
        links = [value for element in picture.iter() for name, value in element.items() if name.endswith("href")]
        outside = [value for value in links if not value.startswith(("#", "data:"))]
        assert not outside, outside
    assert "@import" not in path.read_text() and not re.search(r"url\((?!#)", path.read_text())
    return " ".join(page.texts)


def test_reports_of_all_kinds(tmp_path: Path, halo: Path, pingpong: Path) -> None:
    traffic = nw.traffic("incast:3", machine=nw.machine("bxi-v2", nodes=4), load=[0.1, 0.4], period="2us", seed=7, **QUICK)
    text = check(traffic.report(tmp_path / "traffic.html"), traffic.plot.names())
    for part in ("Synthetic traffic: incast:3", "machine bxi-v2, seed 7", traffic.digest, "packet hops", "accepted"):
        assert part in text, part
    # Simulated time with its unit.
    assert f"{1e6 * traffic.simulated_s:.3f} µs" in text
    replay = nw.replay(halo, machine=nw.machine("bxi-v2", nodes=8))
    assert "Replay:" in check(replay.report(tmp_path / "replay.html"), ["completion"])
    run = nw.run([pingpong, "64"], ranks=2, machine=nw.machine("bxi-v2", nodes=2), quiet=True)
    assert "Open MPI" in check(run.report(tmp_path / "run.html", title="<Mine> & yours"), ["ranks"])
    assert "<h1>&lt;Mine&gt; &amp; yours</h1>" in (tmp_path / "run.html").read_text()
    assert "Trace:" in check(nw.analyse(halo).report(tmp_path / "trace.html"), ["communication"])


def test_the_report_of_a_failure(tmp_path: Path) -> None:
    study = nw.sweep(nw.traffic, "shift:1", grid={"nodes": [4, 1]}, out=tmp_path, **QUICK)
    study.run()
    text = check(study.report(tmp_path / "study.html"), [])
    assert "2 points, 1 of them done, 1 failed" in text and study.failures[0][1].split("\n")[0] in text


def test_of_a_network_that_is_saturated(tmp_path: Path, small: nw.Machine) -> None:
    # There are no completion times to draw, and a page nevertheless.
    result = nw.traffic("incast:3", machine=small, load=0.9, **QUICK)
    assert result.points["saturated"] == [1] and "completion" not in result.plot.names()
    Page(result.report(tmp_path / "out.html"))
