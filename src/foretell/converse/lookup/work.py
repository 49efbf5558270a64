"""The queue of work: newest first, a bounded number at once, and the unstarted can be dropped."""

from __future__ import annotations

from collections.abc import Collection, Sequence


class WorkQueue:
    """Names of jobs that wait and that run.

    Parameters
    ----------
    workers : int
        How many jobs run at once.

    Examples
    --------
    >>> queue = WorkQueue(workers=1)
    >>> queue.ask(["a", "b"]); queue.start()
    ['a']
    >>> queue.ask(["c"])  # newer work goes first
    >>> queue.finish("a"), queue.start(), queue.waiting
    (True, ['c'], ['b'])
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._stack: list[str] = []
        self.running: dict[str, None] = {}

    @property
    def waiting(self) -> list[str]:
        """Jobs not begun, the next one first."""
        return self._stack[::-1]

    def ask(self, jobs: Sequence[str]) -> None:
        """Put jobs before all others, in this order; one that waits already moves up."""
        asked = [job for job in dict.fromkeys(jobs) if job not in self.running]
        self._stack = [job for job in self._stack if job not in set(asked)] + asked[::-1]

    def keep_only(self, jobs: Collection[str]) -> list[str]:
        """Drop waiting jobs that are not among these; gives those dropped."""
        dropped = [job for job in self.waiting if job not in jobs]
        self._stack = [job for job in self._stack if job in jobs]
        return dropped

    def start(self) -> list[str]:
        """Take the next jobs, as far as workers are free."""
        begun = []
        while self._stack and len(self.running) < self.workers:
            job = self._stack.pop()
            self.running[job] = None
            begun.append(job)
        return begun

    def start_now(self, job: str) -> None:
        """Run a job beside the workers."""
        self.running[job] = None

    def finish(self, job: str) -> bool:
        """A job ended; whether it was running."""
        return self.running.pop(job, "unknown") is None
