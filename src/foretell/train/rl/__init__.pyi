from .balancing import Balance, balance
from .buffer import DoubleBuffer
from .group import Alone, Group, ThreadGroup, TorchGroup, in_threads
from .grpo import GRPOTrainer
from .launch import join
from .lora import add_lora
from .policy import LanguagePolicy, Policy, Task
from .ppo import PPOTrainer
from .rewards import exact_match, first_number_match, numeric_match
from .rows import RowBatch
from .runner import Runner, run_workflow
from .tiny import CharTokenizer, TinyCausalLM
from .trainer import RLStep

__all__ = [
    "Alone",
    "Balance",
    "CharTokenizer",
    "DoubleBuffer",
    "GRPOTrainer",
    "Group",
    "LanguagePolicy",
    "PPOTrainer",
    "Policy",
    "RLStep",
    "RowBatch",
    "Runner",
    "Task",
    "ThreadGroup",
    "TinyCausalLM",
    "TorchGroup",
    "add_lora",
    "balance",
    "exact_match",
    "first_number_match",
    "in_threads",
    "join",
    "numeric_match",
    "run_workflow",
]
