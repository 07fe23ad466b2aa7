#!/usr/bin/env python3
"""scripts/otf2_to_jsonl.py on traces that OTF2's own library writes: `target/python/bin/python tests/otf2_traces.py NARROWS` (make setup installs the package)."""
import json
import os
import subprocess
import sys
import tempfile

import otf2
from otf2.enums import CollectiveOp, GroupType, LocationType, Paradigm

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scripts", "otf2_to_jsonl.py")
RANKS = 3


def write(folder, once):
    """A ring of non-blocking messages, 2 us of computing, a blocking message in a communicator of two, a broadcast from rank 1, an allreduce, a gather to rank 2.
    `once`: a broadcast's root counts its bytes once, else for everybody."""
    with otf2.writer.open(folder, timer_resolution=10**9) as trace:
        definitions = trace.definitions
        root = definitions.system_tree_node("machine")
        regions = {name: definitions.region(name, paradigm=Paradigm.MPI) for name in ("MPI_Isend", "MPI_Waitall", "MPI_Send", "MPI_Recv", "MPI_Coll")}
        locations = []
        for rank in range(RANKS):
            group = definitions.location_group(f"rank {rank}", system_tree_parent=root)
            locations.append(definitions.location(f"thread {rank}", type=LocationType.CPU_THREAD, group=group))
        definitions.group("locations", group_type=GroupType.COMM_LOCATIONS, paradigm=Paradigm.MPI, members=tuple(locations))
        everybody = definitions.group("all", group_type=GroupType.COMM_GROUP, paradigm=Paradigm.MPI, members=tuple(range(RANKS)))
        pair = definitions.group("pair", group_type=GroupType.COMM_GROUP, paradigm=Paradigm.MPI, members=(2, 0))
        world, two = definitions.comm("world", group=everybody), definitions.comm("two", group=pair)
        for rank, location in enumerate(locations):
            events = trace.event_writer_from_location(location)
            time = 1000

            def call(name, *inner):
                nonlocal time
                events.enter(time, regions[name])
                for event, arguments in inner:
                    getattr(events, event)(time + 10, **arguments)
                time += 100
                events.leave(time, regions[name])

            after, before = (rank + 1) % RANKS, (rank - 1) % RANKS
            call("MPI_Isend", ("mpi_irecv_request", {"request_id": 7}),
                 ("mpi_isend", {"receiver": after, "communicator": world, "msg_tag": 5, "msg_length": 64, "request_id": 8}))
            time += 2000
            call("MPI_Waitall", ("mpi_irecv", {"sender": before, "communicator": world, "msg_tag": 5, "msg_length": 64, "request_id": 7}),
                 ("mpi_isend_complete", {"request_id": 8}))
            if rank == 2:
                call("MPI_Send", ("mpi_send", {"receiver": 1, "communicator": two, "msg_tag": 1, "msg_length": 9}))
            if rank == 0:
                call("MPI_Recv", ("mpi_recv", {"sender": 0, "communicator": two, "msg_tag": 1, "msg_length": 9}))

            def collective(operation, root, sent, received):
                call("MPI_Coll", ("mpi_collective_begin", {}), ("mpi_collective_end", {
                    "collective_op": operation, "communicator": world, "root": root, "size_sent": sent, "size_received": received}))

            collective(CollectiveOp.BCAST, 1, (40 if once else 40 * RANKS) if rank == 1 else 0, 0 if rank == 1 else 40)
            collective(CollectiveOp.ALLREDUCE, otf2.enums.CollectiveRoot.NONE if hasattr(otf2.enums, "CollectiveRoot") else 0xFFFFFFFF, 8, 8)
            collective(CollectiveOp.GATHER, 2, 16, 48 if rank == 2 else 0)


def refusals():
    """What is no trace is refused with one line that names it, and leaves no file."""
    with tempfile.TemporaryDirectory() as folder:
        traces, out, text = os.path.join(folder, "traces"), os.path.join(folder, "out.jsonl"), os.path.join(folder, "text.otf2")
        write(traces, True)
        anchor = os.path.join(traces, "traces.otf2")
        with open(text, "w", encoding="utf-8") as file:
            file.write("no trace")
        with open(os.path.join(traces, "traces.def"), "r+b") as definitions:
            definitions.truncate(40)
        for source, message in [(os.path.join(folder, "nothing"), "expected the anchor file"), (text, "cannot read this trace"), (anchor, "cannot read this trace")]:
            done = subprocess.run([sys.executable, SCRIPT, source, out], capture_output=True, text=True, check=False)
            last = done.stderr.strip().splitlines()[-1]
            assert done.returncode == 1 and last.startswith(source) and message in last, done
            assert not os.path.exists(out), source


def main(narrows):
    for once in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            traces, out = os.path.join(folder, "traces"), os.path.join(folder, "out.jsonl")
            write(traces, once)
            subprocess.run([sys.executable, SCRIPT, os.path.join(traces, "traces.otf2"), out], check=True)
            lines = [json.loads(line) for line in open(out, encoding="utf-8")]
            assert lines[0]["communicators"] == [[2, 0]], lines[0]
            mixed = (1 ^ 0x9E3779B1) & 0x7FFFFFFF
            found = [{key: value for key, value in line.items() if key not in ("rank", "after", "after_start")} for line in lines[1:] if line["rank"] == 0]
            expected = [
                {"op": "recv", "bytes": 64, "from": 2, "tag": 5}, {"op": "send", "to": 1, "bytes": 64, "tag": 5}, {"op": "compute", "ps": 2000000},
                {"op": "recv", "from": 2, "bytes": 9, "tag": mixed}, {"op": "bcast", "root": 1, "send": 0, "recv": 40},
                {"op": "allreduce", "send": 8, "recv": 8}, {"op": "gather", "root": 2, "send": 16, "recv": 0},
            ]
            assert found == expected, found
            bcast = next(line for line in lines[1:] if line["rank"] == 1 and line["op"] == "bcast")
            assert (bcast["send"], bcast["recv"]) == (40, 0), bcast
            check = subprocess.run([narrows, "trace", "check", out], capture_output=True, text=True, check=False)
            assert check.returncode == 0 and "4 messages, 3 collectives" in check.stdout + check.stderr, check
    refusals()
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "target/release/narrows")
