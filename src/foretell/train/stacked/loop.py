"""The step that outlives its workers: plan, compute what is missing, add up, commit; else heal.

    view    = agreed members; whoever is behind takes the state of the source over
    plan    = who computes which unit, the same on every member
    compute = the units of mine that I have not computed yet in this step
    total   = sum over members of integers
    commit  = if the view still stands; then the optimiser, on the same bits everywhere

After a failure the units computed so far are kept, and only those of the dead are computed anew,
by other members, in the same step. Source: SPARe, arXiv 2603.00357; the agreement, exact sums and
the deal of units are ours.

A task with S shards in a step, N workers and q units: shard k belongs to unit k mod N q.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import ForetellError, NumericalError, ParameterError, WipeoutError
from foretell.train.plan.controller import Assignment, ReorderController
from foretell.train.plan.placement import StackPlacement
from foretell.train.stacked.collective import Alone, Collective, ViewLostError
from foretell.train.stacked.exact import N_WORDS, StepSum, UnitSum
from foretell.train.stacked.faults import FaultInjector
from foretell.train.stacked.meeting import Meeting, Unmet
from foretell.train.stacked.membership import View
from foretell.train.stacked.plans import as_base, checksum, from_base
from foretell.train.stacked.states import digest, pack, unpack
from foretell.train.task import Gradient, TrainTask

Report = Callable[[dict[str, Any]], None]

_MOST_SKIPS = 10  # steps in a row without a finite gradient
_MOST_VIEWS = 50  # views in a row without a step
_SMOOTHING = 0.02


class MinorityError(ForetellError, RuntimeError):
    """Too few workers are left, or reachable, to know that the others do not go on; no step is
    taken. The training can be resumed from its checkpoint."""


class StackedLoop:
    """Trains a task together with other workers.

    Parameters
    ----------
    task : TrainTask
        The same on every worker; changed in place.
    placement : StackPlacement
        Of N workers.
    micro : int, optional
        q, units of a shard of the placement; by default so many that no unit holds two shards of
        the task.
    me : int
        This worker.
    exact : bool
        Integer sums: the same bits whoever fails.
    scale_bits : int
        Gradients are rounded to 2^-scale_bits.
    patience_s, start_s : float
        How long to look for a majority before giving up, later and at the beginning.
    check_purity : bool
        Compute the first unit twice, and refuse a task whose gradient is not the same.
    hashes : bool
        Report the SHA-256 of every committed state.
    report : callable
        Is given events as JSON values.
    faults : FaultInjector
        For tests.

    Attributes
    ----------
    step, loss, skipped, stopped, failures
        Steps done, smoothed loss, steps without a finite gradient, whether the workers agreed to
        stop, and members lost and masked.

    Examples
    --------
    >>> import numpy as np
    >>> from foretell.train import Gradient
    >>> class Parabola:
    ...     x = np.array([4.0])
    ...     def parameters(self): return self.x.copy()
    ...     def n_shards(self, step): return 4
    ...     def gradient(self, step, shard): return Gradient(float(self.x[0] ** 2), 2 * self.x)
    ...     def apply(self, step, gradient): self.x = self.x - 0.1 * gradient
    ...     def state(self): return {"x": self.x.copy()}
    ...     def restore(self, state): self.x = state["x"]
    >>> loop = StackedLoop(Parabola(), StackPlacement(1, 1))
    >>> loop.run(100)
    >>> loop
    StackedLoop(step 100, worker 0 of 1, loss 0.324)
    """

    def __init__(
        self,
        task: TrainTask,
        placement: StackPlacement,
        *,
        micro: int | None = None,
        me: int = 0,
        exact: bool = True,
        scale_bits: int = 40,
        patience_s: float = 60.0,
        start_s: float = 60.0,
        check_purity: bool = True,
        hashes: bool = False,
        report: Report = lambda event: None,
        faults: FaultInjector | None = None,
        step: int = 0,
    ) -> None:
        self.task, self.placement, self.me = task, placement, me
        shards = task.n_shards(step)
        if not isinstance(shards, (int, np.integer)) or shards < 1:
            raise ParameterError(
                f"the task says that step {step} has {shards!r} shards; needed is a whole number "
                "of at least 1."
            )
        self.micro = micro or -(-int(shards) // placement.n_groups)
        self.controller = ReorderController(placement, self.micro)
        first = task.parameters()
        self._size, self._dtype = first.size, first.dtype
        new_sum = getattr(task, "unit_sum", UnitSum)  # a task may add up where its gradients are
        self._sum = new_sum(first.size, n_units=shards, scale_bits=scale_bits, exact=exact)
        self._meeting: Meeting = Unmet(step)
        self._collective: Collective = Alone()
        self._patience, self._start = patience_s, start_s
        self._check, self._hashes = check_purity, hashes
        self.report, self._faults = report, faults or FaultInjector()
        self.step, self.loss, self.skipped, self.failures = step, float("nan"), 0, 0
        self.stopped, self.stop_wanted = False, False
        self.view: View | None = None
        self.assignment: Assignment = self.controller.assignment_
        self._skips, self._views, self._planned_at = 0, 0, -1
        self._alive = np.ones(placement.n_groups, dtype=bool)
        self._done: set[int] = set()
        self._begun, self._goal = time.monotonic(), 0

    def join(self, meeting: Meeting, collective: Collective) -> None:
        """Train with others from now on."""
        self._meeting, self._collective = meeting, collective
        room = getattr(collective, "room_for", None)  # memory that others can read
        if room is not None and isinstance(self._sum.buffer, np.ndarray):
            self._sum.move_to(room(self._sum.buffer))

    def run(self, n_steps: int) -> None:
        """All steps up to that one, or until everybody agreed to stop.

        Raises
        ------
        WipeoutError
            Failures took every worker that could compute some unit. The state is that of the last
            step.
        MinorityError
            A majority is out of reach.
        NumericalError
            Ten steps in a row without a finite gradient, one above the guard, or a task whose
            gradient depends on more than parameters, step and shard.
        """
        for _ in self.steps(n_steps):
            self.advance(n_steps)

    def steps(self, n_steps: int) -> Iterator[int]:
        """The steps to be taken; after each the caller has called ``advance``."""
        while True:
            while self.step < n_steps and not self.stopped:
                yield self.step
            if self._all_there(n_steps):
                return

    def advance(self, n_steps: int) -> None:
        """One step, or more where the others were ahead."""
        start, self._begun, self._goal = self.step, time.monotonic(), n_steps
        while self.step == start and not self.stopped:
            view = self._enter()
            if self.step != start or self.step >= n_steps or self.stopped:
                return
            try:
                self._compute(view)
                found, mean = self._add_up()
                self._faults("commit")
            except ViewLostError as lost:
                self._leave(str(lost))
                continue
            self._take(view, found, mean)

    def state_digest(self) -> str:
        """SHA-256 of the state."""
        return digest(self.task.state(), self.step)

    def __repr__(self) -> str:
        return (
            f"StackedLoop(step {self.step}, worker {self.me} of {self.placement.n_groups}, loss "
            f"{self.loss:.3g})"
        )

    # ------------------------------------------------------------------ views
    def _enter(self) -> View:
        """The view that holds now; a new one is connected, healed and planned first."""
        while True:
            patience = self._patience if self.view else max(self._patience, self._start)
            view = self._meeting.wait_view(patience)
            if view is None:
                raise MinorityError(
                    f"no majority within {patience:g} s at step {self.step}: "
                    f"{self._meeting.why_not()}. A minority takes no steps. Resume from the "
                    "checkpoint when the workers can reach each other again."
                )
            if self.view is not None and view.epoch == self.view.epoch:
                return view
            try:
                self._adopt(view)
            except ViewLostError as lost:
                self._leave(str(lost))
                continue
            return view

    def _adopt(self, view: View) -> None:
        began = time.monotonic()
        self._collective.open(view)
        self._faults.step = self.step
        self._faults("recover")
        step, healed = self._heal(view)
        base = view.base
        if base.get("owner"):
            self.controller.adopt(from_base(base), np.array(base["alive"], dtype=bool))
        else:
            self.controller.reset()
        try:
            assignment = self.controller.plan(view.ids, same_step=base.get("planned_at") == step)
        except WipeoutError:
            if healed is None:
                self.view = view
            raise
        stopped = bool(base.get("stopped"))
        fresh = as_base(assignment, view.ids, self.placement.n_groups, step, stopped)
        if not self._meeting.settle(view.epoch, step, fresh):
            raise ViewLostError("the view ended while it was entered")
        if healed is not None:
            self._restore(*healed)
        lost = set(self.view.members) - set(view.members) if self.view else set[int]()
        self.failures += len(lost)
        self.view, self.assignment, self._planned_at = view, assignment, step
        self.stopped = self.stopped or stopped
        self.report(
            {
                "event": "view", "epoch": view.epoch, "members": view.ids, "lost": sorted(lost),
                "source": view.source, "healed": list(view.stale), "step": self.step,
                "patch": int(assignment.patch.max()), "phase": assignment.phase,
                "stacks": assignment.stacks, "seconds": time.monotonic() - began,
            }
        )  # fmt: skip

    def _heal(self, view: View) -> tuple[int, tuple[Any, dict[str, Any]] | None]:
        """Give the state to those who are behind, or take it; the step of the view."""
        if self.me == view.source and view.stale:
            fields = {
                "step": self.step, "loss": repr(self.loss), "skipped": self.skipped,
                "skips": self._skips,
            }  # fmt: skip
            data = pack(self.task.state(), fields)
            for worker in view.stale:
                self._collective.send(worker, data)
        if self.me in view.stale:
            healed = unpack(self._collective.receive(view.source))
            return int(healed[1]["step"]), healed
        return self.step, None

    def _restore(self, state: Any, fields: dict[str, Any]) -> None:
        self.task.restore(state)
        self.step, self.loss = int(fields["step"]), float(fields["loss"])
        self.skipped, self._skips = int(fields["skipped"]), int(fields["skips"])
        self._start_sum()
        self.report({"event": "healed", "step": self.step})

    def _leave(self, why: str) -> None:
        """The view is over, here at least; look for the next one."""
        self._collective.close()
        self.report({"event": "disturbed", "step": self.step, "why": why})
        if self.view is not None and self._meeting.stands(self.view.epoch):
            self._meeting.form()
        elif self.view is None:
            self._meeting.form()
        self._views += 1
        if self._views > _MOST_VIEWS:
            raise MinorityError(
                f"{_MOST_VIEWS} views in a row ended without a step ({why}). Look whether every "
                "worker can reach every other one."
            )

    # ------------------------------------------------------------------ a step
    def _units(self) -> list[int]:
        """The shards of the task that this worker computes in this step."""
        a = self.assignment
        table = a.interim if self._planned_at == self.step else a.owner
        mine = np.flatnonzero(table.ravel() == self.me)
        n_slots, shards = table.size, int(self.task.n_shards(self.step))
        return [int(k) for slot in mine for k in range(slot, shards, n_slots)]

    def _compute(self, view: View) -> None:
        self._faults.step = self.step
        mine = self._units()
        if not self._done <= set(mine):
            self._start_sum()
        self._faults("before")
        for k in mine:
            if k in self._done:
                continue
            if not self._meeting.stands(view.epoch):
                raise ViewLostError("the view ended")
            gradient = self.task.gradient(self.step, k)
            if self._check:
                self._check = False
                self._check_twice(k, gradient)
            at = self._sum.add(gradient)
            if at >= 0:
                self._tell_of_value(gradient, at, k)
            self._done.add(k)
            self._meeting.pulse += 1
            self._faults("compute")

    def _add_up(self) -> tuple[StepSum, NDArray[np.floating]]:
        """The words of the sum over members, and the mean gradient."""
        a = self.assignment
        table = a.interim if self._planned_at == self.step else a.owner
        self._sum.tell(
            reform=self._meeting.admit(), stop=self.stop_wanted, plan=checksum(table, self.step)
        )
        room = getattr(self.task, "gradient_room", None)
        mean = np.empty(self._size, self._dtype) if room is None else room
        return self._sum.take(self._collective.sums(self._sum.buffer), mean), mean

    def _take(self, view: View, found: StepSum, mean: NDArray[np.floating]) -> None:
        """Commit a sum, and let the optimiser follow it."""
        self._refuse(found, view)
        if not self._meeting.commit(view.epoch, self.step + 1, stopped=found.stop):
            self._leave("the view ended before the step counted")
            return
        if found.not_finite:
            self.skipped, self._skips = self.skipped + 1, self._skips + 1
        else:
            self._skips = 0
            self._faults.during("apply", lambda: self.task.apply(self.step, mean))
            old, share = self.loss, max(_SMOOTHING, 1 / (self.step + 1))
            self.loss = found.loss if np.isnan(old) else old + share * (found.loss - old)
        units = len(self._done)
        self.step += 1
        self._views, self.stopped = 0, found.stop
        self._start_sum()
        event = {
            "event": "step", "step": self.step, "of": self._goal, "units": units,
            "loss": found.loss if np.isfinite(found.loss) else None,
            "epoch": view.epoch, "members": len(view.members),
            "seconds": time.monotonic() - self._begun,
        }  # fmt: skip
        if self._hashes:
            event["sha256"] = self.state_digest()
        self.report(event)
        if self._skips >= _MOST_SKIPS:
            raise NumericalError(
                f"{_MOST_SKIPS} steps in a row gave no finite gradient (step {self.step}). Lower "
                "the learning rate, or look for extreme values in the data."
            )
        if found.reform:
            self._meeting.form(calm=True)

    def _refuse(self, found: StepSum, view: View) -> None:
        shards = int(self.task.n_shards(self.step))
        a = self.assignment
        table = a.interim if self._planned_at == self.step else a.owner
        if found.beyond:
            raise NumericalError(
                f"a gradient of step {self.step} is beyond {self._sum.limit:.3g}, the largest that "
                f"can be added up in 64 bits with {shards} units. Clip gradients inside the loss, "
                "lower scale_bits, or write exact=False."
            )
        if found.units != shards or found.plan != len(view.members) * checksum(table, self.step):
            raise NumericalError(
                f"{found.units} units were added up in step {self.step}, of {shards}, or plans "
                "differ between workers; nothing was changed. This is a fault of foretell: please "
                "report it with events.jsonl."
            )

    def _start_sum(self) -> None:
        self._sum.clear()
        self._done = set()

    def _check_twice(self, shard: int, first: Gradient) -> None:
        values, loss = _on_host(first), first.loss
        again = self.task.gradient(self.step, shard)
        same = np.array_equal(values, _on_host(again), equal_nan=True)
        if not (same and repr(loss) == repr(again.loss)):
            raise NumericalError(
                f"shard {shard} of step {self.step} was computed twice and gave two gradients "
                f"(losses {loss!r} and {again.loss!r}). Draw batches and dropout from (seed, step, "
                "shard) only, and keep nothing from one unit to the next: batch normalisation and "
                "iterators do."
            )

    def _tell_of_value(self, gradient: Gradient, at: int, shard: int) -> None:
        named = getattr(self.task, "name_of", None)
        where = named(at) if named else f"parameter {at}"
        value = float(gradient.values[at])
        self.report(
            {
                "event": "value", "step": self.step, "shard": shard, "parameter": where,
                "value": repr(value), "loss": repr(gradient.loss),
            }
        )  # fmt: skip

    # ------------------------------------------------------------------ the end
    def _all_there(self, n_steps: int) -> bool:
        """Whether every member has done all steps; whoever has not is healed on the way in."""
        while not self._meeting.finished:
            try:
                self._enter()
                if self.step < n_steps and not self.stopped:
                    return False
                deque(self._collective.sums(np.zeros(N_WORDS, dtype=np.int64)), maxlen=0)
                break
            except ViewLostError as lost:
                self._leave(str(lost))
            except MinorityError:
                if not self._meeting.finished:
                    raise
        self._collective.close()
        return True


def _on_host(gradient: Gradient) -> NDArray[np.floating]:
    """A copy of its values."""
    values: Any = gradient.values
    return np.array(values.cpu().numpy() if hasattr(values, "cpu") else values)
