"""Networks of a state and a label: dense, on a ring or line of cells, on a grid.

Every network maps ``(past, context, label)`` of shapes (B, h, n), (B, K), (B, d) to (B, m n), with
m = ``n_outputs``. ``d`` may be 0. No batch normalisation: labels would leak through a batch.

Legend: B rows, h states of history, n numbers of a state = channels x cells, K inputs.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from foretell.core import ParameterError

BACKBONES = ("mlp", "conv1d", "unet")
Padding = Literal["circular", "zeros"]

_MOST_SCALE = 16.0


@dataclass(frozen=True)
class Design:
    """What a network is made from.

    Attributes
    ----------
    backbone : "mlp", "conv1d" or "unet"
    shape : tuple of int
        Of a state: (n,), (channels, cells) or (channels, height, width).
    n_frames : int
        States that go in.
    n_context : int
    label_dim : int
    n_outputs : int
        States that come out.
    width, depth : int
        Units of a hidden layer and hidden layers; channels and residual layers on cells.
    periodic : bool
        Whether the cells form a ring or torus; zeros beyond the edge otherwise.
    odd : bool
        Whether the opposite label gives the opposite; dense networks and rings only.
    """

    backbone: str
    shape: tuple[int, ...]
    n_frames: int
    n_context: int
    label_dim: int
    n_outputs: int = 1
    width: int = 128
    depth: int = 3
    periodic: bool = True
    odd: bool = False

    @property
    def n_channels(self) -> int:
        """Channels of a state on its cells."""
        return self.shape[0] if len(self.shape) > 1 else 1

    @property
    def cells(self) -> tuple[int, ...]:
        """Cells of a state."""
        return self.shape[1:] if len(self.shape) > 1 else self.shape


def build(design: Design) -> nn.Module:
    """The network of a design, with torch's default initial weights."""
    check(design.backbone, design.shape)
    if design.odd:
        from foretell.dynamics.lifting.odd_networks import OddDense, OddRing

        return OddDense(design) if design.backbone == "mlp" else OddRing(design)
    kinds: dict[str, type[Dense | Ring | Grid]] = {"mlp": Dense, "conv1d": Ring, "unet": Grid}
    return kinds[design.backbone](design)


def check(backbone: str, shape: tuple[int, ...]) -> None:
    """Refuse a backbone that does not fit the shape of a state."""
    if backbone not in BACKBONES:
        raise ParameterError(f"backbone={backbone!r} is not known; use one of {BACKBONES}.")
    wanted = {"conv1d": (1, 2), "unet": (3,)}.get(backbone)
    if wanted is not None and len(shape) not in wanted:
        needed = "(cells,) or (channels, cells)"
        if backbone == "unet":
            needed = "(channels, height, width)"
        raise ParameterError(
            f'backbone="{backbone}" needs states of shape {needed}; these have {shape}. '
            'Use backbone="mlp", or give the recordings as fields.'
        )
    if backbone == "unet" and min(shape[1:]) < 4:
        raise ParameterError(f"a field of {shape[1:]} cells is too small for a unet; use mlp.")


class Dense(nn.Module):
    """Hidden layers on state, inputs and label side by side.

    A label of d numbers is about sqrt(d) long, a standardised state about sqrt(n): features of the
    state are scaled up to the length of the label, by 16 at most, or the network would first learn
    to ignore the state.
    """

    def __init__(self, design: Design) -> None:
        super().__init__()
        n_state = math.prod(design.shape)
        n_features = design.n_frames * n_state + design.n_context
        ratio = math.sqrt(design.label_dim / n_features) if design.label_dim else 1.0
        self.scale = min(max(ratio, 1.0), _MOST_SCALE)
        sizes = [n_features + design.label_dim, *[design.width] * design.depth]
        layers: list[nn.Module] = []
        for one, two in itertools.pairwise(sizes):
            layers += [nn.Linear(one, two), nn.SiLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(sizes[-1], design.n_outputs * n_state))

    def forward(self, past: Tensor, context: Tensor, label: Tensor) -> Tensor:
        """(B, m n) from (B, h, n), (B, K), (B, d)."""
        features = torch.cat([past.flatten(1), context], dim=1) * self.scale
        out: Tensor = self.layers(torch.cat([features, label], dim=1))
        return out


