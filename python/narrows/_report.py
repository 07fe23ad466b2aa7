"""One HTML page of a result or a sweep: what was run, on what machine, the numbers, the pictures. Nothing is loaded from
elsewhere.
"""

import base64
import datetime
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows import _native

if TYPE_CHECKING:
    from narrows._results import Result, Table
    from narrows._sweep import Study

# Rows of a table on the page at most; the Parquet files have all.
ROWS = 200
# Calls of a timeline at most, and messages: a browser draws as many in a few hundredths of a second.
SLICES = 20_000

# A table that is wider than the window is moved, not cut; pictures shrink with it.
_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;max-width:860px;margin:2em auto;padding:0 1em;color:#222;background:#fff}
h1{font-size:1.5em}h2{font-size:1.15em;margin:1.6em 0 .4em}p{margin:.3em 0}.origin{font-size:.85em;color:#555}
.failed{color:#a40000;font-weight:600}
table{border-collapse:collapse;display:block;max-width:100%;overflow-x:auto}
td,th{padding:.2em .9em .2em 0;text-align:right;border-bottom:1px solid #eee;white-space:nowrap}
td:first-child,th:first-child{text-align:left}
img{width:100%;height:auto}figure{margin:0 0 1.2em}figcaption{color:#555}
pre{overflow-x:auto;background:#f6f6f6;padding:.6em;font-size:.85em}summary{cursor:pointer;padding:.3em 0}
@media(min-width:700px){.pictures{display:grid;grid-template-columns:1fr 1fr;gap:0 1.5em}}
@media print{details{display:none}}
"""

_CAPTIONS = {
    "throughput": "How much of the offered traffic arrives",
    "latency": "How long packets take",
    "completion": "How long messages take",
    "queues": "Packets that wait in switches",
    "queue_heatmap": "Where packets wait",
    "link_utilisation": "How busy the links are",
    "topology": "Where the network is busy",
    "communication": "Who sends what to whom",
    "ranks": "Where each rank's time went",
    "critical_path": "What the end had to wait for",
}


def of_result(result: "Result", path: str | os.PathLike[str], title: str | None) -> Path:
    summary = result.summary
    machine = summary.get("machine", {})
    about = str(summary.get("pattern") or summary.get("trace") or _words(summary.get("program") or summary.get("traces") or []))
    kinds = {"traffic": "Synthetic traffic", "replay": "Replay", "run": "Live run", "analysis": "Trace"}
    parts = []
    if summary.get("failure"):
        parts.append(f'<p class="failed">{escape(str(summary["failure"]))}</p>')
    parts.append(_numbers(summary))
    parts.append(_pictures(result))
    parts.append(_timeline(result))
    name, table = next(iter(result.tables.items()))
    parts.append(f"<h2>{escape(name)}</h2>{_table(table)}")
    if result.text:
        parts.append(f"<details><summary>What the command line prints</summary><pre>{escape(result.text)}</pre></details>")
    if machine:
        described = escape(str(machine.get("machine", {}).get("description", "")))
        text = escape(json.dumps(machine, indent=1))
        parts.append(f"<details><summary>The machine: {described}</summary><pre>{text}</pre></details>")
    of = [f"machine {machine['machine']['name']}"] if machine else []
    of += [f"seed {summary['seed']}"] if "seed" in summary else []
    return _write(path, title or f"{kinds[result.kind]}: {about}", of, parts)


def of_study(study: "Study", path: str | os.PathLike[str], title: str | None) -> Path:
    table = study.table
    done = len(study.points) - len(study.failures)
    parts = [f"<p>{len(study.points)} points, {done} of them done, {len(study.failures)} failed.</p>"]
    if study.failures:
        rows = [{"point": ", ".join(f"{name} {value}" for name, value in point.items()), "why": text} for point, text in study.failures]
        parts.append(f"<h2>Failed</h2>{_rows(rows[:ROWS])}")
    parts.append(f"<h2>Points</h2>{_table(table)}")
    return _write(path, title or f"Sweep: {study.function_name}", [], parts)


def _write(path: str | os.PathLike[str], title: str, of: Sequence[str], parts: Sequence[str]) -> Path:
    path = Path(path)
    origin = ", ".join([f"narrows {_native.__version__}", datetime.date.today().isoformat(), *of])
    body = "\n".join(parts)
    path.write_text(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>\n<h1>{escape(title)}</h1>\n"
        f'<p class="origin">{escape(origin)}</p>\n{body}\n</body></html>\n'
    )
    return path


def _pictures(result: "Result") -> str:
    from matplotlib import pyplot

    figures = []
    for name in result.plot.names():
        ax = getattr(result.plot, name)()
        drawn = io.BytesIO()
        ax.figure.savefig(drawn, format="svg", metadata={"Date": None})
        pyplot.close(ax.figure)
        # As a file of its own: names inside of pictures do not meet.
        source = base64.b64encode(drawn.getvalue()).decode()
        caption = escape(_CAPTIONS[name])
        image = f'<img alt="{caption}" src="data:image/svg+xml;base64,{source}">'
        figures.append(f'<figure id="{name}">{image}<figcaption>{caption}</figcaption></figure>')
    return f'<h2>Pictures</h2><div class="pictures">{"".join(figures)}</div>' if figures else ""


def _timeline(result: "Result") -> str:
    """Something to zoom, where there is a timeline."""
    if "calls" not in result.tables:
        return ""
    calls = sorted(result.calls.to_rows(), key=lambda row: float(row["begin_s"]))
    names = sorted({row["call"] for row in calls})
    places = {name: place for place, name in enumerate(names)}
    shown = [[row["rank"], places[row["call"]], *(1e9 * row[f"{of}_s"] for of in ("begin", "end", "waited"))] for row in calls[:SLICES]]
    end = calls[SLICES]["begin_s"] if len(calls) > SLICES else math.inf
    messages = [
        [
            row["from_rank"],
            row["to_rank"],
            1e9 * (row["begin_s"] if row["posted_s"] is None else row["posted_s"]),
            1e9 * row["tail_s"],
            row["bytes"],
        ]
        for row in result.transfers.to_rows()
        if row["from_rank"] >= 0 and row["kind"] != "ack" and row["tail_s"] is not None and row["begin_s"] < end
    ]
    part = f" The first {SLICES} of {len(calls)} calls." if len(calls) > SLICES else ""
    # A name cannot end the script.
    data = json.dumps({"names": names, "calls": shown, "messages": messages[:SLICES]}).replace("</", "<\\/")
    script = (Path(__file__).parent / "timeline.js").read_text()
    return (
        f"<h2>Timeline</h2><p>Wheel or buttons: nearer and further; drag to move.{part}</p>"
        f'<div id="timeline"></div><script>{script}timeline(document.getElementById("timeline"), {data});</script>'
    )


def _numbers(summary: Mapping[str, Any]) -> str:
    rows = []
    for name, value in summary.items():
        if isinstance(value, str | int | float) and name not in ("narrows", "version", "exit_code", "failure"):
            rows.append({"": name.removesuffix("_s").replace("_", " "), "value": _quantity(name, value)})
    return f"<h2>Numbers</h2>{_rows(rows)}"


def _quantity(name: str, value: Any) -> str:
    """With its unit, as the name says it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if name.endswith("_per_s"):
        return f"{value:,.0f} per second"
    if name.endswith("_s"):
        for unit, length in (("s", 1.0), ("ms", 1e-3), ("\N{MICRO SIGN}s", 1e-6), ("ns", 1e-9)):
            if abs(value) >= length:
                return f"{value / length:.3f} {unit}"
        return f"{value} s"
    if name.endswith("bytes"):
        for unit, length in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
            if value >= length:
                return f"{value / length:.2f} {unit}"
        return f"{value} bytes"
    return f"{value:,}" if isinstance(value, int) and name != "seed" else f"{value:g}"


def _words(words: Sequence[Any]) -> str:
    return " ".join(str(word) for word in words)


def _table(table: "Table") -> str:
    rows = table.to_arrow().slice(0, ROWS).to_pylist()
    more = f"<p>The first {ROWS} of {len(table)} rows.</p>" if len(table) > ROWS else ""
    return _rows(rows) + more


def _rows(rows: Sequence[Mapping[str, Any]]) -> str:
    def cell(value: Any) -> str:
        return "" if value is None else escape(f"{value:.6g}" if isinstance(value, float) else str(value))

    if not rows:
        return "<p>No rows.</p>"
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = "".join(f"<tr>{''.join(f'<td>{cell(value)}</td>' for value in row.values())}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
