"""The conversation machine in virtual time: every way in which a turn can go."""

import itertools

import pytest
from hypothesis import given, strategies as st

from foretell.converse import (
    Conversation,
    Manners,
    StreamingLookup,
    replay_conversation,
    replies,
    run_conversation,
)
from foretell.converse.lookup import (
    BM25,
    DocumentStore,
    FixedInterval,
    RecordedRetriever,
    Timing,
    Tool,
)
from foretell.converse.messages import INPUTS
from foretell.core import DataError, Event, ParameterError, Timeline
from tests.converse.corpus import NOTES

TIMING = Timing(document_s=0.4, reply_s=0.1)


def talk(**more) -> Conversation:
    return Conversation(StreamingLookup(BM25(NOTES), k=2, trigger=FixedInterval(0.5), **more))


def typed(text: str, start: float = 0.0, *, end: bool = True, step: float = 0.3) -> list[Event]:
    words = text.split()
    events = [
        Event("partial", start + step * i, {"text": " ".join(words[:i])})
        for i in range(1, len(words) + 1)
    ]
    return [*events, Event("end_of_turn", start + step * len(words) + 0.6)] if end else events


def states(timeline: Timeline) -> list[str]:
    return [event["to"] for event in timeline.of("state")]


def run(events, **more) -> Timeline:
    return run_conversation(talk(**more), events, TIMING)


def test_a_typed_question_is_answered():
    timeline = run(typed("who discovered the element radium"))
    assert states(timeline) == ["listening", "settling", "answering", "speaking", "idle"]
    ((question, answer, seconds),) = replies(timeline)
    assert question == "who discovered the element radium"
    assert answer.split()[0] == "curie"
    assert seconds == pytest.approx(0.1)  # everything was there at the end of the turn


def test_the_recording_replays_identically_without_the_notes(tmp_path):
    events = [
        *typed("flights to Oslo on Tuesday no Thursday"),
        *typed("who discovered radium", 6.0, end=False),
        Event("barge_in", 7.0),
        Event("cancel", 7.1),
        *typed("what boils at a hundred degrees", 9.0),
    ]
    recorded = run(events)
    again = Timeline.open(recorded.save(tmp_path / "talk.jsonl"))
    assert again == recorded
    same = StreamingLookup(BM25(NOTES), k=2, trigger=FixedInterval(0.5))
    assert replay_conversation(again, same) == recorded
    blind = StreamingLookup(RecordedRetriever(again), k=2, trigger=FixedInterval(0.5))
    assert replay_conversation(again, blind) == recorded


def test_replay_with_the_usual_settings_needs_the_recording_only():
    notes = {f"p{i}": f"pump {i} moves water number {i}" for i in range(9)} | NOTES
    recorded = run_conversation(
        Conversation(StreamingLookup(BM25(notes))), typed("which pump moves the water"), TIMING
    )
    assert replay_conversation(recorded) == recorded


def test_self_repair_supersedes_what_was_looked_up():
    timeline = run(typed("flights to Oslo on Tuesday no Thursday"))
    (compose,) = timeline.of("compose")
    assert compose["text"] == "flights to Oslo on Thursday"
    assert compose["ids"][0] == "thursday"


def test_a_correction_after_the_answer_continues_the_question():
    events = [*typed("flights to Oslo on Tuesday"), *typed("no Thursday", 5.0)]
    first, second = run(events).of("compose")
    assert first["ids"][0] == "tuesday"
    assert (second["text"], second["ids"][0]) == ("flights to Oslo on Thursday", "thursday")


def test_words_soon_after_the_end_continue_the_question():
    more = [Event("partial", 2.5, {"text": "on Thursday"}), Event("end_of_turn", 3.2)]
    timeline = run_conversation(
        talk(), [*typed("flights to Oslo"), *more], Timing(document_s=3.0, reply_s=0.1)
    )
    (compose,) = timeline.of("compose")
    assert compose["text"] == "flights to Oslo on Thursday"
    assert [(e["turn"], e["of"]) for e in timeline.of("resumed")] == [(2, 1)]


def spoken(first: str, rest: str, pause: float, *, released: bool = False) -> list[Event]:
    """A question said in two parts, with frames; a silence of 0.5 s ends a turn."""
    events, at = [], 0.0
    for text, seconds in ((first, 1.0), ("", pause), (rest, 1.0), ("", 2.0)):
        for n in range(round(seconds / 0.1)):
            events.append(Event("frame", at + 0.1, {"seconds": 0.1, "speech": bool(text)}))
            at = round(at + 0.1, 6)
            if text and n % 5 == 4:
                events.append(Event("partial", at, {"text": text}))
            if not text and n == 4:
                events.append(Event("end_of_turn", at, {"released": True} if released else {}))
        if text:
            events.append(Event("final", at, {"text": text}))
    return events


