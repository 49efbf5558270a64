"""What every learner promises, as a test class to inherit:

    class TestCPLRNN(LearnerContract):
        make = CPLRNN

``settings`` keeps a fit under a second; a learner with other arguments overrides it. Errors about
recordings are DataError, about constructor arguments and questions ParameterError.
"""

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.base import clone

from foretell.core import Artifact, ArtifactError, ForetellError, ForetellWarning, NotFittedError
from foretell.core.progress import Progress
from foretell.data import Trajectories
from foretell.dynamics import load
from tests.contracts.bad_input import ERRORS, PARAMETERS, QUESTIONS, RECORDINGS, cases, wave

TIMES = np.arange(5.0)
X0 = np.array([0.1, 0.9])


def recording(n_samples: int = 120, *, seed: int = 0, unit: float = 1.0) -> Trajectories:
    """One irregular recording of two waves with names and units."""
    t = np.cumsum(np.random.default_rng(seed).uniform(0.1, 0.3, n_samples))
    values = np.column_stack([np.sin(t) + 0.1 * np.sin(3 * t), 5.0 + 3.0 * np.cos(t)])
    return Trajectories.from_arrays(
        values, unit * t, names=("level", "flow"), units=("m", "l/s"), time_unit="s"
    )


def driven(n_samples: int = 120) -> Trajectories:
    """The waves with one control."""
    u = np.sin(0.05 * np.arange(n_samples))[:, None]
    return Trajectories.from_arrays(wave(n_samples) + u, controls=u, control_names=("valve",))


def weights(model: Any, folder: Path) -> dict[str, bytes]:
    """All numbers of a fitted model, through its saved form."""
    path = folder / "weights-of-model"
    model.save(path)
    artifact = Artifact.open(path, classes=[type(model).__name__])
    return {name: array.tobytes() for name, array in artifact.arrays.items()}


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changes}))


