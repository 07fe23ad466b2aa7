#!/usr/bin/env python3
"""CPU time per recorded MPI call: an MPI library that does nothing, with and without the recorder, in turns.

    benches/recorder/run.py [--library target/release/lib/libnarrows-recorder.so] [--calls 3000000] [--turns 5]

Prints the least of all turns, which other work on the machine disturbs least, and what two readings of the time stamp counter cost,
which is what is left of a call at best."""

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COUNTER = """
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>
int main(void)
{
    struct timespec from, to;
    unsigned long long sum = 0;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    for (int i = 0; i < 10000000; i++)
        sum += __rdtsc();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    printf("%.2f\\n", ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / 1e7 + 0 * (double)sum);
}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library", type=Path, default=ROOT / "target/release/lib/libnarrows-recorder.so")
    parser.add_argument("--calls", type=int, default=3_000_000)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def compile_c(*arguments):
            subprocess.run(["cc", "-O2", "-Wno-unused-parameter", *map(str, arguments)], check=True)

        compile_c("-shared", "-fPIC", HERE / "mpi.c", "-o", folder / "libmpi.so")
        compile_c(HERE / "calls.c", "-o", folder / "calls", folder / "libmpi.so", f"-Wl,-rpath,{folder}")
        (folder / "counter.c").write_text(COUNTER)
        compile_c(folder / "counter.c", "-o", folder / "counter")

        def run(*command, **environment):
            result = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, env={**os.environ, **environment})
            return float(result.stdout)

        print(f"reading the time stamp counter: {min(run(folder / 'counter') for _ in range(options.turns)):.1f} ns")
        for mix in ("exchange", "halo", "blocking", "collective"):
            command = [folder / "calls", mix, options.calls]
            plain, recorded = [], []
            for _ in range(options.turns):
                plain.append(run(*command))
                recorded.append(run(*command, LD_PRELOAD=str(options.library.resolve()), NARROWS_RECORD=str(folder)))
            size = (folder / "rank.0").stat().st_size
            print(f"{mix:12} {min(recorded) - min(plain):6.1f} ns per call, {size / options.calls:5.1f} bytes per call")


if __name__ == "__main__":
    main()
