"""How much a server lets itself be asked, and what it counts."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from foretell.core.clock import Clock, MonotonicClock


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Bounds of one server.

    Parameters
    ----------
    sessions : int
        Conversations at once, those whose page went away a moment ago included.
    hello_s : float
        Seconds for a new connection to say what it wants.
    idle_s : float
        Silence after which a connection ends.
    session_s : float
        After so long a conversation ends, whatever happens.
    keep_s : float
        How long a conversation waits for its page to come back.
    rate, burst : float
        Messages a second, and at once; of sound as well.
    queue, queue_bytes : int
        Messages and bytes that wait for a page that reads slowly; then it is cut off.
    send_s : float
        Seconds for one message to be taken.
    completions : int
        Requests at `/v1/chat/completions` at once.
    """

    sessions: int = 100
    hello_s: float = 10.0
    idle_s: float = 900.0
    session_s: float = 14_400.0
    keep_s: float = 300.0
    rate: float = 80.0
    burst: float = 240.0
    queue: int = 2000
    queue_bytes: int = 8 << 20
    send_s: float = 15.0
    completions: int = 16


class Bucket:
    """So many a second, and so many at once.

    Examples
    --------
    >>> from foretell.core import VirtualClock
    >>> clock = VirtualClock()
    >>> bucket = Bucket(1.0, 2.0, clock)
    >>> bucket.take(), bucket.take(), bucket.take(), clock.advance(1.0), bucket.take()
    (True, True, False, 1.0, True)
    """

    def __init__(self, rate: float, burst: float, clock: Clock | None = None) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock or MonotonicClock()
        self._left, self._at = burst, self._clock.now()

    def take(self) -> bool:
        """Whether one more is allowed now."""
        now = self._clock.now()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


@dataclass(slots=True)
class Metrics:
    """What a server counts, in the text format that monitoring reads."""

    counts: Counter[str] = field(default_factory=Counter)
    waits: deque[float] = field(default_factory=lambda: deque(maxlen=1000))

    def answered(self, seconds: float) -> None:
        """An answer came so long after the end of its question."""
        self.counts["answers"] += 1
        self.waits.append(seconds)

    def text(self, gauges: Mapping[str, float]) -> str:
        """All of it, after what is the case now.

        Examples
        --------
        >>> metrics = Metrics()
        >>> metrics.answered(0.2)
        >>> print(metrics.text({"sessions": 1}))
        # TYPE foretell_sessions gauge
        foretell_sessions 1
        # TYPE foretell_answers_total counter
        foretell_answers_total 1
        # TYPE foretell_answer_seconds summary
        foretell_answer_seconds{quantile="0.5"} 0.2000
        foretell_answer_seconds{quantile="0.95"} 0.2000
        <BLANKLINE>
        """
        lines = []
        for name, value in gauges.items():
            lines += [f"# TYPE foretell_{name} gauge", f"foretell_{name} {value:g}"]
        for name, count in sorted(self.counts.items()):
            lines.append(f"# TYPE foretell_{name}_total counter")
            lines.append(f"foretell_{name}_total {count}")
        waits = sorted(self.waits)
        if waits:
            lines.append("# TYPE foretell_answer_seconds summary")
            for quantile in (0.5, 0.95):
                value = waits[min(int(quantile * len(waits)), len(waits) - 1)]
                lines.append(f'foretell_answer_seconds{{quantile="{quantile}"}} {value:.4f}')
        return "\n".join(lines) + "\n"
