"""The critical path of a run or a replay: what its end had to wait for, back to its beginning."""

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from narrows._native import NarrowsError

if TYPE_CHECKING:
    from narrows._results import Result

# Names of the parts of a path.
COMPUTING, SOFTWARE, MESSAGE = "computing", "MPI software", "message"


def critical_path(result: "Result") -> list[dict[str, Any]]:
    """Parts of the path in the order of time, without a gap: ``rank``, ``to_rank``, ``what``, ``begin_s``, ``end_s``.

    It is walked back from the end of the last rank: over what that rank did, to the last message that a waiting call of
    it waited for, to the rank that had sent that, when it wrote the command; and so on. What a NIC fetches by itself is a
    message of the rank that asked for it.
    """
    for name in ("calls", "transfers"):
        if name not in result.tables:
            raise NarrowsError(f'critical path: the result has no table {name}; timeline="FILE" gives it')
    timeline = result.summary["timeline"]
    if timeline["ended_s"] is not None or timeline["from_s"] > 0 or timeline["to_s"] is not None:
        raise NarrowsError("critical path: the timeline has a part of the run only; a higher timeline_limit gives more of it")
    calls = _by_rank(result.calls.to_rows(), "rank", "begin_s")
    if not calls:
        raise NarrowsError("critical path: there are no calls of ranks")
    messages = [row for row in result.transfers.to_rows() if row["kind"] != "ack" and row["tail_s"] is not None and row["from_rank"] >= 0]
    arrivals = _by_rank(messages, "to_rank", "tail_s")
    gets = _by_rank([row for row in messages if row["kind"] == "get"], "from_rank", "tail_s")
    live = result.kind == "run"

    def waits(call: dict[str, Any]) -> bool:
        return bool(call["waited_s"] > 0 if live else call["call"] != "compute")

    ends = {rank: max(call["end_s"] for call in of) for rank, of in calls.items()}
    rank = max(ends, key=lambda one: (ends[one], -one))
    now = ends[rank]
    parts: list[dict[str, Any]] = []
    while now > 0:
        found = _arrival(calls.get(rank, []), arrivals.get(rank, []), now, waits)
        since = 0.0 if found is None else found["tail_s"]
        parts += _work(calls.get(rank, []), rank, since, now)
        if found is None:
            break
        sender, start = found["from_rank"], found["begin_s"] if found["posted_s"] is None else found["posted_s"]
        if found["kind"] == "reply":
            asked = gets.get(rank, [])
            place = bisect_right([row["tail_s"] for row in asked], found["begin_s"])
            get = next((row for row in reversed(asked[:place]) if row["to_rank"] == sender and row["posted_s"] is not None), None)
            if get is not None:
                sender, start = rank, get["posted_s"]
        parts.append({"rank": sender, "to_rank": rank, "what": MESSAGE, "begin_s": start, "end_s": found["tail_s"]})
        rank, now = sender, start
    return parts[::-1]


def _by_rank(rows: list[dict[str, Any]], rank: str, order: str) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: float(row[order])):
        found.setdefault(row[rank], []).append(row)
    return found


def _arrival(calls: list[dict[str, Any]], arrivals: list[dict[str, Any]], now: float, waits: Any) -> dict[str, Any] | None:
    """The last message before ``now`` that came while a call waited."""
    tails = [row["tail_s"] for row in arrivals]
    last = bisect_right([call["begin_s"] for call in calls], now)
    for call in reversed(calls[:last]):
        if not waits(call):
            continue
        place = bisect_right(tails, min(now, call["end_s"])) - 1
        # Of the rank itself: it sent that before, and would have waited for nobody.
        while place >= 0 and tails[place] >= call["begin_s"]:
            row = arrivals[place]
            start = row["begin_s"] if row["posted_s"] is None else row["posted_s"]
            if row["from_rank"] != row["to_rank"] and start < now and row["tail_s"] <= now:
                return row
            place -= 1
    return None


def _work(calls: list[dict[str, Any]], rank: int, begin: float, end: float) -> list[dict[str, Any]]:
    """What a rank did between two times, the latest first: in calls, and between them."""
    parts: list[dict[str, Any]] = []

    def part(what: str, first: float, last: float) -> None:
        if last > first:
            parts.append({"rank": rank, "to_rank": rank, "what": what, "begin_s": first, "end_s": last})

    now = begin
    for call in calls:
        if call["end_s"] <= now or call["begin_s"] >= end:
            continue
        first, last = max(now, call["begin_s"]), min(end, call["end_s"])
        part(COMPUTING, now, first)
        part(COMPUTING if call["call"] == "compute" else SOFTWARE, first, last)
        now = last
    part(COMPUTING, now, end)
    return parts[::-1]
