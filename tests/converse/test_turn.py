"""The coordinator of one question, event by event."""

import pytest

from foretell.converse.lookup import (
    BM25,
    AfterTurn,
    AtPause,
    DocumentCache,
    DocumentStore,
    EveryChange,
    FixedInterval,
    LastResult,
    LookupTurn,
    StreamingLookup,
    Timing,
    Tool,
    TopKEqual,
)
from foretell.core import DataError, Event, ParameterError
from tests.converse.corpus import NOTES

QUESTION = "who discovered the element radium"


def lookup(**more) -> StreamingLookup:
    return StreamingLookup(BM25(NOTES), **({"k": 2} | more))


def kinds(events) -> list[str]:
    return [e.kind for e in events if e.kind not in ("search", "wait")]


def partial(turn, text, time=0.0, **more):
    return turn.on(Event("partial", max(time, turn.time), {"text": text, **more}))


def test_the_work_begins_while_words_come():
    turn = lookup(trigger=EveryChange()).machine()
    outs = partial(turn, "who discovered", 1.0)
    assert kinds(outs) == ["fire", "work", "work"]
    assert [e["id"] for e in outs if e.kind == "work"] == ["radon", "curie"]


def test_newer_queries_drop_work_that_has_not_begun():
    turn = lookup(trigger=EveryChange(), workers=1, max_calls=9, min_interval_s=0).machine()
    partial(turn, "who discovered", 1.0)
    outs = partial(turn, "who discovered water degrees", 2.0, stable=4)
    drop = next(e for e in outs if e.kind == "drop")
    assert drop["jobs"] == ("notes:curie",)  # the other one runs, so it finishes
    outs = turn.on(Event("work_done", 2.5, {"job": "notes:radon", "value": "..."}))
    assert next(e for e in outs if e.kind == "work")["id"] == "water"  # newest first


def test_calls_are_capped_and_spaced():
    turn = lookup(trigger=EveryChange(), max_calls=4, min_interval_s=0.5).machine()
    texts = ["water", "water oslo", "oslo tuesday", "pump tank", "radon gas", "curie radium"]
    fires = [
        e.time
        for i, text in enumerate(texts)
        for e in partial(turn, text, 0.3 * (i + 1), stable=len(text.split()))
        if e.kind == "fire"
    ]
    assert len(fires) == 2  # one is kept for a pause, one for the end
    assert fires[1] - fires[0] >= 0.5
    assert kinds(turn.on(Event("pause", 2.0, {"text": "pump"}))).count("fire") == 1
    assert kinds(turn.on(Event("commit", 2.5, {"text": "who discovered it"}))).count("fire") == 1
    assert len(turn.calls) == 4


def test_the_pause_serves_the_end_when_nothing_changes():
    turn = lookup(trigger=AtPause()).machine()
    partial(turn, QUESTION, 1.0)
    turn.on(Event("pause", 1.2))
    assert "fire" not in kinds(turn.on(Event("commit", 1.7)))
    assert len(turn.calls) == 1


def test_what_was_not_worth_fetching_is_fetched_at_the_pause():
    class One(EveryChange):
        def worth(self, moment):
            return moment.look.ids[:1]

    turn = lookup(trigger=One()).machine()
    assert kinds(partial(turn, QUESTION, 1.0, stable=5)).count("work") == 1
    assert kinds(turn.on(Event("pause", 1.5))) == ["work"]
    assert len(turn.calls) == 1


def test_nothing_is_asked_early_where_the_search_is_not_speculative():
    index = BM25(NOTES)
    index.speculative = False
    turn = StreamingLookup(index, k=2, trigger=EveryChange()).machine()
    assert partial(turn, QUESTION, 1.0) == []
    assert kinds(turn.on(Event("pause", 1.5))) == []
    assert "work" in kinds(turn.on(Event("commit", 2.0)))


def test_a_tool_that_is_not_speculative_is_refused_early():
    order = Tool("order", lambda text: "sent")
    level = Tool("level", lambda text: 1, speculative=True)
    turn = lookup(tools=[order, level], trigger=AtPause()).machine()
    partial(turn, QUESTION, 1.0)
    with pytest.raises(ParameterError, match="'order' is not declared speculative"):
        turn.ask("order", QUESTION)
    assert kinds(turn.ask("level", QUESTION)) == ["work"]
    with pytest.raises(ParameterError, match="no tool 'other'"):
        turn.ask("other", QUESTION)
    turn.on(Event("commit", 2.0))
    assert any(job.startswith("order#") for job in turn.begun)


