"""What is trained: a policy that draws rows and gives the log-probabilities of what it drew.

Randomness comes in as numbers in [0, 1), one for each token, made from (seed, uid) by the trainer:
a row is the same on whichever rank it is drawn.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from foretell.core.errors import DataError, MissingExtraError, ParameterError
from foretell.train.rl.lora import add_lora
from foretell.train.rl.rows import RowBatch

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train by reinforcement learning") from error


@dataclass(frozen=True)
class Task:
    """What is asked, and what a reward may compare with.

    Parameters
    ----------
    prompt : object
        A text for a language policy.
    answer : object
        Whatever the reward needs.
    """

    prompt: Any
    answer: Any = None


class Policy(Protocol):
    """Anything that can be trained by policy gradients."""

    module: nn.Module
    n_draws: int

    def rollout(self, prompts: Sequence[Any], uid: Tensor, draws: Tensor) -> RowBatch:
        """One row for each prompt.

        Token columns ``mask`` (1 where something was drawn) and ``sampler_logp``, and what
        ``log_probs`` needs. ``draws`` has shape (rows, n_draws).
        """
        ...

    def log_probs(self, rows: RowBatch) -> Tensor:
        """Log-probability of each drawn token, shape (N,), with gradient; 0 where none was."""
        ...

    def completions(self, rows: RowBatch) -> list[Any]:
        """What a reward looks at, for each row."""
        ...


class LanguagePolicy:
    """A causal language model with its tokenizer.

    Parameters
    ----------
    module : torch.nn.Module
        Called with ``input_ids``, ``attention_mask``, ``position_ids``, ``past_key_values`` and
        ``use_cache``; returns something with ``logits``: `TinyCausalLM` and the causal
        models of transformers.
    tokenizer : object
        With ``encode``, ``decode``, ``eos_token_id`` and ``pad_token_id``.
    max_new_tokens : int
        Longest response, its end included.
    temperature : float
        Logits are divided by it, when drawing and when training.

    Examples
    --------
    >>> from foretell.train.rl import CharTokenizer, TinyCausalLM
    >>> digits = CharTokenizer("0123456789+=")
    >>> model = TinyCausalLM(len(digits), width=32, n_layers=1, n_heads=2)
    >>> policy = LanguagePolicy(model, digits, max_new_tokens=3)
    >>> rows = policy.rollout(["1+2="], torch.tensor([0]), torch.rand(1, 3))
    >>> bool(torch.allclose(policy.log_probs(rows), rows.tokens["sampler_logp"], atol=1e-5))
    True
    """

    def __init__(
        self, module: nn.Module, tokenizer: Any, *, max_new_tokens: int = 32,
        temperature: float = 1.0,
    ) -> None:  # fmt: skip
        if max_new_tokens < 1 or not temperature > 0:
            raise ParameterError(
                f"max_new_tokens={max_new_tokens!r}, temperature={temperature!r}; needed are at "
                "least one token and a positive temperature."
            )
        self.module, self.tokenizer = module.eval(), tokenizer
        self.n_draws, self.temperature = max_new_tokens, temperature
        known = inspect.signature(module.forward).parameters
        self._cache = "cache" if "cache" in known else "past_key_values"  # transformers renamed it
        pad = tokenizer.pad_token_id
        self._pad = int(tokenizer.eos_token_id if pad is None else pad)
        self._eos = int(tokenizer.eos_token_id)

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        *,
        gguf_file: str | None = None,
        lora_rank: int | None = 8,
        max_new_tokens: int = 64,
        temperature: float = 1.0,
        device: str = "cpu",
    ) -> LanguagePolicy:
        """A checkpoint of Hugging Face transformers from a folder, in float32.

        Parameters
        ----------
        folder : path
            Never downloaded from: it must be here.
        gguf_file : str, optional
            A quantised file in the folder, which is expanded to float32 (needs ``gguf``).
        lora_rank : int, optional
            Train adapters of this rank; None trains all weights.
        max_new_tokens, temperature
            See the class.
        device : str

        Raises
        ------
        MissingExtraError
            transformers is not installed.
        """
        try:
            from transformers import AutoModelForCausalLM, AutoTokenizer
        except ImportError as error:
            raise MissingExtraError("transformers", "rl", "load a language model") from error
        source = {"gguf_file": gguf_file} if gguf_file else {}
        where = str(folder)
        tokenizer = AutoTokenizer.from_pretrained(where, local_files_only=True, **source)
        model: Any = AutoModelForCausalLM.from_pretrained(
            where, local_files_only=True, dtype=torch.float32, **source
        )
        model = model.to(device)
        if lora_rank:
            add_lora(model, rank=lora_rank)
        return cls(model, tokenizer, max_new_tokens=max_new_tokens, temperature=temperature)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.module.parameters()).device

    def encode(self, prompt: Any) -> list[int]:
        """Token numbers of a prompt; a list of chat messages goes through the chat template.

        Raises
        ------
        DataError
            The prompt has no tokens.
        """
        if isinstance(prompt, str):
            ids = self.tokenizer.encode(prompt)
        else:
            ids = self.tokenizer.apply_chat_template(
                prompt, add_generation_prompt=True, tokenize=True, return_dict=False
            )
        if not ids:
            raise DataError(f"The prompt {prompt!r} has no tokens; needed is at least one.")
        return list(ids)

    def rollout(
        self, prompts: Sequence[Any], uid: Tensor, draws: Tensor, *, greedy: bool = False
    ) -> RowBatch:
        """Continue each prompt until it ends or the longest response is reached."""
        encoded = [torch.tensor(self.encode(prompt)) for prompt in prompts]
        new, logp = self._draw(encoded, draws, greedy)
        ended = (new == self._eos).int()
        n_new = torch.where(ended.any(1), ended.argmax(1) + 1, new.shape[1])
        n_old = torch.tensor([len(ids) for ids in encoded])
        ids, mask, kept = [], [], []
        for row, old in enumerate(encoded):
            count = int(n_new[row])
            ids += [old, new[row, :count]]
            mask += [torch.zeros(len(old), dtype=torch.bool), torch.ones(count, dtype=torch.bool)]
            kept += [torch.zeros(len(old)), logp[row, :count]]
        columns = {"ids": ids, "mask": mask, "sampler_logp": kept}
        return RowBatch(n_old + n_new, uid, {name: torch.cat(c) for name, c in columns.items()})

    @torch.no_grad()
    def _draw(self, encoded: list[Tensor], draws: Tensor, greedy: bool) -> tuple[Tensor, Tensor]:
        """New tokens (rows, steps) and their log-probabilities."""
        rows, longest = len(encoded), max(map(len, encoded))
        ids = torch.full((rows, longest), self._pad)
        mask = torch.zeros(rows, longest, dtype=torch.int64)
        for row, prompt in enumerate(encoded):
            ids[row, longest - len(prompt) :] = prompt
            mask[row, longest - len(prompt) :] = 1
        ragged = bool((mask == 0).any())
        place = (mask.cumsum(1) - 1).clamp(min=0)
        ids, mask, place, draws = (t.to(self.device) for t in (ids, mask, place, draws))
        past, done = None, torch.zeros(rows, dtype=torch.bool, device=self.device)
        tokens, logps = [], []
        for step in range(draws.shape[1]):
            out = self.module(
                input_ids=ids, attention_mask=mask if ragged else None, position_ids=place,
                use_cache=True, **{self._cache: past},
            )  # fmt: skip
            past = getattr(out, self._cache)
            logits = out.logits[:, -1].float() / self.temperature
            token = logits.argmax(1) if greedy else _inverse_cdf(logits, draws[:, step])
            token = torch.where(done, self._pad, token)
            tokens.append(token)
            logps.append(logits.log_softmax(1).gather(1, token[:, None])[:, 0])
            done = done | (token == self._eos)
            if bool(done.all()):
                break
            ids, place = token[:, None], place[:, -1:] + 1
            mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
        return torch.stack(tokens, 1).cpu(), torch.stack(logps, 1).cpu()

    def log_probs(self, rows: RowBatch) -> Tensor:
        """Log-probabilities of the response, 0 on the prompt, packed (N,)."""
        rows.need("ids", "mask")
        ids = rows.to_padded("ids", fill=self._pad).to(self.device)
        logits = self.module(input_ids=ids[:, :-1], use_cache=False).logits.float()
        picked = -nn.functional.cross_entropy(
            (logits / self.temperature).flatten(0, 1), ids[:, 1:].flatten(), reduction="none"
        ).view(len(rows), -1)
        padded = nn.functional.pad(picked, (1, 0)).cpu()
        return rows.pack(padded) * rows.tokens["mask"]

    def completions(self, rows: RowBatch) -> list[str]:
        """The response of each row as text."""
        ids, mask = rows.tokens["ids"], rows.tokens["mask"]
        texts, start = [], 0
        for length in rows.lengths.tolist():
            new = ids[start : start + length][mask[start : start + length]].tolist()
            texts.append(self.tokenizer.decode(new, skip_special_tokens=True))
            start += length
        return texts


def _inverse_cdf(logits: Tensor, draw: Tensor) -> Tensor:
    """The token at which the cumulated probability passes the draw."""
    mass = logits.double().softmax(1).cumsum(1)
    at = torch.searchsorted(mass, (draw.double() * mass[:, -1])[:, None], right=True)
    return at[:, 0].clamp(max=logits.shape[1] - 1)
