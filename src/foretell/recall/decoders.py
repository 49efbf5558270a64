"""CosineDecoder: from a query and sign bits to cosines with error bars.

    t_j = sqrt(d) <g_j, q> / |g_j|   standard normal over directions
    b_j = +1 or -1                   the stored bits
    score of a code = offset + scale * sum_j w_j b_j

    hamming        w = sign(t): every bit has one vote; rho = sin(pi/2 mean_j b_j sign(t_j))
    linear         w = t, unbiased
    normalized     w = t / sqrt(mean t^2), same ranking as linear
    llr            w = half the log-likelihood ratio of one design cosine against zero
    decorrelated   w = C^-1 Gn q with C the correlation of the bits (arcsine law): the best linear
                   unbiased weights when documents have no preferred direction
    mle            the most likely cosine; scans with the decorrelated weights

A bit whose direction is nearly orthogonal to the query says nothing; hamming lets it vote all the
same. That is all of the gain of query-aware decoding near a cosine of zero: sqrt(2 / pi) in error.

Differs from the publication, of which only the abstract is known: decorrelated weights, design
cosines, closed forms for orthogonal rows and posteriors are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ParameterError
from foretell.recall import variance
from foretell.recall.likelihood import (
    CosinePrior,
    Posterior,
    grid_posterior,
    likelihood_weights,
    maximum_likelihood,
)
from foretell.recall.linear_rows import LinearDecoding
from foretell.recall.scan import checked_codes, weighted_votes
from foretell.recall.sign_coding import SignCoding

Array = NDArray[np.float64]
Codes = NDArray[np.uint8]

METHODS = ("auto", "hamming", "linear", "normalized", "llr", "decorrelated", "mle")
_DESIGN = 0.5
_EDGE = 0.99
_ROWS = 512  # candidates of one block of likelihoods
_GRID = np.tanh(np.linspace(-3.0, 3.0, 129))


@dataclass(frozen=True, repr=False)
class QueryPlan:
    """What one query needs in order to score codes.

    Attributes
    ----------
    method : str
        How cosines are estimated.
    weights : array (n_bits,)
        Votes of the bits; a sum of signed votes ranks the codes.
    scale, offset : float
        ``offset + scale * sum_j weights_j * b_j`` is the ranking score, for every method. It is
        the estimated cosine for linear, normalized and decorrelated.
    projections : array (n_bits,)
        t_j, standard normal over directions.
    bit_order : str
        Which bit of a byte comes first in the codes.
    dimension : int
        d.
    constraint : float
        `SignSketch.constraint_`, which the error bars depend on.
    decoding : LinearDecoding or None
        The exact errors of the linear and decorrelated decoders.
    centred : bool
        Whether the codes are those of x - mean. Then `CosineDecoder.score` needs the norms of
        x - mean, and the ranking score is
        ``offset - norm^2 / 2 + norm * scale * sum_j weights_j * b_j``.
    length : float
        |q - mean| where centred, else 1.
    """

    method: str
    weights: Array
    scale: float
    offset: float
    projections: Array
    bit_order: str
    dimension: int
    centred: bool
    length: float = 1.0
    constraint: float = 0.0
    decoding: LinearDecoding | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"QueryPlan({self.method}, {self.n_bits} bits, d={self.dimension})"

    @property
    def n_bits(self) -> int:
        """Bits of a code."""
        return int(self.weights.size)

    def ranking(self, codes: Codes, norms: ArrayLike | None = None) -> Array:
        """Ranking scores (n,) of packed codes (n, n_bytes), with norms (n,) where centred."""
        votes = weighted_votes(codes, self.weights, self.bit_order).astype(np.float64)
        base, lengths = self._frame(self._lengths(codes, norms))
        return np.asarray(base + lengths * self.scale * votes)

    def signs(self, codes: Codes) -> Array:
        """The bits (n, n_bits) as +1 and -1."""
        packed = checked_codes(codes, self.n_bits)
        bits = np.unpackbits(packed, axis=1, count=self.n_bits, bitorder=self.bit_order)  # type: ignore[call-overload]
        return np.asarray(bits * 2.0 - 1.0)

    def _frame(self, norms: Array) -> tuple[Array, Array]:
        """Cosine = base + lengths * (cosine of the residuals) * self.length."""
        # <q, x> = <q, mu> + <x, mu> - |mu|^2 + <q - mu, x - mu>, and a norm tells <x, mu> of a
        # unit vector: 2 <x, mu> = 1 + |mu|^2 - |x - mu|^2. All that is constant is in the offset.
        return (self.offset - norms**2 / 2 if self.centred else self.offset + 0 * norms), norms

    def _lengths(self, codes: Codes, norms: ArrayLike | None) -> Array:
        n = np.shape(codes)[0]
        if (norms is not None) != self.centred:
            raise DataError(
                "The sketch is centred, and the score needs norms=sketch.residual_norms(X)."
                if self.centred
                else "Norms were given, and the sketch is not centred. Fit it with center='mean', "
                "or leave norms out."
            )
        if norms is None:
            return np.ones(n)
        lengths = np.asarray(norms, dtype=np.float64)
        if lengths.shape != (n,) or not (np.isfinite(lengths) & (lengths >= 0)).all():
            raise DataError(
                f"The norms have shape {lengths.shape}; {n} codes need {n} finite numbers >= 0 "
                "from sketch.residual_norms(X)."
            )
        return lengths


class CosineDecoder:
    """Estimate cosines between queries and sign sketches.

    Parameters
    ----------
    method : {"auto", "hamming", "linear", "normalized", "llr", "decorrelated", "mle"}
        "auto" is linear on orthogonal rows, where it is the same as decorrelated, and decorrelated
        on all others.
    design_cosine : float, optional
        Of the neighbours that "llr" looks for, 0.5 if not given; in (0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from foretell.recall import SignSketch
    >>> rng = np.random.default_rng(0)
    >>> q, noise = np.linalg.qr(rng.normal(size=(128, 2)))[0].T
    >>> x = 0.6 * q + 0.8 * noise
    >>> sketch = SignSketch(n_bits=128, random_state=0).fit(x[None])
    >>> decoder = CosineDecoder()
    >>> plan = decoder.prepare(sketch, q)
    >>> rho = decoder.score(plan, sketch.transform(x[None]))
    >>> bool(abs(rho[0] - 0.6) < 3 * decoder.standard_error(plan, rho)[0])
    True
    """

    def __init__(self, method: str = "auto", *, design_cosine: float | None = None) -> None:
        if method not in METHODS:
            raise ParameterError(
                f"method={method!r} is unknown. Use one of {', '.join(map(repr, METHODS))}."
            )
        if design_cosine is not None and not 0 < design_cosine < 1:
            raise ParameterError(
                f"design_cosine={design_cosine} must lie between 0 and 1. Write design_cosine=0.5."
            )
        self.method = method
        self.design_cosine = design_cosine

    def __repr__(self) -> str:
        design = "" if self.design_cosine is None else f", design_cosine={self.design_cosine}"
        return f"CosineDecoder({self.method!r}{design})"

    def prepare(self, sketch: SignCoding, q: ArrayLike) -> QueryPlan:
        """The plan of one query (d,); its length does not matter, but is warned about."""
        query = np.asarray(q)
        if query.ndim != 1:
            raise DataError(
                f"prepare takes one query (d,), and got shape {query.shape}. "
                "Use prepare_many(sketch, Q)."
            )
        (plan,) = self.prepare_many(sketch, query[None])
        return plan

    def prepare_many(self, sketch: SignCoding, Q: ArrayLike) -> list[QueryPlan]:
        """One plan for each query of Q (nq, d)."""
        queries = sketch.normalised_queries(Q)
        offsets, lengths = np.zeros(len(queries)), np.ones(len(queries))
        if sketch.mean_ is not None:
            offsets = queries @ sketch.mean_ + (1 - sketch.mean_ @ sketch.mean_) / 2
            queries = queries - sketch.mean_
            lengths = np.linalg.norm(queries, axis=1)
            queries = queries / np.where(lengths == 0, 1.0, lengths)[:, None]
        raw = sketch.project_unit(queries)
        d = sketch.n_features_in_
        method = self.method
        if method == "auto":
            method = "linear" if sketch.orthogonal_ else "decorrelated"
        T = raw * np.sqrt(d)
        decoding = None
        if method in ("linear", "decorrelated", "mle"):
            decoding = sketch.decoding("decorrelated" if method == "mle" else method)
            W, scales = decoding.weights(queries, raw)
        else:
            W, scales = self._own_weights(method, T)
        constraint = 0.0 if method in ("linear", "decorrelated") else sketch.constraint_
        return [
            QueryPlan(
                method, W[i], float(scales[i] * lengths[i]), float(offsets[i]), T[i],
                sketch.bit_order, d, sketch.mean_ is not None, float(lengths[i]), constraint,
                decoding,
            )
            for i in range(len(T))
        ]  # fmt: skip

    def score(self, plan: QueryPlan, codes: Codes, norms: ArrayLike | None = None) -> Array:
        """Estimated cosines (n,) of packed codes (n, n_bytes).

        Linear estimates are unbiased and may lie outside of [-1, 1].

        Raises
        ------
        DataError
            For codes of another width or type, and for norms that are missing or not needed.
        """
        if plan.method in ("linear", "normalized", "decorrelated"):
            return plan.ranking(codes, norms)
        base, lengths = plan._frame(plan._lengths(codes, norms))
        if plan.method == "hamming":
            votes = weighted_votes(codes, plan.weights, plan.bit_order)
            rho: Array = np.sin(np.pi / 2 / plan.n_bits * votes.astype(np.float64))
        elif plan.method == "llr":
            grid, expected = self._expected_votes(plan)
            votes = weighted_votes(codes, plan.weights, plan.bit_order)
            rho = np.interp(votes, expected, grid)
        else:
            rho = np.concatenate(
                [
                    maximum_likelihood(plan.signs(codes[i : i + _ROWS]) * plan.projections)
                    for i in range(0, max(len(codes), 1), _ROWS)
                ]
            )
        return np.asarray(base + lengths * plan.length * rho)

    def standard_error(
        self, plan: QueryPlan, rho_hat: ArrayLike, norms: ArrayLike | None = None
    ) -> Array:
        """Standard error of estimated cosines, from closed forms; estimates are clipped to 0.99.

        For centred plans `rho_hat` are the cosines that `score` gave, with the same norms.
        """
        rho, lengths = np.asarray(rho_hat, dtype=np.float64), np.ones(1)
        if plan.centred:
            base, lengths = plan._frame(plan._lengths(np.empty((rho.size, 0), np.uint8), norms))
            lengths = lengths * plan.length
            rho = (rho - base) / np.maximum(lengths, 1e-12)
        rho = np.clip(rho, -_EDGE, _EDGE)
        if plan.decoding is not None and plan.method != "mle":
            return np.asarray(lengths * np.sqrt(plan.decoding.variance(rho)))
        if plan.method == "llr":
            return np.asarray(lengths * self._llr_error(plan, rho))
        scaled = variance.scaled_variance(plan.method, rho, bits_per_dimension=plan.constraint)
        return np.asarray(lengths * np.sqrt(scaled / plan.n_bits))

    def posterior(
        self, plan: QueryPlan, codes: Codes, prior: CosinePrior | None = None
    ) -> Posterior:
        """What the bits and a prior say about each candidate's cosine, on a grid.

        The likelihood treats bits as independent; for a fixed query the ranking can differ from
        that of the linear score, unlike with the usual shrinkage towards the mean.

        Parameters
        ----------
        plan : QueryPlan
        codes : array (C, n_bytes)
            Candidates, hundreds rather than millions.
        prior : CosinePrior, optional
            Measured on your vectors: ``CosinePrior.from_pairs(X)``. Flat where it is left out.

        Raises
        ------
        DataError
            For a centred plan, whose bits are about x - mean and not about x.
        """
        if plan.centred:
            raise DataError(
                "A posterior of a centred sketch is about x - mean. Use an uncentred sketch, or "
                "score and standard_error."
            )
        known = prior or CosinePrior(tail=1 - 1e-9)
        kappas = _GRID / np.sqrt(1 - _GRID**2)
        pairs = [likelihood_weights(float(k), plan.projections) for k in kappas]
        votes = plan.signs(codes) @ np.stack([w for w, _ in pairs], axis=1)
        return grid_posterior(votes, np.array([c for _, c in pairs]), _GRID, known)

    def _own_weights(self, method: str, T: Array) -> tuple[Array, Array]:
        m = T.shape[1]
        if method == "hamming":
            return np.where(T >= 0, 1.0, -1.0), np.full(len(T), 1 / m)
        if method == "normalized":
            size = np.sqrt((T**2).mean(axis=1))
            return T, np.sqrt(np.pi / 2) / m / size
        rho = self.design_cosine or _DESIGN
        W, _ = likelihood_weights_rows(rho / np.sqrt(1 - rho**2), T)
        return W, 1 / (np.sqrt(2 / np.pi) * (W * T).sum(axis=1))

    def _expected_votes(self, plan: QueryPlan) -> tuple[Array, Array]:
        """Mean of the votes for each cosine of a grid, increasing."""
        from scipy.special import ndtr

        kappas = _GRID / np.sqrt(1 - _GRID**2)
        return _GRID, (2 * ndtr(np.outer(kappas, plan.projections)) - 1) @ plan.weights

    def _llr_error(self, plan: QueryPlan, rho: Array) -> Array:
        """Spread of the votes over the slope of their mean, both given the projections."""
        from scipy.special import ndtr

        grid, expected = self._expected_votes(plan)
        g, t = plan.weights, plan.projections
        r, s2 = grid[:, None], 1 - grid[:, None] ** 2
        kappa, mu = r / np.sqrt(s2), r * t
        p = ndtr(kappa * t)
        density = 2 * np.sqrt(s2 / (2 * np.pi)) * np.exp(-0.5 * (kappa * t) ** 2)
        spread = (4 * p * (1 - p)) @ g**2
        # What sum z^2 and sum z t explain of the votes, as in the module `variance`.
        c = np.stack([(g * mu * density).sum(1), (g * t * density).sum(1)], axis=1)
        both = (2 * t * mu * s2).sum(1)
        S = np.stack(
            [np.stack([(2 * s2**2 + 4 * mu**2 * s2).sum(1), both], 1),
             np.stack([both, (t**2 * s2).sum(1)], 1)], axis=1,
        )  # fmt: skip
        explained = (c * np.linalg.solve(S, c[..., None])[..., 0]).sum(1)
        error = np.sqrt(spread - plan.constraint * explained) / np.gradient(expected, grid)
        return np.asarray(np.interp(rho, grid, error))


def likelihood_weights_rows(kappa: float, T: Array) -> tuple[Array, Array]:
    """`likelihood_weights` for rows of projections T (nq, m): weights (nq, m), constants (nq,)."""
    pairs = [likelihood_weights(kappa, t) for t in T]
    return np.stack([w for w, _ in pairs]), np.array([c for _, c in pairs])
