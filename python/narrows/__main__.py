"""``python -m narrows calibrate``: what the package does from a shell, beside the program ``narrows``."""

import argparse
import sys
from pathlib import Path

from narrows import NarrowsError, calibrate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m narrows")
    commands = parser.add_subparsers(dest="command", required=True)
    calibration = commands.add_parser(
        "calibrate",
        help="fit constants of a machine to outputs of osu_latency and osu_bw",
        epilog="example: python -m narrows calibrate --base bxi-v2 -o mine.toml osu_latency.txt osu_bw.txt",
    )
    calibration.add_argument("files", nargs="+", metavar="FILE", help="outputs of osu_latency, osu_bw or examples/pingpong.c")
    calibration.add_argument("--base", default="bxi-v2", metavar="NAME|FILE", help="the machine whose other constants are kept [bxi-v2]")
    calibration.add_argument("-o", "--output", type=Path, metavar="FILE", help="writes the machine file")
    calibration.add_argument("--constant", action="append", metavar="KEY", help="fits this key, and no other that is not named")
    options = parser.parse_args()
    try:
        found = calibrate(options.base, options.files, constants=options.constant)
        print(found.text, end="")
        if options.output is not None:
            found.save(options.output)
    except NarrowsError as error:
        print(f"narrows: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
