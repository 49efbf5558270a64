"""The scans against a plain sum, on every width and bit order, and with other instructions."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from foretell.core import DataError, ParameterError
from foretell.recall import BlockedCodes
from foretell.recall.scan import weighted_votes


def problem(n, n_bits, nq=3, seed=0, bit_order="little"):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 256, (n, -(-n_bits // 8)), dtype=np.uint8)
    W = rng.normal(size=(nq, n_bits))
    bits = np.unpackbits(codes, axis=1, count=n_bits, bitorder=bit_order)
    return codes, W, W @ (bits * 2.0 - 1).T


@settings(max_examples=40)
@given(
    n=st.integers(1, 200),
    n_bits=st.integers(1, 80),
    k=st.integers(1, 30),
    bit_order=st.sampled_from(["little", "big"]),
    seed=st.integers(0, 99),
)
def test_both_scans_are_the_plain_sum(n, n_bits, k, bit_order, seed):
    codes, W, expected = problem(n, n_bits, seed=seed, bit_order=bit_order)
    np.testing.assert_allclose(weighted_votes(codes, W[0], bit_order), expected[0], atol=1e-4)
    blocked = BlockedCodes.from_codes(codes, n_bits=n_bits, bit_order=bit_order)
    assert (blocked.codes() == codes).all()
    found = blocked.top(W, k)
    best = np.sort(expected, axis=1)[:, ::-1][:, :k]
    np.testing.assert_allclose(found.votes[:, : best.shape[1]], best, atol=1e-4)
    assert (found.rows[:, best.shape[1] :] == -1).all()
    for q, row in enumerate(found.rows[:, : best.shape[1]]):
        assert len(set(row)) == len(row)
        np.testing.assert_allclose(expected[q, row], best[q], atol=1e-4)


@pytest.mark.parametrize("n_bits", [8, 96, 384, 3072])
def test_eight_bit_tables_are_close_and_never_overflow(n_bits):
    codes, W, expected = problem(3000, n_bits, nq=2)
    blocked = BlockedCodes.from_codes(codes)
    for weights in (W, 1e6 * W, np.abs(W), np.ones_like(W), np.zeros_like(W)):
        bits = np.unpackbits(codes, axis=1, bitorder="little") * 2.0 - 1
        exact = weights @ bits.T
        found = blocked.top(weights, 50, refine=False)
        near = np.take_along_axis(exact, found.rows, axis=1)
        spread = np.sqrt((weights**2).sum(axis=1, keepdims=True)) + 1e-300
        assert (np.abs(found.votes - near) / spread).max() < 0.06
    assert expected.shape == (2, 3000)


def test_the_right_ones_are_found_among_many():
    codes, W, expected = problem(100_000, 64, nq=2)
    found = BlockedCodes.from_codes(codes).top(W, 100)
    for q in range(2):
        limit = np.sort(expected[q])[-100]
        assert (expected[q, found.rows[q]] >= limit - 1e-4).mean() >= 0.99


def test_removed_codes_are_not_found():
    codes, W, expected = problem(1000, 64)
    alive = np.random.default_rng(1).random(1000) < 0.3
    found = BlockedCodes.from_codes(codes).top(W, 20, alive=alive)
    assert alive[found.rows].all()
    for q in range(3):
        best = np.sort(expected[q][alive])[::-1][:20]
        np.testing.assert_allclose(found.votes[q], best, atol=1e-4)


def test_no_codes_give_no_rows():
    found = BlockedCodes.from_codes(np.empty((0, 8), np.uint8)).top(np.ones(64), 3)
    assert found.rows.tolist() == [[-1, -1, -1]]


def test_bad_input_is_refused():
    codes, W, _ = problem(40, 64)
    blocked = BlockedCodes.from_codes(codes)
    with pytest.raises(DataError, match="64 bits"):
        blocked.top(W[:, :60], 3)
    with pytest.raises(DataError, match="finite"):
        blocked.top(np.full(64, np.nan), 3)
    with pytest.raises(DataError, match="40 codes"):
        blocked.top(W, 3, alive=np.ones(41, bool))
    with pytest.raises(ParameterError, match="k=10"):
        blocked.top(W, 0)
    with pytest.raises(DataError, match="uint8"):
        BlockedCodes.from_codes(codes.astype(np.int64))
    with pytest.raises(DataError, match="packbits"):
        weighted_votes(codes, np.ones(80))
    assert "40 codes of 64 bits" in repr(blocked)
    assert "3 queries" in repr(blocked.top(W, 5))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_machines_without_wide_shuffles_give_the_same_rows(tmp_path):
    code = (
        "import numpy as np; from foretell.recall import BlockedCodes; "
        "from tests.recall.test_sketch_scan import problem; codes, W, _ = problem(500, 96); "
        "print(BlockedCodes.from_codes(codes).top(W, 20).rows.tolist())"
    )
    other = {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **more},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for more in ({}, other)
    ]
    assert outputs[0] == outputs[1] != ""
