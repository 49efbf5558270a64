"""`SelectiveThreshold`: worked numbers, bad input, warnings, rules in files."""

import hashlib
import json
import warnings

import numpy as np
import pytest

from foretell.core import (
    ArtifactError,
    DataError,
    ForetellWarning,
    NotFittedError,
    ParameterError,
)
from foretell.trust import (
    Certificate,
    ScoreIdentity,
    SelectiveThreshold,
    as_errors,
    choose_thresholds,
)

U = np.arange(10) / 10
E = np.array([0, 0, 0, 0, 1, 0, 0, 0, 0, 0])


def quiet(u, e, pool=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForetellWarning)
        return SelectiveThreshold(**settings).fit(u, e, unlabeled_scores=pool)


def sample(n=400, seed=0):
    rng = np.random.default_rng(seed)
    u = rng.uniform(size=n)
    return u, (rng.uniform(size=n) < u**2).astype(int)


@pytest.mark.parametrize(
    ("settings", "accepted"),
    [
        ({"guarantee": "plugin", "alpha": 0.3}, 10),
        ({"guarantee": "plugin", "alpha": 0.1}, 0),
        ({"guarantee": "marginal", "alpha": 0.2}, 10),
        ({"guarantee": "pac", "alpha": 0.5, "min_accept": 10, "min_retention": 0}, 10),
    ],
)
def test_worked_numbers(settings, accepted):
    rule = quiet(U, E, **settings)
    assert rule.n_accepted_ == accepted
    assert (rule.threshold_ is None) == (accepted == 0)
    assert rule.predict(U, check=False).sum() == accepted


def test_a_batch_by_hand():
    rule = quiet([0.2, 0.9, 0.1, 0.3], [1, 1, 0, 0], pool=[0.1, 0.2, 0.5], alpha=0.5)
    assert rule.certificate_.kind == "fdr"
    assert rule.predict([0.1, 0.2, 0.5]).all()
    assert rule.select([0.1, 0.2, 0.5]).all()
    assert rule.select([]).size == 0
    assert not rule.select([0.95]).any()


@pytest.mark.parametrize("guarantee", ["plugin", "plugin_corrected", "pac", "fdr"])
def test_all_wrong_withholds_everything_and_says_so(guarantee):
    u, _ = sample(50)
    pool = u if guarantee == "fdr" else None
    rule = quiet(u, np.ones(50), pool, alpha=0.1, guarantee=guarantee)
    assert rule.threshold_ is None
    assert not rule.predict([0.0]).any()
    assert "No threshold could be certified" in rule.certificate_.statement
    assert "More cases of this kind would not be enough" in str(rule.certificate_)
    assert not rule.certificate_.feasible
    assert rule.certificate_.needed_n is None
    assert rule.decide(0.0).action == "withhold"
    assert rule.retention_ == 0


@pytest.mark.parametrize(
    ("guarantee", "least"), [("plugin", 10), ("marginal", 9), ("pac", 22), ("fdr", 9)]
)
def test_all_right_accepts_everything_from_the_smallest_n_on(guarantee, least):
    for n in (1, 2, least - 1, least):
        u = np.arange(n, dtype=float)
        rule = quiet(u, np.zeros(n), u if guarantee == "fdr" else None,
                     alpha=0.1, guarantee=guarantee)  # fmt: skip
        assert rule.predict(u, check=False).all() == (n >= least)
        if n < least:
            needed = rule.certificate_.needed_n
            assert least <= needed <= (2 * least if guarantee == "pac" else least)
            assert f"About {needed} calibration cases would be enough" in str(rule.certificate_)


def test_marginal_may_accept_a_few_wrong_ones_when_all_are_wrong():
    u, _ = sample(50)
    assert quiet(u, np.ones(50), alpha=0.1, guarantee="marginal").n_accepted_ == 4
    assert quiet(u[:10], np.ones(10), alpha=0.1, guarantee="marginal").threshold_ is None


