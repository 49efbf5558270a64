"""HybridLatentODE keeps the contract of every learner."""

from typing import ClassVar

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from foretell.dynamics.hybrid import HybridLatentODE
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
