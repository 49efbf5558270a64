"""``foretell trust calibrate``: from labelled scores to a certified rule, as a JSON file."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import typer

from foretell.app.command_trust_table import Labelled, ScoreTable
from foretell.app.words import number
from foretell.core.errors import ArtifactError, DataError, ForetellWarning
from foretell.trust.bounds import Guarantee
from foretell.trust.decision import Certificate
from foretell.trust.selective import ScoreIdentity, SelectiveThreshold
from foretell.trust.selective.checks import inverse
from foretell.trust.selective.feasible import SortedCases
from foretell.trust.selective.identity import Direction

SURER = {"lower_is_surer": "lower is surer", "higher_is_surer": "higher is surer"}


@dataclass(frozen=True)
class CalibrationRequest:
    """The options of ``foretell trust calibrate``."""

    scores: Path
    out: Path
    alpha: float
    unlabeled_scores: Path | None = None
    guarantee: str | None = None
    delta: float = 0.1
    score: str | None = None
    errors: str | None = None
    direction: str = "lower_is_surer"
    fingerprint: str | None = None


def run(request: CalibrationRequest, *, as_json: bool = False) -> SelectiveThreshold:
    """Calibrate, write the rule, say what it promises."""
    refuse_existing(request.out)
    table = ScoreTable(
        request.scores,
        score=request.score,
        errors=request.errors,
        labelled=True,
        fractional=request.guarantee == "marginal",
    )
    identity = _identity(request, table)
    rule = SelectiveThreshold(
        alpha=request.alpha,
        guarantee=cast("Guarantee | None", request.guarantee),
        delta=request.delta,
        score=identity,
    )
    with heard() as said:
        cases = table.all_labelled()
        refuse_inverse(cases, identity, table.source)
        pool = None
        if request.unlabeled_scores is not None:
            pool = _others(request, identity).all_scores()
        # Where the table tells cases apart, repeats() warns; equal scores say nothing more.
        told_apart = table.id is not None or cases.repeats is not None
        ids = np.arange(cases.scores.size) if told_apart else None
        rule.fit(cases.scores, cases.errors, unlabeled_scores=pool, case_ids=ids)
    said = repeats(cases, table) + said
    rule.save(request.out)
    for warning in said:
        typer.echo(f"Warning: {warning}", err=True)
    if as_json:
        typer.echo(json.dumps(summary(rule, request.out, said), indent=2, ensure_ascii=False))
    else:
        typer.echo("\n".join([*describe(rule), "", f"Rule  {request.out}"]))
    return rule


def refuse_existing(out: Path) -> None:
    """Never write over something."""
    if out.exists():
        raise ArtifactError(
            f"{out} exists, and nothing was touched. Give a new name with --out, or remove it."
        )


def parts_of_score(text: str | None) -> tuple[str | None, str | None]:
    """What ``--score name@version#hash`` says: the score, and what computed it.

    Examples
    --------
    >>> parts_of_score("entropy@2#8f3a"), parts_of_score("entropy"), parts_of_score(None)
    (('entropy@2', '8f3a'), ('entropy', None), (None, None))
    """
    score, _, fingerprint = (text or "").partition("#")
    return score.strip() or None, fingerprint.strip() or None


def refuse_unstated(
    identity: ScoreIdentity, source: str, *, version: str, fingerprint: str | None
) -> None:
    """Refuse a table that does not say its version or fingerprint, where the rule is for one."""
    name = identity.name
    stated = f"{name}@{identity.version}" if identity.version else name
    if identity.fingerprint and not fingerprint:
        raise DataError(
            f"The rule is for the fingerprint {identity.fingerprint!r} of {name!r}, and nothing "
            f"says which one {source} was scored with. A threshold does not carry over to another "
            f"model or other code. If it is that one, add: --score {stated}#{identity.fingerprint}"
        )
    mine = identity.version
    if mine and not version:
        raise DataError(
            f"The rule is for version {mine!r} of {name!r}, and {source} does not say which "
            "version it holds. A threshold does not carry over to another one. If it is that "
            f"version, add: --score {name}@{mine}, or give the column that title"
        )


def refuse_inverse(cases: Labelled, identity: ScoreIdentity, source: str) -> None:
    """Refuse scores whose wrong answers are the surer ones: the direction is turned around."""
    ordered = SortedCases.of(identity.sign * cases.scores, cases.errors)
    if not ordered.binary or not inverse(ordered):
        return
    other = "higher_is_surer" if identity.direction == "lower_is_surer" else "lower_is_surer"
    wrong, right = cases.scores[cases.errors > 0], cases.scores[cases.errors == 0]
    raise DataError(
        f"In {source} wrong answers look surer than right ones if {SURER[identity.direction]}: the "
        f"median of {identity.name!r} is {number(float(np.median(wrong)))} where the answer is "
        f"wrong and {number(float(np.median(right)))} where it is right. If {SURER[other]}, add: "
        f"--direction {other}"
    )


def repeats(cases: Labelled, table: ScoreTable) -> list[str]:
    """A warning where a case stands twice."""
    if cases.repeats is None:
        return []
    n, first, later = cases.repeats
    by = "" if table.id is None else f" by {table.layout.titles[table.id]!r}"
    rows = "row repeats" if n == 1 else "rows repeat"
    return [
        f"{number(float(n), 9)} {rows} an earlier one{by} in {table.source}, for instance row "
        f"{later} repeats row {first}. The same case twice makes the sample look larger than it "
        "is, and the promise too good: keep one of each."
    ]


def describe(rule: SelectiveThreshold) -> list[str]:
    """What a rule does and promises, in lines for a terminal."""
    identity, certificate = rule.identity_, rule.certificate_
    version = f", version {identity.version}" if identity.version else ""
    return [
        f"Rule for {identity.name!r}{version} ({SURER[identity.direction]}), guarantee "
        f"{certificate.kind}, alpha {certificate.level:g}",
        threshold_words(rule),
        "",
        *certificate_lines(certificate),
    ]


def threshold_words(rule: SelectiveThreshold) -> str:
    """Where the threshold is and how much it accepts."""
    if rule.threshold_ is None:
        return "Nothing can be accepted: every answer is withheld."
    side = "below" if rule.identity_.direction == "lower_is_surer" else "above"
    low, high = rule.retention_interval_
    where = "unlabelled" if rule.certificate_.kind == "fdr" else "calibration"
    return (
        f"Accept at or {side} {rule.threshold_:.6g}: {100 * rule.retention_:.1f} % of the {where} "
        f"cases (between {100 * low:.1f} and {100 * high:.1f} % of new ones like them)."
    )


def certificate_lines(certificate: Certificate) -> list[str]:
    """A certificate as lines."""
    return [
        certificate.statement,
        "It holds if",
        *(f"  - {assumption}" for assumption in certificate.assumptions),
        f"Not accepted: {certificate.abstentions}",
        *certificate.remarks,
        f"Calibrated on {certificate.n} cases.",
    ]


def summary(rule: SelectiveThreshold, path: Path, said: list[str]) -> dict[str, Any]:
    """A rule as one JSON object."""
    content = rule.to_dict()
    return {
        "rule": path.as_posix(),
        "score": content["score"],
        "threshold": content["threshold"],
        "retention": rule.retention_,
        "retention_interval": list(rule.retention_interval_),
        "certificate": content["certificate"],
        "warnings": said,
    }


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect the warnings of the library, to show them as lines."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ForetellWarning)
        yield said
    said += [str(w.message) for w in caught if issubclass(w.category, ForetellWarning)]


def _identity(request: CalibrationRequest, table: ScoreTable) -> ScoreIdentity:
    identity = ScoreIdentity(
        table.name,
        table.version_of(request.score),
        cast("Direction", request.direction),
        request.fingerprint or "",
    )
    identity.check()
    return identity


def _others(request: CalibrationRequest, identity: ScoreIdentity) -> ScoreTable:
    assert request.unlabeled_scores is not None
    written = f"{identity.name}@{identity.version}" if identity.version else identity.name
    table = ScoreTable(request.unlabeled_scores, score=written)
    version = table.version_of(request.score)
    refuse_unstated(identity, table.source, version=version, fingerprint=request.fingerprint)
    identity.refuse_other(replace(identity, name=table.name, version=version))
    return table
