"""Koopman models under the contract of learners, on recordings with an even step."""

from typing import Any, ClassVar

import numpy as np
import pytest

from foretell.core import DataError, ForetellWarning, NumericalError, ParameterError
from foretell.data import Trajectories
from foretell.dynamics.koopman import AlternatingKoopman, EDMDc, JointKoopman, KoopmanQP
from tests.contracts import learner
from tests.contracts.bad_input import wave

torch = pytest.importorskip("torch", reason="training an encoder needs torch")

TEACHER_FORCING = frozenset(
    {"latent_dim", "n_relu", "forcing", "forcing_interval", "sequence_length", "horizons"}
    | {"max_updates", "final_lr", "noise", "grad_clip", "time_scale"}
)


def even(n_samples: int = 120, *, seed: int = 0, unit: float = 1.0) -> Trajectories:
    """The recording of the contract with a step of 0.2."""
    t = 0.2 * np.arange(n_samples) + seed
    values = np.column_stack([np.sin(t) + 0.1 * np.sin(3 * t), 5.0 + 3.0 * np.cos(t)])
    return Trajectories.from_arrays(
        values, unit * t, names=("level", "flow"), units=("m", "l/s"), time_unit="s"
    )


class KoopmanContract(learner.LearnerContract):
    settings: ClassVar[dict[str, Any]] = {
        "n_observables": 3,
        "hidden": (8,),
        "horizon": 6,
        "max_steps": 12,
        "batch_size": 8,
        "random_state": 0,
    }
    lacks = TEACHER_FORCING

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _even_recordings(cls):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(learner, "recording", even)
            yield

    @pytest.fixture(scope="class")
    @classmethod
    def fitted(cls, _even_recordings) -> Any:
        return cls.new().fit(even())

    @classmethod
    def n_updates(cls) -> int:
        return int(cls.settings["max_steps"])

    def test_arrays_and_trajectories_are_the_same_thing(self, tmp_path) -> None:
        values, times = wave(), 0.5 * np.arange(120.0)
        one = self.new().fit(values, times)
        two = self.new().fit(Trajectories.from_arrays(values, times))
        assert learner.weights(one, tmp_path) == learner.weights(two, tmp_path)

    def test_missing_cells_are_only_unobserved(self) -> None:
        """They are refused, with the way to fill them."""
        values = wave(150)
        values[40, 1] = np.nan
        mask = np.isfinite(values)
        with pytest.raises(DataError, match=r"row 40.*interpolate"):
            self.new().fit(Trajectories.from_arrays(values, mask=mask))

    def test_a_wide_gap_is_pointed_out(self) -> None:
        """Uneven stamps are refused, a gap among them."""
        times = np.arange(120.0)
        times[60:] += 500.0
        with pytest.raises(DataError, match=r"uneven.*501.*row 59.*interpolate"):
            self.new().fit(wave(), times)

    def test_too_short_a_recording_is_named(self) -> None:
        with pytest.raises(DataError, match=r"5 samples; horizon=6.*need 7"):
            self.new().fit([wave(30), wave(5)])

    def test_whole_numbers_are_pointed_out(self) -> None:
        values = np.round(40 * wave(60)).astype(int)
        for given in (values, [values]):
            with pytest.warns(ForetellWarning, match=r"whole numbers.*astype\(float\)"):
                self.new().fit(given)

    def test_dependent_columns_without_a_ridge_are_refused(self) -> None:
        values = np.column_stack([wave(60)[:, 0], wave(60)[:, 0]])
        with pytest.raises(NumericalError, match="ridge=1e-6"):
            self.new(ridge=0.0).fit(values)

    def test_a_bad_input_is_named_with_its_row(self) -> None:
        u = np.ones((60, 1))
        u[5] = np.nan
        with pytest.raises(DataError, match=r"control 'u0' is nan at values\[5\]"):
            self.new().fit(Trajectories.from_arrays(wave(60), controls=u))

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"horizon": 1}, "horizon=1"),
            ({"n_delays": -1}, "n_delays"),
            ({"ridge": -1.0}, "ridge"),
            ({"input": "cubic"}, "bilinear"),
            ({"validation": 1.0}, "validation"),
            ({"random_state": -1}, "random_state"),
        ],
        ids=str,
    )
    def test_bad_parameters_of_koopman_models(self, changes, message: str) -> None:
        with pytest.raises(ParameterError, match=message):
            self.new(**changes).fit(even())


class TestKoopmanQP(KoopmanContract):
    make = KoopmanQP
    settings: ClassVar[dict[str, Any]] = {
        **KoopmanContract.settings, "constraint": "gauss_newton",
    }  # fmt: skip

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"constraint": "hard"}, "gauss_newton"),
            ({"slack_penalty": 0.0}, "slack_penalty"),
            ({"slack_penalty": -1.0}, 'constraint="none"'),
            ({"tolerance_ratio": -0.1}, "tolerance_ratio"),
            ({"damping": -1.0}, "damping"),
            ({"qp_backend": "magic"}, "active_set"),
            ({"n_observables": 0}, "n_observables"),
            ({"hidden": [8, 8]}, "hidden"),
            ({"max_steps": 0}, "max_steps"),
            ({"latent_weight": -1.0}, "latent_weight"),
            ({"stable": "maybe"}, "stable"),
        ],
        ids=str,
    )
    def test_bad_parameters_of_the_program(self, changes, message: str) -> None:
        with pytest.raises(ParameterError, match=message):
            self.new(**changes).fit(even())


class TestJointKoopman(KoopmanContract):
    make = JointKoopman


class TestAlternatingKoopman(KoopmanContract):
    make = AlternatingKoopman


class TestEDMDc(KoopmanContract):
    make = EDMDc
    settings: ClassVar[dict[str, Any]] = {
        "degree": 2, "n_centres": 4, "horizon": 6, "random_state": 0,
    }  # fmt: skip
    lacks = TEACHER_FORCING | {"batch_size", "lr"}

    def test_arguments_are_keyword_only_and_cloned(self) -> None:
        with pytest.raises(TypeError):
            EDMDc(3)
        assert self.new(degree=4).get_params()["degree"] == 4

    def test_progress_is_reported_to_the_end(self) -> None:
        pytest.skip("one regression has no progress")

    def test_interrupt_and_resume_gives_the_uninterrupted_result(self, fitted, tmp_path) -> None:
        pytest.skip("one regression is not interrupted")

    @pytest.mark.parametrize("changes", [{"degree": 0}, {"n_centres": -1}])
    def test_bad_dictionaries(self, changes) -> None:
        with pytest.raises(ParameterError, match="whole numbers"):
            self.new(**changes).fit(even())


def test_the_best_of_several_trainings_is_kept() -> None:
    small: dict[str, Any] = {**KoopmanContract.settings, "constraint": "none"}
    one, three = (KoopmanQP(**small, n_restarts=n).fit(even()) for n in (1, 3))
    assert three.compared_.keys() == {"none"}
    better = three.compared_["none"] < one.compared_["none"]
    assert better or three.compared_ == one.compared_
    assert better == (three.score(even()) != one.score(even()))
    with pytest.raises(ParameterError, match="n_restarts=0"):
        KoopmanQP(**small, n_restarts=0).fit(even())
