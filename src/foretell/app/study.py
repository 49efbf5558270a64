"""What one run of ``foretell fit`` found: plain records that the report and the summary show.

Study
├── recordings            as read, before any embedding
├── Plan                  what was chosen and why
├── HeldOut               how the model does on recordings it has not seen
├── SimilarEpisodes       what looked like the end of the recording
├── FoundJumps            when, where and to where a jumping model jumps
├── InputEffects          how far the inputs move the variables, and the error along them
├── Analysis              equilibria, cycles, exponents, each with its quality
├── Finding, ...          the same in words
└── Provenance            versions, data fingerprint, times
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from foretell.app.episodes import SimilarEpisodes
from foretell.app.jumps import FoundJumps
from foretell.data import Trajectories

if TYPE_CHECKING:
    from foretell.app.ensemble import Ensembles
    from foretell.app.inputs import InputEffects

Array = NDArray[np.float64]
Grade = Literal["good", "fair", "poor", "unclear"]


@dataclass(frozen=True)
class Choice:
    """One setting that was chosen, and the reason in words."""

    what: str
    value: str
    why: str


@dataclass(frozen=True)
class Plan:
    """How the data are cut and embedded, and which learner runs with which settings.

    ``episodes`` says that whole recordings are held out, not the last part of each.
    """

    learner: str
    settings: dict[str, Any]
    effort: int
    embedding_dimension: int
    lag: float
    gap: float
    fraction: float
    choices: tuple[Choice, ...]
    episodes: bool = False


@dataclass(frozen=True)
class TriedLearner:
    """One learner of a comparison.

    Attributes
    ----------
    score, low, high : float
        Lower is better, with one standard error to both sides; infinite where it was not fitted.
    worse_by, less, more : float
        Difference to the best one, with its interval of one standard error on the same
        stretches.
    seconds : float
        CPU time.
    note : str
        Why it could not be fitted.
    as_good : bool
        Not worse than the best one by more than one standard error.
    """

    name: str
    score: float
    low: float
    high: float
    worse_by: float
    less: float
    more: float
    seconds: float
    note: str
    as_good: bool


@dataclass(frozen=True)
class Comparison:
    """The learners that were tried before the fit, from the simplest on.

    Attributes
    ----------
    learner, why : str
        What was taken, and the reason.
    measure, shown : str
        What the score is; what the recording shows, in a sentence.
    left_out : tuple of (name, reason)
    """

    learner: str
    why: str
    measure: str
    shown: str
    tried: tuple[TriedLearner, ...]
    left_out: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Spectrum:
    """Power at each frequency, normalised to a sum of one; ``peak`` is the dominant frequency.

    ``rhythmic`` says whether that stands out from a process that only forgets.
    """

    frequency: Array
    power: Array
    peak: float
    rhythmic: bool = True


@dataclass(frozen=True)
class Forecasts:
    """Forecasts from many held-out starts.

    Attributes
    ----------
    lead : array of shape (H,)
        Lead times.
    model_error, persistence_error : array of shape (H,)
        Median absolute error after each lead time, in standard deviations, of the model and of
        keeping the last value.
    valid_time : float
        Median lead time at which the error first exceeds 0.4 standard deviations; infinite when it
        does not, NaN when nothing could be tried.
    examples : tuple of (times, observed, predicted)
        A few of them, first variable, data units.
    """

    lead: Array
    model_error: Array
    persistence_error: Array
    valid_time: float
    examples: tuple[tuple[Array, Array, Array], ...]

    @property
    def useful(self) -> float:
        """Share of the lead times at which the model beats keeping the last value."""
        return float(np.mean(self.model_error[1:] < self.persistence_error[1:]))


@dataclass(frozen=True)
class HorizonTrial:
    """One horizon tried on blocks of the held-out recordings.

    Attributes
    ----------
    horizon : float
    n_blocks : int
        Independent stretches, one forecast in each.
    threshold : float or None
        Accepted is a start at most this far from a training state (standard deviations); None
        where nothing could be certified.
    accepted : float
        Share of the blocks whose forecast is accepted.
    wrong, wrong_overall : float
        Share of the forecasts that left the tolerance: among the accepted (all, where none is),
        and among all. NaN where nothing was tried, because the blocks are too few.
    needed : int or None
        Blocks that would be enough, where nothing could be certified; None if no number is.
    """

    horizon: float
    n_blocks: int
    threshold: float | None = None
    accepted: float = 0.0
    wrong: float = float("nan")
    wrong_overall: float = float("nan")
    needed: int | None = None

    @property
    def tried(self) -> bool:
        """Whether there were enough blocks to try it."""
        return bool(np.isfinite(self.wrong_overall))


@dataclass(frozen=True)
class TrustHorizon:
    """How far ahead accepted forecasts keep a level on held-out recordings.

    Attributes
    ----------
    horizon : float or None
        The largest certified one; None where it cannot be told, or not even the shortest passes.
    trials : tuple of HorizonTrial
        In the order of the search; the last one may be the first that failed.
    level, confidence, tolerance : float
        Share of wrong forecasts among the accepted; probability that the horizon does not mislead;
        error beyond which a forecast is wrong, in standard deviations.
    spacing : float
        Time between two blocks.
    needed : int
        Blocks below which nothing can be told.
    dependence : float
        Correlation between neighbouring blocks, in standard errors.
    given_inputs : bool
        Whether the forecasts were given the recorded inputs.
    """

    horizon: float | None
    trials: tuple[HorizonTrial, ...]
    level: float
    confidence: float
    tolerance: float
    spacing: float
    needed: int
    dependence: float = 0.0
    given_inputs: bool = False

    @property
    def best(self) -> HorizonTrial | None:
        """The trial of the largest certified horizon."""
        certified = [trial for trial in self.trials if trial.threshold is not None]
        return certified[-1] if certified else None


@dataclass(frozen=True)
class HeldOut:
    """The model beside the held-out recordings.

    Attributes
    ----------
    observed, free_run : Trajectories
        The held-out part in model coordinates, and one free run that starts at its first state
        and then never sees the data again, at the same stamps.
    long_run : Trajectories
        The run that the long-run numbers are computed from.
    divergence, divergence_floor : float
        State-space divergence (KL) of model and data, and of two stretches of data; smoothed, so
        that measurement noise does not count as dynamics. The verdict rests on it.
    histogram_divergence, histogram_divergence_floor : float
        The same from a histogram with 30 bins per coordinate, as in the literature.
    hellinger, hellinger_floor : float
        Spectrum distance (0 same, 1 disjoint) of model and data, and of two stretches of data.
    forecast : Forecasts
        How far ahead it can be trusted.
    spectra : tuple of (data, model)
    state : "moving", "settles", "escapes"
        What the free run does in the long run.
    driven_error : float or None
        With inputs: root mean squared error of the free run in standard deviations.
    run_up : int
        With inputs: first samples of the free run that the error leaves out.
    trust : TrustHorizon or None
        How far ahead accepted forecasts keep a level.
    episodes : bool
        Whether the held-out recordings are whole ones.
    ensembles : Ensembles or None
        Many runs from each of several starts; None for a model without chance.
    """

    observed: Trajectories
    free_run: Trajectories
    long_run: Trajectories
    divergence: float
    divergence_floor: float
    histogram_divergence: float
    histogram_divergence_floor: float
    hellinger: float
    hellinger_floor: float
    forecast: Forecasts
    spectra: tuple[Spectrum, Spectrum]
    state: Literal["moving", "settles", "escapes"]
    driven_error: float | None = None
    run_up: int = 0
    episodes: bool = False
    trust: TrustHorizon | None = None
    ensembles: Ensembles | None = None


@dataclass(frozen=True)
class Analysis:
    """What the capabilities of the model say; ``None`` where it does not have one.

    The items are the results of ``foretell.solve`` in data units and data time.
    """

    equilibria: Any = None
    cycles: tuple[Any, ...] | None = None
    exponents: Any = None
    failures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """The overall judgement: a grade and one sentence."""

    grade: Grade
    sentence: str


@dataclass(frozen=True)
class Provenance:
    """Where the result comes from."""

    created: str
    versions: dict[str, str]
    source: str
    fingerprint: str
    command: str
    fit_seconds: float
    total_seconds: float
    updates: int
    random_state: int


@dataclass(frozen=True)
class Study:
    """Everything that one fit found."""

    title: str
    recordings: Trajectories
    train: Trajectories
    plan: Plan
    held_out: HeldOut
    analysis: Analysis
    verdict: Verdict
    findings: tuple[str, ...]
    warnings: tuple[str, ...]
    learning: tuple[tuple[int, float, float | None], ...]
    provenance: Provenance
    citations: tuple[str, ...] = ()
    reference_rate: tuple[float, str] | None = field(default=None)
    comparison: Comparison | None = None
    episodes: SimilarEpisodes | None = None
    jumps: FoundJumps | None = None
    inputs: InputEffects | None = None
