"""Pictures of results, by matplotlib. Colours are those of Okabe and Ito, and "cividis" for heat maps: readable by the
colour-blind and in grey; curves differ by marker and dashes too.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from narrows import _native
from narrows._native import NarrowsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from narrows._results import Result

# M. Okabe, K. Ito: Color Universal Design, 2008; without its yellow, which is hard to see on white.
COLOURS, _roles = _native.colours()
# What ranks do with their time: the same colours as in reports.
ROLES = dict(_roles)
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
DASHES = ["-", "--", "-.", ":"]
HEAT = "cividis"
# Points of a curve over time at most: more periods share one, with their mean.
POINTS = 400
# Rows and columns of a heat map at most: more share a cell.
CELLS = 256


class Plots:
    """Pictures of a result: ``result.plot.throughput()``. Each draws into ``ax`` (new axes where it is None) and returns
    the axes. Raises NarrowsError where the result lacks what the picture shows.
    """

    def __init__(self, result: "Result") -> None:
        self._result = result

    def names(self) -> list[str]:
        """Those that this result has."""
        found = []
        for name, (tables, kind) in _NEEDS.items():
            if name == "completion" and self._result.kind == "replay":
                tables, kind = ("fct",), None
            has = (kind is None or kind == self._result.kind) and all(len(self._result.tables.get(table, ())) > 0 for table in tables)
            # A part of a run has no path to its end.
            has = has and (name != "critical_path" or self._whole())
            if has and (name != "completion" or self._result.kind == "replay" or self._settled()):
                found.append(name)
        return found

    def _settled(self) -> list[dict[str, Any]]:
        """Completion times of the points that are not saturated: of others they only say how long one has looked."""
        return [row for row in self._result.histograms.to_rows() if row["kind"] == "fct" and not row["saturated"]]

    def _whole(self) -> bool:
        """The timeline is that of all of the run."""
        timeline = self._result.summary.get("timeline") or {}
        return timeline.get("ended_s") is None and not timeline.get("from_s") and timeline.get("to_s") is None

    def throughput(self, ax: "Axes | None" = None) -> "Axes":
        """Accepted traffic against load; a cross marks each saturated point."""
        rows = self._rows("throughput")
        ax = _axes(ax)
        most = max(row["load"] for row in rows)
        classes = _by(rows, "class")
        if len(classes) == 1:
            ax.plot([0, most], [0, most], color="0.75", linewidth=1, label="all that is offered", zorder=1)
        for index, (name, points) in enumerate(classes):
            ax.plot(_column(points, "load"), _column(points, "accepted"), **_style(index), label=name)
        _mark_saturated(ax, rows, "accepted")
        ax.set(
            xlabel="load (fraction of injection bandwidth)",
            ylabel="accepted (fraction of injection bandwidth)",
            xlim=(0, None),
            ylim=(0, None),
        )
        return _finish(ax, "Throughput")

    def latency(self, ax: "Axes | None" = None) -> "Axes":
        """Packet latency against load: mean, and 99 % of packets; a dotted line marks where saturation begins."""
        rows = self._rows("latency")
        ax = _axes(ax)
        calm = [row for row in rows if row["latency_mean_ns"] is not None]
        unit, factor = _time_unit([row["latency_p99_ns"] for row in calm])
        classes = _by(rows, "class")
        for index, (name, points) in enumerate(classes):
            points = [row for row in points if row["latency_mean_ns"] is not None]
            for column, what, line in (("latency_mean_ns", "mean", "-"), ("latency_p99_ns", "99 %", "--")):
                label = what if len(classes) == 1 else f"{name}, {what}"
                style = {**_style(index), "linestyle": line}
                ax.plot(_column(points, "load"), [value * factor for value in _column(points, column)], **style, label=label)
        first = min((row["load"] for row in rows if row["saturated"]), default=None)
        if first is not None:
            ax.axvline(first, color="0.3", linestyle=":", label=f"saturated from {first:g} on")
        ax.set(xlabel="load (fraction of injection bandwidth)", ylabel=f"packet latency ({unit})", xlim=(0, None), ylim=(0, None))
        return _finish(ax, "Latency")

    def completion(self, ax: "Axes | None" = None) -> "Axes":
        """Distribution of the completion times of messages, per load and class, or per application."""
        if self._result.kind == "replay":
            named = [(str(name), rows) for name, rows in _by(self._result.fct.to_rows(), "application")]
        else:
            self._need("completion")
            rows = self._settled()
            loads, classes = {row["load"] for row in rows}, {row["class"] for row in rows}

            def label(load: float | None, name: str) -> str:
                parts = ([f"load {load:g}"] if len(loads) > 1 and load is not None else []) + ([name] if len(classes) > 1 else [])
                return ", ".join(parts) or name

            named = [(label(load, name), points) for load, of in _by(rows, "load") for name, points in _by(of, "class")]
        if not named:
            raise NarrowsError("completion: every point is saturated, and its times only say how long one has looked")
        # Curves beyond what can be told apart: evenly many of them.
        step = math.ceil(len(named) / (2 * len(COLOURS)))
        ax = _axes(ax)
        unit, factor = _time_unit([row["up_to_ns"] for _, points in named for row in points])
        for index, (name, points) in enumerate(named[::step]):
            times = [points[0]["up_to_ns"], *_column(points, "up_to_ns")]
            style: dict[str, Any] = {"color": COLOURS[index % len(COLOURS)], "linestyle": DASHES[index // len(COLOURS) % len(DASHES)]}
            ax.step([time * factor for time in times], [0, *_column(points, "cdf")], where="post", **style, label=name)
        ax.set(xlabel=f"completion time ({unit})", ylabel="fraction of messages", xscale="log", ylim=(0, 1.01))
        _plain_ticks(ax)
        return _finish(ax, "Completion times", legend="lower right")

    def queues(self, ax: "Axes | None" = None) -> "Axes":
        """Packets that wait in switches over time, stacked by the stage that they wait for (of the highest load)."""
        rows, times = self._over_time("queues")
        stages = sorted({row["stage"] for row in rows})
        wide = math.ceil(len(times) / POINTS)
        sums = {stage: [0.0] * math.ceil(len(times) / wide) for stage in stages}
        for row in rows:
            sums[row["stage"]][(round(row["time_ns"] / times[0]) - 1) // wide] += row["mean_packets"] / wide
        times = [times[min(end, len(times)) - 1] for end in range(wide, len(times) + wide, wide)]
        ax = _axes(ax)
        unit, factor = _time_unit(times)
        colours = [COLOURS[index % len(COLOURS)] for index in range(len(stages))]
        hatches = ["", "//", "..", "\\\\", "xx", "oo"]
        drawn = ax.stackplot([time * factor for time in times], *sums.values(), labels=stages, colors=colours, alpha=0.85)
        for index, area in enumerate(drawn):
            area.set(hatch=hatches[index % len(hatches)], edgecolor="white", linewidth=0)
        ax.set(xlabel=f"simulated time ({unit})", ylabel="packets that wait", xlim=(0, None), ylim=(0, None))
        return _finish(ax, self._at_load("Queues by stage"))

    def queue_heatmap(self, ax: "Axes | None" = None) -> "Axes":
        """Packets that wait in each switch over time (of the highest load)."""
        rows, times = self._over_time("queue_heatmap")
        switches = sorted({row["from"] for row in rows}, key=_natural)
        cells = _cells(rows, times, switches, "from", lambda row: float(row["mean_packets"]), "sum")
        return self._heat(ax, cells, times, switches, "Queues of switches", "packets that wait")

    def link_utilisation(self, ax: "Axes | None" = None) -> "Axes":
        """How busy each link is over time, links of one stage beside each other (of the highest load)."""
        rows, times = self._over_time("link_utilisation")
        links = sorted({(row["stage"], row["link"]) for row in rows})
        for row in rows:
            row["place"] = (row["stage"], row["link"])
        cells = _cells(rows, times, links, "place", lambda row: 100 * float(row["utilisation"]), "mean")
        stages = [stage for stage, _ in links]
        ax = self._heat(ax, cells, times, links, "Use of links", "busy (%)")
        # Where a stage begins.
        begins = [index for index, stage in enumerate(stages) if index == 0 or stages[index - 1] != stage]
        middles = [(begin + end) / 2 for begin, end in zip(begins, [*begins[1:], len(stages)], strict=True)]
        ax.set_yticks(middles, [stages[begin] for begin in begins])
        for begin in begins[1:]:
            ax.axhline(begin, color="white", linewidth=0.8)
        ax.set_ylabel("links, by stage")
        return ax

    def topology(self, ax: "Axes | None" = None) -> "Axes":
        """How busy the links between switches are, on the drawn network: fat trees in rows, groups of dragonflies on a
        circle, tori and HyperX on a grid. Of the two directions of a cable, and of parallel ones, the busiest counts;
        means over the time that was looked at (of the highest load). A switch shows the busiest link of its nodes.
        """
        self._need("topology")
        from matplotlib.collections import LineCollection
        from matplotlib.colors import Normalize

        places = {row["switch"]: (row["x"], row["y"]) for row in self._result.switches.to_rows()}
        rows, times = self._over_time("topology")
        sums: dict[tuple[str, str, int], float] = {}
        for row in rows:
            link = row["from"], row["to"], row["link"]
            sums[link] = sums.get(link, 0.0) + 100 * row["utilisation"] / len(times)
        cables: dict[tuple[str, str], float] = {}
        nodes = dict.fromkeys(places, 0.0)
        for (one, other, _), busy in sums.items():
            if one in places and other in places:
                pair = min(one, other), max(one, other)
                cables[pair] = max(busy, cables.get(pair, 0.0))
            else:
                switch = one if one in places else other
                nodes[switch] = max(busy, nodes[switch])
        ax = _axes(ax, square=True)
        # The busiest are drawn last, and wider: seen in grey too.
        order = sorted(cables, key=lambda pair: cables[pair])
        busiest = max([1e-9, *cables.values(), *nodes.values()])
        shade, colours = Normalize(0, busiest), HEAT + "_r"
        lines = LineCollection(
            _cables(places, order),
            array=[cables[pair] for pair in order],
            cmap=colours,
            norm=shade,
            linewidths=[0.5 + 3 * cables[pair] / busiest for pair in order],
        )
        ax.add_collection(lines)
        size = max(4.0, min(90.0, 4000.0 / len(places)))
        dots: dict[str, Any] = {"cmap": colours, "norm": shade, "edgecolors": "black", "linewidths": 0.6, "zorder": 3, "s": size}
        across, up = zip(*places.values(), strict=True)
        ax.scatter(across, up, c=[nodes[switch] for switch in places], **dots)
        ax.figure.colorbar(lines if order else ax.collections[-1], ax=ax, label="busy (%); dots: switches, links of nodes")
        ax.set_aspect("equal", adjustable="datalim")
        ax.set_axis_off()
        return _finish(ax, self._at_load("Use of links on the network"), legend=None)

    def communication(self, ax: "Axes | None" = None) -> "Axes":
        """Bytes from each rank to each other one (of :func:`narrows.analyse`)."""
        self._need("communication")
        rows = self._result.pairs.to_rows()
        ranks = len(self._result.ranks)
        group = math.ceil(ranks / CELLS)
        size = math.ceil(ranks / group)
        cells = [[0.0] * size for _ in range(size)]
        for row in rows:
            cells[row["source"] // group][row["destination"] // group] += row["bytes"]
        unit, factor = _size_unit([value for line in cells for value in line])
        ax = _axes(ax, square=True)
        from matplotlib.colors import LogNorm

        shown = [[value * factor if value > 0 else math.nan for value in line] for line in cells]
        values = [value for line in shown for value in line if value > 0]
        norm = LogNorm(min(values), max(values)) if values and max(values) > 100 * min(values) else None
        edge = -0.5, size * group - 0.5
        image = ax.imshow(
            shown, origin="lower", cmap=HEAT, norm=norm, vmin=None if norm else 0, extent=(*edge, *edge), interpolation="nearest"
        )
        ax.set_facecolor("white")
        ax.figure.colorbar(
            image, ax=ax, label=f"sent ({unit}{'' if group == 1 else f', {group} x {group} ranks per cell'}); white: nothing"
        )
        ax.set(xlabel="to rank", ylabel="from rank")
        _whole_ticks(ax, "xy")
        return _finish(ax, "Communication", legend=None)

    def ranks(self, ax: "Axes | None" = None) -> "Axes":
        """Where each rank's simulated time went: computing, MPI software, waiting."""
        self._need("ranks")
        rows = self._result.ranks.to_rows()
        group = math.ceil(len(rows) / CELLS)
        groups = [rows[begin : begin + group] for begin in range(0, len(rows), group)]
        parts = {"computing": "computing_s", "MPI software": "mpi_s", "waiting": "waiting_s"}
        means = {name: [sum(_column(of, column)) / len(of) for of in groups] for name, column in parts.items()}
        unit, factor = _time_unit([1e9 * sum(values) for values in zip(*means.values(), strict=True)])
        ax = _axes(ax)
        below = [0.0] * len(groups)
        for (name, values), colour, hatch in zip(means.items(), map(ROLES.__getitem__, means), ("", "//", ".."), strict=True):
            heights = [1e9 * factor * value for value in values]
            places = [begin * group for begin in range(len(groups))]
            ax.bar(
                places, heights, group * (0.9 if len(groups) < 100 else 1), below, color=colour, hatch=hatch, edgecolor="white", label=name
            )
            below = [low + height for low, height in zip(below, heights, strict=True)]
        ax.set(xlabel="rank" if group == 1 else f"rank (means of {group})", ylabel=f"simulated time ({unit})")
        # Above the bars, which fill the picture.
        ax.set_ylim(0, 1.18 * max(below))
        _whole_ticks(ax)
        return _finish(ax, "Where the time went", legend="upper center", columns=3)

    def critical_path(self, ax: "Axes | None" = None) -> "Axes":
        """What the end had to wait for, from rank to rank over time (of a result with a timeline)."""
        self._need("critical_path")
        rows = self._result.critical_path().to_rows()
        total = sum(row["end_s"] - row["begin_s"] for row in rows)
        unit, factor = _time_unit([1e9 * rows[-1]["end_s"]])
        ax = _axes(ax)
        styles: dict[str, tuple[str, str, float]] = {
            "computing": (ROLES["computing"], "-", 5),
            "MPI software": (ROLES["MPI software"], "-", 5),
            "message": (ROLES["message"], "--", 1.5),
        }
        for what, (colour, dashes, width) in styles.items():
            of = [row for row in rows if row["what"] == what]
            share = 100 * sum(row["end_s"] - row["begin_s"] for row in of) / total
            # One curve with gaps.
            times = [value for row in of for value in (1e9 * factor * row["begin_s"], 1e9 * factor * row["end_s"], math.nan)]
            ranks = [value for row in of for value in (row["rank"], row["to_rank"], math.nan)]
            ax.plot(times, ranks, color=colour, linestyle=dashes, linewidth=width, solid_capstyle="butt", label=f"{what} ({share:.1f} %)")
        ax.set(xlabel=f"simulated time ({unit})", ylabel="rank", xlim=(0, None))
        _whole_ticks(ax, "y")
        return _finish(ax, "Critical path")

    def save(self, folder: Any, kind: str = "png") -> list[Any]:
        """Draws all that this result has into files of a folder: "png", "svg" or "pdf"."""
        from pathlib import Path

        from matplotlib import pyplot

        Path(folder).mkdir(parents=True, exist_ok=True)
        written = []
        for name in self.names():
            ax = getattr(self, name)()
            written.append(Path(folder, f"{name}.{kind}"))
            ax.figure.savefig(written[-1], dpi=150)
            pyplot.close(ax.figure)
        return written

    def _need(self, name: str) -> None:
        tables, kind = _NEEDS[name]
        if kind is not None and kind != self._result.kind:
            raise NarrowsError(f"{name}: a picture of {kind}, and this is {self._result.kind}")
        for table in tables:
            if table not in self._result.tables:
                option = 'timeline="FILE"' if table in ("calls", "transfers") else 'period="1us"'
                raise NarrowsError(f"{name}: the result has no table {table}; {option} gives it")
            if not len(self._result.tables[table]):
                raise NarrowsError(f"{name}: the table {table} is empty")

    def _rows(self, name: str) -> list[dict[str, Any]]:
        self._need(name)
        rows = [row for row in self._result.points.to_rows() if row["load"] is not None]
        if not rows:
            raise NarrowsError(f"{name}: this traffic has no loads")
        return rows

    def _over_time(self, name: str) -> tuple[list[dict[str, Any]], list[float]]:
        self._need(name)
        rows = self._result.tables[_NEEDS[name][0][0]].to_rows()
        loads = [row["load"] for row in rows if row.get("load") is not None]
        if loads:
            rows = [row for row in rows if row["load"] == max(loads)]
        ends = sorted({row["time_ns"] for row in rows})
        # Periods in which nothing waits have no rows.
        length = min([ends[0], *(after - before for before, after in zip(ends, ends[1:], strict=False))])
        return rows, [length * (index + 1) for index in range(round(ends[-1] / length))]

    def _at_load(self, title: str) -> str:
        points = self._result.tables.get("points")
        loads = [] if points is None else [load for load in points["load"] if load is not None]
        return f"{title}, load {max(loads):g}" if loads else title

    def _heat(
        self,
        ax: "Axes | None",
        cells: list[list[float]],
        times: list[float],
        rows: Sequence[Any],
        title: str,
        label: str,
        most: float | None = None,
    ) -> "Axes":
        ax = _axes(ax)
        unit, factor = _time_unit(times)
        highest = max(1e-9, max(value for line in cells for value in line))
        extent = (0, times[-1] * factor, 0, len(rows))
        image = ax.imshow(cells, origin="lower", aspect="auto", cmap=HEAT, vmin=0, vmax=highest, extent=extent, interpolation="nearest")
        ax.figure.colorbar(image, ax=ax, label=label)
        ax.set(xlabel=f"simulated time ({unit})", ylabel="switch")
        step = math.ceil(len(rows) / 12)
        places = range(0, len(rows), step)
        ax.set_yticks([place + 0.5 for place in places], [str(rows[place]).removeprefix("switch ") for place in places])
        return _finish(ax, self._at_load(title), legend=None)


