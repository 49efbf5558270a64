from .classifier import ConvexReLUClassifier
from .network import ReLUNetwork
from .regressor import ConvexReLURegressor
from .results import LanguageDecision, RegularizationPath

__all__ = [
    "ConvexReLUClassifier",
    "ConvexReLURegressor",
    "LanguageDecision",
    "ReLUNetwork",
    "RegularizationPath",
]
