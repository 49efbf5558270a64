"""A causal model of Hugging Face transformers is a policy like the small one of the package."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="needs the extra 'learn' (torch)")
transformers = pytest.importorskip("transformers", reason="needs the extra 'rl' (transformers)")

from foretell.train.rl import (  # noqa: E402
    CharTokenizer,
    GRPOTrainer,
    LanguagePolicy,
    add_lora,
    in_threads,
)

pytestmark = pytest.mark.peer
LETTERS = CharTokenizer("ab?!")


def llama() -> torch.nn.Module:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(LETTERS), hidden_size=16, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=16, pad_token_id=0,
        bos_token_id=None, eos_token_id=1,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).float()


def test_its_log_probabilities_are_those_of_a_plain_forward_pass() -> None:
    policy = LanguagePolicy(llama(), LETTERS, max_new_tokens=4)
    draws = torch.rand(3, 4, generator=torch.Generator().manual_seed(0))
    rows = policy.rollout(["a?", "ab!?", "b"], torch.arange(3), draws)
    found = policy.log_probs(rows)
    assert torch.allclose(found.detach(), rows.tokens["sampler_logp"], atol=1e-5)
    ids = rows.select([1]).tokens["ids"]
    logp = policy.module(input_ids=ids[None, :-1]).logits.log_softmax(-1)[0]
    mine = policy.log_probs(rows.select([1]))[4:]
    assert torch.allclose(logp[torch.arange(len(ids) - 1), ids[1:]][3:], mine, atol=1e-6)


def test_adapters_train_and_the_result_does_not_depend_on_the_ranks() -> None:
    start = llama()

    def program(group):
        model = add_lora(copy.deepcopy(start), rank=2, names=["q_proj", "down_proj"])
        policy = LanguagePolicy(model, LETTERS, max_new_tokens=3)
        trainer = GRPOTrainer(
            policy, lambda task, text: text.count("a") / 3, group=group, group_size=4,
            prompts_per_step=3, exactness="bitwise", lr=1e-2, kl_coef=0.01,
        )  # fmt: skip
        trainer.fit(["?", "a?", "!"], 2)
        assert trainer.history_[1].kl > 0
        return trainer.params_hash()

    assert in_threads(2, program) == in_threads(1, program) * 2
