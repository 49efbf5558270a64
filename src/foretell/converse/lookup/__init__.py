"""Look things up while the question is still being asked."""

from foretell.converse.lookup.bm25 import BM25
from foretell.converse.lookup.cost_model import LearnedStays
from foretell.converse.lookup.live import LiveTurn
from foretell.converse.lookup.logistic import LogisticModel
from foretell.converse.lookup.model_trigger import ModelTrigger, label_walk, trigger_examples
from foretell.converse.lookup.prefix import FEATURES, Look, Prefix
from foretell.converse.lookup.query import Query, agreed, content_query, text_query
from foretell.converse.lookup.reflectors import (
    Call,
    DocumentCache,
    LastResult,
    Reflector,
    TopKEqual,
)
from foretell.converse.lookup.repair import contradicted, repaired
from foretell.converse.lookup.retriever import RecordedRetriever, Retriever
from foretell.converse.lookup.risk_controlled import (
    RiskControlled,
    evidence_errors,
    question_cases,
)
from foretell.converse.lookup.settling import Stabilization, stabilization
from foretell.converse.lookup.simulation import Timing, run_events
from foretell.converse.lookup.spoken import SpokenWord, partials, spread_words
from foretell.converse.lookup.store import DocumentStore
from foretell.converse.lookup.streaming import StreamingLookup
from foretell.converse.lookup.tools import Tool, instrument_tool, tool
from foretell.converse.lookup.trace import LatencyReport, LatencyRow, Trace, latency_report
from foretell.converse.lookup.triggers import (
    AfterTurn,
    AtPause,
    CostAwareTrigger,
    EveryChange,
    FixedInterval,
    Moment,
    Trigger,
)
from foretell.converse.lookup.turn import LookupPlan, LookupTurn
from foretell.converse.lookup.work import WorkQueue

__all__ = [
    "BM25",
    "FEATURES",
    "AfterTurn",
    "AtPause",
    "Call",
    "CostAwareTrigger",
    "DocumentCache",
    "DocumentStore",
    "EveryChange",
    "FixedInterval",
    "LastResult",
    "LatencyReport",
    "LatencyRow",
    "LearnedStays",
    "LiveTurn",
    "LogisticModel",
    "Look",
    "LookupPlan",
    "LookupTurn",
    "ModelTrigger",
    "Moment",
    "Prefix",
    "Query",
    "RecordedRetriever",
    "Reflector",
    "Retriever",
    "RiskControlled",
    "SpokenWord",
    "Stabilization",
    "StreamingLookup",
    "Timing",
    "Tool",
    "TopKEqual",
    "Trace",
    "Trigger",
    "WorkQueue",
    "agreed",
    "content_query",
    "contradicted",
    "evidence_errors",
    "instrument_tool",
    "label_walk",
    "latency_report",
    "partials",
    "question_cases",
    "repaired",
    "run_events",
    "spread_words",
    "stabilization",
    "text_query",
    "tool",
    "trigger_examples",
]