QUICK = Manners(end_s=1.5, resume_s=1.0)


def test_speech_soon_after_an_answer_shows_that_the_silence_was_a_pause():
    timeline = run_conversation(
        Conversation(StreamingLookup(BM25(NOTES), k=2, trigger=FixedInterval(0.5)), manners=QUICK),
        spoken("who discovered", "the element radium", 0.9),
        Timing(document_s=0.05, reply_s=0.05),
    )
    assert [(e["turn"], e["of"]) for e in timeline.of("resumed")] == [(2, 1)]
    assert [e["reason"] for e in timeline.of("cancelled")] == ["the question goes on"]
    assert [e["turn"] for e in timeline.of("stop_speaking")] == [1]
    assert timeline.of("compose")[-1]["text"] == "who discovered the element radium"
    assert timeline.of("say")[-1]["text"].split()[0] == "curie"


def test_a_cough_after_the_answer_brings_it_again():
    events = [e for e in spoken("who discovered radium", "(cough)", 0.9) if "(cough)" not in
              e.data.get("text", "")]  # fmt: skip
    timeline = run_conversation(
        Conversation(StreamingLookup(BM25(NOTES), k=2, trigger=FixedInterval(0.5)), manners=QUICK),
        [e for e in events if e.kind != "end_of_turn" or e.time < 2.0],
        Timing(document_s=0.05, reply_s=0.05),
    )
    first, again = timeline.of("say")
    assert first["text"] == again["text"]


def test_a_machine_that_lags_ends_no_question():
    talk = Conversation(StreamingLookup(BM25(NOTES), k=2), manners=QUICK)
    talk.on(Event("partial", 0.1, {"text": "who discovered"}))
    talk.on(Event("frame", 0.2, {"seconds": 0.1, "speech": False}))
    talk.on(Event("frame", 3.0, {"seconds": 0.1, "speech": False}))  # nearly 3 s late
    assert talk.state == "listening"


def test_words_that_are_read_again_after_an_early_end_are_not_doubled():
    talk = Conversation(StreamingLookup(BM25(NOTES), k=2), manners=QUICK)
    talk.on(Event("partial", 0.1, {"text": "who discovered?"}))
    talk.on(Event("end_of_turn", 0.2))
    outs = talk.on(Event("partial", 0.3, {"text": "Who discovered the element radium?"}))
    assert [out["text"] for out in outs if out.kind == "heard"] == [
        "Who discovered the element radium?"
    ]


def test_an_echo_of_the_answer_does_not_bring_it_for_ever():
    talk = Conversation(StreamingLookup(BM25(NOTES), k=2), manners=QUICK)
    talk.on(Event("final", 0.1, {"text": "who discovered radium"}))
    now, answers = 0.2, 0
    for _ in range(10):
        outs = talk.on(Event("end_of_turn", now))
        for job in [out["job"] for out in outs if out.kind == "work"]:
            turn = talk.turn.number
            outs = talk.on(Event("work_done", now, {"turn": turn, "job": job, "value": "x"}))
        if talk.state == "answering":
            talk.on(Event("answer", now, {"turn": talk.turn.number, "text": "The Curies."}))
            answers += 1
        for _ in range(5):
            now += 0.1
            talk.on(Event("frame", now, {"seconds": 0.1, "speech": True}))
    assert answers == 3


@pytest.mark.parametrize(("pause", "released"), [(2.0, False), (0.9, True)])
def test_later_or_after_the_button_it_is_another_question(pause, released):
    timeline = run_conversation(
        Conversation(StreamingLookup(BM25(NOTES), k=2, trigger=FixedInterval(0.5)), manners=QUICK),
        spoken("who discovered radium", "when does water boil", pause, released=released),
        Timing(document_s=0.05, reply_s=0.05),
    )
    assert not timeline.of("resumed")
    assert [e["text"] for e in timeline.of("compose")] == [
        "who discovered radium",
        "when does water boil",
    ]


def test_what_is_typed_after_an_answer_is_another_question():
    first = typed("who discovered radium", step=0.1)
    again = typed("when does water boil", start=first[-1].time + 0.3, step=0.1)
    timeline = run_conversation(talk(), [*first, *again], Timing(document_s=0.05, reply_s=0.05))
    assert not timeline.of("resumed")
    assert timeline.of("compose")[-1]["text"] == "when does water boil"


