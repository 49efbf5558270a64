"""A two-layer ReLU network in the form that the convex programme gives it, and its certificates.

    f_k(x) = sum over the neurons j of output k of  sign_j relu(weight_j . x + bias_j)

How far x may move before the answer changes is bounded by how fast f may change. Three bounds, each
valid for any weights and for every x, in the Euclidean norm of x:

total      margin / (2 sum of all |weight_j|)                  Feng, Tan, Pilanci 2026, Thm 4.4
pairwise   margin to class k / (sum of |weight_j| of the two)  at least twice the above
spectral   with c_j = +-weight_j, signed as in f_y - f_k, the difference changes at most by
           sup over unit z of sum_j relu(c_j . z)
             <= |sum_j c_j| / 2 + sqrt(m) sigma_max(c_1 ... c_m) / 2,
           for relu(t) = t/2 + |t|/2, and by Cauchy-Schwarz; or by the pairwise sum, if smaller.

The weights must be those that predict: after rounding them, compute the bounds again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import MissingExtraError, ParameterError

if TYPE_CHECKING:
    import torch

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Bound = Literal["total", "pairwise", "spectral"]
BOUNDS: tuple[Bound, ...] = get_args(Bound)


@dataclass(frozen=True, eq=False)
class ReLUNetwork:
    """Neurons with weights, a sign and the output that they belong to.

    Parameters
    ----------
    weights : array (m, d)
    biases : array (m,)
    signs : array (m,)
        +1 or -1.
    owners : array of int (m,)
        From 0 to ``n_outputs - 1``.
    n_outputs : int

    Examples
    --------
    >>> network = ReLUNetwork(
    ...     np.array([[3.0, 4.0], [0.0, 1.0]]), np.zeros(2), np.ones(2), np.array([0, 1]), 2
    ... )
    >>> network(np.array([[1.0, 1.0]]))
    array([[7., 1.]])
    >>> network.certified_radius(np.array([[1.0, 1.0]]), "pairwise")
    array([1.])
    """

    weights: Array
    biases: Array
    signs: Array
    owners: Integers
    n_outputs: int

    def __call__(self, X: Array) -> Array:
        """Outputs, shape (n, n_outputs)."""
        hidden = np.maximum(X @ self.weights.T + self.biases, 0.0)
        return np.asarray(hidden @ self._output_weights())

    def __repr__(self) -> str:
        m, d = self.weights.shape
        return f"ReLUNetwork({d} inputs, {m} neurons, {self.n_outputs} outputs)"

    def lipschitz(self) -> Array:
        """How much each output may change for a change of the input of norm 1, (n_outputs,)."""
        norms = np.linalg.norm(self.weights, axis=1)
        return np.bincount(self.owners, norms, minlength=self.n_outputs).astype(np.float64)

    def pair_lipschitz(self, bound: Bound = "spectral") -> Array:
        """The same for the difference of every two outputs, (n_outputs, n_outputs)."""
        if bound not in BOUNDS:
            raise ParameterError(f"bound={bound!r} is not one of {', '.join(BOUNDS)}.")
        single, K = self.lipschitz(), self.n_outputs
        if bound == "total":
            return np.full((K, K), 2.0 * single.sum())
        pairs = single[:, None] + single[None, :]
        if bound == "pairwise":
            return np.asarray(pairs)
        for one in range(K):
            for other in range(one + 1, K):
                speed = min(pairs[one, other], self._spectral(one, other))
                pairs[one, other] = pairs[other, one] = speed
        return np.asarray(pairs)

    def certified_radius(self, X: Array, bound: Bound = "spectral") -> Array:
        """Distance within which the largest output of each row stays the largest, (n,)."""
        return radii(self(X), self.pair_lipschitz(bound))

    def to_torch(self, dtype: Any = None) -> torch.nn.Sequential:
        """The same function as Linear, ReLU, Linear; weights of a neuron are split evenly.

        A neuron a of output k becomes a / sqrt(|a|), and its outgoing weight sqrt(|a|) or minus it.
        """
        try:
            import torch
        except ImportError as error:
            raise MissingExtraError("torch", "learn", "export a ReLU network") from error
        sizes = np.linalg.norm(np.column_stack([self.weights, self.biases]), axis=1)
        roots = np.sqrt(np.where(sizes > 0, sizes, 1.0))
        m, d = self.weights.shape
        first = torch.nn.Linear(d, m, dtype=dtype)
        last = torch.nn.Linear(m, self.n_outputs, bias=False, dtype=dtype)
        with torch.no_grad():
            first.weight.copy_(torch.from_numpy(self.weights / roots[:, None]))
            first.bias.copy_(torch.from_numpy(self.biases / roots))
            last.weight.copy_(torch.from_numpy((self._output_weights() * roots[:, None]).T.copy()))
        return torch.nn.Sequential(first, torch.nn.ReLU(), last)

    def _output_weights(self) -> Array:
        S = np.zeros((len(self.signs), self.n_outputs))
        S[np.arange(len(self.signs)), self.owners] = self.signs
        return S

    def _spectral(self, one: int, other: int) -> float:
        mine = (self.owners == one) | (self.owners == other)
        if not mine.any():
            return 0.0
        side = np.where(self.owners[mine] == one, 1.0, -1.0)
        C = self.weights[mine] * (self.signs[mine] * side)[:, None]
        widest = float(np.linalg.norm(C, 2))
        return 0.5 * float(np.linalg.norm(C.sum(axis=0))) + 0.5 * float(np.sqrt(len(C))) * widest


def radii(outputs: Array, speeds: Array) -> Array:
    """Smallest (f_y - f_k) / speed of that difference over k, for the largest output y; (n,).

    Examples
    --------
    >>> radii(np.array([[1.0, 0.0, 0.5]]), np.full((3, 3), 2.0))
    array([0.25])
    """
    rows = np.arange(len(outputs))
    best = np.argmax(outputs, axis=1)
    margin = outputs[rows, best][:, None] - outputs
    speed = speeds[best]
    ratio = np.divide(margin, speed, out=np.full_like(margin, np.inf), where=speed > 0)
    ratio[(speed <= 0) & (margin <= 0)] = 0.0
    ratio[rows, best] = np.inf
    return np.asarray(ratio.min(axis=1))
