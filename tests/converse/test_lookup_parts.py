"""BM25, queries, repair, stores, settling and reports, each alone."""

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st

from foretell.converse.lookup import (
    BM25,
    AtPause,
    CostAwareTrigger,
    DocumentStore,
    FixedInterval,
    LearnedStays,
    LogisticModel,
    ModelTrigger,
    RiskControlled,
    SpokenWord,
    StreamingLookup,
    Timing,
    Tool,
    TopKEqual,
    agreed,
    content_query,
    contradicted,
    evidence_errors,
    instrument_tool,
    label_walk,
    latency_report,
    partials,
    question_cases,
    repaired,
    spread_words,
    stabilization,
    text_query,
    trigger_examples,
)
from foretell.converse.lookup.words import terms
from foretell.core import ArtifactError, DataError, NotFittedError, ParameterError
from tests.converse.corpus import NOTES, corpus, questions

LETTERS = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=8).map(" ".join)


def bm25_by_hand(texts: list[str], query: dict[str, float], k1=1.2, b=0.75) -> list[float]:
    docs = [Counter(terms(text)) for text in texts]
    mean = sum(d.total() for d in docs) / len(docs)
    scores = []
    for doc in docs:
        total = 0.0
        for name, weight in query.items():
            df = sum(name in d for d in docs)
            idf = math.log(1 + (len(docs) - df + 0.5) / (df + 0.5))
            tf = doc[name]
            total += weight * idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * doc.total() / mean))
        scores.append(total)
    return scores


