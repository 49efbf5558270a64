"""The page about a rule of acceptance: its certificate, the curve, every guarantee, new cases."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretell.app.command_trust import SURER
from foretell.app.command_trust_apply import doubtful
from foretell.app.command_trust_report import Offer, RuleStudy, broken
from foretell.app.report.plot import Plot, padded
from foretell.app.report.tables import Table
from foretell.app.report.templates import templates
from foretell.app.words import number
from foretell.core.citations import citation
from foretell.trust.selective.identity import ENOUGH

Array = NDArray[np.float64]

_GRADES = {True: ("good", "Certified"), False: ("poor", "Nothing certified")}
_MEANS = {
    "pac": "Holds for this very calibration, with the stated probability.",
    "fdr": "Holds on average over calibrations and batches; about half of them are above.",
    "marginal": "Counts wrong and accepted as a share of all cases, not of the accepted ones.",
    "plugin_corrected": "Holds on average over calibrations; about half of them are above.",
    "plugin": "It is here for comparison.",
}


def render_rule(study: RuleStudy) -> str:
    """The page about a rule as one self-contained HTML text."""
    from markupsafe import Markup

    folder = files("foretell.app.report")
    environment = templates()
    table_page = environment.get_template("table.html.j2")
    grade, word = _grade(study)
    return environment.get_template("trust.html.j2").render(
        study=study,
        certificate=study.rule.certificate_,
        title=f"When to accept by {study.rule.identity_.name!r}",
        grade=grade,
        grade_word=word,
        lead=_lead(study),
        facts=_facts(study),
        curve=Markup(risk_coverage(study)),
        curve_words=_curve_words(study),
        guarantees=Markup(table_page.render(title="", block=guarantees(study))),
        own_words=_own_words(study),
        new_words=_new_words(study),
        new_figure=Markup(score_shares(study)),
        style=Markup((folder / "style.css").read_text(encoding="utf-8")),
        script=Markup((folder / "script.js").read_text(encoding="utf-8")),
        bibtex=citation("lec"),
        provenance=_provenance(study),
    )


def risk_coverage(study: RuleStudy) -> str:
    """Share of wrong ones among the accepted against the accepted share, with every threshold."""
    curve, level = study.curve, study.rule.certificate_.level
    dots = [o for o in study.offers if o.performance is not None and o.performance.n_accepted]
    settled = curve.risk[curve.coverage >= min(1.0, 20 / curve.n)]
    highest = max(float(settled.max(initial=0.0)), 2 * level)
    plot = Plot(
        (0.0, 1.0),
        (0.0, min(1.02, 1.08 * highest)),
        x_label="accepted share of the cases",
        y_label="wrong among the accepted",
        title="Risk against coverage, with the threshold of every guarantee",
        height=320,
    )
    plot.band([0.0, 1.0], [0.0, 0.0], [level, level], "held", f"at most {number(level)}")
    plot.level(level, "muted")
    plot.line(curve.coverage, curve.risk, "data", "these cases")
    for index, offer in enumerate(study.offers):
        if offer in dots and offer.performance is not None:
            found = offer.performance
            place = ([found.retention], [found.risk])
            hollow = offer.guarantee == "plugin"
            plot.points(*place, f"equilibrium region-{index}", offer.guarantee, hollow=hollow)
    at = study.performance.retention
    return (plot.rule(at, "model", "this rule") if at else plot).html()


def score_shares(study: RuleStudy) -> str:
    """The share of cases up to each score, of the calibration and of the new cases."""
    new, rule = study.new, study.rule
    if new is None:
        return ""
    sign, profile = rule.identity_.sign, rule.profile_
    was = sign * profile.values
    order = np.argsort(was)
    share = profile.below if sign > 0 else 1 - profile.below
    fresh = np.sort(new.scores)
    at = np.unique(np.linspace(0, fresh.size - 1, min(fresh.size, 600)).astype(np.intp))
    plot = Plot(
        padded([was, fresh[[0, -1]]], 0.02),
        (0.0, 1.0),
        x_label=rule.identity_.name,
        y_label="share of cases up to this score",
        title="Scores of the calibration and of the new cases",
        height=240,
    )
    plot.line(was[order], share[order], "data wide", "calibration")
    plot.line(fresh[at], (at + 1) / fresh.size, "model", "new cases")
    if rule.threshold_ is not None and np.isfinite(rule.threshold_):
        plot.rule(rule.threshold_, "muted", "threshold")
    return plot.html()


def guarantees(study: RuleStudy) -> Table:
    """Every guarantee: where it cuts, what it accepts, and what it promises."""
    rows = tuple(_row(offer, study) for offer in study.offers)
    columns = (
        ("guarantee", "w"),
        ("threshold", "n"),
        ("accepted", "n"),
        ("wrong among them", "n"),
        ("what it promises", ""),
    )
    return Table(
        columns,
        rows,
        note=f"Calibrated on {study.source}, all at the level "
        f"{number(study.rule.certificate_.level)}. The shares are those of the sample that the "
        "threshold was chosen on; the promise is what carries over.",
        style="stack",
    )


def _row(offer: Offer, study: RuleStudy) -> tuple[str, ...]:
    mine = " (this rule)" if study.own and offer.rule is study.rule else ""
    name = f"{offer.guarantee}{mine}"
    if offer.rule is None or offer.performance is None:
        return (name, "–", "–", "–", f"{offer.why_not[:1].upper()}{offer.why_not[1:]}.")
    found, threshold = offer.performance, offer.rule.threshold_
    statement = f"{offer.rule.certificate_.statement} {_MEANS[offer.guarantee]}"
    if offer.guarantee == "fdr" and study.new is not None and study.new.shift.shifted:
        statement = (
            f"Not this, here: {study.new.source} is the unlabelled sample, and it is not like the "
            f"calibration. Otherwise: {statement}"
        )
    if threshold is None:
        certificate = offer.rule.certificate_
        return (name, "none", _percent(0), "–", f"{certificate.statement} {_first(certificate)}")
    return (name, number(threshold, 5), _percent(found.retention), _percent(found.risk), statement)


def _first(certificate: Any) -> str:
    return str(certificate.remarks[0]) if certificate.remarks else ""


def _grade(study: RuleStudy) -> tuple[str, str]:
    rule, new = study.rule, study.new
    if new is not None and new.performance is not None and broken(rule, new.performance):
        return "poor", "Not kept on the new cases"
    if new is not None and new.shift.shifted:
        return "poor", "Does not cover the new cases"
    if new is not None and doubtful(new.shift):
        return "fair", "Doubtful for the new cases"
    if not study.own and broken(rule, study.performance):
        return "poor", "Not kept on these cases"
    if rule.certificate_.kind == "plugin":
        return "fair", "No promise"
    return _GRADES[rule.certificate_.feasible]


def _lead(study: RuleStudy) -> str:
    rule, new = study.rule, study.new
    if new is not None and _grade(study)[0] == "poor" and rule.certificate_.feasible:
        return (
            f"The rule was calibrated on cases unlike those in {new.source}. Label some of them, "
            "and calibrate again."
        )
    if rule.threshold_ is None:
        return "No threshold could be certified, so every answer is withheld."
    side = "below" if rule.identity_.direction == "lower_is_surer" else "above"
    return (
        f"Accept answers with {rule.identity_.name} at or {side} {number(rule.threshold_, 5)}; "
        "withhold the others."
    )


def _facts(study: RuleStudy) -> list[dict[str, str]]:
    rule, certificate, found = study.rule, study.rule.certificate_, study.performance
    low, high = rule.retention_interval_
    where = "of the unlabelled cases" if certificate.kind == "fdr" else "of the calibration cases"
    confidence = certificate.confidence
    sure = "on average" if confidence is None else f"with probability {number(confidence)}"
    wrong = "–" if not found.n_accepted else _percent(found.risk)
    facts = [
        ("Level", _percent(certificate.level), f"{certificate.kind}, {sure}"),
        ("Accepted", _percent(rule.retention_), f"{where}; {_percent(low)} to {_percent(high)}"),
        ("Wrong among them", wrong, f"in {study.source}"),
        ("Calibrated on", number(float(certificate.n), 9), "labelled cases"),
    ]
    return [dict(zip(("name", "value", "note"), fact, strict=True)) for fact in facts]


def _curve_words(study: RuleStudy) -> str:
    everything = float(study.curve.risk[-1])
    return (
        f"Accepting everything, {_percent(everything)} would be wrong. To the left only the surest "
        "are accepted. The curve is what happened on this sample and promises nothing by itself; a "
        "dot is where a guarantee stops, so that its promise carries over to new cases."
    )


def _own_words(study: RuleStudy) -> str:
    if study.own:
        return ""
    found, level = study.performance, study.rule.certificate_.level
    return f"On {study.source}, which the rule has not seen: {_kept(found, level, study)}"


def _kept(found: Any, level: float, study: RuleStudy) -> str:
    if not found.n_accepted:
        return f"none of the {number(float(found.n), 9)} cases is accepted."
    low, high = found.risk_interval
    said = (
        f"{_percent(found.retention)} are accepted, and of these {_percent(found.risk)} are wrong "
        f"(95\u00a0% interval {_percent(low)} to {_percent(high)}; the level is {_percent(level)})."
    )
    if broken(study.rule, found):
        return f"{said} The level is not kept: an assumption is violated for these cases."
    return said


def _new_words(study: RuleStudy) -> list[str]:
    new, rule = study.new, study.rule
    if new is None:
        return []
    shift = new.shift
    said = [
        f"Of the {number(float(new.scores.size), 9)} cases in {new.source}, "
        f"{_percent(new.accepted)} are accepted."
    ]
    if shift.shifted:
        said.append(
            "Their scores are distributed differently from those of the calibration (distance "
            f"{number(shift.distance, 2)}): {_percent(new.unusual)} of them are less sure than "
            "90\u00a0% of the calibration cases were, where 10\u00a0% were to be expected. The "
            "promise assumes that both come from one law, so it does not cover these cases: the "
            "share of wrong answers among the accepted is unknown, and often larger. Label some of "
            "them and calibrate again."
        )
    elif doubtful(shift):
        said.append(
            "They may not be like those of the calibration: their scores differ by a distance of "
            f"{number(shift.distance, 2)}, which chance alone reaches in less than one of 1000 "
            "samples. If they come from elsewhere, the promise does not cover them."
        )
    elif new.scores.size < ENOUGH:
        said.append("These are too few to tell whether their scores are like the calibration's.")
    else:
        said.append(
            "Their scores look like those of the calibration. Whether equally sure answers are "
            "still as often right cannot be seen from scores: check some labels."
        )
    if new.performance is not None:
        kept = _kept(new.performance, rule.certificate_.level, study)
        said.append(f"Their labels are known: {kept}")
    return said


def _provenance(study: RuleStudy) -> list[tuple[str, str]]:
    rule, identity = study.rule, study.rule.identity_
    return [
        ("Score", f"{identity.name}, {SURER[identity.direction]}"),
        ("Version", identity.version or "not given"),
        ("Hash of the score", f"sha256 {identity.hash}"),
        ("Calibration cases", f"{rule.n_calibration_}, sha256 {rule.calibration_hash_}"),
        ("Command", study.command),
        ("Made", f"{study.created}, foretell {study.version}"),
    ]


def _percent(share: float) -> str:
    return f"{number(100 * share, 3)}\u00a0%"
