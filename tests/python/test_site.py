"""The site of the documentation: every page is in it, no link leads nowhere, nothing comes from elsewhere."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_site_is_whole(tmp_path: Path) -> None:
    # It is strict: a link to a page or a heading that is not there is an error.
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(tmp_path).with_suffix("").as_posix() for path in tmp_path.rglob("*.html")}
    assert pages | {"index", "architecture", "contributing", "changes"} <= built
    # Notebooks have their outputs: a picture and a table.
    for notebook in (ROOT / "docs/notebooks").glob("*.ipynb"):
        text = (tmp_path / f"notebooks/{notebook.stem}.html").read_text()
        assert "data:image/png;base64," in text and '<div class="highlight">' in text, notebook
    # Opened from a folder, pages say how to serve them. A reader who looks for these words finds pages.
    assert "python3 -m http.server --directory target/site" in (tmp_path / "index.html").read_text()
    found = json.loads((tmp_path / "search/search_index.json").read_text())["docs"]
    for word, page_of_it in (("accuracy", "concepts/accuracy.html"), ("determinism", "concepts/repeat.html")):
        assert any(word in f"{one['title']} {one['text']}".lower() and one["location"].startswith(page_of_it) for one in found), word
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert [page for page in sorted(pages) if f"{page}.md" not in navigation] == [], "not in the navigation of mkdocs.yml"
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text())
        assert loaded == [], page
    assert 'href="decisions/0007-threads.html"' in (tmp_path / "limits.html").read_text()
    assert 'src="docs/pictures' not in (tmp_path / "index.html").read_text()