def of_study(rows: list[dict[str, Any]], x: str, y: str, by: str | None, ax: "Axes | None") -> "Axes":
    """A curve for each value of ``by``: means over repeats, and a band from the least to the most."""
    columns = {name for row in rows for name in row}
    for name in (x, y, *([by] if by else [])):
        if name not in columns:
            raise NarrowsError(f"{name}: the columns are {', '.join(sorted(columns))}")
    # Of a saturated or failed repeat there is no value: the mean of the others says less than it seems to.
    lacking = {(row[by] if by else y, row[x]) for row in rows if row[y] is None}
    rows = [row for row in rows if row[x] is not None and row[y] is not None]
    if not rows:
        raise NarrowsError(f"{y}: no point has a value")
    partial: list[tuple[Any, float]] = []
    ax = _axes(ax)
    unit, factor = _time_unit(_column(rows, y)) if y.endswith("_ns") else ("", 1.0)
    for index, (name, of) in enumerate(_by(rows, by) if by else [(y, rows)]):
        points = sorted(_by(of, x))
        places = [place for place, _ in points]
        values = [[row[y] * factor for row in repeats] for _, repeats in points]
        label = f"{by} {name:g}" if isinstance(name, int | float) else str(name)
        means = [sum(of) / len(of) for of in values]
        ax.plot(places, means, **_style(index), label=label)
        partial += [(place, mean) for place, mean in zip(places, means, strict=True) if (name, place) in lacking]
        if any(len(of) > 1 for of in values):
            ax.fill_between(
                places, [min(of) for of in values], [max(of) for of in values], color=_style(index)["color"], alpha=0.2, linewidth=0
            )
    if partial:
        cross: dict[str, Any] = {"linestyle": "none", "marker": "x", "color": "black", "markersize": 9, "zorder": 3}
        ax.plot(*zip(*partial, strict=True), **cross, label="not all repeats (saturated or failed)")
    named = y.removesuffix("_ns").replace("_", " ")
    ax.set(xlabel=x.replace("_", " "), ylabel=f"{named} ({unit})" if unit else named)
    return _finish(ax, f"{named} against {x.replace('_', ' ')}")


