#!/usr/bin/env python3
"""One-sided operations of the NIC beside their emulation over messages, in three profiles, from live runs.

    tests/onesided.py            runs, and compares with docs/pictures/onesided.csv; exit code 1 if a time is another one
    tests/onesided.py --write    runs, and writes docs/pictures/onesided.csv and onesided.svg

Simulated times do not depend on the host, so that a difference is a change of the model, or another version of an MPI.
docs/validation.md says what the published values are.
"""

import argparse
import csv
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NARROWS = ROOT / "target/release/narrows"
TABLE = ROOT / "docs/pictures/onesided.csv"
PICTURE = TABLE.with_suffix(".svg")
MPICH = ROOT / "target/mpis/mpich/bin/mpicc"

OPERATIONS = ("put", "get", "accumulate", "get_accumulate")
PROFILES = ("openmpi", "mpich", "pscom")
LONGEST, ITERATIONS = 65536, 50
# RED-SEA D1.4, section 10.2: ParaStation MPI on BXI, up to 1,024 bytes, beside its emulation. No others have numbers.
PUBLISHED = {"put": -30.0, "get": -60.0}
PUBLISHED_UP_TO = 1024


def programs(folder: Path) -> dict[str, Path]:
    """For Open MPI (Debian's), MPICH and Portals."""
    flags = subprocess.run([NARROWS, "config", "--cflags", "--libs"], capture_output=True, text=True, check=True).stdout.split()
    lines = {
        "openmpi": ["mpicc.openmpi", ROOT / "examples/onesided.c"],
        "mpich": [MPICH, ROOT / "examples/onesided.c"],
        "portals": ["cc", ROOT / "examples/portals/onesided.c", *flags],
    }
    for name, (compiler, source, *libraries) in lines.items():
        subprocess.run([compiler, "-O2", source, "-o", folder / name, *libraries], check=True)
    return {name: folder / name for name in lines}


# By profile: the program and its environment natively, and over messages. There is no ParaStation MPI here: its
# protocol carries Open MPI's emulation, and natively the operations go to the NIC with no MPI library above.
RUNS = {
    "openmpi": (("openmpi", {}, ()), ("openmpi", {"OMPI_MCA_osc": "pt2pt"}, ())),
    "mpich": (("mpich", {}, ()), ("mpich", {"MPIR_CVAR_CH4_OFI_ENABLE_RMA": "0"}, ())),
    "pscom": (("portals", {}, ()), ("openmpi", {"OMPI_MCA_osc": "pt2pt"}, ("--set", "message.protocol=pscom"))),
}


