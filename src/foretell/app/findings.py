"""Say in plain words what was found, how good it is, and what to be careful about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from foretell.app.planning import irregularity
from foretell.app.study import Analysis, Grade, HeldOut, Plan, Verdict
from foretell.app.trust_horizon_words import finding
from foretell.app.words import amount, count, listing, number
from foretell.data import Trajectories

# Grades compare with what two stretches of the same recording differ by (the noise floor).
_GOOD_DIVERGENCE, _FAIR_DIVERGENCE = 0.5, 2.0
_GOOD_HELLINGER, _FAIR_HELLINGER = 0.15, 0.35
_GOOD_DRIVEN, _FAIR_DRIVEN = 0.2, 0.5
_BLIND_DIVERGENCE, _BLIND_HELLINGER = 2.0, 0.5  # floors above which the comparison tells nothing
_LEAST_WIDTH, _MOST_WIDTH = 0.5, 2.0  # of ensembles, over their error, for a good model
_USEFUL = 0.8  # share of the lead times
_DRIFT = 1.5  # standard deviations between the means of the two parts


def judge(held: HeldOut) -> Verdict:
    """Grade the model on the held-out part and say so in one or two sentences."""
    if held.state == "escapes":
        return Verdict(
            "poor",
            "Left alone, the model runs away from everything that was recorded. Its short "
            "forecasts "
            "may still help, but it does not describe the system.",
        )
    if held.driven_error is not None:
        grade: Grade = _grade(held.driven_error, _GOOD_DRIVEN, _FAIR_DRIVEN)
        share = f"{100 * held.driven_error:.0f}\u00a0% of a standard deviation"
        tail = {
            "good": "It follows the inputs closely.",
            "fair": "It follows the inputs, with errors that matter.",
            "poor": "It does not follow the inputs well enough to be used.",
        }[grade]
        return Verdict(
            grade,
            "Given only the inputs, the model reproduces the held-out recording with an error "
            f"of {share}. " + tail,
        )
    if held.state == "settles" and held.spectra[0].peak > 0:
        return Verdict(
            "poor",
            "Left alone, the model comes to rest, while the recorded system keeps moving. "
            + (
                "The part that was set aside is itself unlike the part that was learned from: if "
                "the system drifts, take the trend off first."
                if _blind(held)
                else "Use more effort, or more data."
            ),
        )
    return _with_ensembles(_left_alone(held), held)


def _with_ensembles(verdict: Verdict, held: HeldOut) -> Verdict:
    """A model whose ensembles are far too narrow or too wide is not a good one."""
    found = held.ensembles
    if found is None or verdict.grade != "good":
        return verdict
    if _LEAST_WIDTH <= found.ratio <= _MOST_WIDTH:
        return verdict
    off = (
        "are far too narrow: do not take them for what may happen"
        if found.ratio < _LEAST_WIDTH
        else "are far too wide: it knows more than they say"
    )
    return Verdict("fair", f"{verdict.sentence} But its ensembles {off}.")


def _left_alone(held: HeldOut) -> Verdict:
    """The verdict on free runs of a model without inputs."""
    shape = _grade(held.divergence - held.divergence_floor, _GOOD_DIVERGENCE, _FAIR_DIVERGENCE)
    rhythm = _grade(held.hellinger - held.hellinger_floor, _GOOD_HELLINGER, _FAIR_HELLINGER)
    grade = max(shape, rhythm, key=("good", "fair", "poor").index)
    if _blind(held) and held.divergence < 2 * held.divergence_floor + _FAIR_DIVERGENCE:
        if held.episodes:
            return _by_forecasts(held)
        return Verdict(
            "unclear",
            "This recording cannot show whether the model is good: the part that was set aside "
            "is itself unlike the part that was learned from. Record longer; if the system "
            "drifts, take the trend off first.",
        )
    said = {
        "good": "Left alone, the model moves through the same states, "
        f"{'in the same rhythm' if held.spectra[0].rhythmic else 'at the same pace'}, as the "
        "part of the recording that it has not seen.",
        "fair": "Left alone, the model keeps the main shape and rhythm of the part that it has not "
        "seen, but not the details.",
        "poor": "Left alone, the model moves differently from the part of the recording that it "
        "has "
        "not seen. Use more effort, or more data, before relying on it.",
    }[grade]
    if grade == "fair" and shape != rhythm:
        said = (
            "Left alone, the model keeps the shape of the part that it has not seen, but its "
            "rhythm "
            "is off."
            if shape == "good"
            else "Left alone, the model keeps the rhythm of the part that it has not seen, but "
            "visits "
            "its states in other proportions."
        )
    return Verdict(grade, said)


def _by_forecasts(held: HeldOut) -> Verdict:
    """Recordings that fill their states too thinly: what can be judged are the forecasts."""
    blind = (
        "Whether long runs fill the states in the right proportions cannot be told: the recordings "
        "differ too much among themselves."
    )
    if not (held.forecast.valid_time > 0 and held.forecast.useful >= _USEFUL):
        return Verdict(
            "unclear",
            f"{blind} Its forecasts do no better than keeping the last value. More recordings "
            "would show whether the model is good.",
        )
    share = f"{100 * held.forecast.useful:.0f}\u00a0%"
    return Verdict(
        "fair",
        f"Its forecasts beat keeping the last value at {share} of the lead times, from starts that "
        f"it has not seen. {blind}",
    )


def _blind(held: HeldOut) -> bool:
    """Whether two stretches of the recording differ too much to judge a model by."""
    return held.divergence_floor > _BLIND_DIVERGENCE or held.hellinger_floor > _BLIND_HELLINGER


def _grade(value: float, good: float, fair: float) -> Grade:
    if not np.isfinite(value):
        return "poor"
    return "good" if value <= good else "fair" if value <= fair else "poor"


def describe(held: HeldOut, analysis: Analysis, data: Trajectories) -> tuple[str, ...]:
    """Three to six findings: quality, attractor, period, equilibria, forecast, trust."""
    unit = data.time_unit
    found = [_quality(held), _attractor(held, analysis, unit)]
    rhythm = _period(held, analysis, unit)
    found += [rhythm] if rhythm else []
    if analysis.equilibria is not None and held.driven_error is None:
        found.append(_equilibria(analysis.equilibria, held.observed))
    if np.isfinite(held.forecast.valid_time) and held.forecast.valid_time > 0:
        found.append(
            "A forecast stays within 0.4 standard deviations for "
            f"{_ahead(held.forecast.valid_time, data)} (median over held-out starts)."
            + (
                ""
                if held.forecast.useful >= 0.5
                else " Keeping the last value does as well or better at most lead times."
            )
        )
    trusted = finding(held.trust, unit)
    return (*found, trusted) if trusted else tuple(found)


def _ahead(lead: float, data: Trajectories) -> str:
    """A lead time; in samples where the time has no unit."""
    if data.time_unit:
        return amount(lead, data.time_unit, 2)
    return count(max(1, round(lead / data.median_interval)), "sample")


def _quality(held: HeldOut) -> str:
    if held.driven_error is not None:
        explained = max(0.0, 100 * (1 - held.driven_error**2))
        after = f", after a run-up of {held.run_up} samples" if held.run_up else ""
        return (
            "On held-out data, driven by the recorded inputs alone, the error is "
            f"{number(held.driven_error, 2)} standard deviations{after}. Guessing the mean would "
            f"give about 1; this explains {explained:.0f}\u00a0% of the variance."
        )
    return (
        f"On held-out data the free run has state-space divergence {number(held.divergence, 2)} "
        "and "
        f"spectrum distance {number(held.hellinger, 2)}; two stretches of the recording itself "
        "differ by "
        f"{number(held.divergence_floor, 2)} and {number(held.hellinger_floor, 2)}."
    )


def best_cycle(analysis: Analysis) -> Any | None:
    """The stable, well-resolved cycle, if there is one."""
    good = [c for c in analysis.cycles or () if c.stable and c.quality == "good"]
    return good[0] if good else None


def _attractor(held: HeldOut, analysis: Analysis, unit: str) -> str:
    cycle = best_cycle(analysis)
    stable = (
        [] if analysis.equilibria is None else [e for e in analysis.equilibria.items if e.stable]
    )
    if held.driven_error is not None and analysis.equilibria is not None:
        n = len(analysis.equilibria.items)
        how = "" if n == 0 else f", {len(stable)} of them stable"
        if n == 1:
            how = f", which is {'stable' if stable else 'unstable'}"
        rests = f"{count(n, 'equilibrium')}{how}" if n else "no equilibrium"
        return f"With the inputs held at their mean, the model has {rests}."
    if held.state == "escapes":
        return "The free run escapes: the model has no attractor where the data are."
    if held.state == "settles":
        where = (
            f" at one of its {count(len(stable), 'stable state')} of rest"
            if len(stable) > 1
            else ""
        )
        return f"The free run comes to rest{where or ' at a stable equilibrium'}."
    if cycle is not None:
        mu = np.abs(np.delete(cycle.multipliers, int(np.argmin(np.abs(cycle.multipliers - 1.0)))))
        rest = f"; {_fading(float(mu.max()))}" if mu.size else ""
        return (
            f"The attractor is a stable limit cycle with period {amount(cycle.period, unit, 4)}, "
            f"crossing {count(int(cycle.n_crossings), 'region boundary')}{rest}."
            + (
                " There is a stable equilibrium as well: where the model ends depends on where it "
                "starts."
                if stable
                else ""
            )
        ).replace("boundarys", "boundaries")
    if analysis.exponents is not None and len(analysis.exponents.exponents):
        largest = float(analysis.exponents.exponents[0])
        error = float(analysis.exponents.standard_errors[0])
        rate = f"{number(largest, 2)} ± {number(error, 2)}{f' per {unit}' if unit else ''}"
        if largest > 2 * error:
            return (
                f"The attractor of the model is chaotic: its largest Lyapunov exponent is {rate}, "
                f"so small differences grow by a factor e every {amount(1 / largest, unit, 2)}."
            )
        if largest < -2 * error and stable:
            return (
                "The free run is drawn to a stable equilibrium: there a small disturbance shrinks "
                f"by a factor e every {amount(-1 / largest, unit, 2)}."
            )
        return (
            f"The free run keeps moving without being chaotic (largest Lyapunov exponent {rate}); "
            "no single closed cycle was confirmed."
        )
    return "The free run keeps moving; this learner cannot say on what kind of attractor."


def _fading(multiplier: float) -> str:
    """What becomes of a disturbance in one round of a stable cycle."""
    left = 100 * multiplier
    if left > 95:
        return "a disturbance hardly fades from one round to the next"
    return f"after one round {max(left, 0.1):.2g}\u00a0% of a disturbance is left"


def _period(held: HeldOut, analysis: Analysis, unit: str) -> str:
    peak, own = held.spectra[0].peak, held.spectra[1].peak
    if peak <= 0 or held.driven_error is not None or held.state == "settles":
        return ""
    if not held.spectra[0].rhythmic:
        return ""
    cycle = best_cycle(analysis)
    period = cycle.period if cycle is not None else 1 / own if own > 0 else 0.0
    if period <= 0:
        return ""
    ratio = period * peak
    turns = max(1, round(ratio))
    off = 100 * (ratio / turns - 1)
    who = "The cycle of the model" if cycle is not None else "The dominant period of the model"
    several = f", {turns} rounds of the data," if turns > 1 else ""
    return (
        f"{who} takes {amount(period, unit)}{several} against {amount(turns / peak, unit)} in the "
        f"held-out data ({off:+.1f}\u00a0%)."
    ).replace("(-", "(−")


def _equilibria(found: Any, seen: Trajectories) -> str:
    items = found.items
    if not items:
        return "The model has no equilibrium."
    inside = [e for e in items if _within(e.state, np.concatenate(seen.values))]
    outside = len(items) - len(inside)
    certain = "; there are no others" if found.completeness == "complete" else ""
    if not outside:
        return f"The model has {_counted(inside)}{certain}."
    if not inside:
        return (
            f"The model has {_counted(items)}, far from everything that was recorded: the data say "
            f"nothing about {'it' if len(items) == 1 else 'them'}{certain}."
        )
    return (
        f"Where the data are, the model has {_counted(inside)}. {_more(outside)} far outside, "
        f"where the data say nothing{certain}."
    )


def _more(n: int) -> str:
    return "Another one lies" if n == 1 else f"{count(n, 'other').capitalize()} lie"


def _counted(items: Sequence[Any]) -> str:
    n, stable = len(items), sum(bool(e.stable) for e in items)
    kinds = (
        f"{stable} stable, {n - stable} unstable" if n > 1 else "stable" if stable else "unstable"
    )
    return f"{count(n, 'equilibrium')} ({kinds})"


def _within(state: Any, seen: Any) -> bool:
    """Whether an equilibrium lies in the range of the data, widened by a standard deviation."""
    spread = np.nanstd(seen, axis=0)
    low, high = np.nanmin(seen, axis=0) - spread, np.nanmax(seen, axis=0) + spread
    observed = np.asarray(state)[: len(spread)]
    return bool(((observed > low) & (observed < high)).all())


def _drifts(held: HeldOut, recordings: Trajectories) -> list[str]:
    """Variables whose level in the held-out part is another one than before."""
    found = []
    start = held.observed.times[0][0]
    before = np.concatenate(
        [v[t < start] for v, t in zip(recordings.values, recordings.times, strict=True)]
    )
    if len(before) < 2:
        return []
    for n, name in enumerate(recordings.names):
        spread = float(np.nanstd(before[:, n]))
        shift = float(np.nanmean(held.observed.values[0][:, n]) - np.nanmean(before[:, n]))
        if spread > 0 and abs(shift) > _DRIFT * spread:
            found.append(
                f"{name!r} drifts: in the held-out part it lies {number(abs(shift) / spread, 2)} "
                f"standard deviations {'above' if shift > 0 else 'below'} its mean until then. A "
                "model of what repeats cannot know where it goes. Take the trend off, or fit the "
                "differences from row to row."
            )
    return found


def _far_off(held: HeldOut) -> bool:
    return held.divergence - held.divergence_floor > _FAIR_DIVERGENCE


def _hidden_state(held: HeldOut) -> bool:
    """Whether the recorded variables are probably not the whole state of a model of chance."""
    narrow = held.ensembles is not None and held.ensembles.ratio < _LEAST_WIDTH
    return narrow and held.driven_error is None and held.forecast.useful < 0.5


def caution(
    recordings: Trajectories, plan: Plan, held: HeldOut, analysis: Analysis, extra: Sequence[str]
) -> tuple[str, ...]:
    """Warnings in plain words."""
    more = plan.effort + 1
    dial = f" On the command line: --effort {more}." if more <= 5 else ""
    said = [f"{text}{dial if 'max_steps' in text else ''}" for text in extra]
    unit, median = recordings.time_unit, recordings.median_interval
    widest = max(float(np.diff(t).max()) for t in recordings.times)
    if widest > 50 * median:
        said.append(
            f"There is a gap of {amount(widest, unit)} without samples, {widest / median:.0f} "
            "times the "
            "median interval. The model has to guess what happened inside it."
        )
    if plan.learner == "alrnn" and irregularity(recordings) > 0.05:
        said.append(
            "The stamps are irregular, but alrnn moves in equal steps. Use --learner cplrnn."
        )
    data = held.spectra[0]
    period = 1 / data.peak if data.peak > 0 and data.rhythmic else 0.0
    span = max(float(t[-1] - t[0]) for t in held.observed.times)
    driven = held.driven_error is not None
    if period and span < 10 * period and not driven:
        said.append(
            f"The held-out part covers only {span / period:.1f} periods, so the long-run numbers "
            "are "
            "rough. Record longer."
        )
    if period and period < 6 * median:
        said.append(
            f"There are only {period / median:.1f} samples in one period. Sample faster if you can."
        )
    drift = [] if plan.episodes or driven else _drifts(held, recordings)
    if held.divergence_floor > _BLIND_DIVERGENCE and not driven:
        said.append(
            "The recordings differ a lot among themselves, so the held-out ones are unlike those "
            "that were learned from. More of them would help."
            if plan.episodes
            else " ".join(drift)
            or "The training part and the held-out part differ a lot themselves: the system may "
            "have drifted, or the recording may be too short."
        )
    if plan.effort == 1 and not driven and (held.state == "settles" or _far_off(held)):
        said.append(
            f"At effort 1 only {plan.learner} is fitted, and it has no chance in it. With "
            "--effort 2 several learners are compared, among them some that draw at random what "
            "comes next, and some for systems that jump."
        )
    if _hidden_state(held):
        said.append(
            f"{listing(list(recordings.names))} alone do not say where the system goes next: runs "
            "from the same state part far less than the recordings do, and forecasts are no better "
            "than keeping the last value. If something that moves is recorded by its place only, "
            "add its velocity: a column with the change since the row before."
        )
    doubtful = sum(c.quality != "good" for c in analysis.cycles or ())
    if doubtful:
        said.append(
            f"{count(doubtful, 'limit cycle').capitalize()} carry the flag check: one of the "
            "identities that a true cycle obeys is not met closely."
            if doubtful > 1
            else "One limit cycle carries the flag check: an identity that a true cycle obeys is "
            "not "
            "met closely."
        )
    said += analysis.failures
    return tuple(dict.fromkeys(s for s in said if not s.startswith("the longest gap")))
