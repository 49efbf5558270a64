"""Which prompts a step asks, and which of them a rank draws."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from foretell.core.errors import DataError
from foretell.train.rl.policy import Task
from foretell.train.task import shard_generator

_ORDER = 0x0DE5  # what keeps the order of the prompts apart from other uses of the seed


def as_tasks(prompts: Iterable[Any]) -> list[Task]:
    """Tasks from tasks, texts, (prompt, answer) pairs, or mappings with "prompt" and "answer".

    Raises
    ------
    DataError
        There are none, or one has no prompt.

    Examples
    --------
    >>> as_tasks(["hello", ("1+1=", "2")])
    [Task(prompt='hello', answer=None), Task(prompt='1+1=', answer='2')]
    """
    tasks = []
    for number, one in enumerate(prompts):
        if isinstance(one, Task):
            tasks.append(one)
        elif isinstance(one, dict):
            if "prompt" not in one:
                raise DataError(f"Prompt {number} has no key 'prompt', only {', '.join(one)}.")
            tasks.append(Task(one["prompt"], one.get("answer")))
        elif isinstance(one, tuple) and len(one) == 2:
            tasks.append(Task(*one))
        else:
            tasks.append(Task(one))
    if not tasks:
        raise DataError("There are no prompts; needed is at least one.")
    return tasks


class PromptStream:
    """An endless stream of prompts, shuffled anew in every pass; place i is the same on all ranks.

    Parameters
    ----------
    n_prompts : int
    seed : int

    Examples
    --------
    >>> stream = PromptStream(3, seed=0)
    >>> sorted(stream.at(i) for i in range(3, 6)), stream.share(range(6, 11), 0, 2)
    ([0, 1, 2], [6, 8, 10])
    """

    def __init__(self, n_prompts: int, seed: int) -> None:
        self.n_prompts, self.seed = n_prompts, seed
        self._orders: dict[int, Any] = {}

    def at(self, place: int) -> int:
        """Number of the prompt at a place of the stream."""
        turn, within = divmod(place, self.n_prompts)
        if turn not in self._orders:
            generator = shard_generator(self.seed, turn, _ORDER)
            self._orders = {turn: generator.permutation(self.n_prompts)} | {
                k: v for k, v in self._orders.items() if k == turn - 1
            }
        return int(self._orders[turn][within])

    @staticmethod
    def share(places: range, copy: int, n_copies: int) -> list[int]:
        """The places that one of several copies of the model draws."""
        return [place for k, place in enumerate(places) if k % n_copies == copy]
