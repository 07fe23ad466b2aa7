"""Which cases a commit runs. Ten commits in a row run all of them: each has a turn, which is its number."""

import collections
import hashlib
import subprocess
from typing import Callable

from .cases import RANKS
from .mpis import ROOT

TURNS = 10


def turn(text: str) -> int | None:
    """The value of --turn."""
    if text == "all":
        return None
    return of_commit() if text == "commit" else int(text)


def of_commit() -> int:
    """Commits in a row have turns in a row, which hashes would not. A shallow clone cannot count: there the hash stands in."""

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True).stdout.strip()

    if git("rev-parse", "--is-shallow-repository") == "false":
        return int(git("rev-list", "--count", "--first-parent", "HEAD"))
    return int(git("rev-parse", "HEAD") or "0", 16)


def group(*case: str | int) -> int:
    """The same number on every host and for ever, whatever other cases there are."""
    return int(hashlib.sha256(" ".join(map(str, case)).encode()).hexdigest(), 16)


def due(jobs: list[tuple], turn: int) -> list[tuple]:
    """Cases with 4 ranks, and those with numbers of their own, each time; with 2, 16 and 64 ranks one of ten groups."""
    return [job for job in jobs if job[2] not in RANKS or group(*job[:3]) % TURNS == turn % TURNS]


def with_one_mpi(jobs: list[tuple], turn: int, case: Callable[[tuple], tuple] = lambda job: (job[0], job[2])) -> list[tuple]:
    """Each case under one of its MPIs, the next one in the next turn. By default a case is a name and a number of ranks."""
    of_case = collections.defaultdict(list)
    for job in jobs:
        of_case[case(job)].append(job)
    return [jobs[(group(*case) + turn) % len(jobs)] for case, jobs in of_case.items()]
