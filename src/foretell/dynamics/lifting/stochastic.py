"""Stochastic lifting: draw the next state in one network evaluation, by regression on labels.

Source: Berman, Blickhan, Peherstorfer, "Stochastic Lifting for Generating Trajectories of
Stochastic Physical Systems", ICML 2026. Every transition (x, y) of the data is given one random
label, for good, and a network is fitted to y from (x, label) by plain least squares until it
nearly interpolates. With a fresh label it then draws a next state.

What differs here, each to be switched off: the network learns what is left over by a mean network
(``residual``), in units of the increments; and the width of the draws is set on held-out
transitions (``calibrate``), since it does not come out right by itself (``linear_spread``).

    next = x + S (m(x) + tau s(x) R(x, label))

x state, S standard deviation of the increments, m mean network, R label network, tau temperature,
s how wide residuals are at x (``local_scale``).
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import nn

from foretell.core import ForetellWarning, ParameterError
from foretell.dynamics.lifting.calibration import LEAST, MOST, choose_temperature, flat_residuals
from foretell.dynamics.lifting.checks import check_lifting, checked_inputs, checked_past
from foretell.dynamics.lifting.label_training import DRAWS, LabelTraining
from foretell.dynamics.lifting.network_sampler import Floats, evaluate, no_label
from foretell.dynamics.lifting.networks import Design
from foretell.dynamics.lifting.phases import Phase, PhasedTask
from foretell.dynamics.lifting.training import Training
from foretell.dynamics.lifting.transitions import Transitions
from foretell.dynamics.longrun.ensembles import energy_score, spread_skill

Array = NDArray[np.float64]

DIMENSIONS = (8, 16, 32, 64, 128)
_JUDGED = 800  # held-out transitions that the temperature is measured on, at most
_CENTRED = 3000  # transitions that the mean of the lifted part is taken out on, at most


class StochasticLifting(LabelTraining):
    """Draw trajectories of a stochastic system, one network evaluation for a step and network.

    Parameters
    ----------
    label_dim : int or "auto"
        Numbers in a label; "auto" tries 8 to 128 and keeps the one with the best held-out energy
        score, at five times the cost.
    history : int
        States that the next one depends on; the first one is repeated before the start.
    residual : bool
        Learn the mean by a network of its own and lift what is left.
    calibrate : bool
        Set the width of the draws on held-out transitions; needs ``residual``.
    local_scale : bool
        Lift residuals in units of their width at each state and input, a smooth function that is
        fitted on held-out transitions; with ``calibrate`` only.
    centre : "pairs", "odd", "distil" or None
        Take the mean over labels out of the lifted part: it is noise that the label network has
        learned by heart, and in a run it adds up. "pairs" draws half the difference of the network
        at a label and at its opposite, whose mean is exactly 0 (one more evaluation a step); "odd"
        takes a network that at the opposite label gives the opposite, which has mean 0 in one
        evaluation (mlp and conv1d); "distil" takes the mean out of the mean network by one more
        regression (none more, and less exact). Only with ``residual``.
    label_scope : "transition" or "trajectory"
        A label for each step (chance acts anew at every step), or one for a whole recording (the
        medium is random but stays the same).
    backbone : "mlp", "conv1d", "unet" or a torch module
        conv1d for cells on a ring or line, unet for fields (channels, height, width); a module is
        called as module(past, context, label) and cannot be saved.
    width, depth : int or "auto"
        Units and layers of the network.
    periodic : bool
        Whether cells form a ring or torus.
    increments : bool
        Learn the increment instead of the next state.
    dt_feature : bool or "auto"
        Whether the interval between states is an input; "auto" where intervals vary. With False
        uneven recordings are refused.
    max_steps, mean_steps : int
        Updates of the label network, and of the mean network.
    interp_tol : float
        The label network is trained until its error is this share of what it should explain.
    max_labelled : int
        Transitions that are lifted, at random where there are more; the mean uses all.
    batch_size, lr, final_lr, weight_decay
        Of AdamW, with a cosine schedule.
    validation : float
        Share of the recordings (or of blocks of time) held back for calibration.
    random_state : int or None
        Seed of labels, weights, batches and of what is held back.

    Attributes
    ----------
    temperature_ : array (channels,)
        tau of each variable, or of each channel of a field.
    scale_coefficients_ : array (channels, features)
        Logarithm of the variance of residuals; one column where it is the same everywhere.
    train_mse_ratio_ : float
        Error of the label network over the variance of its targets: near 1 it has learned the
        mean and draws nothing.
    spread_skill_ : float
        Width of held-out draws over the error of their mean after calibration; NaN without.
    label_dim_ : int
    interpolation_ : array (looks, 3)
        Update, error ratio and generated spread while the label network was trained.
    flat_residuals_ : tuple of str
        Variables whose residuals are flat or have two peaks: there another sampler is better.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = np.zeros((20, 21, 1))
    >>> for t in range(20):
    ...     x[:, t + 1] = 0.8 * x[:, t] + 0.3 * rng.normal(size=(20, 1))
    >>> sizes = {"label_dim": 32, "width": 64, "max_steps": 700, "lr": 3e-3}
    >>> model = StochasticLifting(**sizes, random_state=0).fit(x)
    >>> runs = model.rollout([0.0], n_steps=10, n_members=200, random_state=0)
    >>> runs.shape, bool(0.25 < runs[0, :, -1].std() < 0.8)
    ((1, 200, 11, 1), True)
    """

    citations: ClassVar[tuple[str, ...]] = ("stochastic-lifting",)

    def __init__(
        self,
        *,
        label_dim: int | str = 64,
        history: int = 1,
        residual: bool = True,
        calibrate: bool = True,
        local_scale: bool = True,
        centre: str | None = "pairs",
        label_scope: str = "transition",
        backbone: Any = "mlp",
        width: int | str = "auto",
        depth: int | str = "auto",
        periodic: bool = True,
        increments: bool = True,
        dt_feature: bool | str = "auto",
        max_steps: int = 1500,
        mean_steps: int = 400,
        interp_tol: float = 0.05,
        max_labelled: int = 1500,
        batch_size: int = 64,
        lr: float = 1e-3,
        final_lr: float = 1e-5,
        weight_decay: float = 1e-4,
        validation: float = 0.2,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            history=history, backbone=backbone, width=width, depth=depth, periodic=periodic,
            increments=increments, dt_feature=dt_feature, max_steps=max_steps,
            batch_size=batch_size, lr=lr, final_lr=final_lr, weight_decay=weight_decay,
            validation=validation, random_state=random_state,
        )  # fmt: skip
        self.label_dim = label_dim
        self.residual = residual
        self.calibrate = calibrate
        self.local_scale = local_scale
        self.centre = centre
        self.label_scope = label_scope
        self.mean_steps = mean_steps
        self.interp_tol = interp_tol
        self.max_labelled = max_labelled

    @property
    def evaluations_per_step(self) -> int:
        """Network evaluations for a step: 1 as published, with a mean network 2, in pairs 3."""
        if not self.residual:
            return 1
        return 3 if self.centre == "pairs" else 2

    @property
    def _distils(self) -> bool:
        return self.centre == "distil" and self.residual

    def mean_next(
        self, x: ArrayLike, *, controls: ArrayLike | None = None, interval: float | None = None
    ) -> Array:
        """What the mean network alone says of the next states, (B, ...); needs ``residual``."""
        self._check_fitted()
        if not self.residual:
            raise ParameterError(
                "a model with residual=False has no mean network; predict(x) averages draws."
            )
        past = checked_past(x, self.shape_, int(self.history))
        u = checked_inputs(controls, 1, self.control_names_)
        inputs = np.repeat(u, len(past), axis=0)
        context = self.scale_.context(inputs, np.full(len(past), self._checked_interval(interval)))
        mean = evaluate(self.networks_["mean"], self.scale_.seen(past), context,
                        no_label(len(past)))  # fmt: skip
        return self._moved(past[:, -1], mean).reshape(len(past), *self.shape_)

    # ------------------------------------------------------------------ learning
    def _learn(self, fitted: Transitions, held: Transitions, training: Training) -> None:
        dims = self._dimensions(len(fitted))
        self.label_dim_ = dims[-1]
        data, judged = self._batch(fitted), self._batch(held)
        lifted = fitted.take(self._labelled(len(fitted)))
        ids = lifted.ids.copy()
        if self.label_scope == "trajectory":
            ids[:, 1] = -1
        self.networks_ = {}
        phases: list[Phase] = []
        if self.residual:
            phases.append(self._mean_phase(data, judged))
        candidates: dict[int, nn.Module] = {}
        for place, d in enumerate(dims, 1):
            candidates[d] = self._build(self._label_design(d), place)
            phases.append(self._label_phase(candidates[d], d, ids, lifted, held, place))
        self.scale_coefficients_ = np.zeros((self._n_channels(self.shape_), 1))
        held_small = held.take(np.arange(len(held))[:: max(1, -(-len(held) // _JUDGED))])
        if self._distils:
            some = fitted.take(np.arange(len(fitted))[:: max(1, -(-len(fitted) // _CENTRED))])
            phases.append(self._centre_phase(candidates, some, held_small))
        task = self._run_phases(phases, training)
        self._choose(candidates, held_small)
        if self._distils:
            self.networks_["mean"] = self._centred
            del self._centred
        self._say(task, held_small, f"label-{self.label_dim_}")

    # ------------------------------------------------------------------ calibration
    def _choose(self, candidates: dict[int, nn.Module], held: Transitions) -> None:
        """The label dimension with the best held-out energy score, and its temperature."""
        best = np.inf
        for d, module in candidates.items():
            self.label_dim_, self.networks_["label"] = d, module
            self.temperature_ = np.ones(self._n_channels(self.shape_))
            raw = self._measure_temperature(held) if self.calibrate else self.temperature_
            score = 0.0
            if len(candidates) > 1:
                draws = self.scale_.states(self.draw(held, DRAWS))
                score = float(energy_score(draws, self.scale_.states(held.following)).mean())
            if score < best:
                best, chosen, raw_chosen, tau = score, d, raw, self.temperature_
        self.label_dim_, self.networks_["label"] = chosen, candidates[chosen]
        self.temperature_, self._raw_temperature = tau, raw_chosen

    def _measure_temperature(self, held: Transitions) -> Array:
        rng = np.random.default_rng(self._seed(71))
        residual = self._targets(held) - self._mean_of(held)
        residual = residual / self._local_of(held)
        raw, self.temperature_ = choose_temperature(
            residual, self._lifted(held, rng, DRAWS), self._n_channels(self.shape_),
            most=self._most,
        )  # fmt: skip
        return raw

    def _say(self, task: PhasedTask, held: Transitions, name: str) -> None:
        curve = task.curve(name)
        self.interpolation_ = np.column_stack([curve[:, 0], -curve[:, 1], curve[:, 2]])
        self.train_mse_ratio_ = float(self.interpolation_[-1, 1])
        self.spread_skill_ = float("nan")
        self.flat_residuals_: tuple[str, ...] = ()
        if len(held):
            draws = self.draw(held, DRAWS) / self.scale_.step
            self.spread_skill_ = spread_skill(draws, held.following / self.scale_.step).ratio
        if len(held) and self.residual:
            flat = flat_residuals(self._targets(held) - self._mean_of(held),
                                  self._n_channels(self.shape_))  # fmt: skip
            names = self.names_ if flat.size == len(self.names_) else map(str, range(flat.size))
            self.flat_residuals_ = tuple(n for n, f in zip(names, flat, strict=True) if f)
        if self.flat_residuals_:
            warnings.warn(
                f"one step of {', '.join(self.flat_residuals_)} is flat or has two peaks, and "
                "lifting fills the gap between peaks. AnalogueTransition and "
                "FlowMatchingTransition keep them; compare_samplers tells which is best.",
                ForetellWarning,
                stacklevel=6,
            )
        raw = self._raw_temperature
        if self.calibrate and not np.array_equal(raw, self.temperature_):
            worst = float(raw[np.abs(np.log(raw)).argmax()])
            why = self._why_clipped(worst)
            warnings.warn(
                f"the label temperature should be {worst:.3g} and is kept between {LEAST} and "
                f"{self._most:.2g}, so the width of the draws is wrong; {why}.",
                ForetellWarning,
                stacklevel=6,
            )

    def _why_clipped(self, temperature: float) -> str:
        if temperature < 1:
            return (
                "the held-out residuals are much smaller than the fitted ones: hold back other "
                "recordings, or raise mean_steps"
            )
        if self.train_mse_ratio_ > 2 * float(self.interp_tol):
            return (
                "the label network has not interpolated (error ratio "
                f"{self.train_mse_ratio_:.2g}): raise max_steps (now {self.max_steps}) or width"
            )
        return f"lower label_dim (now {self.label_dim_})"

    # ------------------------------------------------------------------ drawing
    @property
    def _most(self) -> float:
        """Largest temperature; half a difference of unrelated draws has half their variance."""
        return MOST * (float(np.sqrt(2.0)) if self.centre == "pairs" else 1.0)

    @property
    def _tau(self) -> Array:
        n = int(np.prod(self.shape_))
        return np.repeat(self.temperature_, n // self.temperature_.size)

    def _start(self, n_rows: int, rng: np.random.Generator) -> Any:
        if self.label_scope == "transition":
            return None
        return rng.standard_normal((n_rows, self.label_dim_), dtype=np.float32)

    def _next(self, past: Array, context: Array, rng: np.random.Generator, kept: Any) -> Array:
        label = kept
        if label is None:
            label = rng.standard_normal((len(past), self.label_dim_), dtype=np.float32)
        drawn = self._drawn(past, context, label)
        if not self.residual:
            return drawn
        mean = evaluate(self.networks_["mean"], past, context, no_label(len(past)))
        return np.asarray(mean + self._tau * self._local(past, context) * drawn)

    def _drawn(self, past: Array, context: Array, label: Floats) -> Array:
        """The label network, (R, n), as one draw or as half the difference of a pair."""
        network = self.networks_["label"]
        drawn = evaluate(network, past, context, label)
        if self.centre == "pairs" and self.residual:
            return 0.5 * (drawn - evaluate(network, past, context, -label))
        return drawn

    def _mean_of(self, found: Transitions) -> Array:
        past = self.scale_.seen(found.past)
        context = self.scale_.context(found.inputs, found.interval)
        return evaluate(self.networks_["mean"], past, context, no_label(len(past)))

    def _lifted(self, found: Transitions, rng: np.random.Generator, n_draws: int) -> Array:
        """The label network alone, (N, draws, n)."""
        past = np.repeat(self.scale_.seen(found.past), n_draws, axis=0)
        context = self.scale_.context(found.inputs, found.interval)
        label = rng.standard_normal((len(past), self.label_dim_), dtype=np.float32)
        drawn = self._drawn(past, np.repeat(context, n_draws, axis=0), label)
        return drawn.reshape(len(found), n_draws, -1)

    # ------------------------------------------------------------------ checks and keeping
    def _holds_back(self) -> bool:
        return bool(self.validation) and bool(self.residual or self.label_dim == "auto")

    def _check_parameters(self, shape: tuple[int, ...]) -> None:
        super()._check_parameters(shape)
        check_lifting(self)

    def _dimensions(self, n_fitted: int) -> list[int]:
        most = 4 * n_fitted
        if self.label_dim == "auto":
            return [d for d in DIMENSIONS if d <= most] or [most]
        if int(self.label_dim) > most:
            raise ParameterError(
                f"label_dim={self.label_dim} for {n_fitted} fitted transitions; more than four "
                f"times as many ({most}) leave nothing of the spread. Write label_dim="
                f"{max(1, min(64, n_fitted // 2))}."
            )
        return [int(self.label_dim)]

    def _labelled(self, n_fitted: int) -> NDArray[np.int64]:
        most = int(self.max_labelled)
        if n_fitted <= most:
            return np.arange(n_fitted)
        rng = np.random.default_rng(self._seed(72))
        return np.sort(rng.choice(n_fitted, most, replace=False))

    def _label_design(self, label_dim: int) -> Design:
        return self._design(label_dim, odd=self.centre == "odd" and self.residual)

    def _networks(self) -> dict[str, Design]:
        designs = {"label": self._label_design(self.label_dim_)}
        return designs | ({"mean": self._design(0)} if self.residual else {})

    def _facts(self) -> dict[str, Any]:
        return {
            "label_dim": self.label_dim_,
            "train_mse_ratio": repr(self.train_mse_ratio_),
            "spread_skill": repr(self.spread_skill_),
            "flat_residuals": list(self.flat_residuals_),
        }

    def _take_facts(self, facts: dict[str, Any]) -> None:
        self.label_dim_ = facts["label_dim"]
        self.train_mse_ratio_ = float(facts["train_mse_ratio"])
        self.spread_skill_ = float(facts["spread_skill"])
        self.flat_residuals_ = tuple(facts["flat_residuals"])

    def _learned(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._learned()
        own = {
            "temperature": self.temperature_,
            "scale_coefficients": self.scale_coefficients_,
            "interpolation": self.interpolation_,
        }
        return arrays | own, facts

    def _restore(self, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
        super()._restore(arrays, facts)
        self.temperature_ = arrays["temperature"]
        one_width = np.zeros((len(self.temperature_), 1))  # of models kept by earlier versions
        self.scale_coefficients_ = arrays.get("scale_coefficients", one_width)
        self.interpolation_ = arrays["interpolation"]
