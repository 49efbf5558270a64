"""What a HybridLatentODE is trained to make small.

Legend: B windows, T steps, n columns, m latent, J heads. Samples with a missing cell have weight
zero wherever they would have to be encoded.
"""

from __future__ import annotations

from foretell.core import MissingExtraError

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train a HybridLatentODE") from error


def head_loss(
    candidates: Tensor, logits: Tensor | None, x: Tensor, seen: Tensor, spread: float
) -> Tensor:
    """Per sample (...): squared error of one head, or the mixture's negative log-likelihood.

    -s log sum_j pi_j exp(-|x - x_j|^2 / s), so that the head which is near a sample explains it
    and the others are left free; for one head this is |x - x_1|^2. The squares are means over the
    cells that were observed.
    """
    cells = seen.sum(dim=-1).clamp(min=1.0)
    away = ((candidates - x[..., None, :]) ** 2 * seen[..., None, :]).sum(dim=-1) / cells[..., None]
    if logits is None:
        return away[..., 0]
    log_pi = torch.log_softmax(logits, dim=-1)
    return -spread * torch.logsumexp(log_pi - away / spread, dim=-1)


def collapse_losses(z: Tensor, level: float) -> tuple[Tensor, Tensor]:
    """Hinge on the variance of each latent coordinate, and mean square of their covariances.

    ``z`` is (samples, m). The hinge alone cannot see latents that are copies of each other.
    """
    centred = z - z.mean(dim=0)
    covariance = centred.t() @ centred / max(len(z) - 1, 1)
    variances = covariance.diagonal()
    m = len(variances)
    off = covariance.pow(2).sum() - variances.pow(2).sum()
    return torch.relu(level - variances).sum(), off / max(m * (m - 1), 1)


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Mean of values with weights of the same shape."""
    return (values * weights).sum() / weights.sum().clamp(min=1e-12)