def run(program: Path, environment: dict[str, str], options: tuple[str, ...], folder: Path) -> dict[int, list[float]]:
    """By bytes: the times of the four operations, us."""
    line = [NARROWS, "run", "-n", "2", "--machine", "bxi-v2", "--compute", "none", "--no-aslr", "--timeout", "300", "--out", folder / "out", *options]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run([*line, "--", program, str(LONGEST), str(ITERATIONS)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, env={**os.environ, **root, **environment})
    times = {int(row[0]): [float(value) for value in row[1:]]
             for row in re.findall(r"^ *(\d+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", done.stdout, re.MULTILINE)}
    if done.returncode != 0 or LONGEST not in times:
        raise SystemExit(f"{' '.join(map(str, line))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return times


def measure() -> list[dict[str, str]]:
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built = programs(folder)
        for profile in PROFILES:
            native, messages = (run(built[program], environment, options, folder) for program, environment, options in RUNS[profile])
            for size in sorted(native):
                for at, operation in enumerate(OPERATIONS):
                    rows.append({"profile": profile, "operation": operation, "bytes": str(size),
                                 "messages_us": f"{messages[size][at]:.3f}", "native_us": f"{native[size][at]:.3f}"})
    return rows


def change(row: dict[str, str]) -> float:
    """Of native beside messages, %."""
    return (float(row["native_us"]) / float(row["messages_us"]) - 1) * 100


# The picture: a panel for each operation, a line for each profile.
PANEL, HEIGHT, LEFT, TOP, GAP = 300, 190, 56, 66, 56
LOWEST, HIGHEST = -80.0, 60.0
COLOURS = {"openmpi": "#0072b2", "mpich": "#d55e00", "pscom": "#009e73"}


def panel(rows: list[dict[str, str]], operation: str, at: int) -> list[str]:
    left, top = LEFT + at % 2 * (PANEL + GAP), TOP + at // 2 * (HEIGHT + GAP)
    def x(size: int) -> float:
        return left + (size.bit_length() - 1) / (LONGEST.bit_length() - 1) * PANEL
    def y(value: float) -> float:
        return top + (HIGHEST - min(max(value, LOWEST), HIGHEST)) / (HIGHEST - LOWEST) * HEIGHT
    lines = [f'<text x="{left}" y="{top - 8}" font-weight="bold">MPI_{operation.capitalize()}</text>',
             f'<rect x="{left}" y="{top}" width="{PANEL}" height="{HEIGHT}" fill="none" stroke="#999"/>']
    for value in range(int(LOWEST), int(HIGHEST) + 1, 20):
        lines.append(f'<path d="M{left} {y(value):.1f}h{PANEL}" stroke="{"#666" if value == 0 else "#ddd"}"/>')
        lines.append(f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:+d} %</text>')
    for size, label in ((1, "1 B"), (32, "32"), (1024, "1 KiB"), (32768, "32 KiB")):
        lines.append(f'<text x="{x(size):.1f}" y="{top + HEIGHT + 15}" text-anchor="middle">{label}</text>')
    if operation in PUBLISHED:
        high, end = y(PUBLISHED[operation]), x(PUBLISHED_UP_TO)
        lines.append(f'<path d="M{left} {high:.1f}H{end:.1f}" stroke="#000" stroke-width="2" stroke-dasharray="6 4"/>')
    for profile in PROFILES:
        points = [(int(row["bytes"]), change(row)) for row in rows if row["profile"] == profile and row["operation"] == operation]
        # Above the panel a line has no points: Open MPI's native accumulates and pscom's long get_accumulates.
        shown = [(size, value) for size, value in points if value <= HIGHEST]
        path = "M" + "L".join(f"{x(size):.1f} {y(value):.1f}" for size, value in shown)
        if shown:
            lines.append(f'<path d="{path}" fill="none" stroke="{COLOURS[profile]}" stroke-width="2"/>')
    return lines


def picture(rows: list[dict[str, str]]) -> str:
    width, height = LEFT + 2 * PANEL + GAP + 20, TOP + 2 * (HEIGHT + GAP)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="#fff"/>',
             f'<text x="{LEFT}" y="16">Native one-sided operations: time beside their emulation over messages</text>']
    for at, profile in enumerate((*PROFILES, "published (ParaStation)")):
        colour, dashes = (COLOURS[profile], "") if profile in COLOURS else ("#000", ' stroke-dasharray="6 4"')
        start = LEFT + at * 110
        lines.append(f'<path d="M{start} 30h24" stroke="{colour}" stroke-width="2"{dashes}/><text x="{start + 30}" y="34">{profile}</text>')
    for at, operation in enumerate(OPERATIONS):
        lines += panel(rows, operation, at)
    return "\n".join([*lines, "</svg>"]) + "\n"


def published(rows: list[dict[str, str]]) -> None:
    """Prints what is published beside each profile: the least and the most up to 1,024 bytes."""
    print(f"{'profile':8} {'operation':15} {'published':>9}  native beside messages, up to 1 KiB")
    for profile in PROFILES:
        for operation in OPERATIONS:
            values = [change(row) for row in rows if row["profile"] == profile and row["operation"] == operation
                      and int(row["bytes"]) <= PUBLISHED_UP_TO]
            known = f"{PUBLISHED[operation]:+.0f} %" if operation in PUBLISHED else ""
            print(f"{profile:8} {operation:15} {known:>9}  {min(values):+.0f} % to {max(values):+.0f} %")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table and the picture")
    write = parser.parse_args().write
    rows = measure()
    published(rows)
    if write:
        with TABLE.open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            table.writeheader()
            table.writerows(rows)
        PICTURE.write_text(picture(rows))
        return 0
    with TABLE.open(newline="") as file:
        stored = list(csv.DictReader(file))
    others = [(before, now) for before, now in zip(stored, rows, strict=False) if before != now]
    for before, now in others:
        print(f"differs: {before} is now {now}", file=sys.stderr)
    if len(stored) != len(rows):
        print(f"differs: {len(stored)} rows in {TABLE.relative_to(ROOT)}, now {len(rows)}", file=sys.stderr)
    drawn = PICTURE.read_text() == picture(stored)
    if not drawn:
        print(f"{PICTURE.relative_to(ROOT)} is not that of the table: tests/onesided.py --write", file=sys.stderr)
    failed = len(others) + (len(stored) != len(rows)) + (not drawn)
    print(f"{len(rows) - len(others) + drawn} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
