"""Train anything: the protocol of a task, and the loop that runs it."""

from foretell.train.loop import TrainRun, train
from foretell.train.task import Gradient, TrainTask, mean_gradient, shard_generator

__all__ = ["Gradient", "TrainRun", "TrainTask", "mean_gradient", "shard_generator", "train"]
