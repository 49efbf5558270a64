"""`ConvexReLUClassifier` and `ConvexReLURegressor` as scikit-learn and as a user sees them."""

import json
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from foretell.converse.language import ConvexReLUClassifier, ConvexReLURegressor
from foretell.core import (
    Artifact,
    ArtifactError,
    DataError,
    ForetellWarning,
    NotFittedError,
    ParameterError,
)
from tests.contracts.estimator import EstimatorContract

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]


def classifier(**changes):
    return ConvexReLUClassifier(**{"n_gates": 12, "tol": 0.01, "random_state": 0, **changes})


@pytest.fixture(scope="module")
def fitted():
    return classifier().fit(X[::2], NAMES[::2])


class TestConvexReLUClassifier(EstimatorContract):
    def new(self):
        return [
            ConvexReLUClassifier(n_gates=10, max_iter=80),
            ConvexReLUClassifier(n_gates=16, max_iter=120, loss="logistic", calibrate=False),
        ]


class TestConvexReLURegressor(EstimatorContract):
    def new(self):
        return [ConvexReLURegressor(n_gates=8, max_iter=80)]


def test_probabilities_scores_and_answers_agree(fitted):
    proba, scores = fitted.predict_proba(X), fitted.decision_function(X)
    assert np.allclose(proba.sum(axis=1), 1.0)
    assert (fitted.classes_[proba.argmax(axis=1)] == fitted.predict(X)).all()
    assert (scores.argmax(axis=1) == proba.argmax(axis=1)).all()
    assert fitted.score(X[1::2], NAMES[1::2]) > 0.9
    assert fitted.lipschitz_.shape == (3,)


def test_held_out_temperature_is_less_sure_than_that_of_the_training_rows():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(120, 60))
    labels = (rows[:, 0] + 1.0 * rng.normal(size=120) > 0).astype(int)
    new = rng.normal(size=(2000, 60))
    truth = (new[:, 0] + 1.0 * rng.normal(size=2000) > 0).astype(int)

    def loss(model):
        p = model.fit(rows, labels).predict_proba(new)
        return -np.log(p[np.arange(2000), truth]).mean()

    assert loss(classifier()) < loss(classifier(calibrate=False)) - 0.02


def test_held_out_rows_are_whole_groups():
    groups = np.arange(75) % 15
    model = classifier().fit(X[::2], NAMES[::2], groups=groups)
    assert model.temperature_ > 0
    one_each = classifier().fit(X[::2], NAMES[::2], groups=Y[::2])  # no group can be held out
    assert one_each.temperature_ == classifier(calibrate=False).fit(X[::2], NAMES[::2]).temperature_


def test_logistic_and_squared_loss_find_the_same_classes():
    one, other = (
        classifier(loss=loss, calibrate=False, tol=0.05).fit(X, NAMES)
        for loss in ("squared", "logistic")
    )
    assert np.mean(one.predict(X) == other.predict(X)) > 0.95
    assert other.score(X, NAMES) > 0.95


def test_a_path_falls_in_objective_and_gains_neurons():
    path = classifier(tol=0.05).regularization_path(X, NAMES)
    assert len(path.models) == 10
    assert list(path.betas) == sorted(path.betas, reverse=True)
    assert path.n_neurons[0] < path.n_neurons[-1]
    assert path.objectives[-1] < path.objectives[0]
    assert path.models[-1].score(X, NAMES) > path.models[0].score(X, NAMES) - 0.01
    assert path.models[3].beta_ == path.betas[3]
    assert "10 models" in repr(path)
    single = ConvexReLURegressor(n_gates=8, tol=0.01, random_state=0)
    assert len(single.regularization_path(X, X[:, 0] ** 2, betas=[5.0, 1.0]).models) == 2
    with pytest.raises(ParameterError, match="betas"):
        classifier().regularization_path(X, NAMES, betas=[0.0])


