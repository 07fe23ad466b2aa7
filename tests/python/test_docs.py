"""The snippets of the pages, from top to bottom, in a folder with the files that the pages speak of."""

import doctest
import re
import shutil
from pathlib import Path

import pytest

import narrows as nw

ROOT = Path(__file__).resolve().parent.parent.parent


def blocks(page: Path) -> list[tuple[int, str]]:
    text = page.read_text()
    return [(text[: found.start()].count("\n") + 1, found[1]) for found in re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S)]


@pytest.mark.parametrize("name", ["README.md", "docs/python.md"])
def test_snippets_of_pages(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pingpong: Path, halo: Path) -> None:
    shutil.copy(pingpong, tmp_path / "pingpong")
    shutil.copy(halo, tmp_path / "halo.vef")
    measured = nw.run([pingpong], ranks=2, machine=nw.machine("bxi-v2").set("software.post", "240 ns"), compute="none", quiet=True)
    (tmp_path / "pingpong.txt").write_text(measured.stdout)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    found = blocks(ROOT / name)
    assert found
    for line, text in found:
        example = doctest.DocTestParser().get_doctest(text, names, name, name, line)
        assert example.examples, f"{name}:{line}: no >>> in it"
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
        said: list[str] = []
        outcome = runner.run(example, out=said.append, clear_globs=False)
        assert outcome.failed == 0, "".join(said)
        names = example.globs
