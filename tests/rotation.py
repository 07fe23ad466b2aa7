#!/usr/bin/env python3
"""Ten turns of tests/run_mpi.py run every case, each has all with 4 ranks, and what has other numbers comes in one of them.

    tests/rotation.py           needs nothing: it looks at lists of cases. The last line is "N passed, N failed"
"""

import collections
import sys
from typing import Callable

import run_mpi
from mpi_driver.checks import Tests
from mpi_driver.mpis import MPI_NAMES
from mpi_driver.rotation import TURNS, of_commit, turn

Case = tuple[str, str, int]


def listed(*words: str) -> list[Case]:
    options = run_mpi.arguments().parse_args(["--list", *words])
    return [job[:3] for job in run_mpi.jobs_of(options, Tests(options), [name for name in MPI_NAMES if name in options.mpi.split(",")])]


def in_turns(*words: str, turns: int = TURNS, first: int = 0) -> list[list[Case]]:
    return [listed(*words, "--turn", str(number)) for number in range(first, first + turns)]


def every_case_has_a_name_of_its_own() -> None:
    cases = listed("-n", "2,4,16,64")
    assert len(set(cases)) == len(cases), [case for case, count in collections.Counter(cases).items() if count > 1]


def ten_turns_are_everything() -> None:
    everything, four = (listed("-n", ranks) for ranks in ("2,4,16,64", "4"))
    for first in (0, 7, 1234):
        groups = in_turns("-n", "2,4,16,64", first=first)
        assert set().union(*groups) == set(everything)
        often = collections.Counter(case for group in groups for case in group)
        for case, count in often.items():
            assert count == (1 if case[2] in (2, 16, 64) else TURNS), (case, count)
    assert {case for case in four if case[2] not in (2, 16, 64)} <= set(groups[0])


def turns_are_of_like_sizes() -> None:
    sizes = [len(group) for group in in_turns("-n", "2,4,16,64")]
    assert max(sizes) < 1.1 * min(sizes), sizes


def one_mpi_is_another_one_each_time() -> None:
    for words, mpis in ((("-n", "4", "-k", "^p2p"), 3), (("-n", "4", "-k", "^rma", "--mpi", "debian,mpich"), 2)):
        groups = in_turns(*words, "--one-mpi", turns=mpis, first=5)
        everything = listed(*words)
        assert set().union(*groups) == set(everything)
        assert all({(case[0], case[2]) for case in group} == {(case[0], case[2]) for case in everything} for group in groups)
        assert all(len(group) == len({(case[0], case[2]) for case in group}) for group in groups)


def a_commit_has_a_turn() -> None:
    assert turn("commit") == of_commit() >= 0 and turn("12") == 12 and turn("all") is None


TESTS: list[Callable[[], None]] = [
    every_case_has_a_name_of_its_own,
    ten_turns_are_everything,
    turns_are_of_like_sizes,
    one_mpi_is_another_one_each_time,
    a_commit_has_a_turn,
]


def main() -> int:
    failed = 0
    for test in TESTS:
        try:
            test()
            print(f"ok    {test.__name__}")
        except AssertionError as error:
            failed += 1
            print(f"FAIL  {test.__name__}: {error}")
    print(f"{len(TESTS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
