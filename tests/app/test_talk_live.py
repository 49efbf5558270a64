"""Conversations in real time, in the terminal and in pipelines: real asyncio, bounded waits."""

from __future__ import annotations

import asyncio
import io
import threading
from typing import Any

import numpy as np
import pytest

from foretell.app.talk.ask import OneByOne, ask
from foretell.app.talk.live import LiveConversation
from foretell.app.talk.parts import EarPool, Limits, Workers
from foretell.app.talk.pipeline import converse
from foretell.app.talk.start import TalkRequest, run as start, sound_parts
from foretell.app.talk.terminal import Screen
from foretell.converse.conversation import Manners, replay_conversation
from foretell.converse.lookup import BM25, StreamingLookup, Tool
from foretell.core.errors import CapacityError, DataError, ParameterError
from foretell.core.timeline import Event, Timeline

NOTES = {
    "oil": "The oil of the pump is changed every 500 hours.",
    "radium": "The Curies discovered radium in 1898.",
}


class Reader:
    """Answers with the first passage; some words in a question make trouble."""

    def __init__(self, index: Any = None, **more: Any) -> None:
        self.lookup = StreamingLookup(index or BM25(NOTES), k=1, **more)
        self.asked, self.told = threading.Event(), threading.Event()

    def source(self, id: str) -> str:
        return NOTES[id]

    def answer(self, question, passages, findings, *, language=None, cancelled=lambda: False):
        if "slowly" in question:
            self.asked.set()
            for _ in range(2000):
                if cancelled():
                    self.told.set()
                    break
                threading.Event().wait(0.005)
        if "oddly" in question:
            return {"text": object()}
        return {"text": passages[0] if passages else "nothing", "findings": dict(findings)}


def run(scene, reader: Reader | None = None, **more: Any) -> list[Event]:
    """Play a scene, a coroutine function of a conversation and of a function that waits."""
    events: list[Event] = []

    async def whole() -> None:
        came = asyncio.Event()

        def listen(event: Event) -> None:
            events.append(event)
            came.set()

        async def until(kind: str, **wanted: Any) -> Event:
            async with asyncio.timeout(10):
                while True:
                    for event in events:
                        if event.kind == kind and wanted.items() <= dict(event.data).items():
                            return event
                    came.clear()
                    await came.wait()

        workers = Workers()
        live = LiveConversation(reader or Reader(), [listen], workers, **more)
        try:
            await scene(live, until)
        finally:
            await live.close()
            workers.close()

    asyncio.run(whole())
    return events


def test_what_happened_is_a_timeline_that_replays() -> None:
    reader = Reader()

    async def scene(live, until):
        for text in ("when is", "when is the oil", "when is the oil changed"):
            live.put("partial", {"text": text}, user=True)
            await until("heard", text=text)
        live.put("end_of_turn", {"text": "when is the oil changed"}, user=True)
        await until("say", text=NOTES["oil"])
        await until("spoken")

    recorded = Timeline(run(scene, reader))
    assert replay_conversation(recorded, reader.lookup) == recorded


def test_partials_that_wait_are_one() -> None:
    async def scene(live, until):
        for n in range(500):
            live.put("partial", {"text": f"oil {n}"}, user=True)
        live.put("end_of_turn", {"text": "when is the oil changed"}, user=True)
        await until("say", text=NOTES["oil"])

    assert sum(event.kind == "partial" for event in run(scene)) < 5


def test_too_much_and_too_long_are_refused() -> None:
    async def scene(live, until):
        with pytest.raises(DataError, match="5 characters; the most is 4"):
            live.put("partial", {"text": "12345"}, user=True)
        live.put("pause", user=True)
        live.put("pause", user=True)
        with pytest.raises(DataError, match="Too much at once"):
            live.put("pause", user=True)
        with pytest.raises(DataError, match="no speech recogniser"):
            live.hear(bytes(320), 16_000)

    run(scene, limits=Limits(text=4, waiting=2))


def test_answers_that_take_too_long_fail_or_are_odd() -> None:
    reader = Reader()

    async def scene(live, until):
        live.put("end_of_turn", {"text": "slowly the oil"})
        said = await until("say", turn=1)
        assert "within 0.05 s" in said["text"]
        assert said["decision"]["action"] == "withhold"
        live.put("end_of_turn", {"text": "oddly the oil"})
        said = await until("say", turn=2)
        assert "not usable" in said["text"]

    run(scene, reader, limits=Limits(answer_s=0.05))
    assert reader.told.wait(5)


