"""Events, timelines and their files, clocks."""

import json
import pickle

import pytest
from hypothesis import given, strategies as st

from foretell.core import (
    ArtifactError,
    Clock,
    DataError,
    Event,
    ForetellWarning,
    MonotonicClock,
    ParameterError,
    Timeline,
    TimelineWriter,
    VirtualClock,
    replay,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.text(min_size=1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.dictionaries(st.text(), JSON, max_size=3),
)
def test_an_event_survives_its_line_of_json(kind, time, data):
    event = Event(kind, time, data)
    assert Event.from_json(event.to_json()) == event
    assert pickle.loads(pickle.dumps(event)) == event
    assert "\n" not in event.to_json()


@given(st.lists(st.floats(0, 1e6), max_size=6))
def test_a_timeline_survives_its_file(times):
    timeline = Timeline(Event("tick", t, {"n": n}) for n, t in enumerate(sorted(times)))
    assert Timeline.from_jsonl(timeline.to_jsonl()) == timeline


def test_content_is_copied_and_closed():
    words = ["a"]
    event = Event("partial", 0, {"words": words, "more": {"k": [1]}})
    words.append("b")
    assert event["words"] == ("a",)
    with pytest.raises(TypeError):
        event["more"]["k"] = 2
    with pytest.raises(AttributeError):
        event.time = 3.0
    assert event.get("nothing", 7) == 7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Event("", 0.0), "needs a name"),
        (lambda: Event("a", float("nan")), "time=nan"),
        (lambda: Event("a", True), "time=True"),
        (lambda: Event("a", 0.0, [1]), "no mapping"),
        (lambda: Event("a", 0.0, {"x": float("inf")}), "a.x is inf"),
        (lambda: Event("a", 0.0, {"x": [1, object()]}), r"a\.x\[1\] is a object"),
        (lambda: Event("a", 0.0, {1: 2}), "key 1"),
        (lambda: Event("a", 0.0, {"x": json.loads("[" * 50 + "]" * 50)}), "nested"),
        (lambda: Event.from_json("{"), "no event"),
        (lambda: Event.from_json('{"t": NaN, "kind": "a"}'), "NaN"),
        (lambda: Event.from_json('{"t": 1}'), "t, kind and data"),
        (lambda: Event.from_json("[" * 100_000), "no event"),
        (lambda: Timeline([Event("a", 2.0), Event("b", 1.0)]), "backwards"),
        (lambda: Timeline(["a"]), "no Event"),
    ],
)  # fmt: skip
def test_what_is_no_event_is_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()


def test_files_that_are_no_timeline(tmp_path):
    good = Timeline([Event("a", 1.0), Event("b", 2.0)]).to_jsonl()
    cases = {
        "other": ("hello\n", "no timeline"),
        "empty": ("", "no timeline"),
        "newer": (good.replace('"schema": 1', '"schema": 2'), "schema 2"),
        "damaged": (good.replace('"kind":"a"', '"kind":1'), "line 2"),
        "backwards": (good.replace('"t":1.0', '"t":9.0'), "line 3"),
    }
    for name, (text, message) in cases.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(ArtifactError, match=message):
            Timeline.open(tmp_path / name)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, message in (("binary", "UTF-8"), ("nothing", "cannot be read")):
        with pytest.raises(ArtifactError, match=message):
            Timeline.open(tmp_path / name)


def test_a_killed_writer_leaves_all_but_the_last_line(tmp_path):
    path = tmp_path / "deep" / "live.jsonl"
    with TimelineWriter(path) as record:
        record(Event("a", 1.0))
        record(Event("b", 2.0))
        assert len(Timeline.open(path)) == 2  # before it is closed
    with pytest.raises(ArtifactError, match="was closed"):
        record(Event("c", 3.0))
    path.write_text(path.read_text()[:-5])
    with pytest.warns(ForetellWarning, match="line 3"):
        assert [e.kind for e in Timeline.open(path)] == ["a"]
    with pytest.raises(ArtifactError, match="exists"):
        TimelineWriter(path)


def test_replay_uses_the_inputs_only():
    def machine(event):
        return [Event("out", event.time + 1, {"was": event.kind})]

    first = replay([Event("in", 0.0), Event("in", 2.0)], machine, inputs={"in"})
    assert [e.kind for e in first] == ["in", "out", "in", "out"]
    assert replay(first, machine, inputs={"in"}) == first
    with pytest.raises(ParameterError, match="several kinds"):
        replay([], machine, inputs="in")


def test_looking_at_a_timeline():
    timeline = Timeline([Event("a", 0.0), Event("b", 1.0), Event("a", 2.0)])
    assert [e.time for e in timeline.of("a")] == [0.0, 2.0]
    assert timeline.last("b") == timeline[1]
    assert timeline.last("c") is None
    assert "2 a, 1 b" in repr(timeline)
    assert repr(Timeline()) == "Timeline(no events)"


def test_clocks():
    clock = VirtualClock(2)
    assert isinstance(clock, Clock)
    assert isinstance(MonotonicClock(), Clock)
    assert clock.advance(0.5) == clock.now() == 2.5
    for wrong in (lambda: clock.advance(-1), lambda: VirtualClock(float("inf"))):
        with pytest.raises(ParameterError):
            wrong()