def test_thresholds_chosen_on_other_cases():
    u, e = sample(2000)
    tests = choose_thresholds(u[:1000], e[:1000], n=1000, alpha=0.1)
    rule = quiet(u[1000:], e[1000:], alpha=0.1, test_at=tests)
    assert rule.threshold_ in tests
    assert rule.certificate_.feasible
    assert "without the calibration cases" in str(rule.certificate_)
    assert "does not fall" not in str(rule.certificate_)
    high = quiet(1 - u[1000:], e[1000:], alpha=0.1, test_at=1 - tests, direction="higher_is_surer")
    assert high.threshold_ == pytest.approx(1 - rule.threshold_)
    assert quiet(u[1000:], e[1000:], alpha=0.1, test_at=[0.99, 0.2]).threshold_ == 0.2
    assert SelectiveThreshold.from_dict(rule.to_dict()).test_at == tests.tolist()
    with pytest.raises(ParameterError, match="guarantee='pac' only"):
        quiet(u, e, alpha=0.1, guarantee="marginal", test_at=tests)


def test_how_many_cases_would_be_enough_is_about_right():
    u, e = sample(60)
    rule = quiet(u, e, alpha=0.05, min_accept=5, min_retention=0)
    assert rule.threshold_ is None
    needed = rule.certificate_.needed_n
    u, e = sample(2 * needed, seed=1)
    assert quiet(u, e, alpha=0.05, min_accept=5, min_retention=0).threshold_ is not None


def test_equal_scores_are_treated_alike():
    u = np.repeat([0.1, 0.2], 20)
    e = np.r_[np.zeros(20), np.ones(20)]
    rule = quiet(u, e, alpha=0.3, guarantee="marginal")
    assert rule.threshold_ == 0.1
    assert rule.n_accepted_ == 20


def test_the_direction_only_turns_the_scale():
    u, e = sample()
    low = quiet(u, e, alpha=0.1)
    high = quiet(1 - u, e, alpha=0.1, direction="higher_is_surer")
    assert high.threshold_ == pytest.approx(1 - low.threshold_)
    assert (high.predict(1 - u, check=False) == low.predict(u, check=False)).all()
    assert high.decide(0.99).accepted


def test_losses_between_0_and_1():
    u, e = sample()
    assert quiet(u, 0.5 * e, alpha=0.1, guarantee="marginal").n_accepted_ > 0
    assert quiet(u, 0.5 * e, alpha=0.1, guarantee="pac", assume_monotone=False).n_accepted_ > 0
    with pytest.raises(DataError, match=r"errors\[\d+\] is 0.5.*marginal"):
        quiet(u, 0.5 * e, alpha=0.1)


@pytest.mark.parametrize(
    ("u", "e", "message"),
    [
        ([0.1, 0.2], [0], r"errors has shape \(1,\) and scores \(2,\)"),
        ([0.1, np.nan], [0, 0], r"scores\[1\] is nan"),
        ([np.inf, 0.1], [0, 0], r"scores\[0\] is inf"),
        ([0.1, 0.2], [0, 2], r"errors\[1\] is 2"),
        ([0.1, 0.2], [0, np.nan], r"errors\[1\] is nan"),
        ([], [], "n=0"),
        ([[0.1], [0.2]], [0, 0], r"shape \(2, 1\)"),
        (["a", "b"], [0, 0], "needed are numbers"),
        ([0.1, 0.2], ["right", "wrong"], "answers != truth"),
        (np.array([0.1, None]), [0, 0], r"holds object.*numpy.asarray\(scores, dtype=float\)"),
        (np.ma.masked_less([0.1, 0.2], 0.15), [0, 0], r"scores\[0\] is nan"),
        ([0.1 + 0j, 0.2], [0, 0], "complex128"),
        (0.1, 0, r"shape \(\)"),
    ],
)
def test_unusable_samples(u, e, message):
    with pytest.raises(DataError, match=message):
        quiet(u, e, alpha=0.1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 0}, "alpha=0"),
        ({"alpha": 1.0}, "alpha=1.0"),
        ({"alpha": "0.1"}, "alpha='0.1'"),
        ({"delta": 1.0}, "delta=1.0"),
        ({"guarantee": "luck"}, "fdr, pac, marginal"),
        ({"guarantee": "fdr"}, "unlabeled_scores="),
        ({"min_accept": 11}, "min_accept=11 is more than the 10"),
        ({"min_accept": 0}, "min_accept=0"),
        ({"min_retention": 1.5}, "min_retention=1.5"),
        ({"min_retention": True}, "min_retention=True"),
        ({"min_retention": np.nan}, "min_retention=nan"),
        ({"alpha": True}, "alpha=True"),
        ({"alpha": np.nan}, "alpha=nan"),
        ({"direction": "up"}, "higher_is_surer"),
        ({"score": ScoreIdentity("a"), "direction": "higher_is_surer"}, "differ"),
        ({"score": 3}, "not a text"),
        ({"guarantee": "pac", "pool": U}, "used by guarantee='fdr' only"),
    ],
)
def test_impossible_arguments(settings, message):
    with pytest.raises(ParameterError, match=message):
        quiet(U, E, **{"alpha": 0.1, **settings})


