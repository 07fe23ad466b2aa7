"""The site of the documentation (make docs-site): hooks of mkdocs, named in mkdocs.yml.

Pages of the root (README.md ...) are pages of the site too. Links that work in the sources lead to the same page here;
those to files that are no pages are left as names. Notebooks are run, and are pages with what their cells gave.
"""

import hashlib
import os
import posixpath
import re
import sys
import tempfile
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
# Pages of the site that stand in the root.
OF_ROOT = {
    "index.md": "README.md",
    "architecture.md": "ARCHITECTURE.md",
    "contributing.md": "CONTRIBUTING.md",
    "changes.md": "CHANGELOG.md",
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def on_page_markdown(markdown, page, config, files):
    uri = page.file.src_uri
    source = OF_ROOT.get(uri, f"docs/{uri}")
    pages = {name: uri for uri, name in OF_ROOT.items()}

    def lead(found):
        mark, text, target, place = found[1], found[2], found[3], found[4] or ""
        if not target or "://" in target:
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        there = pages.get(path, path.removeprefix("docs/")).replace(".ipynb", ".md")
        if files.get_file_from_path(there) is None:
            return text
        return f"{mark}[{text}]({posixpath.relpath(there, posixpath.dirname(uri) or '.')}{place})"

    return LINK.sub(lead, markdown)


# Notebooks are pages with their outputs.


def on_files(files, config):
    for uri, name in OF_ROOT.items():
        files.append(File.generated(config, uri, content=(ROOT / name).read_text()))
    for notebook in sorted((ROOT / "docs/notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=page_of(executed(notebook))))
    return files


def executed(path):
    """The notebook with outputs. They are kept until it or the package changes: running takes minutes."""
    import nbformat
    from nbclient import NotebookClient

    import narrows

    text = path.read_text()
    library = Path(narrows._native.__file__).stat()
    name = hashlib.sha256(f"{text} {library.st_mtime_ns} {library.st_size}".encode()).hexdigest()[:16]
    kept = ROOT / "target/notebooks" / f"{path.stem}-{name}.ipynb"
    if not kept.exists():
        notebook = nbformat.reads(text, as_version=4)
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        with tempfile.TemporaryDirectory(prefix="narrows-") as folder:
            NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
        kept.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, kept)
    return nbformat.read(kept, as_version=4)


def page_of(notebook):
    """Cells one below the other, as Markdown."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        elif cell.cell_type == "code":
            parts += [f"```python\n{cell.source}\n```", *filter(None, map(shown, cell.outputs))]
    return "\n\n".join(parts) + "\n"


def shown(output):
    """What a cell gave: a picture, a table, or text."""
    data = output.get("data", {})
    if "image/png" in data:
        return f'<img alt="" src="data:image/png;base64,{data["image/png"].strip()}">'
    if "text/html" in data:
        return f'<div class="output">{"".join(data["text/html"].splitlines())}</div>'
    text = data.get("text/plain") or (output.get("text", "") if output.get("name") == "stdout" else "")
    return f"```text\n{text.rstrip()}\n```" if text.strip() else ""


# Where pages are opened from a folder, the browser lets no script read the index of the search.
SERVED = """<script>
if (location.protocol === "file:") for (const input of document.querySelectorAll("[data-md-component=search-query]")) {
  input.disabled = true;
  input.placeholder = "Search: python3 -m http.server --directory target/site";
}
</script>"""


def on_post_page(output, page, config):
    return output.replace("</body>", f"{SERVED}</body>")
