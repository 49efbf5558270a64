"""`foretell replay`: spans of a recording, and the page made of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from foretell.app.commands import app
from foretell.app.talk.replaying import page
from foretell.app.talk.spans import turns_of
from foretell.converse.conversation import Conversation
from foretell.converse.lookup import BM25, EveryChange, StreamingLookup
from foretell.converse.lookup.simulation import Timing
from foretell.converse.virtual import run_conversation
from foretell.core.errors import DataError
from foretell.core.timeline import Event, Timeline

NOTES = {"p7": "# Radium\nThe Curies discovered radium.", "p8": "Radon is a <b>noble</b> gas."}


def recorded(timing: Timing | None = None, more: tuple[Event, ...] = ()) -> Timeline:
    lookup = StreamingLookup(BM25(NOTES), k=1, trigger=EveryChange())
    said = [
        Event("partial", 0.5, {"text": "who discovered <script>"}),
        Event("partial", 1.0, {"text": "who discovered radium"}),
        Event("end_of_turn", 2.0, {"text": "who discovered radium"}),
        *more,
    ]
    timing = timing or Timing(document_s=0.4, reply_s=0.25)
    return run_conversation(Conversation(lookup), said, timing, fetch=lambda out: NOTES[out["id"]])


def test_spans_of_a_turn() -> None:
    (turn,) = turns_of(recorded())
    assert turn.waited == pytest.approx(0.25)
    assert turn.work_s == pytest.approx(0.4)
    assert turn.ahead_s == pytest.approx(0.4)
    kinds = [(span.kind, span.outcome) for span in turn.spans]
    assert kinds == [("notes", "used"), ("answer", "used"), ("speech", "used")]
    assert turn.spans[0].label == "Radium"
    assert [text for _, text in turn.marks] == ["who discovered <script>", "who discovered radium"]


def test_what_is_interrupted_cancelled_or_late_is_said() -> None:
    (stopped,) = turns_of(recorded(more=(Event("barge_in", 2.5),)))[:1]
    assert ("speech", "stopped") in [(s.kind, s.outcome) for s in stopped.spans]
    (given_up,) = turns_of(recorded(Timing(document_s=5.0), (Event("cancel", 2.5),)))
    assert given_up.waited is None
    assert given_up.outcome == "cancelled"
    with pytest.raises(DataError, match="no turn of a conversation"):
        turns_of([Event("disconnect", 0.0)])


def test_the_page_is_whole_and_nothing_said_is_markup() -> None:
    text = page(turns_of(recorded()), "talk.jsonl")
    assert "Answered 250 ms after the question was over." in text
    assert "&lt;script&gt;" in text
    assert "<script" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert '"Segoe UI"' in text  # the style is not escaped


def test_the_command(tmp_path: Path) -> None:
    file = recorded().save(tmp_path / "talk.jsonl")
    done = CliRunner().invoke(app, ["replay", str(file)])
    assert done.exit_code == 0
    assert "median 250 ms" in done.stdout
    assert (tmp_path / "talk.html").read_text().startswith("<!doctype html>")
    same = CliRunner().invoke(app, ["replay", str(file), "--out", str(file)])
    assert same.exit_code == 1
    assert "is the recording itself" in same.stderr
    file.write_text("no timeline\n")
    assert CliRunner().invoke(app, ["replay", str(file)]).exit_code == 1
