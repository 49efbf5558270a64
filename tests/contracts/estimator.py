"""What every scikit-learn style estimator promises, as a test class to inherit:

    class TestMine(EstimatorContract):
        def new(self):
            return [Mine(...), Mine(other arguments)]

All checks of scikit-learn must pass; none is expected to fail. Warnings that a tiny calibration
sample can accept nothing are silenced: the checks fit on a handful of rows.
"""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator


class EstimatorContract:
    """Inherit and give instances."""

    def new(self) -> list[Any]:
        raise NotImplementedError

    @pytest.mark.filterwarnings("ignore::foretell.core.ForetellWarning")
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.EstimatorCheckFailedWarning")
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
    def test_all_checks_of_scikit_learn_pass(self) -> None:
        for estimator in self.new():
            results = check_estimator(estimator, on_fail=None, on_skip=None)
            failed = [
                (result["check_name"], repr(result["exception"]))
                for result in results
                if result["status"] not in ("passed", "skipped")
            ]
            assert not failed
            assert sum(result["status"] == "passed" for result in results) >= 35

    def test_arguments_are_stored_and_cloned(self) -> None:
        for estimator in self.new():
            parameters = clone(estimator).get_params(deep=False)
            assert parameters.keys() == estimator.get_params(deep=False).keys()
            assert clone(estimator) is not estimator

    def test_a_clone_is_not_fitted_and_pickles(self) -> None:
        for estimator in self.new():
            copy = pickle.loads(pickle.dumps(clone(estimator)))
            assert repr(copy) == repr(estimator)
            assert not any(np.char.endswith(list(vars(copy)), "_"))
