"""What a training loop remembers and does now and then, as a part of the state of the training."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from foretell.core import ParameterError

Memory = dict[str, Any]


class Every:
    """Calls a function after every so many steps; given to ``MaskedDataParallel`` as a schedule.

    A variable of the loop begins anew in a worker that was started anew. What the function puts
    into its dictionary is kept in checkpoints and taken over by such a worker, and a step that a
    worker has taken over from others is not counted twice. Every worker calls the function, on the
    same parameters, so all come to the same values.

    Parameters
    ----------
    n_steps : int
        The function is called after each n_steps steps.
    function : callable
        ``function(memory)``; may evaluate the model and change the learning rate of the optimiser.
        ``memory`` is a dictionary of names and JSON values, empty in the beginning.

    Attributes
    ----------
    memory : dict

    Examples
    --------
    >>> def at_the_end_of_an_epoch(memory):
    ...     memory["epochs"] = memory.get("epochs", 0) + 1
    >>> epochs = Every(5, at_the_end_of_an_epoch)
    >>> for _ in range(12): epochs.step()
    >>> epochs.memory
    {'epochs': 2}
    """

    def __init__(self, n_steps: int, function: Callable[[Memory], object]) -> None:
        if not isinstance(n_steps, int) or isinstance(n_steps, bool) or n_steps < 1:
            raise ParameterError(f"n_steps={n_steps!r}; needed is a whole number of at least 1.")
        if not callable(function):
            raise ParameterError(
                f"function={function!r}; needed is a function of one dictionary, for instance "
                'def at_epoch_end(memory): memory["epochs"] = memory.get("epochs", 0) + 1'
            )
        self.n_steps, self.function = n_steps, function
        self.memory: Memory = {}
        self._taken = 0

    def step(self) -> None:
        """Count a step, and call the function when it is its turn."""
        self._taken += 1
        if self._taken % self.n_steps:
            return
        self.function(self.memory)
        for name, value in self.memory.items():
            if not isinstance(name, str) or not _is_plain(value):
                raise ParameterError(
                    f"memory[{name!r}] is a {type(value).__name__}; needed are names and JSON "
                    "values: numbers, text, lists of them. Write for instance "
                    'memory["best"] = float(loss).'
                )

    def state_dict(self) -> Memory:
        """How many steps there were, and the memory."""
        return {"taken": self._taken, "memory": dict(self.memory)}

    def load_state_dict(self, state: Memory) -> None:
        """Take over what ``state_dict`` returned."""
        self._taken = int(state["taken"])
        self.memory.clear()
        self.memory.update(state["memory"])


def _is_plain(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
