#!/usr/bin/env python3
"""Writes docs/reference/command-line.md from what `narrows --help` and its subcommands print.

    scripts/command_line.py            writes the page
    scripts/command_line.py --check    says whether it is current; the exit code is 1 if not (tests/docs_commands.py does this)
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NARROWS = ROOT / "target/release/narrows"
PAGE = ROOT / "docs/reference/command-line.md"
HEAD = """# Command line

This page lists every subcommand of `narrows` with its purpose. `narrows COMMAND --help` explains all options, with
examples. `narrows man DIR` writes manual pages, and `narrows completions bash` prints what your shell needs to complete
commands and options. See also [output and exit codes](../exit-codes.md) and [environment
variables](environment.md).

`scripts/command_line.py` makes this page from the help texts.
"""
# What a subcommand's page is, where its help does not say so.
PAGES = {
    "run": "docs/reference/run.md",
    "replay": "docs/replay.md",
    "model": "docs/iron-law.md",
    "machine": "docs/machine-files.md",
    "topology": "docs/topologies.md",
    "trace": "docs/traces.md",
    "record": "docs/traces.md",
    "analyse": "docs/traces.md",
    "traffic": "docs/traffic.md",
    "config": "docs/conformance.md",
}


def help_of(*words: str) -> str:
    return subprocess.run([str(NARROWS), *words, "--help"], capture_output=True, text=True, check=True).stdout


def commands(text: str) -> list[tuple[str, str]]:
    """Names and purposes of the subcommands that a help text lists."""
    found = text.partition("Commands:\n")[2].partition("\n\n")[0]
    return [(name, purpose) for name, purpose in re.findall(r"^  ([a-z-]+) {2,}(\S.*)$", found, re.M) if name != "help"]


def page() -> str:
    lines = [HEAD]
    top = help_of()
    table = ["| command | what it does | page |", "|---|---|---|"]
    details: list[str] = []
    for name, purpose in commands(top):
        text = help_of(name)
        found = PAGES.get(name) or next(iter(re.findall(r"docs/[\w/-]+\.md", text)), "")
        there = "../" + found.removeprefix("docs/") if found else ""
        link = f"[{Path(found).stem}]({there})" if found else ""
        table.append(f"| [`{name}`](#narrows-{name}) | {purpose.replace('|', chr(92) + '|')} | {link} |")
        usage = re.search(r"^Usage: (.*)$", text, re.M)
        details += [f"## narrows {name}", "", f"{purpose}.", "", "```text", usage[1] if usage else f"narrows {name}", "```", ""]
        inner = commands(text)
        if inner:
            details += ["| command | what it does |", "|---|---|"]
            details += [f"| `{name} {word}` | {what.replace('|', chr(92) + '|')} |" for word, what in inner]
            details.append("")
    return "\n".join([*lines, *table, "", *details]).rstrip() + "\n"


def is_current() -> str:
    """Empty if the page is current, else what to do."""
    return "" if PAGE.is_file() and PAGE.read_text() == page() else f"{PAGE.relative_to(ROOT)} is not current: scripts/command_line.py writes it anew"


def main() -> int:
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    if sys.argv[1:] == ["--check"]:
        wrong = is_current()
        print(wrong or "current")
        return bool(wrong)
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
