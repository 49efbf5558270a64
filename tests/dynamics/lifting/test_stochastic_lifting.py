"""StochasticLifting keeps the contract of learners; its own: labels, temperature, fields."""

from typing import Any, ClassVar

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from foretell.core import ArtifactError, DataError, ForetellWarning, ParameterError  # noqa: E402
from foretell.dynamics import Model, Stochastic  # noqa: E402
from foretell.dynamics.lifting import StochasticLifting, stored_labels  # noqa: E402
from foretell.dynamics.lifting.networks import Design, build  # noqa: E402
from foretell.dynamics.module_task import ModuleTask  # noqa: E402
from tests.contracts.learner import LearnerContract  # noqa: E402
from tests.dynamics.lifting.data import noisy_paths  # noqa: E402

SMALL: dict[str, Any] = {
    "label_dim": 4, "width": 8, "depth": 1, "max_steps": 12, "mean_steps": 4, "batch_size": 8,
    "lr": 2e-3, "random_state": 0,
}  # fmt: skip
TEMPERATURE = pytest.mark.filterwarnings("ignore:the label temperature")
WITHOUT = "latent_dim n_relu forcing forcing_interval sequence_length horizons max_updates noise"


@TEMPERATURE
class TestStochasticLifting(LearnerContract):
    make = StochasticLifting
    settings: ClassVar[dict[str, Any]] = SMALL
    lacks = frozenset([*WITHOUT.split(), "grad_clip", "time_scale"])

    @classmethod
    def n_updates(cls) -> int:
        return 16


def test_it_is_a_stochastic_model() -> None:
    assert isinstance(StochasticLifting(), Model)
    assert isinstance(StochasticLifting(), Stochastic)


class Redrawn(StochasticLifting):
    """The habit that breaks the method: a new label at every look at a transition."""

    def _training_labels(self, rows, ids, d, table, generator):
        return generator.standard_normal((len(rows), d), dtype=np.float32)


@pytest.mark.filterwarnings("ignore")
def test_stored_labels_give_spread_and_redrawn_ones_the_mean() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (300, 1))
    y = 0.8 * x + 0.3 * rng.choice([-1.0, 1.0], x.shape) + 0.05 * rng.normal(size=x.shape)
    sizes = {"label_dim": 32, "width": 48, "max_steps": 900, "mean_steps": 60, "lr": 3e-3}
    plain = {"residual": False, "calibrate": False, **sizes}
    spread = {}
    for kind in (StochasticLifting, Redrawn):
        model = kind(**plain, random_state=0).fit_transitions(x, y)
        draws = model.sample_next(np.linspace(-0.8, 0.8, 9)[:, None], 200, 0)
        spread[kind.__name__] = float(np.sqrt(draws.var(axis=1).mean())) / np.sqrt(0.09 + 0.0025)
    assert spread["Redrawn"] < 0.1
    assert spread["StochasticLifting"] > 0.5


def test_without_residual_and_calibration_it_is_the_published_algorithm() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(80, 2))
    y = x + rng.normal(size=x.shape)
    model = StochasticLifting(**{**SMALL, "residual": False, "calibrate": False,
                                 "increments": False, "interp_tol": 0.0})  # fmt: skip
    model.fit_transitions(x, y)
    mean, spread = np.concatenate([x, y]).mean(axis=0), np.concatenate([x, y]).std(axis=0)
    ids = np.stack([np.zeros(80, dtype=int), np.arange(80)], axis=1)
    labels = torch.from_numpy(stored_labels(0, ids, 4))
    past, target = (torch.from_numpy(((v - mean) / spread).astype(np.float32)) for v in (x, y))
    net = model._build(Design("mlp", (2,), 1, 0, 4, width=8, depth=1), 1)

    def loss(step: int, generator: np.random.Generator) -> Any:
        rows = generator.integers(80, size=8)
        found = net(past[rows][:, None], torch.zeros(8, 0), labels[rows])
        return ((found - target[rows]) ** 2).mean()

    task = ModuleTask(net, loss, n_steps=12, lr=2e-3, final_lr=1e-5, weight_decay=1e-4,
                      seed=model._seed(101))  # fmt: skip
    for step in range(12):
        task.apply(step, task.gradient(step, 0).values)
    for mine, theirs in zip(net.parameters(), model.networks_["label"].parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-7)
    assert np.array_equal(model.temperature_, [1.0, 1.0])


