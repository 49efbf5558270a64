"""``--learner auto``: which learners are worth trying on a recording, and which one is taken.

A short look at the recording leaves out what cannot help (no jumps, no learner of jumps); the rest
is fitted briefly and compared on a part of the training data (`foretell.dynamics.choose`). The
held-out part of the report plays no role in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from foretell.app.study import Comparison, TriedLearner
from foretell.app.words import number
from foretell.core.errors import DataError
from foretell.core.files import write_text_atomic
from foretell.data import Trajectories
from foretell.dynamics.evidence import Evidence

FORMAT, SCHEMA = "foretell-comparison", 1
FRACTION = 0.7  # of the training part, to which the short fits are made
BUDGET = 600.0  # CPU seconds after which no further learner is begun


@dataclass(frozen=True)
class Candidate:
    """A learner that ``auto`` may take, and when it is not worth trying.

    Attributes
    ----------
    name : str
        Key of the command line's table of learners.
    unsuited : callable
        The reason to leave it out, or an empty string.
    module : str
        A module that it needs and that may not be installed.
    """

    name: str
    unsuited: Callable[[Evidence], str]
    module: str = ""


def _map(seen: Evidence) -> str:
    return "it moves in equal steps, and the stamps are uneven" if seen.is_uneven else ""


def _linear(seen: Evidence) -> str:
    if not seen.is_driven:
        return "linear in its observables, it comes to rest or turns for ever; for inputs"
    return _map(seen)


def _large(seen: Evidence) -> str:
    return "there are too few rows for a network" if seen.is_short else ""


def _trained(seen: Evidence) -> str:
    return _linear(seen) or _large(seen)


def _jumping(seen: Evidence) -> str:
    return _large(seen) if seen.has_jumps else "nothing jumps"


# From the simplest to the most complex. cplrnn and alrnn are of one size; cplrnn can be solved for
# equilibria and cycles, so it goes first.
CANDIDATES = (
    Candidate("edmdc", _linear),
    Candidate("cplrnn", lambda seen: ""),
    Candidate("alrnn", _map),
    Candidate("analogue", lambda seen: ""),
    Candidate("gaussian", _large, "torch"),
    Candidate("koopman", _trained, "torch"),
    Candidate("lifting", _large, "torch"),
    Candidate("hybrid", _jumping, "torch"),
)


def plausible(seen: Evidence) -> tuple[list[str], dict[str, str]]:
    """Names worth trying, and those left out with the reason."""
    names, left_out = [], {}
    for candidate in CANDIDATES:
        reason = candidate.unsuited(seen)
        if not reason and candidate.module and find_spec(candidate.module) is None:
            reason = f"it needs {candidate.module}; install it with: pip install 'foretell[learn]'"
        if reason:
            left_out[candidate.name] = reason
        else:
            names.append(candidate.name)
    return names, left_out


def compare(
    train: Trajectories,
    build: Callable[[str, Trajectories], Any],
    *,
    random_state: int = 0,
    on_try: Callable[[str], None] | None = None,
) -> Comparison | str:
    """Fit the plausible learners briefly and compare them.

    Parameters
    ----------
    train : Trajectories
        Training part, in model coordinates.
    build : callable
        The unfitted learner of a name, with settings for a short fit to these recordings.

    Returns
    -------
    Comparison, or str
        The reason why they could not be compared.
    """
    from foretell.dynamics.choose import choose, hold_out
    from foretell.dynamics.evidence import look_at

    seen = look_at(train)
    names, left_out = plausible(seen)
    try:
        first, _ = hold_out(train, FRACTION)
        chosen = choose(
            train, {name: build(name, first) for name in names}, left_out=left_out,
            fraction=FRACTION, budget=BUDGET, random_state=random_state, on_try=on_try,
        )  # fmt: skip
    except DataError as error:
        return str(error)
    return Comparison(
        learner=chosen.name,
        why=chosen.why,
        measure=chosen.measure,
        shown=_words(seen),
        tried=tuple(
            TriedLearner(t.name, t.score, t.low, t.high, *t.worse_by, t.seconds, t.note, t.as_good)
            for t in chosen.tried
        ),
        left_out=tuple(chosen.left_out.items()),
    )


def _words(seen: Evidence) -> str:
    """What the recording shows, in a sentence."""
    stamps = f"uneven stamps (by {100 * seen.unevenness:.0f}\u00a0%)"
    said = [
        f"{number(float(seen.n_rows), 9)} rows" + (", which is little" if seen.is_short else ""),
        stamps if seen.is_uneven else "even stamps",
        f"jumps in {100 * seen.jumps:.2g}\u00a0% of the steps" if seen.has_jumps else "no jumps",
    ]
    if seen.is_driven:
        said.append(f"{seen.n_controls} input{'s' if seen.n_controls > 1 else ''}")
    else:
        said.append(
            "states that go on in different ways"
            if seen.has_scatter
            else "no sign that the same state goes on in different ways"
        )
    return "The training part shows " + ", ".join(said[:-1]) + " and " + said[-1] + "."


def keep(comparison: Comparison, path: Path) -> None:
    """Write a comparison, so that a resumed fit does not repeat it."""
    content = {"format": FORMAT, "schema": SCHEMA, "comparison": _plain(asdict(comparison))}
    write_text_atomic(path, json.dumps(content, indent=1) + "\n")


def kept(path: Path) -> Comparison | None:
    """The comparison that ``keep`` wrote; None where there is none that can be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if (found["format"], found["schema"]) != (FORMAT, SCHEMA):
            return None
        content = found["comparison"]
        tried = tuple(
            TriedLearner(**{k: _number(v) for k, v in row.items()}) for row in content["tried"]
        )
        left_out = tuple((name, why) for name, why in content["left_out"])
        return Comparison(**{**content, "tried": tried, "left_out": left_out})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return {"number": repr(value)} if isinstance(value, float) else value


def _number(value: Any) -> Any:
    return float(value["number"]) if isinstance(value, dict) else value