@pytest.mark.parametrize("guarantee", ["fdr", "pac", "marginal", "plugin", "plugin_corrected"])
def test_levels_at_the_ends(guarantee):
    u, e = sample(400)
    pool = u if guarantee == "fdr" else None
    for alpha in (1e-300, 1e-12, 1e-6):
        assert quiet(u, e, pool, alpha=alpha, guarantee=guarantee).threshold_ is None
    assert quiet(u, e, pool, alpha=1 - 1e-12, guarantee=guarantee).n_accepted_ == 400
    assert quiet(u, e, alpha=0.1, delta=1e-300).threshold_ is None
    assert quiet(u, e, alpha=0.1, delta=1 - 1e-12).n_accepted_ > 0
    for found in ([0], [1]):
        rule = quiet([0.3], found, None if pool is None else [0.3], alpha=0.5, guarantee=guarantee)
        assert rule.predict([0.3], check=False).all() <= (found == [0])


def test_numbers_of_every_kind_mean_the_same():
    u, e = sample()
    u = u.astype(np.float32)
    expected = quiet(u, e, alpha=0.1)
    for scores, errors in (
        (u.astype(np.longdouble), e.astype(bool)),
        (u.tolist(), e.astype(np.uint8)),
        (np.ma.asarray(u), e.astype(float)),
    ):
        assert quiet(scores, errors, alpha=0.1).to_dict() == expected.to_dict()
    coarse = quiet(u, e, alpha=np.float32(0.1), min_retention=np.float32(0.3))
    assert json.loads(json.dumps(coarse.to_dict()))["certificate"]["level"] == pytest.approx(0.1)


def test_pandas_columns_are_read_by_row_and_refused_in_another_order():
    pd = pytest.importorskip("pandas")
    u, e = sample()
    order = np.random.default_rng(0).permutation(u.size)
    scores, errors = pd.Series(u, index=order), pd.Series(e)
    with pytest.raises(DataError, match=r"errors.loc\[scores.index\]"):
        quiet(scores, errors, alpha=0.1)
    expected = quiet(u, e, alpha=0.1)
    rule = quiet(scores, errors.set_axis(order), alpha=0.1)
    assert rule.threshold_ == expected.threshold_
    assert quiet(scores, errors.set_axis(order + 7), alpha=0.1).threshold_ == rule.threshold_
    with pytest.raises(DataError, match=r"errors.loc\[scores.index\]"):
        rule.evaluate(scores[::-1], errors.set_axis(order))
    assert (rule.predict(scores, check=False) == rule.predict(u, check=False)).all()
    with pytest.raises(DataError, match=r"scores\[1\] is nan"):
        quiet(pd.Series([0.1, None], dtype="Float64"), [0, 1], alpha=0.1)


