"""Two runs of one program are the same: digest, simulated time and counts."""

import os
import shutil
from typing import Callable

from .cases import Case
from .checks import Failure, Tests, tail
from .mpis import Mpi
from .processes import run


def repeats(tests: Tests, mpi: Mpi, ranks: int, program: str, *options: str, environment: dict[str, str] | None = None) -> Callable[[], None]:
    """Two runs, the second on one core only, have the same digest and simulated time."""

    def test() -> None:
        seen = []
        for prefix in ([], ["taskset", "-c", str(min(os.sched_getaffinity(0)))]):
            case = Case(program, f"{program}.c", options=("--compute", "none", *options))
            command = [*prefix, *tests.command("narrows", mpi, case, ranks)]
            outcome = run(command, timeout=120 * tests.options.slow, environment={**mpi.environment, **(environment or {})})
            try:
                if outcome.code != 0:
                    raise Failure(f"exit code {outcome.code}: {tail(outcome)}")
                summary = outcome.summary
                seen.append({key: summary[key] for key in ("digest", "simulated_s", "messages", "bytes", "packets", "events")})
            finally:
                shutil.rmtree(outcome.folder, ignore_errors=True)
        if seen[0] != seen[1]:
            raise Failure(f"{seen[0]} and then {seen[1]}")

    return test
