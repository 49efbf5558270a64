"""Who consumed which category when, sorted and checked: what exposure regulation learns from.

Legend: N events, U users, C categories. Rows are kept user after user, in the order of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretell.core import DataError, ParameterError, as_generator

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class EventLog:
    """Events of many users, each with a category and whether it was engaged with.

    Make one with :meth:`from_columns` or :meth:`from_ratings`; both check everything.

    Parameters
    ----------
    labels : array (U,)
        The users as the caller names them, sorted.
    starts : int array (U + 1,)
        Rows ``starts[u]:starts[u + 1]`` belong to user ``u``.
    categories : int array (N,)
        Category of each event, 0 to ``n_categories - 1``.
    engaged : float array (N,)
        1 where the user engaged with what was shown, else 0.
    waits : float array (N,)
        Time since the user's previous event, in steps (1 for each event) or in time units.
    n_categories : int
        Number of categories C.
    groups : array (U,) or None
        Group of each user.

    Examples
    --------
    >>> log = EventLog.from_columns(["ann", "bob", "ann"], [0, 1, 1], times=[1, 1, 5])
    >>> log
    EventLog(3 events of 2 users, 2 categories, 100% engaged)
    >>> log.categories[log.rows_of("ann")]
    array([0, 1])
    """

    labels: NDArray[Any]
    starts: Index
    categories: Index
    engaged: Array
    waits: Array
    n_categories: int
    groups: NDArray[Any] | None = None

    def __repr__(self) -> str:
        share = self.engaged.mean() if self.engaged.size else 0.0
        return (
            f"EventLog({self.categories.size} events of {self.labels.size} users, "
            f"{self.n_categories} categories, {share:.0%} engaged)"
        )

    @classmethod
    def from_columns(
        cls,
        users: ArrayLike,
        categories: ArrayLike,
        *,
        engaged: ArrayLike | None = None,
        times: ArrayLike | None = None,
        time_unit: float | None = None,
        groups: ArrayLike | None = None,
        n_categories: int | None = None,
        sort: bool = False,
        random_state: int | np.random.Generator | None = 0,
    ) -> EventLog:
        """Check columns of a table, one row for each event, and sort them by user.

        Parameters
        ----------
        users : array (N,)
            Any labels that can be sorted: numbers or texts.
        categories : int array (N,)
            Category of the item of each event, from 0.
        engaged : array (N,) of 0 and 1, optional
            Whether the user engaged; all did when left out.
        times : array (N,), optional
            Time of each event. Without it the rows of a user are in order.
        time_unit : float, optional
            With it, excitation fades with real time, in this unit; without it one event is one
            step, and times only give the order.
        groups : array (N,), optional
            Group of the user of each row; a user is in one group.
        n_categories : int, optional
            Number of categories; the largest index + 1 when left out.
        sort : bool
            Sort unordered times instead of refusing them. Events of a user that share a stamp are
            put in random order: their order is not behaviour.
        random_state : int, Generator or None
            For the order among equal stamps.

        Raises
        ------
        DataError
            Names the row: an item without a category, an index out of range, feedback that is not
            0 or 1, a missing time, times of a user that go back, a user in two groups.

        Examples
        --------
        >>> EventLog.from_columns([1, 1, 2], [0, 2, 1], n_categories=4)
        EventLog(3 events of 2 users, 4 categories, 100% engaged)
        """
        labels, user = np.unique(_column("users", users), return_inverse=True)
        n = user.size
        if n == 0:
            raise DataError("the log is empty; needed is at least one event.")
        kinds = checked_categories(categories, n, n_categories)
        C = int(kinds.max()) + 1 if n_categories is None else int(n_categories)
        if C < 2:
            raise DataError(
                f"the log has {C} category; concentration needs at least 2. Give n_categories=... "
                "when the others do not occur in this log."
            )
        active = _feedback(engaged, n)
        stamps = _stamps(times, n)
        group = None if groups is None else _group_of_users(_column("groups", groups, n), user)
        if sort and stamps is not None:
            order = np.lexsort((as_generator(random_state).random(n), stamps, user))
        else:
            order = np.argsort(user, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(user))])
        waits = _waits(stamps, order, starts, time_unit, user, labels)
        return cls(labels, starts.astype(np.int64), kinds[order], active[order], waits, C, group)

    @classmethod
    def from_ratings(
        cls,
        users: ArrayLike,
        categories: ArrayLike,
        ratings: ArrayLike,
        *,
        scale: tuple[float, float],
        liked_from: float | None = None,
        **columns: Any,
    ) -> EventLog:
        """The same from ratings: an event counts as engaged from ``liked_from`` on.

        Parameters
        ----------
        users, categories, ratings : array (N,)
            One row for each rating.
        scale : (float, float)
            Lowest and highest possible rating; anything outside is refused.
        liked_from : float, optional
            Smallest rating that counts as engagement; without it every rating does.
        **columns
            Further arguments of :meth:`from_columns`.

        Raises
        ------
        DataError
            For a rating that is missing or outside the scale, naming the row.

        Examples
        --------
        >>> EventLog.from_ratings([1, 1], [0, 1], [5, 2], scale=(1, 5), liked_from=3.5).engaged
        array([1., 0.])
        """
        values = np.asarray(_column("ratings", ratings), dtype=np.float64)
        low, high = scale
        wrong = ~((values >= low) & (values <= high))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(
                f"ratings[{row}]={values[row]:.6g} lies outside the scale {low:.6g} to "
                f"{high:.6g}. Remove the row or write scale=(lowest, highest) as it is."
            )
        liked = np.ones(values.size) if liked_from is None else (values >= liked_from) * 1.0
        return cls.from_columns(users, categories, engaged=liked, **columns)

    @property
    def n_users(self) -> int:
        """Number of users U."""
        return int(self.labels.size)

    @property
    def user_of_row(self) -> Index:
        """Position of the user of each event, shape (N,)."""
        return np.repeat(np.arange(self.n_users), np.diff(self.starts))

    @property
    def position(self) -> Index:
        """Number of earlier events of the same user, shape (N,)."""
        return np.arange(self.categories.size) - np.repeat(self.starts[:-1], np.diff(self.starts))

    def counts(self, rows: NDArray[np.bool_] | None = None) -> Array:
        """Events by user and category, shape (U, C), of all rows or of the marked ones."""
        keep = slice(None) if rows is None else rows
        flat = (self.user_of_row * self.n_categories + self.categories)[keep]
        size = self.n_users * self.n_categories
        return np.bincount(flat, minlength=size).reshape(-1, self.n_categories).astype(np.float64)

    def rows_of(self, user: Any) -> slice:
        """The rows of a user given by label."""
        place = int(np.searchsorted(self.labels, user))
        if place == self.n_users or self.labels[place] != user:
            raise ParameterError(f"user {user!r} has no event in this log.")
        return slice(int(self.starts[place]), int(self.starts[place + 1]))

    def early(self, share: float) -> NDArray[np.bool_]:
        """Marks the first ``share`` of each user's events, shape (N,)."""
        if not 0 < share <= 1:
            raise ParameterError(f"share={share!r}; needed is a number in (0, 1].")
        return self.position < np.repeat(np.diff(self.starts) * share, np.diff(self.starts))

    def first(self, share: float) -> EventLog:
        """The log that ends after the first ``share`` of each user's events.

        Examples
        --------
        >>> EventLog.from_columns([1] * 10, [0, 1] * 5).first(0.8)
        EventLog(8 events of 1 users, 2 categories, 100% engaged)
        """
        keep = self.early(share)
        sizes = np.bincount(self.user_of_row[keep], minlength=self.n_users)
        return EventLog(
            self.labels,
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            self.categories[keep],
            self.engaged[keep],
            self.waits[keep],
            self.n_categories,
            self.groups,
        )


