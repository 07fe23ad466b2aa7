"""Reports in a real browser (Debian's Chromium, without a window): no error on the console, every picture drawn, nothing
wider than the window at 1280 and at 400 pixels.
"""

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tornado.websocket import websocket_connect

import narrows as nw

WIDTHS = [1280, 400]
# Of the page: pictures that are not drawn, the width of what is in it, and texts that are too small to read.
LOOK = """(() => ({
    address: location.href,
    broken: [...document.images].filter(image => !image.complete || image.naturalWidth === 0).length,
    images: document.querySelectorAll('svg').length,
    ground: getComputedStyle(document.body).backgroundColor,
    texts: Math.min(...[...document.querySelectorAll('svg text:not(.origin)')].map(one =>
        parseFloat(getComputedStyle(one).fontSize) * one.ownerSVGElement.clientWidth / one.ownerSVGElement.viewBox.baseVal.width)),
    colours: [...document.querySelectorAll('canvas')].map(one =>
        new Set(new Uint32Array(one.getContext('2d').getImageData(0, 0, one.width, one.height).data.buffer)).size),
    wide: document.documentElement.scrollWidth,
    cut: [...document.querySelectorAll('svg, canvas, h1, h2, p, dd, pre.command')]
        .filter(one => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1).length,
    size: Math.min(...[...document.querySelectorAll('p, td, th')].map(one => parseFloat(getComputedStyle(one).fontSize))),
}))()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where it listens."""
    program = shutil.which("chromium")
    assert program is not None, "scripts/setup.sh test installs Chromium"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0", "--no-first-run"]
    folder = tmp_path_factory.mktemp("browser")
    child = subprocess.Popen([program, *options, f"--user-data-dir={folder}", "about:blank"], stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    # It says where once it listens, and nothing of the kind if it cannot.
    said = []
    try:
        for line in child.stderr:
            said.append(line)
            found = re.match(r"DevTools listening on (ws://\S+)", line)
            if found:
                yield found[1]
                break
        else:
            pytest.fail("".join(said))
    finally:
        child.terminate()
        child.communicate()


async def look(address: str, page: Path, width: int, dark: bool = False) -> tuple[dict[str, Any], list[str]]:
    """What the page says of itself at a width, and the errors of the console."""
    connection = await websocket_connect(address, max_message_size=1 << 28, ping_interval=None)
    errors: list[str] = []
    number = loaded = 0

    def note(message: dict[str, Any]) -> None:
        nonlocal loaded
        parameters = message.get("params", {})
        loaded += message.get("method") == "Page.loadEventFired"
        if message.get("method") == "Runtime.exceptionThrown":
            errors.append(str(parameters["exceptionDetails"]))
        if message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            errors.append(str(parameters["entry"]))
        if message.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            errors.append(str(parameters["args"]))

    async def heard() -> dict[str, Any]:
        text = await connection.read_message()
        assert text is not None, "the browser has closed"
        message: dict[str, Any] = json.loads(text)
        note(message)
        return message

    async def ask(method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        nonlocal number
        number += 1
        request = {"id": number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        await connection.write_message(json.dumps(request))
        while True:
            message = await heard()
            if message.get("id") == number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result

    target = (await ask("Target.createTarget", url="about:blank"))["targetId"]
    session = (await ask("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
    for domain in ("Page", "Runtime", "Log"):
        await ask(f"{domain}.enable", session)
    await ask("Emulation.setDeviceMetricsOverride", session, width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    await ask("Emulation.setEmulatedMedia", session, features=scheme)
    before = loaded
    await ask("Page.navigate", session, url=page.as_uri())
    while loaded == before:
        await heard()
    found = await ask("Runtime.evaluate", session, expression=LOOK, returnByValue=True)
    assert found["result"]["value"]["address"] == page.as_uri()
    await ask("Target.closeTarget", targetId=target)
    connection.close()
    return found["result"]["value"], errors


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, small: nw.Machine, halo: Path) -> dict[str, Path]:
    """A report of each kind that needs no MPI."""
    folder = tmp_path_factory.mktemp("pages")
    loads = nw.traffic("uniform", machine=small, load=[0.2, 0.6], warmup="2us", time="20us", period="2us")
    replayed = nw.replay(halo, machine=nw.machine("bxi-v2", nodes=8), period="10us")
    study = nw.sweep(nw.traffic, grid={"load": [0.1, 0.2]}, out=folder / "study", warmup="2us", time="10us")
    study.run()
    timed = nw.replay(halo, machine=nw.machine("bxi-v2", nodes=8), timeline=folder / "halo.pftrace")
    reports = {"traffic": loads.report, "replay": replayed.report, "trace": nw.analyse(halo).report, "study": study.report}
    reports["timeline"] = timed.report
    reports["compare"] = nw.compare("bxi-v2", "bxi-v3").report
    written = {name: report(folder / f"{name}.html") for name, report in reports.items()}
    # The page of the command line.
    return {**written, "out": timed.save(folder / "out") / "report.html"}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ["traffic", "replay", "trace", "study", "timeline", "out", "compare"])
def test_a_report_is_readable(kind: str, width: int, browser: str, pages: dict[str, Path]) -> None:
    seen, errors = asyncio.run(look(browser, pages[kind], width))
    assert errors == [] and seen["broken"] == 0, (errors, seen)
    assert seen["wide"] <= width and seen["cut"] == 0, seen
    assert seen["size"] >= 11 and (seen["texts"] is None or seen["texts"] >= 7), seen
    assert seen["images"] > 0 or kind == "compare", seen
    # White, the times, the lines of the grid, and more than one kind of operation.
    assert [count >= 5 for count in seen["colours"]] == ([True] if kind in ("timeline", "out") else []), seen


def test_a_report_is_dark_where_the_reader_wants_that(browser: str, pages: dict[str, Path]) -> None:
    grounds = [asyncio.run(look(browser, pages["traffic"], 1280, dark))[0]["ground"] for dark in (False, True)]
    assert grounds == ["rgb(255, 255, 255)", "rgb(21, 24, 28)"]


def test_what_is_wrong_is_seen(browser: str, tmp_path: Path) -> None:
    page = tmp_path / "wrong.html"
    head, wide = "<meta name=viewport content=width=device-width>", "<p style='width:900px;font-size:8px'>wide</p>"
    page.write_text(f"{head}{wide}<img src='absent.png'><script>console.error('no'); absent()</script>")
    seen, errors = asyncio.run(look(browser, page, 400))
    assert seen["wide"] >= 900 and seen["cut"] == 1 and seen["size"] == 8 and seen["broken"] == 1
    assert len(errors) == 3 and any("absent is not defined" in error for error in errors), errors
