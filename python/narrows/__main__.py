"""``narrows sweep``, ``sensitivity``, ``calibrate``, ``compare`` and ``model``: what the package does from a shell.

The program ``narrows`` hands these commands over to ``python -m narrows``.
"""

import argparse
import json
import math
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from narrows import NarrowsError, Study, calibrate, compare, iron_law, machine, replay, run, sensitivity, sweep, traffic
from narrows._calibration import FARTHEST, nearest_base
from narrows._extras import how_to_install
from narrows._iron_law import KERNELS
from narrows._machine import Machine
from narrows._sensitivity import of_program

_STUDIES: dict[str, Callable[..., Any]] = {"traffic": traffic, "replay": replay, "run": run}
# Of a study file.
_KEYS = {"study", "arguments", "machine", "nodes", "set", "options", "grid", "points", "repeats", "seeds", "out"}

# Root mean square of the relative errors beyond which a calibration is none. Our own choice.
_ERROR_MAX = 0.2


def main() -> int:
    parser = argparse.ArgumentParser(prog="narrows")
    commands = parser.add_subparsers(dest="command", required=True)
    sweeping = commands.add_parser(
        "sweep",
        help="run a study at many points; what is finished is kept",
        epilog="example: narrows sweep study.toml -o results/ (study files: docs/python.md)",
    )
    sweeping.add_argument("file", type=Path, metavar="STUDY.toml", help="what to run at which points")
    sweeping.add_argument("-o", "--output", type=Path, metavar="DIR", help="the folder that keeps finished points and the table")
    sweeping.add_argument("--retry", action="store_true", help="runs points that have failed once more")
    sweeping.add_argument("--scheduler", metavar="ADDRESS", help="the scheduler of dask.distributed whose workers run the points")
    sweeping.add_argument("--columns", metavar="NAME,...", help="columns to print beside what differs between the points")
    sweeping.add_argument("--json", action="store_true", help="prints a JSON object")
    calibration = commands.add_parser(
        "calibrate",
        help="fit constants of a machine to outputs of osu_latency and osu_bw",
        epilog="example: narrows calibrate --base bxi-v2 -o mine.toml osu_latency.txt osu_bw.txt",
    )
    calibration.add_argument("files", nargs="+", metavar="FILE", help="outputs of osu_latency, osu_bw, IMB-MPI1 or examples/pingpong.c")
    calibration.add_argument("--base", default="bxi-v2", metavar="NAME|FILE", help="the machine whose other constants are kept [bxi-v2]")
    calibration.add_argument("-o", "--output", type=Path, metavar="FILE", help="writes the machine file")
    calibration.add_argument("--constant", action="append", metavar="KEY", help="fits this key, and no other that is not named")
    calibration.add_argument(
        "--fix", action="append", default=[], metavar="KEY[=VALUE],...", help="keeps these keys at the base's value, or at the given one"
    )
    calibration.add_argument("--json", action="store_true", help="prints a JSON object")
    comparison = commands.add_parser(
        "compare",
        help="put two machines or two results side by side",
        epilog="examples: narrows compare bxi-v2 bxi-v3; narrows compare out-a/ out-b/",
    )
    comparison.add_argument("first", metavar="A", help="a machine, or a folder that --out has written")
    comparison.add_argument("second", metavar="B", help="another one of the same kind")
    comparison.add_argument("--all", action="store_true", help="shows what is equal too")
    comparison.add_argument("--html", type=Path, metavar="FILE", help="writes the table as a page")
    comparison.add_argument("--json", action="store_true", help="prints a JSON object")
    sensitive = commands.add_parser(
        "sensitivity",
        help="which keys of a machine the time of a program, a trace or a pattern depends on",
        epilog="example: narrows sensitivity -n 16 --machine bxi-v2 -- ./app",
    )
    sensitive.add_argument("--replay", action="append", default=[], metavar="TRACE", help="a trace in place of a program")
    sensitive.add_argument("--traffic", metavar="PATTERN", help="a pattern of traffic in place of a program")
    sensitive.add_argument("--load", metavar="LOAD", help="of traffic [0.5]")
    sensitive.add_argument("-n", "--ranks", type=int, metavar="N", help="ranks of the program")
    sensitive.add_argument("--machine", default="bxi-v2", metavar="NAME|FILE", help="the simulated machine [bxi-v2]")
    sensitive.add_argument("--nodes", type=int, metavar="N", help="nodes of the machine [its own number]")
    sensitive.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="changes a key of the machine")
    sensitive.add_argument("--ppn", type=int, metavar="N", help="ranks per processor [1, or as many as are needed]")
    sensitive.add_argument(
        "--compute", default="measured", metavar="HOW", help="computing times of the program, as of narrows run [measured]"
    )
    sensitive.add_argument("--keys", metavar="KEY,...", help="these keys or sections [all that the machine uses]")
    sensitive.add_argument("--step", default="10", metavar="PERCENT", help="how much a key is changed [10]")
    sensitive.add_argument("-o", "--output", default="narrows-sensitivity", metavar="DIR", help="the folder that keeps what is finished")
    sensitive.add_argument("--json", action="store_true", help="prints a JSON object")
    sensitive.add_argument("program", nargs=argparse.REMAINDER, metavar="-- PROGRAM", help="an MPI program and its arguments")
    law = commands.add_parser("model", help="closed forms: narrows model iron-law")
    law.add_argument("model", choices=["iron-law"])
    law.add_argument("kernel", metavar="KERNEL", help=", ".join(KERNELS))
    law.add_argument("size", type=int, metavar="N", help="rows of the matrices, points of an edge of the grid")
    law.add_argument("--nodes", default="1,4,16,64,256,1024,4096", metavar="P,...", help="numbers of nodes that share the peak")
    law.add_argument("--peak", required=True, metavar="RATE", help="operations per second of all nodes together, such as 42T")
    law.add_argument("--memory", required=True, metavar="RATE", help="bandwidth of a node's memory, such as 76.8GB/s")
    law.add_argument("--fast-memory", required=True, metavar="SIZE", help="what a node's cache holds, such as 40MB")
    law.add_argument("--network", metavar="RATE", help="what a node's NIC sends [the machine's link or PCIe]")
    law.add_argument("--machine", default="bxi-v2", metavar="NAME|FILE", help="the machine of the NIC [bxi-v2]")
    law.add_argument("--plot", type=Path, metavar="FILE", help="draws both penalties into a picture (.png, .svg)")
    law.add_argument("--json", action="store_true", help="prints a JSON object")
    options = parser.parse_args()
    try:
        commands_of = {"sweep": _sweep, "sensitivity": _sensitivity, "calibrate": _calibrate, "compare": _compare, "model": _model}
        return commands_of[options.command](options)
    except NarrowsError as error:
        print(f"narrows: error: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        name = error.name or "that it imports"
        print(f"narrows: error: narrows {options.command} needs the Python package {name}: {how_to_install(name)}", file=sys.stderr)
        return 2
    except OSError as error:
        # What could not be written: what went before it has been printed.
        name = "standard output" if error.filename is None else error.filename
        print(f"narrows: error: {name}: {error.strerror}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print("narrows: interrupted; what is finished is kept", file=sys.stderr)
        return 130


def _sweep(options: argparse.Namespace) -> int:
    """Exit code 0: all points are done. 1: some have failed."""
    study = read_study(options.file, options.output)
    if options.scheduler is None:
        table = study.run(retry=options.retry)
    else:
        from distributed import Client

        try:
            client = Client(options.scheduler)
        except OSError as error:
            raise NarrowsError(f"--scheduler {options.scheduler}: {error}") from None
        with client:
            table = study.run(client, retry=options.retry)
    rows, path = table.to_rows(), study.out / "study.parquet"
    done = len(study.points) - len(study.failures)
    if options.json:
        failures = [{"point": point, "error": why} for point, why in study.failures]
        print(json.dumps({"points": len(study.points), "done": done, "failures": failures, "table": str(path), "rows": rows}))
    else:
        columns = list(dict.fromkeys(name for point in study.points for name in point)) + ["status"]
        columns += options.columns.split(",") if options.columns else []
        unknown = [name for name in columns if name not in table.columns]
        if unknown:
            raise NarrowsError(f"{unknown[0]}: no such column; there are {', '.join(table.columns)}")
        cells = [columns, *([_cell(row[name]) for name in columns] for row in rows)]
        widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
        for row in cells:
            print("  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)))
        for point, why in study.failures:
            print(f"narrows: {point}: {why}", file=sys.stderr)
        print(f"{done} of {len(study.points)} points are done; the table is {path}")
    return 0 if done == len(study.points) else 1


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def read_study(path: Path, out: Path | None = None) -> Study:
    """The sweep of a study file.

    Raises NarrowsError where it cannot be read, or says something else than docs/python.md does.
    """
    try:
        given = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise NarrowsError(f"{path}: {error}") from None
    unknown = sorted(set(given) - _KEYS)
    if unknown:
        raise NarrowsError(f"{path}: no key {unknown[0]}; there are {', '.join(sorted(_KEYS))}")
    if given.get("study") not in _STUDIES:
        raise NarrowsError(f"{path}: expected study = one of {', '.join(_STUDIES)}, found {given.get('study')!r}")
    arguments = given.get("arguments", [])
    kinds = {"arguments": list, "options": dict, "set": dict, "grid": dict, "points": list, "seeds": list, "nodes": int, "repeats": int}
    for key, kind in kinds.items():
        if key in given and not isinstance(given[key], kind):
            raise NarrowsError(f"{path}: {key}: expected a {kind.__name__}, found {given[key]!r}")
    base = machine(given.get("machine", "bxi-v2"), nodes=given.get("nodes"))
    if given.get("set"):
        base = base.set(given["set"])
    # The program and its arguments are one argument of run(), the traces are several of replay().
    fixed = [arguments] if given["study"] == "run" else arguments
    folder = out or Path(given.get("out", path.with_suffix("").name))
    try:
        return sweep(
            _STUDIES[given["study"]],
            *fixed,
            grid=given.get("grid"),
            points=given.get("points"),
            repeats=given.get("repeats", 1),
            seeds=given.get("seeds"),
            out=folder,
            machine=base,
            **given.get("options", {}),
        )
    except TypeError as error:
        raise NarrowsError(f"{path}: {error}") from None


def _sensitivity(options: argparse.Namespace) -> int:
    program = options.program[1:] if options.program[:1] == ["--"] else options.program
    if bool(program) + bool(options.replay) + (options.traffic is not None) != 1:
        raise NarrowsError("expected one of: -n RANKS -- PROGRAM, --replay TRACE, --traffic PATTERN")
    try:
        step = float(options.step.removesuffix("%")) / 100
    except ValueError:
        raise NarrowsError(f"--step {options.step}: expected a percentage, such as 10") from None
    changes = [change.partition("=") for change in options.set]
    if wrong := [key for key, equals, _ in changes if not equals]:
        raise NarrowsError(f"--set {wrong[0]}: expected KEY=VALUE")
    where = Machine(options.machine, options.nodes, options.set)
    keys = options.keys.split(",") if options.keys else None
    common: dict[str, Any] = {"machine": where, "keys": keys, "step": step, "out": options.output}
    if program:
        if options.ranks is None:
            raise NarrowsError("-n: how many ranks? narrows sensitivity -n 16 -- ./app")
        quiet = options.json
        found = of_program(program, ranks=options.ranks, ppn=options.ppn, compute=options.compute, quiet=quiet, **common)
    elif options.replay:
        found = sensitivity(replay, *options.replay, ppn=options.ppn, **common)
    else:
        found = sensitivity(traffic, options.traffic, load=options.load, **common)
    print(json.dumps(found.to_dict()) if options.json else found.text, end="\n" if options.json else "")
    return 0


def _calibrate(options: argparse.Namespace) -> int:
    """Exit code 1: the constants do not explain the values."""
    fix = [words for given in options.fix for words in given.split(",")]
    found = calibrate(options.base, options.files, constants=options.constant, fix=fix)
    if options.json:
        constants = [
            {
                "name": one.name,
                "base": one.base,
                "fitted": one.fitted,
                "error": one.error if one.told else None,
                "told": one.told,
                "determined": one.determined,
                "interval": [one.low, one.high] if one.determined else None,
                "why": one.why or None,
            }
            for one in found.constants
        ]
        errors = {"error_fitted": found.error(False), "error_held_back": found.error(True)}
        rest = {"inseparable": found.inseparable, "notes": found.notes, **errors, "rows": found.table.to_rows()}
        print(json.dumps({"constants": constants, **rest}))
    else:
        print(found.text, end="")
    if found.error(held_back=False) > _ERROR_MAX:
        error = f"no constants within a factor of {FARTHEST:.0f} of the base's explain these values"
        name, factor = nearest_base(options.files)
        advice = f"nearest as it is comes {name}, off by a factor of {factor:.1f}: start from it, or leave out what is not of this network"
        error += f" (error {100 * found.error(held_back=False):.0f} %): {advice}; no machine file was written"
        print(f"narrows: error: {error}", file=sys.stderr)
        return 1
    if options.output is not None:
        found.save(options.output)
    return 0


def _compare(options: argparse.Namespace) -> int:
    found = compare(options.first, options.second, all=options.all)
    if options.html is not None:
        found.report(options.html)
    if options.json:
        print(json.dumps({"a": found.names[0], "b": found.names[1], "equal": found.equal, "rows": found.table.to_rows()}))
    else:
        print(found.text, end="")
    return 0


_PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


def _amount(option: str, text: str | None) -> float | None:
    """A number with a prefix and a unit: "76.8GB/s", "42T", "40 MB"."""
    if text is None:
        return None
    found = re.fullmatch(r"([0-9.]+(?:e[+-]?[0-9]+)?) ?([kMGTP]?)(B|B/s|flop/s)?", text)
    try:
        number = float(found[1]) if found else math.nan
    except ValueError:
        number = math.nan
    if found is None or math.isnan(number):
        raise NarrowsError(f"{option} {text}: expected a number with a unit, such as 76.8GB/s, 42T or 40MB")
    return number * _PREFIXES.get(found[2], 1.0)


def _model(options: argparse.Namespace) -> int:
    try:
        nodes = [int(one) for one in options.nodes.split(",")]
    except ValueError:
        raise NarrowsError(f"--nodes {options.nodes}: expected whole numbers, such as 1,16,256") from None
    amounts = {
        name: _amount(f"--{name.replace('_', '-')}", getattr(options, name)) for name in ("peak", "memory", "fast_memory", "network")
    }
    law = iron_law(options.kernel, options.size, nodes=nodes, machine=options.machine, **amounts)  # type: ignore[arg-type]
    if options.json:
        points = [{**point.__dict__, "time_s": point.time_s, "binds": point.binds} for point in law.points]
        print(json.dumps({"kernel": law.kernel, "size": law.size, "crossing_nodes": law.crossing, "points": points}))
    else:
        print(law.text, end="")
    if options.plot is not None:
        from matplotlib.figure import Figure

        figure = Figure()
        law.plot(figure.subplots())
        figure.savefig(options.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