def test_cancelling_tells_the_answer() -> None:
    reader = Reader()

    async def scene(live, until):
        live.put("end_of_turn", {"text": "slowly the oil"})
        await asyncio.to_thread(reader.asked.wait, 5)
        live.put("cancel")
        await until("cancelled")
        await asyncio.to_thread(reader.told.wait, 5)

    events = run(scene, reader)
    assert reader.told.is_set()
    assert not [event for event in events if event.kind == "say"]


def test_a_search_that_breaks_ends_the_question_alone() -> None:
    class Broken(BM25):
        def search(self, query, k):
            if "radium" in query.text:
                raise OSError("the disk is gone")
            return super().search(query, k)

    async def scene(live, until):
        live.put("end_of_turn", {"text": "who discovered radium"})
        assert "the disk is gone" in (await until("refused"))["reason"]
        await until("state", to="idle")
        live.put("end_of_turn", {"text": "when is the oil changed"})
        await until("say", text=NOTES["oil"])

    run(scene, Reader(Broken(NOTES)))


def test_passages_and_tools_that_fail_or_dawdle_are_named() -> None:
    class Gone(BM25):
        def fetch(self, id):
            raise OSError("the page is torn")

    tools = [Tool("slow", lambda text: threading.Event().wait(0.3), timeout_s=0.02)]

    async def scene(live, until):
        live.put("end_of_turn", {"text": "when is the oil changed"})
        flags = " ".join((await until("evidence"))["flags"])
        assert "the page is torn" in flags
        assert "no answer within 0.02 s" in flags
        await until("say")

    run(scene, Reader(Gone(NOTES), tools=tools))


def test_a_better_query_may_come_from_outside() -> None:
    async def scene(live, until):
        live.put("end_of_turn", {"text": "and the other thing"})
        await until("say")

    events = run(scene, Reader(query_generator=lambda text: "radium"))
    assert [e["text"] for e in events if e.kind == "say"] == [NOTES["radium"]]


