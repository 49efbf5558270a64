#!/usr/bin/env python3
"""Rewrite the measured tables of README.md and docs/ from the JSON files in benchmarks/results/.

A page marks the place; everything between the marks is replaced:

    <!-- table:cplrnn-speed -->
    <!-- /table -->

One cell of a table can stand in a sentence, by the text of its first column and its column's name:

    <!-- cell:cplrnn-speed "torchdiffeq rk4" "time / ours" --><!-- /cell -->

A result file holds {"benchmark": ..., "date": ..., "machine": ..., "settings": ...,
"tables": {"cplrnn-speed": {"columns": [...], "rows": [[...], ...], "note": "..."}}}.

scripts/tables.py             rewrite
scripts/tables.py --check     change nothing; exit 1 when a page is stale
"""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"^(?P<indent> *)<!-- table:(?P<name>[\w-]+) -->\n.*?^ *<!-- /table -->$",
    re.DOTALL | re.MULTILINE,
)
CELL = re.compile(
    r'(?P<mark><!-- cell:(?P<name>[\w-]+) "(?P<row>[^"]+)" "(?P<column>[^"]+)" -->)'
    r".*?<!-- /cell -->"
)


@dataclass(frozen=True)
class Measured:
    """One table of a result file: as Markdown, and as cells by (first column, column)."""

    text: str
    cells: dict[tuple[str, str], str]


def read_tables(folder: Path) -> dict[str, Measured]:
    """Every table of every result file."""
    tables: dict[str, Measured] = {}
    for path in sorted(folder.glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        for name, table in result.get("tables", {}).items():
            if name in tables:
                raise SystemExit(f"{path.name} defines the table {name!r} a second time")
            text = markdown(table, f"benchmarks/results/{path.name}", result)
            columns, rows = table["columns"], table["rows"]
            by_place = {
                (str(row[0]), str(column)): cell(value)
                for row in rows
                for column, value in zip(columns, row, strict=True)
            }
            tables[name] = Measured(text, by_place)
    return tables


def markdown(table: dict[str, Any], source: str, result: dict[str, Any]) -> str:
    columns = table["columns"]
    for row in table["rows"]:
        if len(row) != len(columns):
            raise SystemExit(f"{source}: row {row} does not have the {len(columns)} columns")
    lines = [cells(columns), "|" + " --- |" * len(columns), *map(cells, table["rows"])]
    facts = [table.get("note", ""), f"Measured {result.get('date', '')}, `{source}`."]
    return "\n".join([*lines, "", " ".join(fact for fact in facts if fact)])


def cells(row: list[Any]) -> str:
    return "| " + " | ".join(cell(value) for value in row) + " |"


def cell(value: Any) -> str:
    if value is None:
        return "-"
    text = str(value)
    if isinstance(value, float):
        text = f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return text.replace("|", "\\|").replace("\n", " ")


def rewritten(page: str, tables: dict[str, Measured], where: str) -> str:
    def table(name: str) -> Measured:
        if name not in tables:
            raise SystemExit(f"{where} asks for the table {name!r}, which no result file has")
        return tables[name]

    def block(match: re.Match[str]) -> str:
        name = match["name"]
        body = f"<!-- table:{name} -->\n\n{table(name).text}\n\n<!-- /table -->"
        return "\n".join((match["indent"] + line).rstrip() for line in body.split("\n"))

    def one_cell(match: re.Match[str]) -> str:
        place = match["row"], match["column"]
        cells = table(match["name"]).cells
        if place not in cells:
            raise SystemExit(f"{where}: the table {match['name']!r} has no cell {place}")
        return f"{match['mark']}{cells[place]}<!-- /cell -->"

    return CELL.sub(one_cell, BLOCK.sub(block, page))


def main(root: Path, check: bool) -> int:
    tables = read_tables(root / "benchmarks" / "results")
    stale = []
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        if not path.is_file() or "_build" in path.parts:
            continue
        old = path.read_text(encoding="utf-8")
        new = rewritten(old, tables, str(path.relative_to(root)))
        if new != old:
            stale.append(path.relative_to(root))
            if not check:
                path.write_text(new, encoding="utf-8")
    for path in stale:
        print(f"{path} {'is stale; run scripts/tables.py' if check else 'rewritten'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(ROOT, check="--check" in sys.argv[1:]))
