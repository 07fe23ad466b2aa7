#!/usr/bin/env python3
"""Handlers on NICs under stock MPI programs: their receives run through ELF files of RV32.

    tests/handlers.py [--mpi NAME,...] [--turn all]    exit code 1 if a result is wrong

What arrives, what the run says of handlers that go wrong and of rules that fit nothing, and that a run repeats. Datatypes
that the NIC unpacks, receives of a communicator, and files of rules that are refused.
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
# Programs and numbers of ranks that run where no rule fits.
SOME = (("dtype",), (4,))
ALL = (("dtype", "p2p_random", "coll_blocking"), (2, 4, 16))
# Long messages are gets otherwise, which handlers do not see.
EAGER = ("--set", "message.eager_limit=128 KiB")


def handlers(folder: Path) -> dict[str, Path]:
    """The handlers of tests/mpi/handlers.c, compiled."""
    names = ("scale", "sum", "wrong")
    for name in names:
        subprocess.run([COMPILER, *FLAGS, SPIN / f"handlers/{name}.c", "-o", folder / f"{name}.elf"], check=True)
    return {name: folder / f"{name}.elf" for name in names}


def run(
    mpi: Mpi, program: Path, ranks: int, rules: list[str] | str | None, arguments: tuple[str, ...], folder: Path, machine: str = "bxi-v2"
) -> tuple[str, str, dict]:
    """What it prints, what the run says, and its summary. Rules are texts, or a file."""
    line = [NARROWS, "run", "-n", str(ranks), "--machine", machine, "--compute", "none", "--no-aslr", "--timeout", "120", *EAGER]
    if rules is None:
        line += ["--set", "network.mtu=2 KiB"]
    elif isinstance(rules, str):
        (folder / "rules.toml").write_text(rules)
        line += ["--handlers", folder / "rules.toml"]
    else:
        line += ["--set", f"nic.spin.rules={json.dumps(rules)}"]
    line += ["--out", folder / "out", "--", program, *arguments]
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


def check_receives(mpi: Mpi, folder: Path) -> list[str]:
    """What is wrong with rules that ask for communicators and datatypes."""
    program = folder / f"handlers_types_{mpi.name}"
    subprocess.run([mpi.tool("mpicc"), "-O2", SOURCES / "handlers_types.c", "-o", program], check=True, env={**os.environ, **mpi.environment})
    wrong = []
    unpacking = '[[rule]]\nhandler = "unpack"\ncommunicator = "halo"\n[[rule]]\nhandler = "empty"\ncommunicator = "nobody"\n'
    for ranks, arguments, handled, unexpected in ((2, (), 33, 0), (4, (), 33, 0), (2, ("late",), 0, 33)):
        said, told, summary = run(mpi, program, ranks, unpacking, arguments, folder)
        again = run(mpi, program, ranks, unpacking, arguments, folder)[2]
        found = summary["handlers"]
        counts = [rule["messages"] for rule in found["rules"]]
        expectations = {
            f"prints the result, not {said!r}": said == f"handlers_types: ranks={ranks} checks={33 * ranks} ok\n",
            f"unpacks {handled * ranks} messages, not {counts}": counts == [handled * ranks, 0],
            f"counts late receives, not {found['unexpected']}": found["unexpected"] >= unexpected * ranks,
            f"has room for all types, not {found['unfit']}": found["unfit"] == 0,
            f"wrote what was unpacked, not {found['written_bytes']}": (found["written_bytes"] == found["bytes"]) and found["failures"] == 0,
            f"says which rule fits nothing, not {told!r}": "empty comm=nobody" in told,
            "repeats": again["digest"] == summary["digest"] and again["handlers"] == found,
        }
        wrong += [f"{mpi.name}, {ranks} ranks, types {arguments}: it {what}" for what, holds in expectations.items() if not holds]
    scaling = '[[rule]]\nhandler = "scale.elf"\ncommunicator = "halo"\ndatatype = "MPI_INT"\nsize = "1 KiB.."\n'
    said, _, summary = run(mpi, program, 2, scaling, ("scaled",), folder)
    if said != "handlers_types: ranks=2 checks=4 ok\n" or summary["handlers"]["rules"][0]["messages"] != 2:
        wrong.append(f"{mpi.name}: a handler of a communicator: {said!r}, {summary['handlers']}")
    return wrong


def check_no_rules(mpi: Mpi, folder: Path, programs: tuple[str, ...], sizes: tuple[int, ...]) -> list[str]:
    """Whether a NIC with handlers is one without, as long as no rule fits."""
    wrong = []
    others = ["unpack comm=nobody", "reduce tag=1048575 datatype=nothing"]
    for name in programs:
        program = folder / f"{name}_{mpi.name}"
        command = [mpi.tool("mpicc"), "-O2", SOURCES / f"{name}.c", "-o", program, "-lm"]
        subprocess.run(command, check=True, env={**os.environ, **mpi.environment})
        for ranks in sizes:
            plain = run(mpi, program, ranks, None, (), folder)
            for rules in ([], others):
                spin = run(mpi, program, ranks, rules, (), folder, "bxi-v2-spin")
                if (spin[0], spin[2]["digest"]) != (plain[0], plain[2]["digest"]):
                    wrong.append(f"{mpi.name}, {name}, {ranks} ranks: the rules {rules}, which fit nothing, change the run")
    return wrong


def check_refusals(folder: Path) -> list[str]:
    """Files of rules that are refused with one line."""
    (folder / "no.elf").write_text("no ELF file")
    wrong = []
    for text, expected in (
        ("", "no rules; expected tables [[rule]]"),
        ('[[rule]]\nhandler = "no.elf"\n', "no ELF file of RV32"),
        ('[[rule]]\nhandler = "reduce"\nmemory = "1 GiB"\n', "a context asks for 1 GiB of handler memory in L2"),
        ('[[rule]]\nhandler = "redcue"\n', "expected an ELF file, or one of unpack"),
        ('[[rule]]\nhandler = "reduce"\ncommunicator = "MPI COMM"\n', "has spaces"),
        ('[[rule]]\nhandler = "reduce"\nlength = 7\n', "line 3: unknown field `length`, expected one of `handler`"),
        ('[[rule]]\nhandler = "unpack"\nmemory = 64\n', "what unpack needs depends on the datatype"),
    ):
        (folder / "rules.toml").write_text(text)
        done = subprocess.run([NARROWS, "run", "-n", "1", "--handlers", folder / "rules.toml", "--", "true"], capture_output=True, text=True)
        lines = done.stderr.strip().splitlines()
        if done.returncode == 0 or not any(expected in line for line in lines):
            wrong.append(f"{text!r}: code {done.returncode}, {done.stderr!r}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpi", default="debian,openmpi,mpich,intel")
    parser.add_argument("--turn", default="commit", help="all: more programs, with up to 16 ranks")
    arguments = parser.parse_args()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as name:
        elf = handlers(Path(name))
        for mpi in (Mpi(name, PREFIXES[name]) for name in arguments.mpi.split(",")):
            if not mpi.usable():
                print(f"left out: {mpi.name} is not installed")
                continue
            wrong = check(mpi, Path(name), elf) + check_receives(mpi, Path(name))
            wrong += check_no_rules(mpi, Path(name), *(SOME if arguments.turn == "commit" else ALL))
            print(f"{'FAIL' if wrong else 'ok  '}  handlers under {mpi.name}")
            for line in wrong:
                print(f"      {line}")
            passed, failed = passed + (not wrong), failed + bool(wrong)
        wrong = check_refusals(Path(name))
        print(f"{'FAIL' if wrong else 'ok  '}  rules that are refused")
        for line in wrong:
            print(f"      {line}")
        passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
