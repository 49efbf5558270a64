"""`SelectiveEstimator` as scikit-learn sees it, and as a user does."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_digits, make_classification
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    BayesianRidge,
    LinearRegression,
    LogisticRegression,
    RidgeClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from foretell.core import DataError, ForetellWarning, ParameterError
from foretell.trust import SelectiveEstimator
from tests.contracts.estimator import EstimatorContract

DIGITS = load_digits(return_X_y=True)


class TestSelectiveEstimator(EstimatorContract):
    def new(self):
        return [
            SelectiveEstimator(LogisticRegression(max_iter=300), alpha=0.2),
            SelectiveEstimator(LinearRegression(), alpha=0.2),
        ]


def test_withheld_answers_carry_the_abstain_value():
    X, y = DIGITS
    model = SelectiveEstimator(GaussianNB(), alpha=0.1, abstain_value=-1, random_state=0)
    model.fit(X[:1200], y[:1200])
    answers, accepted = model.predict(X[1200:]), model.accept(X[1200:])
    assert 0 < accepted.sum() < accepted.size
    assert ((answers == -1) == ~accepted).all()
    assert model.score(X[1200:], y[1200:]) == np.mean(answers == y[1200:])
    decisions = model.decide(X[1200:1203])
    assert [d.accepted for d in decisions] == accepted[:3].tolist()
    assert decisions[0].certificate is model.certificate_


def test_grid_search_over_a_pipeline_around_and_inside():
    X, y = make_classification(600, random_state=0)
    inside = SelectiveEstimator(
        make_pipeline(StandardScaler(), LogisticRegression()),
        alpha=0.2,
        abstain_value=-1,
        random_state=0,
    )
    search = GridSearchCV(inside, {"estimator__logisticregression__C": [1e-4, 1.0]}, cv=3)
    assert search.fit(X, y).best_score_ > 0.5
    around = make_pipeline(StandardScaler(), SelectiveEstimator(GaussianNB(), alpha=0.2))
    assert around.fit(X, y).score(X, y) > 0.8


def test_text_goes_through_a_pipeline():
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(30)])
    y = rng.integers(2, size=300)
    X = [" ".join(rng.choice(words[10 * label : 10 * label + 20], 12)) for label in y]
    model = SelectiveEstimator(
        make_pipeline(TfidfVectorizer(), LogisticRegression()), alpha=0.1, random_state=0
    ).fit(X, y)
    assert model.accept(X).mean() > 0.5


@pytest.mark.parametrize("uncertainty", ["auto", "std", lambda model, X: model.predict(X)])
def test_regressors_count_errors_beyond_the_tolerance(uncertainty):
    X, y = load_diabetes(return_X_y=True)
    model = SelectiveEstimator(
        BayesianRidge(), alpha=0.5, tolerance=60.0, uncertainty=uncertainty,
        abstain_value=np.nan, random_state=0,
    ).fit(X, y)  # fmt: skip
    answers = model.predict(X)
    assert (np.isnan(answers) == ~model.accept(X)).all()
    assert model.tolerance_ == 60.0
    assert model.accept(X).any()


def test_margins_serve_where_there_are_no_probabilities():
    X, y = DIGITS
    model = SelectiveEstimator(RidgeClassifier(), alpha=0.1, random_state=0).fit(X, y)
    assert model.score_name_ == "margin"
    assert not hasattr(model, "predict_proba")
    assert model.accept(X).any()


def test_a_frozen_model_is_not_trained_again():
    X, y = DIGITS
    fitted = GaussianNB().fit(X[:800], y[:800])
    model = SelectiveEstimator(FrozenEstimator(fitted), alpha=0.2).fit(X[800:], y[800:])
    assert model.certificate_.n == y.size - 800
    assert np.array_equal(model.predict(X), fitted.predict(X))


def test_the_rule_of_one_fit_is_refused_for_the_scores_of_another():
    X, y = DIGITS
    pipelines = (make_pipeline(StandardScaler(), GaussianNB()), make_pipeline(GaussianNB()))
    one, other = (
        SelectiveEstimator(model, alpha=0.2, random_state=0).fit(X, y).rule_ for model in pipelines
    )
    assert one.predict([0.0], score=one.identity_).all()
    with pytest.raises(ParameterError, match="fingerprint"):
        one.predict([0.0], score=other.identity_)


def test_batches_with_unlabelled_rows():
    X, y = DIGITS
    model = SelectiveEstimator(GaussianNB(), alpha=0.1, random_state=0)
    model.fit(X[:1200], y[:1200], X_unlabeled=X[1200:])
    assert model.certificate_.kind == "fdr"
    assert model.select(X[1200:]).sum() == model.rule_.n_accepted_


def test_shifted_rows_are_told_apart():
    X, y = DIGITS
    model = SelectiveEstimator(GaussianNB(), alpha=0.1, random_state=0).fit(X[:1200], y[:1200])
    with pytest.warns(
        ForetellWarning, match="certificate assumes that both come from one law"
    ) as w:
        model.accept(X[1200:, ::-1])
    assert w[0].filename == __file__  # the line of the user, not one of the library


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"calibration_size": 1.0}, ParameterError, "calibration_size=1.0"),
        ({"tolerance": -1.0}, ParameterError, "tolerance=-1.0"),
        ({"uncertainty": "luck"}, ParameterError, "max_proba"),
        ({"uncertainty": "margin"}, ParameterError, "decision_function"),
        ({"uncertainty": lambda model, X: 0.0}, DataError, "one number per row"),
        ({"abstain_value": 3}, ParameterError, "one of the classes"),
        ({"alpha": 1.5}, ParameterError, "alpha=1.5"),
        ({"estimator": StandardScaler()}, ParameterError, "neither a classifier"),
    ],
)
def test_impossible_arguments(settings, error, message):
    X, y = DIGITS
    given = {"estimator": GaussianNB(), "alpha": 0.1, **settings}
    with pytest.raises(error, match=message):
        SelectiveEstimator(given.pop("estimator"), **given).fit(X[:300], y[:300])
