"""Networks that are odd in their label: at the opposite label they give the opposite.

The mean over labels of such a network is exactly 0 at every state, in one evaluation. Signals that
come from the label pass layers without biases and an odd activation; the state only scales them.

Legend: B rows, h states of history, n numbers of a state = channels x cells, K inputs, d label.
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from foretell.dynamics.lifting.networks import Design, Padding


class OddDense(nn.Module):
    """o <- tanh(W o * (1 + gate(state))), from the label on."""

    def __init__(self, design: Design) -> None:
        super().__init__()
        n_state, width = math.prod(design.shape), design.width
        n_features = design.n_frames * n_state + design.n_context
        sizes = [design.label_dim, *[width] * design.depth]
        self.stem = nn.Sequential(nn.Linear(n_features, width), nn.SiLU(), nn.Linear(width, width))
        self.gates = nn.ModuleList(nn.Linear(width, width) for _ in range(design.depth))
        self.layers = nn.ModuleList(
            nn.Linear(one, two, bias=False) for one, two in itertools.pairwise(sizes)
        )
        self.head = nn.Linear(width, design.n_outputs * n_state, bias=False)

    def forward(self, past: Tensor, context: Tensor, label: Tensor) -> Tensor:
        """(B, m n) from (B, h, n), (B, K), (B, d)."""
        state = functional.silu(self.stem(torch.cat([past.flatten(1), context], dim=1)))
        o = label
        for layer, gate in zip(self.layers, self.gates, strict=True):
            o = torch.tanh(layer(o)) * (1.0 + gate(state))
        out: Tensor = self.head(o)
        return out


class OddRing(nn.Module):
    """o <- o + conv(tanh(o + W_k label) * (1 + gate_k(state))), along one axis of cells."""

    def __init__(self, design: Design, kernel: int = 5) -> None:
        super().__init__()
        (self.n_cells,), width = design.cells, design.width
        mode: Padding = "circular" if design.periodic else "zeros"
        pad = min(kernel // 2, self.n_cells - 1)
        size, n_in = 2 * pad + 1, design.n_frames * design.n_channels + design.n_context
        self.stem = nn.Conv1d(n_in, width, size, padding=pad, padding_mode=mode)
        self.gates = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(design.depth + 1))
        self.convs = nn.ModuleList(
            nn.Conv1d(width, width, size, padding=pad, padding_mode=mode, bias=False)
            for _ in range(design.depth)
        )
        self.labels = nn.ModuleList(
            nn.Linear(design.label_dim, width * self.n_cells, bias=False)
            for _ in range(design.depth)
        )
        self.head = nn.Conv1d(width, design.n_outputs * design.n_channels, 1, bias=False)

    def forward(self, past: Tensor, context: Tensor, label: Tensor) -> Tensor:
        """(B, m n) from (B, h, n), (B, K), (B, d)."""
        B, L = len(past), self.n_cells
        x = torch.cat([past.reshape(B, -1, L), context[:, :, None].expand(-1, -1, L)], dim=1)
        state = functional.silu(self.stem(x))
        gates = [1.0 + gate(state) for gate in self.gates]
        o = x.new_zeros(B, len(gates[0][0]), L)
        for conv, push, gate in zip(self.convs, self.labels, gates[:-1], strict=True):
            o = o + conv(torch.tanh(o + push(label).reshape(o.shape)) * gate)
        out: Tensor = self.head(o * gates[-1]).flatten(1)
        return out
