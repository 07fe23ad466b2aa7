"""docs/tables.md: every table has the columns that the page says, with these types, and no other ones."""

import re
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

import narrows as nw

ROOT = Path(__file__).resolve().parent.parent.parent


def documented() -> tuple[int, dict[str, list[tuple[str, str]]]]:
    """The schema's number, and the columns of each table of the page."""
    text = (ROOT / "docs/tables.md").read_text()
    tables: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for line in text.splitlines():
        row = re.match(r"\| `(\w+)` \| (int64|double|string) \|", line)
        if row:
            tables[name].append((row[1], row[2]))
        elif line.startswith("| column "):
            tables[name] = []
        else:
            # The table that is named before its columns.
            found = re.match(r"(?:With a period, )?`([\w ]+)`(?::|, its)", line)
            name = found[1] if found else name
    number = re.search(r"^\*\*Schema (\d+)\.\*\*", text, re.M)
    assert number is not None
    return int(number[1]), tables


def columns(table: pyarrow.Table) -> list[tuple[str, str]]:
    return [(field.name, str(field.type)) for field in table.schema]


@pytest.fixture(scope="module")
def results(halo: Path, pingpong: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, nw.Result]:
    folder = tmp_path_factory.mktemp("tables")
    (folder / "list.csv").write_text("start_ns,source,target,bytes\n0,0,3,65536\n")
    machine = nw.machine("bxi-v2", nodes=8)
    return {
        "traffic": nw.traffic("uniform", machine=machine, load=0.3, warmup="2us", time="10us", period="5us"),
        "flows": nw.traffic("flows", file=folder / "list.csv", machine=machine),
        "replay": nw.replay(halo, machine=machine, period="5us"),
        "replay with a timeline": nw.replay(halo, machine=machine, timeline=folder / "halo.pftrace"),
        "run": nw.run([pingpong, "64"], ranks=2, machine=machine, compute="none", quiet=True, timeline=folder / "run.pftrace"),
        "analysis": nw.analyse(halo),
    }


def test_tables_are_as_the_page_says(results: dict[str, nw.Result], tmp_path: Path) -> None:
    number, tables = documented()
    seen = set()
    for kind, result in results.items():
        if kind != "analysis":
            assert result.summary["schema"] == number, kind
        for name, table in result.tables.items():
            of_kind = f"{kind.split()[0]} {name}"
            place = of_kind if of_kind in tables else name
            wanted = tables[place]
            if name in ("links", "queues") and kind == "traffic":
                wanted = [("load", "double"), *wanted]
            arrow = table.to_arrow()
            assert columns(arrow) == wanted, f"{kind}: {name}"
            seen.add(place)
            if kind in ("traffic", "flows", "replay"):
                assert arrow.schema.metadata[b"narrows.schema"] == str(number).encode()
    assert seen == set(tables)
    folder = results["traffic"].save(tmp_path / "saved")
    for file in folder.glob("*.parquet"):
        schema = pyarrow.parquet.read_schema(file)
        assert schema.metadata[b"narrows.schema"] == str(number).encode(), file
