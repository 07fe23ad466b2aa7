"""A timeline as an OTF2 archive, the format of Score-P, Vampir and Scalasca."""

import heapq
import os
from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narrows._native import NarrowsError

if TYPE_CHECKING:
    from narrows._results import Result

# Ticks of the archive's clock per second: simulated time is in picoseconds.
RESOLUTION = 10**12


def write(result: "Result", folder: str | os.PathLike[str]) -> Path:
    """See :meth:`narrows.Result.otf2`."""
    for name in ("calls", "transfers"):
        if name not in result.tables:
            raise NarrowsError(f'OTF2: the result has no table {name}; timeline="FILE" gives it')
    try:
        import otf2
        from otf2.enums import GroupType, LocationGroupType, LocationType, Paradigm
    except ImportError as error:
        raise NarrowsError("OTF2 is written by its own library: pip install otf2") from error
    calls = _by_rank(result.calls.to_rows(), "rank")
    messages = [
        row
        for row in result.transfers.to_rows()
        if row["kind"] != "ack" and row["tail_s"] is not None and row["from_rank"] >= 0 and row["to_rank"] >= 0
    ]
    ranks = 1 + max([*calls, *(row[key] for row in messages for key in ("from_rank", "to_rank"))], default=-1)
    if ranks == 0:
        raise NarrowsError("OTF2: there is nothing in this part of the run")
    nodes = _nodes(messages)
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise NarrowsError(f"OTF2: {folder} is there already; an archive is a folder of its own, new or empty")
    with otf2.writer.open(str(folder), timer_resolution=RESOLUTION) as archive:
        definitions = archive.definitions
        machine = definitions.system_tree_node("simulated machine", class_name="machine")
        hosts: dict[int | None, Any] = {None: machine}
        names = {row["call"] for rows in calls.values() for row in rows}
        regions = {name: definitions.region(name, paradigm=Paradigm.MPI) for name in sorted(names)}
        lanes: list[list[tuple[Any, list[dict[str, Any]]]]] = []
        for rank in range(ranks):
            node = nodes.get(rank)
            if node not in hosts:
                hosts[node] = definitions.system_tree_node(f"node {node}", class_name="node", parent=machine)
            group = definitions.location_group(
                f"rank {rank}", location_group_type=LocationGroupType.PROCESS, system_tree_parent=hosts[node]
            )
            own = _lanes(calls.get(rank, []))
            lanes.append(
                [
                    (
                        definitions.location(f"rank {rank}" + (f" +{lane}" if lane else ""), type=LocationType.CPU_THREAD, group=group),
                        own[lane],
                    )
                    for lane in range(len(own))
                ]
            )
        first = tuple(of[0][0] for of in lanes)
        definitions.group("locations of ranks", group_type=GroupType.COMM_LOCATIONS, paradigm=Paradigm.MPI, members=first)
        everybody = definitions.group("ranks", group_type=GroupType.COMM_GROUP, paradigm=Paradigm.MPI, members=tuple(range(ranks)))
        network = definitions.comm("messages of NICs", group=everybody)
        # By rank: what its NIC gives to the network, and gets. Each message has a tag of its own, so that none is taken
        # for another one that it overtakes.
        ends: dict[int, list[tuple[int, int, str, dict[str, Any]]]] = defaultdict(list)
        for tag, row in enumerate(messages):
            what = {"communicator": network, "msg_tag": tag & 0x7FFF_FFFF, "msg_length": row["bytes"]}
            ends[row["from_rank"]].append((_ticks(row["begin_s"]), tag, "mpi_send", {"receiver": row["to_rank"], **what}))
            ends[row["to_rank"]].append((_ticks(row["tail_s"]), tag, "mpi_recv", {"sender": row["from_rank"], **what}))
        for rank in range(ranks):
            for lane, (location, rows) in enumerate(lanes[rank]):
                events = archive.event_writer_from_location(location)
                order = count()
                called = ((time, next(order), kind, {"region": regions[name]}) for time, kind, name in _calls(rows))
                told = sorted(ends[rank], key=lambda end: end[:2]) if lane == 0 else []
                for time, _, kind, what in heapq.merge(called, told, key=lambda event: event[0]):
                    getattr(events, kind)(time, **what)
    return folder / "traces.otf2"


def _ticks(seconds: float) -> int:
    return round(seconds * RESOLUTION)


def _by_rank(rows: list[dict[str, Any]], key: str) -> dict[int, list[dict[str, Any]]]:
    by_rank: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_rank[row[key]].append(row)
    return by_rank


def _nodes(messages: list[dict[str, Any]]) -> dict[int, int]:
    """The node of each rank that a message tells of."""
    nodes: dict[int, int] = {}
    for row in messages:
        for end in ("from", "to"):
            nodes.setdefault(row[f"{end}_rank"], row[f"{end}_node"])
    return nodes


def _lanes(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Rows that do not overlap, in the order of time; one lane at least. What overlaps goes to the next lane."""
    lanes: list[list[dict[str, Any]]] = [[]]
    for row in sorted(rows, key=lambda row: (row["begin_s"], row["end_s"])):
        for lane in lanes:
            if not lane or lane[-1]["end_s"] <= row["begin_s"]:
                lane.append(row)
                break
        else:
            lanes.append([row])
    return lanes


def _calls(rows: list[dict[str, Any]]) -> Iterator[tuple[int, str, str]]:
    for row in rows:
        yield _ticks(row["begin_s"]), "enter", row["call"]
        yield _ticks(row["end_s"]), "leave", row["call"]