def test_before_fit():
    for call in ("predict", "select", "shift"):
        with pytest.raises(NotFittedError, match="fit"):
            getattr(SelectiveThreshold(alpha=0.1), call)([0.1])


@pytest.mark.parametrize(
    ("u", "e", "more", "message"),
    [
        (U, E, {}, "fewer than 22"),
        (np.full(30, 0.5), np.zeros(30), {}, "All 30 scores are 0.5"),
        (np.arange(60.0), np.arange(60) < 20, {}, "higher_is_surer"),
        (
            np.repeat(np.random.default_rng(0).uniform(size=60), 2),
            np.zeros(120),
            {},
            "60 cases repeat",
        ),
        (np.arange(30.0), np.zeros(30), {"case_ids": [*range(29), 3]}, "for instance 3"),
        (
            np.arange(30.0),
            np.zeros(30),
            {"case_ids": [None, 1, 1, *"a" * 27]},
            "2 cases stand more than once.*instance 1",
        ),
        (np.arange(30.0), np.zeros(30), {"unlabeled_scores": [1.0]}, "few for alpha"),
    ],
)
def test_warnings(u, e, more, message):
    with pytest.warns(ForetellWarning, match=message):
        SelectiveThreshold(alpha=0.1).fit(u, e, **more)


def test_repeated_cases_are_warned_about_once():
    u = np.repeat(np.random.default_rng(0).uniform(size=60), 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SelectiveThreshold(alpha=0.1).fit(u, np.zeros(120), case_ids=np.arange(120) // 2)
    assert [str(w.message)[:8] for w in caught] == ["60 cases"]
    SelectiveThreshold(alpha=0.1).fit(u, np.zeros(120), case_ids=np.arange(120))  # no warning


def test_unlabelled_scores_of_another_law_are_warned_about_and_advice_is_about_them():
    u, e = sample(500)
    with pytest.warns(ForetellWarning, match="400 unlabeled_scores are distributed differently"):
        rule = SelectiveThreshold(alpha=0.1).fit(u, e, unlabeled_scores=0.9 + u[:400] / 10)
    assert rule.threshold_ is None
    assert rule.certificate_.needed_n is None
    said = str(rule.certificate_)
    assert "violated: the 400 unlabelled scores are distributed differently" in said
    assert "calibrate on labelled cases like them" in said
    for contradiction in ("of this kind", "would be enough, if", "better score or model"):
        assert contradiction not in said
    with pytest.warns(ForetellWarning, match="distributed differently"):
        accepting = SelectiveThreshold(alpha=0.3).fit(u, e, unlabeled_scores=u[:400] / 10)
    assert accepting.n_accepted_ == 400
    assert "The statement does not cover these cases" in str(accepting.certificate_)
    same = quiet(u, np.arange(500) % 2, u[:400], alpha=0.1)
    assert "accepts 20 or more of the 400 unlabelled cases is about 0.4" in str(same.certificate_)
    with pytest.raises(DataError, match=r"400 unlabeled_scores look like .* turned around"):
        SelectiveThreshold(alpha=0.1).fit(u**3, e, unlabeled_scores=1 - u[:400] ** 3)


@pytest.mark.parametrize("guarantee", ["fdr", "pac", "any", "plugin", "plugin_corrected"])
def test_advice_is_never_that_fewer_cases_would_do(guarantee):
    order = guarantee != "any"
    for n, p in ((30, 0.02), (300, 0.085), (3000, 0.096), (900, 0.11)):
        rng = np.random.default_rng(n)
        u, e = rng.uniform(size=n), np.zeros(n)
        e[rng.permutation(n)[: round(p * n)]] = 1
        rule = quiet(
            u, e, rng.uniform(size=500) if guarantee == "fdr" else None, alpha=0.1,
            guarantee="pac" if guarantee == "any" else guarantee, assume_monotone=order,
            min_retention=0.9,
        )  # fmt: skip
        if rule.threshold_ is None:
            needed, said = rule.certificate_.needed_n, str(rule.certificate_)
            assert (needed is None) == ("would not be enough" in said)
            assert needed is None or needed > n
            lowest = said.partition("lowest share")[2].partition(" about ")[2].partition(",")[0]
            assert needed is not None or float(lowest) >= 0.0999


def test_a_rate_equal_to_the_level_up_to_rounding_is_no_crash():
    rule = quiet(np.arange(10.0), [1, 0, 0] + 7 * [0.0], alpha=0.1 * 3 / 3 + 1e-17, min_retention=1)
    assert rule.certificate_.needed_n is None


def test_a_rule_warns_on_its_own_calibration_and_on_shifted_scores():
    u, e = sample()
    rule = SelectiveThreshold(alpha=0.1).fit(u, e)
    with pytest.warns(ForetellWarning, match="chosen on"):
        rule.predict(u)
    with pytest.warns(ForetellWarning, match="does not hold for these cases"):
        rule.predict(u[:300] ** 0.3)
    rule.predict(sample(300, seed=1)[0])  # no warning
    tally = rule.profile_.tally()
    for part in np.array_split(u, 7):
        tally.update(part)
    assert tally.result() == rule.shift(u)


@pytest.mark.parametrize("turn", [lambda u: -u, lambda u: 1 - u], ids=["minus", "one-minus"])
def test_scores_of_the_other_direction_are_noticed_and_refused(turn):
    u, e = sample()
    rule = SelectiveThreshold(alpha=0.1).fit(u**3, e)
    with pytest.raises(DataError, match=r"turned around.*1 - scores"):
        rule.predict(turn(sample(200, seed=1)[0] ** 3))


def test_performance_on_labelled_cases():
    u, e = sample()
    rule = SelectiveThreshold(alpha=0.1).fit(u, e)
    u, e = sample(1000, seed=1)
    found, accepted = rule.evaluate(u, e), rule.predict(u)
    assert found.n_accepted == accepted.sum()
    assert found.risk == pytest.approx(e[accepted].mean())
    assert found.power == pytest.approx((accepted & (e == 0)).mean())
    low, high = found.risk_interval
    assert low < found.risk < high
    assert quiet(U, np.ones(10), alpha=0.1).evaluate(U[:3], E[:3]).risk_interval == (0, 1)


# Rules in files ------------------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", ["plugin", "marginal", "pac", "any", "fdr"])
def test_a_rule_comes_back_as_it_was(guarantee, tmp_path):
    u, e = sample()
    pool = sample(300, seed=1)[0]
    settings = {"guarantee": guarantee, "alpha": 0.3}
    if guarantee == "any":
        settings |= {"guarantee": "pac", "assume_monotone": False, "alpha": 0.9}
    score = ScoreIdentity("entropy", "2", fingerprint="abc")
    rule = quiet(u, e, pool if guarantee == "fdr" else None, score=score, **settings)
    rule.save(tmp_path / "rule.json")
    again = SelectiveThreshold.load(tmp_path / "rule.json")
    assert again.certificate_ == rule.certificate_
    assert again.to_dict() == rule.to_dict()
    assert again.identity_ == score
    assert json.loads((tmp_path / "rule.json").read_text())["score"]["hash"] == score.hash
    assert (again.predict(pool) == rule.predict(pool)).all()
    if guarantee == "fdr":
        assert (again.select(pool) == rule.select(pool)).all()
    else:
        with pytest.raises(ParameterError, match="guarantee='fdr'"):
            again.select(pool)


def test_nothing_accepted_comes_back_too():
    rule = quiet(U, np.ones(10), alpha=0.1)
    assert SelectiveThreshold.from_dict(rule.to_dict()).threshold_ is None


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (ScoreIdentity("perplexity", "2"), "name 'entropy'.*'perplexity'"),
        ("perplexity@2", "name 'entropy'.*'perplexity'"),
        ("entropy", "version '2' of 'entropy'.*do not say.*'entropy@2'"),
        ("entropy@3", "version '2'.*'3'"),
        (ScoreIdentity("entropy", "3"), "version '2'.*'3'.*calibrate again"),
        (ScoreIdentity("entropy", "2", "higher_is_surer"), "lower = surer.*-scores"),
        (ScoreIdentity("entropy", "2", fingerprint="x"), "fingerprint"),
    ],
)
def test_another_score_is_refused_with_the_fix(other, message):
    rule = quiet(*sample(), alpha=0.1, score=ScoreIdentity("entropy", "2"))
    assert rule.predict([0.1], score="entropy@2").all()
    with pytest.raises(ParameterError, match=message):
        rule.predict([0.1], score=other)