@given(st.lists(LETTERS, min_size=1, max_size=9), LETTERS, st.integers(1, 9))
def test_bm25_is_the_formula_with_ties_in_order(texts, question, k):
    k = min(k, len(texts))
    query = content_query(question.upper().split())
    found = BM25(texts).search(query, k)
    scores = bm25_by_hand(texts, dict(query.weights))
    order = sorted(
        (i for i, s in enumerate(scores) if s > 0), key=lambda i: (-round(scores[i], 9), i)
    )
    assert [id for id, _ in found] == [str(i) for i in order[:k]]
    assert [score for _, score in found] == pytest.approx([scores[i] for i in order[:k]])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: BM25([]), DataError, "no passages"),
        (lambda: BM25("text"), DataError, "one text"),
        (lambda: BM25(["...", "?"]), DataError, "has a word"),
        (lambda: BM25([3]), DataError, "a int"),
        (lambda: BM25(["a"], b=2), ParameterError, "b=2"),
        (lambda: BM25(["a"]).search(text_query("b"), 2), ParameterError, "k=2"),
        (lambda: BM25(["a"]).fetch("x"), DataError, "'x'"),
        (lambda: StreamingLookup(BM25(["a"]), k=5), ParameterError, "k=1 or less"),
        (lambda: StreamingLookup(BM25(["a"]), k=0), ParameterError, "k=0"),
        (lambda: StreamingLookup(BM25(["a"]), k=1, block_s=0), ParameterError, "block_s"),
        (lambda: StreamingLookup(BM25(["a"]), k=1, timeout_s=math.inf), ParameterError, "timeout"),
        (lambda: StreamingLookup(BM25(["a"]), k=1, query_generator="llm"), ParameterError, "'llm'"),
        (lambda: FixedInterval(0), ParameterError, "seconds=0"),
        (lambda: CostAwareTrigger(call_cost_s=-1), ParameterError, "call_cost_s"),
        (lambda: TopKEqual(0), ParameterError, "k=0"),
        (lambda: DocumentStore(ttl_s=0), ParameterError, "ttl_s"),
        (lambda: DocumentStore(size=0), ParameterError, "size"),
        (lambda: RiskControlled(0), ParameterError, "alpha=0"),
        (lambda: RiskControlled(1.0), ParameterError, "alpha=1"),
        (lambda: RiskControlled(0.1, guarantee="fdr"), ParameterError, "fdr"),
        (lambda: RiskControlled(0.1).threshold_, NotFittedError, "calibrated"),
        (lambda: RiskControlled(0.1).scores([]), NotFittedError, "fit_score"),
        (lambda: RiskControlled(0.1).fit([1.0] * 8, [0] * 8, range(8)), DataError, "at least 9"),
        (lambda: RiskControlled(0.1).fit([], [], []), DataError, "no scores"),
        (lambda: RiskControlled(0.1).fit([1.0], [2], [0]), DataError, "0 or 1"),
        (lambda: RiskControlled(0.1).fit([math.nan], [0], [0]), DataError, "finite"),
        (lambda: RiskControlled(0.1).fit([1.0, 1.0], [0, 0], [0]), DataError, "groups"),
        (lambda: ModelTrigger(threshold=0), ParameterError, "threshold"),
        (lambda: ModelTrigger().fit([[]]), DataError, "no looks"),
        (lambda: trigger_examples([], negative_rate=1.0), ParameterError, "negative_rate"),
        (lambda: ModelTrigger().predict_proba(None, None), NotFittedError, "fit"),
        (lambda: Tool("a#b", len), ParameterError, "no name"),
        (lambda: Tool("a", len, timeout_s=0), ParameterError, "timeout_s"),
        (lambda: StreamingLookup(BM25(["a"]), k=1, tools=[Tool("a", len)] * 2), ParameterError,
         "Two"),
        (lambda: Timing(endpoint_s=-1), ParameterError, "endpoint_s"),
        (lambda: spread_words("a", words_per_second=0), ParameterError, "words_per_second"),
        (lambda: partials([]), DataError, "no words"),
        (lambda: partials([SpokenWord("a", 1.0, 0.5)]), DataError, "Word 0"),
        (lambda: partials([SpokenWord("a", 0, 2), SpokenWord("b", 1, 3)]), DataError, "Word 1"),
        (lambda: partials([SpokenWord("a", 0, 1)], block_s=0), ParameterError, "block_s"),
        (lambda: stabilization([]), DataError, "no prefixes"),
        (lambda: latency_report({}), DataError, "at_vad"),
        (lambda: latency_report({"at_vad": []}), DataError, "same questions"),
        (lambda: LogisticModel(["x"]).fit([[1.0], [2.0]], [1, 1]), DataError, "nothing to learn"),
        (lambda: LogisticModel(["x"]).fit([[1.0, 2.0]], [1]), DataError, "1 columns"),
        (lambda: LogisticModel(["x"]).fit([[math.inf], [0.0]], [0, 1]), DataError, "inf"),
        (lambda: LogisticModel.from_dict({"format": "x"}), ArtifactError, "Fit and save"),
    ],
)  # fmt: skip
def test_impossible_input(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_partials_never_hold_a_word_across_the_border():
    words = [SpokenWord("a", 0.1, 0.4), SpokenWord("b", 0.4, 0.9), SpokenWord("c", 0.9, 1.6)]
    assert [(e.time, e["text"]) for e in partials(words)] == [
        (0.5, "a"),
        (1.0, "a b"),
        (1.5, "a b"),
    ]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("flights on Tuesday no Thursday", "flights on Thursday"),
        ("the fifth no sorry the sixth tank", "the sixth tank"),
        ("set it to 20 I mean 30", "set it to 30"),
        ("from Oslo to Paris I mean to London", "from Oslo to London"),
        ("who is Marie no wait Pierre Curie", "who is Pierre Curie"),
        ("in March make that April of 1999", "in April of 1999"),
        ("no one discovered it", "no one discovered it"),
        ("is it no longer made", "is it no longer made"),
        ("what is it actually", "what is it"),
        ("no", "no"),
        ("", ""),
    ],
)
def test_self_repair(said, meant):
    assert " ".join(repaired(said.split())) == meant


@given(
    st.lists(
        st.sampled_from("no sorry i mean to Oslo Paris 3 4 Monday May pump".split()), max_size=9
    )
)
def test_repair_only_removes_and_ends(words):
    left = repaired(words)
    remaining = iter(words)
    assert all(word in remaining for word in left)  # a subsequence


