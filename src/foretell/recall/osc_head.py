"""OSCHead: an output layer for very many labels, whose size does not depend on how many there are.

The layer emits one tensor t of D = d^p numbers. A label l is p fixed unit vectors of d numbers; a
set of labels is the sum of their tensor products, as in `foretell.recall.binding` with one path for
all. Training turns t towards that sum, and a label's score is its overlap with t. Stored are p d
numbers a label, where a dense layer stores a row of the hidden width, and a holographic one D.

Source: Pence, Yamada, Singh 2026; the loss 1 - cos for holographic label vectors is Ganesan et al.,
"Learning with Holographic Reduced Representations", NeurIPS 2021.

This is the only module of `foretell.recall` that imports torch; `foretell.recall.OSCHead` loads it
when it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foretell.core.errors import DataError, MissingExtraError, ParameterError
from foretell.recall.binding_statistics import MOST_CELLS
from foretell.recall.vocabulary import Vocabulary

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train an OSCHead") from error

_BLOCK = 4_000_000  # numbers of a temporary table


@dataclass(frozen=True)
class TopLabels:
    """The best labels of each row.

    Parameters
    ----------
    labels : tensor of int, shape (batch, top_k)
        Label numbers, best first.
    scores : tensor of float, shape (batch, top_k)
        Their scores.
    """

    labels: Tensor
    scores: Tensor

    def __repr__(self) -> str:
        rows, k = self.labels.shape
        return f"TopLabels({rows} rows, {k} labels each)"


class OSCHead(nn.Module):  # type: ignore[misc,unused-ignore]
    """Extreme multi-label output layer with a fixed tensor code for the labels.

    Parameters
    ----------
    in_features : int
        Width of the last hidden layer.
    n_labels : int
        Number of labels; any, the parameters do not depend on it.
    order, dim : int
        The code of a label: ``order`` unit vectors of ``dim`` numbers; the layer emits dim^order.
    seed : int
        Seed of the label code. The weights are drawn by torch, as for any layer.

    Examples
    --------
    >>> import torch
    >>> head = OSCHead(16, 5000, order=2, dim=12)
    >>> x, labels = torch.randn(8, 16), [[3, 17], [4999], [], [0], [1], [2], [5], [6]]
    >>> head.loss(x, labels).item() > 0
    True
    >>> head.scores(x, top_k=5)
    TopLabels(8 rows, 5 labels each)
    """

    labels: Tensor

    def __init__(
        self, in_features: int, n_labels: int, *, order: int = 2, dim: int = 20, seed: int = 0
    ) -> None:
        super().__init__()
        _check(in_features, n_labels, order, dim)
        self.in_features, self.n_labels, self.order, self.dim = in_features, n_labels, order, dim
        self.project = nn.Linear(in_features, dim**order)
        code = Vocabulary(range(n_labels), order=order, dim=dim, seed=seed).components
        self.register_buffer("labels", torch.from_numpy(np.ascontiguousarray(code)))

    def forward(self, x: Tensor) -> Tensor:
        """The emitted tensor, flattened: shape (batch, dim^order)."""
        emitted: Tensor = self.project(x)
        return emitted

    def loss(self, x: Tensor, Y: Tensor | Sequence[Sequence[int]]) -> Tensor:
        """Mean of 1 - cos between the emitted tensor and the sum of the label codes.

        Parameters
        ----------
        x : tensor of shape (batch, in_features)
            Hidden activations.
        Y : tensor of shape (batch, n_labels), or list of label lists
            The labels of each row; rows without labels do not count.

        Raises
        ------
        DataError
            For labels that do not exist, or shapes that do not fit.
        """
        emitted = self(x)
        rows, labels = self._pairs(Y, len(emitted))
        target = torch.zeros_like(emitted).index_add(0, rows, self.items(labels).to(emitted.dtype))
        labelled = torch.zeros(len(emitted), dtype=torch.bool, device=emitted.device)
        labelled[rows] = True
        cosines = nn.functional.cosine_similarity(emitted[labelled], target[labelled], dim=1)
        return 1 - cosines.mean() if len(cosines) else emitted.sum() * 0.0

    def scores(self, x: Tensor, top_k: int | None = None) -> Tensor | TopLabels:
        """Scores of all labels, or of the best.

        Parameters
        ----------
        x : tensor of shape (batch, in_features)
            Hidden activations.
        top_k : int, optional
            How many labels to return; without it the scores of all, (batch, n_labels).
        """
        if top_k is not None and not 1 <= top_k <= self.n_labels:
            raise ParameterError(f"top_k={top_k!r} is not from 1 to n_labels={self.n_labels}.")
        emitted = self(x)
        step = max(1, _BLOCK // self.dim**self.order)
        parts: list[Tensor] = []
        numbers: list[Tensor] = []
        for start in range(0, self.n_labels, step):
            block = torch.arange(start, min(start + step, self.n_labels), device=emitted.device)
            part = emitted @ self.items(block).to(emitted.dtype).T
            if top_k is not None:
                part, best = part.topk(min(top_k, part.shape[1]), dim=1)
                numbers.append(block[best])
            parts.append(part)
        together = torch.cat(parts, dim=1)
        if top_k is None:
            return together
        best_scores, place = together.topk(top_k, dim=1)
        return TopLabels(torch.cat(numbers, dim=1).gather(1, place), best_scores)

    def items(self, labels: Tensor) -> Tensor:
        """Tensor products of the code of some labels, shape (n, dim^order)."""
        rows = self.labels[0, labels]
        for mode in self.labels[1:]:
            rows = (rows[:, :, None] * mode[labels][:, None, :]).flatten(1)
        return rows

    def extra_repr(self) -> str:
        """What torch prints between the brackets."""
        return f"{self.n_labels} labels, order={self.order}, dim={self.dim}"

    def _pairs(self, Y: Tensor | Sequence[Sequence[int]], batch: int) -> tuple[Tensor, Tensor]:
        device = self.labels.device
        if isinstance(Y, Tensor):
            if Y.shape != (batch, self.n_labels):
                raise DataError(
                    f"Y has the shape {tuple(Y.shape)}; needed is (batch, n_labels) = "
                    f"({batch}, {self.n_labels}), or a list of label lists."
                )
            rows, labels = torch.nonzero(Y, as_tuple=True)
            return rows, labels
        if len(Y) != batch:
            raise DataError(f"Y has {len(Y)} rows where x has {batch}. Give a list for each row.")
        pairs = [(row, int(label)) for row, labels in enumerate(Y) for label in labels]
        wrong = next((pair for pair in pairs if not 0 <= pair[1] < self.n_labels), None)
        if wrong is not None:
            raise DataError(
                f"Label {wrong[1]} of row {wrong[0]} is not from 0 to {self.n_labels - 1}."
            )
        both = torch.tensor(pairs, dtype=torch.long, device=device).reshape(-1, 2)
        return both[:, 0], both[:, 1]


def _check(in_features: int, n_labels: int, order: int, dim: int) -> None:
    named = {"in_features": in_features, "n_labels": n_labels, "order": order, "dim": dim}
    for name, value in named.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ParameterError(f"{name}={value!r} is not a whole number >= 1.")
    if dim**order > MOST_CELLS:
        raise ParameterError(
            f"dim={dim} and order={order} make {dim**order} outputs; the most is {MOST_CELLS}. "
            "Take a smaller dim."
        )
