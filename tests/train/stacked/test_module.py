"""A module of the user: its state, its schedules, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra learn")

from foretell.core import ArtifactError, NumericalError, ParameterError  # noqa: E402
from foretell.train.stacked import Every, MaskedDataParallel, Unit, WorkerSpec  # noqa: E402
from foretell.train.stacked.on_device import DeviceSum  # noqa: E402
from foretell.train.stacked.worker import Worker  # noqa: E402


def build(seed: int = 0) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def unit_loss(model: torch.nn.Module) -> object:
    return lambda unit: model(torch.randn(8, 4)).square().mean()


def run(n: int, worker: Worker | None = None) -> MaskedDataParallel:
    model, optimizer = build()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    train = MaskedDataParallel(
        model, optimizer, schedules=[schedule], units=4, clip=0.5, worker=worker
    )
    for _ in train.steps(n):
        train.step(unit_loss(model))
    return train


def test_a_state_goes_on_to_the_same_bits() -> None:
    whole, half = run(8), run(4)
    model, optimizer = build(seed=9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    again = MaskedDataParallel(model, optimizer, schedules=[schedule], units=4, clip=0.5)
    again.load_state_dict(half.state_dict())
    again._loop.step = 4
    for _ in again.steps(8):
        again.step(unit_loss(model))
    assert again.state_digest() == whole.state_digest()


def test_a_module_whose_gradients_are_elsewhere_has_the_same_bits(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """As on an accelerator: gradients are copied to where they are added up, and back."""
    here = run(6)
    monkeypatch.setattr("foretell.train.stacked.module._on_host", lambda device: False)
    apart = run(6)
    assert apart._task.host.data_ptr() != apart._task.flat.data_ptr()
    assert apart.state_digest() == here.state_digest()


def test_a_module_whose_gradients_are_added_up_on_its_device_has_the_same_bits(
    monkeypatch,  # type: ignore[no-untyped-def]
) -> None:
    """As on a GPU with ``backend = "torchft"``: nothing but the words goes to the CPU."""
    here = run(6)
    monkeypatch.setattr("foretell.train.stacked.module._on_host", lambda device: False)
    there = run(6, Worker(WorkerSpec(survive=0, backend="torchft")))
    assert there._task.gradient_room.data_ptr() == there._task.flat.data_ptr()
    assert isinstance(there._loop._sum, DeviceSum)
    assert there.state_digest() == here.state_digest()


def test_parameters_on_two_devices_are_refused() -> None:
    mixed = torch.nn.ModuleList([torch.nn.Linear(1, 1), torch.nn.Linear(1, 1, device="meta")])
    with pytest.raises(ParameterError, match="on cpu, meta; needed is one device"):
        MaskedDataParallel(mixed, torch.optim.SGD(mixed.parameters(), lr=0.1), units=2)


def test_rows_cover_an_epoch_once() -> None:
    seen: list[int] = []
    model, optimizer = build()
    train = MaskedDataParallel(model, optimizer, units=3)

    def loss(unit):  # type: ignore[no-untyped-def]
        seen.extend(unit.rows(24, 4).tolist())
        return model(torch.ones(1, 4)).mean()

    for _ in train.steps(2):
        train.step(loss)
    seen = seen[4:]  # the first unit is computed twice, to see whether it is pure
    assert sorted(seen) == list(range(24))
    with pytest.raises(ParameterError, match="fewer than the 12 of a step"):
        Unit(0, 0, 3).rows(8, 4)


def test_what_cannot_be_exact_is_refused_by_name() -> None:
    norm = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    with pytest.raises(ParameterError, match="1 is a BatchNorm1d"):
        MaskedDataParallel(norm, torch.optim.SGD(norm.parameters(), lr=0.1), units=2)
    mixed = torch.nn.ModuleList([torch.nn.Linear(1, 1), torch.nn.Linear(1, 1).double()])
    with pytest.raises(ParameterError, match=r"float32, torch\.float64"):
        MaskedDataParallel(mixed, torch.optim.SGD(mixed.parameters(), lr=0.1), units=2)
    model, _ = build()
    other = torch.nn.Linear(1, 1)
    with pytest.raises(ParameterError, match="not the module's"):
        MaskedDataParallel(model, torch.optim.SGD(other.parameters(), lr=0.1), units=2)


@pytest.mark.parametrize(
    ("loss", "error", "said"),
    [
        (lambda m: lambda u: 3.0, ParameterError, "the loss of a unit is 3.0"),
        (lambda m: lambda u: m(torch.ones(2, 4)), ParameterError, r"shape \(2, 1\)"),
        (lambda m: lambda u: torch.zeros(()), ParameterError, "requires_grad=False"),
        (lambda m: lambda u: m(torch.tensor(np.random.rand(2, 4)).float()).mean(),  # noqa: NPY002
         NumericalError, "computed twice"),
        (lambda m: lambda u: (m.zero_grad(), m(torch.ones(1, 4)).mean())[1], ParameterError,
         "Leave zero_grad"),
    ],
)  # fmt: skip
def test_losses_that_are_none(loss, error, said) -> None:  # type: ignore[no-untyped-def]
    model, optimizer = build()
    train = MaskedDataParallel(model, optimizer, units=2)
    next(train.steps(1))
    with pytest.raises(error, match=said):
        train.step(loss(model))


def test_a_schedule_stepped_by_the_loop_is_noticed() -> None:
    model, optimizer = build()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    train = MaskedDataParallel(model, optimizer, schedules=[schedule], units=2)
    next(train.steps(2))
    train.step(unit_loss(model))
    schedule.step()
    with pytest.raises(ParameterError, match=r"Leave schedule.step\(\) out of the loop"):
        train.step(unit_loss(model))


def test_a_state_of_another_module_is_refused() -> None:
    train = run(1)
    other = torch.nn.Linear(4, 1)
    wrong = MaskedDataParallel(other, torch.optim.SGD(other.parameters(), lr=0.1), units=4)
    with pytest.raises(ArtifactError, match="the state is that of another module"):
        wrong.load_state_dict(train.state_dict())


def test_what_a_loop_remembers_is_a_part_of_the_state() -> None:
    def training() -> tuple[MaskedDataParallel, Every, torch.nn.Module]:
        model, optimizer = build()

        def look(memory: dict[str, float]) -> None:
            length = sum(float(p.detach().square().sum()) for p in model.parameters())
            if length > memory.get("best", 0.0):
                optimizer.param_groups[0]["lr"] /= 2
            memory["best"] = max(length, memory.get("best", 0.0))

        every = Every(2, look)
        return MaskedDataParallel(model, optimizer, schedules=[every], units=2), every, model

    one, remembered, model = training()
    for _ in one.steps(5):
        one.step(unit_loss(model))
    assert remembered.memory["best"] > 0
    other, found, model = training()
    other.load_state_dict(one.state_dict())
    assert found.memory == remembered.memory
    assert (found.state_dict(), other.state_dict()["optimizer.json"].tolist()) == (
        remembered.state_dict(), one.state_dict()["optimizer.json"].tolist()
    )  # fmt: skip
    remembered.memory["best"] = 0.0
    one._loop.step = 3
    with pytest.raises(ParameterError, match="what it remembers was changed"):
        one.step(unit_loss(model))


def test_what_cannot_be_remembered() -> None:
    with pytest.raises(ParameterError, match="n_steps=0"):
        Every(0, print)
    with pytest.raises(ParameterError, match="a function of one dictionary"):
        Every(1, 3)  # type: ignore[arg-type]
    for name, value in (("best", torch.zeros(1)), (3, 4.0)):
        with pytest.raises(ParameterError, match="needed are names and JSON values"):
            Every(1, lambda memory, k=name, v=value: memory.update({k: v})).step()