def test_a_tool_is_asked_once_for_each_key_and_the_old_question_is_cancelled():
    keys = {"the pump": "pump", "the pump of": "pump", "the pump of water": "water"}
    tool = Tool("level", len, speculative=True, key_fn=keys.get)
    turn = lookup(tools=[tool], max_calls=9, min_interval_s=0, trigger=EveryChange()).machine()
    for text in keys:
        turn.ask("level", text)
    assert [job for job in turn.begun if "#" in job] == ["level#1", "level#2"]
    turn.on(Event("work_done", 1.0, {"job": "level#1", "value": "late"}))  # of the old key
    assert turn.store.get(("level", "pump", ""), 1.0) == "late"
    assert kinds(turn.ask("level", "nothing")) == ["cancel_work"]  # it no longer concerns it


def test_failed_work_is_tried_again_at_the_end_and_then_flagged():
    turn = lookup(trigger=EveryChange()).machine()
    partial(turn, QUESTION, 1.0)
    turn.on(Event("work_failed", 1.5, {"job": "notes:curie", "reason": "locked"}))
    outs = turn.on(Event("commit", 2.0, {"text": QUESTION}))
    assert "notes:curie" in [e["job"] for e in outs if e.kind == "work"]
    turn.on(Event("work_done", 2.1, {"job": "notes:radon", "value": "gas"}))
    (evidence,) = turn.on(Event("work_failed", 2.2, {"job": "notes:curie", "reason": "locked"}))
    assert (evidence["ids"], evidence["missing"]) == (("radon",), ("curie",))
    assert evidence["flags"] == ("notes:curie: locked",)
    assert turn.documents == {"radon": "gas"}


def test_the_deadline_hands_over_what_is_there():
    turn = lookup(timeout_s=3.0).machine()
    outs = turn.on(Event("commit", 1.0, {"text": QUESTION}))
    wait = next(e for e in outs if e.kind == "wait")
    assert (wait["name"], wait["at"]) == ("deadline", 4.0)
    turn.on(Event("work_done", 2.0, {"job": "notes:curie", "value": "..."}))
    (evidence,) = turn.on(Event("timer", 4.0, {"name": "deadline"}))
    assert (evidence["ids"], evidence["missing"]) == (("curie",), ("radon",))
    assert "deadline" in evidence["flags"]
    assert turn.on(Event("work_done", 5.0, {"job": "notes:radon", "value": "."})) == []
    assert turn.store.get(("notes", "radon", turn._version), 5.0) == "."  # kept for later


def test_a_question_without_content_words_has_no_evidence():
    turn = lookup().machine()
    assert partial(turn, "what is the", 1.0) == []
    evidence = turn.on(Event("commit", 2.0))[-1]
    assert (evidence.kind, evidence["ids"], evidence["call"]) == ("evidence", (), None)


def test_cancelling_stops_everything_and_keeps_what_is_fetched():
    store = DocumentStore()
    plan = lookup(trigger=EveryChange(), workers=1).plan
    turn = LookupTurn(plan, store)
    partial(turn, QUESTION, 1.0)
    turn.on(Event("work_done", 1.4, {"job": "notes:curie", "value": "..."}))
    outs = turn.on(Event("cancel", 1.5, {"reason": "barge-in"}))
    assert kinds(outs) == ["cancel_work", "cancelled"]
    assert outs[-1]["wasted"] == 2
    assert turn.on(Event("cancel", 1.6)) == []
    again = LookupTurn(plan, store, began=2.0)
    work = [e["id"] for e in partial(again, QUESTION, 3.0) if e.kind == "work"]
    assert work == ["radon"]