def test_contradictions():
    assert not contradicted(["the", "pump"], ["the", "pump", "of", "tank"])
    assert contradicted(["the", "pump"], ["the", "tank"])
    assert contradicted(["the", "pump"], ["the", "pump", "sorry", "tank"])
    assert not contradicted(["the", "pump"], ["a", "pump"])  # a small word does not matter


def test_what_is_agreed():
    assert agreed(["a", "b"], ["a", "c", "b"]) == 1
    assert agreed([], ["a"]) == 0
    assert content_query(["pump", "water"], 1).weights == (("pump", 1.0), ("water", 0.3))


def test_the_store_forgets_the_least_used_and_the_old():
    store = DocumentStore(ttl_s=10, size=2)
    for n, name in enumerate("abc"):
        store.put(("notes", name, ""), n, float(n))
        store.get(("notes", "a", ""), float(n))
    assert [store.get(("notes", name, ""), 3.0) for name in "abc"] == [0, None, 2]
    assert store.get(("notes", "c", ""), 99.0) is None
    assert len(store) == 1


def test_settling():
    found = stabilization([["b"], ["a"], ["b", "a"], ["a", "b"], ["a", "c"]], gold=["c"])
    assert (found.t_sc, found.t_set, found.t_suf, found.volatility) == (4, 5, 5, 2)
    assert (found.phi_sc, found.phi_suf) == (0.8, 1.0)
    assert found.hideable_s(9.0, words_per_second=1.0) == 1.0
    assert found.hideable_s(0.3, words_per_second=1.0, endpoint_s=0.5) == 0.3
    assert found.hideable_s(9.0, words_per_second=1.0, endpoint_s=0.5, sufficient=True) == 0.5
    nothing = stabilization([["a"], []])
    assert (nothing.t_sc, nothing.t_suf, nothing.phi_suf) == (None, None, None)
    assert nothing.hideable_s(1.0) == 0.0


def test_errors_and_cases_of_early_commits():
    assert evidence_errors([["a"], ["b"], ["a", "b"]], ["b", "c"]) == [1, 0, 0]
    scores = np.array([0.2, 0.6, 0.5, 0.9, 0.3, 0.1])
    errors = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    cases, lost = question_cases(scores, errors, [0, 0, 0, 0, 1, 1])
    # question 0 goes wrong up to 0.6: at 0.55 by its second prefix; 0.5 is never reached first
    assert cases.tolist() == [0.6, 0.3]
    assert lost.tolist() == [1.0, 0.0]


def test_a_rule_survives_its_file(tmp_path):
    lookup = StreamingLookup(BM25(corpus()), k=3)
    made = questions(corpus(), 80)
    looks, errors, groups = _calibration(lookup, made)
    half = np.array(groups) < 40
    rule = RiskControlled(0.2).fit_score(
        [look for look, h in zip(looks, half, strict=True) if h],
        np.array(errors)[half],
        np.array(groups)[half],
    )
    rest = [look for look, h in zip(looks, half, strict=True) if not h]
    rule.fit(rule.scores(rest), np.array(errors)[~half], np.array(groups)[~half])
    rule.save(tmp_path / "rule.json")
    again = RiskControlled.load(tmp_path / "rule.json")
    assert again.threshold_ == rule.threshold_ is not None
    assert [again.sufficient(look) for look in rest] == [rule.sufficient(look) for look in rest]
    content = json.loads((tmp_path / "rule.json").read_text())
    assert content["n"] == 40
    (tmp_path / "rule.json").write_text(json.dumps({**content, "schema": 9}))
    for path, message in (("rule.json", "schema 1"), ("none", "cannot be read")):
        with pytest.raises(ArtifactError, match=message):
            RiskControlled.load(tmp_path / path)


def test_no_rule_freezes_nothing_where_everything_goes_wrong():
    rule = RiskControlled(0.05).fit(np.linspace(0, 1, 20), np.ones(20), np.arange(20))
    assert rule.threshold_ is None
    assert not rule.certificate_.feasible