class Ring(nn.Module):
    """Residual convolutions along one axis; the label enters every layer by a linear map.

    h <- h + conv(silu(h + W_k label)), with W_k to every channel of every cell, so that the noise
    of each cell can be its own.
    """

    def __init__(self, design: Design, kernel: int = 5) -> None:
        super().__init__()
        (self.n_cells,), width = design.cells, design.width
        self.n_channels = design.n_channels
        mode: Padding = "circular" if design.periodic else "zeros"
        pad = min(kernel // 2, self.n_cells - 1)
        size = 2 * pad + 1
        n_in = design.n_frames * design.n_channels + design.n_context
        self.stem = nn.Conv1d(n_in, width, size, padding=pad, padding_mode=mode)
        self.convs = nn.ModuleList(
            nn.Conv1d(width, width, size, padding=pad, padding_mode=mode)
            for _ in range(design.depth)
        )
        self.labels = nn.ModuleList(
            nn.Linear(design.label_dim, width * self.n_cells)
            for _ in range(design.depth if design.label_dim else 0)
        )
        self.head = nn.Conv1d(width, design.n_outputs * design.n_channels, 1)

    def forward(self, past: Tensor, context: Tensor, label: Tensor) -> Tensor:
        """(B, m n) from (B, h, n), (B, K), (B, d)."""
        B, L = len(past), self.n_cells
        x = torch.cat([past.reshape(B, -1, L), context[:, :, None].expand(-1, -1, L)], dim=1)
        h = self.stem(x)
        for k, conv in enumerate(self.convs):
            pushed = h + self.labels[k](label).reshape(h.shape) if len(self.labels) else h
            h = h + conv(functional.silu(pushed))
        out: Tensor = self.head(functional.silu(h)).flatten(1)
        return out


class _Block(nn.Module):
    """Two convolutions, each with the label added before it, around a skip."""

    def __init__(self, n_in: int, n_out: int, n_label: int, mode: Padding) -> None:
        super().__init__()
        self.norms = nn.ModuleList([_norm(n_in), _norm(n_out)])
        self.convs = nn.ModuleList(
            nn.Conv2d(n, n_out, 3, padding=1, padding_mode=mode) for n in (n_in, n_out)
        )
        self.labels = (
            nn.ModuleList(nn.Linear(n_label, n) for n in (n_in, n_out)) if n_label else None
        )
        self.skip = nn.Identity() if n_in == n_out else nn.Conv2d(n_in, n_out, 1)

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        h = x
        for k, (norm, conv) in enumerate(zip(self.norms, self.convs, strict=True)):
            h = functional.gelu(norm(h))
            if self.labels is not None:
                h = h + self.labels[k](code)[:, :, None, None]
            h = conv(h)
        out: Tensor = h + self.skip(x)
        return out


class Grid(nn.Module):
    """A small U-Net: two or three levels of residual blocks, skips joined by concatenation.

    The label goes through two layers and is added before each convolution.
    """

    def __init__(self, design: Design) -> None:
        super().__init__()
        mode: Padding = "circular" if design.periodic else "zeros"
        self.field = (design.n_channels, *design.cells)
        side, levels = min(design.cells), 1
        while (
            levels < 3
            and side % 2 == 0
            and side >= 8
            and all(c % 2**levels == 0 for c in design.cells)
        ):
            side, levels = side // 2, levels + 1
        widths = [design.width * 2**k for k in range(levels)]
        n_code = 256 if design.label_dim else 0
        self.code = (
            nn.Sequential(
                nn.Linear(design.label_dim, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU()
            )
            if design.label_dim
            else nn.Identity()
        )
        n_in = design.n_frames * design.n_channels + design.n_context
        self.stem = nn.Conv2d(n_in, widths[0], 3, padding=1, padding_mode=mode)
        self.down, self.shrink = nn.ModuleList(), nn.ModuleList()
        for k, width in enumerate(widths):
            self.down.append(_Block(width, width, n_code, mode))
            if k + 1 < levels:
                self.shrink.append(
                    nn.Conv2d(width, widths[k + 1], 3, stride=2, padding=1, padding_mode=mode)
                )
        self.middle = nn.ModuleList(_Block(widths[-1], widths[-1], n_code, mode) for _ in range(2))
        self.grow, self.up = nn.ModuleList(), nn.ModuleList()
        for k in reversed(range(levels)):
            self.up.append(_Block(2 * widths[k], widths[k], n_code, mode))
            if k:
                self.grow.append(
                    nn.Conv2d(widths[k], widths[k - 1], 3, padding=1, padding_mode=mode)
                )
        self.norm = _norm(widths[0])
        self.head = nn.Conv2d(
            widths[0], design.n_outputs * design.n_channels, 3, padding=1, padding_mode=mode
        )

    def forward(self, past: Tensor, context: Tensor, label: Tensor) -> Tensor:
        """(B, m n) from (B, h, n), (B, K), (B, d)."""
        _, height, width = self.field
        fields = past.reshape(len(past), -1, height, width)
        constant = context[:, :, None, None].expand(-1, -1, height, width)
        code = self.code(label)
        h = self.stem(torch.cat([fields, constant], dim=1))
        skips: list[Tensor] = []
        for k, block in enumerate(self.down):
            h = block(h, code)
            skips.append(h)
            if k < len(self.shrink):
                h = self.shrink[k](h)
        for block in self.middle:
            h = block(h, code)
        for k, block in enumerate(self.up):
            h = block(torch.cat([h, skips.pop()], dim=1), code)
            if k < len(self.grow):
                h = self.grow[k](functional.interpolate(h, scale_factor=2.0, mode="nearest"))
        out: Tensor = self.head(functional.gelu(self.norm(h))).flatten(1)
        return out


def _norm(n_channels: int) -> nn.Module:
    return nn.GroupNorm(math.gcd(8, n_channels), n_channels)
