"""The networks of a HybridLatentODE in torch: encoder, field and decoders.

The encoder is the identity, padded with zeros, plus a network whose last layer starts small; each
decoder head is the projection back plus a network. So training starts from a faithful picture of
the state, in which nothing is glued yet.

Legend: n columns, m latent, K inputs, J heads.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from foretell.core import MissingExtraError
from foretell.dynamics.hybrid.latent_model import OMEGA, Shape

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train a HybridLatentODE") from error

_SMALL = 0.01  # start of the last layer of the encoder
_PULL = 0.2  # of decoders with fewer heads on what they share with the one that has most


class Network(nn.Module):  # type: ignore[misc,unused-ignore]
    """Linear layers with SiLU between them; the last hidden one may be a sine."""

    def __init__(self, n_in: int, n_out: int, shape: Shape, *, sine: bool) -> None:
        super().__init__()
        widths = [n_in, *[shape.hidden] * shape.n_layers, n_out]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.sine = sine
        if sine:
            last_hidden: Any = self.layers[-2]
            width = widths[-3]
            bound = (6.0 / width) ** 0.5 / OMEGA
            nn.init.uniform_(last_hidden.weight, -bound, bound)

    def features(self, x: Tensor) -> Tensor:
        """The last hidden layer (..., h) at x (..., n_in)."""
        for layer in self.layers[:-2]:
            x = nn.functional.silu(layer(x))
        x = self.layers[-2](x)
        return torch.sin(OMEGA * x) if self.sine else nn.functional.silu(x)

    def forward(self, x: Tensor) -> Tensor:
        """Values (..., n_out) at x (..., n_in)."""
        return self.layers[-1](self.features(x))  # type: ignore[no-any-return,unused-ignore]


def with_tangent(network: Network, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Values of a network at x (..., n_in) and their derivatives along v."""
    layers: Any = network.layers
    for k, layer in enumerate(layers[:-1]):
        a, along = layer(x), nn.functional.linear(v, layer.weight)
        if network.sine and k == len(layers) - 2:
            x, v = torch.sin(OMEGA * a), OMEGA * torch.cos(OMEGA * a) * along
        else:
            gate = torch.sigmoid(a)
            x, v = a * gate, (gate + a * gate * (1 - gate)) * along
    return layers[-1](x), nn.functional.linear(v, layers[-1].weight)


class Encoder(nn.Module):  # type: ignore[misc,unused-ignore]
    """f: columns to latent."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.network = Network(shape.n_columns, shape.n_latent, shape, sine=shape.sine)
        self.pad = shape.n_latent - shape.n_columns
        last: Any = self.network.layers[-1]
        with torch.no_grad():
            last.weight.mul_(_SMALL)
            last.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """Latent states (..., m) of columns (..., n)."""
        return nn.functional.pad(x, (0, self.pad)) + self.network(x)  # type: ignore[no-any-return,unused-ignore]

    def along(self, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Latent states of columns x and their velocities when x moves with v."""
        z, w = with_tangent(self.network, x, v)
        pad = (0, self.pad)
        return nn.functional.pad(x, pad) + z, nn.functional.pad(v, pad) + w


class NetworkField(Network):
    """V: latent and inputs to latent velocity, per model time."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape.n_latent + shape.n_controls, shape.n_latent, shape, sine=False)

    def forward(self, z: Tensor, u: Tensor | None = None) -> Tensor:
        """Velocities (..., m)."""
        return super().forward(z if u is None else torch.cat([z, u], dim=-1))


class PiecewiseField(nn.Module):  # type: ignore[misc,unused-ignore]
    """V = A z + W phi(z) + h + C u with the last P units of phi rectified."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        m = shape.n_latent
        self.n_relu = shape.n_relu
        self.A = nn.Parameter(-0.1 * torch.rand(m))
        self.W = nn.Parameter(0.1 * torch.randn(m, m) / m**0.5)
        self.h = nn.Parameter(torch.zeros(m))
        self.C = nn.Parameter(0.01 * torch.randn(m, shape.n_controls))

    def forward(self, z: Tensor, u: Tensor | None = None) -> Tensor:
        """Velocities (..., m)."""
        first = z.shape[-1] - self.n_relu
        phi = torch.cat([z[..., :first], torch.relu(z[..., first:])], dim=-1)
        v = self.A * z + nn.functional.linear(phi, self.W, self.h)
        return v if u is None else v + nn.functional.linear(u, self.C)


class Decoder(nn.Module):  # type: ignore[misc,unused-ignore]
    """Latent to candidates of the columns and logits of their weights, for each number of heads.

    The numbers of heads that are tried share all layers but the last. Those with fewer heads than
    the most pull on the shared layers and on the latent space with a fifth of their gradient:
    with all of it, a decoder that cannot jump pulls apart what is glued; with none, a torus was
    learned twenty times worse on one seed of two.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.parts = [J * shape.n_columns + (J if J > 1 else 0) for J in shape.heads]
        self.heads, self.n_columns = shape.heads, shape.n_columns
        self.network = Network(shape.n_latent, sum(self.parts), shape, sine=shape.sine)

    def forward(self, z: Tensor) -> list[tuple[Tensor, Tensor | None]]:
        """For each J candidates (..., J, n) and logits (..., J); no logits for one head."""
        n, found = self.n_columns, []
        last: Any = self.network.layers[-1]
        features = self.network.features(z)
        weights, biases = last.weight.split(self.parts), last.bias.split(self.parts)
        for J, W, b in zip(self.heads, weights, biases, strict=True):
            leads = max(self.heads) == J
            base, h = (z, features) if leads else (_pulled(z), _pulled(features))
            out = nn.functional.linear(h, W, b)
            x = out[..., : J * n].reshape(*z.shape[:-1], J, n) + base[..., None, :n]
            found.append((x, out[..., J * n :] if J > 1 else None))
        return found


def _pulled(x: Tensor) -> Tensor:
    """The same values with a fifth of the gradient."""
    return x.detach() + _PULL * (x - x.detach())


class HybridNetworks(nn.Module):  # type: ignore[misc,unused-ignore]
    """All networks of one model."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.encoder = Encoder(shape)
        self.field = PiecewiseField(shape) if shape.field == "pwl" else NetworkField(shape)
        self.decoder = Decoder(shape)
