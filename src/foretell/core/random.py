"""One way to turn ``random_state`` into a generator; nothing here touches a global seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretell.core.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np


def as_generator(random_state: int | np.random.Generator | None = None) -> np.random.Generator:
    """Turn a seed, a generator or None into a NumPy generator.

    Parameters
    ----------
    random_state : int, numpy.random.Generator or None
        The same integer gives the same stream on every machine; a generator is used as it is and
        advances; None draws fresh entropy from the operating system.

    Raises
    ------
    ParameterError
        For anything else, for instance a negative or fractional seed.

    Examples
    --------
    >>> int(as_generator(7).integers(1000)) == int(as_generator(7).integers(1000))
    True
    """
    import numpy as np

    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None:
        return np.random.default_rng()
    whole = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool)
    if not whole or random_state < 0:
        raise ParameterError(
            f"random_state={random_state!r} is not a whole number >= 0, a numpy Generator or None. "
            "Write for instance random_state=0."
        )
    return np.random.default_rng(int(random_state))