class LearnerContract:
    """Inherit and set ``make`` to the learner's class."""

    make: ClassVar[type[Any]]
    settings: ClassVar[dict[str, Any]] = {
        "latent_dim": 5,
        "n_relu": 2,
        "forcing_interval": 5,
        "sequence_length": 20,
        "batch_size": 4,
        "max_updates": 12,
        "random_state": 0,
    }

    # Arguments of the table of bad parameters that this learner does not have.
    lacks: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def n_updates(cls) -> int:
        """Updates of a fit with the settings."""
        return int(cls.settings["max_updates"])

    @classmethod
    def new(cls, **changes: Any) -> Any:
        return cls.make(**{**cls.settings, **changes})

    @pytest.fixture(scope="class")
    @classmethod
    def fitted(cls) -> Any:
        return cls.new().fit(recording())

    # Fitting ---------------------------------------------------------------------------------

    def test_fit_returns_self(self) -> None:
        model = self.new()
        assert model.fit(recording()) is model

    def test_fit_leaves_its_inputs_and_parameters_untouched(self) -> None:
        trajectories = recording()
        before = trajectories.fingerprint()
        values, times = wave(), np.arange(120.0)
        model = self.new().fit(trajectories)
        self.new().fit(values, times)
        assert trajectories.fingerprint() == before
        assert np.array_equal(values, wave())
        assert np.array_equal(times, np.arange(120.0))
        assert model.get_params() == self.new().get_params()

    def test_arguments_are_keyword_only_and_cloned(self) -> None:
        with pytest.raises(TypeError):
            self.make(5)
        model = self.new(lr=1e-3)
        assert model.get_params()["lr"] == 1e-3
        assert clone(model).get_params() == model.get_params()
        assert model.set_params(lr=2e-3) is model
        assert model.lr == 2e-3
        with pytest.raises(ValueError, match="no_such"):
            model.set_params(no_such=1)

    def test_a_clone_of_a_fitted_model_is_not_fitted(self, fitted: Any) -> None:
        with pytest.raises(NotFittedError):
            clone(fitted).simulate(X0, TIMES)

    def test_the_same_seed_gives_the_same_bits(self, fitted: Any, tmp_path: Path) -> None:
        first = weights(fitted, tmp_path)
        assert weights(self.new().fit(recording()), tmp_path) == first
        assert weights(self.new(random_state=1).fit(recording()), tmp_path) != first

    def test_no_global_seed_is_used_or_moved(self, fitted: Any, tmp_path: Path) -> None:
        np.random.seed(5)  # noqa: NPY002
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        assert weights(self.new().fit(recording()), tmp_path) == weights(fitted, tmp_path)
        assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002

    def test_arrays_and_trajectories_are_the_same_thing(self, tmp_path: Path) -> None:
        values, times = wave(), np.cumsum(np.linspace(0.5, 1.5, 120))
        one = self.new().fit(values, times)
        two = self.new().fit(Trajectories.from_arrays(values, times))
        assert weights(one, tmp_path) == weights(two, tmp_path)

    def test_several_recordings_of_different_lengths(self) -> None:
        values = [wave(90), wave(70), wave(120)]
        model = self.new().fit(values)
        assert np.isfinite(model.score(Trajectories.from_arrays(values)))

    def test_missing_cells_are_only_unobserved(self) -> None:
        mask = np.random.default_rng(0).random((150, 2)) > 0.1
        mask[0] = True
        values = np.where(mask, wave(150), np.nan)
        model = self.new().fit(Trajectories.from_arrays(values, mask=mask))
        assert np.isfinite(model.simulate(X0, TIMES).values[0]).all()

    def test_the_units_of_time_and_data_do_not_matter(self, fitted: Any) -> None:
        in_other_unit = self.new().fit(recording(unit=1024.0))
        one = fitted.simulate([0.1, 5.0], TIMES, random_state=0).values[0]
        two = in_other_unit.simulate([0.1, 5.0], 1024.0 * TIMES, random_state=0).values[0]
        assert np.allclose(one, two, rtol=1e-6, atol=1e-9)

    def test_generalised_teacher_forcing_also_fits(self) -> None:
        if "forcing" in self.lacks:
            pytest.skip(f"{self.make.__name__} is not trained by teacher forcing")
        model = self.new(forcing="gtf").fit(recording())
        assert np.isfinite(model.simulate(X0, TIMES).values[0]).all()

    def test_a_wide_gap_is_pointed_out(self) -> None:
        times = np.arange(120.0)
        times[60:] += 500.0
        with pytest.warns(ForetellWarning, match="(?i)gap"):
            self.new().fit(wave(), times)

    # Using -----------------------------------------------------------------------------------

    def test_simulate_starts_where_it_is_told(self, fitted: Any) -> None:
        times = np.array([3.0, 3.1, 3.5, 4.5])
        free = fitted.simulate([0.1, 5.0], times)
        assert isinstance(free, Trajectories)
        assert (free.names, free.units, free.time_unit) == (("level", "flow"), ("m", "l/s"), "s")
        assert np.array_equal(free.times[0], times)
        assert np.allclose(free.values[0][0], [0.1, 5.0])
        assert np.isfinite(free.values[0]).all()

    def test_simulate_gives_as_many_samples_as_asked(self, fitted: Any) -> None:
        runs = fitted.simulate(X0, TIMES, n_samples=3, random_state=0)
        again = fitted.simulate(X0, TIMES, n_samples=3, random_state=0)
        assert runs.n_recordings == 3
        assert all(values.shape == (5, 2) for values in runs.values)
        assert all(map(np.array_equal, runs.values, again.values))

    def test_score_is_a_finite_number(self, fitted: Any) -> None:
        score = fitted.score(recording(seed=1))
        assert isinstance(score, float)
        assert np.isfinite(score)
        assert fitted.score(recording(seed=1)) == score

    @pytest.mark.parametrize("use", ["simulate", "score", "save"])
    def test_nothing_is_said_before_fit(self, use: str, tmp_path: Path) -> None:
        arguments = {
            "simulate": (X0, TIMES),
            "score": (recording(),),
            "save": (tmp_path / "model",),
        }[use]
        with pytest.raises(NotFittedError, match="fit"):
            getattr(self.new(), use)(*arguments)
        assert not any(tmp_path.iterdir())

    def test_controls_are_required_once_fitted_with_them(self) -> None:
        model = self.new().fit(driven())
        u = np.ones((5, 1))
        rising = model.simulate(X0, TIMES, controls=u, random_state=0).values[0]
        falling = model.simulate(X0, TIMES, controls=-u, random_state=0).values[0]
        assert not np.allclose(rising[-1], falling[-1])
        assert np.isfinite(model.score(driven()))
        for wrong in (None, np.ones((5, 2)), np.ones((3, 1)), np.full((5, 1), np.nan)):
            with pytest.raises(ERRORS["questions"], match="controls"):
                model.simulate(X0, TIMES, controls=wrong)

    @pytest.mark.parametrize(("question", "message"), cases(QUESTIONS))
    def test_bad_questions(self, fitted: Any, question: dict[str, Any], message: str) -> None:
        with pytest.raises(ERRORS["questions"], match=message) as caught:
            fitted.simulate(**{"x0": X0, "times": TIMES, **question})
        assert type(caught.value) is ERRORS["questions"]

    # Bad input -------------------------------------------------------------------------------

    @pytest.mark.parametrize(("arguments", "message"), cases(RECORDINGS))
    def test_bad_recordings(self, arguments: Any, message: str) -> None:
        if "sequence_length" in message and {"sequence_length", "horizons"} <= self.lacks:
            pytest.skip(f"{self.make.__name__} has no windows, so none can be too long")
        model = self.new()
        with pytest.raises(ERRORS["recordings"], match=message) as caught:
            model.fit(*arguments())
        assert type(caught.value) is ERRORS["recordings"]
        with pytest.raises(NotFittedError):
            model.simulate(X0, TIMES)

    @pytest.mark.parametrize(("changes", "message"), PARAMETERS, ids=str)
    def test_bad_parameters(self, changes: dict[str, Any], message: str) -> None:
        if changes.keys() & self.lacks:
            pytest.skip(f"{self.make.__name__} has no argument {sorted(changes)}")
        if not changes.keys() <= self.new().get_params().keys():
            pytest.fail(f"{self.make.__name__} has no argument {sorted(changes)}")
        model = self.new(**changes)
        with pytest.raises(ERRORS["parameters"], match=message) as caught:
            model.fit(recording())
        assert type(caught.value) is ERRORS["parameters"]

    # Saving, stopping, going on ----------------------------------------------------------------

    def test_a_saved_model_answers_bit_for_bit(self, fitted: Any, tmp_path: Path) -> None:
        fitted.save(tmp_path / "model")
        expected = fitted.simulate(X0, TIMES, random_state=0)
        for again in (self.make.load(tmp_path / "model"), load(tmp_path / "model")):
            assert type(again) is self.make
            assert again.get_params() == fitted.get_params()
            found = again.simulate(X0, TIMES, random_state=0)
            assert np.array_equal(found.values[0], expected.values[0])
            assert (found.names, found.units) == (expected.names, expected.units)
            assert again.score(recording(seed=1)) == fitted.score(recording(seed=1))

    def test_a_model_with_controls_comes_back_too(self, tmp_path: Path) -> None:
        model = self.new().fit(driven())
        model.save(tmp_path / "model")
        u = np.linspace(0.0, 1.0, 5)[:, None]
        question = {"x0": X0, "times": TIMES, "controls": u, "random_state": 0}
        again = load(tmp_path / "model").simulate(**question)
        assert np.array_equal(again.values[0], model.simulate(**question).values[0])

    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda folder: edit(folder, **{"class": "Spectre"}), "Spectre"),
            (lambda folder: edit(folder, schema=10**6), "newer"),
            (lambda folder: (folder / "weights.safetensors").write_bytes(b"12"), "cut off"),
            (lambda folder: (folder / "model.json").unlink(), r"model\.json"),
        ],
        ids=["unknown-class", "newer-version", "truncated", "missing-file"],
    )
    def test_a_strange_folder_is_refused(self, fitted, tmp_path, damage, message: str) -> None:
        fitted.save(tmp_path / "model")
        damage(tmp_path / "model")
        for opened in (self.make.load, load):
            with pytest.raises(ArtifactError, match=message):
                opened(tmp_path / "model")

    def test_progress_is_reported_to_the_end(self) -> None:
        reports: list[Progress] = []
        self.new().fit(recording(), on_step=reports.append)
        steps = [report.step for report in reports]
        assert steps == sorted(set(steps))
        assert steps[-1] == reports[-1].total == self.n_updates()
        assert all(np.isfinite(report.loss) for report in reports)

    def test_interrupt_and_resume_gives_the_uninterrupted_result(self, fitted, tmp_path) -> None:
        checkpoint = tmp_path / "state"

        def stop(report: Progress) -> None:
            if report.step < report.total:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            self.new().fit(recording(), on_step=stop, checkpoint=checkpoint)
        assert checkpoint.exists()
        for model, data in [
            (self.new(lr=1e-3), recording()),
            (self.new(), recording(seed=1)),
        ]:
            with pytest.raises(ForetellError, match=r"(?i)checkpoint|resume"):
                model.fit(data, checkpoint=checkpoint, resume=True)
        resumed = self.new().fit(recording(), checkpoint=checkpoint, resume=True)
        assert weights(resumed, tmp_path) == weights(fitted, tmp_path)
