"""A transformer that learns a text, trained by three processes, of which two are killed.

`plain` is the loop as one writes it in PyTorch, `masked` the same loop with the marked lines
changed. Needs the extra `learn` (torch).
"""

import argparse
import importlib.util
import sys
from pathlib import Path

WIDTH, CONTEXT, BATCH, STEPS = 32, 32, 8, 24


def build():
    """A two-layer transformer, its optimiser, and a text that is always at hand."""
    import torch
    from torch import nn

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Embedding(128, WIDTH)
            self.place = nn.Embedding(CONTEXT, WIDTH)
            layer = nn.TransformerEncoderLayer(WIDTH, 2, 4 * WIDTH, batch_first=True)
            self.body = nn.TransformerEncoder(layer, 2)
            self.head = nn.Linear(WIDTH, 128)

        def forward(self, x):
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
            h = self.token(x) + self.place(torch.arange(x.shape[1]))
            return self.head(self.body(h, mask=mask, is_causal=True))

    model = Transformer()
    text = torch.tensor(list(Path(argparse.__file__).read_bytes())).clamp(max=127)
    return model, torch.optim.AdamW(model.parameters(), lr=3e-3), text


def get_batch(text, size):
    """Random stretches of the text, and the same one letter later."""
    import torch

    starts = torch.randint(len(text) - CONTEXT - 1, (size,))
    rows = starts[:, None] + torch.arange(CONTEXT + 1)
    return text[rows[:, :-1]], text[rows[:, 1:]]


def loss_of(model, x, y):
    from torch import nn

    return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


def plain():
    model, optimizer, text = build()
    for step in range(STEPS):
        x, y = get_batch(text, BATCH)
        loss = loss_of(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(step, loss.item())


def masked():
    from foretell.train.stacked import MaskedDataParallel  # new

    model, optimizer, text = build()
    train = MaskedDataParallel(model, optimizer)  # new
    for step in train.steps():  # changed

        def unit_loss(unit):  # new
            x, y = get_batch(text, BATCH // unit.count)  # changed
            return loss_of(model, x, y)  # changed

        loss = train.step(unit_loss)  # in place of zero_grad, backward and step
        if step % 10 == 0 and train.leader:  # changed
            print(step, loss)


def main():
    """What `foretell train job.toml --inject ... --verify` does, in Python."""
    from foretell.train.stacked import Supervisor, WorkerSpec

    job = {
        "target": f"{Path(__file__).stem}:masked",
        "path": [str(Path(__file__).parent)],
        "steps": STEPS,
        "units": 4,
    }
    kills = "kill:2@8,kill:0@16/reduce"  # at step 8 between two units, at step 16 inside the sum
    killed = Supervisor(WorkerSpec(survive=2, faults=kills, **job), 3, replace_dead=False).run()
    alone = Supervisor(WorkerSpec(survive=0, **job), 1).run()
    print(f"three workers, {killed.failures} killed: loss {killed.loss:.4f}, {killed.sha256[:16]}")
    print(f"one worker, none killed:  loss {alone.loss:.4f}, {alone.sha256[:16]}")
    print("identical to the failure-free run:", "yes" if killed.sha256 == alone.sha256 else "no")
    return 0 if killed.sha256 == alone.sha256 else 1


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        print('needs torch: pip install "foretell[learn]"')
        sys.exit(0)
    sys.exit(main())