@TEMPERATURE
def test_one_call_of_each_network_for_a_step() -> None:
    model = StochasticLifting(**SMALL, centre=None).fit(noisy_paths(12, 10))
    calls = {name: 0 for name in model.networks_}
    for name, module in model.networks_.items():
        module.register_forward_hook(lambda *_, n=name: calls.__setitem__(n, calls[n] + 1))
    runs = model.rollout(np.zeros((2, 1)), n_steps=7, n_members=30, random_state=0)
    assert calls == {"mean": 7, "label": 7}
    pairs = StochasticLifting(**SMALL)
    assert (model.evaluations_per_step, pairs.evaluations_per_step) == (2, 3)
    assert runs.shape == (2, 30, 8, 1)


@TEMPERATURE
def test_a_label_of_a_trajectory_stays_along_a_run() -> None:
    paths = noisy_paths(12, 10)
    model = StochasticLifting(**{**SMALL, "label_scope": "trajectory"}).fit(paths)
    kept = model._start(6, np.random.default_rng(0))
    assert kept.shape == (6, 4)
    past, context = np.zeros((6, 1, 1)), np.zeros((6, 0))
    one, two = (model._next(past, context, np.random.default_rng(s), kept) for s in (1, 2))
    assert np.array_equal(one, two)
    assert np.ptp(one) > 0
    assert StochasticLifting(**SMALL).fit(paths)._start(6, np.random.default_rng(0)) is None


@TEMPERATURE
def test_the_best_label_dimension_is_chosen_and_kept(tmp_path) -> None:
    model = StochasticLifting(**{**SMALL, "label_dim": "auto", "max_steps": 3})
    model.fit(noisy_paths(12, 10))
    assert model.label_dim_ in (8, 16, 32, 64, 128)
    again = StochasticLifting.load(model.save(tmp_path / "m"))
    assert again.label_dim_ == model.label_dim_
    assert np.array_equal(again.rollout([0.0], 3, 5, 1), model.rollout([0.0], 3, 5, 1))


@TEMPERATURE
def test_centring_moves_the_mean_to_the_mean_network() -> None:
    model = StochasticLifting(**{**SMALL, "centre": "distil", "mean_steps": 100, "max_steps": 60,
                                 "lr": 1e-2})  # fmt: skip
    paths = noisy_paths(30, 10)
    plain = StochasticLifting(**{**model.get_params(), "centre": None}).fit(paths)
    model.fit(paths)
    states = np.linspace(-1, 1, 9)[:, None]
    moved = model.sample_next(states, 400, 0).mean(axis=1)
    before = plain.sample_next(states, 400, 0).mean(axis=1)
    wanted = plain.mean_next(states)
    assert np.abs(moved - wanted).mean() < 0.6 * np.abs(before - wanted).mean() + 0.02


@TEMPERATURE
def test_pairs_of_opposite_labels_have_exactly_the_mean_of_the_mean_network() -> None:
    model = StochasticLifting(**SMALL).fit(noisy_paths(12, 10))
    past, context = np.full((40, 1, 1), 0.3), np.zeros((40, 0))
    label = np.random.default_rng(0).standard_normal((20, 4), dtype=np.float32)
    both = np.concatenate([label, -label])
    drawn = model._drawn(past, context, both)
    assert np.ptp(drawn) > 0
    assert np.abs(drawn.mean()) < 1e-6


@TEMPERATURE
@pytest.mark.parametrize(("backbone", "shape"), [("mlp", (3,)), ("conv1d", (2, 6))])
def test_an_odd_network_has_mean_zero_in_one_evaluation_at_every_state(
    backbone, shape, tmp_path
) -> None:
    rng = np.random.default_rng(0)
    paths = rng.normal(size=(12, 10, *shape)).cumsum(axis=1)
    model = StochasticLifting(**{**SMALL, "centre": "odd", "backbone": backbone}).fit(paths)
    assert model.evaluations_per_step == 2
    past = rng.normal(size=(40, 1, int(np.prod(shape))))
    label = rng.standard_normal((40, 4), dtype=np.float32)
    drawn = model._drawn(past, np.zeros((40, 0)), label)
    assert np.ptp(drawn) > 0
    assert np.allclose(model._drawn(past, np.zeros((40, 0)), -label), -drawn, atol=1e-6)
    again = StochasticLifting.load(model.save(tmp_path / "m"))
    runs = [m.rollout(paths[0, 0], 3, 5, 1) for m in (model, again)]
    assert np.array_equal(*runs)


