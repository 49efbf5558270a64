from .conversation import Conversation, Manners, replay_conversation
from .instrument import (
    Argument,
    Finding,
    Instrument,
    instrument_table,
    missing_arguments,
)
from .language import (
    CharacterNgrams,
    ConvexLanguageDetector,
    ConvexReLUClassifier,
    ConvexReLURegressor,
    LanguageDecision,
    LanguageStream,
    LogMel,
)
from .lookup import StreamingLookup
from .virtual import replies, run_conversation

__all__ = [
    "Argument",
    "CharacterNgrams",
    "Conversation",
    "ConvexLanguageDetector",
    "ConvexReLUClassifier",
    "ConvexReLURegressor",
    "Finding",
    "Instrument",
    "LanguageDecision",
    "LanguageStream",
    "LogMel",
    "Manners",
    "StreamingLookup",
    "instrument_table",
    "missing_arguments",
    "replay_conversation",
    "replies",
    "run_conversation",
]
