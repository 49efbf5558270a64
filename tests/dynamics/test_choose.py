"""Evidence before fitting, and the choice between candidates on the held-out part."""

from typing import Any

import numpy as np
import pytest

from foretell.core import DataError, NumericalError, ParameterError
from foretell.data import Trajectories, systems
from foretell.dynamics.choose import choose, hold_out
from foretell.dynamics.evidence import look_at
from foretell.dynamics.held_out_runs import _SHIFTS, Block, _starts


class Known:
    """A candidate that knows how the state goes on, or says why it cannot be fitted."""

    def __init__(self, run: Any, error: str = "") -> None:
        self.run, self.error = run, error

    def fit(self, X: Trajectories) -> "Known":
        if self.error:
            raise NumericalError(self.error)
        return self

    def simulate(
        self, x0: Any, times: Any, *, controls: Any = None, n_samples: int = 1,
        random_state: Any = None,
    ) -> Any:  # fmt: skip
        rng = np.random.default_rng(random_state)
        starts = np.repeat(np.atleast_2d(np.asarray(x0, float)), n_samples, axis=0)
        runs = [self.run(start, times, controls, rng) for start in starts]
        return Trajectories.from_arrays(runs, [times[: len(r)] for r in runs])


def turn(speed: float) -> Any:
    def run(x0: Any, times: Any, controls: Any, rng: Any) -> Any:
        angle = np.arctan2(x0[1], x0[0]) + speed * (times - times[0])
        return np.column_stack([np.cos(angle), np.sin(angle)])

    return run


def circle(n: int = 1200) -> Trajectories:
    t = 0.1 * np.arange(n)
    return Trajectories.from_arrays(np.column_stack([np.cos(t), np.sin(t)]), t)


def walk(pull: float, noise: float, n: int = 3000) -> Trajectories:
    return Trajectories.from_arrays(pulled(pull, noise)(np.zeros(1), np.arange(float(n)), None, 0))


def pulled(pull: float, noise: float) -> Any:
    def run(x0: Any, times: Any, controls: Any, rng: Any) -> Any:
        steps = noise * np.random.default_rng(rng).standard_normal((len(times), len(x0)))
        x = [np.asarray(x0, float)]
        for step in steps[1:]:
            x.append((1 - pull) * x[-1] + step)
        return np.array(x)

    return run


def test_the_true_rhythm_beats_a_wrong_one_on_the_same_circle() -> None:
    chosen = choose(circle(), {"slow": Known(turn(0.4)), "true": Known(turn(1.0))})
    assert chosen.name == "true"
    scores = {t.name: t.score for t in chosen.tried}
    assert scores["true"] < 0.05 < scores["slow"]
    assert "nearest" in chosen.why


def test_the_simpler_of_two_equal_ones_is_taken() -> None:
    chosen = choose(circle(), {"first": Known(turn(1.0)), "second": Known(turn(1.0))})
    assert chosen.name == "first"


@pytest.mark.parametrize("seed", range(5))
def test_noise_of_the_right_size_beats_no_noise(seed: int) -> None:
    data = Trajectories.from_arrays(
        pulled(0.1, 1.0)(np.zeros(1), np.arange(3000.0), None, np.random.default_rng(seed))
    )
    chosen = choose(data, {"at rest": Known(pulled(0.1, 0.0)), "noisy": Known(pulled(0.1, 1.0))})
    assert chosen.name == "noisy"
    assert chosen.evidence.has_scatter


def test_where_one_step_has_two_peaks_another_sampler_than_lifting_is_taken() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from foretell.dynamics.lifting import AnalogueTransition, StochasticLifting

    rng, x = np.random.default_rng(0), np.zeros((700, 1))
    for t in range(699):
        x[t + 1] = 0.3 * x[t] + rng.choice([-1.0, 1.0]) + 0.1 * rng.normal()
    small = {"label_dim": 16, "width": 32, "max_steps": 300, "mean_steps": 100, "lr": 3e-3}
    chosen = choose(
        Trajectories.from_arrays(x),
        {"lifting": StochasticLifting(**small, random_state=0), "analogue": AnalogueTransition()},
    )
    assert chosen.name == "analogue"
    assert not chosen.tried[0].as_good


def test_a_run_that_ends_early_or_escapes_counts_as_far_away() -> None:
    def short(x0: Any, times: Any, controls: Any, rng: Any) -> Any:
        return turn(1.0)(x0, times, controls, rng)[:5]

    chosen = choose(circle(), {"short": Known(short), "true": Known(turn(1.0))})
    assert chosen.name == "true"
    assert next(t for t in chosen.tried if t.name == "short").score > 0.3