# Checks ------------------------------------------------------------------------------------------


def checked_categories(categories: ArrayLike, n: int, n_categories: int | None) -> Index:
    """Category indices of shape (n,), or a DataError that names the row."""
    given = _column("categories", categories, n)
    if given.dtype == object or given.dtype.kind not in "iuf":
        raise DataError(
            f"categories have the type {given.dtype}; needed are indices from 0. Write "
            "names, categories = np.unique(categories, return_inverse=True)."
        )
    missing = ~np.isfinite(given) if given.dtype.kind == "f" else given < 0
    if missing.any():
        row = int(np.argmax(missing))
        raise DataError(
            f"categories[{row}]={given[row]} is no category. Give every item one, for instance an "
            'index of its own for "other", or leave the item out.'
        )
    index = given.astype(np.int64)
    top = np.inf if n_categories is None else n_categories
    wrong = (index != given) | (index < 0) | (index >= top)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"categories[{row}]={given[row]} is out of range; needed are whole numbers from 0 to "
            f"{'C - 1' if n_categories is None else n_categories - 1}."
        )
    return index


def plain(label: Any) -> Any:
    """A label as a Python value, so that messages read well."""
    return label.item() if isinstance(label, np.generic) else label


def _column(name: str, values: ArrayLike, n: int | None = None) -> NDArray[Any]:
    column = np.asarray(values)
    if column.ndim != 1 or (n is not None and column.size != n):
        rows = "one value for each event" if n is None else f"{n} values, one for each event"
        raise DataError(f"{name} have the shape {column.shape}; needed are {rows}.")
    return column


