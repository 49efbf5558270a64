"""The fast scan: codes kept in blocks of thirty-two, and scores from eight-bit tables.

Each half byte of a code picks one of sixteen sums of four signed weights, rounded to eight bits
with one step for all of them. The best codes by rounded scores, and some more, are then scored
again with the exact weights.

    n   codes     B   bytes of a code     k   codes wanted    S   codes scored again

Measured against faiss's brute force over binary codes in benchmarks/qacos_scan.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ParameterError
from foretell.recall._shuffle import LANES, sum_block
from foretell.recall.scan import byte_tables, checked_codes

Codes = NDArray[np.uint8]
Array = NDArray[np.float64]

_TILE = 256  # blocks that several queries scan before the next ones: 400 kB at 384 bits
_SPARE = 64


@dataclass(frozen=True, repr=False)
class Ranking:
    """The best codes of each query, best first.

    Attributes
    ----------
    rows : array (nq, k), int64
        Row numbers of codes; -1 where there were fewer than k.
    votes : array (nq, k), float32
        Their weighted votes, sum_j w_j b_j; minus infinity where there were fewer.
    """

    rows: NDArray[np.int64]
    votes: NDArray[np.float32]

    def __repr__(self) -> str:
        return f"Ranking({self.rows.shape[0]} queries, {self.rows.shape[1]} codes each)"


@dataclass(frozen=True, repr=False)
class BlockedCodes:
    """Packed codes in the order in which the scan reads them; as large as the codes.

    Attributes
    ----------
    blocks : array (n_blocks, B, 32), uint8
        Byte b of thirty-two codes side by side.
    n : int
        Codes; the last block is filled up with zeros.
    n_bits : int
        Bits of a code.
    bit_order : {"little", "big"}
        Which bit of a byte comes first.

    Examples
    --------
    >>> import numpy as np
    >>> from foretell.recall import CosineDecoder, SignSketch
    >>> X = np.random.default_rng(0).normal(size=(1000, 64))
    >>> X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> sketch = SignSketch(n_bits=64, random_state=0).fit(X)
    >>> blocked = BlockedCodes.from_codes(sketch.transform(X), n_bits=64)
    >>> plans = CosineDecoder().prepare_many(sketch, X[:2])
    >>> blocked.top(np.stack([plan.weights for plan in plans]), k=5).rows[:, 0].tolist()
    [0, 1]
    """

    blocks: Codes
    n: int
    n_bits: int
    bit_order: str = "little"

    def __repr__(self) -> str:
        return f"BlockedCodes({self.n} codes of {self.n_bits} bits)"

    @classmethod
    def from_codes(
        cls, codes: Codes, *, n_bits: int | None = None, bit_order: str = "little"
    ) -> BlockedCodes:
        """Rearrange packed codes (n, B)."""
        rows = checked_codes(codes, np.shape(codes)[-1] * 8 if n_bits is None else n_bits)
        n, n_bytes = rows.shape
        padded = np.zeros((-(-n // LANES) * LANES, n_bytes), np.uint8)
        padded[:n] = rows
        blocks = np.ascontiguousarray(padded.reshape(-1, LANES, n_bytes).transpose(0, 2, 1))
        return cls(blocks, n, n_bytes * 8 if n_bits is None else n_bits, bit_order)

    def codes(self, rows: ArrayLike | None = None) -> Codes:
        """The packed codes (n, B), or those of some rows."""
        wanted = np.arange(self.n) if rows is None else np.asarray(rows, dtype=np.int64)
        return np.ascontiguousarray(self.blocks[wanted // LANES, :, wanted % LANES])

    def top(
        self,
        weights: ArrayLike,
        k: int,
        *,
        alive: NDArray[np.bool_] | None = None,
        refine: bool = True,
    ) -> Ranking:
        """The k codes with the largest weighted votes for each query.

        Parameters
        ----------
        weights : array (nq, n_bits) or (n_bits,)
            Of the queries' plans.
        k : int
            Codes wanted, at least 1.
        alive : array (n,) of bool, optional
            Codes that may be found.
        refine : bool
            Score some more codes than k again with the exact weights. Without it, votes and order
            are those of the rounded tables.

        Raises
        ------
        DataError
            For weights of another number of bits, or not finite.
        ParameterError
            For k < 1.
        """
        W = np.atleast_2d(np.asarray(weights, dtype=np.float64))
        if W.ndim != 2 or W.shape[1] != self.n_bits or not np.isfinite(W).all():
            raise DataError(
                f"The weights have shape {W.shape}; codes of {self.n_bits} bits need finite "
                f"weights (nq, {self.n_bits}) from CosineDecoder.prepare_many."
            )
        if k < 1:
            raise ParameterError(f"k={k} asks for nothing. Write k=10.")
        kept = min(k + k // 8 + _SPARE if refine else k, max(self.n, 1))
        tables, steps, floors = _rounded_tables(W, self.bit_order)
        keys, rows, counts = _scan(self.blocks, self._masks(alive), tables, kept)
        return self._ranked(W, k, keys, rows, counts, (steps, floors) if not refine else None)

    def _masks(self, alive: NDArray[np.bool_] | None) -> NDArray[np.uint32]:
        """One bit for each code that may be found, a word for each block."""
        if alive is None:
            masks = np.full(self.blocks.shape[0], 0xFFFFFFFF, np.uint32)
            if self.n % LANES:
                masks[-1] = (1 << self.n % LANES) - 1
            return masks
        if np.shape(alive) != (self.n,):
            raise DataError(
                f"alive has shape {np.shape(alive)}; {self.n} codes need ({self.n},) of bool."
            )
        bits = np.zeros(self.blocks.shape[0] * LANES, np.uint8)
        bits[: self.n] = np.asarray(alive, dtype=bool)
        return np.packbits(bits, bitorder="little").view("<u4").astype(np.uint32)

    def _ranked(
        self,
        W: Array,
        k: int,
        keys: NDArray[np.uint16],
        rows: NDArray[np.int64],
        counts: NDArray[np.int64],
        rounding: tuple[Array, Array] | None,
    ) -> Ranking:
        found = np.full((len(W), k), -1, np.int64)
        votes = np.full((len(W), k), -np.inf, np.float32)
        for q, count in enumerate(counts):
            mine = rows[q, :count]
            if rounding is None:
                values = np.empty(count, np.float32)
                _look_up_rows(self.blocks, mine, byte_tables(W[q], self.bit_order), values)
            else:
                values = (keys[q, :count] * rounding[0][q] - rounding[1][q]).astype(np.float32)
            best = np.lexsort((mine, -values))[:k]
            found[q, : best.size], votes[q, : best.size] = mine[best], values[best]
        return Ranking(found, votes)


def _rounded_tables(W: Array, bit_order: str) -> tuple[Codes, Array, Array]:
    """Tables (nq, B, 2, 32), and the step and floor (nq,): votes = step * sum - floor."""
    nq, m = W.shape
    n_bytes = -(-m // 8)
    padded = np.zeros((nq, n_bytes * 8))
    padded[:, :m] = W
    fours = padded.reshape(nq, n_bytes, 2, 4)
    if bit_order == "big":  # the first four bits are then the upper half, most significant first
        fours = fours[:, :, ::-1, ::-1]
    patterns = (np.arange(16)[:, None] >> np.arange(4)) & 1  # (16, 4)
    reach = 2 * np.abs(fours).sum(axis=3)
    raised = fours @ (2.0 * patterns.T - 1) + reach[..., None] / 2
    largest, total = reach.max(axis=(1, 2)), reach.sum(axis=(1, 2))
    # Half a step for each table is kept free, so that rounding up cannot pass 2^16 - 1.
    steps = np.maximum(largest / 255, total / (65535 - n_bytes))
    steps[steps == 0] = 1.0
    entries = np.rint(raised / steps[:, None, None, None]).astype(np.uint8)
    tables = np.ascontiguousarray(np.concatenate([entries, entries], axis=3))
    # What rounding adds on average over all codes is known, and is taken off.
    lost = (raised - steps[:, None, None, None] * entries).mean(axis=3).sum(axis=(1, 2))
    return tables, steps, total / 2 - lost


@njit(cache=True, nogil=True)
def _scan(  # type: ignore[no-untyped-def]
    blocks, masks, tables, kept
):
    """The best `kept` sums of each query, unordered: sums, rows and how many."""
    n_blocks, nq = blocks.shape[0], tables.shape[0]
    room = 2 * kept + 1024 + LANES
    keys = np.empty((nq, room), np.uint16)
    rows = np.empty((nq, room), np.int64)
    counts = np.zeros(nq, np.int64)
    thresholds = np.zeros(nq, np.uint16)
    sums = np.empty(LANES, np.uint16)
    for begin in range(0, n_blocks, _TILE):
        end = min(begin + _TILE, n_blocks)
        for q in range(nq):
            table, threshold, count = tables[q], thresholds[q], counts[q]
            for i in range(begin, end):
                found = sum_block(blocks, i, table, threshold, sums)  # type: ignore
                mask = found & masks[i]
                if mask == 0:
                    continue
                for lane in range(LANES):
                    if mask >> np.uint32(lane) & np.uint32(1):
                        keys[q, count] = sums[lane]
                        rows[q, count] = i * LANES + lane
                        count += 1
                if count > room - LANES:
                    count, threshold = _shrink(keys[q], rows[q], count, kept)
            counts[q], thresholds[q] = count, threshold
    for q in range(nq):
        if counts[q] > kept:
            counts[q], _ = _shrink(keys[q], rows[q], counts[q], kept)
    return keys, rows, counts


@njit(cache=True, nogil=True)
def _shrink(keys, rows, count, kept):  # type: ignore[no-untyped-def]
    """Keep the best, of equal sums the earlier rows; their number and the next threshold."""
    limit, equal = 0, kept  # the largest limit that at least `kept` sums reach, bit by bit
    for bit in range(15, -1, -1):
        higher = limit | 1 << bit
        reaching = 0
        for i in range(count):
            reaching += keys[i] >= higher
        if reaching >= kept:
            limit = higher
    for i in range(count):
        equal -= keys[i] > limit
    place = 0
    for i in range(count):
        take = keys[i] > limit
        if keys[i] == limit and equal > 0:
            equal -= 1
            take = True
        if take:
            keys[place], rows[place] = keys[i], rows[i]
            place += 1
    return place, np.uint16(min(limit + 1, 65535))


@njit(cache=True, nogil=True)
def _look_up_rows(blocks, rows, tables, votes):  # type: ignore[no-untyped-def]
    for i in range(rows.size):
        block, lane = rows[i] // LANES, rows[i] % LANES
        total = np.float32(0.0)
        for b in range(tables.shape[0]):
            total += tables[b, blocks[block, b, lane]]
        votes[i] = total
