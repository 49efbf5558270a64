"""``foretell trust report``: a rule, its certificate and its risk-coverage curve on one page."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np
import typer
from numpy.typing import NDArray

from foretell.app.command_trust import (
    heard,
    refuse_existing,
    refuse_inverse,
    refuse_unstated,
    repeats,
)
from foretell.app.command_trust_apply import (
    matching_table,
    refuse_mirrored,
    unsure_from,
)
from foretell.core.files import write_text_atomic
from foretell.trust.bounds import GUARANTEES, Guarantee
from foretell.trust.selective import (
    Performance,
    RiskCoverage,
    ScoreShift,
    SelectiveThreshold,
    risk_coverage_curve,
)
from foretell.trust.selective.checks import fingerprint as hash_of

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Offer:
    """What one guarantee gives on the labelled cases; `rule` is None where it cannot be had."""

    guarantee: str
    rule: SelectiveThreshold | None
    performance: Performance | None
    why_not: str = ""


@dataclass(frozen=True)
class NewCases:
    """Cases to compare with: their scores, how they are shifted, and the errors if known."""

    source: str
    scores: Array = field(repr=False)
    accepted: float
    unusual: float
    shift: ScoreShift
    performance: Performance | None


@dataclass(frozen=True)
class RuleStudy:
    """Everything that the page about a rule shows."""

    rule: SelectiveThreshold
    source: str
    own: bool
    scores: Array = field(repr=False)
    curve: RiskCoverage = field(repr=False)
    performance: Performance
    offers: tuple[Offer, ...]
    new: NewCases | None
    warnings: tuple[str, ...]
    command: str
    created: str
    version: str


def run(
    rule_path: Path,
    scores: Path,
    out: Path,
    *,
    new: Path | None = None,
    errors: str | None = None,
    score: str | None = None,
    fingerprint: str | None = None,
    as_json: bool = False,
) -> RuleStudy:
    """Compare the guarantees on the labelled cases, and write the page."""
    from foretell.app.report.trust_page import render_rule

    refuse_existing(out)
    study = examine(
        rule_path, scores, new=new, errors=errors, score=score, fingerprint=fingerprint, out=out
    )
    write_text_atomic(out, render_rule(study))
    for warning in (*study.warnings, *violations(study)):
        typer.echo(f"Warning: {warning}", err=True)
    if as_json:
        typer.echo(json.dumps(_summary(study, out), indent=2, ensure_ascii=False))
    else:
        typer.echo("\n".join([*_lines(study), "", f"Report  {out}"]))
    return study


def examine(
    rule_path: Path,
    scores: Path,
    *,
    new: Path | None,
    errors: str | None,
    score: str | None,
    fingerprint: str | None,
    out: Path,
) -> RuleStudy:
    """Read the files and find everything that the page shows."""
    rule = SelectiveThreshold.load(rule_path)
    mine = rule.identity_
    table = matching_table(
        rule, rule_path, scores, score, fingerprint, errors=errors, labelled=True, unstated=True
    )
    cases = table.all_labelled()
    own = cases.scores.size == rule.n_calibration_
    own = own and hash_of(cases.scores) == rule.calibration_hash_
    with heard():
        if not own:
            refuse_unstated(
                mine, table.source, version=table.version_of(score), fingerprint=fingerprint
            )
            refuse_mirrored(rule, rule.shift(cases.scores), table.source)
        refuse_inverse(cases, mine, table.source)
        found = None if new is None else _compare(rule, rule_path, new, errors, score, fingerprint)
        offers = tuple(
            _offer(guarantee, rule, cases.scores, cases.errors, found, own)
            for guarantee in GUARANTEES
        )
    said = repeats(cases, table) + ([] if own else [_not_own(rule, table.source)])
    words = [path.as_posix() for path in (rule_path, scores, new) if path is not None]
    stated = f"{score or mine.name}#{fingerprint}" if fingerprint else score
    flags = {"--errors": errors, "--score": stated, "--out": out}
    for flag, value in flags.items():
        words += [] if value is None else [flag, f"{value}"]
    return RuleStudy(
        rule=rule,
        source=table.source,
        own=own,
        scores=cases.scores,
        curve=risk_coverage_curve(cases.scores, cases.errors, direction=mine.direction),
        performance=performance(rule, cases.scores, cases.errors),
        offers=offers,
        new=found,
        warnings=tuple(said),
        command=f"foretell trust report {shlex.join(words)}",
        created=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        version=version("foretell"),
    )


def violations(study: RuleStudy) -> list[str]:
    """What the page says of broken promises, for those who read the terminal only."""
    rule, new, said = study.rule, study.new, []
    level = f"the level is {100 * rule.certificate_.level:g} %"
    if not study.own and broken(rule, study.performance):
        share = 100 * study.performance.risk
        said.append(
            f"THE LEVEL IS NOT KEPT on {study.source}: {share:.1f} % of the accepted are wrong, "
            f"and {level}. An assumption is violated for these cases."
        )
    if new is not None and new.shift.shifted:
        said.append(
            f"THE PROMISE DOES NOT COVER THE CASES IN {new.source}: their scores are distributed "
            f"differently from those of the calibration (distance {new.shift.distance:.2f}). Label "
            "some of them and calibrate again on them."
        )
    if new is not None and new.performance is not None and broken(rule, new.performance):
        share = 100 * new.performance.risk
        said.append(
            f"THE LEVEL IS NOT KEPT on {new.source}: {share:.1f} % of the accepted are wrong, and "
            f"{level}."
        )
    return said


def performance(rule: SelectiveThreshold, scores: Array, errors: Array) -> Performance:
    """What a rule does with labelled cases, without any comment."""
    with heard():
        return rule.evaluate(scores, errors)


def broken(rule: SelectiveThreshold, found: Performance) -> bool:
    """Whether labelled cases show that the level is not kept among the accepted."""
    if rule.certificate_.kind == "marginal":
        from foretell.trust.bounds import binomial_lower

        whole = int(np.floor(found.errors))
        return float(binomial_lower(whole, found.n, 0.025)) > rule.certificate_.level
    return found.n_accepted > 0 and found.risk_interval[0] > rule.certificate_.level


def _offer(
    guarantee: str,
    rule: SelectiveThreshold,
    scores: Array,
    errors: Array,
    new: NewCases | None,
    own: bool,
) -> Offer:
    certificate = rule.certificate_
    if own and guarantee == certificate.kind:
        return Offer(guarantee, rule, performance(rule, scores, errors))
    pool = None
    if guarantee == "fdr":
        if new is None:
            return Offer(guarantee, None, None, "needs unlabelled cases: give them as third file")
        pool = new.scores
    if guarantee != "marginal" and not np.isin(errors, (0.0, 1.0)).all():
        return Offer(guarantee, None, None, "needs errors that are 0 or 1")
    other = SelectiveThreshold(
        alpha=certificate.level,
        guarantee=cast("Guarantee", guarantee),
        delta=rule.delta,
        assume_monotone=rule.assume_monotone,
        score=rule.identity_,
    ).fit(scores, errors, unlabeled_scores=pool)
    return Offer(guarantee, other, performance(other, scores, errors))


def _compare(
    rule: SelectiveThreshold,
    rule_path: Path,
    path: Path,
    errors: str | None,
    score: str | None,
    fingerprint: str | None,
) -> NewCases:
    table = matching_table(rule, rule_path, path, score, fingerprint)
    sign, found = rule.identity_.sign, None
    if table.labels_there() or (errors in table.layout.titles):
        table = matching_table(
            rule, rule_path, path, score, fingerprint, errors=errors, labelled=True
        )
        cases = table.all_labelled()
        scores, found = cases.scores, performance(rule, cases.scores, cases.errors)
    else:
        scores = table.all_scores()
    shift = rule.shift(scores)
    refuse_mirrored(rule, shift, table.source)
    u = sign * scores
    limit = -np.inf if rule.threshold_ is None else sign * rule.threshold_
    return NewCases(
        table.source,
        scores,
        float(np.mean(u <= limit)),
        float(np.mean(u > unsure_from(rule.profile_))),
        shift,
        found,
    )


def _not_own(rule: SelectiveThreshold, source: str) -> str:
    return (
        f"{source} does not hold the {rule.n_calibration_} cases that the rule was calibrated on. "
        "The page shows what the rule does on these other cases, and what each guarantee would "
        "give if it were calibrated on them."
    )


def _lines(study: RuleStudy) -> list[str]:
    lines = [f"{'guarantee':17} {'threshold':>10} {'accepted':>9} {'wrong among them':>17}"]
    for offer in study.offers:
        if offer.rule is None or offer.performance is None:
            lines.append(f"{offer.guarantee:17} {offer.why_not}")
            continue
        found, threshold = offer.performance, offer.rule.threshold_
        shown = "none" if threshold is None else f"{threshold:.5g}"
        lines.append(
            f"{offer.guarantee:17} {shown:>10} {100 * found.retention:8.1f}% "
            f"{100 * found.risk:16.2f}%"
        )
    return lines


def _summary(study: RuleStudy, out: Path) -> dict[str, Any]:
    return {
        "report": out.as_posix(),
        "own_calibration_cases": study.own,
        "guarantees": {
            offer.guarantee: {
                "threshold": None if offer.rule is None else offer.rule.threshold_,
                "accepted": None if offer.performance is None else offer.performance.retention,
                "risk": None if offer.performance is None else offer.performance.risk,
                "statement": None if offer.rule is None else offer.rule.certificate_.statement,
                "why_not": offer.why_not,
            }
            for offer in study.offers
        },
        "new": None
        if study.new is None
        else {
            "n": int(study.new.scores.size),
            "accepted": study.new.accepted,
            "shifted": study.new.shift.shifted,
            "distance": study.new.shift.distance,
            "risk": None if study.new.performance is None else study.new.performance.risk,
        },
        "warnings": [*study.warnings, *violations(study)],
    }
