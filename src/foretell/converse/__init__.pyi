from .conversation import Conversation, Manners, replay_conversation
from .instrument import (
    Argument,
    Finding,
    Instrument,
    instrument_table,
    missing_arguments,
)
from .lookup import StreamingLookup
from .virtual import replies, run_conversation

__all__ = [
    "Argument",
    "Conversation",
    "Finding",
    "Instrument",
    "Manners",
    "StreamingLookup",
    "instrument_table",
    "missing_arguments",
    "replay_conversation",
    "replies",
    "run_conversation",
]
