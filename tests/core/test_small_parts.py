"""Citations, seeds, progress and errors."""

import re

import numpy as np
import pytest

from foretell import core
from foretell.core import CITATIONS, ParameterError, Progress, as_generator, citation


def test_every_entry_is_balanced_bibtex_with_a_key_of_its_own() -> None:
    names = [re.match(r"@\w+\{(\w+),", entry) for entry in CITATIONS.values()]
    assert all(names)
    assert len({match[1] for match in names if match}) == len(CITATIONS)
    for key, entry in CITATIONS.items():
        assert entry.count("{") == entry.count("}"), key
        assert {"title", "author", "year"} <= set(re.findall(r"^ +(\w+) +=", entry, re.MULTILINE))


def test_citations_come_once_and_in_order() -> None:
    text = citation("scyfi", "cplrnn", "scyfi")
    assert text == CITATIONS["scyfi"] + "\n\n" + CITATIONS["cplrnn"]
    assert citation().count("@") == len(CITATIONS)


def test_an_unknown_citation_lists_the_known_ones() -> None:
    with pytest.raises(ParameterError, match=r"no citation 'nobody'.*cplrnn"):
        citation("cplrnn", "nobody")


def test_a_generator_is_used_as_it_is() -> None:
    generator = np.random.default_rng(0)
    assert as_generator(generator) is generator


def test_the_global_seed_is_left_alone() -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    as_generator(3).random(5)
    after = np.random.get_state()[1]  # noqa: NPY002
    assert np.array_equal(before, after)


@pytest.mark.parametrize("seed", [0, 7, np.int64(7), 2**40])
def test_a_seed_gives_the_same_stream(seed) -> None:
    assert np.array_equal(as_generator(seed).random(4), as_generator(int(seed)).random(4))


@pytest.mark.parametrize("seed", [-1, 1.5, "3", True, np.random.RandomState(0)])
def test_a_strange_seed_is_refused(seed) -> None:
    with pytest.raises(ParameterError, match="Write for instance random_state=0"):
        as_generator(seed)


def test_no_entropy_is_shared_between_unseeded_generators() -> None:
    assert as_generator().random() != as_generator().random()


def test_progress_reads_well() -> None:
    assert Progress(5, 20, 0.5, -0.25, 1.0, 3.0).fraction == 0.25
    assert "score -0.25" in repr(Progress(5, 20, 0.5, -0.25, 1.0, 3.0))


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (core.DataError, ValueError),
        (core.ParameterError, ValueError),
        (core.NotFittedError, ValueError),
        (core.ArtifactError, OSError),
        (core.NumericalError, ArithmeticError),
        (core.MissingExtraError, ImportError),
    ],
)
def test_errors_are_caught_by_their_builtin_and_by_one_base(error: type, builtin: type) -> None:
    assert issubclass(error, builtin)
    assert issubclass(error, core.ForetellError)


def test_a_missing_extra_says_how_to_install_it() -> None:
    error = core.MissingExtraError("pandas", "tables", "read Parquet files")
    assert str(error).endswith('pip install "foretell[tables]"')
