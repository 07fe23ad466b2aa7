"""What tests of the Python package share; they run against the package as pip has installed it (make test-python)."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import narrows as nw

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def small() -> nw.Machine:
    """Four nodes of BXI v2."""
    return nw.machine("bxi-v2", nodes=4)


@pytest.fixture(scope="session")
def halo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of 8 ranks."""
    path = tmp_path_factory.mktemp("traces") / "halo.vef"
    command = [nw._studies.binary(), "generate", "halo3d", "--ranks", "8", "--steps", "2", "-o", path]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    return path


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Compiles MPI programs: a name and its text in C."""
    compiler = shutil.which("mpicc.openmpi") or shutil.which("mpicc")
    assert compiler is not None, "scripts/setup.sh test installs Open MPI"
    folder = tmp_path_factory.mktemp("programs")

    def compile_program(name: str, text: str) -> Path:
        source = folder / f"{name}.c"
        source.write_text(text)
        subprocess.run([compiler, "-O2", str(source), "-o", str(folder / name), "-lm"], check=True)
        return folder / name

    return compile_program


@pytest.fixture(scope="session")
def pingpong(compiled: Callable[[str, str], Path]) -> Path:
    """An MPI program."""
    return compiled("pingpong", (ROOT / "examples/pingpong.c").read_text())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The lines that scripts/test.sh counts."""
    counts = {kind: terminalreporter.stats.get(kind, []) for kind in ("passed", "failed", "error")}
    for report in counts["failed"] + counts["error"]:
        terminalreporter.write_line(f"FAIL  {report.nodeid}")
    terminalreporter.write_line(f"{len(counts['passed'])} passed, {len(counts['failed']) + len(counts['error'])} failed")
