"""Teacher forcing through the shared loop: the same bits as a plain loop, and a pure gradient."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from foretell.core import Artifact, ArtifactError
from foretell.dynamics import ALRNN, CPLRNN, ReLUNeuralODE
from foretell.dynamics.forced_task import ForcedTask, forcing_share
from foretell.dynamics.optimise import RAdam
from foretell.dynamics.sequences import WindowSampler
from foretell.train import TrainTask, train
from tests.dynamics.training import LAYOUT, Parabola, run, sequences, settings

LEARNERS = (CPLRNN, ALRNN, ReLUNeuralODE)


def parts(learner, **changes):
    """Kernel, first parameters, sampler and settings of a small training."""
    chosen = settings(**changes)
    model = learner(latent_dim=LAYOUT.n_units, n_relu=1, warm_up=2)
    rng = np.random.default_rng(5)
    theta = model._initial(LAYOUT, rng)
    sampler = WindowSampler(
        scaled(60, 45), chosen.sequence_length, chosen.batch_size, chosen.noise, 2
    )
    return model._kernel(LAYOUT), theta, sampler, chosen, rng


def scaled(*lengths):
    data = sequences(*lengths)
    for values in data.values:
        values[:] = np.sin(0.3 * values)
        values[7, 1] = np.nan
    return data


def plainly(kernel, theta, sampler, chosen, rng):
    """The updates, one after the other, with nothing around them."""
    theta, optimiser = theta.copy(), RAdam(theta.size)
    losses, skipped = [], 0
    for step in range(chosen.max_updates):
        x, u, dt = sampler.draw(rng)
        interval, alpha = forcing_share(chosen, step)
        found = kernel.loss_and_gradient(
            *LAYOUT.views(theta), x, u, dt, forcing_interval=interval, alpha=alpha
        )
        g = np.concatenate([p.ravel() for p in (found.dA, found.dW, found.dh, found.dC, found.dL)])
        norm = float(np.sqrt(g @ g))
        if not (np.isfinite(found.loss) and np.isfinite(norm)):
            skipped += 1
            continue
        losses.append(found.loss)
        if norm > chosen.grad_clip:
            g *= chosen.grad_clip / norm
        share = step / max(chosen.max_updates - 1, 1)
        rate = chosen.lr * (chosen.final_lr / chosen.lr) ** share
        optimiser.update(theta, g, learning_rate=rate)
    return theta, losses, skipped


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(
    "changes",
    [{}, {"forcing": "gtf"}, {"grad_clip": 0.01, "noise": 0.0}, {"batch_size": 1, "lr": 3.0}],
    ids=["sparse", "generalised", "clipped", "wild"],
)
def test_the_loop_gives_the_bits_of_a_plain_loop(learner, changes):
    expected, losses, skipped = plainly(*parts(learner, **changes))
    kernel, theta, sampler, chosen, rng = parts(learner, **changes)
    task = ForcedTask(kernel, LAYOUT, theta, sampler, chosen, rng)
    found = train(task, chosen.max_updates)
    assert_array_equal(task.theta, expected)
    assert found.skipped == skipped
    smooth = losses[0]
    for loss in losses[1:]:
        smooth += 0.02 * (loss - smooth)
    assert found.loss == smooth


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_gradient_depends_on_parameters_and_step_only(learner):
    kernel, theta, sampler, chosen, rng = parts(learner)
    task = ForcedTask(kernel, LAYOUT, theta, sampler, chosen, rng)
    assert isinstance(task, TrainTask)
    first = [task.gradient(step, 0) for step in range(6)]
    for step in (5, 5, 2, 0, 4, 4):
        again = task.gradient(step, 0)
        assert_array_equal(again.values, first[step].values)
        assert again.loss == first[step].loss
    other = ForcedTask(*_fresh(learner))
    other.restore(task.state())
    assert_array_equal(other.gradient(3, 0).values, first[3].values)
    task.apply(0, first[0].values)
    assert not np.array_equal(task.gradient(0, 0).values, first[0].values)


def _fresh(learner):
    kernel, theta, sampler, chosen, _ = parts(learner)
    return kernel, LAYOUT, 0 * theta, sampler, chosen, np.random.default_rng(99)


def test_parameters_alone_are_taken_over_with_moments_of_zero():
    kernel, theta, sampler, chosen, rng = parts(CPLRNN)
    task = ForcedTask(kernel, LAYOUT, theta, sampler, chosen, rng)
    train(task, 3)
    task.restore({"theta": theta})
    assert task.optimiser.step == 0
    assert_array_equal(task.theta, theta)


def test_an_overflowing_gradient_counts_as_none():
    class Steep(Parabola):
        def loss_and_gradient(self, *args, **options):
            found = super().loss_and_gradient(*args, **options)
            found.dA[:] = 1e200 if len(self.asked) % 3 == 0 else found.dA
            return found

    assert run(Steep(), max_updates=9).history.skipped == 3


def test_a_checkpoint_of_the_former_loop_is_refused(tmp_path):
    Artifact(
        model_class="training-state", arrays={"theta": np.zeros(3)}, fields={"identity": ""}
    ).save(tmp_path / "state")
    with pytest.raises(ArtifactError, match=r"older version.*resume=False"):
        run(checkpoint=tmp_path / "state", resume=True)
