"""What one question cost and saved: its timeline, and the seconds from the end of the words on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import DataError
from foretell.core.random import as_generator
from foretell.core.timeline import Event, Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TICK_S = 0.02  # differences below this are none


@dataclass(frozen=True)
class Trace:
    """One question, from the first word to its evidence.

    Parameters
    ----------
    timeline : Timeline
        Everything that came in and went out.
    stop_s : float
        When the last word really ended: where latency begins, not where silence was noticed.
    commit_s : float
        When the turn was known to be over.
    reply_s : float
        From the evidence to the first word of the answer.
    """

    timeline: Timeline
    stop_s: float
    commit_s: float
    reply_s: float = 0.0

    @property
    def evidence(self) -> Event:
        """The event that hands the evidence over; a DataError where there is none."""
        event = self.timeline.last("evidence")
        if event is None:
            raise DataError("This question was given up before it had evidence.")
        return event

    @property
    def ready_s(self) -> float:
        """When the evidence was there and the turn over."""
        return max(self.evidence.time, self.commit_s)

    @property
    def first_word_s(self) -> float:
        """Seconds from the end of the question to the first word of the answer."""
        return self.ready_s + self.reply_s - self.stop_s

    @property
    def residual_s(self) -> float:
        """Seconds for which the evidence is waited for after the turn is over."""
        return self.ready_s - self.commit_s

    @property
    def lead_s(self) -> float | None:
        """How long before the end of the words the evidence was frozen; None where it was not."""
        frozen = self.timeline.last("early_commit")
        return self.stop_s - frozen.time if frozen and self.evidence["early"] else None

    @property
    def ids(self) -> tuple[str, ...]:
        """The documents of the evidence."""
        ids: tuple[str, ...] = self.evidence["ids"]
        return ids

    def to_records(self) -> list[dict[str, Any]]:
        """One row for each event, for a data frame."""
        return [{"time": e.time, "kind": e.kind, **e.data} for e in self.timeline]

    def plot_timeline(self, axes: Axes | None = None) -> Axes:
        """Words, calls and work as bars over time; returns matplotlib axes."""
        from foretell.converse.lookup.trace_plot import plot_timeline

        return plot_timeline(self, axes)


@dataclass(frozen=True)
class LatencyRow:
    """One policy over many questions; seconds count from the true end of the words."""

    policy: str
    n: int
    mean_s: float
    median_s: float
    p95_s: float
    residual_s: float
    saved_s: float  # mean against the baseline, positive is faster
    saved_interval: tuple[float, float]
    slower: float  # share of questions slower than the baseline by more than a tick
    calls: float
    most_calls: int
    work: float
    wasted: float
    frozen: float  # share of questions whose evidence was frozen early


@dataclass(frozen=True)
class LatencyReport:
    """Policies side by side, on the same questions."""

    baseline: str
    rows: tuple[LatencyRow, ...]

    def __getitem__(self, policy: str) -> LatencyRow:
        for row in self.rows:
            if row.policy == policy:
                return row
        raise DataError(f"There is no policy {policy!r} in this report.")

    def __str__(self) -> str:
        head = (
            f"{'policy':24} {'mean':>6} {'median':>6} {'p95':>6} {'waits':>6} "
            f"{'saved vs ' + self.baseline:>24} {'slower':>7} {'calls':>6} {'work':>6} {'waste':>6}"
        )
        lines = [
            f"{r.policy:24} {r.mean_s:6.2f} {r.median_s:6.2f} {r.p95_s:6.2f} {r.residual_s:6.2f} "
            f"{f'{r.saved_s:.2f} [{r.saved_interval[0]:.2f}, {r.saved_interval[1]:.2f}]':>24} "
            f"{r.slower:7.3f} {r.calls:6.2f} {r.work:6.2f} {r.wasted:6.2f}"
            for r in self.rows
        ]
        return "\n".join([head, *lines])


def latency_report(
    traces: Mapping[str, Sequence[Trace]], *, baseline: str = "at_vad", random_state: int = 0
) -> LatencyReport:
    """Compare policies on the same questions.

    Parameters
    ----------
    traces : mapping of str to sequence of Trace
        For each policy, the traces of the same questions in the same order.
    baseline : str
        Asking as soon as silence is noticed belongs into every comparison: most of what streaming
        seems to gain on short questions is only that it does not wait for the endpoint.
    random_state : int
        For the bootstrap over questions, 95 %, paired.

    Raises
    ------
    DataError
        When the baseline is missing or the numbers of questions differ.
    """
    if baseline not in traces:
        raise DataError(
            f"The baseline {baseline!r} is not among {', '.join(traces) or 'no policies'}. Run it "
            "too: StreamingLookup(retriever, trigger=AtPause())."
        )
    n = len(traces[baseline])
    if not n or any(len(some) != n for some in traces.values()):
        sizes = ", ".join(f"{name}: {len(some)}" for name, some in traces.items())
        raise DataError(f"Every policy needs traces of the same questions; given are {sizes}.")
    base = np.array([trace.first_word_s for trace in traces[baseline]])
    rows = (_row(name, some, base, random_state) for name, some in traces.items())
    return LatencyReport(baseline, tuple(rows))


def _row(name: str, traces: Sequence[Trace], base: NDArray[np.float64], seed: int) -> LatencyRow:
    first = np.array([trace.first_word_s for trace in traces])
    saved = base - first
    draws = as_generator(seed).integers(saved.size, size=(2000, saved.size))
    low, high = np.quantile(saved[draws].mean(axis=1), [0.025, 0.975])
    calls = np.array([trace.evidence["calls"] for trace in traces])
    return LatencyRow(
        policy=name,
        n=saved.size,
        mean_s=float(first.mean()),
        median_s=float(np.median(first)),
        p95_s=float(np.quantile(first, 0.95)),
        residual_s=float(np.mean([trace.residual_s for trace in traces])),
        saved_s=float(saved.mean()),
        saved_interval=(float(low), float(high)),
        slower=float(np.mean(saved < -TICK_S)),
        calls=float(calls.mean()),
        most_calls=int(calls.max()),
        work=float(np.mean([trace.evidence["work"] for trace in traces])),
        wasted=float(np.mean([trace.evidence["wasted"] for trace in traces])),
        frozen=float(np.mean([trace.evidence["early"] for trace in traces])),
    )
