"""Builds the Python package: maturin, after the binary and the libraries that go into the wheel are built.

pip calls it (pyproject.toml, PEP 517). The wheel puts files where the binary looks for them (ARCHITECTURE.md):

    bin/narrows                        the command line
    lib/narrows/*.so                   the libraries that enter the ranks
    include/portals4.h                 for programs that use Portals 4
    share/man/man1/                    manual pages
    include/narrows/gsas.h             a global address space on top of it
    include/narrows/handlers.h         handlers on the NIC for its list entries
    share/narrows/figures/             the published figures

With NARROWS_GLIBC=2.31 in the environment (`make wheel`) everything is linked against that version of the C library, by
cargo-zigbuild, and the wheel's tag says so: manylinux_2_31_x86_64. Without, against this computer's.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import maturin
from maturin import build_sdist, get_requires_for_build_sdist, prepare_metadata_for_build_wheel

__all__ = ["build_sdist", "build_wheel", "get_requires_for_build_sdist", "get_requires_for_build_wheel", "prepare_metadata_for_build_wheel"]

ROOT = Path(__file__).resolve().parent.parent
# maturin is called by name; without build isolation it is beside the interpreter, not in PATH.
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
# As maturin and `make build` have it.
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# What pyproject.toml names.
DATA = ROOT / "target/wheel.data"
# maturin looks for it even when it only writes down the package's name.
DATA.mkdir(parents=True, exist_ok=True)
# Linked against this version of the C library, instead of this computer's.
GLIBC = os.environ.get("NARROWS_GLIBC", "")
TRIPLE = "x86_64-unknown-linux-gnu"
LIBRARIES = {
    "narrows_fi": "narrows-fi",
    "portals": "portals",
    "narrows_preload": "narrows-preload",
    "narrows_recorder": "narrows-recorder",
    "narrows_launcher": "narrows-launcher",
    "narrows_cycles_plugin": "narrows-cycles-plugin",
}


# What `pip install .` needs beside Python, and how to get it.
NEEDS = {
    "cargo": "Rust 1.88 or newer: https://rustup.rs, or `curl https://sh.rustup.rs -sSf | sh`",
    "cc": "a C compiler: `apt-get install gcc`",
}


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Nothing more; says what is missing before anything is built."""
    given = {"cargo": os.environ.get("CARGO", "cargo")}
    missing = [how for program, how in NEEDS.items() if shutil.which(given.get(program, program)) is None]
    if missing:
        lines = "\n".join(f"  * {how}" for how in missing)
        sys.exit(
            f"narrows: the sources need tools that are not in PATH:\n{lines}\n"
            "  scripts/setup.sh demo installs all of them on Debian and Ubuntu; a prebuilt wheel needs none (README.md)"
        )
    return []


def copy(source: Path, target: Path) -> None:
    """A file without what only a debugger wants."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755)
    # Tools for binaries come with the C compiler. Names that a dynamic linker or a backtrace wants stay.
    subprocess.run(["strip", "--strip-debug", str(target)], check=True)


def stage() -> None:
    """Builds what is not Python, and lays it out as it is installed."""
    # The packages that `make build` takes, in one call, so that it builds nothing anew after it.
    command = [os.environ.get("CARGO", "cargo"), "build"]
    target: list[str] = []
    environment = dict(os.environ)
    if GLIBC:
        command, target = ["cargo-zigbuild", "zigbuild"], ["--target", f"{TRIPLE}.{GLIBC}"]
        # zig brings the headers of that C library; of this computer's only libfabric's are wanted.
        headers = TARGET / "libfabric-headers"
        headers.mkdir(parents=True, exist_ok=True)
        if not (headers / "rdma").exists():
            (headers / "rdma").symlink_to("/usr/include/rdma")
        environment["CFLAGS"] = f"-isystem {headers} {environment.get('CFLAGS', '')}"
    done = subprocess.run([*command, "--release", "--workspace", *target], cwd=ROOT, env=environment)
    if done.returncode != 0:
        sys.exit("narrows: the binary cannot be built; what it needs: scripts/setup.sh demo")
    built = TARGET / TRIPLE / "release" if GLIBC else TARGET / "release"
    shutil.rmtree(DATA, ignore_errors=True)
    copy(built / "narrows", DATA / "scripts/narrows")
    for name, installed in LIBRARIES.items():
        copy(built / f"lib{name}.so", DATA / f"data/lib/narrows/lib{installed}.so")
    (DATA / "data/include").mkdir()
    shutil.copyfile(ROOT / "capi/portals4/include/portals4.h", DATA / "data/include/portals4.h")
    shutil.copytree(ROOT / "capi/portals4/include/narrows", DATA / "data/include/narrows")
    shutil.copytree(ROOT / "figures", DATA / "data/share/narrows/figures")
    subprocess.run([built / "narrows", "man", DATA / "data/share/man/man1"], check=True, stderr=subprocess.DEVNULL)


def build_wheel(wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None) -> str:
    stage()
    if GLIBC:
        arguments = f"--zig --target {TRIPLE} --compatibility manylinux_{GLIBC.replace('.', '_')}"
        config_settings = {**(config_settings or {}), "build-args": arguments}
    name: str = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    return name
