"""Reinforcement learning of language models and other policies, by ranks without a master."""

from foretell.train.rl.balance import Balance, balance
from foretell.train.rl.buffer import DoubleBuffer
from foretell.train.rl.group import Alone, Group, ThreadGroup, TorchGroup, in_threads
from foretell.train.rl.rows import RowBatch

__all__ = [
    "Alone",
    "Balance",
    "DoubleBuffer",
    "Group",
    "RowBatch",
    "ThreadGroup",
    "TorchGroup",
    "balance",
    "in_threads",
]
