#!/usr/bin/env python3
"""Recordings that do not come to their end: the disk is full, the program is interrupted. What was recorded is kept, and nothing else.

    tests/record.py         Debian's Open MPI, about 15 s

A full disk is a small tmpfs in a mount namespace of its own; where there are none, these tests are left out with a line.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parent.parent
NARROWS = ROOT / "target/release/narrows"
PROGRAMS = {
    # 100,000 messages: 5 MB of records per rank.
    "messages": """#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, value = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 100000; i++)
        if (rank == 0)
            MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
        else
            MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0)
        printf("through\\n");
    MPI_Finalize();
}
""",
    "endless": """#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("up\\n");
    fflush(stdout);
    for (volatile int on = 1; on;)
        ;
}
""",
}
# Calls "$@" in a folder `disk` of 6 MB, of which the first argument is taken.
DISK = 'mount -t tmpfs -o size=6m tmpfs disk && head -c "$1" /dev/zero > disk/taken; shift; "$@"; code=$?; ls -A disk; exit $code'


class Wrong(Exception):
    pass


def expect(holds: bool, what: object) -> None:
    if not holds:
        raise Wrong(str(what))


def on_a_small_disk(folder: Path, taken: str, machine: list[str]) -> subprocess.CompletedProcess[str]:
    (folder / "disk").mkdir(exist_ok=True)
    command = [str(NARROWS), "record", "-n", "2", *machine, "-o", "disk/a.vef", "--", str(folder / "messages")]
    return subprocess.run(["unshare", "-rm", "sh", "-c", DISK, "sh", taken, *command], cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def full_disk(folder: Path, machine: list[str]) -> None:
    done = on_a_small_disk(folder, "0", machine)
    expect(done.returncode == 3 and "through" in done.stdout, done)
    expect("narrows: recording ends, at rank " in done.stderr and "the program goes on" in done.stderr, done.stderr)
    expect("ends early" in done.stderr and "is kept in disk/a.vef.records: narrows trace merge disk/a.vef.records" in done.stderr, done.stderr)
    expect("a.vef.records" in done.stdout.split() and ".records-" not in done.stdout, done.stdout)


def no_room_at_all(folder: Path) -> None:
    done = on_a_small_disk(folder, "7m", [])
    expect(done.returncode == 3 and "through" in done.stdout, done)
    expect(done.stderr.count("narrows: error: ") == 1 and "no rank found room for its recording; free some space" in done.stderr, done.stderr)
    expect("records" not in done.stdout, done.stdout)


def interrupted(folder: Path, machine: list[str], whole_group: bool) -> None:
    here = Path(tempfile.mkdtemp(dir=folder))
    command = [str(NARROWS), "record", "-n", "2", *machine, "-o", "a.vef", "--", str(folder / "endless")]
    process = subprocess.Popen(
        command, cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    )
    expect(process.stdout is not None and process.stdout.readline() == "up\n", "the program began")
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    expect(process.returncode == 130, f"exit code {process.returncode}: {errors}")
    expect("what its ranks have recorded is in a.vef.records: narrows trace merge a.vef.records -o FILE.jsonl" in errors, errors)
    expect(os.listdir(here) == ["a.vef.records"], os.listdir(here))
    merged = subprocess.run([str(NARROWS), "trace", "merge", "a.vef.records", "-o", "a.jsonl"], cwd=here, capture_output=True, text=True, check=False)
    expect((here / "a.jsonl").exists() and "2 ranks (such as 0) did not reach MPI_Finalize" in merged.stderr, merged)


def main() -> int:
    simulated = ["--machine", "bxi-v2", "--compute", "none"]
    good = bad = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for program, source in PROGRAMS.items():
            (folder / f"{program}.c").write_text(source)
            subprocess.run(["mpicc.openmpi", "-O1", f"{program}.c", "-o", program], cwd=folder, check=True)
        tests: list[tuple[str, Callable[[], None]]] = [
            ("interrupted", lambda: interrupted(folder, [], False)),
            ("interrupted_on_a_terminal", lambda: interrupted(folder, [], True)),
            ("interrupted_on_a_machine", lambda: interrupted(folder, simulated, True)),
        ]
        if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0:
            tests += [
                ("full_disk", lambda: full_disk(folder, [])),
                ("full_disk_on_a_machine", lambda: full_disk(folder, simulated)),
                ("no_room_at_all", lambda: no_room_at_all(folder)),
            ]
        else:
            print("left out: full disks (no mount namespaces here)")
        for title, test in tests:
            try:
                test()
                good += 1
                print(f"ok    {title}")
            except (Wrong, subprocess.SubprocessError) as error:
                bad += 1
                print(f"FAIL  {title}: {error}")
    print(f"{good} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
