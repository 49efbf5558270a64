"""``foretell trust apply``: a decision for every row of a table, however long it is.

The table is read once (twice where it is judged as one batch), a chunk at a time, and compared with
the scores of the calibration on the way. The decisions appear only when nothing was refused.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import typer

from foretell.app.command_trust import (
    SURER,
    certificate_lines,
    refuse_existing,
    refuse_unstated,
)
from foretell.app.command_trust_table import ScoreTable
from foretell.app.words import number
from foretell.core.errors import DataError, ParameterError
from foretell.core.files import beside, resolved, writing
from foretell.trust.selective import ScoreIdentity, ScoreShift, SelectiveThreshold
from foretell.trust.selective.identity import ENOUGH, ScoreProfile

WORDS = np.array(["withhold", "accept"])
COLUMN = "decision"
DOUBT = 1e-3  # probability by chance from which a shift is suspected, before it is beyond doubt
UNSURE = 0.9  # of the calibration cases are surer than what is called unusually unsure


@dataclass(frozen=True)
class Applied:
    """What a rule did with a table."""

    n: int
    n_accepted: int
    shift: ScoreShift
    unusual: float  # share less sure than nine in ten calibration cases
    batch: bool
    own: bool  # these are the calibration cases

    @property
    def share(self) -> float:
        """Share that is accepted."""
        return self.n_accepted / max(self.n, 1)


def run(
    rule_path: Path,
    file: Path,
    out: Path,
    *,
    score: str | None = None,
    fingerprint: str | None = None,
    as_json: bool = False,
) -> Applied:
    """Write the decisions and say what they rest on."""
    refuse_existing(out)
    rule = SelectiveThreshold.load(rule_path)
    table = matching_table(rule, rule_path, file, score, fingerprint)
    if COLUMN in table.layout.titles:
        raise DataError(
            f"{table.source} already has a column {COLUMN!r}. Rename it, so that the decisions "
            "can be told from what is there."
        )
    applied = _write(rule, table, out)
    said = doubts(rule, applied, table.source)
    for warning in said:
        typer.echo(f"Warning: {warning}", err=True)
    if as_json:
        typer.echo(json.dumps(_summary(rule, applied, out, said), indent=2, ensure_ascii=False))
        return applied
    lines: list[str | None] = [accepted_words(rule, applied), reassurance(rule, applied), ""]
    if applied.shift.shifted:
        lines.append("What the rule promises, for cases like those of the calibration only:")
    lines += certificate_lines(rule.certificate_)
    if applied.batch:
        lines.append(
            f"{table.source} was judged as one batch: the statement is about these "
            f"{number(float(applied.n), 9)} cases in place of the unlabelled ones."
        )
    typer.echo("\n".join([*(line for line in lines if line is not None), "", f"Decisions  {out}"]))
    return applied


def matching_table(
    rule: SelectiveThreshold,
    rule_path: Path,
    file: Path,
    score: str | None,
    fingerprint: str | None,
    *,
    errors: str | None = None,
    labelled: bool = False,
    unstated: bool = False,
) -> ScoreTable:
    """The table with the very score that the rule is for, or an error that says why not.

    Its version is what `score` or the title of the column says, its fingerprint what `fingerprint`
    says. Where they say none, a rule for a version or a fingerprint is refused, unless `unstated`.
    """
    mine = rule.identity_
    said = ScoreIdentity.parse(score or mine.name, mine.direction)
    if said.name != mine.name:
        mine.refuse_other(said)
    try:
        table = ScoreTable(
            file,
            score=f"{mine.name}@{mine.version}" if mine.version else mine.name,
            errors=errors,
            labelled=labelled,
            fractional=rule.certificate_.kind == "marginal",
        )
    except DataError as error:
        if f"has no column {mine.name!r}" not in str(error):
            raise
        raise DataError(
            f"{rule_path} is a rule for the score {mine.name!r}. {error} A threshold does not "
            "carry over to another score; if a column holds that very score, give it its name."
        ) from error
    version = table.version_of(score)
    if not unstated:
        refuse_unstated(mine, table.source, version=version, fingerprint=fingerprint)
    stated = replace(
        mine,
        version=version if version or not unstated else mine.version,
        fingerprint=fingerprint or ("" if not unstated else mine.fingerprint),
    )
    mine.refuse_other(stated)
    return table


def _write(rule: SelectiveThreshold, table: ScoreTable, out: Path) -> Applied:
    sign, batch = rule.identity_.sign, rule.certificate_.kind == "fdr"
    limit = -math.inf if rule.threshold_ is None else sign * rule.threshold_
    if batch:
        limit = batch_limit(rule, table)
    tally, digest = rule.profile_.tally(), hashlib.sha256()
    unsure = unsure_from(rule.profile_)
    n = n_accepted = n_unusual = 0
    target = resolved(out)
    temporary = beside(target)
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("w", encoding="utf-8", newline="") as stream:
                writer = csv.writer(stream, delimiter=table.layout.separator, lineterminator="\n")
                writer.writerow([*table.layout.titles, COLUMN])
                for rows in table.read():
                    u = sign * rows.scores
                    accepted = u <= limit
                    words = WORDS[accepted.astype(np.intp)].tolist()
                    for row, word in zip(rows.cells, words, strict=True):
                        row.append(word)
                    writer.writerows(rows.cells)
                    tally.update(u)
                    digest.update(np.ascontiguousarray(rows.scores).tobytes())
                    n += u.size
                    n_accepted += int(accepted.sum())
                    n_unusual += int((u > unsure).sum())
            shift = tally.result()
            refuse_mirrored(rule, shift, table.source)
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    own = n == rule.n_calibration_ and digest.hexdigest() == rule.calibration_hash_
    return Applied(n, n_accepted, shift, n_unusual / n, batch, own)


def batch_limit(rule: SelectiveThreshold, table: ScoreTable) -> float:
    """The largest accepted uncertainty of a batch, where the guarantee is about batches."""
    scores = table.all_scores()
    accepted = rule.select(scores)
    return float((rule.identity_.sign * scores[accepted]).max()) if accepted.any() else -math.inf


def unsure_from(profile: ScoreProfile) -> float:
    """The uncertainty that nine in ten calibration cases do not exceed."""
    at = int(np.searchsorted(profile.below, UNSURE))
    return float(profile.values[min(at, profile.values.size - 1)])


def refuse_mirrored(rule: SelectiveThreshold, shift: ScoreShift, source: str) -> None:
    """Refuse scores that look like those of the calibration turned around."""
    if not shift.mirrored:
        return
    mine = rule.identity_
    other = "higher_is_surer" if mine.direction == "lower_is_surer" else "lower_is_surer"
    raise ParameterError(
        f"The scores of {source} look like those of the calibration turned around (distance "
        f"{shift.distance:.2f} as they are, {shift.mirrored_distance:.2f} turned). The rule was "
        f"calibrated on {mine.name!r} with {SURER[mine.direction]}; here it looks as if "
        f"{SURER[other]}. Write the score the way it was (for instance 1 - {mine.name}), or "
        f"calibrate on scores like these with: --direction {other}"
    )


def doubts(rule: SelectiveThreshold, applied: Applied, source: str) -> list[str]:
    """Warnings about what was found."""
    said = []
    shift = applied.shift
    if applied.own:
        said.append(
            f"{source} holds the cases that the threshold was chosen on. What the rule does here "
            "says nothing about new cases."
        )
    if shift.shifted:
        said.append(
            f"THE PROMISE DOES NOT COVER THESE CASES. Their scores are distributed differently "
            f"from those of the calibration (distance {shift.distance:.2f}; chance alone reaches "
            f"it with a probability below {_power(shift.p_value)}): {100 * applied.unusual:.0f} % "
            f"of them are less sure than 90 % of the calibration cases were, where 10 % were to be "
            "expected. The share of wrong answers among the accepted is unknown, and often larger. "
            "Label some of these cases and calibrate again on them."
        )
    elif doubtful(shift):
        said.append(
            f"These cases may not be like those of the calibration: their scores differ by a "
            f"distance of {shift.distance:.2f}, which chance alone reaches with a probability "
            f"below {_power(shift.p_value)}. If they come from elsewhere, the promise does not "
            "cover them. Label some, and look at them with: foretell trust report"
        )
    if rule.threshold_ is None and not applied.batch:
        said.append("The rule has no threshold, so everything was withheld.")
    return said


def doubtful(shift: ScoreShift) -> bool:
    """Whether a shift is likely, but not beyond doubt."""
    return not shift.shifted and shift.n >= ENOUGH and shift.p_value < DOUBT


def accepted_words(rule: SelectiveThreshold, applied: Applied) -> str:
    """How many cases were accepted, beside the calibration."""
    before = "unlabelled" if applied.batch else "calibration"
    return (
        f"{number(float(applied.n_accepted), 9)} of {number(float(applied.n), 9)} cases accepted "
        f"({100 * applied.share:.1f} %); of the {before} cases it was "
        f"{100 * rule.retention_:.1f} %."
    )


def reassurance(rule: SelectiveThreshold, applied: Applied) -> str | None:
    """What the comparison of the scores can tell where it found nothing."""
    shift, n = applied.shift, applied.n
    if shift.shifted or doubtful(shift) or applied.own:
        return None
    if n < ENOUGH:
        return f"{n} cases are too few to tell whether their scores are like the calibration's."
    both = n * rule.profile_.n / (n + rule.profile_.n)
    seen = math.sqrt(math.log(2 / DOUBT) / (2 * both))
    if seen > 0.5:
        return (
            f"With {rule.profile_.n} calibration cases and {n} new ones only a gross shift of the "
            "scores could be noticed; none was."
        )
    return (
        f"Their scores look like those of the calibration (distance {shift.distance:.2f}; from "
        f"{seen:.2f} on a shift would be suspected). Whether equally sure answers are still as "
        "often right cannot be seen from scores: check some labels now and then."
    )


def _power(p: float) -> str:
    return f"1e{math.ceil(math.log10(max(p, 1e-300))):d}"


def _summary(
    rule: SelectiveThreshold, applied: Applied, out: Path, said: list[str]
) -> dict[str, Any]:
    shift = applied.shift
    return {
        "decisions": out.as_posix(),
        "n": applied.n,
        "n_accepted": applied.n_accepted,
        "accepted": applied.share,
        "accepted_in_calibration": rule.retention_,
        "shift": {
            "shifted": shift.shifted,
            "suspected": shift.shifted or doubtful(shift),
            "distance": shift.distance,
            "p_value": shift.p_value,
            "less_sure_than_90_percent": applied.unusual,
        },
        "judged_as_one_batch": applied.batch,
        "violation_seen": shift.shifted or applied.own,
        "certificate": rule.certificate_.to_dict(),
        "warnings": said,
    }