def test_what_is_too_old_is_fetched_again():
    reflector = DocumentCache(ttl_s=10.0)
    shared = lookup(trigger=EveryChange(), reflector=reflector)
    turn = shared.machine()
    partial(turn, QUESTION, 1.0)
    turn.on(Event("work_done", 1.4, {"job": "notes:curie", "value": "..."}))
    later = shared.machine(began=20.0)
    assert "curie" in [e["id"] for e in partial(later, QUESTION, 21.0) if e.kind == "work"]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (Event("partial", 0.5, {"text": "a"}), "one clock"),
        (Event("sing", 2.0), "no event 'sing'"),
        (Event("partial", 2.0, {"text": "a", "stable": 5}), "stable=5"),
        (Event("query", 2.0, {"call": 7, "text": "", "weights": []}), "no call 7"),
    ],
)
def test_events_out_of_place(event, message):
    turn = lookup().machine()
    partial(turn, QUESTION, 1.0)
    with pytest.raises(DataError, match=message):
        turn.on(event)


@pytest.mark.parametrize("kind", ["partial", "pause", "commit"])
def test_no_words_after_the_end(kind):
    turn = lookup().machine()
    turn.on(Event("commit", 1.0, {"text": QUESTION}))
    with pytest.raises(DataError, match="after the turn was over"):
        turn.on(Event(kind, 2.0, {"text": "more"}))


def test_policies_in_virtual_time():
    timing = Timing(document_s=1.0, call_s=1.0, endpoint_s=0.5)
    wide = {"workers": 5, "max_calls": 8}

    def first_word(trigger, reflector=None):
        return lookup(trigger=trigger, reflector=reflector, **wide).replay(QUESTION, timing)

    assert first_word(AfterTurn()).first_word_s == pytest.approx(1.5)
    assert first_word(AtPause()).first_word_s == pytest.approx(1.0)
    early = first_word(FixedInterval(0.5))
    assert 0.5 <= early.first_word_s < 1.0
    same = first_word(FixedInterval(0.5), TopKEqual(2))
    assert same.ids == early.ids == lookup().final_ids(QUESTION)
    last = first_word(EveryChange(), LastResult())
    assert last.evidence["calls"] >= 1
    assert last.timeline.of("work")[0]["job"].startswith("notes#")


def test_a_single_thread_cancels_the_call_before():
    trace = lookup(
        trigger=EveryChange(), reflector=LastResult(), max_calls=9, min_interval_s=0.0
    ).replay("water boils then the pump of a tank and flights to Oslo", Timing(call_s=5.0))
    assert len(trace.timeline.of("cancel_work")) == trace.evidence["calls"] - 1
    assert len(trace.timeline.of("work_done")) == 1


def test_rewritten_queries_arrive_later():
    timing = Timing(generate_s=0.2, document_s=0.1, endpoint_s=0.5)
    trace = lookup(trigger=AfterTurn()).replay(QUESTION, timing)
    assert trace.first_word_s == pytest.approx(0.8)
    assert len(trace.timeline.of("query")) == 1


def test_the_language_changing_takes_an_early_freeze_back():
    class Eager(DocumentCache):
        def sufficient(self, look):
            return True

    turn = lookup(reflector=Eager()).machine()
    turn.on(Event("language", 0.1, {"language": "en"}))
    assert "early_commit" in kinds(partial(turn, "who discovered", 1.0))
    assert kinds(turn.on(Event("language", 1.5, {"language": "de"}))) == ["recant"]
    assert "early_commit" not in kinds(partial(turn, QUESTION, 2.0))


def test_a_contradiction_takes_an_early_freeze_back():
    class Eager(DocumentCache):
        def sufficient(self, look):
            return len(look.words) >= 4

    turn = lookup(reflector=Eager()).machine()
    assert "early_commit" in kinds(partial(turn, "flights to Oslo Tuesday", 1.0, stable=4))
    assert "recant" in kinds(partial(turn, "flights to Oslo Tuesday no", 2.0))
    turn.on(Event("commit", 3.0, {"text": "flights to Oslo Tuesday no Thursday"}))
    assert turn._chosen.ids[0] == "thursday"
    frozen = lookup(reflector=Eager()).machine()
    partial(frozen, "flights to Oslo Tuesday", 1.0, stable=4)
    frozen.on(Event("commit", 3.0, {"text": "flights to Oslo Tuesday at noon please"}))
    assert frozen.early is not None
    assert frozen._chosen.ids == frozen.early.ids
