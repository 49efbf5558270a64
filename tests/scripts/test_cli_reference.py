"""The page of commands is made from the program, and a stale page is noticed."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "cli_reference.py"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cli_reference_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_page_is_fresh(reference, capsys) -> None:
    assert reference.main(check=True) == 0, capsys.readouterr().out


def test_a_stale_page_is_noticed_then_rewritten_then_fresh(reference, tmp_path, capsys) -> None:
    page = tmp_path / "cli.md"
    page.write_text("# Commands\n")
    assert reference.main(check=True, target=page) == 1
    assert "cli.md is stale" in capsys.readouterr().out
    assert page.read_text() == "# Commands\n"
    assert reference.main(check=False, target=page) == 0
    assert reference.main(check=True, target=page) == 0


def test_every_command_and_flag_is_there(reference, tmp_path) -> None:
    page = tmp_path / "cli.md"
    reference.main(check=False, target=page)
    text = page.read_text()
    for words in ("## foretell fit", "## foretell show", "`--out OUT` | required", "--effort 1..5"):
        assert words in text
