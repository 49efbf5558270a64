"""The loop keeps the best state, resumes to the same bits, and stops when nothing is finite."""

from pathlib import Path

import numpy as np
import pytest

from foretell.core import ArtifactError, NumericalError, ParameterError, Progress
from foretell.train import Gradient, TrainRun, TrainTask, mean_gradient, shard_generator, train
from foretell.train.task import State


class Regression:
    """Least squares by momentum on random batches, in two shards."""

    def __init__(self) -> None:
        self.x, self.v = np.zeros(3), np.zeros(3)
        self.broken_from = np.inf

    def parameters(self) -> np.ndarray:
        return self.x.copy()

    def n_shards(self, step: int) -> int:
        return 2

    def gradient(self, step: int, shard: int) -> Gradient:
        a = shard_generator(3, step, shard).normal(size=(4 + shard, 3))
        rest = a @ (self.x - [1.0, 2.0, 3.0])
        values = a.T @ rest / len(a)
        if step >= self.broken_from:
            values = values * np.nan
        return Gradient(float(rest @ rest) / len(a), values, len(a))

    def apply(self, step: int, gradient: np.ndarray) -> None:
        self.v = 0.9 * self.v - 0.02 * gradient
        self.x = self.x + self.v

    def state(self) -> State:
        return {"x": self.x.copy(), "v": self.v.copy()}

    def restore(self, state: State) -> None:
        self.x, self.v = state["x"].astype(float), state["v"].astype(float)


def test_it_is_a_task_and_learns() -> None:
    task = Regression()
    assert isinstance(task, TrainTask)
    reports: list[Progress] = []
    run = train(task, 300, on_step=reports.append)
    assert np.allclose(task.x, [1, 2, 3], atol=1e-2)
    assert reports[-1].step == reports[-1].total == run.step == 300


def test_it_gives_the_bits_of_a_loop_of_three_lines() -> None:
    shared, bare = Regression(), Regression()
    train(shared, 50, on_step=lambda progress: None)
    for step in range(50):
        gradient = mean_gradient(bare, step)
        bare.apply(step, gradient.values)
    assert shared.parameters().tobytes() == bare.parameters().tobytes()


def test_the_mean_counts_every_sample_once() -> None:
    task = Regression()
    parts = [task.gradient(5, s) for s in (0, 1)]
    whole = (4 * parts[0].values + 5 * parts[1].values) / 9
    assert np.allclose(mean_gradient(task, 5).values, whole)


@pytest.mark.parametrize("stop", [1, 37, 99])
def test_an_interrupted_training_resumes_to_the_same_bits(tmp_path: Path, stop: int) -> None:
    def quit_at(progress: Progress) -> None:
        if progress.step >= stop:
            raise KeyboardInterrupt

    def scored(task: Regression) -> dict[str, object]:
        return {"score": lambda: -float(abs(task.x - [1, 2, 3]).max()), "n_scores": 10}

    whole = Regression()
    expected = train(whole, 100, **scored(whole))  # type: ignore[arg-type]
    first = Regression()
    with pytest.raises(KeyboardInterrupt):
        train(first, 100, on_step=quit_at, checkpoint=tmp_path / "state", **scored(first))  # type: ignore[arg-type]
    again = Regression()
    run = train(again, 100, checkpoint=tmp_path / "state", resume=True, **scored(again))  # type: ignore[arg-type]
    assert np.array_equal(again.x, whole.x)
    assert (run.scores, run.best_step, run.loss) == (
        expected.scores, expected.best_step, expected.loss
    )  # fmt: skip


def test_the_best_state_is_kept_and_patience_ends_early() -> None:
    task = Regression()
    scores = iter([1.0, 3.0, 2.0, 1.0, 0.0])
    seen: list[np.ndarray] = []

    def score() -> float:
        seen.append(task.x.copy())
        return next(scores)

    run = train(task, 50, score=score, n_scores=10, patience=2)
    assert (run.step, run.best_step) == (20, 10)
    assert np.array_equal(task.x, seen[1])


def test_ten_bad_gradients_in_a_row_are_an_error() -> None:
    task = Regression()
    task.broken_from = 20
    with pytest.raises(NumericalError, match="learning rate"):
        train(task, 100)


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    def quit_now(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(Regression(), 9, on_step=quit_now, checkpoint=tmp_path / "c", identity="a")
    with pytest.raises(ArtifactError, match="other data"):
        train(Regression(), 9, checkpoint=tmp_path / "c", resume=True, identity="b")
    with pytest.raises(ArtifactError, match="no checkpoint"):
        train(Regression(), 9, checkpoint=tmp_path / "d", resume=True)
    with pytest.raises(ParameterError, match="checkpoint"):
        train(Regression(), 9, resume=True)


def test_a_run_goes_through_json() -> None:
    run = TrainRun(5, 0.1, [5], [0.1], [-np.inf], seconds=2.5)
    assert TrainRun.from_dict(run.to_dict()) == run
