"""foretell trust: what it writes, what it says, what it refuses, and what it costs."""

from __future__ import annotations

import csv
import json
import shlex
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from foretell.app.commands import app
from foretell.trust import SelectiveThreshold
from foretell.trust.selective import ScoreIdentity
from tests.app.test_report import parsed
from tests.app.test_report_in_browser import looked_at


def call(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["trust", *(str(word) for word in words)])
    return result.exit_code, result.stdout, result.stderr


VERSION = ("--score", "entropy@2")  # of the scores in the tables of `here`


def cases(n: int, seed: int, shift: float = 0.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    u = rng.uniform(size=n)
    return np.round(u**0.5 if shift else u, 6), rng.uniform(size=n) < (u**2 + shift).clip(0, 1)


def write(path: Path, columns: dict[str, Any]) -> Path:
    with path.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(columns)
        table.writerows(zip(*columns.values(), strict=True))
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with labelled cases, new ones like them, shifted ones, and a rule."""
    monkeypatch.chdir(tmp_path)
    u, e = cases(1000, 0)
    write(tmp_path / "scores.csv", {"id": range(1000), "entropy": u, "wrong": e.astype(int)})
    u, e = cases(2000, 1)
    write(tmp_path / "new.csv", {"id": range(2000), "entropy": u})
    u, e = cases(2000, 2, shift=0.3)
    write(tmp_path / "shifted.csv", {"id": range(2000), "entropy": u, "wrong": e.astype(int)})
    code, _, told = call(
        "calibrate", "scores.csv", "--alpha", 0.1, "--score", "entropy@2", "--out", "rule.json"
    )
    assert (code, told) == (0, "")
    return tmp_path


def test_calibrate_is_the_python_interface(here: Path) -> None:
    u, e = cases(1000, 0)
    identity = ScoreIdentity("entropy", "2")
    expected = SelectiveThreshold(alpha=0.1, score=identity).fit(u, e)
    rule = SelectiveThreshold.load("rule.json")
    assert rule.threshold_ == expected.threshold_
    assert rule.certificate_ == expected.certificate_
    content = json.loads((here / "rule.json").read_text())
    assert content["score"]["version"] == "2"
    assert content["score"]["hash"] == identity.hash


@pytest.mark.parametrize("guarantee", ["fdr", "marginal", "plugin", "plugin_corrected"])
def test_every_guarantee_says_its_sentence(here: Path, guarantee: str) -> None:
    pool = ["new.csv"] if guarantee == "fdr" else []
    words = ["calibrate", "scores.csv", *pool, "--alpha", 0.1, "--score", "entropy"]
    code, said, _ = call(*words, "--guarantee", guarantee, "--out", "other.json", "--json")
    assert code == 0
    content = json.loads(said)
    assert content["certificate"]["kind"] == guarantee
    assert content["threshold"] > 0
    if guarantee == "fdr":
        code, said, _ = call("apply", "other.json", "new.csv", "--out", "d.csv")
        assert code == 0
        assert "judged as one batch" in said


def test_apply_writes_a_decision_for_every_row(here: Path) -> None:
    code, said, told = call(
        "apply", "rule.json", "new.csv", "--score", "entropy@2", "--out", "decisions.csv"
    )
    assert (code, told) == (0, "")
    assert "cases accepted" in said
    assert "look like those of the calibration" in said
    assert "It holds if" in said
    rule = SelectiveThreshold.load("rule.json")
    with (here / "decisions.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["id"] for row in rows] == [str(i) for i in range(2000)]
    accepted = rule.predict([float(row["entropy"]) for row in rows])
    assert [row["decision"] == "accept" for row in rows] == accepted.tolist()


def test_apply_makes_a_violated_assumption_plain(here: Path) -> None:
    code, said, told = call("apply", "rule.json", "shifted.csv", *VERSION, "--out", "d.csv")
    assert code == 0
    assert "THE PROMISE DOES NOT COVER THESE CASES" in told
    assert "Label some of these cases and calibrate again" in told
    assert "for cases like those of the calibration only" in said
    content = json.loads(
        call("apply", "rule.json", "shifted.csv", *VERSION, "--out", "e.csv", "--json")[1]
    )
    assert content["shift"]["shifted"]
    assert content["violation_seen"]


def test_apply_suspects_a_small_shift(here: Path) -> None:
    u, _ = cases(2000, 3)
    write(here / "slightly.csv", {"entropy": 0.085 + 0.915 * u})
    _, said, told = call("apply", "rule.json", "slightly.csv", *VERSION, "--out", "d.csv")
    assert "may not be like those of the calibration" in told
    assert "look like those" not in said


def test_apply_says_when_it_cannot_tell(here: Path) -> None:
    write(here / "few.csv", {"entropy": [0.1, 0.2, 0.9]})
    _, said, told = call("apply", "rule.json", "few.csv", *VERSION, "--out", "d.csv")
    assert "3 cases are too few to tell" in said
    _, _, told = call("apply", "rule.json", "scores.csv", *VERSION, "--out", "e.csv")
    assert "holds the cases that the threshold was chosen on" in told


def test_a_score_turned_around_is_refused_with_the_fix(here: Path) -> None:
    u, e = cases(1000, 0)
    write(here / "surer.csv", {"entropy": (1 - u**2).round(6), "wrong": e.astype(int)})
    code, _, told = call(
        "calibrate", "surer.csv", "--alpha", 0.1, "--score", "entropy", "--out", "r.json"
    )
    assert code == 1
    assert "wrong answers look surer than right ones if lower is surer" in told
    assert "add: --direction higher_is_surer" in told
    words = ["calibrate", "surer.csv", "--alpha", 0.1, "--score", "entropy", "--out", "r.json"]
    assert call(*words, "--direction", "higher_is_surer")[0] == 0
    skewed = np.random.default_rng(5).beta(1, 6, size=2000).round(6)
    wrong = np.random.default_rng(6).uniform(size=2000) < skewed
    write(here / "skewed.csv", {"entropy": skewed, "wrong": wrong.astype(int)})
    write(here / "turned.csv", {"entropy": 1 - skewed})
    call("calibrate", "skewed.csv", "--alpha", 0.1, "--score", "entropy", "--out", "s.json")
    code, _, told = call("apply", "s.json", "turned.csv", "--out", "t.csv")
    assert code == 1
    assert "turned around" in told
    assert "1 - entropy" in told
    assert not (here / "t.csv").exists()


@pytest.mark.parametrize(
    ("table", "flags", "message"),
    [
        ("entropy,wrong\n0.1,0\n0.2,2\n", [], "'2' in row 3, column 'wrong'"),
        ("entropy,wrong\n0.1,0\n0.2,0.5\n", [], "--guarantee marginal"),
        ("entropy,wrong\n0.1,0\n0.2,cat\n", [], "answer != truth"),
        ("entropy,wrong\n0.1,0\n0.2,\n", [], "'' in row 3, column 'wrong'"),
        ("entropy,wrong\n0.1,0\nnan,1\n", [], "'nan' in row 3, column 'entropy'"),
        ("entropy,wrong\n0.1,0\ninf,1\n", [], "not a finite number"),
        ("entropy,wrong\n0.1,0\nabc,1\n", [], "'abc' in row 3"),
        ("entropy,wrong\n0.1,0\n0.2\n", [], "Row 3 of t.csv has 1 cells and the header 2"),
        ("entropy,wrong\n", [], "no rows below it (n=0)"),
        ("", [], "is empty"),
        ("0.1,0\n0.2,1\n", [], "the file has no header"),
        ("entropi,wrong\n0.1,0\n", [], "Did you mean 'entropi'?"),
        ("entropy,correct\n0.1,0\n", [], "wrong = 1 - correct"),
        ("entropy,correct\n0.1,0\n", ["--errors", "correct"], "wrong = 1 - correct"),
        ("entropy,wrong\n0.1,0\n", ["--errors", "wrnog"], "Did you mean 'wrong'?"),
        ("entropy,wrong\n0.1,0\n", ["--alpha", "1.5"], "alpha"),
        ("entropy,wrong\n0.1,0\n", ["--delta", "0"], "delta"),
        ("entropy,wrong\n0.1,0\n", ["--guarantee", "pca"], "'pca' is not one of"),
        ("entropy,wrong\n0.1,0\n", ["--guarantee", "fdr"], "needs the scores of unlabelled"),
        ("entropy,wrong\n0.1,0\n", ["--direction", "up"], "lower_is_surer, higher_is_surer"),
        ("entropy@3,wrong\n0.1,0\n", ["--score", "entropy@2"], "says version '2'"),
        ("entropy,entropy,wrong\n0.1,0.1,0\n", [], "Rename them"),
        ("entropy,wrong\n0.1,0\n0.2\0,1\n", [], "zero bytes"),
        ('entropy,wrong\n0.1,0\n"0.2,1\n0.3,0\n', [], "Row 3 of t.csv has 1 cells"),
        ("entropy,wrong\n0.1,0\n", ["--alpha", "nan"], "alpha=nan"),
    ],
)
def test_bad_calibration(
    table: str,
    flags: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(table)
    words = ["calibrate", "t.csv", "--alpha", 0.1, "--score", "entropy", "--out", "r.json"]
    code, said, told = call(*words, *flags)
    assert code == 1
    assert said == ""
    assert message in told
    assert "Traceback" not in told
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_missing_files_and_columns_without_a_name(here: Path) -> None:
    code, _, told = call("calibrate", "nowhere.csv", "--alpha", 0.1, "--out", "r.json")
    assert code == 1
    assert "There is no file nowhere.csv" in told
    code, _, told = call("calibrate", ".", "--alpha", 0.1, "--out", "r.json")
    assert "is a folder" in told
    code, _, told = call("calibrate", "scores.csv", "--alpha", 0.1, "--out", "r.json")
    assert code == 1
    assert "--score entropy" in told
    assert call("calibrate", "scores.csv", "--out", "r.json")[0] == 2


def test_repeated_cases_are_warned_about(here: Path) -> None:
    u, e = cases(300, 4)
    columns = {"id": [*range(299), 7], "score": u, "wrong": e.astype(int)}
    write(here / "ids.csv", columns)
    code, _, told = call("calibrate", "ids.csv", "--alpha", 0.1, "--out", "r.json")
    assert code == 0
    assert "1 row repeats an earlier one by 'id' in ids.csv, for instance row 301 repeats" in told
    twice = np.random.default_rng(5).uniform(size=150).repeat(2)
    columns = {"id": [*range(299), 7], "score": twice, "wrong": np.zeros(300, int)}
    _, _, told = call(
        "calibrate", write(here / "both.csv", columns), "--alpha", 0.1, "--out", "both.json"
    )
    assert told.count("Warning:") == 1
    columns.pop("id")
    _, _, told = call(
        "calibrate", write(here / "no.csv", columns), "--alpha", 0.1, "--out", "no.json"
    )
    assert "150 cases repeat the score of another one" in told
    text = (here / "ids.csv").read_text().replace("id,", "prompt,")
    (here / "rows.csv").write_text(text + "\n".join(text.splitlines()[5:7]) + "\n")
    _, _, told = call("calibrate", "rows.csv", "--alpha", 0.1, "--out", "s.json")
    assert "2 rows repeat" in told


def test_nothing_is_written_over(here: Path) -> None:
    before = (here / "rule.json").read_bytes()
    words = ["calibrate", "scores.csv", "--alpha", 0.1, "--score", "entropy"]
    code, _, told = call(*words, "--out", "rule.json")
    assert code == 1
    assert "rule.json exists, and nothing was touched" in told
    for words in (("apply", "rule.json", "new.csv"), ("report", "rule.json", "scores.csv")):
        code, _, told = call(*words, *VERSION, "--out", words[-1])
        assert code == 1
        assert "exists, and nothing was touched" in told
    assert (here / "rule.json").read_bytes() == before


def test_a_table_of_no_version_is_refused_for_a_rule_of_one(here: Path) -> None:
    for words in (
        ("apply", "rule.json", "new.csv"),
        ("report", "rule.json", "shifted.csv"),
        ("report", "rule.json", "scores.csv", "new.csv"),
    ):
        code, said, told = call(*words, "--out", "d.csv")
        assert (code, said) == (1, "")
        assert f"for version '2' of 'entropy', and {words[-1]} does not say which" in told
        assert "add: --score entropy@2" in told
        assert call(*words, "--out", "d.csv", "--score", "entropy")[0] == 1
        assert not (here / "d.csv").exists()
        assert call(*words, *VERSION, "--out", f"{words[0]}-{words[-1]}")[0] == 0
    # The cases of the calibration are known by their hash.
    assert call("report", "rule.json", "scores.csv", "--out", "own.html")[0] == 0
    titled = (here / "new.csv").read_text().replace("entropy", "entropy@2", 1)
    (here / "titled.csv").write_text(titled)
    assert call("apply", "rule.json", "titled.csv", "--out", "e.csv")[0] == 0
    both = (here / "scores.csv").read_text().replace("entropy", "entropy@2", 1)
    (here / "both.csv").write_text(both)
    words = ("calibrate", "both.csv", "new.csv", "--alpha", 0.1, "--out", "r.json")
    assert "new.csv does not say which version" in call(*words, "--score", "entropy")[2]
    assert call(*words, *VERSION)[0] == 0


def test_a_rule_of_no_version_is_for_tables_of_none(here: Path) -> None:
    call("calibrate", "scores.csv", "--alpha", 0.1, "--score", "entropy", "--out", "plain.json")
    assert call("apply", "plain.json", "new.csv", "--out", "d.csv")[0] == 0
    code, _, told = call("apply", "plain.json", "new.csv", *VERSION, "--out", "e.csv")
    assert code == 1
    assert "calibrated on a score of no version; the scores given have version '2'" in told


def test_a_rule_for_a_fingerprint_wants_it_stated(here: Path) -> None:
    said = ("--score", "entropy@2#abc")
    words = ("calibrate", "scores.csv", "--alpha", 0.1, "--out", "sealed.json")
    assert call(*words, *said)[0] == 0
    assert SelectiveThreshold.load("sealed.json").identity_.fingerprint == "abc"
    for words in (
        ("apply", "sealed.json", "new.csv"),
        ("report", "sealed.json", "shifted.csv"),
        ("report", "sealed.json", "scores.csv", "new.csv"),
    ):
        code, _, told = call(*words, *VERSION, "--out", "d.csv")
        assert code == 1
        assert f"nothing says which one {words[-1]} was scored with" in told
        assert "add: --score entropy@2#abc" in told
        code, _, told = call(*words, "--score", "entropy@2#xyz", "--out", "d.csv")
        assert code == 1
        assert "calibrated on a score of fingerprint 'abc'" in told
        assert call(*words, *said, "--out", f"{words[0]}-{words[-1]}")[0] == 0
    assert not (here / "d.csv").exists()
    assert call("report", "sealed.json", "scores.csv", "--out", "own.html")[0] == 0
    code, _, told = call("apply", "rule.json", "new.csv", *said, "--out", "e.csv")
    assert code == 1
    assert "a score of no fingerprint" in told
    words = ("calibrate", "scores.csv", "new.csv", "--alpha", 0.1, "--out", "both.json")
    assert call(*words, *said)[0] == 0


def test_the_command_on_a_report_writes_it_again(here: Path) -> None:
    call("report", "rule.json", "scores.csv", "new.csv", *VERSION, "--out", "my rule.html")
    html = unescape((here / "my rule.html").read_text())
    command = html.partition("foretell trust report ")[2].partition("<")[0]
    (here / "my rule.html").unlink()
    assert call("report", *shlex.split(command))[0] == 0
    assert (here / "my rule.html").exists()


def test_columns_of_several_versions_are_told_apart(here: Path) -> None:
    u, e = cases(1000, 0)
    write(here / "two.csv", {"entropy@1": 1 - u, "entropy@2": u, "wrong": e.astype(int)})
    words = ("calibrate", "two.csv", "--alpha", 0.1, "--out", "r.json", "--score")
    code, _, told = call(*words, "entropy")
    assert code == 1
    assert "several columns 'entropy': 'entropy@1', 'entropy@2'. Say which" in told
    assert call(*words, "entropy@2")[0] == 0
    assert SelectiveThreshold.load("r.json").threshold_ == SelectiveThreshold.load(
        "rule.json"
    ).threshold_  # fmt: skip
    write(here / "new-two.csv", {"entropy@1": [0.9] * 9, "entropy@2": [0.05] * 9})
    _, said, _ = call("apply", "rule.json", "new-two.csv", "--out", "d.csv")
    assert said.startswith("9 of 9 cases accepted")


def test_another_score_is_refused(here: Path) -> None:
    apply = ["apply", "rule.json", "new.csv", "--out", "d.csv", "--score"]
    code, _, told = call(*apply, "perplexity")
    assert code == 1
    assert "calibrated on a score of name 'entropy'" in told
    code, _, told = call(*apply, "entropy@3")
    assert code == 1
    assert "version '2'" in told
    write(here / "other.csv", {"entropi": [0.1, 0.2]})
    code, _, told = call("apply", "rule.json", "other.csv", "--out", "d.csv")
    assert code == 1
    assert "is a rule for the score 'entropy'" in told
    assert "Did you mean 'entropi'?" in told
    write(here / "newer.csv", {"entropy@3": [0.1, 0.2]})
    assert "version '3'" in call("apply", "rule.json", "newer.csv", "--out", "d.csv")[2]
    assert not (here / "d.csv").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:100], "is not a JSON file"),
        (lambda text: text.replace('"threshold": 0.', '"threshold": 0.9'), "was changed after"),
        (lambda text: text.replace('"schema": 1', '"schema": 99'), "schema 99"),
        (lambda text: "[]", "This is not a rule"),
        (lambda text: "", "is not a JSON file"),
        (lambda text: "\xff\xfe", "is not a JSON file"),
        (lambda text: text.replace('"threshold"', '"treshold"'), "was changed after"),
    ],
)
def test_damaged_rules_are_refused(here: Path, change: Any, message: str) -> None:
    changed = change((here / "rule.json").read_text())
    (here / "bad.json").write_text(changed, encoding="latin-1")
    code, _, told = call("apply", "bad.json", "new.csv", "--out", "d.csv")
    assert code == 1
    assert message in told
    for other in ("nowhere.json", "."):
        code, _, told = call("apply", other, "new.csv", "--out", "d.csv")
        assert code == 1
        assert "cannot be read" in told


def test_bad_new_cases_leave_nothing_behind(here: Path) -> None:
    (here / "bad.csv").write_text("entropy\n" + "0.5\n" * 20_000 + "nan\n")
    names = sorted(p.name for p in here.iterdir())
    code, _, told = call("apply", "rule.json", "bad.csv", *VERSION, "--out", "d.csv")
    assert code == 1
    assert "'nan' in row 20002" in told
    write(here / "taken.csv", {"entropy": [0.1], "decision": ["?"]})
    assert (
        "already has a column"
        in call("apply", "rule.json", "taken.csv", *VERSION, "--out", "d.csv")[2]
    )
    assert sorted(p.name for p in here.iterdir()) == sorted([*names, "taken.csv"])


def test_other_ways_to_write_a_table(here: Path) -> None:
    u, e = cases(500, 0)
    lines = [
        f'"a, {i}";{str(x).replace(".", ",")};{y}'
        for i, (x, y) in enumerate(zip(u, e, strict=True))
    ]
    (here / "de.csv").write_text("prompt;score;wrong\n" + "\n\n".join(lines) + "\n")
    code, said, _ = call("calibrate", "de.csv", "--alpha", 0.1, "--out", "r.json", "--json")
    assert code == 0
    assert json.loads(said)["certificate"]["n"] == 500
    assert call("apply", "r.json", "de.csv", "--out", "d.csv")[0] == 0
    first = (here / "d.csv").read_text().splitlines()[1]
    assert first.startswith("a, 0;")
    assert first.endswith((";accept", ";withhold"))


def test_infeasible_withholds_everything_and_says_what_would_do(here: Path) -> None:
    u, e = cases(20, 0)
    write(here / "few.csv", {"score": u, "wrong": e.astype(int)})
    code, said, told = call("calibrate", "few.csv", "--alpha", 0.05, "--out", "r.json")
    assert code == 0
    assert "Nothing can be accepted" in said
    assert "fewer than 45" in told
    write(here / "more.csv", {"score": u})
    _, said, told = call("apply", "r.json", "more.csv", "--out", "d.csv")
    assert said.startswith("0 of 20 cases accepted")
    assert "has no threshold" in told
    assert call("report", "r.json", "few.csv", "--out", "r.html")[0] == 0
    assert "Nothing certified." in (here / "r.html").read_text()


def test_report_shows_every_guarantee(here: Path) -> None:
    code, said, _ = call(
        "report", "rule.json", "scores.csv", "new.csv", *VERSION, "--out", "r.html"
    )
    assert code == 0
    html = (here / "r.html").read_text()
    assert parsed(html).loads == ["data:,"]
    for part in ("fdr", "pac (this rule)", "marginal", "plugin", "plugin_corrected", "Certified."):
        assert part in html, part
        assert part.split()[0].rstrip(".") in said + html
    assert "With probability at least 0.9" in html
    assert "independent draws from one law" in html
    assert "look like those of the calibration" in html
    assert (
        "needs unlabelled cases"
        in call("report", "rule.json", "scores.csv", *VERSION, "--out", "s.html")[1]
    )


def test_report_says_when_the_level_is_not_kept(here: Path) -> None:
    _, _, told = call(
        "report", "rule.json", "scores.csv", "shifted.csv", *VERSION, "--out", "r.html"
    )
    assert "THE PROMISE DOES NOT COVER THE CASES IN shifted.csv" in told
    assert "THE LEVEL IS NOT KEPT on shifted.csv" in told
    html = (here / "r.html").read_text()
    assert "Not kept on the new cases." in html
    assert "an assumption is violated for these cases" in html
    assert "so it does not cover these cases" in html
    code, said, told = call(
        "report", "rule.json", "shifted.csv", *VERSION, "--out", "s.html", "--json"
    )
    assert code == 0
    assert "does not hold the 1000 cases" in told
    assert "An assumption is violated for these cases" in told
    assert not json.loads(said)["own_calibration_cases"]
    assert "Not kept on these cases." in (here / "s.html").read_text()


def test_names_are_escaped(here: Path) -> None:
    u, e = cases(300, 4)
    name = "<script>alert(1)</script>"
    write(here / "x.csv", {name: u, "wrong": e.astype(int)})
    call("calibrate", "x.csv", "--alpha", 0.1, "--score", name, "--out", "x.json")
    assert call("report", "x.json", "x.csv", "--out", "x.html")[0] == 0
    html = (here / "x.html").read_text()
    parsed(html)
    assert "<script>alert" not in html


@pytest.mark.system("chromium")
@pytest.mark.parametrize(("width", "dark"), [(390, False), (1280, True)])
def test_report_in_chromium(here: Path, width: int, dark: bool) -> None:
    call("report", "rule.json", "scores.csv", "shifted.csv", *VERSION, "--out", "r.html")
    text = (here / "r.html").read_text().replace("</main>", '<canvas id="space"></canvas></main>')
    (here / "seen.html").write_text(text)
    seen = looked_at(here / "seen.html", here, width=width, dark=dark)
    assert seen["problems"] == []
    assert seen["requests"] == []
    assert seen["wide"] == []
    assert seen["width"] <= width
    assert seen["tip"].startswith("entropy: ")
    assert seen["dark"] is dark


@pytest.mark.slow
def test_a_million_rows_stream(here: Path) -> None:
    """In a few seconds, and in the memory of a few rows."""
    rng = np.random.default_rng(0)
    with (here / "million.csv").open("w") as stream:
        stream.write("id,entropy\n")
        for start in range(0, 1_000_000, 100_000):
            u = rng.uniform(size=100_000)
            stream.writelines(f"{start + i},{x:.6f}\n" for i, x in enumerate(u.tolist()))
    used = []
    for name in ("new.csv", "million.csv"):
        code = (
            "import resource, sys\nfrom foretell.app.cli import main\n"
            f"sys.argv = ['foretell', 'trust', 'apply', 'rule.json', '{name}',"
            f" '--score', 'entropy@2', '--out', 'd-{name}']"
            "\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
            "used = resource.getrusage(resource.RUSAGE_SELF)\n"
            "print('USED', used.ru_maxrss / 1024, used.ru_utime + used.ru_stime)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        used.append([float(x) for x in done.stdout.rsplit("USED", 1)[1].split()])
    (few_mb, few_s), (many_mb, many_s) = used
    assert many_mb - few_mb < 60
    assert many_s - few_s < 12
    with (here / "d-million.csv").open() as stream:
        assert sum(1 for _ in stream) == 1_000_001
