"""Who takes part: views that a majority agrees on, as a machine without sockets and clocks.

A view is a set of workers with a number (its epoch). Workers that lost somebody, or want somebody
in, *form*: each says to all that it sees where it stands (JOIN); the one with the lowest number
proposes everybody who joined and sees the others (PROPOSE), and installs the view once each of them
has agreed (ACK, INSTALL). A worker agrees to rising epochs only, and commits a step only while its
view is installed and undisturbed, so after it joined a new formation nothing of the old one counts.

Majority. A view needs more than half of the view before it, and of any later one that somebody
agreed to, whether or not it came about: two halves of a cut network cannot both go on. A worker
that was started again has lost its memory; it has a new incarnation, and no vote of its old one.
Those whose death is certain (their parent collected them) are not counted as missing, so the last
of two may go on alone.

The state of a view is that of its source: of the members with the newest lineage, one with the
most steps. Others are stale and take it over (heal).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

Message = dict[str, Any]
Roll = dict[int, int]  # worker -> incarnation

FORMING, STABLE = "forming", "stable"


@dataclass(frozen=True)
class View:
    """Workers that train together.

    Parameters
    ----------
    epoch : int
        Rises with every view.
    members : dict of int to int
        Worker and incarnation.
    source : int
        The member whose state holds.
    stale : tuple of int
        Members that take the state of the source over.
    step : int
        The step at which the view begins.
    base : dict
        The plan of the source, from which all members go on.
    rounds : dict of int to int
        Which formation of each member led here.
    """

    epoch: int
    members: Roll
    source: int = -1
    stale: tuple[int, ...] = ()
    step: int = 0
    base: Message = field(default_factory=dict, repr=False)
    rounds: Roll = field(default_factory=dict, repr=False)

    @property
    def ids(self) -> list[int]:
        """Members in ascending order."""
        return sorted(self.members)

    @property
    def leader(self) -> int:
        """The lowest member, who writes checkpoints."""
        return min(self.members)

    def to_message(self) -> Message:
        """JSON values."""
        return {
            "epoch": self.epoch,
            "members": _pairs(self.members),
            "source": self.source,
            "stale": list(self.stale),
            "step": self.step,
            "base": self.base,
            "rounds": _pairs(self.rounds),
        }

    @classmethod
    def from_message(cls, m: Message) -> View:
        """What ``to_message`` described."""
        return cls(
            int(m["epoch"]), _roll(m["members"]), int(m["source"]), tuple(m["stale"]),
            int(m["step"]), m["base"], _roll(m["rounds"]),
        )  # fmt: skip


@dataclass
class Standing:
    """What a worker knows of itself and says when it joins.

    ``lineage`` is the epoch of the view to which its state belongs, -1 for no state at all.
    """

    id: int
    incarnation: int
    fingerprint: str = ""
    lineage: int = 0
    step: int = 0
    base: Message = field(default_factory=dict)


class Membership:
    """The agreement of one worker with the others; feed it with events, send what it puts out.

    Parameters
    ----------
    standing : Standing
        Of this worker.
    n_workers : int
        N; the first view is one of more than half of them.
    start_s : float
        How long to wait for all N at the beginning.
    window_s : float
        How long to wait for workers that are connected but do not join.

    Attributes
    ----------
    outbox : list of (int, dict)
        What to send, in order.
    view : View or None
        The latest one installed.
    state : {"forming", "stable"}
    admit : bool
        Somebody waits to be taken in; the loop calls ``form`` at its next step.
    error : str
        Why no view can ever be formed.
    """

    def __init__(
        self, standing: Standing, n_workers: int, *, start_s: float = 30.0, window_s: float = 6.0
    ) -> None:
        self.standing, self.n = standing, n_workers
        self.start_s, self.window_s = start_s, window_s
        self.outbox: list[tuple[int, Message]] = []
        self.view: View | None = None
        self.state, self.admit, self.error = FORMING, False, ""
        self.buried: set[tuple[int, int]] = set()
        self._first = View(0, dict.fromkeys(range(n_workers), 0))
        self._agreed: list[View] = []  # agreed to since the latest one was installed
        self._promised = 0
        self._peers: set[int] = set()
        self._joined: dict[int, Message] = {}
        self._proposal: View | None = None
        self._acks: set[int] = set()
        self._round, self._said, self._calm = 1, -1e9, False
        self._called: float | None = None  # since when a member waits for this one, calmly
        self._since: float | None = None

    # ------------------------------------------------------------------ events
    def connected(self, peer: int, now: float) -> None:
        """A link to a worker is up."""
        self._peers.add(peer)
        self._joined.pop(peer, None)
        if self.state == FORMING:
            self._say_join(self._peers, now)
            self._try(now)

    def lost(self, peer: int, now: float) -> None:
        """The link to a worker is gone: it died, hangs, or cannot be reached."""
        if peer not in self._peers:
            return
        self._peers.discard(peer)
        self._joined.pop(peer, None)
        if self._proposal is not None and peer in self._proposal.members:
            self._proposal = None
        if self.state == STABLE and self.view is not None and peer in self.view.members:
            self.form(now)
        elif self.state == FORMING:
            self._say_join(self._peers, now)
            self._try(now)

    def bury(self, worker: int, incarnation: int, now: float) -> None:
        """That process is certainly dead."""
        self.buried.add((worker, incarnation))
        if self.state == FORMING:
            self._try(now)

    def form(self, now: float, *, calm: bool = False) -> None:
        """Leave the view, and look for a new one.

        ``calm`` says that all members do so after the sum that they are in: those who hear of it
        earlier finish that sum first.
        """
        if self.state == FORMING:
            return
        self.state, self.admit, self._calm, self._called = FORMING, False, calm, None
        self._round += 1
        self._since = now
        self._proposal = None
        self._say_join(self._peers, now)
        self._try(now)

    def tick(self, now: float) -> None:
        """Time passes."""
        if self._since is None:
            self._since = now
        if self._called is not None and now - self._called > self.window_s:
            self.form(now)
        if self.state == FORMING:
            if now - self._said > self.window_s / 4:
                self._say_join(self._peers, now)
            self._try(now)

    def received(self, peer: int, message: Message, now: float) -> None:
        """A message arrived."""
        kind = message.get("kind")
        if kind == "join":
            self._on_join(peer, message, now)
        elif kind == "propose":
            self._on_propose(peer, message)
        elif kind == "ack":
            self._on_ack(peer, message)
        elif kind == "nack":
            self._on_nack(peer, message, now)
        elif kind == "install":
            agreed = self._agreed[-1] if self._agreed else None
            if self.state == FORMING and agreed and agreed.epoch == message["epoch"]:
                self._install(agreed)

    # ------------------------------------------------------------------ the loop
    def commit(self, epoch: int, step: int) -> bool:
        """Whether a step that was computed in that view counts; the standing moves on if so."""
        if self.state != STABLE or self.view is None or self.view.epoch != epoch:
            return False
        self.standing.step, self.standing.lineage = step, epoch
        return True

    def stands(self, epoch: int) -> bool:
        """Whether the view of that epoch is installed and undisturbed."""
        return self.state == STABLE and self.view is not None and self.view.epoch == epoch

    def reach(self) -> list[int]:
        """This worker and those that it has a link to."""
        return sorted({self.standing.id, *self._peers})

    def reaches_enough(self) -> bool:
        """Whether so many are reached that a view may still come about."""
        return 2 * (len(self._peers) + 1) > self.n - len({w for w, _ in self.buried})

    def why_not(self) -> str:
        """In words, what a view is missing."""
        roll = self._last_roll()
        return (
            f"worker {self.standing.id} reaches {_words(self.reach())}; a view needs more than "
            f"half of {_words(sorted(roll))}, who took part last"
        )

    # ------------------------------------------------------------------ joining
    def _say_join(self, to: Iterable[int], now: float) -> None:
        self._said = now
        message = self._own_join()
        self.outbox += [(peer, message) for peer in sorted(to)]

    def _own_join(self) -> Message:
        s = self.standing
        return {
            "kind": "join",
            "round": self._round,
            "calm": self._calm,
            "incarnation": s.incarnation,
            "fingerprint": s.fingerprint,
            "lineage": s.lineage,
            "step": s.step,
            "base": s.base,
            "promised": self._promised,
            "installed": _short(self.view),
            "agreed": [_short(view) for view in self._agreed],
            "sees": sorted({s.id, *self._peers}),
            "buried": sorted(self.buried),
        }

    def _on_join(self, peer: int, message: Message, now: float) -> None:
        self.buried |= {(int(a), int(b)) for a, b in message["buried"]}
        view = self.view
        if self.state == STABLE and view is not None:
            if view.members.get(peer) == message["incarnation"]:
                if message["round"] <= view.rounds.get(peer, 0):
                    return
                self._joined[peer] = message
                if message["calm"]:
                    self._called = now if self._called is None else self._called
                else:
                    self.form(now)
                return
            self._joined[peer] = message
            self.admit = set(view.members) - {peer} <= set(message["sees"])
            return
        self._joined[peer] = message
        self._try(now)

    # ------------------------------------------------------------------ proposing
    def _try(self, now: float) -> None:
        """Propose a view, where this worker is the one to do it and enough have joined."""
        me = self.standing.id
        if self.error or (self._peers and min(self._peers) < me):
            return
        joined = {p: m for p, m in self._joined.items() if p in self._peers}
        joined[me] = self._own_join()
        waited = 0.0 if self._since is None else now - self._since
        together = _clique(joined)
        if self._missing_at_start(together) and waited < self.start_s:
            return
        apart = self._peers - set(joined) or set(joined) - set(together)
        if apart and waited < self.window_s:
            return
        joined = together
        if me not in joined or not self._majority(joined):
            return
        prints = {p: str(m["fingerprint"]) for p, m in joined.items()}
        if other := [p for p in prints if prints[p] != prints[me]]:
            self.error = (
                f"worker {min(other)} does not run the same training as worker {me}: "
                f"{_difference(prints[min(other)], prints[me])}. Every worker has to start from "
                "the same files, versions and first parameters (import torch at the top of the "
                "file, so that it is seeded)."
            )
            return
        roll = {p: int(m["incarnation"]) for p, m in joined.items()}
        rounds = {p: int(m["round"]) for p, m in joined.items()}
        old = self._proposal
        if old is not None and old.members == roll and old.rounds == rounds:
            return
        self._propose(joined, roll, rounds)

    def _propose(self, joined: dict[int, Message], roll: Roll, rounds: Roll) -> None:
        me = self.standing.id
        stand = {p: (int(m["lineage"]), int(m["step"])) for p, m in joined.items()}
        source = min(joined, key=lambda p: (-stand[p][0], -stand[p][1], p))
        if stand[source][0] < 0:  # nobody has a state
            return
        stale = tuple(sorted(p for p in joined if stand[p] != stand[source]))
        epoch = max(self._promised, *(int(m["promised"]) for m in joined.values())) + 1
        view = View(epoch, roll, source, stale, stand[source][1], joined[source]["base"], rounds)
        self._promised, self._proposal = epoch, view
        self._agreed.append(view)
        self._acks = {me}
        others = sorted(set(roll) - {me})
        self.outbox += [(p, {"kind": "propose", "view": view.to_message()}) for p in others]
        if not others:
            self._install(view)

    def _missing_at_start(self, joined: dict[int, Message]) -> bool:
        """Whether this is the beginning, and not everybody is here whose death is not certain."""
        begun = any(m["installed"] or m["agreed"] for m in joined.values())
        dead = {w for w, _ in self.buried}
        return not begun and bool(set(range(self.n)) - dead - set(joined))

    def _majority(self, joined: dict[int, Message]) -> bool:
        installed = [r for m in joined.values() if (r := m["installed"])]
        first: list[Any] = [0, _pairs(self._first.members)]
        last = max([first, *installed], key=lambda r: int(r[0]))
        maybe = [r for m in joined.values() for r in m["agreed"] if int(r[0]) > int(last[0])]
        here = {(p, int(m["incarnation"])) for p, m in joined.items()}
        return all(self._enough(here, _roll(r[1])) for r in [last, *maybe])

    def _enough(self, here: set[tuple[int, int]], roll: Roll) -> bool:
        counted = set(roll.items()) - self.buried
        return 2 * len(here & counted) > len(counted)

    def _last_roll(self) -> Roll:
        return self.view.members if self.view is not None else self._first.members

    # ------------------------------------------------------------------ agreeing
    def _on_propose(self, peer: int, message: Message) -> None:
        view = View.from_message(message["view"])
        me = self.standing.id
        fits = (
            self.state == FORMING
            and view.epoch > self._promised
            and view.rounds.get(me) == self._round
            and view.members.get(me) == self.standing.incarnation
        )
        if not fits:
            self.outbox.append(
                (peer, {"kind": "nack", "epoch": view.epoch, "promised": self._promised})
            )
            return
        self._promised, self._proposal = view.epoch, None
        self._agreed.append(view)
        self.outbox.append((peer, {"kind": "ack", "epoch": view.epoch}))

    def _on_ack(self, peer: int, message: Message) -> None:
        view = self._proposal
        if view is None or view.epoch != message["epoch"] or self._promised != view.epoch:
            return
        self._acks.add(peer)
        if self._acks >= set(view.members):
            others = sorted(set(view.members) - {self.standing.id})
            self.outbox += [(p, {"kind": "install", "epoch": view.epoch}) for p in others]
            self._install(view)

    def _on_nack(self, peer: int, message: Message, now: float) -> None:
        view = self._proposal
        if view is None or view.epoch != message["epoch"]:
            return
        self._proposal = None
        self._promised = max(self._promised, int(message["promised"]))
        self._joined.pop(peer, None)
        self._try(now)

    def _install(self, view: View) -> None:
        self.view, self.state, self._proposal = view, STABLE, None
        self.admit, self._called = False, None
        self._agreed = [v for v in self._agreed if v.epoch > view.epoch]
        self._joined = {p: m for p, m in self._joined.items() if p not in view.members}


def _clique(joined: dict[int, Message]) -> dict[int, Message]:
    """Drop workers until all that are left see each other, the one with the most gaps first."""
    left = dict(joined)
    while True:
        gaps = {
            p: sum(q not in m["sees"] or p not in left[q]["sees"] for q in left)
            for p, m in left.items()
        }
        worst = max(left, key=lambda p: (gaps[p], p))
        if not gaps[worst]:
            return left
        del left[worst]


def _difference(one: str, other: str) -> str:
    """The first item in which two fingerprints, items with "; " between, differ."""
    for a, b in zip_longest(one.split("; "), other.split("; "), fillvalue="nothing"):
        if a != b:
            return f"{a}, not {b}"
    return "nothing"


def _short(view: View | None) -> list[Any] | None:
    return None if view is None else [view.epoch, _pairs(view.members)]


def _pairs(roll: Roll) -> list[list[int]]:
    return [[int(a), int(b)] for a, b in sorted(roll.items())]


def _roll(pairs: Iterable[Iterable[int]]) -> Roll:
    return {int(a): int(b) for a, b in pairs}


def _words(ids: list[int]) -> str:
    return ", ".join(map(str, ids)) or "nobody"