class Ears:
    """Hears one word for each piece of sound."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def feed(self, pcm, rate, channels=1, *, behind=0.0):
        if len(pcm) == 4:
            raise DataError("this piece is noise")
        self.words.append(["when", "is", "the", "oil", "changed"][len(self.words) % 5])
        return [("partial", {"text": " ".join(self.words)})]

    def finish(self):
        return [("final", {"text": " ".join(self.words)})]

    def reset(self) -> None:
        self.words = []

    def close(self) -> None:
        pass


class Tone:
    def say(self, text, *, language=None, cancelled=lambda: False):
        for _ in range(3):
            yield np.ones(160, np.int16), 16_000


def test_sound_comes_in_and_goes_out() -> None:
    played: list[tuple[int, int, int]] = []

    async def scene(live, until):
        for _ in range(5):
            live.hear(bytes(320), 16_000)
        live.hear(bytes(4), 16_000)
        assert "this piece is noise" in (await until("refused"))["reason"]
        live.end_sound()
        await until("say", text=NOTES["oil"])
        await until("heard", settled=True)
        async with asyncio.timeout(10):
            while len(played) < 4:
                await asyncio.sleep(0)
        live.put("spoken", {"turn": 1})
        await until("state", to="idle")
        live.hear(bytes(320), 16_000)

    more = {"ears": Ears, "voice": Tone(), "manners": Manners(resume_s=0.01)}
    run(scene, play=lambda turn, pcm, rate: played.append((turn, len(pcm), rate)), **more)
    assert played == [(1, 320, 16_000)] * 3 + [(1, 0, 0)]


def test_ears_are_lent_given_back_and_used_again() -> None:
    made: list[Ears] = []

    def make() -> Ears:
        made.append(Ears())
        return made[-1]

    pool = EarPool(make, most=2)
    first, second = pool(), pool()
    with pytest.raises(CapacityError, match="2 people are speaking already"):
        pool()
    first.feed(bytes(320), 16_000)
    first.close()
    first.close()  # once is enough
    assert first.feed(bytes(320), 16_000) == first.finish() == []
    third = pool()
    assert third.feed(bytes(320), 16_000) == [("partial", {"text": "when"})]  # nothing of the first
    second.close()
    assert len(made) == 2


def test_ears_that_cannot_be_made_take_no_place() -> None:
    def fails() -> Ears:
        raise DataError("no model")

    pool = EarPool(fails, most=1)
    for _ in range(2):
        with pytest.raises(DataError, match="no model"):
            pool()


def test_who_cannot_be_heard_is_told_once_and_may_type() -> None:
    pool = EarPool(Ears, most=1)
    taken = pool()
    told: list[str] = []

    async def scene(live, until):
        live.hear(bytes(320), 16_000)
        told.append((await until("refused"))["reason"])
        for _ in range(20):
            live.hear(bytes(320), 16_000)
            await asyncio.sleep(0)
        live.put("end_of_turn", {"text": "when is the oil changed"})
        told.append((await until("say"))["text"])

    run(scene, ears=pool)
    taken.close()
    assert "Type, or try again" in told[0]
    assert told[1:] == [NOTES["oil"]]


def test_a_microphone_that_is_gone_frees_its_ears() -> None:
    pool = EarPool(Ears, most=1)

    async def scene(live, until):
        for _ in range(3):
            live.hear(bytes(320), 16_000)
            await until("heard")
            live.stop_listening()
            async with asyncio.timeout(10):
                while pool._lent:
                    await asyncio.sleep(0.001)

    run(scene, ears=pool)
    assert not pool._lent


def test_questions_one_by_one() -> None:
    async def whole() -> list[dict[str, Any]]:
        workers = Workers()
        talk = OneByOne(Reader(), workers)
        found = [await talk.ask("when is the oil changed"), await talk.ask("who found radium")]
        found += [await talk.ask("?"), await talk.ask("slowly the oil", timeout_s=0.05)]
        found.append(await talk.ask("when is the oil changed"))
        await talk.close()
        with pytest.raises(DataError, match="characters"):
            await ask(Reader(), "oil " * 2000, workers)
        workers.close()
        return found

    oil, radium, nothing, late, again = asyncio.run(whole())
    assert (oil["text"], radium["text"]) == (NOTES["oil"], NOTES["radium"])
    assert nothing["text"] == "Nothing was asked."
    assert "No answer was ready" in late["text"]
    assert again["text"] == NOTES["oil"]


class Named(Reader):
    def source(self, id: str):
        from foretell.converse.answer import Source

        return Source(id, NOTES[id], file="pump.md", title="Pump > Oil")

    def answer(self, question, passages, findings, **more):
        from foretell.converse.answer import Answer, Statement, Verdict

        first = passages[0]
        verdict = Verdict("accept", "quoted\x1b[2J")
        return Answer(first.text, (Statement(first.text, (first,)),), verdict)


def test_a_pipeline_ends_when_all_is_answered() -> None:
    async def heard():
        yield "partial", {"text": "when is the oil"}
        yield "end_of_turn", {"text": "when is the oil changed"}

    async def broken():
        yield "partial", {"text": "when"}
        raise OSError("the recogniser died")

    async def whole() -> list[str]:
        with pytest.raises(OSError, match="the recogniser died"):
            _ = [message async for message in converse(Named(), broken())]
        return [m["kind"] async for m in converse(Named(), heard())]

    kinds = asyncio.run(whole())
    assert kinds[-2:] == ["answer", "state"]
    assert "looking" in kinds


def test_the_terminal_shows_what_is_ready_and_answers() -> None:
    async def whole() -> str:
        out, workers = io.StringIO(), Workers()
        screen = Screen(Named(), workers, None, out)
        screen.keys("when is the oil change")
        async with asyncio.timeout(10):
            while "1 of 1 ready: Oil" not in out.getvalue():
                await asyncio.sleep(0)
        screen.keys("x\x7fd\r")
        async with asyncio.timeout(10):
            while "quoted" not in out.getvalue():
                await asyncio.sleep(0)
        screen.keys("\x1b[A\x15")
        screen.keys("\x04")
        assert screen._over.is_set()
        await screen._live.close()
        workers.close()
        return out.getvalue()

    shown = asyncio.run(whole())
    assert "> when is the oil changed\n" + NOTES["oil"] in shown
    assert "[1] pump.md  Oil" in shown
    assert "\x1b[2J" not in shown


def test_a_model_that_was_named_is_used_or_refused(tmp_path) -> None:
    pytest.importorskip("ctranslate2", reason="needs the extra speech")
    with pytest.raises(ParameterError, match="neither a folder nor a model"):
        sound_parts(whisper=str(tmp_path / "none"))
    with pytest.raises(ParameterError, match="--serve"):
        start(TalkRequest(notes=tmp_path, voice="en-us"))


def test_the_voice_of_the_page_is_named_in_the_environment(tmp_path, monkeypatch) -> None:
    from typer.testing import CliRunner

    from foretell.app.commands import app

    asked: list[TalkRequest] = []
    monkeypatch.setattr("foretell.app.talk.start.run", asked.append)
    monkeypatch.setenv("FORETELL_VOICE", "en-gb")
    for flags in ([], ["--serve"]):
        assert CliRunner().invoke(app, ["talk", "--notes", str(tmp_path), *flags]).exit_code == 0
    assert [request.voice for request in asked] == [None, "en-gb"]
