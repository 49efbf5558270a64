"""Something that moves on when acted upon: a simulated user, a feedback loop, a failing cluster.

A process is a rule, not a thing with a memory: the state is a value that the caller holds. So a
planner may branch from one state, and a run can be repeated from its generator alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

State = TypeVar("State")
Action = TypeVar("Action", contravariant=True)
Observation = TypeVar("Observation")


@dataclass(frozen=True, slots=True)
class Transition(Generic[State, Observation]):
    """What one step of ``n`` parallel copies gave.

    Parameters
    ----------
    state : State
        Where the copies are now; hand it to the next ``step``.
    observation : Observation
        What an observer without access to the state sees, one entry for each copy.
    reward : array (n,)
        What the step was worth, in the unit that the process documents.

    Examples
    --------
    >>> import numpy as np
    >>> Transition(state=np.zeros(2), observation=np.zeros(2), reward=np.array([1.0, 0.0]))
    Transition(2 copies, mean reward 0.5)
    """

    state: State
    observation: Observation
    reward: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"Transition({self.reward.size} copies, mean reward {self.reward.mean():.3g})"


@runtime_checkable
class Process(Protocol[State, Action, Observation]):
    """``n`` independent copies of something that moves on when acted upon.

    Two rules hold for every process. All randomness comes from the generator that is passed in, so
    two policies that draw from generators of one seed meet the same luck (common random numbers).
    ``step`` leaves the state that it was given as it was.

    Examples
    --------
    >>> import numpy as np
    >>> class Walk:
    ...     def reset(self, n, generator):
    ...         return np.zeros(n)
    ...     def step(self, state, action, generator):
    ...         moved = state + action + generator.normal(size=state.size)
    ...         return Transition(state=moved, observation=moved, reward=-np.abs(moved))
    >>> isinstance(Walk(), Process)
    True
    """

    def reset(self, n: int, generator: np.random.Generator) -> State:
        """The state of ``n`` fresh copies."""
        ...

    def step(
        self, state: State, action: Action, generator: np.random.Generator
    ) -> Transition[State, Observation]:
        """One step of every copy under its action."""
        ...
