"""What of a program's output is compared (str -> str), and checks of what a program and Narrows print: (outcome, runner) -> what is
wrong, or None."""

import collections
import re
from typing import Callable

from .processes import Outcome


def sorted_lines(text: str) -> str:
    return "\n".join(sorted(line.rstrip() for line in text.splitlines() if line.strip()))


def characters(text: str) -> str:
    """How often each character occurs: launchers may cut lines of different ranks and splice them."""
    counts = collections.Counter(text)
    return "\n".join(f"{character!r} {counts[character]} times" for character in sorted(counts))


def no_lines(_: str) -> str:
    return ""


def counted_bytes(outcome: Outcome, runner: str) -> str | None:
    """The NICs must have seen at least the bytes that the program sent; and not many times as many."""
    if runner != "narrows":
        return None
    sent = re.search(r"payload=(\d+)", outcome.stdout)
    messages = re.search(r"messages=(\d+)", outcome.stdout)
    if not sent:
        return "the program did not print its payload"
    summary = outcome.summary
    if summary["bytes"] < int(sent[1]):
        return f"the program sent {sent[1]} bytes, the NICs saw {summary['bytes']}: something went around the network"
    by_rail = sum(rail["bytes"] for rail in summary["messages_by"]["rails"])
    if by_rail != summary["bytes"]:
        return f"the rails have seen {by_rail} bytes, the NICs {summary['bytes']}"
    # MPI_Init, MPI_Finalize and headers come on top; twice the payload and 1 MiB per rank are far above them.
    if summary["bytes"] > 2 * int(sent[1]) + summary["ranks"] * (1 << 20):
        return f"the program sent {sent[1]} bytes, the NICs saw {summary['bytes']}: counted more than once"
    if messages and summary["messages"] < int(messages[1]):
        return f"the program sent {messages[1]} messages, the NICs saw {summary['messages']}"
    return None


def time_is_simulated(outcome: Outcome, runner: str) -> str | None:
    if runner != "narrows":
        return None
    summary = outcome.summary
    for key in ("simulated_s", "wall_s", "ranks", "nodes", "mpi", "messages", "bytes", "packets", "events", "crossings", "digest", "network", "compute", "machine"):
        if key not in summary:
            return f"summary.json has no {key}"
    return None if summary["simulated_s"] > 0 else "simulated_s is not positive"


def spin_time(outcome: Outcome, runner: str) -> str | None:
    """Polling must not make time run away: the programs need 1.5 ms (five sleeps of 0.3 ms) to 10 ms (five waits of 2 ms)."""
    if runner != "narrows":
        return None
    simulated = outcome.summary["simulated_s"]
    return None if 0 < simulated < 0.05 else f"a program of some milliseconds took {simulated} s of simulated time"


def chance(*reasons: str) -> Callable[[Outcome, str], str | None]:
    """`may_not_repeat` has one entry with each of these words, and no other; those about threads are said to people too."""

    def verify(outcome: Outcome, runner: str) -> str | None:
        if runner != "narrows":
            return None
        found = outcome.summary["may_not_repeat"]
        missing = [reason for reason in reasons if sum(reason in entry for entry in found) != 1]
        unsaid = [entry for entry in found if "rank" in entry and entry not in outcome.stderr]
        return f"{found}, said {outcome.stderr}" if missing or unsaid or len(found) != len(reasons) else None

    return verify


def energy(outcome: Outcome, runner: str) -> str | None:
    """Powers of exanest-qfdb, one rank to a node: 5 W for each node, 0.4 W for each core until its rank has ended."""
    if runner != "narrows":
        return None
    summary = outcome.summary
    ranks = summary["per_rank"]
    expected = {
        "nodes_j": 5 * summary["nodes"] * summary["simulated_s"],
        "computing_j": 0.4 * sum(rank["computing_s"] for rank in ranks),
        "waiting_j": 0.4 * sum(rank["mpi_s"] + rank["waiting_s"] for rank in ranks),
    }
    expected["total_j"] = sum(expected.values())
    found = summary["energy"]
    wrong = [f"{name}: {found[name]} instead of {value}" for name, value in expected.items() if abs(found[name] - value) > 1e-9 * value]
    return ", ".join(wrong) or None


def one_gateway_died(outcome: Outcome, runner: str) -> str | None:
    """Of two gateways, the first one has passed something before it died, and the second one more."""
    if runner != "narrows":
        return None
    dead, other = (node["messages"] for node in outcome.summary["messages_by"]["gateways"]["nodes"])
    return None if 0 < dead < other else f"the gateway that died has passed {dead} puts, the other one {other}"


def thread_times(outcome: Outcome, runner: str) -> str | None:
    """Each part of thread_time.c takes as long as it says: up to a third more, for what runtimes of OpenMP do beside the work on a busy
    host, and the leaps of the CPU clock that it has seen. Threads whose clocks do not meet, or whose times add up, are beyond
    that. One host core against two: thread_cores."""
    if runner != "narrows":
        return None
    parts = re.findall(r"^(\w+) (\d+\.\d\d) (\d+\.\d+) (\d+\.\d+)$", outcome.stdout, re.M)
    wrong = [
        f"{name}: {measured} instead of {expected} (leaps: {leaps})"
        for name, expected, measured, leaps in parts
        if not 0.95 * float(expected) < float(measured) < 1.33 * float(expected) + float(leaps)
    ]
    return ", ".join(wrong) or (None if parts else "no times in the output")


def looks(at_least_ns: float, at_most_ns: float, most_looks: int) -> Callable[[Outcome, str], str | None]:
    """A look at the clock costs so much simulated time, and there are at most so many."""

    def verify(outcome: Outcome, runner: str) -> str | None:
        found = re.search(r"^looks (\d+) (\d+\.\d+)$", outcome.stdout, re.M)
        if not found:
            return "no looks in the output"
        count, cost = int(found[1]), float(found[2])
        if not at_least_ns <= cost <= at_most_ns:
            return f"a look cost {cost} ns, not {at_least_ns} to {at_most_ns}"
        return None if count <= most_looks else f"{count} looks, at most {most_looks} were expected"

    return verify


def pass_through(outcome: Outcome, runner: str) -> str | None:
    if "this goes to stderr" not in outcome.stderr:
        return "the program's stderr was lost"
    return "the program's stderr went to stdout" if "this goes to stderr" in outcome.stdout else None
