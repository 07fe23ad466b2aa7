#!/usr/bin/env python3
"""Handlers on NICs under stock MPI programs: their receives run through ELF files of RV32.

    tests/handlers.py [--mpi NAME,...]    exit code 1 if a result is wrong

What arrives, what the run says of handlers that go wrong and of rules that fit nothing, and that a run repeats.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mpi_driver.mpis import PREFIXES, ROOT, SOURCES, Mpi  # noqa: E402

NARROWS = ROOT / "target/release/narrows"
SPIN = ROOT / "crates/spin"
COMPILER = "riscv64-unknown-elf-gcc"
FLAGS = (
    "-march=rv32imac",
    "-mabi=ilp32",
    "-O3",
    "-ffreestanding",
    "-nostdlib",
    "-I",
    SPIN / "include",
    "-T",
    SPIN / "include/narrows_spin.ld",
)
# Long messages are gets otherwise, which handlers do not see.
EAGER = ("--set", "message.eager_limit=128 KiB")


def handlers(folder: Path) -> dict[str, Path]:
    """The handlers of tests/mpi/handlers.c, compiled."""
    names = ("scale", "sum", "wrong")
    for name in names:
        subprocess.run([COMPILER, *FLAGS, SPIN / f"handlers/{name}.c", "-o", folder / f"{name}.elf"], check=True)
    return {name: folder / f"{name}.elf" for name in names}


def run(mpi: Mpi, program: Path, ranks: int, rules: list[str], arguments: tuple[str, ...], folder: Path) -> tuple[str, str, dict]:
    """What it prints, what the run says, and its summary."""
    line = [NARROWS, "run", "-n", str(ranks), "--machine", "bxi-v2", "--compute", "none", "--no-aslr", "--timeout", "120", *EAGER]
    line += ["--set", f"nic.spin.rules={json.dumps(rules)}", "--out", folder / "out", "--", program, *arguments]
    done = subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL, env={**os.environ, **mpi.environment})
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, line))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr, json.loads((folder / "out/summary.json").read_text())


def check(mpi: Mpi, folder: Path, elf: dict[str, Path]) -> list[str]:
    """What is wrong under an MPI."""
    program = folder / f"handlers_{mpi.name}"
    subprocess.run([mpi.tool("mpicc"), "-O2", SOURCES / "handlers.c", "-o", program], check=True, env={**os.environ, **mpi.environment})
    wrong = []
    for ranks in (2, 4):
        rules = [f"{elf['scale']} tag=71", f"{elf['sum']} tag=72", "copy_to_host tag=73", f"{elf['wrong']} tag=74", "reduce tag=99"]
        said, told, summary = run(mpi, program, ranks, rules, (), folder)
        again = run(mpi, program, ranks, rules, (), folder)[2]
        counts = {rule["rule"].split()[-1]: rule["messages"] for rule in summary["handlers"]["rules"]}
        # 6 lengths, sent twice, by half of the ranks; all packets but the first of the four longer ones go wrong.
        each = 12 * ranks // 2
        expectations = {
            f"prints the result, not {said!r}": said == f"handlers: ranks={ranks} checks={4 * each} ok\n",
            f"counts messages, not {counts}": counts == {"tag=71": each, "tag=72": each, "tag=73": each, "tag=74": each, "tag=99": 0},
            "repeats": again["digest"] == summary["digest"] and again["handlers"] == summary["handlers"],
            f"says which handler went wrong, where and why, not {told!r}": "payload_handler of" in told and "wrong.elf on node" in told,
            "counts handlers that went wrong": summary["handlers"]["failures"] > 0,
            f"says which rule fits nothing, not {told!r}": 'rule "reduce tag=99" fits no message' in told,
        }
        wrong += [f"{mpi.name}, {ranks} ranks: it {what}" for what, holds in expectations.items() if not holds]
    # Rules that fit nothing: all is as without them.
    without = run(mpi, program, 2, [], ("plain",), folder)[2]
    with_others = run(mpi, program, 2, ["reduce tag=99"], ("plain",), folder)[2]
    if without["digest"] != with_others["digest"]:
        wrong.append(f"{mpi.name}: rules that fit nothing change the run")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpi", default="debian,openmpi,mpich,intel")
    passed = failed = 0
    with tempfile.TemporaryDirectory() as name:
        elf = handlers(Path(name))
        for mpi in (Mpi(name, PREFIXES[name]) for name in parser.parse_args().mpi.split(",")):
            if not mpi.usable():
                print(f"left out: {mpi.name} is not installed")
                continue
            wrong = check(mpi, Path(name), elf)
            print(f"{'FAIL' if wrong else 'ok  '}  handlers under {mpi.name}")
            for line in wrong:
                print(f"      {line}")
            passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