def _calibration(lookup, made):
    looks, errors, groups = [], [], []
    for number, (text, id) in enumerate(made):
        some = lookup.looks(text)
        looks += some
        errors += evidence_errors([look.ids for look in some], lookup.final_ids(text), [id])
        groups += [number] * len(some)
    return looks, errors, groups


def test_learned_triggers_learn():
    lookup = StreamingLookup(BM25(corpus()), k=3)
    made = questions(corpus(), 60)
    looks = [lookup.looks(text) for text, _ in made]
    trigger = ModelTrigger().fit(looks)
    sent = looks[0][-1]
    same, other = trigger.predict_proba(sent, sent), trigger.predict_proba(sent, looks[1][0])
    assert same < other > 0.5
    X, y = trigger_examples(looks, negative_rate=0.0)
    labels = [label for some in looks for label in label_walk(some)]
    assert y.tolist() == labels
    assert X.shape == (len(labels), 15)
    final = [lookup.final_ids(text) for text, _ in made]
    stays = LearnedStays().fit(looks, final)
    assert LearnedStays.from_dict(stays.to_dict()).model_.intercept_ == stays.model_.intercept_
    for learned in (trigger, CostAwareTrigger(stays=stays)):
        trace = StreamingLookup(BM25(corpus()), k=3, trigger=learned).replay(made[0][0])
        assert trace.ids == final[0]


def test_negative_sampling_asks_again_after_a_wrong_query():
    lookup = StreamingLookup(BM25(corpus()), k=3)
    looks = [lookup.looks(text) for text, _ in questions(corpus(), 40)]
    X, y = trigger_examples(looks, groups=[n // 2 for n in range(40)], negative_rate=0.5)
    plain, _ = trigger_examples(looks, negative_rate=0.0)
    changed = (X != plain).any(axis=1)
    assert 0.3 < changed.mean() < 0.6
    assert y[changed].all()
    with pytest.raises(DataError, match="3 groups"):
        trigger_examples(looks, groups=[1, 2, 3])


def test_the_report_needs_its_baseline_and_shows_losses():
    lookup = StreamingLookup(BM25(NOTES), k=2)
    vad = StreamingLookup(BM25(NOTES), k=2, trigger=AtPause())
    texts = ["who discovered radium", "flights to Oslo on Thursday"]
    report = latency_report(
        {
            "at_vad": [vad.replay(text) for text in texts],
            "fixed": [lookup.replay(text) for text in texts],
        }
    )
    assert report["at_vad"].saved_s == 0.0
    assert report["fixed"].saved_s >= 0.0
    assert report["fixed"].slower == 0.0
    assert "saved vs at_vad" in str(report)
    with pytest.raises(DataError, match="no policy"):
        report["other"]


def test_an_instrument_as_a_tool():
    from foretell.converse import Argument, Finding, Instrument, instrument_table, missing_arguments

    class Level:
        name, speculative, timeout_s = "level", True, 1.0
        arguments = {  # noqa: RUF012
            "tank": Argument("whole", lowest=1, highest=3),
            "unit": Argument("choice", choices=("m", "cm"), required=False),
        }

        def __call__(self, arguments, *, cancelled):
            return Finding(0.5 * arguments["tank"], unit="m", source="tanks/model.json")

    level = Level()
    assert isinstance(level, Instrument)
    tool = instrument_tool(level, lambda text: {"tank": 2} if "second" in text else {})
    assert tool.key_fn("the second tank") == "[('tank', 2)]"
    assert tool.key_fn("the tank") is None  # a required argument is missing: nothing is asked
    assert tool.call("the second tank", lambda: False)["value"] == 1.0
    assert missing_arguments(level, {}) == ("tank",)
    for given_, message in (
        ({"tank": 9}, "between 1 and 3"),
        ({"tank": 1.5}, "whole number"),
        ({"tank": True}, "whole number"),
        ({"tank": 1, "unit": "mile"}, "one of m, cm"),
        ({"depth": 1}, "no argument 'depth'"),
    ):
        with pytest.raises(DataError, match=message):
            missing_arguments(level, given_)
    with pytest.raises(ParameterError, match="Two instruments"):
        instrument_table([level, level])
