"""What is optimised: advantages, the clipped objective, and one normaliser for all ranks.

    B  rows of the step on all ranks     G  samples of a prompt
    r  reward of a row                   m  1 on drawn tokens, else 0

A loss is a sum over tokens with weights that already hold the normaliser, so that gradients add up
over micro-batches and ranks. A mean on each rank would weigh a token by how many others happen
to be on its rank, and the balance policy would change what is optimised.
"""

from __future__ import annotations

from dataclasses import dataclass

from foretell.core.errors import DataError, MissingExtraError, ParameterError
from foretell.train.rl.rows import RowBatch

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train by reinforcement learning") from error

LOSS_NORMS = ("token", "sequence", "constant")


def group_advantages(rows: RowBatch, group_size: int, *, ddof: int = 1, std: bool = True) -> Tensor:
    """(r - mean) / (sd + 1e-6) over the samples of each prompt, shape (B,), float32.

    Parameters
    ----------
    rows : RowBatch
        With the row column ``reward``; all samples of each prompt.
    group_size : int
    ddof : int
        1 divides the variance by G - 1, 0 by G.
    std : bool
        False subtracts the mean only (Dr. GRPO).

    Raises
    ------
    DataError
        Samples of a prompt are missing.

    Examples
    --------
    >>> n, uid = torch.tensor([1, 1]), torch.tensor([0, 1])
    >>> rows = RowBatch(n, uid, rows={"reward": torch.tensor([1.0, 0.0])})
    >>> group_advantages(rows, 2).tolist()
    [0.7071..., -0.7071...]
    """
    _, group, counts = torch.unique(rows.uid // group_size, return_inverse=True, return_counts=True)
    if len(rows) and int(counts.min()) != group_size:
        at = int((group == int(counts.argmin())).nonzero()[0])
        raise DataError(
            f"Prompt {int(rows.uid[at]) // group_size} has {int(counts.min())} of {group_size} "
            "samples on this rank. Compute advantages before rows are moved, or move whole groups."
        )
    order = rows.uid.argsort()
    reward = rows.rows["reward"].double()[order].view(-1, group_size)
    centred = reward - reward.mean(1, keepdim=True)
    if std:
        centred = centred / (reward.std(1, correction=ddof, keepdim=True) + 1e-6)
    out = torch.empty(len(rows), dtype=torch.float32)
    out[order] = centred.flatten().float()
    return out


def varied_groups(rows: RowBatch, group_size: int) -> Tensor:
    """Which rows belong to a prompt whose samples differ in reward, shape (B,)."""
    order = rows.uid.argsort()
    reward = rows.rows["reward"][order].view(-1, group_size)
    varied = (reward != reward[:, :1]).any(1).repeat_interleave(group_size)
    out = torch.empty(len(rows), dtype=torch.bool)
    out[order] = varied
    return out


def gae(rows: RowBatch, *, discount: float = 1.0, trace: float = 0.95) -> tuple[Tensor, Tensor]:
    """Generalised advantages and returns of drawn tokens, each (N,); 0 on the prompt.

    The reward of a row comes with its last drawn token. ``value`` at a token is that of the
    state in which it was drawn. delta_t = r_t + discount V_{t+1} - V_t, and
    A_t = delta_t + discount trace A_{t+1}.
    """
    rows.need("mask", "value")
    value, mask = (rows.to_padded(name) for name in ("value", "mask"))
    steps = torch.arange(mask.shape[1])
    last = (mask * steps).argmax(1) if len(rows) else torch.zeros(0, dtype=torch.int64)
    value = value.double() * mask
    advantage = torch.zeros_like(value)
    after, next_value = torch.zeros(len(rows)).double(), torch.zeros(len(rows)).double()
    for t in reversed(range(mask.shape[1])):
        reward = torch.where(last == t, rows.rows["reward"].double(), 0.0)
        delta = reward + discount * next_value - value[:, t]
        now = delta + discount * trace * after
        after = torch.where(mask[:, t], now, after)
        next_value = torch.where(mask[:, t], value[:, t], next_value)
        advantage[:, t] = torch.where(mask[:, t], now, 0.0)
    returns = rows.pack((advantage + value) * mask)
    return rows.pack(advantage).float(), returns.float()


def token_weights(
    rows: RowBatch, loss_norm: str, *, n_tokens: int, n_rows: int, longest: int
) -> Tensor:
    """What each token counts in the loss, shape (N,); 0 on prompts.

    Parameters
    ----------
    rows : RowBatch
        With ``mask``.
    loss_norm : {"token", "sequence", "constant"}
        Mean over all drawn tokens; mean over rows of their means; sum over B * longest.
    n_tokens, n_rows : int
        Drawn tokens and rows on all ranks.
    longest : int
        Longest response that is possible.
    """
    mask = rows.tokens["mask"].float()
    match loss_norm:
        case "token":
            return mask / max(n_tokens, 1)
        case "sequence":
            own = rows.token_sums(mask).clamp(min=1)
            return mask / (own.repeat_interleave(rows.lengths) * n_rows)
        case "constant":
            return mask / (n_rows * longest)
    raise ParameterError(f"loss_norm={loss_norm!r}; needed is one of {', '.join(LOSS_NORMS)}.")


@dataclass(frozen=True)
class TokenLosses:
    """Terms of each token, shape (N,), not yet weighted."""

    policy: Tensor
    kl: Tensor
    clipped: Tensor


def clipped_objective(
    logp: Tensor,
    old_logp: Tensor,
    ref_logp: Tensor | None,
    advantage: Tensor,
    clip: tuple[float, float],
    cap: Tensor | None = None,
) -> TokenLosses:
    """- min(rho A, clip(rho) A), the divergence exp(d) - d - 1 from the reference, and what clips.

    Parameters
    ----------
    logp, old_logp, ref_logp, advantage : tensor (N,)
        rho = exp(logp - old_logp), d = ref_logp - logp.
    clip : (float, float)
        rho is held in 1 - low .. 1 + high.
    cap : tensor (N,), optional
        Importance weights for the sampler's own probabilities.
    """
    rho = (logp - old_logp).exp()
    bounded = rho.clamp(1 - clip[0], 1 + clip[1])
    gain = torch.minimum(rho * advantage, bounded * advantage)
    if cap is not None:
        gain = gain * cap
    away = torch.zeros_like(logp) if ref_logp is None else ref_logp - logp
    return TokenLosses(-gain, away.exp() - away - 1, bounded * advantage < rho * advantage)
