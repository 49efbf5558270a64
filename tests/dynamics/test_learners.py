"""The contract of every learner, kept by each of the three."""

from foretell.dynamics import ALRNN, CPLRNN, ReLUNeuralODE
from tests.contracts.learner import LearnerContract


class TestCPLRNN(LearnerContract):
    make = CPLRNN


class TestALRNN(LearnerContract):
    make = ALRNN


class TestReLUNeuralODE(LearnerContract):
    make = ReLUNeuralODE