def speedup(rows: list[dict[str, Any]], x: str, y: str, by: str | None, efficiency: bool, ax: "Axes | None") -> "Axes":
    """How many times faster it is with more of them, or the share of that in what is ideal."""
    columns = {name for row in rows for name in row}
    for column in (x, y, *([by] if by else [])):
        if column not in columns:
            raise NarrowsError(f"{column}: the columns are {', '.join(sorted(columns))}")
    good = [row for row in rows if isinstance(row[y], int | float) and isinstance(row[x], int | float) and row[y] > 0]
    if not good:
        raise NarrowsError(f"speed-up: no point has numbers as {x} and {y}")
    ax = _axes(ax)
    counts = sorted({row[x] for row in good})
    ideal = [1.0, 1.0] if efficiency else [counts[0], counts[-1]]
    ax.plot([counts[0], counts[-1]], ideal, color="0.6", linewidth=1, label="ideal", zorder=1)
    for index, (name, points) in enumerate(_by(good, by) if by else [("simulated", good)]):
        times = {count: _column(of, y) for count, of in sorted(_by(points, x))}
        means = {count: sum(of) / len(of) for count, of in times.items()}
        first = min(means)
        gained = {count: first * means[first] / mean for count, mean in means.items()}
        values = [gain / count if efficiency else gain for count, gain in gained.items()]
        ax.plot(list(gained), values, **_style(index), label=f"{by} {name}" if by else str(name))
    if counts[-1] >= 8 * counts[0]:
        ax.set_xscale("log", base=2)
        ax.set_xticks(counts, [f"{count:g}" for count in counts])
        if not efficiency:
            ax.set_yscale("log", base=2)
            ax.set_yticks(counts, [f"{count:g}" for count in counts])
    what = "efficiency (fraction of ideal)" if efficiency else f"speed-up (times, {counts[0]:g} where there are fewest)"
    ax.set(xlabel=x.replace("_", " "), ylabel=what)
    if efficiency:
        ax.set_ylim(0, None)
    return _finish(ax, "Efficiency" if efficiency else "Speed-up")