def test_with_inputs_the_run_has_to_follow_them() -> None:
    u = np.random.default_rng(0).normal(size=(600, 1)).cumsum(axis=0)
    data = Trajectories.from_arrays(2 * u, controls=u)

    def gain(k: float) -> Any:
        return lambda x0, times, controls, rng: k * controls

    chosen = choose(data, {"one": Known(gain(1.0)), "two": Known(gain(2.0))})
    assert chosen.name == "two"
    assert chosen.tried[1].score == pytest.approx(0)
    assert "mean square" in chosen.measure


def test_a_candidate_that_fails_is_told_and_another_taken() -> None:
    chosen = choose(circle(), {"broken": Known(None, "no gradient"), "true": Known(turn(1.0))})
    assert chosen.tried[0].note == "no gradient"
    assert "only one" in chosen.why
    with pytest.raises(DataError, match="no gradient"):
        choose(circle(), {"broken": Known(None, "no gradient")})


def test_once_the_budget_is_spent_the_rest_is_left_out() -> None:
    chosen = choose(circle(), {"a": Known(turn(1.0)), "b": Known(turn(1.0))}, budget=0.0)
    assert "budget" in chosen.left_out["b"]


def test_missing_rows_are_left_out_of_the_comparison() -> None:
    data = circle()
    values = data.values[0].copy()
    mask = np.ones(values.shape, dtype=bool)
    mask[np.random.default_rng(0).random(len(values)) < 0.3] = False
    mask[0] = True
    holes = Trajectories.from_arrays(np.where(mask, values, np.nan), data.times[0], mask=mask)
    chosen = choose(holes, {"slow": Known(turn(0.4)), "true": Known(turn(1.0))})
    assert chosen.name == "true"


def test_too_little_to_compare_is_an_error() -> None:
    with pytest.raises(DataError, match="name the learner"):
        choose(circle(60), {"true": Known(turn(1.0))})
    with pytest.raises(ParameterError, match="candidate"):
        choose(circle(), {})


def test_whole_recordings_are_held_out_where_there_are_enough() -> None:
    many = Trajectories.from_arrays([circle(90).values[0]] * 10)
    train, test = hold_out(many, 0.7)
    assert (len(train), len(test)) == (7, 3)


def test_what_the_recordings_show() -> None:
    lorenz = look_at(systems.lorenz63(3000, random_state=0))
    signs = lorenz.has_jumps, lorenz.has_scatter, lorenz.is_driven, lorenz.is_short
    assert not any(signs)
    neuron = look_at(systems.lif_neuron(1000))
    assert neuron.has_jumps
    assert not neuron.has_scatter
    assert look_at(walk(0.1, 1.0)).has_scatter
    noisy = circle(3000).values[0] + 0.05 * np.random.default_rng(1).normal(size=(3000, 2))
    assert not look_at(Trajectories.from_arrays(noisy)).has_scatter
    assert look_at(systems.thin(circle(), 0.5, 0)).is_uneven
    assert look_at(circle(100)).is_short


def test_runs_of_every_shift_go_through_the_recording_once() -> None:
    data = circle(900)
    blocks = [Block(0, n, n + 75) for n in range(0, 900, 75)]
    counts = np.zeros(900, int)
    for start in _starts(blocks, data):
        counts[start.rows] += 1
    assert (counts == _SHIFTS).all()


def test_a_slow_departure_is_seen_because_runs_last_several_blocks() -> None:
    def departing(x0: Any, times: Any, controls: Any, rng: Any) -> Any:
        run = turn(1.0)(x0, times, controls, rng)
        return run * (1 + 0.5 * np.clip((times - times[0])[:, None] / 3 - 1, 0, 1))  # after 30 rows

    chosen = choose(circle(), {"departing": Known(departing), "true": Known(turn(1.0))})
    assert chosen.name == "true"
    assert chosen.tried[0].score > 0.1


def test_blocks_without_a_complete_pair_do_not_count() -> None:
    data = circle(1200)
    mask = np.ones((1200, 2), dtype=bool)
    mask[901:990:2] = False
    holes = Trajectories.from_arrays(
        np.where(mask, data.values[0], np.nan), data.times[0], mask=mask
    )
    assert choose(holes, {"slow": Known(turn(0.4)), "true": Known(turn(1.0))}).name == "true"