def test_the_regressor_follows_a_bend_and_several_targets():
    rows = np.random.default_rng(0).normal(size=(150, 3))
    targets = np.column_stack([np.abs(rows[:, 0]), 100.0 + 10.0 * rows[:, 1]])
    model = ConvexReLURegressor(n_gates=16, beta=1.0, tol=0.02, random_state=0)
    both = model.fit(rows, targets)
    assert both.predict(rows).shape == (150, 2)
    assert both.score(rows, targets) > 0.9
    assert model.fit(rows, targets[:, 0]).predict(rows).shape == (150,)


def test_it_searches_and_pipes():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), classifier(max_iter=60, calibrate=False, tol=0.1)),
        {"convexreluclassifier__beta": [1.0, 10.0]},
        cv=2,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForetellWarning)
        assert search.fit(X, NAMES).best_score_ > 0.8


# Certificates -----------------------------------------------------------------------------------


def test_bounds_are_ordered_and_units_convert(fitted):
    total, pairwise, spectral = (
        fitted.certified_radius(X, bound) for bound in ("total", "pairwise", "spectral")
    )
    assert (pairwise >= 2 * total * (1 - 1e-12)).all()
    assert (spectral >= pairwise * (1 - 1e-12)).all()
    scaled = fitted.certified_radius(X, "total", units="scaled")
    widest = 2 * X[::2].std(axis=0)  # sqrt(4 columns) deviations
    assert (total >= scaled * widest.min() * (1 - 1e-9)).all()
    assert (total <= scaled * widest.max() * (1 + 1e-9)).all()


def test_certified_accuracy_falls_with_the_distance(fitted):
    share = fitted.certified_accuracy(X, NAMES, [0.0, 0.05, 0.1, 1e9])
    assert share[0] == fitted.score(X, NAMES)
    assert (np.diff(share) <= 0).all()
    assert share[-1] == 0.0


# Folders and export -----------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [NAMES, Y, Y.astype(float), Y > 0, NAMES.astype(object)])
def test_a_saved_model_gives_the_same_bits(tmp_path, labels):
    model = classifier(calibrate=False).fit(X, labels)
    again = ConvexReLUClassifier.load(model.save(tmp_path / "model"))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert np.array_equal(again.certified_radius(X), model.certified_radius(X))
    assert again.get_params() == model.get_params()


def test_a_saved_regressor_gives_the_same_bits_and_no_rows(tmp_path):
    model = ConvexReLURegressor(n_gates=8, tol=0.01, random_state=0).fit(X, X[:, 0])
    path = model.save(tmp_path / "model")
    assert np.array_equal(ConvexReLURegressor.load(path).predict(X), model.predict(X))
    arrays = Artifact.open(path, classes=["ConvexReLURegressor"]).arrays
    assert all(len(X) not in array.shape for array in arrays.values())


def test_damaged_folders_are_refused(tmp_path, fitted):
    path = fitted.save(tmp_path / "model")
    with pytest.raises(ArtifactError, match="ConvexReLURegressor"):
        ConvexReLURegressor.load(path)
    content = json.loads((path / "model.json").read_text())
    content["fields"]["classes"] = ["a", "b"]  # fewer names than outputs
    (path / "model.json").write_text(json.dumps(content))
    with pytest.raises(ArtifactError, match="2 class names for 3 outputs"):
        ConvexReLUClassifier.load(path)
    del content["fields"]["n_outputs"]
    (path / "model.json").write_text(json.dumps(content))
    with pytest.raises(ArtifactError, match="n_outputs"):
        ConvexReLUClassifier.load(path)


def test_the_exported_network_is_the_same_function(fitted):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    network = fitted.to_relu_network(dtype=torch.float64)
    assert [type(part).__name__ for part in network] == ["Linear", "ReLU", "Linear"]
    out = network(torch.from_numpy(X)).detach().numpy()
    assert np.allclose(out, fitted.decision_function(X), atol=1e-10)
    model = ConvexReLURegressor(n_gates=8, tol=0.01, random_state=0).fit(X, X[:, :2] * 3 + 50)
    out = model.to_relu_network(dtype=torch.float64)(torch.from_numpy(X)).detach().numpy()
    assert np.allclose(out, model.predict(X), atol=1e-9)


