from .classifier import ConvexReLUClassifier
from .detector import ConvexLanguageDetector
from .encoders import CharacterNgrams, LogMel
from .network import ReLUNetwork
from .regressor import ConvexReLURegressor
from .results import LanguageDecision, RegularizationPath
from .stream import LanguageStream

__all__ = [
    "CharacterNgrams",
    "ConvexLanguageDetector",
    "ConvexReLUClassifier",
    "ConvexReLURegressor",
    "LanguageDecision",
    "LanguageStream",
    "LogMel",
    "ReLUNetwork",
    "RegularizationPath",
]
