"""Tables of scores, read a chunk of rows at a time: a million rows take no more memory than a few.

A table has a header, one row for each case, and columns in any order: the score, whether the answer
was wrong (where that is known), and perhaps an id. The title of the score may carry a version after
an @, as in ``entropy@2``.
"""

from __future__ import annotations

import csv
import difflib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foretell.core.errors import DataError
from foretell.data.cells import CellError, NumberStyle
from foretell.data.delimited import CHUNK_ROWS, Layout, survey

Array = NDArray[np.float64]

SCORES = ("score", "scores", "uncertainty")
ERRORS = ("errors", "error", "wrong", "is_wrong")
IDS = ("case_ids", "case_id", "case", "id")
_RIGHT = ("correct", "right", "is_correct", "is_right", "accuracy", "hit")
_TRUTH = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True)
class Rows:
    """A few rows: their cells, their numbers in the file, and the cells as numbers."""

    cells: list[list[str]] = field(repr=False)
    number: NDArray[np.int64] = field(repr=False)
    scores: Array = field(repr=False)
    errors: Array | None = field(repr=False)


@dataclass(frozen=True)
class Labelled:
    """All scores of a table with their errors; repeats are how many, and two row numbers."""

    scores: Array = field(repr=False)
    errors: Array = field(repr=False)
    repeats: tuple[int, int, int] | None


