"""Two-operand additions for a small language model: three splits, a tokenizer, a warm start."""

from collections.abc import Callable

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from foretell.train.rl import Task

SYMBOLS = "0123456789+="


def tokenizer() -> PreTrainedTokenizerFast:
    words = {"<pad>": 0, "<eos>": 1, **{c: n + 2 for n, c in enumerate(SYMBOLS)}}
    inner = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    inner.decoder = decoders.Fuse()
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", padding_side="left"
    )
    made.clean_up_tokenization_spaces = False
    return made


def splits(by: str = "digit") -> tuple[list[Task], list[Task], list[Task]]:
    """Training, validation and held-out additions below 100, a tenth each of the last two.

    By digit: (100a+b) mod 10 = 3 and = 7, so no training addition has a second number that ends
    like the held-out ones. By chance: any thousand pairs.
    """
    mixed = np.random.default_rng(7).permutation(10_000) if by == "chance" else np.arange(10_000)
    parts: tuple[list[Task], list[Task], list[Task]] = ([], [], [])
    for a in range(100):
        for b in range(100):
            part = {3: 1, 7: 2}.get(int(mixed[100 * a + b]) % 10, 0)
            parts[part].append(Task(f"{a}+{b}=", str(a + b)))
    return parts


def new_model(seed: int) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(SYMBOLS) + 2, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=32, pad_token_id=0,
        eos_token_id=1, bos_token_id=None, tie_word_embeddings=False,
    )  # fmt: skip
    return LlamaForCausalLM(config).float()


def warm_start(
    model: LlamaForCausalLM, tasks: list[Task], steps: int, seed: int,
    enough: Callable[[], bool] = lambda: False,
) -> int:  # fmt: skip
    """Supervised steps on the answers until it is enough, asked every 10; how many they were."""
    code = tokenizer()
    rng = np.random.default_rng(seed)
    adam = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
    for step in range(steps):
        rows = [tasks[k] for k in rng.integers(len(tasks), size=48)]
        texts = [(code.encode(t.prompt), [*code.encode(t.answer), 1]) for t in rows]
        width = max(len(p) + len(a) for p, a in texts)
        ids = torch.tensor([p + a + [0] * (width - len(p) - len(a)) for p, a in texts])
        labels = torch.tensor(
            [[-100] * len(p) + a + [-100] * (width - len(p) - len(a)) for p, a in texts]
        )
        for group in adam.param_groups:
            group["lr"] = 2e-3 * (1 - step / steps)
        loss = model(input_ids=ids, labels=labels).loss
        adam.zero_grad()
        loss.backward()
        adam.step()
        if step % 10 == 9 and enough():
            return step + 1
    return steps
