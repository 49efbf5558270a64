"""What the trust horizon says, in sentences for the report and the list of findings."""

from __future__ import annotations

from foretell.app.study import HorizonTrial, TrustHorizon
from foretell.app.words import amount, number

DEPENDENT = 2.33  # standard errors of the correlation between neighbouring blocks


def finding(trust: TrustHorizon | None, unit: str) -> str:
    """One line for the list of findings; empty where nothing can be told."""
    if trust is None or trust.best is None or trust.horizon is None:
        return ""
    best = trust.best
    starts = "from the starts that it accepts" if best.accepted < 1 else "from here on"
    return (
        f"Up to {amount(trust.horizon, unit, 2)} ahead{_inputs(trust)}, at most "
        f"{share(trust.level)} of the forecasts {starts} leave {number(trust.tolerance)} standard "
        f"deviations (with {share(trust.confidence)} confidence, from "
        f"{best.n_blocks} separate held-out stretches)."
    ).replace(" from here on", "")


def sentences(trust: TrustHorizon, unit: str) -> tuple[str, ...]:
    """The answer, what ended the search, and what it rests on."""
    said = [_answer(trust, unit), _end(trust, unit), _assumption(trust, unit)]
    if trust.dependence > DEPENDENT:
        said.append(
            "Neighbouring stretches went wrong alike more often than independent ones would "
            f"(correlation {number(trust.dependence, 2)} standard errors), so the horizon may be "
            "too good. Judge the model on a second recording."
        )
    return tuple(sentence for sentence in said if sentence)


def share(value: float) -> str:
    """A share in per cent."""
    return f"{number(100 * value, 3)}\u00a0%"


def _answer(trust: TrustHorizon, unit: str) -> str:
    best = trust.best
    if best is None:
        return _nothing(trust, unit)
    strange = number(best.threshold or 0.0, 2)
    accepted = (
        f"A forecast is accepted if its start lies within {strange} standard deviations of a "
        f"state that the model was fitted to, as {share(best.accepted)} of the "
        f"{best.n_blocks} starts did. "
    )
    return (
        f"Up to {amount(best.horizon, unit, 2)} ahead{_inputs(trust)}. With "
        f"{share(trust.confidence)} confidence, at most {share(trust.level)} of the accepted "
        "forecasts are wrong by then: off by more "
        f"than {number(trust.tolerance)} standard deviations at any time on the way. {accepted}"
        f"Of those, {share(best.wrong)} were wrong."
    )


def _inputs(trust: TrustHorizon) -> str:
    return " where the inputs are known" if trust.given_inputs else ""


def _nothing(trust: TrustHorizon, unit: str) -> str:
    first = trust.trials[0]
    ahead = amount(first.horizon, unit, 2)
    if not first.tried:
        return (
            f"This cannot be told. The held-out part has room for {_stretches(first)} of {ahead} "
            f"each, apart from one another, and at least {first.needed} are needed even if every "
            f"forecast is right: about {_times(first)} as long a recording."
        )
    wrong = f"{share(first.wrong_overall)} of {first.n_blocks} forecasts were wrong after {ahead}"
    if first.needed is None or first.needed <= first.n_blocks:
        return (
            f"Not even {ahead} ahead: {wrong}, and at most {share(trust.level)} may be. A longer "
            "recording would not change that; a better model may."
        )
    return (
        f"This cannot be told. {wrong[:1].upper()}{wrong[1:]}, which is too close to "
        f"{share(trust.level)} for so few separate stretches; about {first.needed} would be enough."
    )


def _end(trust: TrustHorizon, unit: str) -> str:
    last = trust.trials[-1]
    if trust.best is None:
        return ""
    ahead = amount(last.horizon, unit, 2)
    if last.threshold is not None:
        return "That is as far as was tried, a quarter of the held-out part."
    if not last.tried:
        return (
            f"The next horizon, {ahead}, cannot be told: the held-out part has room for "
            f"{_stretches(last)} of that length, and at least {last.needed} are needed. The model "
            f"may be good for longer; a recording about {_times(last)} as long would show it."
        )
    wrong = f"At the next horizon, {ahead}, {share(last.wrong_overall)} of the forecasts were wrong"
    if last.needed is not None and last.needed > last.n_blocks:
        return f"{wrong}; to certify it about {last.needed} stretches instead of {last.n_blocks} would be needed."  # noqa: E501
    return f"{wrong}, so the model itself is what ends it."


def _assumption(trust: TrustHorizon, unit: str) -> str:
    return (
        "Windows that overlap, or follow each other closely, are not separate evidence. So one "
        "forecast is tried in each of several stretches of the held-out part that do not overlap "
        f"and lie about {amount(trust.spacing, unit, 2)} apart{_run_up(trust)}. The "
        "statement assumes that they count as independent draws of what will come, and that less "
        "familiar starts are at least as often wrong. It does not hold if the system drifts, or is "
        "driven into states that were not recorded."
    )


def _run_up(trust: TrustHorizon) -> str:
    return ", after a run-up along the rows before it" if trust.given_inputs else ""


def _stretches(trial: HorizonTrial) -> str:
    n = trial.n_blocks
    return f"{n} separate stretch{'' if n == 1 else 'es'}" if n else "no separate stretch"


def _times(trial: HorizonTrial) -> str:
    if not trial.needed or not trial.n_blocks:
        return f"{trial.needed or 1} times"
    return f"{number(trial.needed / trial.n_blocks, 2)} times"
