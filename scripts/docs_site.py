"""The site of the documentation (make docs-site): hooks of mkdocs, named in mkdocs.yml.

Pages of the root (README.md ...) are pages of the site too. Links that work in the sources lead to the same page here;
those to files that are no pages are left as names.
"""

import posixpath
import re
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


def on_files(files, config):
    for uri, name in OF_ROOT.items():
        files.append(File.generated(config, uri, content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown, page, config, files):
    uri = page.file.src_uri
    source = OF_ROOT.get(uri, f"docs/{uri}")
    pages = {name: uri for uri, name in OF_ROOT.items()}

    def lead(found):
        mark, text, target, place = found[1], found[2], found[3], found[4] or ""
        if not target or "://" in target:
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        there = pages.get(path, path.removeprefix("docs/"))
        if files.get_file_from_path(there) is None:
            return text
        return f"{mark}[{text}]({posixpath.relpath(there, posixpath.dirname(uri) or '.')}{place})"

    return LINK.sub(lead, markdown)