# Refusals ---------------------------------------------------------------------------------------


def _with(value):
    bad = X.copy()
    bad[7, 2] = value
    return bad


@pytest.mark.parametrize(
    ("rows", "labels", "more", "message"),
    [
        (_with(np.nan), NAMES, {}, r"(?s)NaN.*row 7, column 2"),
        (_with(np.inf), NAMES, {}, r"(?s)inf.*row 7, column 2"),
        (X, np.full(150, "a"), {}, "1 class only"),
        (X, NAMES[:100], {}, r"(?s)150.*100"),
        (X, NAMES, {"groups": np.arange(149)}, r"(?s)groups.*149.*150"),
        (X, NAMES, {"sample_weight": np.full(150, -1.0)}, "negative"),
        (X, NAMES, {"sample_weight": np.zeros(150)}, "zero"),
        (X, None, {}, "y is None"),
        (X[:1], NAMES[:1], {}, "1 class only"),
    ],
)
def test_unusable_rows(rows, labels, more, message):
    with pytest.raises(DataError, match=message):
        classifier().fit(rows, labels, **more)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beta": 0.0}, "beta=0.0"),
        ({"beta": -1.0}, "beta=-1.0"),
        ({"beta": "much"}, "beta='much'"),
        ({"rho": 0}, "rho=0"),
        ({"tol": 0.0}, "tol=0.0"),
        ({"n_gates": 0}, "n_gates=0"),
        ({"max_iter": 1.5}, "max_iter=1.5"),
        ({"loss": "hinge"}, "loss='hinge'"),
        ({"solver": "magic"}, "solver='magic'"),
        ({"random_state": -1}, "random_state=-1"),
    ],
)
def test_impossible_arguments(changes, message):
    with pytest.raises(ParameterError, match=message):
        classifier(**changes).fit(X, NAMES)


def test_a_row_of_another_width_or_an_unseen_label(fitted):
    with pytest.raises(DataError, match=r"(?s)3.*4|4.*3"):
        fitted.predict(X[:, :3])
    with pytest.raises(DataError, match=r"never saw.*rose"):
        fitted.certified_accuracy(X[:2], ["setosa", "rose"], [0.1])
    with pytest.raises(DataError, match=r"(?s)2.*150|150.*2"):
        fitted.certified_accuracy(X, ["setosa", "setosa"], [0.1])
    with pytest.raises(ParameterError, match="bound='best'"):
        fitted.certified_radius(X, "best")
    with pytest.raises(ParameterError, match="units='metre'"):
        fitted.certified_radius(X, units="metre")


def test_constant_columns_are_left_out_with_a_warning():
    wider = np.column_stack([X, np.full(150, 7.0)])
    with pytest.warns(ForetellWarning, match="1 of 5 columns of X are constant.*: 4"):
        model = classifier().fit(wider, NAMES)
    assert np.array_equal(model.predict(wider), classifier().fit(X, NAMES).predict(X))
    with pytest.raises(DataError, match="constant"):
        classifier(fit_intercept=False).fit(np.ones((6, 2)), [0, 1] * 3)


def test_a_threshold_that_leaves_nothing_is_pointed_out():
    with pytest.warns(ForetellWarning, match="All weights are zero.*beta below"):
        classifier(beta=1e6).fit(X, NAMES)
    with pytest.warns(ForetellWarning, match=r"All weights are zero.*rho=0\.0001"):
        classifier(beta=1.0, rho=1e-4, max_iter=6).fit(X, NAMES)


def test_an_early_stop_is_pointed_out_with_its_gap():
    with pytest.warns(ForetellWarning, match=r"After 25 iterations .* raise max_iter"):
        model = classifier(max_iter=25, tol=1e-6, calibrate=False).fit(X, NAMES)
    assert not model.converged_
    assert model.n_iter_ == 25


def test_nothing_is_said_before_fit(tmp_path):
    with pytest.raises(ValueError, match="fit"):
        classifier().predict(X)
    with pytest.raises(NotFittedError, match="fit"):
        classifier().save(tmp_path / "model")
