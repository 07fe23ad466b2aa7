#!/usr/bin/env python3
"""Prose has at most 120 characters in a line, code 140: pages, comments and help texts.

    scripts/prose.py              names every line that is longer; the exit code says whether there is one
    scripts/prose.py --mend FILE...   breaks the long ones of these files anew

Prose is a page (*.md) outside of its blocks, tables, headings, links and pictures, and every comment of Rust, C, Python, shell and TOML.
"""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROSE, CODE = 120, 140
# How a line of a comment begins.
SIGNS = {".rs": "///|//!|//", ".c": r"//|\*", ".h": r"//|\*", ".py": "#", ".sh": "#", ".toml": "#"}
COMMENT = {suffix: re.compile(rf"^(\s*(?:{signs}))( +)(.*)$") for suffix, signs in SIGNS.items()}
# A line of a page that is no running text.
FIXED = re.compile(r"^\s*(\||#|!\[|<|$)")
ITEM = re.compile(r"^(\s*)([*-]|\d+\.)( +)(.*)$")


def files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\n") if (Path(name).suffix in SIGNS or name.endswith(".md")) and (ROOT / name).is_file()]


def fill(text: str, first: str, others: str) -> list[str]:
    # What would be an item, a heading or a table at the beginning of a line stays with the word before it.
    text = re.sub(r" (?=([*+-]|\d+[.)]|#+|\|)( |$))", "\0", text)
    lines = textwrap.wrap(text, PROSE, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def is_long(line: str) -> bool:
    """Longer than prose may be, at a place where it could be broken."""
    return len(line) > PROSE and " " in line.strip()[:PROSE].lstrip("/!#*- ")


def page(lines: list[str], mend: bool) -> tuple[list[int], list[str]]:
    """Long lines of a page, and the page with its paragraphs filled anew where one is long."""
    wrong: list[int] = []
    result: list[str] = []
    paragraph: list[tuple[int, str]] = []
    block = False

    def end() -> None:
        long = [number for number, line in paragraph if is_long(line)]
        wrong.extend(long)
        if long and mend:
            item = ITEM.match(paragraph[0][1])
            indent = re.match(r"\s*", paragraph[0][1])[0]
            first, others = (item[1] + item[2] + item[3], " " * len(item[1] + item[2] + item[3])) if item else (indent, indent)
            words = [item[4] if item else paragraph[0][1].strip(), *(line.strip() for _, line in paragraph[1:])]
            filled = fill(" ".join(words), first, others)
            result.extend(filled)
        else:
            result.extend(line for _, line in paragraph)
        paragraph.clear()

    for number, line in enumerate(lines, 1):
        fence = line.lstrip().startswith("```")
        if fence or block or FIXED.match(line):
            end()
            block ^= fence
            result.append(line)
        else:
            if ITEM.match(line):
                end()
            paragraph.append((number, line))
    end()
    return wrong, result


def comments(lines: list[str], mend: bool, comment: re.Pattern[str]) -> tuple[list[int], list[str]]:
    """Long lines of comments; mended, the rest of a line goes on in the next one of the same comment."""
    wrong: list[int] = []
    result: list[str] = []
    block, place = False, 0
    queue = list(lines)
    while place < len(queue):
        line = queue[place]
        place += 1
        parts = comment.match(line)
        if parts and parts[1].strip() in ("///", "//!") and parts[3].startswith("```"):
            block = not block
        if not parts:
            block = False
        fixed = block or not parts or re.match(r"(\||<|```|http|SPDX|\[[^]]*\]: )", parts[3])
        if fixed or not is_long(line):
            result.append(line)
            continue
        wrong.append(place)
        if not mend:
            result.append(line)
            continue
        item = re.match(r"([*-]|\d+\.) +", parts[3])
        prefix = parts[1] + parts[2]
        inner = prefix + " " * (len(item[0]) if item else 0)
        first, *rest = fill(parts[3], prefix, inner)
        result.append(first)
        if not rest:
            continue
        following = comment.match(queue[place]) if place < len(queue) else None
        goes_on = (
            following
            and following[1] == parts[1]
            and following[3]
            and not re.match(r"([*-]|\d+\.) |#|\||```", following[3])
            and len(following[2]) >= len(parts[2])
            and (not item or len(following[2]) == len(parts[2]) + len(item[0]))
            and (item or following[2] == parts[2])
        )
        text = " ".join(line.strip().removeprefix(parts[1].strip()).strip() for line in rest)
        if goes_on:
            queue[place] = f"{following[1]}{following[2]}{text} {following[3]}"
        else:
            queue.insert(place, inner + text)
    return wrong, result


def check(path: Path, mend: bool) -> int:
    text = path.read_text()
    lines = text.split("\n")
    wrong, result = page(lines, mend) if path.suffix == ".md" else comments(lines, mend, COMMENT[path.suffix])
    if mend:
        if result != lines:
            path.write_text("\n".join(result))
        return 0
    for number in wrong:
        print(f"{path.relative_to(ROOT)}:{number}: {len(lines[number - 1])} characters, at most {PROSE} are prose")
    return len(wrong)


def main() -> int:
    arguments = sys.argv[1:]
    if arguments in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    mend = arguments[:1] == ["--mend"]
    paths = [Path(name).resolve() for name in arguments[1:]] if mend else files()
    wrong = sum(check(path, mend) for path in paths)
    if wrong:
        print(f"{wrong} lines are too long: scripts/prose.py --mend FILE...")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
