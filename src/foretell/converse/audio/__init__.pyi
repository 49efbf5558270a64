from .activity import EnergyActivity, SileroActivity
from .hearing import Heard, Hearing, hear
from .log_mel import log_mel
from .parts import Part, available
from .resampling import Resampler
from .samples import as_mono
from .turn_end import Patience, SoundTurnEnd, TextTurnEnd, unfinished
from .voice import Voice
from .whisper import HeardWord, WhisperEncoder, WhisperRecogniser

__all__ = [
    "EnergyActivity",
    "Heard",
    "HeardWord",
    "Hearing",
    "Part",
    "Patience",
    "Resampler",
    "SileroActivity",
    "SoundTurnEnd",
    "TextTurnEnd",
    "Voice",
    "WhisperEncoder",
    "WhisperRecogniser",
    "as_mono",
    "available",
    "hear",
    "log_mel",
    "unfinished",
]
