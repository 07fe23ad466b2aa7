#!/usr/bin/env python3
"""Every command line and snippet of the pages of the project (README, CONTRIBUTING, docs/*.md ...) is run or checked.

    tests/docs_commands.py                      all pages, under 3 minutes on two cores
    tests/docs_commands.py docs/traffic.md -v   one page, each command with its time

What is done with a block depends on its language:

    sh        each line is run, in a folder with the files that the page speaks of
    console   each line after "$ " is run; what the page shows must be in what it prints, but for wall times
    toml      a machine file, or a part of one that must fit a preset; [[class]]: classes of traffic; [[rule]]: handlers
    csv       a list of messages
    jsonl     a trace, which must replay to its end
    graph     a graph file
    python    nothing here: tests/python/test_docs.py runs it
    text      nothing: a drawing

A line is left out only when its comment says to the reader that it takes minutes ("# about 12 minutes") or changes the system ("# installs ..."). A line
that begins with make is not run either: its target must be there. Commands within a sentence, and the examples of --help, must have options
that exist, and files that are named must be there.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import command_line  # noqa: E402

NARROWS = ROOT / "target/release/narrows"
FOLDERS = tuple(ROOT / "docs" / name for name in ("", "how-to", "concepts", "reference", "machines", "lab"))
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *(page for folder in FOLDERS for page in sorted(folder.glob("*.md"))),
]
LEFT_OUT = re.compile(r"#.*\b(minutes|hours?|installs)\b")

# Ten times as long as anything takes on an idle computer: a command that goes beyond does not end.
SECONDS_MAX = 300
# What differs between two runs of the same command.
CHANGES = re.compile(r"(?<![\w.])[\d.]+ (?:[kMG] ?)?(?:ms|s|packet-hops/s|hops/s|messages/s|/s)(?=[ ;),]|$)")

# An MPI program that is over at once.
RING = """#include <mpi.h>
int main(int argc, char **argv)
{
    int rank, size, value = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Sendrecv_replace(&value, 1, MPI_INT, (rank + 1) % size, 0, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
"""
PYTHON = "from mpi4py import MPI\nMPI.COMM_WORLD.allreduce(1)\n"
# A Chakra trace of one rank: metadata, a node that computes for 5 us.
TRAINING = b"\x00\x06\x08\x01\x18\x04\x38\x05"
MACHINE = '[machine]\nname = "mine"\nbase = "bxi-v2"\n'


class Wrong(Exception):
    pass


def run(line: str, folder: Path, programs: Path) -> str:
    """What a command prints; it must succeed."""
    environment = {**os.environ, "PATH": f"{programs}:{NARROWS.parent}:{os.environ['PATH']}"}
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        raise Wrong(f"takes more than {SECONDS_MAX} s: make it smaller, or say in a comment how long it takes") from None
    if done.returncode != 0:
        raise Wrong(f"exit code {done.returncode}: {(done.stderr or done.stdout)[-600:]}")
    return done.stdout + done.stderr


def plain(line: str) -> str:
    """A line of output without what differs between runs."""
    return " ".join(CHANGES.sub("", line).split())


@cache
def help_of(words: tuple[str, ...]) -> str:
    done = subprocess.run([str(NARROWS), *words, "--help"], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def options_exist(command: str) -> None:
    """The subcommands and options of one `narrows ...` are known."""
    words = command.split(" -- ")[0].split()[1:]
    path: list[str] = []
    for word in words[:2]:
        # The word is a command when the help of what is above it lists it.
        if not re.search(rf"^  {re.escape(word)}  ", help_of(tuple(path)), re.M):
            break
        path.append(word)
    if words and not words[0].startswith("-") and not path and words[0].islower():
        raise Wrong(f"narrows has no command {words[0]}")
    for word in words:
        option = re.match(r"--?[a-z][a-z-]*", word)
        if option and not re.search(rf"(?<![\w-]){re.escape(option[0])}(?![\w-])", help_of(tuple(path))):
            raise Wrong(f"{' '.join(['narrows', *path])} has no option {option[0]}")


def make_target(line: str) -> None:
    targets = re.findall(r"^([\w.-]+)[^=\n]*:(?!=)", (ROOT / "Makefile").read_text(), re.M)
    for word in shlex.split(line, comments=True)[1:]:
        if "=" not in word and word not in targets:
            raise Wrong(f"the Makefile has no target {word}")


class Page:
    """One file and the folder in which its commands run."""

    def __init__(self, path: Path, folder: Path, programs: Path) -> None:
        self.path, self.folder, self.programs = path, folder, programs
        self.report: list[tuple[str, str, float]] = []
        folder.mkdir()
        for name in ("anything", "app"):
            (folder / name).symlink_to(programs / "ring")
        for name in ("pingpong", "halo2d"):
            (folder / name).symlink_to(programs / name)
        (folder / "examples").symlink_to(ROOT / "examples")
        (folder / "app.py").write_text(PYTHON)
        (folder / "my.toml").write_text(MACHINE)
        (folder / "training.0.et").write_bytes(TRAINING)

    def test(self, name: str, work, *arguments) -> None:
        begin, wrong = time.monotonic(), ""
        try:
            work(*arguments)
        except Wrong as error:
            wrong = str(error)
        self.report.append((name, wrong, time.monotonic() - begin))

    def blocks(self) -> list[tuple[int, str, list[str]]]:
        found, begin, language = [], 0, ""
        lines = self.path.read_text().splitlines()
        for number, line in enumerate(lines, 1):
            if line.lstrip().startswith("```"):
                if begin:
                    found.append((begin, language, lines[begin : number - 1]))
                    begin = 0
                else:
                    begin, language = number, line.strip()[3:]
        return found

    def shell(self, line: str) -> None:
        if line.startswith("make "):
            make_target(line)
        elif not LEFT_OUT.search(line):
            run(line, self.folder, self.programs)
        elif line.startswith("narrows "):
            options_exist(line.split("#")[0])

    def console(self, line: str, shown: list[str]) -> None:
        printed = run(line, self.folder, self.programs)
        # Computing that is measured differs, and with it all that is printed.
        if " run " in line and "--compute none" not in line:
            return
        lines = {plain(text) for text in printed.splitlines()}
        for text in shown:
            if text != "..." and plain(text) not in lines:
                raise Wrong(f"does not print any more: {text}\n{printed}")

    def toml(self, text: str) -> None:
        if "[[class]]" in text:
            (self.folder / "jobs.toml").write_text(text)
            return
        if "[[rule]]" in text:
            (self.folder / "rules.toml").write_text(text)
            run("narrows run -n 2 --machine bxi-v2-spin --compute none --handlers rules.toml -- ./pingpong", self.folder, self.programs)
            return
        if "[quantity]" in text:
            tomllib.loads(text)  # a figure; all of them are run by make test-figures
            return
        if "[machine]" in text:
            (self.folder / "my.toml").write_text(text)
            run("narrows machine check my.toml", self.folder, self.programs)
            return
        reasons = []
        for preset in run("narrows machine list --csv", self.folder, self.programs).splitlines()[1:]:
            preset = preset.split(",")[0]
            (self.folder / "part.toml").write_text(f'[machine]\nname = "part"\nbase = "{preset}"\n\n{text}')
            try:
                run("narrows machine check part.toml", self.folder, self.programs)
                return
            except Wrong as error:
                reasons.append(f"{preset}: {error}")
        raise Wrong("fits no preset:\n" + "\n".join(reasons))

    def graph(self, text: str) -> None:
        (self.folder / "my.graph").write_text(text)
        topology = '[topology]\nkind = "file"\npath = "my.graph"\n\n[node]\ncount = 5\n\n[network]\nrouting = "table"\n'
        (self.folder / "graph.toml").write_text(MACHINE + "\n" + topology)
        run("narrows machine check graph.toml", self.folder, self.programs)

    def trace(self, text: str) -> None:
        (self.folder / "my.jsonl").write_text(text)
        run("narrows trace check my.jsonl && narrows replay my.jsonl --machine bxi-v3 --nodes 16", self.folder, self.programs)

    def paths(self) -> None:
        """Files that the page names are there: links, and what stands in the folders of the repository."""
        text = self.path.read_text()
        links = {self.path.parent / link.split("#")[0] for link in re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", text)}
        named = {ROOT / path for path in re.findall(r"`((?:crates|capi|tests|docs|scripts|machines|benches|examples|fuzz)/[\w./-]*)`", text)}
        absent = sorted(str(path.relative_to(ROOT)) for path in links | named if not path.exists())
        if absent:
            raise Wrong(f"not there: {', '.join(absent)}")

    def check(self) -> "Page":
        name = self.path.relative_to(ROOT)
        for begin, language, lines in self.blocks():
            place = f"{name}:{begin}"
            if language == "sh":
                for number, line in enumerate(lines, begin + 1):
                    if line and not line.startswith("#"):
                        self.test(f"{name}:{number} {line.split('  ')[0]}", self.shell, line)
            elif language == "console":
                starts = [index for index, line in enumerate(lines) if line.startswith("$ ")]
                for start, end in zip(starts, [*starts[1:], len(lines)]):
                    self.test(f"{place} {lines[start]}", self.console, lines[start][2:], [line for line in lines[start + 1 : end] if line])
            elif language == "toml":
                self.test(f"{place} toml", self.toml, "\n".join(lines) + "\n")
            elif language == "csv":
                (self.folder / "my.csv").write_text("\n".join(lines) + "\n")
            elif language == "graph":
                self.test(f"{place} graph", self.graph, "\n".join(lines) + "\n")
            elif language == "jsonl":
                self.test(f"{place} jsonl", self.trace, "\n".join(lines) + "\n")
            elif language not in ("text", "python"):
                self.report.append((f"{place} {language}", "say what it is: sh, console, toml, csv, graph, jsonl, python or text", 0.0))
        self.test(f"{name} paths", self.paths)
        outside = re.sub(r"```.*?```", "", self.path.read_text(), flags=re.S)
        for command in re.findall(r"`(narrows [a-z][^`]+)`", outside):
            self.test(f"{name} {command}", options_exist, command)
        return self


def help_examples() -> list[tuple[str, str, float]]:
    """The examples of each --help have options that exist."""
    report = []
    top = help_of(())
    commands = re.findall(r"^  ([a-z]+)  ", top.split("Commands:")[1].split("Options:")[0], re.M)
    texts = {("narrows",): top}
    for command in (command for command in commands if command != "help"):
        texts["narrows", command] = help_of((command,))
        for inner in re.findall(r"^  ([a-z]+)  ", texts["narrows", command].partition("Commands:")[2].split("Options:")[0], re.M):
            if inner != "help":
                texts["narrows", command, inner] = help_of((command, inner))
    for words, text in texts.items():
        begin = time.monotonic()
        examples = re.findall(r"^  ((?:narrows |cc ).*)$", text, re.M)
        wrong = [] if examples else ["has no example"]
        for example in examples:
            try:
                options_exist(example[example.index("narrows ") :].rstrip(")"))
            except Wrong as error:
                wrong.append(f"{example}: {error}")
        report.append((f"{' '.join(words)} --help", "; ".join(wrong), time.monotonic() - begin))
    return report


def order_of_crates() -> str:
    """Why the table of ARCHITECTURE.md is wrong: it has each crate once, and a crate uses only those above it; "" where it holds."""
    table = (ROOT / "ARCHITECTURE.md").read_text().partition("| crate | what it is |\n")[2].partition("\n\n")[0]
    rows = [re.findall(r"`(\w+)`", line.split("|")[1]) for line in table.splitlines()[1:]]
    place = {name: number for number, names in enumerate(rows) for name in names}
    manifests = {path.parent.name: tomllib.loads(path.read_text()) for path in ROOT.glob("crates/*/Cargo.toml")}
    if set(manifests) != set(place):
        return f"the table and crates/ differ in {', '.join(sorted(set(manifests) ^ set(place)))}"
    uses = [(name, used.removeprefix("narrows-")) for name, manifest in manifests.items() for used in manifest.get("dependencies", {})]
    upwards = [f"{name} uses {used}, which stands below it" for name, used in uses if place.get(used, 0) > place[name]]
    return "; ".join(sorted(upwards))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, help="pages [default: all]")
    parser.add_argument("-v", "--verbose", action="store_true", help="each command with its time")
    options = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = folder / "programs"
        programs.mkdir()
        (programs / "ring.c").write_text(RING)
        for source in (programs / "ring.c", ROOT / "examples/pingpong.c", ROOT / "examples/halo2d.c"):
            subprocess.run(["mpicc.openmpi", "-O2", str(source), "-o", str(programs / source.stem), "-lm"], check=True)
        # A program that not every computer has, and the one of Debian's that has mpi4py.
        (programs / "lmp").symlink_to("ring")
        (programs / "python3").symlink_to("/usr/bin/python3")
        # The one that has the package of ours: an environment is known by the path of its interpreter.
        (programs / "python").write_text(f'#!/bin/sh\nexec {ROOT}/target/python/bin/python "$@"\n')
        (programs / "python").chmod(0o755)
        paths = [path.resolve() for path in options.pages] or [path for path in PAGES if path.exists()]
        pages = [Page(path, folder / "-".join(path.relative_to(ROOT).with_suffix("").parts), programs) for path in paths]
        with ThreadPoolExecutor(2) as pool:
            report = [line for page in pool.map(Page.check, pages) for line in page.report]
    if not options.pages:
        report += help_examples()
        report.append(("docs/reference/command-line.md", command_line.is_current(), 0.0))
        report.append(("ARCHITECTURE.md order of crates", order_of_crates(), 0.0))
    wrong = 0
    for name, reason, seconds in report:
        wrong += bool(reason)
        if reason or options.verbose:
            print(f"{'FAIL' if reason else 'ok  '}  {name}  ({seconds:.1f} s){': ' + reason if reason else ''}")
    print(f"{time.monotonic() - begin:.0f} s")
    print(f"{len(report) - wrong} passed, {wrong} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