# Tables that a picture is made of, and the kind of study where others have tables of that name.
_NEEDS: dict[str, tuple[tuple[str, ...], str | None]] = {
    "throughput": (("points",), "traffic"),
    "latency": (("points",), "traffic"),
    "completion": (("histograms",), "traffic"),
    "queues": (("queues",), None),
    "queue_heatmap": (("queues",), None),
    "link_utilisation": (("links",), None),
    "topology": (("links", "switches"), None),
    "communication": (("pairs", "ranks"), "analysis"),
    "ranks": (("ranks",), "run"),
    "critical_path": (("calls", "transfers"), None),
}


def _cables(places: dict[str, tuple[float, float]], cables: list[tuple[str, str]]) -> list[list[tuple[float, float]]]:
    """A line for each cable: straight, or bent where it would hide behind shorter ones (the rings of a torus)."""

    def direction(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float, float]:
        dx, dy = other[0] - one[0], other[1] - one[1]
        length = math.hypot(dx, dy) or 1.0
        return round(abs(dx) / length, 3), round(dy / length * math.copysign(1, dx or dy), 3), length

    # All bend to the same side.
    ends = [(min(places[one], places[other]), max(places[one], places[other])) for one, other in cables]
    shortest: dict[tuple[float, float], float] = {}
    for one, other in ends:
        *way, length = direction(one, other)
        shortest[way[0], way[1]] = min(length, shortest.get((way[0], way[1]), math.inf))
    switches = {(round(x), round(y)) for x, y in places.values()}
    lines = []
    for one, other in ends:
        *way, length = direction(one, other)
        step = shortest[way[0], way[1]] / length
        dx, dy = other[0] - one[0], other[1] - one[1]
        hides = step < 0.99 and (round(one[0] + step * dx), round(one[1] + step * dy)) in switches
        side = 0.08 if hides else 0.0
        places_on = [index / 16 for index in range(17)] if hides else [0.0, 1.0]
        lines.append(
            [(one[0] + at * dx - 4 * at * (1 - at) * side * dy, one[1] + at * dy + 4 * at * (1 - at) * side * dx) for at in places_on]
        )
    return lines