def test_barge_in_stops_the_answer_and_backchannels_do_not():
    asked = typed("who discovered radium")
    said = 0.9 + 0.6 + 0.1  # the answer begins
    murmur = Event("partial", said + 0.3, {"text": "mm yeah"})
    calm = run([*asked, murmur])
    assert not calm.of("stop_speaking")
    assert states(calm)[-1] == "idle"
    other = typed("what about radon", said + 0.2)
    timeline = run([*asked, *other])
    assert [e.time for e in timeline.of("stop_speaking")] == [pytest.approx(said + 0.5)]
    assert replies(timeline)[1][0] == "what about radon"


def test_spoken_barge_in_needs_a_stretch_of_speech():
    asked = typed("who discovered radium")
    short = [Event("frame", 1.8 + 0.1 * i, {"seconds": 0.1, "speech": i < 2}) for i in range(5)]
    assert not run([*asked, *short]).of("stop_speaking")
    long = [Event("frame", 1.8 + 0.1 * i, {"seconds": 0.1, "speech": i < 4}) for i in range(20)]
    timeline = run([*asked, *long])
    assert timeline.of("stop_speaking")
    assert states(timeline)[-1] == "idle"  # nothing was said after all


def test_silence_pauses_and_ends_the_turn():
    words = typed("who discovered radium", end=False)
    frames = [Event("frame", 1.0 + 0.1 * i, {"seconds": 0.1, "speech": False}) for i in range(12)]
    timeline = run([*words, *frames])
    settled = next(e for e in timeline.of("state") if e["to"] == "settling")
    assert settled.time == pytest.approx(1.6)  # 0.9 s + 0.7 s
    assert replies(timeline)[0][1].split()[0] == "curie"


def test_silence_without_words_opens_no_turn():
    frames = [
        Event("frame", 0.1 * (i + 1), {"seconds": 0.1, "speech": i % 3 == 0}) for i in range(30)
    ]
    assert list(run(frames).of("state", "fire")) == []


def test_a_pause_in_typing_starts_the_work():
    words = typed("who discovered radium", end=False, step=0.2)
    timeline = run([*words, Event("cancel", 9.0)], max_calls=2)
    (fire,) = timeline.of("fire")
    assert fire.time == pytest.approx(0.6 + Manners().pause_s)
    assert timeline.last("cancelled")["reason"] == "cancelled"


def test_late_results_go_to_their_turn_and_stay_for_the_next():
    machine = talk()
    machine.on(Event("partial", 0.1, {"text": "who discovered radium"}))
    machine.on(Event("pause", 0.2))
    machine.on(Event("cancel", 0.3))
    assert (
        machine.on(Event("work_done", 0.4, {"turn": 1, "job": "notes:curie", "value": "x"})) == []
    )
    machine.on(Event("partial", 0.5, {"text": "who discovered radium"}))
    work = [e for e in machine.on(Event("pause", 0.6)) if e.kind == "work"]
    assert "notes:curie" not in [e["job"] for e in work]
    assert machine.on(Event("work_done", 0.7, {"turn": 99, "job": "notes:x", "value": ""})) == []


def test_a_late_answer_is_kept_and_not_spoken():
    machine = talk()
    machine.on(Event("end_of_turn", 0.1, {"text": "hello"}))  # nothing to look up
    assert machine.state == "answering"
    machine.on(Event("barge_in", 0.2))
    outs = machine.on(Event("answer", 0.3, {"turn": 1, "text": "late"}))
    assert [out.kind for out in outs] == ["kept"]
    assert machine.on(Event("answer", 0.4, {"turn": 1, "text": "twice"})) == []


def test_reconnecting_repeats_what_was_missed():
    machine = talk()
    outs = [out for e in typed("hello there") for out in machine.on(e)]
    seen = outs[0]["n"]
    machine.on(Event("disconnect", 2.0))
    said = machine.on(Event("answer", 2.1, {"turn": 1, "text": "hi"}))
    resumed = machine.on(Event("reconnect", 2.2, {"seen": seen}))
    assert (resumed[0].kind, resumed[0]["state"], resumed[0]["gap"]) == (
        "resume",
        "speaking",
        False,
    )
    again = [e for e in resumed if e.kind == "say"]
    assert [e["n"] for e in again] == [e["n"] for e in said if e.kind == "say"]
    assert all(e["n"] > seen and e["again"] for e in resumed[1:])


def test_who_does_not_come_back_is_given_up():
    events = [*typed("who discovered radium", end=False), Event("disconnect", 2.0)]
    timeline = run(events)
    assert timeline.last("cancelled")["reason"] == "nobody is there"
    back = [*events, Event("reconnect", 30.0, {"seen": 0}), Event("end_of_turn", 31.0)]
    assert len(run(back).of("say")) == 1


