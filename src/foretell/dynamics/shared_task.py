"""A learner that several workers train: its batch in shards, each drawn from (seed, step, shard).

The task of ``fit`` draws all batches from one stream of chance; here every shard has its own, so
that any worker can compute any of them. The bits differ from those of ``fit`` and depend on the
number of shards, not on the number of workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core import ParameterError
from foretell.data import Trajectories
from foretell.dynamics.fitting import Trained
from foretell.dynamics.forced_task import ForcedTask
from foretell.dynamics.history import History
from foretell.dynamics.sequence_learner import PreparedTraining, SequenceLearner
from foretell.train import Gradient, shard_generator
from foretell.train.task import State

LEARNERS = ("cplrnn", "alrnn", "neural-ode")


class SharedTask(ForcedTask):
    """A prepared training as a ``TrainTask`` of several shards.

    Parameters
    ----------
    prepared : PreparedTraining
        From ``prepare_training`` of a learner.
    shards : int
        Shards of a step; the batch of the learner is shared out among them.
    seed : int
        Of the batches.

    Examples
    --------
    >>> import numpy as np
    >>> from foretell.dynamics import CPLRNN
    >>> from foretell.train import train
    >>> t = np.arange(400) * 0.1
    >>> x = np.column_stack([np.sin(t), np.cos(t)])
    >>> model = CPLRNN(latent_dim=4, n_relu=1, sequence_length=50, max_updates=50, random_state=0)
    >>> prepared = model.prepare_training(x, t)
    >>> task = SharedTask(prepared, shards=4)
    >>> run = train(task, 50)
    >>> finish(model, prepared, task.state()).predict(x[0], t[:10]).shape
    (1, 10, 2)
    """

    def __init__(self, prepared: PreparedTraining, shards: int = 8, seed: int = 0) -> None:
        p, batch = prepared, prepared.settings.batch_size
        if not 1 <= shards <= batch:
            raise ParameterError(
                f"shards={shards!r}; needed is a whole number from 1 to the {batch} windows of a "
                f"batch. Write for instance shards={min(8, batch)}, or a larger batch_size."
            )
        super().__init__(p.kernel, p.layout, p.theta, p.sampler, p.settings, p.rng)
        self.shards, self.seed = shards, seed
        sizes = [batch // shards + (n < batch % shards) for n in range(shards)]
        self._sizes = sizes
        self._samplers = {size: p.sampler.resized(size) for size in set(sizes)}

    def n_shards(self, step: int) -> int:
        """Shards of a step."""
        return self.shards

    def gradient(self, step: int, shard: int) -> Gradient:
        """Gradient of the windows of one shard, weighted by their number."""
        size = self._sizes[shard]
        batch = self._samplers[size].draw(shard_generator(self.seed, step, shard))
        found = self.gradient_of(step, batch)
        return replace(found, weight=float(size))

    def state(self) -> State:
        """Parameters and moments."""
        whole = super().state()
        return {name: whole[name] for name in ("theta", "mean", "square", "optimiser_step")}


def learner_task(
    file: str,
    learner: str = "cplrnn",
    *,
    shards: int = 8,
    steps: int,
    seed: int = 0,
    time: str | None = None,
    group: str | None = None,
    controls: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    settings: dict[str, Any] | None = None,
) -> SharedTask:
    """The task of a job file: a learner, and the recording that it learns.

    Parameters
    ----------
    file : str
        A table, as for ``foretell fit``.
    learner : {"cplrnn", "alrnn", "neural-ode"}
    shards, steps, seed
        Of the training.
    time, group, controls, columns
        Columns, as for ``foretell fit``.
    settings : dict, optional
        Constructor arguments of the learner.
    """
    _, prepared = _prepare(
        file, learner, steps=steps, seed=seed, time=time, group=group, controls=controls,
        columns=columns, settings=settings,
    )  # fmt: skip
    return SharedTask(prepared, shards, seed)


def learned(state: State, **arguments: Any) -> SequenceLearner:
    """The model that a training of ``learner_task`` with the same arguments ended with."""
    arguments.pop("shards", None)
    file, learner = arguments.pop("file"), arguments.pop("learner", "cplrnn")
    return finish(*_prepare(file, learner, **arguments), state)


def finish(model: SequenceLearner, prepared: PreparedTraining, state: State) -> SequenceLearner:
    """Give a learner the parameters of a state; they are the last ones, not the best of many."""
    theta: NDArray[np.float64] = np.array(state["theta"], dtype=np.float64)
    step = int(np.asarray(state["optimiser_step"], dtype=np.int64)[0])
    score = prepared.score(prepared.kernel, theta)
    history = History([step], [float("nan")], [score], 0)
    model.conclude_training(prepared, Trained(theta, step, score, history, 0.0, True))
    return model


def _prepare(
    file: str,
    learner: str,
    *,
    steps: int,
    seed: int = 0,
    time: str | None = None,
    group: str | None = None,
    controls: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    settings: dict[str, Any] | None = None,
) -> tuple[SequenceLearner, PreparedTraining]:
    from foretell.dynamics import ALRNN, CPLRNN, ReLUNeuralODE

    classes: dict[str, type[SequenceLearner]] = dict(
        zip(LEARNERS, (CPLRNN, ALRNN, ReLUNeuralODE), strict=True)
    )
    if learner not in classes:
        raise ParameterError(
            f"learner={learner!r} is none of {', '.join(LEARNERS)}, whose gradients can be shared "
            "out. Use foretell fit for the others."
        )
    options = {"time": time, "group": group, "controls": tuple(controls), "columns": columns}
    data = Trajectories.read(file, **options)
    given = {"max_updates": steps, "random_state": seed, **(settings or {})}
    try:
        model = classes[learner](**given)
    except TypeError as error:
        raise ParameterError(f"the learner {learner} has no such setting: {error}.") from error
    return model, model.prepare_training(data)
