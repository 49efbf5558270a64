"""Objects with the manners of scikit-learn are taken by it, and do not load it."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags

from foretell.core.estimator import Estimator, unfitted
from foretell.trust import ExcitationModel, ExposureRegulator


class Inner(Estimator):
    def __init__(self, *, rate: float = 0.1, steps: list | None = None) -> None:
        self.rate, self.steps = rate, steps


class Outer(Estimator):
    def __init__(self, *, inner: Inner | None = None, weights: np.ndarray | None = None) -> None:
        self.inner, self.weights = inner, weights


def test_arguments_of_arguments() -> None:
    outer = Outer(inner=Inner(rate=0.2))
    assert outer.get_params() == {
        "inner": outer.inner, "inner__rate": 0.2, "inner__steps": None, "weights": None,
    }  # fmt: skip
    assert outer.set_params(inner__rate=0.3, weights=np.ones(1000)).inner.rate == 0.3
    assert len(repr(outer)) < 300
    assert repr(outer).startswith("Outer(inner=Inner(rate=0.3), weights=array([1.")
    with pytest.raises(ValueError, match="Outer has no argument 'wieghts'; it has inner, weights"):
        outer.set_params(wieghts=None)


@pytest.mark.parametrize("copied", [clone, unfitted])
def test_a_copy_has_its_own_arguments(copied) -> None:  # type: ignore[no-untyped-def]
    outer = Outer(inner=Inner(steps=[1, 2]), weights=np.arange(3))
    other = copied(outer)
    other.inner.steps.append(3)
    assert outer.inner.steps == [1, 2]
    assert repr(other.set_params(inner__steps=[1, 2])) == repr(outer)


def test_scikit_learn_takes_them() -> None:
    regulator = ExposureRegulator(ExcitationModel(), mode="dual")
    assert clone(regulator).model is not regulator.model
    assert get_tags(regulator).estimator_type is None
    for params in ParameterGrid({"mode": ["dual", "barrier"]}):
        assert clone(regulator).set_params(**params).mode == params["mode"]


def test_a_forecast_and_a_rule_do_without_scikit_learn() -> None:
    """It and what it loads are slower to import than all else together."""
    code = (
        "import sys\nfrom foretell import CPLRNN\nfrom foretell.trust import SelectiveThreshold\n"
        "from foretell.app import command_trust_apply\nprint(CPLRNN(latent_dim=3))\n"
        "print(sorted({'sklearn', 'scipy.stats', 'pandas', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["CPLRNN(latent_dim=3)", "[]"]
