"""A small causal transformer and a tokenizer of characters: all that RL needs, with torch alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from foretell.core.errors import DataError, MissingExtraError, ParameterError

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional as F
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train by reinforcement learning") from error

Cache = list[tuple[Tensor, Tensor]]


class CharTokenizer:
    """One token for each character; 0 pads and 1 ends.

    Parameters
    ----------
    alphabet : str
        The characters, all different.

    Examples
    --------
    >>> digits = CharTokenizer("0123456789+=")
    >>> digits.encode("1+2="), digits.decode([5, 1])
    ([3, 12, 4, 13], '3')
    """

    pad_token_id, eos_token_id = 0, 1

    def __init__(self, alphabet: str) -> None:
        if len(set(alphabet)) != len(alphabet) or not alphabet:
            raise ParameterError(
                f"alphabet={alphabet!r} is empty or repeats a character; needed are different ones."
            )
        self.alphabet = alphabet
        self._number = {c: n + 2 for n, c in enumerate(alphabet)}

    def __len__(self) -> int:
        return len(self.alphabet) + 2

    def encode(self, text: str) -> list[int]:
        """Token numbers of a text.

        Raises
        ------
        DataError
            A character is not in the alphabet.
        """
        unknown = [c for c in text if c not in self._number]
        if unknown:
            raise DataError(
                f"{unknown[0]!r} in {text[:40]!r} is not in the alphabet {self.alphabet!r}."
            )
        return [self._number[c] for c in text]

    def decode(self, ids: list[int], **_: Any) -> str:
        """The text of token numbers, without padding and end."""
        return "".join(self.alphabet[i - 2] for i in ids if i >= 2)


@dataclass
class CausalOutput:
    """What a causal model returns."""

    logits: Tensor
    past_key_values: Cache | None = None


class _Block(nn.Module):  # type: ignore[misc,unused-ignore]
    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(
        self, x: Tensor, mask: Tensor | None, past: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        rows, n, width = x.shape
        q, k, v = (
            part.view(rows, n, self.n_heads, -1).transpose(1, 2)
            for part in self.qkv(self.before(x)).split(width, dim=2)
        )
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        mixed = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=mask is None and n > 1
        )
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, n, width))
        return x + self.down(F.gelu(self.up(self.between(x)))), (k, v)


class TinyCausalLM(nn.Module):  # type: ignore[misc,unused-ignore]
    """A decoder-only transformer with learned positions, called like those of transformers.

    Parameters
    ----------
    vocabulary : int
        Tokens it knows.
    width, n_layers, n_heads : int
    longest : int
        Positions.
    outputs : int, optional
        Numbers for each token; by default one logit for each token of the vocabulary. 1 makes
        a critic.
    seed : int
        Of the initial weights.

    Examples
    --------
    >>> model = TinyCausalLM(14, width=32, n_layers=1, n_heads=2, longest=16)
    >>> tuple(model(torch.tensor([[3, 4, 5]])).logits.shape)
    (1, 3, 14)
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        width: int = 128,
        n_layers: int = 2,
        n_heads: int = 4,
        longest: int = 64,
        outputs: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if width % n_heads:
            raise ParameterError(f"width={width} is not a multiple of n_heads={n_heads}.")
        self.longest = longest
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(_Block(width, n_heads) for _ in range(n_layers))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, outputs or vocabulary)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, layer in self.named_modules():
                if isinstance(layer, (nn.Embedding, nn.Linear)):
                    deep = name.endswith((".out", ".down"))
                    small = isinstance(layer, nn.Embedding) or layer is self.head
                    scale = 0.02 if small else layer.weight.shape[1] ** -0.5
                    layer.weight.normal_(0, scale / (1 + deep), generator=generator)
                if isinstance(layer, nn.Linear):
                    layer.bias.zero_()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool = False,
    ) -> CausalOutput:
        """Logits (rows, tokens, outputs); the mask is over all tokens, those of the cache included.

        Raises
        ------
        DataError
            More tokens than positions.
        """
        n, held = input_ids.shape[1], past_key_values[0][0].shape[2] if past_key_values else 0
        if position_ids is None:
            position_ids = torch.arange(held, held + n, device=input_ids.device)[None]
        if held + n > self.longest:
            raise DataError(
                f"{held + n} tokens for a model of {self.longest} positions. Make it longer: "
                f"TinyCausalLM(..., longest={held + n})."
            )
        mask = None
        if attention_mask is not None:
            seen = torch.ones(n, held + n, dtype=torch.bool, device=input_ids.device).tril(held)
            mask = seen & attention_mask[:, None, None, :].bool() | torch.eye(
                n, held + n, dtype=torch.bool, device=input_ids.device
            ).roll(held, 1)
        x = self.token(input_ids) + self.place(position_ids)
        cache: Cache = []
        for number, block in enumerate(self.blocks):
            x, pair = block(x, mask, past_key_values[number] if past_key_values else None)
            cache.append(pair)
        return CausalOutput(self.head(self.last(x)), cache if use_cache else None)
