#!/usr/bin/env python3
"""Turns an OTF2 trace (Score-P, and what else writes them) into a trace of Narrows.

    pip install otf2
    scripts/otf2_to_jsonl.py traces/traces.otf2 program.jsonl
    narrows trace check program.jsonl

What is read: blocking and non-blocking point-to-point messages and blocking collectives of MPI; what a rank does outside of regions of MPI is computing. One
location (a thread) per rank. Everything is kept in memory. Receives that never end (cancelled ones) and messages to nobody are left out. The bytes that OTF2 gives for collectives are read so that both conventions in use give the same: a root that
counts what it sends to all, and one that counts it once.
"""
import json
import os
import sys

try:
    import otf2
    from otf2.enums import CollectiveOp, GroupType, Paradigm
except ImportError:
    raise SystemExit("otf2_to_jsonl.py needs OTF2's Python package: pip install otf2") from None


class Unreadable(Exception):
    """The trace is not what it should be."""

# OTF2's names of collectives, and those of the trace.
COLLECTIVES = {
    "BARRIER": "barrier", "BCAST": "bcast", "REDUCE": "reduce", "ALLREDUCE": "allreduce", "GATHER": "gather", "GATHERV": "gatherv", "SCATTER": "scatter",
    "SCATTERV": "scatterv", "ALLGATHER": "allgather", "ALLGATHERV": "allgatherv", "ALLTOALL": "alltoall", "ALLTOALLV": "alltoallv", "ALLTOALLW": "alltoallv",
    "REDUCE_SCATTER_BLOCK": "reduce_scatter_block", "REDUCE_SCATTER": "reduce_scatter", "SCAN": "scan", "EXSCAN": "exscan",
}


class Rank:
    """One rank, call by call."""

    def __init__(self, number):
        self.number = number
        self.operations = []
        self.after, self.after_start = [], []
        self.requests = {}
        self.depth = 0  # of regions of MPI
        self.left = None  # when the last one ended
        self.work = 0  # computing in picoseconds

    def push(self, operation, returns=False):
        if self.work > 0:
            work, self.work = self.work, 0
            self.push({"op": "compute", "ps": work})
        operation = {"rank": self.number, **operation, "after": self.after, "after_start": self.after_start}
        self.operations.append(operation)
        number = len(self.operations) - 1
        self.after, self.after_start = ([], [number]) if returns else ([number], [])
        return number

    def wait(self, request):
        number = self.requests.pop(request, None)
        if number is not None and number not in self.after:
            self.after = self.after + [number]
        return number


