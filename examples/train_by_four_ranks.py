"""Reward a small model for short sums, by one rank and by four: the same weights, bit for bit.

The ranks are threads here. Under torchrun, ``group=foretell.train.rl.join()`` makes each process
one.
"""

from foretell.train.rl import (
    CharTokenizer,
    GRPOTrainer,
    LanguagePolicy,
    Task,
    TinyCausalLM,
    in_threads,
)

DIGITS = CharTokenizer("0123456789+=")
SUMS = [Task(f"{a}+{b}=", str(a + b)) for a in range(5) for b in range(5)]


def closeness(task: Task, completion: str) -> float:
    return float(completion[:1] == task.answer) - 0.2 * abs(len(completion) - 1)


def program(group):
    model = TinyCausalLM(len(DIGITS), width=32, n_layers=1, n_heads=2, longest=8)
    policy = LanguagePolicy(model, DIGITS, max_new_tokens=2)
    trainer = GRPOTrainer(
        policy, closeness, group=group, group_size=8, prompts_per_step=8, lr=5e-3,
        exactness="bitwise", chunks=2,
    )  # fmt: skip
    trainer.fit(SUMS, n_steps=12)
    return trainer.history_, trainer.params_hash(), trainer.stats()


(history, alone, _), *_ = in_threads(1, program)
four = in_threads(4, program)
print(history[0], "->", history[-1])
print(four[0][2])
print(f"weights of one rank {alone[:12]}, of four {', '.join(h[:12] for _, h, _ in four)}")
assert {alone} == {h for _, h, _ in four}
