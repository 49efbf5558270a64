"""`CascadeRouter`: routes, certificates, lazy answers, bad input; curves and pictures."""

import warnings

import numpy as np
import pytest

from foretell.core import DataError, ForetellWarning, NotFittedError, ParameterError
from foretell.trust import (
    CascadeRouter,
    SelectiveThreshold,
    certificate_table,
    plot_risk_coverage,
    plot_routes,
    risk_coverage_curve,
)
from foretell.trust.selective.errorcurve import ErrorCurve


def system(n, seed=0, models=(0.6, 0.4, 0.2)):
    rng = np.random.default_rng(seed)
    difficulty = rng.uniform(size=(n, 1))
    wrong = (rng.uniform(size=(n, len(models))) < difficulty * np.array(models)).astype(int)
    return difficulty + rng.normal(0, 0.1, size=(n, len(models))), wrong


@pytest.fixture(scope="module")
def router():
    u, e = system(3000)
    return (
        CascadeRouter(alpha=0.1, costs=[1, 5, 30], tolerance=0.1)
        .fit_path(u, e)
        .fit(*system(2000, 1))
    )


def test_a_route_ends_where_the_model_is_sure_enough(router):
    u, e = system(4000, 2)
    routes = router.route(u)
    p = np.column_stack([curve(u[:, k]) for k, curve in enumerate(router.curves_)])
    for row, model in zip(p, routes.model, strict=True):
        assert all(row[k] > router.stop_at_[k] for k in range(model))
        assert model == 2 or row[model] <= router.stop_at_[model]
    assert (routes.cost == np.array([1, 6, 36])[routes.model]).all()
    assert routes.accepted.any()
    assert e[np.arange(4000), routes.model][routes.accepted].mean() < 0.1
    assert router.certificate_.kind == "pac"
    assert "Routes(4000 cases" in repr(routes)


def test_answering_asks_no_further_than_needed(router):
    u, _ = system(300, 3)
    routes = router.route(u)
    for i in range(40):
        asked = []

        def model(k, i=i, asked=asked):
            return lambda case: asked.append(k) or (f"{case}/{k}", u[i, k])

        answer, decision = router.answer("case", [model(k) for k in range(3)])
        assert asked == list(range(routes.model[i] + 1))
        assert decision.route == routes.model[i]
        assert decision.accepted == routes.accepted[i]
        assert answer == (f"case/{routes.model[i]}" if decision.accepted else None)


def test_joint_mode_is_called_empirical():
    u, e = system(1500)
    router = CascadeRouter(alpha=0.1, mode="joint").fit(u, e)
    assert router.mode_ == "joint"
    assert router.certificate_.kind == "empirical"
    assert "nothing is guaranteed" in router.certificate_.statement
    routes = router.route(u)
    errors = e[np.arange(1500), routes.model][routes.accepted].sum()
    assert errors + 1 <= 0.1 * routes.accepted.sum() + 1e-9
    with pytest.raises(ParameterError, match="mode='path'"):
        router.answer("case", [])
    nothing = CascadeRouter(alpha=0.1, mode="joint").fit(u, np.ones_like(e))
    assert not nothing.certificate_.feasible
    assert not nothing.route(u).accepted.any()


def test_routes_with_a_pool():
    u, e = system(1000)
    router = CascadeRouter(alpha=0.1, stop_at=[0.05]).fit_path(u[:500, :2], e[:500, :2])
    router.fit(u[500:, :2], e[500:, :2], unlabeled_scores=system(800, 4)[0][:, :2])
    assert router.stop_at_ == (0.05,)
    assert router.certificate_.kind == "fdr"


def test_unusable_systems(router):
    u, e = system(200)
    new = CascadeRouter(alpha=0.1)
    with pytest.raises(NotFittedError, match="fit_path"):
        new.fit(u, e)
    with pytest.raises(NotFittedError, match="fit"):
        new.route(u)
    new.fit_path(u, e)
    with pytest.raises(DataError, match="cases that the route was learnt on"):
        new.fit(u, e)
    with pytest.raises(DataError, match="2 models given; the route was learnt for 3"):
        router.route(u[:, :2])
    with pytest.raises(DataError, match="one column per model"):
        new.fit_path(u[:, 0], e[:, 0])
    with pytest.raises(DataError, match="use SelectiveThreshold"):
        new.fit_path(u[:, :1], e[:, :1])
    with pytest.raises(DataError, match=r"shape \(200, 3\) and errors \(200, 2\)"):
        new.fit_path(u, e[:, :2])
    with pytest.raises(DataError, match=r"scores\[:, 1\]\[4\] is nan"):
        new.fit_path(np.where(np.arange(600).reshape(200, 3) == 13, np.nan, u), e)
    for settings, message in (
        ({"costs": [1]}, "3 numbers"),
        ({"mode": "luck"}, "'path' or 'joint'"),
        ({"stop_at": [0.1]}, "needed are 2"),
        ({"alpha": 2}, "alpha=2"),
    ):
        with pytest.raises(ParameterError, match=message):
            CascadeRouter(**{"alpha": 0.1, **settings}).fit_path(u, e)


def test_error_curves_rise_strictly():
    u, e = system(500)
    curve = ErrorCurve.fit(u[:, 0], e[:, 0])
    grid = np.linspace(-1, 2, 400)
    assert (np.diff(curve(grid)) > 0).all()
    assert abs(curve(u[:, 0]).mean() - e[:, 0].mean()) < 0.02
    assert ErrorCurve.fit([0.5, 0.5], [0, 1])([0.5])[0] == pytest.approx(0.5, abs=1e-5)


def test_curves_and_pictures():
    u, e = system(400)
    curve = risk_coverage_curve(u[:, 0], e[:, 0])
    assert curve.coverage[-1] == 1
    assert curve.risk[-1] == pytest.approx(e[:, 0].mean())
    assert 0 < curve.area < e[:, 0].mean()
    turned = risk_coverage_curve(-u[:, 0], e[:, 0], direction="higher_is_surer")
    assert np.array_equal(turned.risk, curve.risk)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForetellWarning)
        rules = {
            "pac": SelectiveThreshold(alpha=0.3).fit(u[:, 0], e[:, 0]),
            "none": SelectiveThreshold(alpha=0.001).fit(u[:, 0], e[:, 0]),
        }
    ax = plot_risk_coverage(curve, rules)
    labels = ax.get_legend_handles_labels()[1]
    assert labels[0] == "on this sample"
    assert "none: nothing accepted" in labels
    assert (
        plot_routes([0.6, 0.4], [0.5, 0.1], ["small", "large"]).texts[0].get_text() == "small\n60%"
    )
    table = certificate_table({k: r.certificate_ for k, r in rules.items()})
    assert table.count("\n") == 3
