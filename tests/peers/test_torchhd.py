"""Our reference memories bind and score like torch-hd's."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from foretell.recall import FHRRMemory, HRRMemory, MAPMemory

torch = pytest.importorskip("torch", reason="torch is not installed")
torchhd = pytest.importorskip("torchhd", reason="torch-hd is not installed")
pytestmark = pytest.mark.peer
PATHS = [("p", n) for n in range(12)]


def parts(memory):
    """Roles and symbols of a memory that holds 12 facts, and the scores at their paths."""
    memory.store_many(PATHS, range(12))
    roles = np.stack([memory._role(key) for key in memory._keys(PATHS)])
    return roles, memory._symbols(memory.vocabulary.components), memory.scores(PATHS)


def their_scores(roles, symbols):
    bundle = torchhd.bind(roles, symbols[:12]).sum(0)
    return torchhd.dot_similarity(torchhd.bind(roles.inverse(), bundle), symbols)


def test_map():
    roles, symbols, scores = parts(MAPMemory(cells=512, vocabulary=range(30)))
    signs = torchhd.MAPTensor(torch.from_numpy(np.sign(roles)))
    theirs = their_scores(signs, torchhd.MAPTensor(torch.from_numpy(np.sign(symbols)).double()))
    assert_allclose(scores, theirs.numpy() / 512, atol=1e-5)


def test_hrr_with_unitary_roles():
    memory = HRRMemory(cells=512, vocabulary=range(30))
    roles, symbols, scores = parts(memory)
    unitary = np.fft.irfft([memory._spectrum(role) for role in roles], n=512)
    theirs = their_scores(
        torchhd.HRRTensor(torch.from_numpy(unitary)),
        torchhd.HRRTensor(torch.from_numpy(symbols).double()),
    )
    assert_allclose(scores, theirs.numpy(), atol=1e-4)


def test_fhrr():
    memory = FHRRMemory(cells=512, vocabulary=range(30))
    roles, symbols, scores = parts(memory)
    turns = np.exp(1j * np.stack([memory._angles(role) for role in roles]))
    points = 256**0.5 * (symbols[:, :256] + 1j * symbols[:, 256:]).astype(np.complex128)
    theirs = their_scores(
        torchhd.FHRRTensor(torch.from_numpy(turns)), torchhd.FHRRTensor(torch.from_numpy(points))
    )
    assert_allclose(scores, theirs.numpy().real / 256, atol=1e-5)
