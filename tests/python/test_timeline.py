"""Timelines: what is in the file, as Perfetto's own definitions and its trace processor read it, is what the summary and
the tables say.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import otf2
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent
from trace_processor import counts

import narrows as nw

RING = r"""
#include <mpi.h>
#include <time.h>
int main(int argc, char **argv) {
    int rank, size, token = 7;
    struct timespec nap = {0, 100000};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank > 0) MPI_Recv(&token, 1, MPI_INT, rank - 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    nanosleep(&nap, 0);
    if (rank + 1 < size) MPI_Send(&token, 1, MPI_INT, rank + 1, 3, MPI_COMM_WORLD);
    MPI_Finalize();
    return token != 7;
}
"""


class Slice:
    """What is between a beginning and an end on a track."""

    def __init__(self, name: str, track: str, process: str, begin: int, end: int, values: dict[str, int]) -> None:
        self.name, self.track, self.process, self.begin, self.end, self.values = name, track, process, begin, end, values


def read(path: Path) -> tuple[list[Slice], int]:
    """Slices and the number of arrows, by Perfetto's protobuf definitions."""
    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    names: dict[int, str] = {}
    annotations: dict[int, str] = {}
    processes: dict[int, str] = {}
    tracks: dict[int, tuple[str, str]] = {}
    open_slices: dict[int, tuple[int, TrackEvent]] = {}
    slices: list[Slice] = []
    flows: Counter[int] = Counter()
    ended: dict[int, int] = {}
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        for interned in packet.interned_data.event_names:
            names[interned.iid] = interned.name
        for interned in packet.interned_data.debug_annotation_names:
            annotations[interned.iid] = interned.name
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            if track.HasField("process"):
                processes[track.uuid] = track.process.process_name
            else:
                tracks[track.uuid] = (track.name, processes[track.parent_uuid])
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        assert packet.sequence_flags & TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            # What overlaps has a track of its own.
            assert event.track_uuid not in open_slices and packet.timestamp >= ended.get(event.track_uuid, 0)
            open_slices[event.track_uuid] = (packet.timestamp, event)
            flows.update(event.flow_ids)
            flows.update(event.terminating_flow_ids)
        else:
            assert event.type == TrackEvent.TYPE_SLICE_END
            begin, opened = open_slices.pop(event.track_uuid)
            ended[event.track_uuid] = packet.timestamp
            name, process = tracks[event.track_uuid]
            values = {annotations[one.name_iid]: one.int_value for one in opened.debug_annotations}
            slices.append(Slice(names[opened.name_iid], name, process, begin, packet.timestamp, values))
    assert not open_slices
    return slices, sum(count - 1 for count in flows.values())


def ran(program: Path, ranks: int, file: Path, **more: Any) -> nw.Result:
    machine = nw.machine("bxi-v2", nodes=ranks)
    return nw.run([program], ranks=ranks, machine=machine, compute="none", quiet=True, timeline=file, **more)


@pytest.fixture(scope="module")
def ring(compiled: Callable[[str, str], Path]) -> Path:
    return compiled("ring", RING)


