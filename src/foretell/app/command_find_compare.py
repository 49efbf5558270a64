"""``foretell find compare``: every decoder on the vectors, or the codes, that somebody has."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import typer
from numpy.typing import NDArray

from foretell.app.command_find_arrays import (
    checked_vectors,
    encoded,
    nearest,
    read_array,
    shape_words,
    unit_rows,
)
from foretell.app.words import number
from foretell.core.errors import ArtifactError, DataError, ParameterError
from foretell.core.files import write_text_atomic
from foretell.recall import CosineDecoder, SignSketch

Array = NDArray[np.float64]
Ids = NDArray[np.int64]

QUERIES = 200  # compared; more change the figures little
DECODERS = ("hamming", "linear", "normalized", "llr", "decorrelated", "mle")
_OTHERS = 256  # vectors that are no neighbours, for the errors of the estimates
_RESCORED = 500  # candidates to which the most likely cosine is fitted
_DRAWS = 1000
_AGREE = 0.99  # share of bits that the directions must explain


@dataclass(frozen=True)
class CompareRequest:
    """The options of ``foretell find compare``."""

    codes: Path
    queries: Path
    vectors: Path | None = None
    matrix: Path | None = None
    bits: int | None = None
    bit_order: str | None = None
    k: int = 10
    out: Path = Path("compare.html")


@dataclass(frozen=True)
class Decoded:
    """One decoder on one kind of codes.

    Parameters
    ----------
    projection, decoder : str
        Where the bits come from, and how they are read.
    recall : array (b,)
        Share of the true neighbours among the first candidates, for the budgets of the study.
    budget : tuple of int
        Candidates for 95 % recall, with a 95 % interval over queries.
    error, near_error : float
        Root mean square error of the cosine: of vectors drawn at random, and of the neighbours.
    covered : float
        Share of random vectors whose cosine is within two standard errors of its estimate.
    """

    projection: str
    decoder: str
    recall: Array = field(repr=False)
    budget: tuple[int, int, int]
    error: float
    near_error: float
    covered: float

    @property
    def name(self) -> str:
        """Both in one, for a table."""
        return f"{self.projection}, {self.decoder}"

    @property
    def words(self) -> str:
        """Both in one, for a sentence."""
        codes = (
            self.projection if self.projection.startswith("your") else f"{self.projection} codes"
        )
        return f"{self.decoder} on {codes}"


@dataclass(frozen=True)
class Comparison:
    """All decoders side by side."""

    source: str
    n: int
    dimension: int
    bits: int
    n_queries: int
    k: int
    given: bool
    budgets: Ids = field(repr=False)
    nearest: tuple[float, float, float]
    rows: tuple[Decoded, ...]
    notes: tuple[str, ...]


def run(request: CompareRequest, *, as_json: bool = False) -> Comparison:
    """Compare, write the picture, print the table."""
    from foretell.app.report.compare_page import render_comparison

    if request.out.exists():
        raise ArtifactError(
            f"{request.out} exists, and nothing was touched. Give a new name with --out, or remove "
            "it."
        )
    found = compare(request)
    write_text_atomic(request.out, render_comparison(found))
    if as_json:
        typer.echo(json.dumps(_json(found, request.out), indent=2, ensure_ascii=False))
    else:
        typer.echo("\n".join([*lines(found), "", f"Picture  {request.out}"]))
    return found


def compare(request: CompareRequest) -> Comparison:
    """Read the arrays and measure every decoder."""
    first = read_array(request.codes)
    given = first.dtype == np.uint8
    if given:
        if request.vectors is None:
            raise ParameterError(
                f"{request.codes} holds packed codes ({shape_words(first)} bytes). What they find "
                "can only be judged beside the vectors that they were made of: add --vectors "
                "X.npy. Or give the vectors instead of the codes."
            )
        X = checked_vectors(read_array(request.vectors), request.vectors)
    else:
        if request.vectors is not None:
            raise ParameterError(
                f"{request.codes} holds vectors, and so does --vectors. Leave --vectors out, or "
                "give packed codes (uint8) first."
            )
        X = checked_vectors(first, request.codes)
    Q = checked_vectors(read_array(request.queries), request.queries)
    if Q.shape[1] != X.shape[1]:
        raise DataError(
            f"{request.queries} has {Q.shape[1]} columns and the vectors have {X.shape[1]}. Both "
            "must come from the same model."
        )
    if not 1 <= request.k <= len(X):
        raise ParameterError(
            f"--k {request.k} neighbours of {len(X)} vectors are not possible. Write --k "
            f"{min(10, len(X))}."
        )
    notes = []
    if len(Q) > QUERIES:
        notes.append(f"{QUERIES} of the {number(float(len(Q)), 9)} queries were used, evenly.")
        Q = Q[np.linspace(0, len(Q) - 1, QUERIES).astype(int)]
    units = SignSketch(n_bits=8, random_state=0).fit(Q).normalised_queries(unit_rows(Q))
    truth, cosines = nearest(X, units, request.k)
    if given:
        sketch, said = _recovered(first, X, request)
        notes += said
        pairs = [("your codes", sketch, np.ascontiguousarray(first))]
    else:
        pairs = [(name, sketch, encoded(sketch, X)) for name, sketch in _sketches(X, request)]
    budgets = np.unique(np.geomspace(request.k, len(X), 60).astype(np.int64))
    pool = np.random.default_rng(0).integers(len(X), size=_OTHERS)
    sample = unit_rows(np.asarray(X[np.sort(pool)], np.float64))
    rows = tuple(
        _decoded(
            name, sketch, codes, method, units, (truth, cosines), (np.sort(pool), sample), budgets
        )
        for name, sketch, codes in pairs
        for method in DECODERS
        if not (sketch.orthogonal_ and method == "decorrelated")
    )
    notes.append("normalized ranks as linear does; on orthogonal directions so does decorrelated.")
    low, middle, high = np.quantile(cosines, (0.1, 0.5, 0.9))
    return Comparison(
        source=request.codes.name,
        n=len(X),
        dimension=X.shape[1],
        bits=pairs[0][1].matrix_.shape[0],
        n_queries=len(Q),
        k=request.k,
        given=given,
        budgets=budgets,
        nearest=(float(low), float(middle), float(high)),
        rows=rows,
        notes=tuple(notes),
    )


def lines(found: Comparison) -> list[str]:
    """The comparison as a table for a terminal."""
    low, middle, high = found.nearest
    out = [
        f"{number(float(found.n), 9)} vectors of {found.dimension} dimensions, {found.bits} bits "
        f"each; {found.n_queries} queries, their {found.k} nearest by exact cosine ({low:.2f}, "
        f"{middle:.2f}, {high:.2f} at 10, 50, 90 %)",
        "",
        f"{'codes and decoder':26} {'95 % recall at':>22} {'error':>8} {'of nearest':>11} "
        f"{'in 2 s.e.':>10}",
    ]
    for row in found.rows:
        middle_, low_, high_ = row.budget
        at = f"{middle_} [{low_}, {high_}]"
        out.append(
            f"{row.name:26} {at:>22} {row.error:8.4f} {row.near_error:11.4f} "
            f"{100 * row.covered:8.1f} %"
        )
    return [*out, "", best_words(found), *found.notes]


def best_words(found: Comparison) -> str:
    """What there is to gain, in one sentence."""
    base = next(row for row in found.rows if row.decoder == "hamming")
    best = min(found.rows, key=lambda row: (row.budget[0], row.near_error))
    if best.budget[0] >= base.budget[0]:
        return (
            f"Counting equal bits ({base.words}) needs {base.budget[0]} candidates for 95 % "
            "recall, and no decoder needs fewer."
        )
    return (
        f"For 95 % recall, {best.words} needs {number(float(best.budget[0]), 9)} candidates where "
        f"{base.words} needs {number(float(base.budget[0]), 9)}."
    )


def _decoded(
    projection: str,
    sketch: SignSketch,
    codes: NDArray[np.uint8],
    method: str,
    units: Array,
    truth: tuple[Ids, Array],
    sample: tuple[Ids, Array],
    budgets: Ids,
) -> Decoded:
    decoder = CosineDecoder(method)
    ids, cosines = truth
    rows, others = sample
    ranks = np.empty(ids.shape)
    errors, near, covered = [], [], []
    for q, plan in enumerate(decoder.prepare_many(sketch, units)):
        votes = plan.ranking(codes)
        ranks[q] = _ranks(votes, ids[q])
        guess = decoder.score(plan, codes[rows])
        off = guess - others @ units[q]
        errors.append(off)
        covered.append(np.abs(off) <= 2 * decoder.standard_error(plan, guess))
        near.append(decoder.score(plan, codes[ids[q]]) - cosines[q])
        if method == "mle":
            ranks[q] = _rescored(decoder, plan, codes, votes, ids[q], ranks[q])
    return Decoded(
        projection,
        method,
        np.array([(ranks <= budget).mean() for budget in budgets]),
        _budget(ranks),
        float(np.sqrt(np.mean(np.square(errors)))),
        float(np.sqrt(np.mean(np.square(near)))),
        float(np.mean(covered)),
    )


def _ranks(scores: Array, wanted: Ids) -> Array:
    """Expected places, from 1 on, of some vectors when ties are broken by lot."""
    ordered = np.sort(scores)
    mine = scores[wanted]
    above = len(scores) - np.searchsorted(ordered, mine, side="right")
    equal = np.searchsorted(ordered, mine, side="right") - np.searchsorted(ordered, mine)
    places: Array = above + (equal + 1) / 2
    return places


def _rescored(
    decoder: CosineDecoder,
    plan: Any,
    codes: NDArray[np.uint8],
    votes: Array,
    wanted: Ids,
    ranks: Array,
) -> Array:
    """Places after the candidates were ordered by their most likely cosine."""
    size = min(_RESCORED, len(votes))
    top = np.sort(np.argpartition(-votes, size - 1)[:size])
    inside = np.isin(wanted, top)
    better = _ranks(decoder.score(plan, codes[top]), np.searchsorted(top, wanted[inside]))
    out = ranks.copy()
    out[inside] = better
    return out


def _budget(ranks: Array) -> tuple[int, int, int]:
    """Candidates for 95 % recall, with an interval over resampled queries."""

    def needed(some: Array) -> int:
        flat = np.sort(some.ravel())
        return math.ceil(float(flat[math.ceil(0.95 * flat.size) - 1]))

    rng = np.random.default_rng(0)
    draws = [needed(ranks[rng.integers(len(ranks), size=len(ranks))]) for _ in range(_DRAWS)]
    low, high = np.quantile(draws, (0.025, 0.975), method="nearest")
    return needed(ranks), int(low), int(high)


def _sketches(X: NDArray[Any], request: CompareRequest) -> list[tuple[str, SignSketch]]:
    if request.matrix is not None:
        if request.bits is not None:
            raise ParameterError("--matrix says how many bits there are. Leave --bits out.")
        return [("your directions", _from_matrix(request, X.shape[1], "little"))]
    bits = request.bits if request.bits is not None else 8 * math.ceil(X.shape[1] / 8)
    return [
        (name, SignSketch(n_bits=bits, projection=name, random_state=0).fit(unit_rows(X[:1])))
        for name in ("gaussian", "orthogonal")
    ]


def _from_matrix(request: CompareRequest, dimension: int, order: str) -> SignSketch:
    if request.matrix is None:
        return SignSketch.from_matrix(np.eye(dimension), bit_order=order)
    G = checked_vectors(read_array(request.matrix), request.matrix)
    if G.shape[1] != dimension:
        raise DataError(
            f"{request.matrix} has {G.shape[1]} columns and the vectors have {dimension}: one row "
            "for each bit, (n_bits, d), is needed."
        )
    return SignSketch.from_matrix(G, bit_order=order)


def _recovered(
    codes: NDArray[np.uint8], X: NDArray[Any], request: CompareRequest
) -> tuple[SignSketch, list[str]]:
    """The sketch that made the codes: checked on some of them, bit order included."""
    if request.bits is not None:
        raise ParameterError("--bits is for vectors; codes have the bits that they have.")
    if len(codes) != len(X):
        raise DataError(
            f"{request.codes} has {len(codes)} rows and {request.vectors} has {len(X)}: row i of "
            "one must be the code of row i of the other."
        )
    if request.bit_order not in (None, "little", "big"):
        raise ParameterError(f"--bit-order {request.bit_order} is neither little nor big.")
    dimension, width = X.shape[1], codes.shape[1]
    if request.matrix is None and width != math.ceil(dimension / 8):
        raise ParameterError(
            f"The codes have {8 * width} bits and the vectors {dimension} dimensions, so the bits "
            "are not the signs of the values themselves. Add --matrix G.npy, (n_bits, d), the "
            "directions that made them."
        )
    some = np.linspace(0, len(X) - 1, min(len(X), 256)).astype(int)
    agreed: dict[Literal["big", "little"], float] = {}
    orders: tuple[Literal["big", "little"], ...] = ("big", "little")
    for order in orders:
        if request.bit_order and order != request.bit_order:
            continue
        sketch = _from_matrix(request, dimension, order)
        if sketch.n_bytes_ != width:
            raise DataError(
                f"The codes have {width} bytes and the directions make {sketch.n_bytes_}. Give the "
                "matrix that made the codes with --matrix."
            )
        bits = sketch.matrix_.shape[0]
        mine = np.unpackbits(sketch.transform(unit_rows(X[some])), 1, bits, order)
        theirs = np.unpackbits(np.asarray(codes[some], np.uint8), 1, bits, order)
        agreed[order] = float((mine == theirs).mean())
    order = max(agreed, key=lambda name: agreed[name])
    by = "your matrix" if request.matrix else "the signs of the values"
    if agreed[order] < _AGREE:
        shares = " and ".join(f"{share:.1%} ({name})" for name, share in agreed.items())
        raise DataError(
            f"The codes are not {by}: of the bits of {len(some)} vectors, {shares} agree. Give the "
            "directions that made them with --matrix G.npy; a centre that was subtracted must be "
            "subtracted from the vectors too."
        )
    said = f"The codes were made with {by}, {order} bit first ({agreed[order]:.1%} of bits agree)."
    return _from_matrix(request, dimension, order), [said]


def _json(found: Comparison, out: Path) -> dict[str, Any]:
    return {
        "picture": out.as_posix(),
        "vectors": found.n,
        "dimension": found.dimension,
        "bits": found.bits,
        "queries": found.n_queries,
        "k": found.k,
        "nearest_cosines": list(found.nearest),
        "decoders": [
            {
                "codes": row.projection,
                "decoder": row.decoder,
                "candidates_for_95": row.budget[0],
                "interval": list(row.budget[1:]),
                "error": row.error,
                "error_of_nearest": row.near_error,
                "within_two_standard_errors": row.covered,
                "recall": dict(
                    zip(map(str, found.budgets.tolist()), row.recall.tolist(), strict=True)
                ),
            }
            for row in found.rows
        ],
        "notes": list(found.notes),
    }