@TEMPERATURE
@pytest.mark.parametrize(
    ("backbone", "shape"),
    [("conv1d", (6,)), ("conv1d", (2, 6)), ("unet", (1, 8, 8)), ("mlp", (1, 3, 2))],
)
def test_fields_go_through_and_come_back(backbone, shape, tmp_path) -> None:
    rng = np.random.default_rng(0)
    paths = rng.normal(size=(10, 6, *shape)).cumsum(axis=1)
    model = StochasticLifting(**{**SMALL, "backbone": backbone, "max_steps": 3}).fit(paths)
    runs = model.rollout(paths[0, 0], 4, 3, 0)
    assert runs.shape == (1, 3, 5, *shape)
    assert np.array_equal(runs[0, :, 0], np.broadcast_to(paths[0, 0], (3, *shape)))
    again = StochasticLifting.load(model.save(tmp_path / "m"))
    assert np.array_equal(again.rollout(paths[0, 0], 4, 3, 0), runs)
    assert model.predict(paths[:2, 0], n_members=4).shape == (2, *shape)


@TEMPERATURE
def test_a_network_of_your_own() -> None:
    class Mine(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1 + 4, 1)

        def forward(self, past, context, label):
            return self.layer(torch.cat([past.flatten(1), label], dim=1))

    model = StochasticLifting(**{**SMALL, "backbone": Mine()}).fit(noisy_paths(12, 10))
    assert model.rollout([0.0], 3, 5, 0).shape == (1, 5, 4, 1)
    with pytest.raises(ArtifactError, match="of your own"):
        model.save("nowhere")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label_dim": 0}, "label_dim"),
        ({"label_dim": 10_000}, "label_dim"),
        ({"label_dim": "some"}, "label_dim"),
        ({"history": 0}, "history"),
        ({"residual": "yes"}, "residual"),
        ({"residual": False}, "calibrate=False"),
        ({"validation": 0.0}, "validation"),
        ({"label_scope": "world"}, "label_scope"),
        ({"backbone": "resnet"}, "backbone"),
        ({"backbone": "unet"}, "height"),
        ({"centre": True}, "centre"),
        ({"centre": "odd", "backbone": torch.nn.Linear(1, 1)}, "pairs"),
        ({"interp_tol": 1.0}, "interp_tol"),
        ({"weight_decay": -1.0}, "weight_decay"),
        ({"width": 0}, "width"),
        ({"dt_feature": "maybe"}, "dt_feature"),
        ({"periodic": 1}, "periodic"),
        ({"mean_steps": 0}, "mean_steps"),
        ({"max_labelled": 0}, "max_labelled"),
    ],
    ids=str,
)
def test_impossible_arguments_are_refused(changes, message) -> None:
    with pytest.raises(ParameterError, match=message):
        StochasticLifting(**{**SMALL, **changes}).fit(noisy_paths(12, 10))


def test_a_width_that_cannot_be_set_is_said() -> None:
    with pytest.warns(ForetellWarning, match=r"label temperature.*max_steps"):
        StochasticLifting(**SMALL).fit(noisy_paths(30, 10))


@pytest.mark.filterwarnings("ignore:the label temperature")
def test_flat_residuals_are_named() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (400, 2))
    noise = np.column_stack([rng.choice([-1.0, 1.0], 400), rng.normal(size=400)])
    model = StochasticLifting(**{**SMALL, "mean_steps": 100, "lr": 1e-2})
    with pytest.warns(ForetellWarning, match="x0 is flat or has two peaks.*AnalogueTransition"):
        model.fit_transitions(x, 0.5 * x + 0.3 * noise, np.arange(400))
    assert model.flat_residuals_ == ("x0",)


def test_pairs_need_groups_and_whole_ones() -> None:
    x = np.random.default_rng(0).normal(size=(40, 1))
    model = StochasticLifting(**SMALL)
    with pytest.raises(ParameterError, match="groups="):
        model.fit_transitions(x, x + 1)
    held = np.arange(40) % 2 == 0
    with pytest.raises(DataError, match=r"(?s)both|leak"):
        model.fit_transitions(x, x + 1, np.repeat([0, 1], 20), calibration=held)


def test_networks_do_not_mix_the_rows_of_a_batch() -> None:
    rng = np.random.default_rng(0)
    for backbone, shape in (("mlp", (5,)), ("conv1d", (5,)), ("unet", (1, 8, 8))):
        net = build(Design(backbone, shape, 2, 1, 3, width=8, depth=2))
        n = int(np.prod(shape))
        given = [torch.from_numpy(rng.normal(size=s).astype(np.float32))
                 for s in ((4, 2, n), (4, 1), (4, 3))]  # fmt: skip
        whole, one = net(*given), net(*(g[1:2] for g in given))
        assert whole.shape == (4, n)
        torch.testing.assert_close(whole[1:2], one, rtol=1e-4, atol=1e-5)
