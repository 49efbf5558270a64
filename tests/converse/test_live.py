"""Live turns: real asyncio, work that ends when the test lets it, no sleeping."""

import asyncio
import threading

import pytest

from foretell.converse.lookup import BM25, EveryChange, StreamingLookup, Tool, tool
from foretell.converse.lookup.live import better_query
from foretell.core import DataError
from tests.converse.corpus import NOTES

QUESTION = "who discovered the element radium"


def lookup(**more) -> StreamingLookup:
    index = more.pop("index", None) or BM25(NOTES)
    return StreamingLookup(index, k=2, trigger=EveryChange(), **more)


class Failing(BM25):
    def fetch(self, id):
        raise OSError("the disk is gone")


class Waiting(BM25):
    async def fetch(self, id):
        await asyncio.Event().wait()


def test_evidence_and_documents_arrive():
    async def ask():
        turn = lookup().turn()
        turn.push_partial("who discovered")
        turn.pause(QUESTION)
        evidence = await turn.commit(QUESTION)
        return evidence, turn

    evidence, turn = asyncio.run(ask())
    assert evidence["ids"][0] == "curie"
    assert turn.documents["curie"] == NOTES["curie"]
    assert turn.trace.first_word_s >= 0
    assert turn.trace.evidence == evidence
    assert turn.timeline.of("work")


def test_failures_and_time_outs_are_flagged_and_never_raised():
    async def ask(index, **more):
        return await lookup(index=index, **more).turn().commit(QUESTION)

    failed = asyncio.run(ask(Failing(NOTES)))
    assert failed["ids"] == ()
    assert any("the disk is gone" in flag for flag in failed["flags"])
    late = asyncio.run(ask(Waiting(NOTES), timeout_s=0.05))
    assert set(late["missing"]) == {"curie", "radon"}


def test_tools_of_every_kind():
    seen = {}

    @tool(speculative=True)
    def plain(text):
        return len(text)

    @tool(speculative=True)
    async def awaited(text):
        return "from the loop"

    def watched(text, cancelled):
        seen["cancelled"] = cancelled()
        return 1

    tools = [
        plain,
        awaited,
        Tool("watched", watched),
        Tool("broken", lambda text: 1 / 0),
        Tool("strange", lambda text: object()),
        Tool("slow", lambda text: threading.Event().wait(0.3), timeout_s=0.02),
    ]

    async def ask():
        turn = lookup(tools=tools).turn()
        evidence = await turn.commit(QUESTION)
        return evidence, turn.findings

    evidence, findings = asyncio.run(ask())
    assert findings == {"plain": len(QUESTION), "awaited": "from the loop", "watched": 1}
    assert seen == {"cancelled": False}
    flags = " ".join(evidence["flags"])
    for part in ("broken: ZeroDivisionError", "strange: ", "slow: no answer within 0.02 s"):
        assert part in flags


def test_cancelling_tells_the_work():
    asked, told = threading.Event(), threading.Event()

    def patient(text, cancelled):
        asked.set()
        for _ in range(1000):
            if cancelled():
                told.set()
                return None
            threading.Event().wait(0.005)
        return None

    async def ask():
        turn = lookup(tools=[Tool("patient", patient, speculative=True)]).turn()
        turn.push_partial(QUESTION)
        await asyncio.to_thread(asked.wait, 5)
        turn.cancel("barge-in")
        await asyncio.to_thread(told.wait, 5)
        with pytest.raises(asyncio.CancelledError):
            await turn._evidence
        with pytest.raises(DataError, match="after the turn was over"):
            turn.push_partial("more")

    asyncio.run(ask())
    assert told.is_set()


def test_rewriting_by_a_function_and_its_failure():
    def rewrite(text):
        return "boiling water at a hundred degrees"

    async def fails(text):
        raise RuntimeError("no model")

    async def ask(generator):
        return await lookup(query_generator=generator).turn().commit(QUESTION)

    assert asyncio.run(ask(rewrite))["ids"][0] == "water"
    assert asyncio.run(ask(fails))["ids"][0] == "curie"


def test_a_cancellation_beside_a_result_is_not_swallowed():
    async def both_at_once():
        asked = asyncio.get_running_loop().create_future()

        async def rewrite(text):
            return await asked

        task = asyncio.create_task(better_query(rewrite, QUESTION, 5.0))
        for _ in range(3):
            await asyncio.sleep(0)
        asked.set_result("radium")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(both_at_once())