def collective_sizes(name, root, members):
    """Bytes sent and received by each member, from what OTF2 has: a list of (sent, received)."""
    n = len(members)
    others = [pair for index, pair in enumerate(members) if index != root] or members
    if name == "barrier":
        return [(0, 0)] * n
    if name == "bcast":
        whole = max(received for _, received in others) if n > 1 else max(members[0])
        return [(whole, 0) if index == root else (0, whole) for index in range(n)]
    if name == "reduce":
        whole = max(sent for sent, _ in others) if n > 1 else max(members[0])
        return [(whole, whole if index == root else 0) for index in range(n)]
    if name in ("allreduce", "scan", "exscan"):
        whole = min(value for pair in members for value in pair if value > 0) if any(max(pair) for pair in members) else 0
        return [(whole, whole)] * n
    if name in ("gather", "gatherv"):
        sent = [sent if index != root else 0 for index, (sent, _) in enumerate(members)]
        sent[root] = max(members[root][1] - sum(sent), 0)
        return [(sent[index], sum(sent) if index == root else 0) for index in range(n)]
    if name in ("scatter", "scatterv"):
        got = [received if index != root else 0 for index, (_, received) in enumerate(members)]
        got[root] = members[root][1] if name == "scatterv" else max(got)
        return [(sum(got) if index == root else 0, got[index]) for index in range(n)]
    if name in ("allgather", "allgatherv"):
        return [(received // n if name == "allgather" else sent, received) for sent, received in members]
    return members


def convert(source, target):
    with otf2.reader.open(source) as trace:
        to_ps = 10**12 / trace.timer_resolution
        groups = [group for group in trace.definitions.groups if group.group_type == GroupType.COMM_LOCATIONS]
        mpi = next((group for group in groups if group.paradigm == Paradigm.MPI), None)
        if mpi is None:
            raise Unreadable("no MPI locations: not a trace of an MPI program")
        ranks = {location: Rank(number) for number, location in enumerate(mpi.members)}
        world = list(range(len(ranks)))
        # Groups of communicators have positions among the locations of MPI, as numbers or as locations.
        place = {location: number for number, location in enumerate(mpi.members)}
        communicators, lists = {}, []
        for communicator in trace.definitions.comms:
            members = [member if isinstance(member, int) else place[member] for member in communicator.group.members]
            if not members or members == world:
                communicators[communicator] = (0, world)
            else:
                lists.append(members)
                communicators[communicator] = (len(lists), members)
        by_number = list(ranks.values())
        kinds = {getattr(CollectiveOp, name): kind for name, kind in COLLECTIVES.items() if hasattr(CollectiveOp, name)}
        # By communicator and rank: its collectives in order.
        instances = {}
        for location, event in trace.events:
            rank = ranks.get(location)
            if rank is None:
                continue
            name = type(event).__name__
            if name in ("Enter", "Leave"):
                region = event.region
                if region.paradigm != Paradigm.MPI and not region.name.startswith("MPI_"):
                    continue
                time = round(event.time * to_ps)
                if name == "Enter":
                    if rank.depth == 0 and rank.left is not None:
                        rank.work += max(time - rank.left, 0)
                    rank.depth += 1
                else:
                    rank.depth -= 1
                    rank.left = time
                continue
            # None: between two groups.
            number, members = communicators.get(getattr(event, "communicator", None), (0, ()))
            if name in ("MpiSend", "MpiIsend"):
                if event.receiver >= len(members):
                    continue  # MPI_PROC_NULL
                operation = {"op": "send", "to": members[event.receiver], "bytes": event.msg_length, "tag": tag(event.msg_tag, number)}
                done = rank.push(operation, returns=name == "MpiIsend")
                if name == "MpiIsend":
                    rank.requests[event.request_id] = done
            elif name == "MpiRecv":
                if event.sender >= len(members):
                    continue
                rank.push({"op": "recv", "from": members[event.sender], "bytes": event.msg_length, "tag": tag(event.msg_tag, number)})
            elif name == "MpiIrecvRequest":
                rank.requests[event.request_id] = rank.push({"op": "compute", "ps": 0}, returns=True)
            elif name == "MpiIrecv":
                done = rank.wait(event.request_id)
                if done is not None and event.sender < len(members):
                    rank.operations[done].pop("ps", None)
                    found = {"op": "recv", "from": members[event.sender], "bytes": event.msg_length, "tag": tag(event.msg_tag, number)}
                    rank.operations[done].update(found)
            elif name == "MpiIsendComplete":
                rank.wait(event.request_id)
            elif name == "MpiCollectiveEnd" and event.collective_op in kinds and members:
                kind = kinds[event.collective_op]
                rooted = kind in ("bcast", "reduce", "gather", "gatherv", "scatter", "scatterv")
                operation = {"op": kind, **({"comm": number} if number else {}), **({"root": event.root} if rooted else {})}
                done = rank.push(operation)
                count = instances.setdefault(number, {}).setdefault(rank.number, [])
                count.append((done, kind, event.root if rooted else 0, event.size_sent, event.size_received))
        for number, parts in instances.items():
            members = world if number == 0 else lists[number - 1]
            counts = [len(parts.get(rank, [])) for rank in members]
            if min(counts) != max(counts):
                few, many = (members[counts.index(count)] for count in (min(counts), max(counts)))
                raise Unreadable(f"rank {few} takes part in {min(counts)} collectives of a communicator, rank {many} in {max(counts)}")
            for turn in range(counts[0]):
                calls = [parts[rank][turn] for rank in members]
                sizes = collective_sizes(calls[0][1], calls[0][2], [(sent, received) for _, _, _, sent, received in calls])
                for rank, (done, *_), (sent, received) in zip(members, calls, sizes):
                    by_number[rank].operations[done].update(send=sent, recv=received)
    with open(f"{target}.part", "w", encoding="utf-8") as out:
        header = {"narrows_trace": 1, "ranks": len(ranks), "order": "sequential", "communicators": lists}
        out.write(json.dumps(header) + "\n")
        for rank in ranks.values():
            for operation in rank.operations:
                if not operation["after_start"]:
                    del operation["after_start"]
                out.write(json.dumps(operation) + "\n")
    os.replace(f"{target}.part", target)


def tag(number, communicator):
    """A tag in a communicator as one among all ranks; as in crates/trace/src/recording.rs."""
    return (number ^ (communicator * 0x9E3779B1)) & 0x7FFFFFFF


def main(arguments):
    if len(arguments) != 2:
        raise SystemExit(__doc__)
    source, target = arguments
    if not os.path.isfile(source):
        raise SystemExit(f"{source}: expected the anchor file of a trace (traces.otf2)")
    try:
        convert(source, target)
    except Unreadable as error:
        raise SystemExit(f"{source}: {error}") from None
    except OSError as error:
        raise SystemExit(f"{error.filename or target}: {error.strerror}") from None
    except Exception as error:  # What the library raises has no common class.
        raise SystemExit(f"{source}: OTF2's library cannot read this trace: {error}") from None


if __name__ == "__main__":
    main(sys.argv[1:])