@pytest.fixture(scope="module")
def around(ring: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[nw.Result, Path]:
    """A token that is handed on over 8 ranks, 100 us after it has come."""
    file = tmp_path_factory.mktemp("timeline") / "ring.pftrace"
    return ran(ring, 8, file), file


def test_a_run_is_in_the_file_call_by_call(around: tuple[nw.Result, Path], ring: Path) -> None:
    result, file = around
    slices, arrows = read(file)
    said = result.summary["timeline"]
    assert (len(slices), arrows, file.stat().st_size) == (said["slices"], said["flows"], said["bytes"])
    calls = [one for one in slices if one.track.startswith("rank ")]
    assert len(calls) == said["calls"] == result.summary["mpi_calls"] == len(result.calls)
    sends = [one for one in slices if one.track == "NIC sends" and one.name in ("put", "get", "atomic")]
    assert len(sends) == said["messages"] == result.summary["messages"]
    assert said["ended_s"] is None and len(result.transfers) == said["transfers"]
    # What is simulated is what it is without.
    machine = nw.machine("bxi-v2", nodes=8)
    plain = nw.run([ring], ranks=8, machine=machine, compute="none", quiet=True)
    assert plain.digest == result.digest and plain.summary["timeline"] is None
    # 7 times 100 us until the last one has it, and each waits in its receive until then.
    receives = {one.track: one for one in calls if one.name == "MPI_Recv"}
    assert len(receives) == 7
    for rank in range(1, 8):
        one = receives[f"rank {rank}"]
        assert (one.values["peer"], one.values["tag"]) == (rank - 1, 3) and one.process.startswith(f"node {rank}, ")
        assert rank * 100_000 <= one.end <= rank * 105_000 and one.values["waited_ns"] > (rank - 1) * 100_000


def test_messages_lead_from_calls_to_nics(around: tuple[nw.Result, Path]) -> None:
    result, _ = around
    calls = result.calls.to_rows()
    puts = [row for row in result.transfers.to_rows() if row["kind"] == "put" and row["to_rank"] == row["from_rank"] + 1]
    assert len(puts) == 7
    for row in puts:
        (send,) = (one for one in calls if one["rank"] == row["from_rank"] and one["call"] == "MPI_Send")
        assert send["begin_s"] < row["posted_s"] <= send["end_s"] + 1e-12
        assert row["posted_s"] < row["begin_s"] <= row["sent_s"] <= row["head_s"] <= row["tail_s"]
        assert (row["from_node"], row["to_node"], row["bytes"]) == (row["from_rank"], row["to_rank"], 4)


def test_a_part_and_a_limit(ring: Path, tmp_path: Path) -> None:
    part = ran(ring, 8, tmp_path / "part", timeline_from="250us", timeline_to="350us")
    ends = [row["end_s"] for row in part.calls.to_rows()]
    assert min(ends) >= 250e-6 and max(row["begin_s"] for row in part.calls.to_rows()) < 350e-6
    assert part.summary["timeline"]["calls"] < part.summary["mpi_calls"]
    few = ran(ring, 8, tmp_path / "few", timeline_limit=20)
    said = few.summary["timeline"]
    assert said["slices"] <= 20 and 0 <= said["ended_s"] < few.simulated_s
    assert "the timeline ends at" in few.text and "20 slices of --timeline-limit" in few.text
    assert len(read(tmp_path / "few")[0]) == said["slices"]
    with pytest.raises(nw.NarrowsError, match="nothing lies between them"):
        ran(ring, 8, tmp_path / "none", timeline_from="2us", timeline_to="1us")


def test_calls_in_which_a_run_stands_still_are_there(compiled: Callable[[str, str], Path], tmp_path: Path) -> None:
    both = RING.replace("if (rank > 0) MPI_Recv(&token, 1, MPI_INT, rank - 1", "MPI_Recv(&token, 1, MPI_INT, 1 - rank")
    with pytest.raises(nw.StudyFailed, match="deadlock") as failed:
        ran(compiled("both", both), 2, tmp_path / "both")
    assert failed.value.result is not None
    last = {row["rank"]: row["call"] for row in failed.value.result.calls.to_rows()}
    assert last == {0: "MPI_Recv", 1: "MPI_Recv"}


def test_a_replay(halo: Path, tmp_path: Path) -> None:
    machine = nw.machine("bxi-v2", nodes=8)
    result = nw.replay(halo, machine=machine, timeline=tmp_path / "halo.pftrace")
    slices, arrows = read(tmp_path / "halo.pftrace")
    said = result.summary["timeline"]
    assert (len(slices), arrows) == (said["slices"], said["flows"])
    assert said["messages"] == result.summary["nic_messages"]
    assert result.digest == nw.replay(halo, machine=machine).digest
    operations = Counter(row["call"] for row in result.calls.to_rows())
    assert operations["receive"] == operations["send"] == result.summary["messages"]
    assert max(row["end_s"] for row in result.calls.to_rows()) == pytest.approx(result.simulated_s)
    with pytest.raises(nw.NarrowsError, match="--loggp takes the place of one"):
        nw.replay(halo, loggp="L=2500ns,o=1500ns,g=1000ns,G=6ns/B,S=65535", timeline=tmp_path / "no")


def test_the_critical_path_goes_where_the_token_goes(around: tuple[nw.Result, Path], ring: Path, tmp_path: Path) -> None:
    result, _ = around
    rows = result.critical_path().to_rows()
    assert rows[0]["begin_s"] == 0 and rows[-1]["end_s"] == pytest.approx(result.simulated_s, rel=1e-3)
    for before, after in zip(rows, rows[1:], strict=False):
        assert before["end_s"] == pytest.approx(after["begin_s"], abs=1e-15) and before["to_rank"] == after["rank"]
    assert [(row["rank"], row["to_rank"]) for row in rows if row["what"] == "message"] == [(rank, rank + 1) for rank in range(7)]
    # Each of the 8 sleeps once, and nothing else takes time outside of MPI.
    assert sum(row["end_s"] - row["begin_s"] for row in rows if row["what"] == "computing") == pytest.approx(800e-6, rel=1e-3)
    ax = result.plot.critical_path()
    assert ax.get_xlabel() == "simulated time (µs)" and [text.get_text().split(" (")[0] for text in ax.get_legend().get_texts()] == [
        "computing",
        "MPI software",
        "message",
    ]
    part = ran(ring, 2, tmp_path / "part", timeline_to="50us")
    assert "critical_path" not in part.plot.names()
    with pytest.raises(nw.NarrowsError, match="a part of the run only"):
        part.critical_path()


def test_the_critical_path_of_a_long_message(compiled: Callable[[str, str], Path], tmp_path: Path) -> None:
    # Its data are fetched by the receiver's NIC: the path goes over the announcement to the sender.
    text = RING.replace("token = 7", "token = 7, big[1 << 18] = {7}").replace("&token, 1, MPI_INT", "big, 1 << 18, MPI_INT")
    result = ran(compiled("long", text), 2, tmp_path / "long")
    rows = result.critical_path().to_rows()
    assert rows[0]["rank"] == 0 and rows[-1]["to_rank"] == 1
    assert sum(row["end_s"] - row["begin_s"] for row in rows) == pytest.approx(rows[-1]["end_s"])
    # One MiB at 11 GB/s.
    assert sum(row["end_s"] - row["begin_s"] for row in rows if row["what"] == "message") > 90e-6


def archived(folder: Path) -> tuple[Counter[str], list[tuple[str, str, int, int, int]], int]:
    """Of an OTF2 archive, as its own library reads it: calls by name, messages (from, to, bytes, sent, arrived), the last time."""
    calls: Counter[str] = Counter()
    sent: dict[int, tuple[str, int, int]] = {}
    messages, depth, last = [], Counter[str](), 0
    with otf2.reader.open(str(folder / "traces.otf2")) as trace:
        assert trace.timer_resolution == 10**12
        for location, event in trace.events:
            assert event.time >= last
            last = event.time
            match type(event).__name__:
                case "Enter":
                    calls[event.region.name] += 1
                    depth[location.name] += 1
                case "Leave":
                    depth[location.name] -= 1
                case "MpiSend":
                    sent[event.msg_tag] = (location.name, event.msg_length, event.time)
                case "MpiRecv":
                    sender, length, begin = sent.pop(event.msg_tag)
                    assert length == event.msg_length
                    messages.append((sender, location.name, length, begin, event.time))
                case other:
                    raise AssertionError(other)
            assert 0 <= depth[location.name] <= 1
    assert not sent and not any(depth.values())
    return calls, messages, last


def test_an_archive_of_otf2_has_every_call_and_message(around: tuple[nw.Result, Path], tmp_path: Path) -> None:
    result, _ = around
    anchor = result.otf2(tmp_path / "otf2")
    assert anchor == tmp_path / "otf2/traces.otf2"
    calls, messages, last = archived(tmp_path / "otf2")
    assert calls == Counter(row["call"] for row in result.calls.to_rows()) and sum(calls.values()) == result.summary["mpi_calls"]
    rows = [row for row in result.transfers.to_rows() if row["kind"] != "ack"]
    assert sorted(messages) == sorted(
        (f"rank {row['from_rank']}", f"rank {row['to_rank']}", row["bytes"], round(row["begin_s"] * 1e12), round(row["tail_s"] * 1e12))
        for row in rows
    )
    assert last == round(max([row["end_s"] for row in result.calls.to_rows()] + [row["tail_s"] for row in rows]) * 1e12)
    with pytest.raises(nw.NarrowsError, match="is there already"):
        result.otf2(tmp_path / "otf2")
    with pytest.raises(nw.NarrowsError, match="no table calls"):
        nw.traffic("shift:1", machine=nw.machine("bxi-v2", nodes=2), load=0.1, warmup="1us", time="2us").otf2(tmp_path / "none")


def test_operations_that_overlap_have_locations_of_their_own(halo: Path, tmp_path: Path) -> None:
    result = nw.replay(halo, machine=nw.machine("bxi-v2", nodes=8), timeline=tmp_path / "halo.pftrace")
    result.otf2(tmp_path / "otf2")
    calls, messages, _ = archived(tmp_path / "otf2")
    assert calls == Counter(row["call"] for row in result.calls.to_rows())
    assert len(messages) == sum(row["kind"] != "ack" for row in result.transfers.to_rows())


def test_the_trace_processor_counts_the_same(around: tuple[nw.Result, Path]) -> None:
    result, file = around
    sends = "slice join track on slice.track_id = track.id where track.name = 'NIC sends' and slice.name in ('put', 'get', 'atomic')"
    tables = ["slice", "flow", "slice where name glob 'MPI_*'", sends, "stats where severity = 'error' and value > 0"]
    found = counts(file, [f"select count(*) from {table}" for table in tables])
    said, summary = result.summary["timeline"], result.summary
    assert found == [said["slices"], said["flows"], summary["mpi_calls"], summary["messages"], 0]
