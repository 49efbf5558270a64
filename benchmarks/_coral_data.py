"""MovieLens as columns, from files that you have.

FORETELL_DATA names the folder that holds them:

    ml-100k/ml-100k.inter, ml-100k/ml-100k.item    RecBole's form; its PyPI wheel has them
    ml-latest-small/ratings.csv, movies.csv        GroupLens' form

GroupLens permits research use; nothing of it is kept in this repository.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _common import data
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import svds

from foretell.trust import EventLog

# An item with several genres gets the first of these, rare ones first.
GENRES = (
    "Film-Noir", "Documentary", "War", "Western", "Musical", "Animation", "Children's", "Fantasy",
    "Sci-Fi", "Horror", "Crime", "Thriller", "Mystery", "Action", "Adventure", "Romance", "Comedy",
    "Drama", "other",
)  # fmt: skip
FACTORS = 20


@dataclass(frozen=True)
class Ratings:
    """Columns by rating; users and items are numbered from 0."""

    name: str
    user: np.ndarray
    item: np.ndarray
    rating: np.ndarray
    time: np.ndarray
    category_of_item: np.ndarray

    @property
    def n_users(self) -> int:
        return int(self.user.max()) + 1

    def log(self, seed: int = 0, **more) -> EventLog:
        """Events in order of time; equal stamps in random order by the seed."""
        return EventLog.from_columns(
            self.user, self.category_of_item[self.item], times=self.time, sort=True,
            n_categories=int(self.category_of_item.max()) + 1, random_state=seed, **more,
        )  # fmt: skip

    def utilities(self) -> np.ndarray:
        """Each user's liking of each item, (U, I): 20 factors of the centred ratings, sd 1."""
        shape = self.n_users, self.category_of_item.size
        centred = csr_matrix((self.rating - self.rating.mean(), (self.user, self.item)), shape)
        left, values, right = svds(centred, k=FACTORS, v0=np.ones(min(shape)))
        liking = (left * values) @ right
        return liking / liking.std()


def ml_100k() -> Ratings:
    rows = _rows(data("ml-100k/ml-100k.item"), "\t")
    genre = {int(row[0]): _first(row[3].split(" ")) for row in rows}
    table = np.array(_rows(data("ml-100k/ml-100k.inter"), "\t"), dtype=float)
    return _ratings("ml-100k", table, genre)


def ml_latest_small() -> Ratings:
    rows = _rows(data("ml-latest-small/movies.csv"), ",")
    genre = {
        int(row[0]): _first(row[2].replace("Children", "Children's").split("|")) for row in rows
    }
    table = np.array(_rows(data("ml-latest-small/ratings.csv"), ","), dtype=float)
    return _ratings("ml-latest-small", table, genre)


def _ratings(name: str, table: np.ndarray, genre: dict[int, int]) -> Ratings:
    _, user = np.unique(table[:, 0], return_inverse=True)
    ids, item = np.unique(table[:, 1].astype(int), return_inverse=True)
    kinds = np.array([genre[i] for i in ids])
    return Ratings(name, user, item, table[:, 2], table[:, 3], kinds)


def _first(genres: list[str]) -> int:
    return next((n for n, name in enumerate(GENRES) if name in genres), len(GENRES) - 1)


def _rows(path: Path, delimiter: str) -> list[list[str]]:
    with path.open(encoding="utf-8") as handle:
        return list(csv.reader(handle, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL))[1:]
