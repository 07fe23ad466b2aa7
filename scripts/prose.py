#!/usr/bin/env python3
"""Prose has at most 120 characters in a line, code 140: pages, comments and help texts. Sentences of pages are short.

    scripts/prose.py                  names every line and sentence that is wrong; the exit code says whether there is one
    scripts/prose.py --mend FILE...   breaks the long lines of these files anew
    scripts/prose.py --words FILE...  checks only the sentences of these pages

A sentence of a page has at most 30 words (up to a full stop, question mark, colon or semicolon), no double negation, and none of
the words in WORDS, for each of which there is a plainer one. Pages in OTHERS are notes for developers, or come from help texts.

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

WORDS_MAX = 30
# What readers stumbled over, and what to write.
WORDS = {
    r"beside": "next to, compared with, besides, or in addition to",
    r"in vain": "without success",
    r"(is|are|be|was|were) told": "is reported, is named",
    r"(look|looks|looked) in vain": "finds nothing",
    r"what (it|they) (is|are|was|were) (when|without)": "name the thing",
    r"(nobody|somebody) (knows|says|publishes)": "is not known, is not published",
    r"whoever": "any user who",
    r"said to be": "is reported as",
    r"as (it|they) comes?": "unchanged",
    r"once and for all": "at the start",
    r"so many (as|and no)": "as many",
    r"of (its|their) own accord": "automatically",
    r"(is|are) to be had": "is available",
    r"(hang|hangs) on": "depends on",
    r"(fight|fights) for": "competes for",
    r"in the place of": "in place of",
    r"and (its|their) like": "and similar ones",
    r"(waits?|stands?) for good": "forever",
}
NEGATIONS = (
    r"not (without|un(usual|common|like|able|known|related|important))",
    r"(nothing|none|nobody|no \w+) (that|which|who) (is|are|was|were|does|do|did|has|have|can) not",
    r"(never|not) (no|nothing|none|nobody|never)",
    r"cannot (but|not)",
)
WORD = re.compile(rf"\b({'|'.join(WORDS)})\b", re.I)
NEGATION = re.compile(rf"\b({'|'.join(NEGATIONS)})\b", re.I)
# Notes for developers, and pages that a script writes.
OTHERS = re.compile(r"(docs/(decisions|lab)/|tests/|fuzz/|docs/reference/command-line)")


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


def sentences(lines: list[str]) -> list[tuple[int, str]]:
    """Sentences of a page with the lines on which their paragraphs begin. Headings and cells of tables are sentences, too."""
    paragraphs: list[tuple[int, str]] = []
    block, goes_on = False, False
    for number, line in enumerate(lines, 1):
        fence = line.lstrip().startswith("```")
        if fence or block:
            block ^= fence
            goes_on = False
        elif FIXED.match(line):
            goes_on = False
            if line.startswith("#"):
                paragraphs.append((number, line.strip("# ")))
            if line.startswith("|"):
                paragraphs += [(number, cell.strip()) for cell in re.split(r"(?<!\\)\|", line) if cell.strip(" -:")]
        elif goes_on and not ITEM.match(line):
            paragraphs[-1] = (paragraphs[-1][0], f"{paragraphs[-1][1]} {line.strip()}")
        else:
            paragraphs.append((number, line.strip()))
            goes_on = True
    result = []
    for number, text in paragraphs:
        text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "`code`", text))
        result += [(number, one) for one in re.split(r"(?<=[.!?:;])\**\s+", text)]
    return result


def words(path: Path) -> int:
    """Prints what is wrong with the sentences of a page, and counts it."""
    lines = path.read_text().split("\n")
    wrong = 0
    # The keys of machine files are written by the code that declares them.
    end = lines.index("## Keys") if "## Keys" in lines else len(lines)
    for number, sentence in sentences(lines[:end]):
        found = WORD.search(sentence)
        reasons = [f'"{found[0]}": {next(better for word, better in WORDS.items() if re.fullmatch(word, found[0], re.I))}'] if found else []
        found = NEGATION.search(sentence)
        reasons += [f'double negation "{found[0]}"'] if found else []
        count = len([word for word in sentence.split() if re.search(r"\w", word)])
        reasons += [f"{count} words in a sentence, at most {WORDS_MAX}"] if count > WORDS_MAX and not lines[number - 1].startswith("|") else []
        for reason in reasons:
            print(f"{path.relative_to(ROOT)}:{number}: {reason}: {sentence[:90]}")
        wrong += len(reasons)
    return wrong


def check(path: Path, mend: bool) -> int:
    text = path.read_text()
    lines = text.split("\n")
    wrong, result = page(lines, mend) if path.suffix == ".md" else comments(lines, mend, COMMENT[path.suffix])
    if mend:
        if result != lines:
            path.write_text("\n".join(result))
        return 0
    is_page = path.suffix == ".md" and not OTHERS.match(str(path.relative_to(ROOT)))
    unclear = words(path) if is_page else 0
    for number in wrong:
        print(f"{path.relative_to(ROOT)}:{number}: {len(lines[number - 1])} characters, at most {PROSE} are prose")
    return len(wrong) + unclear


def main() -> int:
    arguments = sys.argv[1:]
    if arguments in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    if arguments[:1] == ["--words"]:
        return 1 if sum(words(Path(name).resolve()) for name in arguments[1:]) else 0
    mend = arguments[:1] == ["--mend"]
    paths = [Path(name).resolve() for name in arguments[1:]] if mend else files()
    wrong = sum(check(path, mend) for path in paths)
    if wrong:
        print(f"{wrong} lines and sentences are wrong; long lines are broken by scripts/prose.py --mend FILE...")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