def test_a_fingerprint_is_asked_for():
    score = ScoreIdentity("entropy", "2", fingerprint="abc")
    rule = quiet(*sample(), alpha=0.1, score=score)
    assert rule.predict([0.1], score=score).all()
    with pytest.raises(ParameterError, match=r"do not say theirs.*give ScoreIdentity\(.*'abc'\)"):
        rule.predict([0.1], score="entropy@2")
    with pytest.raises(ParameterError, match=r"fingerprint 'abc'.*fingerprint 'x'"):
        rule.predict([0.1], score=ScoreIdentity("entropy", "2", fingerprint="x"))


def test_changed_newer_and_foreign_files_are_refused(tmp_path):
    content = quiet(*sample(), alpha=0.1).to_dict()
    for change, message in (
        ({"threshold": 0.99}, "changed after it was calibrated"),
        ({"schema": 2}, "Update foretell"),
        ({"format": "other"}, "not a rule"),
    ):
        with pytest.raises(ArtifactError, match=message):
            SelectiveThreshold.from_dict({**content, **change})
    path = tmp_path / "rule.json"
    with pytest.raises(ArtifactError, match="cannot be read"):
        SelectiveThreshold.load(path)
    path.write_text("threshold: 3")
    with pytest.raises(ArtifactError, match="not a JSON file"):
        SelectiveThreshold.load(path)
    with pytest.raises(ArtifactError, match="not a certificate"):
        Certificate.from_dict({"kind": "pac"})


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.pop("threshold"),
        lambda c: c["parameters"].update(newer=1),
        lambda c: c["parameters"].update(alpha="x"),
        lambda c: c["results"].update(predict=1),
        lambda c: c.update(results=[]),
        lambda c: c.update(score=[]),
        lambda c: c["score"].update(hash="0"),
        lambda c: c.update(profile={}),
        lambda c: c.update(retention_interval=[1]),
    ],
)
def test_damage_under_a_checksum_that_fits_is_refused_too(change):
    content = quiet(*sample(), alpha=0.1).to_dict()
    content.pop("sha256")
    change(content)
    text = json.dumps(content, sort_keys=True)
    signed = {**content, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    with pytest.raises(ArtifactError, match=r"(?i)calibrate again"):
        SelectiveThreshold.from_dict(signed)


def test_certificates_are_complete():
    u, e = sample(2000)
    for guarantee in ("fdr", "pac", "marginal", "plugin", "plugin_corrected"):
        pool = u if guarantee == "fdr" else None
        c = quiet(u, e, pool, alpha=0.1, guarantee=guarantee).certificate_
        assert c.statement.endswith(".")
        assert c.statement.count(". ") == 0
        assert "0.1" in c.statement
        assert c.n == 2000
        assert c.level == 0.1
        assert (c.confidence == 0.9) == (guarantee == "pac")
        assert c.assumptions
        assert c.abstentions
        assert Certificate.from_dict(json.loads(json.dumps(c.to_dict()))) == c
        assert "independent draws" in str(c) or "exchangeable" in str(c)


def test_errors_from_answers():
    assert as_errors([1, 2], [1, 3]).tolist() == [0, 1]
    with pytest.raises(DataError, match="must agree"):
        as_errors([1], [1, 2])
