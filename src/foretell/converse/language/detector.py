"""`ConvexLanguageDetector`: the language of a turn, decided while it is still going on.

Features of what has been heard so far go through a classifier at growing windows. The first class
whose probability holds a threshold for some looks in a row is decided on; it changes only when
another one holds the threshold for long; without a decision in time the detector says so. The
threshold is tested on turns of speakers that the classifier did not see: with confidence 1 - delta
at most a share `level` of the decided turns gets the wrong language.

Paper: Feng, Tan and Pilanci, arXiv:2605.23235, for the classifier. The streaming rule, abstention
and the calibrated threshold are not in it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone

from foretell.converse.language.classifier import ConvexReLUClassifier
from foretell.converse.language.detector_files import describe, restore, right_encoder
from foretell.converse.language.encoders import CharacterNgrams
from foretell.converse.language.fitting import one_per_row
from foretell.converse.language.listening import Decider, Windows, looks
from foretell.converse.language.results import LanguageDecision
from foretell.converse.language.stream import LanguageStream
from foretell.core.artifact import Artifact
from foretell.core.errors import (
    ArtifactError,
    DataError,
    ForetellWarning,
    NotFittedError,
    ParameterError,
)
from foretell.core.random import as_generator
from foretell.trust.bounds import binomial_upper

Array = NDArray[np.float64]

THRESHOLDS = (0.999, 0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6)
_WINDOWS = {"s": (0.6, 0.3, 3.0, 2.0), "characters": (10.0, 5.0, 80.0, 40.0)}
_SETTINGS = ("first", "step", "last", "switch_after")


class ConvexLanguageDetector(BaseEstimator):
    """Language identification that decides early, sticks to it, and may abstain.

    Parameters
    ----------
    encoder : callable, optional
        Text or samples to rows (rows, d); `CharacterNgrams` by default, `LogMel` for sound. Another
        needs ``unit`` ("s" or "characters"), ``sample_rate`` for sound, and a ``name`` to be saved.
    head : classifier, optional
        With `predict_proba`; `ConvexReLUClassifier` by default.
    first, step, last : float, optional
        Amounts to look at, and the last at which a first decision may fall: 0.6, 0.3 and 3
        seconds, or 10, 5 and 80 characters.
    hysteresis : int
        Looks in a row that must agree.
    switch_after : float, optional
        How long another language must hold the threshold to replace a decision: 2 seconds or 40
        characters.
    threshold : float or "auto"
        Probability to decide at; "auto" is tested on held-out groups.
    level, delta : float
        For "auto": share of wrong decisions to stay below, and the probability that this fails.
    calibration_size : float
        Share of the groups that tests thresholds; the rest trains the head.
    random_state : int, numpy Generator or None

    Attributes
    ----------
    head_ : the fitted classifier
    classes_ : array (K,)
    threshold_ : float
        Infinite where none could be certified: then every turn is withheld.
    n_tested_, n_decided_, n_wrong_ : int
        Held-out turns; those decided at the threshold; the wrong ones among them.
    risk_bound_ : float
        Upper bound of the share of wrong decisions, at confidence 1 - delta for all thresholds
        together; nan where the threshold was given.

    Examples
    --------
    >>> english, german = ["the cat sat on the mat"] * 60, ["die Katze sitzt auf der Matte"] * 60
    >>> detector = ConvexLanguageDetector(threshold=0.9, random_state=0)
    >>> detector = detector.fit(english + german, ["en"] * 60 + ["de"] * 60)
    >>> stream = detector.stream(fallback="en")
    >>> [stream.push(piece) for piece in ("die Katze ", "sitzt ", "auf der")]
    [None, LanguageDecision(accept 'de', proba 0.99, after 15 characters), None]
    """

    def __init__(
        self,
        *,
        encoder: Any = None,
        head: Any = None,
        first: float | None = None,
        step: float | None = None,
        last: float | None = None,
        hysteresis: int = 2,
        switch_after: float | None = None,
        threshold: float | str = "auto",
        level: float = 0.05,
        delta: float = 0.1,
        calibration_size: float = 0.4,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.encoder = encoder
        self.head = head
        self.first = first
        self.step = step
        self.last = last
        self.hysteresis = hysteresis
        self.switch_after = switch_after
        self.threshold = threshold
        self.level = level
        self.delta = delta
        self.calibration_size = calibration_size
        self.random_state = random_state

    def fit(
        self, turns: Sequence[Any], labels: ArrayLike, groups: ArrayLike | None = None
    ) -> ConvexLanguageDetector:
        """Train the head on one part of the groups and test thresholds on the other.

        Parameters
        ----------
        turns : sequence of str, or of arrays of samples
        labels : array (n,)
        groups : array (n,), optional
            Speaker or source of each turn. Without them every turn is its own group, and the
            promise is about turns like these, not about new speakers.
        """
        self._check_parameters()
        rng = as_generator(self.random_state)
        self.encoder_ = CharacterNgrams() if self.encoder is None else self.encoder
        _check_encoder(self.encoder_)
        self._set_windows()
        names = one_per_row(labels, "labels", len(turns))
        together = np.arange(len(turns)) if groups is None else groups
        together = one_per_row(together, "groups", len(turns))
        series = [looks(turn, self.encoder_, self.windows_) for turn in turns]
        _refuse_silent(series)
        auto = self.threshold == "auto"
        test = self._tested(together, names, rng) if auto else np.zeros(len(turns), bool)
        self._train(series, names, together, np.flatnonzero(~test), rng)
        self.threshold_, self.risk_bound_ = float("inf"), float("nan")
        self.n_tested_ = self.n_decided_ = self.n_wrong_ = 0
        if auto:
            self._test([series[i] for i in np.flatnonzero(test)], names[test])
        else:
            self.threshold_ = float(self.threshold)
        return self

    def stream(self, *, fallback: Any = None, sample_rate: int | None = None) -> LanguageStream:
        """A new turn to listen to.

        Parameters
        ----------
        fallback : label, optional
            What to propose when nothing is decided: the user's last language, for instance.
        sample_rate : int, optional
            Of the sound that will be pushed, to be checked against that of the encoder.
        """
        self._check_fitted()
        if fallback is not None and fallback not in self.classes_.tolist():
            raise ParameterError(
                f"fallback={fallback!r} is none of the languages {self.classes_.tolist()}."
            )
        needed = self.encoder_.sample_rate
        if sample_rate is not None and sample_rate != needed:
            raise ParameterError(
                f"sample_rate={sample_rate!r}, but the detector was fitted to {needed} Hz. "
                f"Resample with scipy.signal.resample_poly(sound, {needed}, {sample_rate})."
            )
        return LanguageStream(self, fallback)

    def decide(self, turn: Any, *, fallback: Any = None) -> LanguageDecision:
        """The first decision about a whole turn, at the earliest look that allows it."""
        stream = self.stream(fallback=fallback)
        series = looks(turn, self.encoder_, self.windows_)
        return next((said for look in series if (said := stream.see(*look))), None) or stream.end()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write head, threshold and the name of the encoder to a folder; no turns, no pickle.

        Raises
        ------
        ArtifactError
            The head is no `ConvexReLUClassifier`, the encoder has no ``name``, or the place cannot
            be written.
        """
        self._check_fitted()
        return describe(self).save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, encoder: Any = None) -> ConvexLanguageDetector:
        """Read a folder that `save` wrote.

        Parameters
        ----------
        encoder : callable, optional
            Needed where it is not one of this package; its `name` must be that in the folder.

        Raises
        ------
        ArtifactError
            The folder is damaged, or was fitted with another encoder.
        """
        artifact = Artifact.open(path, classes=[cls.__name__])
        found = right_encoder(artifact, encoder, Path(path))
        try:
            detector = cls(encoder=found, **artifact.parameters)
            detector._check_parameters()
            detector.encoder_ = found
            detector._set_windows()
            restore(detector, artifact, Path(path))
        except (KeyError, TypeError, ParameterError) as error:
            raise ArtifactError(
                f"{path} is no usable ConvexLanguageDetector: {error}. Fit and save it again."
            ) from error
        return detector

    # Private -------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        for name in (*_SETTINGS, "level", "delta", "calibration_size"):
            value = getattr(self, name)
            if value is None and name in _SETTINGS:
                continue
            most = np.inf if name in _SETTINGS else 1.0
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not 0 < value < most
            ):
                below = "" if most == np.inf else " below 1"
                raise ParameterError(f"{name}={value!r} is not a positive number{below}.")
        if not isinstance(self.hysteresis, int) or self.hysteresis < 1:
            raise ParameterError(f"hysteresis={self.hysteresis!r} is not a whole number >= 1.")
        given = self.threshold
        if given != "auto" and not (isinstance(given, (int, float)) and 0 < given <= 1):
            raise ParameterError(f'threshold={given!r} is neither "auto" nor from 0 to 1.')

    def _set_windows(self) -> None:
        usual = _WINDOWS[self.encoder_.unit]
        first, step, last, self.switch_after_ = (
            default if getattr(self, name) is None else float(getattr(self, name))
            for name, default in zip(_SETTINGS, usual, strict=True)
        )
        if last < first:
            raise ParameterError(f"last={last!r} lies before first={first!r}.")
        self.windows_ = Windows(first, step, last)

    def _check_fitted(self) -> None:
        if not hasattr(self, "threshold_"):
            raise NotFittedError(
                "The detector is not fitted. Call fit(turns, labels), or load one."
            )

    def _tested(self, groups: Any, names: Any, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Turns of the groups that test; every language keeps training turns."""
        distinct, place = np.unique(groups, return_inverse=True)
        n_languages = np.unique(names).size
        test = np.zeros(len(names), dtype=bool)
        wanted = round(self.calibration_size * distinct.size)
        for group in rng.permutation(distinct.size):
            trial = test | (place == group)
            if wanted and np.unique(names[~trial]).size == n_languages:
                test, wanted = trial, wanted - 1
        if not test.any():
            raise DataError(
                f"{distinct.size} groups are too few to test a threshold on some and train every "
                "language on others. Give more groups, or threshold=0.9."
            )
        return test

    def _train(
        self, series: Any, names: Any, groups: Any, rows: NDArray[np.int64], rng: Any
    ) -> None:
        X, y, together = [], [], []
        for i in rows:
            n = len(series[i])
            for look in sorted({0, n // 2, n - 1}):
                X.append(series[i][look][1])
                y.append(names[i])
                together.append(groups[i])
        head = ConvexReLUClassifier() if self.head is None else clone(self.head)
        seed = int(rng.integers(2**31))
        if "random_state" in head.get_params() and head.get_params()["random_state"] is None:
            head.set_params(random_state=seed)
        ours = isinstance(head, ConvexReLUClassifier)
        more = {"groups": np.asarray(together)} if ours else {}
        with warnings.catch_warnings():  # hashed columns that no turn uses are nothing to report
            warnings.filterwarnings("ignore", message=".*columns of X are constant")
            self.head_ = head.fit(np.array(X), np.array(y), **more)
        self.classes_ = self.head_.classes_

    def _test(self, series: Any, truth: Any) -> None:
        """The lowest threshold of the list that passes its test, at delta over their number."""
        self.n_tested_ = len(series)
        unseen = set(truth.tolist()) - set(self.classes_.tolist())
        if unseen:
            raise DataError(f"Held-out turns have languages without training turns: {unseen}.")
        probabilities = [
            [(amount, self.head_.predict_proba(x[None])[0]) for amount, x in turn]
            for turn in series
        ]
        for threshold in sorted(THRESHOLDS):
            said = [self._first(turn, threshold) for turn in probabilities]
            decided = np.array([label is not None for label in said])
            wrong = sum(
                label is not None and self.classes_[label] != true
                for label, true in zip(said, truth, strict=True)
            )
            n = int(decided.sum())
            bound = float(binomial_upper(wrong, n, self.delta / len(THRESHOLDS))) if n else 1.0
            if bound <= self.level:
                self.threshold_, self.risk_bound_ = threshold, bound
                self.n_decided_, self.n_wrong_ = n, int(wrong)
                return
        needed = int(np.ceil(np.log(self.delta / len(THRESHOLDS)) / np.log1p(-self.level)))
        warnings.warn(
            f"No threshold keeps wrong decisions below {self.level:g} with confidence "
            f"{1 - self.delta:g} on {self.n_tested_} held-out turns, so every turn is withheld. At "
            f"least {needed} decided turns without error are needed; give more turns, a larger "
            "level, or a threshold of your own.",
            ForetellWarning,
            stacklevel=3,
        )

    def _first(self, turn: Any, threshold: float) -> int | None:
        rule = Decider(threshold, self.hysteresis, self.switch_after_)
        return next((said for look in turn if (said := rule.see(*look)) is not None), None)


def _check_encoder(encoder: Any) -> None:
    unit = getattr(encoder, "unit", None)
    rate = getattr(encoder, "sample_rate", None)
    if not callable(encoder) or unit not in _WINDOWS or (unit == "s" and not rate):
        raise ParameterError(
            f"encoder={encoder!r} must be callable and have unit='s' with a sample_rate, or "
            "unit='characters'. Set them on your function: encode.unit, encode.sample_rate = 's', "
            "16000."
        )
    if unit == "characters" and not hasattr(encoder, "sample_rate"):
        encoder.sample_rate = None


def _refuse_silent(series: Any) -> None:
    empty = [i for i, turn in enumerate(series) if not turn]
    if empty:
        raise DataError(
            f"Turn {empty[0]} gives no features (and {len(empty) - 1} others): it is silent, or "
            "too short for the encoder. Leave it out."
        )
