"""RAdam on one flat array: Adam whose step is held back while its variance estimate is young.

Source: Liu et al., "On the variance of the adaptive learning rate and beyond", ICLR 2020.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class RAdam:
    """Rectified Adam; ``update`` changes the parameters in place.

    Parameters
    ----------
    n_parameters : int
        Length of the flat parameter array.

    Examples
    --------
    >>> import numpy as np
    >>> x, optimiser = np.array([3.0]), RAdam(1)
    >>> for _ in range(400):
    ...     optimiser.update(x, 2.0 * x, learning_rate=0.05)
    >>> bool(abs(x[0]) < 0.05)
    True
    """

    beta1, beta2, epsilon = 0.9, 0.999, 1e-8

    def __init__(self, n_parameters: int) -> None:
        self.step = 0
        self.mean = np.zeros(n_parameters)
        self.square = np.zeros(n_parameters)

    def update(self, parameters: Array, gradient: Array, *, learning_rate: float) -> None:
        """Take one step against ``gradient``."""
        self.step += 1
        t, b1, b2 = self.step, self.beta1, self.beta2
        self.mean += (1.0 - b1) * (gradient - self.mean)
        self.square += (1.0 - b2) * (gradient * gradient - self.square)
        scale = learning_rate / (1.0 - b1**t)
        rho_inf = 2.0 / (1.0 - b2) - 1.0
        rho = rho_inf - 2.0 * t * b2**t / (1.0 - b2**t)
        if rho <= 5.0:
            parameters -= scale * self.mean
            return
        rectified = math.sqrt(
            (rho - 4.0) * (rho - 2.0) * rho_inf / ((rho_inf - 4.0) * (rho_inf - 2.0) * rho)
        )
        scale *= rectified * math.sqrt(1.0 - b2**t)
        parameters -= scale * self.mean / (np.sqrt(self.square) + self.epsilon)