def _axes(ax: "Axes | None", square: bool = False) -> "Axes":
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(6.4, 5.2) if square else (6.4, 4.0), layout="constrained")[1]


def _style(index: int) -> dict[str, Any]:
    return {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)], "linestyle": DASHES[index % len(DASHES)]}


def _finish(ax: "Axes", title: str, legend: Any = "best", columns: int = 1) -> "Axes":
    ax.set_title(title)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if legend is not None:
        ax.grid(True, color="0.9", linewidth=0.8)
        ax.set_axisbelow(True)
        ax.legend(loc=legend, ncols=columns, framealpha=0.9, fontsize="small")
    return ax


def _whole_ticks(ax: "Axes", axes: str = "x") -> None:
    from matplotlib.ticker import MaxNLocator

    for axis in [{"x": ax.xaxis, "y": ax.yaxis}[name] for name in axes]:
        axis.set_major_locator(MaxNLocator(integer=True))


def _plain_ticks(ax: "Axes") -> None:
    """A logarithmic axis with 0.5, 1, 2, 5 in place of powers of ten, as far as there is room."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = ax.get_xlim()
    decades = math.log10(high / low)
    steps = [1, 2, 3, 4, 5, 6, 8] if decades < 1 else [1, 2, 5] if decades < 3 else [1]
    ax.xaxis.set_major_locator(LogLocator(subs=steps, numticks=50))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _mark_saturated(ax: "Axes", rows: list[dict[str, Any]], column: str) -> None:
    full = [row for row in rows if row["saturated"]]
    if full:
        loads, values = _column(full, "load"), _column(full, column)
        ax.plot(loads, values, linestyle="none", marker="x", color="black", markersize=9, label="saturated", zorder=3)


def _by(rows: list[dict[str, Any]], column: str) -> list[tuple[Any, list[dict[str, Any]]]]:
    """Rows by the value of a column, in the order of their first."""
    found: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row[column], []).append(row)
    return list(found.items())


def _column(rows: list[dict[str, Any]], column: str) -> list[Any]:
    return [row[column] for row in rows]


def _natural(name: str) -> tuple[str, int]:
    word, _, number = name.rpartition(" ")
    return (word, int(number)) if number.isdigit() else (name, 0)


def _cells(rows: list[dict[str, Any]], times: list[float], places: Sequence[Any], column: str, value: Any, how: str) -> list[list[float]]:
    """A line for each place and a column for each time; many share a cell, with their mean."""
    wide, high = math.ceil(len(times) / CELLS), math.ceil(len(places) / CELLS)
    cells = [[0.0] * math.ceil(len(times) / wide) for _ in range(math.ceil(len(places) / high))]
    index = {place: number for number, place in enumerate(places)}
    length = times[0]
    for row in rows:
        cells[index[row[column]] // high][(round(row["time_ns"] / length) - 1) // wide] += value(row) / (
            wide * (high if how == "mean" else 1)
        )
    return cells


def _time_unit(values_ns: Sequence[float]) -> tuple[str, float]:
    """A unit for times, and what nanoseconds are multiplied with."""
    most = max(values_ns, default=0.0)
    for unit, length in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if most >= length:
            return unit.replace("us", "\N{MICRO SIGN}s"), 1 / length
    return "ns", 1.0


def _size_unit(values: Sequence[float]) -> tuple[str, float]:
    most = max(values, default=0.0)
    for unit, length in (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10)):
        if most >= length:
            return unit, 1 / length
    return "bytes", 1.0
