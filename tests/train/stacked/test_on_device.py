"""Sums of tensors: the bits of the sums on the CPU, and the same faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra learn")

from foretell.train import Gradient  # noqa: E402
from foretell.train.stacked import UnitSum, on_device  # noqa: E402
from foretell.train.stacked.on_device import DeviceSum  # noqa: E402

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU"))]  # fmt: skip


def sums(device: str, n: int, **settings: Any) -> tuple[UnitSum, DeviceSum]:
    return UnitSum(n, **settings), DeviceSum(n, torch.device(device), **settings)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("exact", [True, False])
def test_the_bits_are_those_of_the_cpu(
    monkeypatch: Any, device: str, dtype: Any, exact: bool
) -> None:
    monkeypatch.setattr(on_device, "_AT_ONCE", 700)
    rng = np.random.default_rng(0)
    here, there = sums(device, 2000, n_units=3, exact=exact)
    for _ in range(2):
        here.clear(), there.clear()
        for k in range(3):
            g = (rng.normal(size=2000) * 10.0 ** rng.uniform(-16, 5, 2000)).astype(dtype)
            g[:6] = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.0]) * 2.0**-40  # ties go to even
            g[6] = 5e-324 if dtype is np.float64 else 1e-45
            assert here.add(Gradient(0.5 * k, g, 1.0 + k)) == -1
            tensor: Any = torch.from_numpy(g).to(device)
            assert there.add(Gradient(0.5 * k, tensor, 1.0 + k)) == -1
        for one in (here, there):
            one.tell(reform=True, stop=False, plan=77)
        assert (here.buffer == there.buffer.cpu().numpy()).all()
        mean, tensor = np.empty(2000, dtype), torch.from_numpy(np.empty(2000, dtype)).to(device)
        parts = [(k, there.buffer[k : k + 900]) for k in range(0, 2008, 900)]
        assert there.take(parts, tensor) == here.take([(0, here.buffer)], mean)
        assert mean.tobytes() == tensor.cpu().numpy().tobytes()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("value", [np.nan, -np.inf, 3e6])
def test_what_cannot_be_added_is_found_at_its_place(device: str, value: float) -> None:
    here, there = sums(device, 50, n_units=4)
    g = np.ones(50)
    g[33] = value
    for one, values in ((here, g), (there, torch.from_numpy(g).to(device))):
        one.clear()
        given: Any = values
        assert one.add(Gradient(0.0, given)) == 33
    assert (here.words == there.words).all()


def test_a_worker_without_units_adds_nothing() -> None:
    total = DeviceSum(3, torch.device("cpu"), n_units=2)
    total.clear()
    one: Any = torch.ones(3)
    total.add(Gradient(1.0, one))
    total.clear()
    total.tell(reform=False, stop=False, plan=0)
    assert not total.buffer.any()