def test_an_input_that_is_sent_twice_counts_once():
    machine = talk()
    event = Event("end_of_turn", 0.1, {"text": "hello", "id": "c1"})
    assert machine.on(event)
    assert machine.on(event) == []


def test_tools_are_asked_and_writes_wait_for_the_end():
    asked = []
    tools = [
        Tool("level", len, speculative=True, key_fn=lambda text: text or None),
        Tool("order", len, key_fn=lambda text: "all"),
    ]
    timeline = run_conversation(
        talk(tools=tools),
        typed("who discovered radium"),
        TIMING,
        fetch=lambda work: asked.append((work["tool"], work.time)) or "value",
    )
    end = next(e.time for e in timeline.of("state") if e["to"] == "settling")
    assert all(time >= end for name, time in asked if name == "order")
    assert any(time < end for name, time in asked if name == "level")
    assert timeline.last("compose")["findings"] == {"level": "value", "order": "value"}


def test_failing_work_is_flagged_and_the_answer_still_comes():
    def fetch(work):
        raise OSError("the disk is gone")

    timeline = run_conversation(talk(), typed("who discovered radium"), TIMING, fetch=fetch)
    compose = timeline.last("compose")
    assert compose["ids"] == ()
    assert "curie" in compose["missing"]
    assert any("the disk is gone" in flag for flag in compose["flags"])
    assert len(timeline.of("say")) == 1


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (Event("sing", 1.0), "knows no event 'sing'"),
        (Event("partial", 1.0), "has no text"),
        (Event("partial", 1.0, {"text": 3}), "needed is a text"),
        (Event("partial", 1.0, {"text": "a b", "stable": 3}), "stable=3 of 2"),
        (Event("partial", 1.0, {"text": "a b", "stable": True}), "whole number"),
        (Event("partial", 1.0, {"text": "a" * 30_000}), "30000 characters"),
        (Event("frame", 1.0, {"seconds": -1, "speech": True}), "more than 0"),
        (Event("frame", 1.0, {"seconds": 1, "speech": 1}), "true or false"),
        (Event("query", 1.0, {"turn": 1, "call": 1, "text": "", "weights": [1]}), "pairs"),
        (Event("partial", -1.0, {"text": "a"}), "one clock"),
    ],
)  # fmt: skip
def test_hostile_input_is_refused_and_the_talk_goes_on(event, message):
    machine = talk()
    machine.on(Event("partial", 0.5, {"text": "who discovered"}))
    with pytest.raises(DataError, match=message):
        machine.on(event)
    assert machine.on(Event("end_of_turn", 2.0, {"text": "who discovered radium"}))


def test_impossible_manners():
    with pytest.raises(ParameterError, match="pause_s=0"):
        Manners(pause_s=0)
    with pytest.raises(ParameterError, match="ends after"):
        Manners(end_s=0.1)


WORDS = st.lists(
    st.sampled_from("who discovered radium no sorry Tuesday Thursday flights mm yes".split()),
    max_size=5,
).map(" ".join)
ACTIONS = st.one_of(
    st.tuples(st.sampled_from(["partial", "final"]), WORDS.map(lambda t: {"text": t})),
    st.tuples(st.just("end_of_turn"), st.just({}) | WORDS.map(lambda t: {"text": t})),
    st.tuples(
        st.sampled_from(["pause", "barge_in", "cancel", "disconnect"]), st.just({})
    ),
    st.tuples(st.just("reconnect"), st.integers(0, 40).map(lambda n: {"seen": n})),
    st.tuples(
        st.just("frame"),
        st.booleans().map(lambda speech: {"seconds": 0.5, "speech": speech}),
    ),
)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.7]), ACTIONS), max_size=12))
def test_any_order_of_inputs_leads_somewhere_and_replays(steps):
    times = itertools.accumulate(gap for gap, _ in steps)
    events = [Event(kind, t, data) for t, (_, (kind, data)) in zip(times, steps, strict=True)]
    machine = talk()
    timeline = run_conversation(machine, events, TIMING)
    spoken = [e["turn"] for e in timeline.of("say") if not e.get("again")]
    assert len(set(spoken)) == len(spoken)
    assert machine.state in ("idle", "listening", "speaking")
    again = Conversation(StreamingLookup(BM25(NOTES), k=2, trigger=FixedInterval(0.5)))
    replayed = [out for e in timeline if e.kind in INPUTS for out in [e, *again.on(e)]]
    assert Timeline(replayed) == timeline
    assert isinstance(machine.store, DocumentStore)
