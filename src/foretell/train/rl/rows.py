"""RowBatch: samples of different lengths, packed without padding, as they go over the wire.

    B     rows; row i has n_i tokens, prompt and response
    N     sum of n_i
    tokens[name]  (N, ...)   one entry for each token, row after row
    rows[name]    (B, ...)   one entry for each row

A row is known by its uid, prompt * group_size + sample, wherever it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from foretell.core.errors import DataError, MissingExtraError

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError("torch", "learn", "train by reinforcement learning") from error

DTYPES = {str(d).removeprefix("torch."): d for d in (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool,
)}  # fmt: skip


@dataclass(frozen=True)
class RowBatch:
    """Rows of a step.

    Parameters
    ----------
    lengths : tensor of int64 (B,)
        Tokens of each row.
    uid : tensor of int64 (B,)
        Which row it is; all different.
    tokens : mapping of str to tensor (N, ...)
        What each token has: ``ids``, ``mask`` (1 on the response), ``old_logp``, ...
    rows : mapping of str to tensor (B, ...)
        What each row has: ``reward``, ``advantage``, ...

    Raises
    ------
    DataError
        Lengths and columns do not fit, or a uid occurs twice.

    Examples
    --------
    >>> batch = RowBatch(torch.tensor([2, 1]), torch.tensor([8, 9]),
    ...                  {"ids": torch.tensor([5, 6, 7])}, {"reward": torch.tensor([1.0, 0.0])})
    >>> batch
    RowBatch(2 rows, 3 tokens: ids; reward)
    >>> batch.select([1]).tokens["ids"].tolist(), batch.to_padded("ids").tolist()
    ([7], [[5, 6], [7, 0]])
    """

    lengths: Tensor
    uid: Tensor
    tokens: Mapping[str, Tensor] = field(default_factory=dict)
    rows: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n_rows, total = len(self.lengths), int(self.lengths.sum())
        if self.lengths.dtype != torch.int64 or self.uid.dtype != torch.int64:
            raise DataError(
                f"lengths is {self.lengths.dtype} and uid is {self.uid.dtype}; needed are int64."
            )
        if len(self.uid) != n_rows:
            raise DataError(f"{len(self.uid)} uid for {n_rows} lengths; needed is one for each.")
        if n_rows and int(self.lengths.min()) < 1:
            bad = int(self.uid[self.lengths.argmin()])
            raise DataError(f"The row with uid {bad} has no tokens; needed is at least one.")
        values, counts = np.unique(self.uid.numpy(), return_counts=True)
        if len(values) != n_rows:
            raise DataError(
                f"The uid {int(values[counts > 1][0])} occurs more than once. Number rows by "
                "prompt * group_size + sample."
            )
        for name, column in self.tokens.items():
            if len(column) != total:
                raise DataError(
                    f"The token column {name!r} has {len(column)} entries and the lengths sum to "
                    f"{total}. Pack it row after row, without padding."
                )
        for name, column in self.rows.items():
            if len(column) != n_rows:
                raise DataError(
                    f"The row column {name!r} has {len(column)} entries for {n_rows} rows."
                )

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        names = f"{', '.join(self.tokens)}; {', '.join(self.rows)}"
        return f"RowBatch({len(self)} rows, {int(self.lengths.sum())} tokens: {names})"

    def need(self, *names: str) -> None:
        """Check that token columns are there.

        Raises
        ------
        DataError
            Names the missing one.
        """
        for name in names:
            if name not in self.tokens:
                raise DataError(
                    f"The rows have no token column {name!r}, only {', '.join(self.tokens)}. Let "
                    "an earlier node add it: rows.with_tokens(mask=...)."
                )

    def with_tokens(self, **columns: Tensor) -> RowBatch:
        """The same rows with token columns added or replaced."""
        return RowBatch(self.lengths, self.uid, {**self.tokens, **columns}, self.rows)

    def with_rows(self, **columns: Tensor) -> RowBatch:
        """The same rows with row columns added or replaced."""
        return RowBatch(self.lengths, self.uid, self.tokens, {**self.rows, **columns})

    def select(self, index: Sequence[int] | Tensor) -> RowBatch:
        """Rows by their places, in that order."""
        at = torch.as_tensor(index, dtype=torch.int64)
        spans = self.spans(at)
        return RowBatch(
            self.lengths[at],
            self.uid[at],
            {name: column.index_select(0, spans) for name, column in self.tokens.items()},
            {name: column.index_select(0, at) for name, column in self.rows.items()},
        )

    def spans(self, at: Tensor) -> Tensor:
        """Places of the tokens of some rows."""
        lengths, ends = self.lengths.numpy(), self.lengths.numpy().cumsum()
        taken = lengths[at.numpy()]
        stops = taken.cumsum()
        shift = (ends - lengths)[at.numpy()] - (stops - taken)
        total = int(stops[-1]) if len(stops) else 0
        return torch.from_numpy(np.arange(total) + np.repeat(shift, taken))

    def by_uid(self) -> RowBatch:
        """The same rows in the order of their uid."""
        if bool((self.uid[1:] > self.uid[:-1]).all()):
            return self
        return self.select(self.uid.argsort())

    def groups(self, size: int) -> Iterator[RowBatch]:
        """The rows of each prompt, uid // size, in the order of the uids."""
        ordered = self.by_uid()
        _, counts = np.unique((ordered.uid // size).numpy(), return_counts=True)
        start = 0
        for count in counts.tolist():
            yield ordered.select(range(start, start + count))
            start += count

    def token_sums(self, values: Tensor) -> Tensor:
        """Sum of a token column over each row, shape (B,)."""
        index = torch.arange(len(self)).repeat_interleave(self.lengths)
        return torch.zeros(len(self), dtype=values.dtype).index_add(0, index, values)

    def to_padded(self, name: str, *, fill: float = 0, width: int | None = None) -> Tensor:
        """A token column as a rectangle (B, width), padded on the right."""
        column = self.tokens[name]
        width = width or max(self.lengths.tolist(), default=0)
        out = torch.full((len(self), width, *column.shape[1:]), fill, dtype=column.dtype)
        out[torch.arange(width) < self.lengths[:, None]] = column
        return out

    def pack(self, padded: Tensor) -> Tensor:
        """The entries of a rectangle (B, width) that belong to tokens: the inverse of padding."""
        return padded[torch.arange(padded.shape[1]) < self.lengths[:, None]]

    @classmethod
    def concat(cls, batches: Sequence[RowBatch]) -> RowBatch:
        """All rows of several batches with the same columns.

        Raises
        ------
        DataError
            Columns differ, or a uid occurs twice.
        """
        kept = [batch for batch in batches if len(batch)] or list(batches[:1])
        if not kept:
            raise DataError("There is no batch to join; needed is at least one.")
        first = kept[0]
        for batch in kept[1:]:
            if batch.schema() != first.schema():
                raise DataError(
                    f"The batches have different columns: {first.schema()} and {batch.schema()}."
                )
        return cls(
            torch.cat([batch.lengths for batch in kept]),
            torch.cat([batch.uid for batch in kept]),
            {name: torch.cat([b.tokens[name] for b in kept]) for name in first.tokens},
            {name: torch.cat([b.rows[name] for b in kept]) for name in first.rows},
        )

    def schema(self) -> str:
        """Names, types and shapes of the columns, as text; from it ``empty`` makes rows."""
        kinds = [
            [
                [name, str(columns[name].dtype).removeprefix("torch."), *columns[name].shape[1:]]
                for name in sorted(columns)
            ]
            for columns in (self.tokens, self.rows)
        ]
        return json.dumps(kinds, separators=(",", ":"))

    @classmethod
    def empty(cls, schema: str) -> RowBatch:
        """No rows with the columns of a schema."""
        none = torch.zeros(0, dtype=torch.int64)
        tokens, rows = (
            {name: torch.zeros((0, *shape), dtype=DTYPES[dtype]) for name, dtype, *shape in kinds}
            for kinds in json.loads(schema)
        )
        return cls(none, none, tokens, rows)

    @classmethod
    def without_rows(cls) -> RowBatch:
        """No rows and no columns: what a rank has that got no prompt."""
        none = torch.zeros(0, dtype=torch.int64)
        return cls(none, none)

    def n_bytes(self) -> Tensor:
        """Bytes of each row on the wire, shape (B,)."""
        each, fixed = entry_bytes(self.schema())
        return self.lengths * each + fixed

    def to_bytes(self) -> Tensor:
        """All columns as one contiguous buffer, in the order of their names."""
        return self.pieces([len(self)])[0]

    def pieces(self, counts: Sequence[int]) -> list[Tensor]:
        """The rows cut into so many each, every piece as a buffer of bytes."""
        ends = np.concatenate([[0], np.cumsum(self.lengths.numpy())])
        found, start = [], 0
        for count in counts:
            stop = start + count
            parts = [self.tokens[k][ends[start] : ends[stop]] for k in sorted(self.tokens)]
            parts += [self.rows[k][start:stop] for k in sorted(self.rows)]
            raw = [part.reshape(-1).view(torch.uint8) for part in parts]
            found.append(torch.cat(raw) if raw else torch.zeros(0, dtype=torch.uint8))
            start = stop
        return found

    @classmethod
    def from_bytes(cls, buffer: Tensor, schema: str, lengths: Tensor, uid: Tensor) -> RowBatch:
        """Rows from the buffer of ``to_bytes``."""
        return cls.joined([buffer], schema, [lengths], [uid])

    @classmethod
    def joined(
        cls,
        buffers: Sequence[Tensor],
        schema: str,
        lengths: Sequence[Tensor],
        uids: Sequence[Tensor],
    ) -> RowBatch:
        """Rows from several buffers of ``pieces``, one after the other."""
        columns: list[dict[str, Tensor]] = [{}, {}]
        sizes = [(int(n.sum()), len(n)) for n in lengths]
        starts = [0] * len(buffers)
        for level, kinds in enumerate(json.loads(schema)):
            for name, dtype, *shape in kinds:
                kind, parts = DTYPES[dtype], []
                for k, buffer in enumerate(buffers):
                    width = kind.itemsize * int(np.prod(shape, dtype=np.int64))
                    stop = starts[k] + sizes[k][level] * width
                    parts.append(buffer[starts[k] : stop])
                    starts[k] = stop
                total = sum(size[level] for size in sizes)
                columns[level][name] = torch.cat(parts).view(kind).view(total, *shape)
        return cls(torch.cat(list(lengths)), torch.cat(list(uids)), *columns)


@lru_cache(maxsize=64)
def entry_bytes(schema: str) -> tuple[int, int]:
    """Bytes of a token and of a row with these columns.

    Examples
    --------
    >>> batch = RowBatch(torch.tensor([2]), torch.tensor([0]), {"ids": torch.tensor([5, 6])})
    >>> entry_bytes(batch.schema())
    (8, 0)
    """
    tokens, rows = (
        sum(DTYPES[kind].itemsize * int(np.prod(shape, dtype=np.int64)) for _, kind, *shape in some)
        for some in json.loads(schema)
    )
    return tokens, rows
