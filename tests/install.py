#!/usr/bin/env python3
"""What `make install` and `make deb` give works where it is, and when it is elsewhere.

    tests/install.py        Debian's Open MPI, about 15 s
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parent.parent
# Below a prefix.
FILES = [
    "bin/narrows",
    "include/portals4.h",
    "include/narrows/gsas.h",
    "include/narrows/handlers.h",
    "lib/narrows/libnarrows-cycles-plugin.so",
    "lib/narrows/libnarrows-fi.so",
    "lib/narrows/libnarrows-launcher.so",
    "lib/narrows/libnarrows-preload.so",
    "lib/narrows/libnarrows-recorder.so",
    "lib/narrows/libportals.so",
    "lib/pkgconfig/portals4.pc",
    "share/bash-completion/completions/narrows",
    "share/fish/vendor_completions.d/narrows.fish",
    "share/zsh/site-functions/_narrows",
]


def said(*words: object, **more: object) -> str:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, **more)
    assert done.returncode == 0, f"{words}: code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def works(prefix: Path, scratch: Path) -> None:
    """Traffic, an MPI program, a Portals program, a published figure, a manual page."""
    missing = [file for file in FILES if not (prefix / file).is_file()]
    assert not missing, missing
    # Nothing of the tree that it was built in is used.
    environment = {"PATH": f"{prefix}/bin:/usr/bin:/bin", "HOME": str(scratch)}
    narrows = prefix / "bin/narrows"

    def run(*words: object) -> str:
        return said(*words, cwd=scratch, env=environment)

    traffic = run(narrows, "traffic", "uniform", "--nodes", 4, "--load", 0.1, "--warmup", "1us", "--time", "5us")
    assert "accepted" in traffic, traffic
    run("mpicc", "-O2", ROOT / "examples/pingpong.c", "-o", scratch / "pingpong")
    printed = run(narrows, "run", "-n", 2, "--compute", "none", "--", scratch / "pingpong", 64)
    assert "half trip" in printed, printed
    flags = run(narrows, "config").split()
    assert f"-I{prefix}/include" in flags and f"-L{prefix}/lib/narrows" in flags, flags
    run("cc", ROOT / "examples/portals/pingpong.c", "-o", scratch / "put", *flags)
    run(narrows, "run", "-n", 2, "--compute", "none", "--", scratch / "put")
    assert (prefix / "share/narrows/figures").is_dir()
    pages = {page.name.removesuffix(".gz") for page in (prefix / "share/man/man1").iterdir()}
    assert {"narrows.1", "narrows-run.1", "narrows-replay.1"} <= pages, pages


def install_and_move(folder: Path) -> None:
    said("make", "-s", "install", f"DESTDIR={folder}/root", "PREFIX=/opt/narrows", cwd=ROOT)
    pkgconfig = (folder / "root/opt/narrows/lib/pkgconfig/portals4.pc").read_text()
    assert "prefix=/opt/narrows\n" in pkgconfig and str(folder) not in pkgconfig
    elsewhere = folder / "elsewhere"
    shutil.move(folder / "root/opt/narrows", elsewhere)
    works(elsewhere, folder)


def install_as_a_user_would(folder: Path) -> None:
    said("make", "-s", "install", f"PREFIX={folder}/mine", cwd=ROOT)
    works(folder / "mine", folder)


def a_package_into_a_root_of_its_own(folder: Path) -> None:
    package = ROOT / said("make", "-s", "deb", cwd=ROOT).split()[-1]
    fields = said("dpkg-deb", "--field", package)
    assert "Package: narrows\n" in fields and "libc6 (>= 2." in fields, fields
    owners = {line.split()[1] for line in said("dpkg-deb", "--contents", package).splitlines()}
    assert owners == {"root/root"}, owners
    root = folder / "root"
    for name in ("info", "updates"):
        (root / "var/lib/dpkg" / name).mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    # The packages that it depends on are not there, but what they bring is.
    dpkg = ["dpkg", f"--root={root}", f"--log={folder}/log", "--force-depends", "--force-not-root", "--force-script-chrootless"]
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    said(*dpkg, "--install", package, env=environment)
    assert "ii" in said("dpkg-query", f"--admindir={root}/var/lib/dpkg", "--show", "--showformat=${db:Status-Abbrev}", "narrows")
    works(root / "usr", folder)
    listed = [Path(line) for line in said("dpkg", f"--root={root}", "--listfiles", "narrows").split("\n") if line]
    assert Path("/usr/bin/narrows") in listed
    said(*dpkg, "--purge", "narrows", env=environment)
    assert not (root / "usr/bin/narrows").exists() and not (root / "usr/lib/narrows").exists()


TESTS: list[Callable[[Path], None]] = [install_and_move, install_as_a_user_would, a_package_into_a_root_of_its_own]


def main() -> int:
    failed = 0
    for test in TESTS:
        with tempfile.TemporaryDirectory(prefix="narrows-install-") as folder:
            try:
                test(Path(folder).resolve())
                print(f"ok    {test.__name__}")
            except AssertionError as error:
                failed += 1
                print(f"FAIL  {test.__name__}: {error}")
    print(f"{len(TESTS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
