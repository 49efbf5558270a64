"""Tables in the docs are made from result files, and a stale page is noticed."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "tables.py"


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tables_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def root(tmp_path: Path) -> Path:
    results = tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    (tmp_path / "docs" / "methods").mkdir(parents=True)
    table = {
        "columns": ["side", "ms"],
        "rows": [["ours | a", 1.23456], ["peer", None], ["slow", 1234.5]],
    }
    content = {"date": "2026-01-01", "tables": {"speed": {**table, "note": "One thread."}}}
    (results / "speed.json").write_text(json.dumps(content))
    (tmp_path / "docs" / "methods" / "m.md").write_text(
        "# M\n\n<!-- table:speed -->\nold\n<!-- /table -->\n\nafter\n"
    )
    return tmp_path


def test_a_stale_page_is_noticed_then_rewritten_then_fresh(tables, root: Path, capsys) -> None:
    page = root / "docs" / "methods" / "m.md"
    before = page.read_text()
    assert tables.main(root, check=True) == 1
    assert "m.md is stale" in capsys.readouterr().out
    assert page.read_text() == before
    assert tables.main(root, check=False) == 0
    text = page.read_text()
    assert "| ours \\| a | 1.23 |\n| peer | - |\n| slow | 1234 |\n" in text
    assert "One thread. Measured 2026-01-01, `benchmarks/results/speed.json`." in text
    assert text.endswith("<!-- /table -->\n\nafter\n")
    assert tables.main(root, check=True) == 0


def test_an_unknown_table_is_an_error(tables, root: Path) -> None:
    (root / "README.md").write_text("<!-- table:nobody -->\n<!-- /table -->\n")
    with pytest.raises(SystemExit, match="'nobody', which no result file has"):
        tables.main(root, check=True)


def test_a_ragged_table_is_an_error(tables, root: Path) -> None:
    content = {"tables": {"bad": {"columns": ["a", "b"], "rows": [[1]]}}}
    (root / "benchmarks" / "results" / "bad.json").write_text(json.dumps(content))
    with pytest.raises(SystemExit, match="does not have the 2 columns"):
        tables.main(root, check=True)


def test_one_cell_stands_in_a_sentence(tables, root: Path) -> None:
    page = root / "README.md"
    page.write_text('Ours takes <!-- cell:speed "ours | a" "ms" -->?<!-- /cell --> ms.\n')
    assert tables.main(root, check=False) == 0
    assert '"ms" -->1.23<!-- /cell --> ms.' in page.read_text()
    assert tables.main(root, check=True) == 0


def test_a_cell_that_is_not_there_is_an_error(tables, root: Path) -> None:
    (root / "README.md").write_text('<!-- cell:speed "theirs" "ms" --><!-- /cell -->\n')
    with pytest.raises(SystemExit, match=r"no cell \('theirs', 'ms'\)"):
        tables.main(root, check=True)
