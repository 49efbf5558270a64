"""HybridLatentODE keeps the contract of every learner."""

from typing import ClassVar

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from foretell.data.hybrid_systems import ball
from foretell.data.systems import pl_fitzhugh_nagumo_field
from foretell.dynamics.hybrid import HybridLatentODE
from foretell.dynamics.hybrid.columns import read_columns
from foretell.dynamics.hybrid.latent_model import LatentModel
from foretell.dynamics.hybrid.preparation import prepare
from foretell.solve.piecewise import PiecewiseLinearField, limit_cycles
from tests.contracts.learner import LearnerContract


@pytest.mark.filterwarnings("ignore:no jumps found")
@pytest.mark.filterwarnings("ignore:.*collapsed")
@pytest.mark.filterwarnings("ignore:.* of the steps count as jumps")
class TestHybridLatentODE(LearnerContract):
    make = HybridLatentODE
    settings: ClassVar = {
        "latent_dim": 5,
        "hidden": 8,
        "horizons": (2, 16),
        "updates_per_horizon": 6,
        "batch_size": 4,
        "random_state": 0,
    }
    lacks = frozenset(
        {
            "n_relu", "forcing", "forcing_interval", "sequence_length", "max_updates", "noise",
            "warm_up",
        }
    )  # fmt: skip

    @classmethod
    def n_updates(cls) -> int:
        return 12

    def test_a_piecewise_linear_field_is_saved_and_analysed(self, tmp_path) -> None:
        t = 0.2 * np.arange(120)
        values = np.column_stack([np.sin(t), np.cos(t)])
        model = self.new(field="pwl", n_relu=2).fit(values, t)
        again = HybridLatentODE.load(model.save(tmp_path / "model"))
        assert np.array_equal(again.latent_field_.W, model.latent_field_.W)
        z = np.ones((3, 5))
        assert np.allclose(model.vector_field(z), model.latent_field_(z) / model.time_scale_)

    def test_cycles_and_multipliers_of_a_piecewise_linear_field_are_exact(self) -> None:
        """A field with a known cycle is put in, beside one more unit that only decays."""
        t = 0.2 * np.arange(120)
        model = self.new(field="pwl", n_relu=2).fit(np.column_stack([np.sin(t), np.cos(t)]), t)
        neuron = PiecewiseLinearField(**pl_fitzhugh_nagumo_field())
        start, W = np.array([0.5, 0.1, 0.375, -0.125]), np.zeros((5, 5))
        (bare,) = limit_cycles(neuron, start, backward=False)
        W[1:, 1:] = neuron.W
        put = {"A": np.append(-1.0, neuron.A), "W": W, "h": np.append(0.0, neuron.h)}
        arrays = model.arrays_ | {f"field.{name}": value for name, value in put.items()}
        model._adopt(model.shape_, arrays, model.head_)
        (cycle,) = model.latent_cycles(starts=np.append(0.0, start), backward=False)
        assert cycle.period == pytest.approx(0.2 * bare.period, rel=1e-9)
        known = np.sort(np.abs([*bare.multipliers, np.exp(-bare.period)]))[::-1]
        assert np.abs(cycle.multipliers) == pytest.approx(known, rel=1e-6, abs=1e-12)
        rates = np.sort([*bare.exponents.real, -1.0]) / 0.2
        assert np.sort(cycle.exponents.real) == pytest.approx(rates, rel=1e-6, abs=1e-6)

    def test_the_decoder_with_the_better_runs_on_recordings_held_back_is_kept(self) -> None:
        recordings = ball(10, 60, random_state=0).trajectories
        model = self.new(decoder_heads="auto", updates_per_horizon=20).fit(recordings)
        columns = read_columns(recordings, (), ())
        free_runs = prepare(recordings, columns, model, None, None).free_runs
        errors = free_runs.errors(LatentModel(model.shape_, model.arrays_))
        assert model.n_heads_ == (1, 3)[int(np.argmin(errors))]
        assert model.validation_score_ == -min(errors)