class ScoreTable:
    """One file and the columns of it that matter.

    Parameters
    ----------
    path : Path
        Text with a header: separators, encodings and decimal commas as for ``foretell fit``.
    score : str, optional
        Name of the column of scores, with or without its version; default score or uncertainty.
    errors : str, optional
        Name of the column that is 1 where the answer is wrong; default error or wrong.
    labelled : bool
        Whether the errors are needed.
    fractional : bool
        Whether losses between 0 and 1 are possible.
    """

    def __init__(
        self,
        path: Path,
        *,
        score: str | None = None,
        errors: str | None = None,
        labelled: bool = False,
        fractional: bool = False,
    ) -> None:
        self.fractional = fractional
        self.layout = _surveyed(path)
        named = [_base(title) for title in self.layout.titles]
        self.score = self._find("score", score, SCORES, named, "--score")
        name, _, version = self.layout.titles[self.score].partition("@")
        self.name, self.version = name.strip(), version.strip()
        self.errors: int | None = None
        if labelled:
            self.errors = self._find("errors", errors, ERRORS, named, "--errors")
            self._refuse_right()
        folded = [title.lower() for title in self.layout.titles]
        self.id = next((folded.index(name) for name in IDS if name in folded), None)

    @property
    def source(self) -> str:
        """The file name, for messages."""
        return self.layout.source

    def version_of(self, said: str | None) -> str:
        """The version that ``name@version`` or else the title says; an error if they differ."""
        version = (said or "").partition("@")[2].strip()
        if version and self.version and version != self.version:
            raise DataError(
                f"--score says version {version!r} of {self.name!r}, and the header of "
                f"{self.source} says {self.version!r}. Leave out one, or correct it."
            )
        return version or self.version

    def read(self) -> Iterator[Rows]:
        """The rows, in chunks."""
        style, seen = NumberStyle(), False
        for cells, number in self._records():
            scores = self._scores(list(map(itemgetter(self.score), cells)), number, style)
            errors = None
            if self.errors is not None:
                errors = self._errors(list(map(itemgetter(self.errors), cells)), number)
            seen = True
            yield Rows(cells, number, scores, errors)
        if not seen:
            raise DataError(
                f"{self.source} has a header and no rows below it (n=0). Needed is one row for "
                "each case."
            )

    def all_scores(self) -> Array:
        """The scores alone; eight bytes for each case."""
        return np.concatenate([rows.scores for rows in self.read()])

    def all_labelled(self) -> Labelled:
        """Scores and errors; and whether a case stands twice, by its id or as a whole row."""
        scores, errors, keys, numbers = [], [], [], []
        told = self.id is not None or len(self.layout.titles) > 2
        for rows in self.read():
            assert rows.errors is not None
            scores.append(rows.scores)
            errors.append(rows.errors)
            if told:
                cells = rows.cells
                key = [row[self.id] for row in cells] if self.id is not None else map(tuple, cells)
                keys.append(np.fromiter(map(hash, key), dtype=np.int64, count=len(cells)))
                numbers.append(rows.number)
        repeats = _repeats(np.concatenate(keys), np.concatenate(numbers)) if told else None
        return Labelled(np.concatenate(scores), np.concatenate(errors), repeats)

    def labels_there(self) -> bool:
        """Whether a column has a name that says that it holds errors."""
        return any(_base(title).lower() in ERRORS for title in self.layout.titles)

    def _records(self) -> Iterator[tuple[list[list[str]], NDArray[np.int64]]]:
        layout, width = self.layout, len(self.layout.titles)
        with layout.path.open(encoding=layout.encoding, newline="") as stream:
            for _ in range(layout.skip):
                stream.readline()
            reader = csv.reader(stream, delimiter=layout.separator)
            first = layout.skip + 2
            try:
                next(reader)
                while chunk := list(itertools.islice(reader, CHUNK_ROWS)):
                    number = np.arange(first, first + len(chunk), dtype=np.int64)
                    first += len(chunk)
                    widths = set(map(len, chunk))
                    if 0 in widths:  # blank lines
                        number = number[[bool(row) for row in chunk]]
                        chunk = list(filter(None, chunk))
                    if widths - {width, 0}:
                        at = next(i for i, row in enumerate(chunk) if len(row) != width)
                        raise DataError(
                            f"Row {number[at]} of {self.source} has {len(chunk[at])} cells and the "
                            f"header {width}. Look there for a missing or an extra "
                            f"{layout.separator!r}."
                        )
                    if chunk:
                        yield chunk, number
            except csv.Error as error:
                raise DataError(
                    f"{self.source} cannot be cut into cells after row {first - 1} ({error}). Look "
                    "there for a quotation mark that is not closed."
                ) from error

    def _scores(self, cells: Sequence[str], number: NDArray[np.int64], style: NumberStyle) -> Array:
        column = self.layout.titles[self.score]
        try:
            scores = style.numbers(cells)
        except CellError as error:
            raise DataError(
                f"{error.value!r} in row {number[error.index]}, column {column!r} of {self.source} "
                f"{error.reason}."
            ) from error
        bad = ~np.isfinite(scores)
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            raise DataError(
                f"{cells[at]!r} in row {number[at]}, column {column!r} of {self.source} is not a "
                "finite number, and every case needs one. Leave such rows out and withhold their "
                "answers."
            )
        return scores

    def _errors(self, cells: Sequence[str], number: NDArray[np.int64]) -> Array:
        assert self.errors is not None
        column = self.layout.titles[self.errors]
        try:
            if cells[0].strip().lower() in _TRUTH:
                return np.array([_TRUTH[cell.strip().lower()] for cell in cells])
            errors = NumberStyle().numbers(cells)
        except (KeyError, CellError):
            errors = np.array([_label(cell) for cell in cells])
        bad = ~((errors >= 0) & (errors <= 1))
        partly = (errors > 0) & (errors < 1)
        if not bad.any() and partly.any() and not self.fractional:
            at = int(np.flatnonzero(partly)[0])
            raise DataError(
                f"{cells[at]!r} in row {number[at]}, column {column!r} of {self.source} is neither "
                "1 (wrong) nor 0 (right). Losses between are covered by: --guarantee marginal"
            )
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            raise DataError(
                f"{cells[at]!r} in row {number[at]}, column {column!r} of {self.source} is not a "
                "label; needed is 1 where the answer is wrong and 0 where it is right (or true and "
                "false). Where the answers stand in the table, make such a column: answer != truth."
            )
        return errors

    def _find(
        self,
        role: str,
        wanted: str | None,
        usual: Sequence[str],
        named: Sequence[str],
        flag: str,
    ) -> int:
        titles = self.layout.titles
        if wanted is None:
            folded = [name.lower() for name in named]
            for name in usual:
                if name in folded:
                    return self._only(name, folded, flag)
            raise DataError(
                f"{self.source} has no column {' or '.join(map(repr, usual[:3]))}; its columns are "
                f"{', '.join(map(repr, titles))}. Say which one holds the {role}: "
                f"{flag} {self._suggestion(role, usual[0])}"
            )
        if titles.count(wanted) == 1:
            return titles.index(wanted)
        base = _base(wanted)
        if base in named:
            return self._only(base, named, flag)
        near = difflib.get_close_matches(base, named, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise DataError(
            f"{self.source} has no column {base!r}.{hint} Its columns are "
            f"{', '.join(map(repr, titles))}."
        )

    def _only(self, name: str, named: Sequence[str], flag: str) -> int:
        places = [place for place, found in enumerate(named) if found == name]
        if len(places) > 1:
            titles = [self.layout.titles[place] for place in places]
            told_apart = len({*titles}) == len(titles)
            fix = f"Say which one is meant: {flag} {titles[-1]}" if told_apart else "Rename them."
            raise DataError(
                f"{self.source} has several columns {name!r}: {', '.join(map(repr, titles))}. {fix}"
            )
        return places[0]

    def _suggestion(self, role: str, wanted: str) -> str:
        taken = {*IDS, *(() if role == "errors" else (*ERRORS, *_RIGHT))}
        titles = [title for title in self.layout.titles if title.lower() not in taken]
        right = [title for title in titles if role == "errors" and title.lower() in _RIGHT]
        if right:
            return f"wrong, with a new column wrong = 1 - {right[0]}"
        near = difflib.get_close_matches(wanted, titles, n=1, cutoff=0.4)
        return (near or titles or ["NAME"])[0]

    def _refuse_right(self) -> None:
        assert self.errors is not None
        name = self.layout.titles[self.errors]
        if name.lower() in _RIGHT:
            raise DataError(
                f"Column {name!r} of {self.source} says by its name which answers are right; "
                f"needed is 1 where the answer is wrong. Add a column: wrong = 1 - {name}"
            )


def _repeats(keys: NDArray[np.int64], numbers: NDArray[np.int64]) -> tuple[int, int, int] | None:
    """How many rows repeat an earlier one, and the rows of the first such pair."""
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero(np.diff(keys[order]) == 0)
    if not same.size:
        return None
    later = order[same + 1]
    first = int(np.argmin(later))
    return int(same.size), int(numbers[order[same[first]]]), int(numbers[later[first]])


def _surveyed(path: Path) -> Layout:
    if path.is_dir():
        raise DataError(f"{path} is a folder; needed is one file with a table of scores.")
    if not path.exists():
        raise DataError(f"There is no file {path} (looked in {Path.cwd()}).")
    try:
        return survey(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error


def _base(title: str) -> str:
    """The name in a title such as ``entropy@2``."""
    return title.partition("@")[0].strip()


def _label(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return _TRUTH.get(cell.strip().lower(), float("nan"))
