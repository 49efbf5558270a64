"""OSCHead against a plain computation with dense label vectors, and its bad input."""

import subprocess
import sys

import numpy as np
import pytest

from foretell.core import DataError, ParameterError

torch = pytest.importorskip("torch", reason="torch is not installed")

from foretell.recall import OSCHead  # noqa: E402


def dense(head):
    """All label items as one matrix, written out."""
    items = [np.ones((head.n_labels, 1))]
    for mode in head.labels.numpy():
        items.append(np.einsum("na,nb->nab", items[-1], mode).reshape(head.n_labels, -1))
    return torch.tensor(items[-1], dtype=torch.float32)


@pytest.mark.parametrize(("order", "dim"), [(2, 9), (3, 5)])
def test_scores_and_loss_are_those_of_dense_label_vectors(order, dim):
    generator = torch.Generator().manual_seed(0)
    head = OSCHead(7, 40, order=order, dim=dim)
    x = torch.randn(6, 7, generator=generator)
    labels = [[3, 17], [39], [], [0, 1, 2], [5], [5]]
    Y = torch.zeros(6, 40)
    for row, some in enumerate(labels):
        Y[row, some] = 1
    vectors, emitted = dense(head), head(x)
    expected = emitted @ vectors.T
    torch.testing.assert_close(head.scores(x), expected)
    top = head.scores(x, top_k=4)
    torch.testing.assert_close(top.scores, expected.topk(4).values)
    assert (top.labels == expected.topk(4).indices).all()
    rows = [0, 1, 3, 4, 5]
    cosines = torch.nn.functional.cosine_similarity(emitted[rows], (Y @ vectors)[rows])
    torch.testing.assert_close(head.loss(x, Y), 1 - cosines.mean())
    torch.testing.assert_close(head.loss(x, labels), head.loss(x, Y))


def test_it_learns_and_its_parameters_do_not_depend_on_the_labels():
    generator = torch.Generator().manual_seed(0)
    head = OSCHead(20, 300, dim=16)
    count = sum(p.numel() for p in head.parameters())
    assert count == sum(p.numel() for p in OSCHead(20, 9, dim=16).parameters())
    assert head.labels.numel() == 2 * 300 * 16
    x = torch.eye(20)
    labels = [[n, 300 - 1 - n] for n in range(20)]
    with torch.no_grad():
        head.project.weight.copy_(0.1 * torch.randn(head.project.weight.shape, generator=generator))
        head.project.bias.zero_()
    optimiser = torch.optim.Adam(head.parameters(), lr=0.05)
    for _ in range(60):
        optimiser.zero_grad()
        head.loss(x, labels).backward()
        optimiser.step()
    best = head.scores(x, top_k=2).labels
    assert [sorted(row) for row in best.tolist()] == [sorted(some) for some in labels]


def test_a_batch_without_labels_has_no_gradient():
    head = OSCHead(3, 4, dim=4)
    loss = head.loss(torch.ones(2, 3), [[], []])
    loss.backward()
    assert loss.item() == 0
    assert head.project.weight.grad.abs().max().item() == 0


def test_state_comes_back():
    one, two = OSCHead(3, 50, seed=1), OSCHead(3, 50, seed=2)
    two.load_state_dict(one.state_dict())
    x = torch.ones(1, 3)
    torch.testing.assert_close(one.scores(x), two.scores(x))
    assert "50 labels, order=2, dim=20" in repr(one)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: OSCHead(0, 3), ParameterError, "in_features=0"),
        (lambda: OSCHead(3, 2.5), ParameterError, "n_labels=2.5"),
        (lambda: OSCHead(3, 3, order=4, dim=300), ParameterError, "8100000000 outputs"),
        (lambda: OSCHead(3, 4).scores(torch.ones(1, 3), top_k=5), ParameterError, "top_k=5"),
        (lambda: OSCHead(3, 4).loss(torch.ones(1, 3), [[4]]), DataError, "Label 4 of row 0"),
        (lambda: OSCHead(3, 4).loss(torch.ones(1, 3), [[0], [1]]), DataError, "2 rows"),
        (
            lambda: OSCHead(3, 4).loss(torch.ones(1, 3), torch.ones(1, 5)),
            DataError,
            r"\(1, 5\).*\(1, 4\)",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_without_torch_the_name_says_what_to_install():
    code = (
        "import sys\n"
        "class Blocked:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'torch':\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Blocked())\n"
        "import foretell.recall as recall\n"
        "recall.OSCMemory().store('a', 1)\n"
        "from foretell.core import MissingExtraError\n"
        "try:\n    recall.OSCHead\n"
        "except MissingExtraError as error:\n    assert 'foretell[learn]' in str(error)\n"
        "else:\n    raise SystemExit('no error')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
