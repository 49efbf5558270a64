from .instrument import (
    Argument,
    Finding,
    Instrument,
    instrument_table,
    missing_arguments,
)
from .lookup import StreamingLookup

__all__ = [
    "Argument",
    "Finding",
    "Instrument",
    "StreamingLookup",
    "instrument_table",
    "missing_arguments",
]