def _feedback(engaged: ArrayLike | None, n: int) -> Array:
    if engaged is None:
        return np.ones(n)
    values = np.asarray(_column("engaged", engaged, n), dtype=np.float64)
    wrong = (values != 0) & (values != 1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"engaged[{row}]={values[row]:.6g}; feedback is 0 or 1. For ratings write "
            "EventLog.from_ratings(..., scale=(1, 5), liked_from=3.5)."
        )
    return values


def _stamps(times: ArrayLike | None, n: int) -> Array | None:
    if times is None:
        return None
    stamps = np.asarray(_column("times", times, n), dtype=np.float64)
    if not np.isfinite(stamps).all():
        row = int(np.argmax(~np.isfinite(stamps)))
        raise DataError(f"times[{row}]={stamps[row]} is no time. Remove the row or fill it in.")
    return stamps


def _waits(
    stamps: Array | None,
    order: Index,
    starts: Index,
    time_unit: float | None,
    user: Index,
    labels: NDArray[Any],
) -> Array:
    if time_unit is not None and not (np.isfinite(time_unit) and time_unit > 0):
        raise ParameterError(f"time_unit={time_unit!r}; needed is a positive number.")
    if stamps is None:
        if time_unit is not None:
            raise ParameterError("time_unit needs times. Give times=..., or leave time_unit out.")
        return np.ones(order.size)
    steps = np.diff(stamps[order], prepend=stamps[order][0])
    steps[starts[:-1]] = 0.0
    if (steps < 0).any():
        row = int(order[int(np.argmax(steps < 0))])
        raise DataError(
            f"times[{row}]={stamps[row]:.10g} lies before the previous event of user "
            f"{plain(labels[user[row]])!r}. Sort the table, or write sort=True."
        )
    return np.ones(order.size) if time_unit is None else steps / time_unit


def _group_of_users(groups: NDArray[Any], user: Index) -> NDArray[Any]:
    names, group = np.unique(groups, return_inverse=True)
    of_user = np.zeros(user.max() + 1, dtype=np.int64)
    of_user[user] = group
    wrong = of_user[user] != group
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"groups[{row}]={plain(groups[row])!r}, but the same user is in another group in "
            "another row; a user is in one group."
        )
    return np.asarray(names[of_user])
